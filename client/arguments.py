"""Checks of callers' arguments, before a command leaves the process.

Each check returns the value to pass on, or raises an `InvalidInput` (of the class that the operation names), which says what
is wrong with the value and what to give instead.
"""

import math
import os
import re
import socket
import uuid
from collections.abc import Collection
from typing import Any

from holdfast.conversation import Principal, Proof
from holdfast.conversation.ids import check_request_id
from holdfast.conversation.terms.principal import NAME, unproven
from holdfast.conversation.text import jsontext
from holdfast.errors import AgentNotFound, InvalidDecision, InvalidInput, InvalidMessage, StaleCall, StaleReason
from holdfast.persistence import pages
from holdfast.visible import without_hidden

LAST_PLACE = 1 << 63
REASON_BYTES = 1024
"""The longest reason of a pause, in bytes; it is short, since every worker reads it again and again."""
WHO_CHARS = 200
_GRANT_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_AGENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def is_app(app: object) -> bool:
    """Whether the object is an `App`."""
    from holdfast.agent import App  # noqa: PLC0415 - a reader names no app, and `holdfast pending` counts milliseconds

    return isinstance(app, App)


def text_of(text: object) -> str:
    """The text of a message, checked."""
    if not isinstance(text, str):
        raise InvalidMessage("text", f"{type(text).__name__} is not a string", "give a string")
    try:
        return jsontext.check_text(text)
    except jsontext.NotJson as error:
        raise InvalidMessage("text", str(error), "give text that can be encoded as UTF-8") from error


def context_of(context: Any) -> str:
    """The context as JSON text."""
    try:
        return jsontext.dumps(context)
    except jsontext.NotJson as error:
        raise InvalidMessage("context", str(error), "give a JSON value") from error


def attended_of(attended: object) -> bool:
    """Whether a person attends the conversation, checked."""
    if isinstance(attended, bool):
        return attended
    raise InvalidMessage("attended", f"{attended!r:.40} is no boolean", "give True or False")


def key_of(field: str, error: type[InvalidInput], key: object) -> str:
    """An idempotency key, checked; a random one if none is given."""
    return uuid.uuid4().hex if key is None else check_request_id(field, key, error)


def id_given(field: str, error: type[InvalidInput], value: object) -> str:
    """An id from the caller, checked."""
    return check_request_id(field, value, error)


def id_of(field: str, value: object) -> str:
    """The id of a call or a suspension in a decision."""
    if not isinstance(value, str):
        raise InvalidDecision(field, f"{value!r:.40} is not a string", f"pass PendingCall.{field}")
    return value


def principal_of(principal: object) -> Principal:
    """The principal, checked."""
    if isinstance(principal, Principal):
        return principal.check_visible()
    raise InvalidInput("principal", f"{type(principal).__name__} is no principal", 'give Principal("ana", roles=["finance"])')


def stated_of(principal: object) -> Principal:
    """A principal as a program in the cluster may give it, checked: only servers bring proofs."""
    found = principal_of(principal)
    if found.proof is not Proof.STATED:
        raise unproven(found)
    return found


def place_of(after: object) -> int:
    """A place in a log, checked."""
    if isinstance(after, bool) or not isinstance(after, int) or not 0 <= after < LAST_PLACE:
        raise InvalidInput("after", f"{after!r:.40} is no place in a log", "give a seq: Receipt.seq, Event.seq, or 0")
    return after


def cursor_of(after: object) -> str | None:
    """The cursor of a list's page, checked. A server that limits a caller to certain agents puts an agent and `~` before it."""
    agent, mark, rest = after.partition("~") if isinstance(after, str) else ("", "", after)
    of_server = bool(mark) and _AGENT.fullmatch(agent) is not None
    if not (of_server and rest == ""):
        pages.conversations_after(rest if of_server else after)
    return after if isinstance(after, str) else None


def timeout_of(timeout_s: object) -> float:
    """How many seconds to wait for a state, checked."""
    if not isinstance(timeout_s, int | float) or not is_time(timeout_s):
        raise InvalidInput("timeout_s", f"{timeout_s!r:.40} is no time", "give seconds, or None to wait without end")
    return timeout_s


def is_time(value: object) -> bool:
    """Whether the value is a finite number, such as seconds."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def agents_of(agent: object) -> frozenset[str] | None:
    """The agents to select by: one by name, several, or None for all."""
    if agent is None:
        return None
    given = agent if isinstance(agent, Collection) and not isinstance(agent, str) else [agent]
    return frozenset(name for name in map(agent_of, given) if name is not None)


def agent_of(agent: object) -> str | None:
    """The name of an agent to select by, checked; None selects all agents."""
    if agent is None or (isinstance(agent, str) and encodes(agent)):
        return agent
    raise InvalidInput("agent", f"{agent!a:.40} is no name", "give an agent's name, or leave it out")


def started_of(agent: object) -> str:
    """The name of an agent to start a conversation with, checked; its app knows whether there is such an agent."""
    if isinstance(agent, str) and encodes(agent):
        return agent
    raise AgentNotFound("agent", f"{agent!a:.40} is no agent's name", "use one of its agents")


def pausable(agent: object) -> str | None:
    """The name of the agent whose work is paused or resumed, checked; None stands for the whole namespace."""
    if agent is None or (isinstance(agent, str) and _AGENT.fullmatch(agent)):
        return agent
    raise InvalidInput("agent", f"{agent!a:.40} is no agent's name", "give one, or leave it out for the whole namespace")


def reason_of(reason: object) -> str:
    """The reason of a pause or a cancellation, checked."""
    if not isinstance(reason, str) or not encodes(reason):
        raise InvalidInput("reason", f"{type(reason).__name__} that is no text", "give a string that can be encoded as UTF-8")
    if jsontext.size_bytes(reason) > REASON_BYTES:
        raise InvalidInput("reason", f"it has more than {REASON_BYTES} bytes", "say it in short")
    return reason


def giver_of(by: object) -> str:
    """The id of a principal that has given something, checked."""
    if isinstance(by, str) and NAME.fullmatch(by):
        return by
    raise InvalidInput("by", f"{by!a:.80} is the id of nobody", "give the principal's id, as `client.given()` lists it")


def grant_id_of(grant_id: object) -> str:
    """The id of a grant, checked."""
    if isinstance(grant_id, str) and _GRANT_ID.fullmatch(grant_id):
        return grant_id
    raise InvalidInput("grant_id", f"{grant_id!a:.80} is the id of no grant", "take it from the list (conversation.grants())")


def this_user() -> str:
    """This process's user and host, as `user@host`: a statement, not a proof."""
    import getpass  # noqa: PLC0415 - `holdfast pending` counts milliseconds

    try:
        user = getpass.getuser()
    except (OSError, KeyError):  # a container's user may have no name
        user = str(os.getuid())
    said = f"{user}@{socket.gethostname()}".replace("|", "?")
    return " ".join(without_hidden(said, lambda _: "?")[:WHO_CHARS].split())


def encodes(text: str) -> bool:
    """Whether the text can be encoded as UTF-8."""
    try:
        jsontext.check_text(text)
    except jsontext.NotJson:
        return False
    return True


def member_of(kinds: Any, field: str, value: str | None) -> Any:
    """The member of an enumeration with this value; None for None."""
    if value is None:
        return None
    try:
        return kinds(value)
    except ValueError as error:
        allowed = ", ".join(kinds)
        raise InvalidInput(field, f"{value!r:.40} is none", f"use one of {allowed}") from error


def check_suspension(suspension_id: object, conversation_id: str | None) -> None:
    """Refuse a value that is no suspension's id."""
    if not isinstance(suspension_id, str):
        problem = f"{type(suspension_id).__name__} is not a string"
        raise InvalidInput("suspension_id", problem, "pass PendingCall.suspension_id")
    if not encodes(suspension_id):
        raise StaleCall(conversation_id or "", ascii(suspension_id), StaleReason.UNKNOWN)


def turn_id_of(turn_id: object) -> str | None:
    """The id of the turn to cancel, checked; None for any."""
    if turn_id is None or (isinstance(turn_id, str) and encodes(turn_id)):
        return turn_id
    raise InvalidInput("turn_id", f"{turn_id!r:.40} is no id", "pass Turn.turn_id, or leave it out")


def wait_of(wait_s: object) -> float:
    """How many seconds to wait for bodies, checked."""
    if not isinstance(wait_s, int | float) or not is_time(wait_s) or wait_s < 0:
        raise InvalidInput("wait_s", f"{wait_s!r:.40} is no time", "give seconds")
    return wait_s
