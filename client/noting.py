"""Notes on suspended calls as a client writes them: whom they are about, who takes them on, and what they say."""

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
    """The suspension that a note is about: that of a pending call of this conversation, or the id itself.

    Raises:
        InvalidInput: It is neither, or a call of another conversation.
        StaleCall: The id cannot be encoded as UTF-8, so no suspension has it.
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
    """The name of whoever takes a call on: by default the client's own; empty where the call is given back.

    Raises:
        InvalidInput: It is no name, or none is given and the client acts as nobody.
    """
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
    """The text of a comment.

    Raises:
        InvalidInput: It is no string, or cannot be encoded as UTF-8.
    """
    if not isinstance(text, str):
        raise InvalidInput("text", f"{type(text).__name__} is not a string", "give a string")
    try:
        return jsontext.check_text(text)
    except jsontext.NotJson as error:
        raise InvalidInput("text", str(error), "give text that can be encoded as UTF-8") from error
