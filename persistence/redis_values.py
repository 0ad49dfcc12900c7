"""What the scripts are given and what Redis holds, as values: arguments, entries, members, records."""

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.conversation import Event, State, Status, evolve
from holdfast.conversation.idempotency import facts
from holdfast.conversation.index import PendingEntry
from holdfast.conversation.machine import busy, due_at
from holdfast.errors import CorruptStore, NewerRecord, UnsupportedServer

from . import codec
from .conversations import Append, Owner, Quarantine
from .directory import Binding
from .keys import BUCKETS
from .lists import ConversationRow
from .payloads import Payloads
from .runs import Late, Run, RunStatus

OLDEST_SERVER = (6, 2)
MOST_DIGITS = 19
LAYOUT_VERSION = 1
INDEX_VERSION = 2
"""Of what heads and indexes hold and how they are keyed.

2: a head holds how many suspensions are open; which they are follows from the log, and an append says what comes and goes.
1: a head holds the list of its open suspensions. It is read, and what is written next to the head makes it one of version 2;
   the stored version is raised before that, so that no older release opens a namespace that it could not write to.
"""


def append_args(conversation_id: str, prefix: str, write: Append, payloads: Payloads) -> tuple[list[str | bytes | int], int]:
    """The arguments of `append.lua`, whose header names them, and the size of the log's tail after it.

    Raises:
        CipherFailed: Not all of it can be encrypted.
    """
    changes = write.delta
    first = write.before.seq + 1
    known = facts(write.events, first)
    entries = [payloads.seal_event(conversation_id, seq, event) for seq, event in enumerate(write.events, first)]
    tail_bytes = write.tail_bytes + sum(map(len, entries))
    snapshot = payloads.seal_state(conversation_id, write.after) if write.snapshot(tail_bytes) else b""
    due = due_at(write.after)
    args: list[str | bytes | int] = [
        write.token,
        write.append_id,
        write.before.seq,
        write.lease_ms,
        conversation_id,
        prefix,
        snapshot,
        int(busy(write.after)),
        "" if due is None else due,
        packed_index(write.after),
        len(entries),
        len(write.absent),
        len(known),
        len(changes.scheduled),
        len(changes.settled),
        int(write.advances),
        len(changes.opened),
        len(changes.closed),
        *entries,
        *write.absent,
        *(part for key, value in known.items() for part in (key, payloads.seal_known(conversation_id, key, value))),
        *changes.scheduled,
        *changes.settled,
        *members_of(conversation_id, changes.opened),
        *members_of(conversation_id, changes.closed),
    ]
    return args, 0 if snapshot else tail_bytes


def packed_index(state: State) -> bytes:
    """What the head says of a conversation in the lists; what has not begun stands in none."""
    if not state.seq:
        return b""
    return codec.pack([state.agent, state.status, state.created_at, state.calls.suspended_count])


def members_of(conversation_id: str, entries: Sequence[PendingEntry]) -> list[str]:
    """Kind and member, in turns, of open suspensions in the pending indexes."""
    return [part for entry in entries for part in (entry.kind.value, member_of(conversation_id, entry))]


def member_of(conversation_id: str, entry: PendingEntry) -> str:
    """The member of a pending index that an open suspension is."""
    return f"{entry.created_at:015d}|{entry.suspension_id}|{conversation_id}|{entry.seq}"


def fold(
    conversation_id: str, snapshot: bytes, tail: Sequence[tuple[bytes, Sequence[bytes]]], seq: int, payloads: Payloads
) -> State:
    """The state that a snapshot and the tail after it lead to."""
    state = payloads.open_state(conversation_id, snapshot)
    for entry_id, fields in tail:
        if seq_of(entry_id) != state.seq + 1:
            raise CorruptStore(f"the log of {conversation_id!r} lacks entry {state.seq + 1}")
        by_name = dict(zip(fields[::2], fields[1::2], strict=True))
        event = event_of(conversation_id, state.seq + 1, by_name, payloads)
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


def event_of(conversation_id: str, seq: int, fields: Mapping[bytes, bytes], payloads: Payloads) -> Event:
    """The event in the fields of a log entry."""
    if b"e" not in fields:
        raise CorruptStore("a log entry holds no event")
    return payloads.open_event(conversation_id, seq, fields[b"e"])


def number_of(value: bytes, what: str) -> int:
    """A number that Holdfast wrote as digits.

    Raises:
        CorruptStore: It is none.
    """
    if value.isdigit() and len(value) <= MOST_DIGITS:
        return int(value)
    raise CorruptStore(f"{what} reads {value[:20]!r}")


def owner_of(conversation_id: str, head: Sequence[bytes | None], payloads: Payloads) -> Owner | None:
    """Who owns a conversation, from what the head holds; None if nobody has started it, or is about to."""
    token, epoch, holder, seq, reason, at = head
    started = number_of(seq or b"0", "the head's seq") > 0
    if not started and not token:
        return None
    return Owner(
        (token or b"").decode(errors="replace"),
        number_of(epoch or b"0", "the head's epoch"),
        (holder or b"").decode(errors="replace"),
        started=started,
        quarantine=quarantine_of(conversation_id, reason, at, payloads),
    )


def row_of(conversation_id: str, packed: bytes, at: bytes | None) -> ConversationRow:
    """A row of a list, from what the head holds."""
    try:
        name, stands, created_at, waiting = codec.unpack(packed)
        count = len(waiting) if isinstance(waiting, list) else int(waiting)  # a list: as index version 1 has it
        return ConversationRow(conversation_id, name, Status(stands), created_at, int(at or 0), count)
    except (ValueError, TypeError, OverflowError) as error:
        raise CorruptStore(f"the head of {conversation_id!r} cannot be read ({error})") from error


def run_of(conversation_id: str, effect_id: str, record: bytes, payloads: Payloads) -> Run:
    """A run record."""
    status, _, rest = record.partition(b"|")
    incarnation, _, last = rest.partition(b"|")
    match status:
        case b"R":
            return Run(RunStatus.RUNNABLE)
        case b"C":
            return Run(RunStatus.CLAIMED, incarnation=incarnation.decode(), worker=last.decode())
        case b"D":
            outcome = payloads.open_outcome(conversation_id, effect_id, last)
            return Run(RunStatus.DONE, incarnation=incarnation.decode(), outcome=outcome)
        case _:
            raise CorruptStore(f"a run record reads {record[:20]!r}")


def quarantine_of(conversation_id: str, reason: bytes | None, at: bytes | None, payloads: Payloads) -> Quarantine | None:
    """Why and since when a conversation is in quarantine, from what the head holds; None if it is not."""
    if reason is None:
        return None
    said = payloads.open_text(reason, "quarantine", conversation_id)
    return Quarantine(said, number_of(at or b"0", "a quarantine's time"))


def readable(answers: Sequence[Any]) -> list[Any]:
    """The answers of a pipeline but for keys of a wrong type; any other error is raised."""
    for answer in answers:
        if isinstance(answer, Exception) and "WRONGTYPE" not in str(answer):
            raise answer
    return [answer for answer in answers if not isinstance(answer, Exception)]


def late_of(conversation_id: str, effect_id: str, record: bytes, payloads: Payloads) -> Late:
    """An outcome that came late; one that cannot be decrypted stays encrypted, and no other is lost for it."""
    at, _, rest = record.partition(b"|")
    if not at.isdigit():
        raise CorruptStore(f"a late outcome reads {record[:20]!r}")
    outcome = rest.partition(b"|")[2]
    return Late(at=int(at), outcome=payloads.open_late_outcome(conversation_id, effect_id, outcome))


def binding_of(found: Sequence[bytes | None], now: int) -> Binding | None:
    """The binding in the fields `cluster`, `address` and `at`; None if there is none."""
    cluster, address, at = found
    if cluster is None:
        return None
    with contextlib.suppress(ValueError):  # of what is no text, or of more digits than a number has
        if address is not None and at is not None and at.isdigit():
            return Binding(cluster.decode(), address.decode(), max(now - int(at), 0))
    raise CorruptStore("the binding cannot be read")


def check_version(version: str) -> None:
    """Refuse a server that is too old.

    Raises:
        UnsupportedServer: It is older than Redis 6.2.
    """
    numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
    if numbers < OLDEST_SERVER:
        raise UnsupportedServer("redis_url", f"the server has version {version}", "use Redis 6.2 or later, or Valkey")


def check_layout(layout: Mapping[bytes, bytes]) -> int:
    """Refuse a namespace that this code cannot read; the version of its indexes.

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
    return int(indexes)


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
