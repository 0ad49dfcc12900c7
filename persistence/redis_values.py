"""What the scripts are given and what Redis holds, as values: arguments, entries, members, records."""

from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.conversation import (
    CorruptStore,
    Event,
    Index,
    NewerRecord,
    State,
    Status,
    UnsupportedServer,
    evolve,
    facts,
    index,
)

from . import codec
from .keys import BUCKETS
from .store import Append, Late, Owner, Quarantine, Row, Run, RunStatus

OLDEST_SERVER = (6, 2)
LAYOUT_VERSION = 1
INDEX_VERSION = 1
"""Of what the indexes hold and how they are keyed; a namespace with an older one is read after `holdfast reindex`."""


def append_args(conversation_id: str, prefix: str, write: Append) -> list[str | bytes | int]:
    """The arguments of `append.lua`; its header names them."""
    packed, entries = packed_index(write.after)
    known = facts(write.events, write.before.seq + 1)
    pairs = [part for key, value in known.items() for part in (key, codec.encode_known(value))]
    scheduled, settled = write.scheduled, write.settled
    return [
        write.token,
        write.append_id,
        write.before.seq,
        write.lease_ms,
        conversation_id,
        prefix,
        codec.encode_state(write.after) if write.snapshot else "",
        int(entries.busy),
        "" if entries.due_at is None else entries.due_at,
        packed,
        len(write.events),
        len(write.absent),
        len(known),
        len(scheduled),
        len(settled),
        int(write.progress),
        *(codec.encode_event(event) for event in write.events),
        *write.absent,
        *pairs,
        *scheduled,
        *settled,
    ]


def packed_index(state: State) -> tuple[bytes, Index]:
    """What the head says of a conversation's index entries, and the entries; what has not begun stands in no list."""
    entries = index(state)
    waiting = [[entry.created_at, entry.suspension_id, entry.kind, entry.seq] for entry in entries.pending]
    return codec.pack([entries.agent, entries.status, entries.created_at, waiting]) if state.seq else b"", entries


def fold(conversation_id: str, snapshot: bytes, tail: Sequence[tuple[bytes, Sequence[bytes]]], seq: int) -> State:
    """The state that a snapshot and the tail after it lead to."""
    state = codec.decode_state(snapshot) if snapshot else State(conversation_id=conversation_id)
    for entry_id, fields in tail:
        if seq_of(entry_id) != state.seq + 1:
            raise CorruptStore(f"the log of {conversation_id!r} lacks entry {state.seq + 1}")
        event = event_of(dict(zip(fields[::2], fields[1::2], strict=True)))
        try:
            state = evolve(state, event)
        except ValueError as error:
            raise CorruptStore(f"the log of {conversation_id!r} cannot be folded ({error})") from error
    if state.seq != seq:
        raise CorruptStore(f"the log of {conversation_id!r} ends at {state.seq}, its head says {seq}")
    return state


def seq_of(entry_id: bytes) -> int:
    """The place in the log that an entry id names."""
    return int(entry_id.split(b"-", 1)[0])


def event_of(fields: Mapping[bytes, bytes]) -> Event:
    """The event in the fields of a log entry."""
    if b"e" not in fields:
        raise CorruptStore("a log entry holds no event")
    return codec.decode_event(fields[b"e"])


def place_of(member: str) -> tuple[str, int]:
    """The conversation and the place in its log that a member of a pending index names."""
    match member.split("|"):
        case [created_at, _, conversation_id, seq] if created_at.isdigit() and seq.isdigit():
            return conversation_id, int(seq)
    raise CorruptStore(f"an index of pending calls holds {member!r:.80}")


def conversation_of(member: str) -> str:
    """The conversation that a member of a conversations index names."""
    match member.split("|"):
        case [created_at, conversation_id] if created_at.isdigit():
            return conversation_id
    raise CorruptStore(f"an index of conversations holds {member!r:.80}")


def row_of(conversation_id: str, packed: bytes, at: bytes | None) -> Row:
    """A row of a list, from what the head holds."""
    try:
        name, stands, created_at, waiting = codec.unpack(packed)
        return Row(conversation_id, name, Status(stands), created_at, int(at or 0), len(waiting))
    except (ValueError, TypeError) as error:
        raise CorruptStore(f"the head of {conversation_id!r} cannot be read ({error})") from error


def run_of(record: bytes) -> Run:
    """A run record."""
    status, _, rest = record.partition(b"|")
    incarnation, _, last = rest.partition(b"|")
    match status:
        case b"R":
            return Run(RunStatus.RUNNABLE)
        case b"C":
            return Run(RunStatus.CLAIMED, incarnation=incarnation.decode(), worker=last.decode())
        case b"D":
            return Run(RunStatus.DONE, incarnation=incarnation.decode(), outcome=last)
        case _:
            raise CorruptStore(f"a run record reads {record[:20]!r}")


def owner_of(conversation_id: str, head: Sequence[bytes | None]) -> Owner | None:
    """Who owns a conversation, from what the head holds; None if nobody has started it, or is about to."""
    token, epoch, holder, seq, reason, at = head
    try:
        started = int(seq or 0) > 0
        if not started and not token:
            return None
        return Owner(
            (token or b"").decode(),
            int(epoch or 0),
            (holder or b"").decode(),
            started=started,
            quarantine=quarantine_of(reason, at),
        )
    except ValueError as error:
        raise CorruptStore(f"the head of {conversation_id!r} cannot be read ({error})") from error


def quarantine_of(reason: bytes | None, at: bytes | None) -> Quarantine | None:
    """Why and since when a conversation is in quarantine, from what the head holds; None if it is not."""
    if reason is None:
        return None
    return Quarantine(reason.decode(errors="replace"), int(at) if at is not None and at.isdigit() else 0)


def readable(answers: Sequence[Any]) -> list[Any]:
    """The answers of a pipeline but for keys of a wrong type; any other error is raised."""
    for answer in answers:
        if isinstance(answer, Exception) and "WRONGTYPE" not in str(answer):
            raise answer
    return [answer for answer in answers if not isinstance(answer, Exception)]


def late_of(record: bytes) -> Late:
    """An outcome that came late."""
    at, _, rest = record.partition(b"|")
    if not at.isdigit():
        raise CorruptStore(f"a late outcome reads {record[:20]!r}")
    return Late(at=int(at), outcome=rest.partition(b"|")[2])


def check_version(version: str) -> None:
    """Refuse a server that is too old.

    Raises:
        UnsupportedServer: It is older than Redis 6.2.
    """
    numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
    if numbers < OLDEST_SERVER:
        raise UnsupportedServer("redis_url", f"the server has version {version}", "use Redis 6.2 or later, or Valkey")


def check_layout(layout: Mapping[bytes, bytes]) -> None:
    """Refuse a namespace that this code cannot read.

    Raises:
        NewerRecord: A newer Holdfast laid it out.
        CorruptStore: It cannot be read, or has other buckets.
    """
    if not (layout.get(b"version", b"").isdigit() and layout.get(b"buckets", b"").isdigit()):
        raise CorruptStore("the layout of the namespace cannot be read")
    version = int(layout[b"version"])
    if version > LAYOUT_VERSION:
        raise NewerRecord("layout", version, LAYOUT_VERSION)
    indexes = layout.get(b"indexes", b"1")
    if not indexes.isdigit():
        raise CorruptStore("the layout of the namespace cannot be read")
    if int(indexes) > INDEX_VERSION:
        raise NewerRecord("index", int(indexes), INDEX_VERSION)
    buckets = int(layout[b"buckets"])
    if buckets != BUCKETS:
        raise CorruptStore(f"the namespace was laid out in {buckets} buckets, this code uses {BUCKETS}")


def weaknesses(settings: Mapping[str, str], replicas: int) -> list[str]:
    """In which cases a server with these settings may lose what it acknowledged."""
    found = []
    if settings.get("appendonly") == "no":
        found.append("Redis keeps no append-only file: a restart loses what was acknowledged (set appendonly yes)")
    elif settings.get("appendfsync", "always") != "always":
        found.append("Redis writes to the disk late: a power failure may lose the last commands (set appendfsync always)")
    if settings.get("maxmemory-policy", "noeviction") != "noeviction":
        found.append("Redis evicts keys when it is full, and conversations with them (set maxmemory-policy noeviction)")
    if replicas and settings.get("min-replicas-to-write", "0") == "0":
        found.append("a failover may lose what replicas have not received (set min-replicas-to-write)")
    return found
