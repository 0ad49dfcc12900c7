"""The store's index entries of a conversation, derived from its state, and how a write changes them."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from holdfast.conversation.record import Record
from holdfast.conversation.records import events as recorded
from holdfast.conversation.records.calls import Call, CallStatus
from holdfast.conversation.records.event_base import CallEvent, ChainLink, Note, StopReason
from holdfast.conversation.records.events import CallResolved, Event, GivenRevoked, SuspensionSettled, VoteCast
from holdfast.conversation.records.idempotency import (
    IdempotencyRecord,
    call_key,
    decision_key,
    message_key,
    notes_key,
    request_digest,
    request_key,
    result_key,
    suspension_key,
)
from holdfast.conversation.records.rounds import NO_CALLS, Round
from holdfast.conversation.records.state import State, Status
from holdfast.conversation.terms.decisions import SuspensionKind

_T = TypeVar("_T")


class PendingEntry(Record):
    """The index entry of one open suspension; times are in ms UTC, `seq` is that of its `CallSuspended`.

    Whoever may settle it is one of `who` (`role:finance`, `id:ana`); empty: anybody may be.
    """

    created_at: int
    suspension_id: str
    kind: SuspensionKind
    seq: int
    expires_at: int
    tool: str
    who: tuple[str, ...] = ()

    @classmethod
    def of(cls, call: Call | None) -> "PendingEntry | None":
        """The entry of a call's open suspension; None if it has none, or waits for a machine."""
        if call is None or call.suspension is None or call.suspension.source:
            return None
        groups = () if call.deciders is None else call.deciders.who
        one = call.suspension
        return cls(
            created_at=one.created_at,
            suspension_id=one.suspension_id,
            kind=one.kind,
            seq=one.seq,
            expires_at=one.expires_at,
            tool=call.tool,
            who=min(groups, key=len, default=()),  # a decider is in each group, so the smallest one finds all
        )


def has_given(state: State) -> bool:
    """Whether the conversation has grants, or votes on pending calls."""
    return not state.ended and (bool(state.grants) or state.calls.any_voted)


def stopped_by(state: State) -> StopReason | None:
    """What stopped the conversation's last turn, or cut its reply off; None if nothing did."""
    return None if state.last is None else state.last.stopped


def pending_entries(state: State) -> tuple[PendingEntry, ...]:
    """The entries of a state's open suspensions that wait for people, in the order of the log."""
    entries = [entry for call in state.calls.awaiting() if (entry := PendingEntry.of(call)) is not None]
    return tuple(sorted(entries, key=lambda entry: entry.seq))


@dataclass(frozen=True, slots=True)
class Delta:
    """The suspensions that open and close, and the effect ids of work that becomes outstanding (`scheduled`) or is over.

    `noted` are suspensions that stay open and have a new vote, comment or assignment. Work here means model calls and runs,
    which workers do and records describe; the beginning of a turn is not work.
    """

    opened: tuple[PendingEntry, ...] = ()
    closed: tuple[PendingEntry, ...] = ()
    noted: tuple[PendingEntry, ...] = ()
    scheduled: tuple[str, ...] = ()
    settled: tuple[str, ...] = ()


_NOTES = (Note, VoteCast, recorded.CallEscalated, recorded.CallGivenBack)
_ABOUT = (CallEvent, SuspensionSettled, CallResolved, recorded.CallEscalated, recorded.CallClaimed, recorded.CallGivenBack)


def delta(before: State, after: State, events: Sequence[Event]) -> Delta:
    """The changes between two states, given the events between them; the cost grows with the events, not with the states."""
    ids = {event.tool_call_id: None for event in events if isinstance(event, _ABOUT)}
    old, new = _calls(before), _calls(after)
    if _answer(before) != _answer(after):  # the calls of an earlier answer are over, named or not
        ids |= {call.tool_call_id: None for call in old.open()}
    calls = [(old.of(tool_call_id), new.of(tool_call_id)) for tool_call_id in ids]
    closed, opened = _replaced([(PendingEntry.of(was), PendingEntry.of(now)) for was, now in calls])
    work = [(_run(was), _run(now)) for was, now in calls]
    settled, scheduled = _replaced([*work, (_model_call(before), _model_call(after))])
    return Delta(opened, closed, _noted(events, new, opened), scheduled, settled)


def _replaced(pairs: Iterable[tuple[_T | None, _T | None]]) -> tuple[tuple[_T, ...], tuple[_T, ...]]:
    """What is gone and what has come, of pairs of what was and what is now; None stands for nothing."""
    changed = [(was, now) for was, now in pairs if was != now]
    return tuple(was for was, _ in changed if was is not None), tuple(now for _, now in changed if now is not None)


def _noted(events: Sequence[Event], new: Round, opened: Sequence[PendingEntry]) -> tuple[PendingEntry, ...]:
    told = [event.tool_call_id for event in events if isinstance(event, _NOTES)]
    withdrawn = {vote.suspension_id for event in events if isinstance(event, GivenRevoked) for vote in event.votes}
    if withdrawn:
        told += [call.tool_call_id for call in new.awaiting() if call.suspension and call.suspension.suspension_id in withdrawn]
    entries = (PendingEntry.of(new.of(tool_call_id)) for tool_call_id in dict.fromkeys(told))
    return tuple(entry for entry in entries if entry is not None and entry not in opened)


def _calls(state: State) -> Round:
    return NO_CALLS if state.ended else state.calls


def _answer(state: State) -> tuple[str, int] | None:
    return None if state.turn is None or state.ended else (state.turn.turn_id, state.turn.answered_at)


def _model_call(state: State) -> str | None:
    if state.turn is None or state.status is not Status.GENERATING:
        return None
    return state.turn.model_effect_id


def _run(call: Call | None) -> str | None:
    return call.effect_id if call is not None and call.status is CallStatus.RUNNING else None


def facts(log: Sequence[Event], first_seq: int) -> dict[str, IdempotencyRecord]:
    """The idempotency records of consecutive events, by key; `first_seq` is the first event's `seq`."""
    return {key: known for seq, event in enumerate(log, first_seq) for key, known in _facts_of(event, seq)}


def _facts_of(event: Event, seq: int) -> Iterator[tuple[str, IdempotencyRecord]]:
    head = event.head if isinstance(event, ChainLink) else ""
    record = partial(IdempotencyRecord, seq=seq, at=event.at)
    if isinstance(event, _NOTES):
        yield notes_key(event.suspension_id), record()
    match event:
        case recorded.MessageAccepted():
            yield message_key(event.message_id), record(digest=event.digest, head=head)
        case recorded.ModelAnswered():
            yield from ((call_key(call.tool_call_id), record()) for call in event.calls)
        case SuspensionSettled():
            settled = record(by=event.by, tool_call_id=event.tool_call_id)
            yield from ((suspension_key(event.suspension_id), settled), (call_key(event.tool_call_id), settled))
            if event.decision_id is not None:
                decided = record(digest=event.digest, votes=event.votes, needed=event.needed, head=head)
                yield decision_key(event.decision_id), decided
        case VoteCast():
            voted = record(digest=event.digest, votes=event.votes, needed=event.needed, settled=False, head=head)
            yield decision_key(event.decision_id), voted
        case CallResolved():
            yield result_key(event.tool_call_id), record(by=event.by)
        case GivenRevoked():
            yield from ((notes_key(vote.suspension_id), record()) for vote in event.votes)
        case recorded.InputRescheduled():
            yield request_key(event.request_id), record(digest=event.digest, head=head)
            return
        case recorded.InputSuperseded():
            said = {"turn_id": event.turn_id, "calls": event.calls, "messages": event.message_ids, "epoch": event.epoch}
            yield request_key(event.request_id), record(digest=event.digest, head=head, **said)
            return
    request_id = vars(event).get("request_id")
    if request_id is not None:
        kind = event.what if isinstance(event, recorded.NothingCancelled) else _REQUESTS[type(event)]
        answered = record(head=head, digest=request_digest(kind, event))
        if isinstance(event, recorded.TurnCancelled | recorded.PendingCancelled):
            answered = answered.model_copy(update={"turn_id": event.turn_id, "calls": event.calls})
        elif isinstance(event, recorded.CallClaimed):
            answered = answered.model_copy(update={"attempt": event.attempt})
        yield request_key(request_id), answered


_REQUESTS = {
    recorded.CallAssigned: "assign",
    recorded.CallCommented: "comment",
    recorded.CallSnoozed: "snooze",
    recorded.CallEscalated: "escalate",
    recorded.CallClaimed: "claim",
    recorded.CallGivenBack: "give_back",
    recorded.InputWithdrawn: "withdraw",
    recorded.CompactionRequested: "compact",
    recorded.TurnCancelled: "cancel",
    recorded.PendingCancelled: "cancel_pending",
    recorded.GrantRevoked: "revoke",
    GivenRevoked: "revoke_given",
    recorded.Ended: "end",
}
"""The kind of the request that an event with a `request_id` answers."""
