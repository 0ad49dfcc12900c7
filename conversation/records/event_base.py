"""What events have in common, by what they are about."""

from typing import ClassVar

from holdfast.conversation.record import Record
from holdfast.conversation.terms.principal import Principal

from .calls import CallDetails


class EventBase(Record):
    """What every event has.

    Attributes:
        at: When it was decided, in integer milliseconds UTC by the store's clock.
    """

    kind: str
    at: int


class ChainLink(EventBase):
    """An event that can be a link of the audit chain.

    Attributes:
        salt: The salt of its digests in the audit chain; empty where an older release wrote it.
        head: The head of the audit chain with this event; empty where it is no link, as in older releases.
    """

    LAST: ClassVar[str] = "salt head"
    salt: str = ""
    head: str = ""


class CallEvent(CallDetails, EventBase):
    """What happens to a call: it runs, is held or suspended.

    Attributes:
        batch_id: The model call whose answer asked for the call.
    """

    batch_id: str = ""


class OnSuspension(EventBase):
    """What happens to an open suspension.

    Attributes:
        tool_call_id: The call.
        suspension_id: The suspension.
    """

    tool_call_id: str
    suspension_id: str


class OfTurn(EventBase):
    """What happens to a turn.

    Attributes:
        turn_id: The turn: `t1`, `t2` and so on.
    """

    turn_id: str


class Note(OnSuspension):
    """What those who may decide a suspended call tell each other; the call still waits.

    Attributes:
        request_id: The idempotency key of the request.
        principal: Who made it, and how that was proven; None where nobody said.
        noted: The places of earlier votes, assignments and comments on the suspension.
    """

    LAST: ClassVar[str] = "request_id principal noted"
    request_id: str
    principal: Principal | None = None
    noted: tuple[int, ...] = ()
