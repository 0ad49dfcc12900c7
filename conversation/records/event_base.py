"""The base classes of events."""

from typing import ClassVar

from holdfast.conversation.record import Record
from holdfast.conversation.terms.principal import Principal

from .calls import CallDetails


class EventBase(Record, defer_build=True):
    """The base of every event.

    Attributes:
        at: When it was decided, in integer milliseconds UTC by the store's clock.
    """

    kind: str
    at: int


class ChainLink(EventBase):
    """An event that can be a link of the audit chain.

    Attributes:
        salt: The salt of its digests in the audit chain; empty if an older release wrote it.
        head: The head of the audit chain with this event; empty if it is no link, as in older releases.
    """

    LAST: ClassVar[str] = "salt head"
    salt: str = ""
    head: str = ""


class CallEvent(CallDetails, EventBase):
    """A call runs, is held or suspended.

    Attributes:
        batch_id: The model call whose answer asked for the call.
    """

    batch_id: str = ""


class OnSuspension(EventBase):
    """An event about an open suspension.

    Attributes:
        tool_call_id: The call.
        suspension_id: The suspension.
    """

    tool_call_id: str
    suspension_id: str


class OfTurn(EventBase):
    """An event about a turn.

    Attributes:
        turn_id: The turn: `t1`, `t2` and so on.
    """

    turn_id: str


class Note(OnSuspension):
    """A note for the other approvers of a suspended call; the call still waits.

    Attributes:
        request_id: The idempotency key of the request.
        principal: Who made it, and how that was proven; None if nobody said.
        noted: The `seq` of earlier votes, assignments and comments on the suspension.
    """

    LAST: ClassVar[str] = "request_id principal noted"
    request_id: str
    principal: Principal | None = None
    noted: tuple[int, ...] = ()
