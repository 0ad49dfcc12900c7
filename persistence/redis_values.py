"""The values that scripts are given and Redis holds: arguments, log entries, index members, records.

Each reading function raises `CorruptStore` for what Holdfast never wrote.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.conversation import Event, State, Status, StopReason, evolve
from holdfast.conversation.log.index import PendingEntry, facts, has_given, stopped_by
from holdfast.conversation.records.idempotency import IdempotencyRecord
from holdfast.conversation.terms.budget import DAY_MS
from holdfast.conversation.text import jsontext
from holdfast.errors import CorruptStore, NewerRecord

from . import codec, pages
from .codec import Payloads
from .conversations import MOST_PASSING, PASSING_MS, Append, Quarantine
from .keys import BUCKETS
from .lists import ConversationRow
from .outbox import envelope_text
from .runs import Late, Run, RunStatus

LAYOUT_VERSION = 1
NEWS = b"#"
"""The message that an append publishes on a conversation's live channel; no live event begins so."""
SPENT_MS = 3 * DAY_MS
"""How long (ms) it is kept what an agent has used on a day."""
INDEX_VERSION = 3
"""The version of the contents and keys of heads and indexes.

2: a head holds the number of open suspensions; the log holds the suspensions, and an append names those that open and close.
1: a head holds the list of its open suspensions. It can still be read, and the next write turns it into version 2; the stored
   version is raised before that, so that no older release opens a namespace that it could not write to.
"""


def append_args(conversation_id: str, prefix: str, write: Append, payloads: Payloads) -> tuple[dict[str, Any], int]:
    """The arguments of `append.lua`, by the names in its header, and the size in bytes of the log tail after the append."""
    changes, first = write.delta, write.before.seq + 1
    entries = [payloads.seal_event(conversation_id, seq, event) for seq, event in enumerate(write.events, first)]
    tail_bytes = write.tail_bytes + sum(map(len, entries))
    snapshot = payloads.seal_state(conversation_id, write.after) if write.snapshot(tail_bytes) else None

    def sealed(records: Mapping[str, IdempotencyRecord]) -> list[str | bytes]:
        return [part for key, one in records.items() for part in (key, payloads.seal_known(conversation_id, key, one))]

    told: dict[str, Any] = {
        "token": write.token,
        "seen": write.seen,
        "claim": write.claim,
        "until_ms": write.until_ms,
        "append_id": write.append_id,
        "conversation": conversation_id,
        "prefix": prefix,
        "expected": write.before.seq,
        "lease_ms": write.lease_ms,
        "events": entries,
        "snapshot": snapshot,
        "index": packed_index(write.after),
        "busy": write.after.busy,
        "progress": write.advances,
        "due": write.due,
        "grants": write.after.grants_epoch or None,
        "absent": list(write.absent),
        "known": sealed(facts(write.events, first)),
        "passing": sealed(write.passing),
        "most_passing": MOST_PASSING,
        "passing_ms": PASSING_MS,
        "add": [*changes.scheduled, *write.unrecorded],
        "remove": list(changes.settled),
        "opened": members_of(conversation_id, changes.opened),
        "closed": members_of(conversation_id, changes.closed),
        "noted": " ".join(f"{one.kind} {pages.pending_member(conversation_id, one)}" for one in changes.noted),
    }
    if write.spent is not None:
        day, spent = write.spent
        told["spent"] = [f"{write.after.agent}:{day}", spent.tokens, spent.nano_usd, SPENT_MS]
    if write.owed:
        told["owed"] = [part for one in write.owed for part in (one.target, envelope_text(one))]
    if write.quarantine_owes:
        told["quarantine_owes"] = codec.pack(list(write.quarantine_owes))
    return {name: value for name, value in told.items() if value is not None}, tail_bytes if snapshot is None else 0


def packed_index(state: State) -> bytes:
    """The head's field for lists; empty for a conversation that has not begun, which is in no list."""
    if not state.seq:
        return b""
    given, stopped = has_given(state), stopped_by(state)
    more = (given, stopped) if stopped is not None else (True,) if given else ()
    return codec.pack([state.agent, state.status, state.created_at, state.calls.suspended_count, *more])


def members_of(conversation_id: str, entries: Sequence[PendingEntry]) -> list[list[str]]:
    """Of each open suspension its kind and its members of the pending indexes, as `_prelude.lua` takes them."""
    return [
        [
            entry.kind.value,
            pages.pending_member(conversation_id, entry),
            *(part for pair in pages.further_members(conversation_id, entry) for part in pair),
        ]
        for entry in entries
    ]


def fold(
    conversation_id: str, snapshot: bytes, tail: Sequence[tuple[bytes, Sequence[bytes]]], seq: int, payloads: Payloads
) -> State:
    """The state folded from a snapshot and the log tail after it."""
    state = payloads.open_state(conversation_id, snapshot)
    for entry_id, fields in tail:
        if seq_of(entry_id) != state.seq + 1:
            raise CorruptStore(f"the log of {conversation_id!r} lacks entry {state.seq + 1}")
        _, event = entry_of(conversation_id, entry_id, fields, payloads)
        try:
            state = evolve(state, event)
        except ValueError as error:
            raise CorruptStore(f"the log of {conversation_id!r} cannot be folded ({error})") from error
    if state.seq != seq:
        raise CorruptStore(f"the log of {conversation_id!r} ends at {state.seq}, its head says {seq}")
    return state


def size_of(tail: Sequence[tuple[bytes, Sequence[bytes]]]) -> int:
    """The size in bytes of log entries."""
    return sum(len(part) for _, fields in tail for part in fields[1::2])


def entry_of(conversation_id: str, entry_id: bytes, fields: Any, payloads: Payloads) -> tuple[int, Event]:
    """The place and event of a log entry; its fields are a mapping, or alternating names and values as scripts answer."""
    seq = seq_of(entry_id)
    by_name = fields if isinstance(fields, Mapping) else dict(zip(fields[::2], fields[1::2], strict=True))
    return seq, event_of(conversation_id, seq, by_name, payloads)


def seq_of(entry_id: bytes) -> int:
    """The place in the log, from an entry id."""
    return int(entry_id.split(b"-", 1)[0])


def event_of(conversation_id: str, seq: int, fields: Mapping[bytes, bytes], payloads: Payloads) -> Event:
    """The event in the fields of a log entry."""
    if b"e" not in fields:
        raise CorruptStore("a log entry holds no event")
    return payloads.open_event(conversation_id, seq, fields[b"e"])


def row_of(conversation_id: str, packed: bytes, at: bytes | None) -> ConversationRow:
    """The row of a conversation in a list, from fields of its head."""
    try:
        name, stands, created_at, waiting, *more = codec.unpack(packed)
        count = len(waiting) if isinstance(waiting, list) else int(waiting)  # index version 1 has a list
        updated_at = int(at or 0)
        if isinstance(name, str) and all(isinstance(one, int) and one >= 0 for one in (created_at, updated_at, count)):
            stopped = StopReason(more[1]) if len(more) > 1 else None
            about = created_at, updated_at, count
            return ConversationRow(conversation_id, jsontext.clean(name), Status(stands), *about, stopped=stopped)
    except (ValueError, TypeError, OverflowError) as error:
        raise CorruptStore(f"the head of {conversation_id!r} cannot be read ({error})") from error
    raise CorruptStore(f"the head of {conversation_id!r} holds other values than Holdfast writes")


def run_of(conversation_id: str, effect_id: str, record: bytes, payloads: Payloads) -> Run:
    """The run in a stored run record."""
    status, _, rest = record.partition(b"|")
    incarnation, _, last = rest.partition(b"|")
    match status:
        case b"R":
            return Run(RunStatus.RUNNABLE)
        case b"C":
            return Run(RunStatus.CLAIMED, incarnation=incarnation.decode(), worker=last.decode())
        case b"B":
            until, _, worker = last.partition(b"|")
            bound = codec.number_of(until, "a claim's bound")
            return Run(RunStatus.CLAIMED, incarnation=incarnation.decode(), worker=worker.decode(), until=bound)
        case b"D":
            outcome = payloads.open_outcome(conversation_id, effect_id, last)
            return Run(RunStatus.DONE, incarnation=incarnation.decode(), outcome=outcome)
        case _:
            raise CorruptStore(f"a run record reads {record[:20]!r}")


def quarantine_of(conversation_id: str, reason: bytes | None, at: bytes | None, payloads: Payloads) -> Quarantine | None:
    """The quarantine, from fields of a head; None if there is none."""
    if reason is None:
        return None
    said = payloads.open_text(reason, "quarantine", conversation_id)
    return Quarantine(said, codec.number_of(at or b"0", "a quarantine's time"))


def late_of(conversation_id: str, effect_id: str, record: bytes, payloads: Payloads) -> Late:
    """The late outcome in a stored record; one that cannot be decrypted stays encrypted, so that others can be read."""
    at, _, rest = record.partition(b"|")
    if not at.isdigit():
        raise CorruptStore(f"a late outcome reads {record[:20]!r}")
    outcome = rest.partition(b"|")[2]
    return Late(at=int(at), outcome=payloads.open_or_leave(outcome, "outcome", conversation_id, effect_id))


def check_layout(layout: Mapping[bytes, bytes]) -> int:
    """The version of a namespace's indexes, if this code can read the namespace.

    Raises:
        NewerRecord: A newer Holdfast laid the namespace out.
        CorruptStore: The layout cannot be read, or has another number of buckets.
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
    """The ways in which a server with these settings may lose acknowledged writes, one sentence each."""
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
