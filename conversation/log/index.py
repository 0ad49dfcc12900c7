"""What the store's indexes hold of a conversation: functions of its state."""

from holdfast.conversation.record import Record
from holdfast.conversation.records.calls import Call
from holdfast.conversation.records.state import State
from holdfast.conversation.terms.decisions import SuspensionKind


class PendingEntry(Record):
    """The index entry of one open suspension; `created_at` is in ms UTC, `seq` is that of its `CallSuspended`."""

    created_at: int
    suspension_id: str
    kind: SuspensionKind
    seq: int

    @classmethod
    def of(cls, call: Call | None) -> "PendingEntry | None":
        """The entry of a call's open suspension; None if it has none."""
        if call is None or call.suspension is None:
            return None
        return cls(**{name: getattr(call.suspension, name) for name in cls.model_fields})


def has_given(state: State) -> bool:
    """Whether the conversation has grants, or votes in calls that wait."""
    return not state.ended and (bool(state.grants) or state.calls.any_voted)


def pending_entries(state: State) -> tuple[PendingEntry, ...]:
    """The entries of a state's open suspensions, in the order of the log."""
    entries = [entry for call in state.calls.awaiting() if (entry := PendingEntry.of(call)) is not None]
    return tuple(sorted(entries, key=lambda entry: entry.seq))
