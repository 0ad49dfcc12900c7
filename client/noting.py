"""Notes of a client on suspended calls: assignments and comments."""

from types import EllipsisType
from typing import Any

from holdfast.conversation import Principal
from holdfast.conversation.terms.principal import is_name
from holdfast.conversation.text import jsontext
from holdfast.errors import InvalidInput

from .arguments import check_suspension
from .results import PendingCall

_FIX = "give the id of a principal, or None to give the call back"


def suspension_of(call: object, conversation_id: str) -> str:
    """The suspension of a pending call of this conversation, or the id itself; else `InvalidInput`.

    An id that cannot be encoded as UTF-8 raises `StaleCall`: no suspension has it.
    """
    if isinstance(call, PendingCall):
        found: PendingCall[Any] = call
        if found.conversation_id != conversation_id:
            problem = f"it is a call of {found.conversation_id!r:.80}"
            raise InvalidInput("call", problem, "use the conversation of the call: client.conversation(call.conversation_id)")
        call = found.suspension_id
    check_suspension(call, conversation_id)
    return str(call)


def taker_of(to: object, myself: Principal | None) -> str:
    """The name of the assignee, checked: by default the client's own principal; empty to give the call back."""
    if isinstance(to, EllipsisType):
        if myself is None:
            problem = "this client acts as nobody"
            raise InvalidInput("to", problem, "say who takes it on, or use client.acting_as(Principal(...))")
        return myself.id
    if to is None or to == "":
        return ""
    name = to.id if isinstance(to, Principal) else to
    if not isinstance(name, str) or not is_name(name):
        raise InvalidInput("to", f"{name!a:.60} is no name", _FIX)
    return name


def comment_of(text: object) -> str:
    """The text of a comment, checked."""
    if not isinstance(text, str):
        raise InvalidInput("text", f"{type(text).__name__} is not a string", "give a string")
    try:
        return jsontext.check_text(text)
    except jsontext.NotJson as error:
        raise InvalidInput("text", str(error), "give text that can be encoded as UTF-8") from error
