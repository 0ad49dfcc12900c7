"""What the store's indexes say of a conversation: a function of its state, rewritten by every append."""

from .calls import SuspensionKind
from .machine import due_at, outstanding
from .record import Record
from .state import State, Status


class PendingEntry(Record):
    """One open suspension; `seq` is that of its `CallSuspended`."""

    created_at: int
    suspension_id: str
    kind: SuspensionKind
    seq: int


class Index(Record):
    """The index entries of one conversation.

    `busy` says that a turn's beginning, a model call or a run is outstanding; `due_at` is the earliest deadline.
    """

    agent: str
    status: Status
    created_at: int
    pending: tuple[PendingEntry, ...] = ()
    busy: bool = False
    due_at: int | None = None


def index(state: State) -> Index:
    """The index entries that follow from a state."""
    return Index(
        agent=state.agent,
        status=state.status,
        created_at=state.created_at,
        pending=tuple(
            PendingEntry(
                created_at=call.suspension.created_at,
                suspension_id=call.suspension.suspension_id,
                kind=call.suspension.kind,
                seq=call.suspension.seq,
            )
            for call in state.calls
            if call.suspension is not None
        ),
        busy=bool(outstanding(state)),
        due_at=due_at(state),
    )
