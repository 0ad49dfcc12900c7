"""A conversation's entries in the store's indexes: a function of its state."""

from holdfast.conversation.record import Record
from holdfast.conversation.records.calls import Call
from holdfast.conversation.records.state import State, Status
from holdfast.conversation.terms.decisions import SuspensionKind

from .work import busy, due_at


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


class Index(Record):
    """The index entries of one conversation; `pending` in the order of the log.

    `busy`: a turn's beginning, a model call or a run is outstanding. `due_at`: the earliest deadline (ms UTC). `given`: the
    conversation has grants or open votes.
    """

    agent: str
    status: Status
    created_at: int
    pending: tuple[PendingEntry, ...] = ()
    busy: bool = False
    due_at: int | None = None
    given: bool = False


def has_given(state: State) -> bool:
    """Whether the conversation has grants, or votes in calls that wait."""
    return not state.ended and (bool(state.grants) or state.calls.any_voted)


def index(state: State) -> Index:
    """The index entries that follow from a state."""
    entries = [entry for call in state.calls.awaiting() if (entry := PendingEntry.of(call)) is not None]
    return Index(
        agent=state.agent,
        status=state.status,
        created_at=state.created_at,
        pending=tuple(sorted(entries, key=lambda entry: entry.seq)),
        busy=busy(state),
        due_at=due_at(state),
        given=has_given(state),
    )
