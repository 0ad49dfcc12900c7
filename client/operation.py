"""What an operation of a client is, and the checks of its arguments, before a command leaves the process.

Each check returns the value to pass on, or raises an `InvalidInput` (of the class that the operation names), which says what
is wrong with the value and what to give instead.
"""

import asyncio
import math
import os
import re
import socket
import uuid
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from types import EllipsisType
from typing import Any, Generic, TypeAlias, TypeVar

from holdfast.conversation import Answer, Approve, Command, Principal, Proof, Reply
from holdfast.conversation.ids import check_request_id
from holdfast.conversation.records.state import LAST_PRIORITY
from holdfast.conversation.terms.approvers import Approvers, approvers_of, terms_of
from holdfast.conversation.terms.decisions import DecisionKind
from holdfast.conversation.terms.link import LONGEST_LINK_S
from holdfast.conversation.terms.principal import NAME, is_name, unproven
from holdfast.conversation.text import jsontext
from holdfast.errors import (
    AgentNotFound,
    ConfigurationError,
    InvalidDecision,
    InvalidInput,
    InvalidMessage,
    StaleCall,
    StaleReason,
)
from holdfast.persistence import pages
from holdfast.persistence.access import AccessScope
from holdfast.visible import without_hidden

R = TypeVar("R")
Check: TypeAlias = Callable[[Any], Any]
Checks: TypeAlias = Mapping[str, Check]
"""By argument, in their order: the function that checks the given value and returns the value to pass on."""

KEYS = ("message_id", "decision_id", "request_id")
"""The names of idempotency keys."""
MOST_AT_ONCE = 1_000
"""How many values, or hundreds of characters, are checked at once, within a few milliseconds."""
CHARS = 100
EPOCH = datetime.fromtimestamp(0, UTC)
LAST_PLACE = 1 << 63
REASON_BYTES = 1024
"""The longest reason of a pause, in bytes; it is short, since every worker reads it again and again."""
WHO_CHARS = 200
LONGEST_SPAN_S = 10 * 366 * 86_400
_GRANT_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_AGENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@dataclass(frozen=True, slots=True, eq=False)
class Verb(Generic[R]):
    """One operation.

    Attributes:
        name: The name of the method, of the client or of a conversation.
        route: The HTTP method and the path; `{name}` stands for an argument.
        reply: The type of the result.
        what: What the operation asks for, in the words of an error.
        operation: Its name in the description of the API; by default the method's, in camel case.
        scope: The scope that a server's caller needs; None: no authentication is needed.
        also: Further scopes that a caller needs.
        instead: A scope that is enough in place of these, for as much as the server allows a client.
        checks: The checks of its arguments, in their order.
        command: The command, where the operation is one command.
        renamed: The command's names of arguments, where they differ.
        read: Reads the reply from the store, where the operation is one read.
        under: The field of a server's reply that holds the result; None where the reply is the result.
    """

    name: str
    route: str
    reply: type[R]
    what: str
    scope: AccessScope | None = AccessScope.READ
    also: tuple[AccessScope, ...] = ()
    instead: AccessScope | None = None
    operation: str = ""
    checks: Checks = field(default_factory=dict)
    command: Callable[..., Command] | None = None
    renamed: Mapping[str, str] = field(default_factory=dict)
    read: Callable[..., Awaitable[Any]] | None = None
    under: str | None = None

    def __post_init__(self) -> None:
        first, *more = self.name.split("_")
        object.__setattr__(self, "operation", self.operation or first + "".join(map(str.capitalize, more)))

    @property
    def method(self) -> str:
        """The HTTP method."""
        return self.route.partition(" ")[0]

    @property
    def path(self) -> str:
        """The path, with `{name}` for the arguments in it."""
        return self.route.partition(" ")[2]

    @property
    def key(self) -> str | None:
        """The argument that is the idempotency key; None where a repetition cannot be recognised."""
        own = (name for name in KEYS if name in self.checks and f"{{{name}}}" not in self.path)
        return None if self.method == "GET" else next(own, None)

    def made(self, said: Mapping[str, Any]) -> Command:
        """The command of these arguments."""
        if self.command is None:
            raise NotImplementedError(self.name)
        return self.command(**{self.renamed.get(name, name): one for name, one in said.items()})

    def replied(self, reply: Reply) -> R:
        """The reply to the command, checked against the row's type."""
        if not isinstance(reply, self.reply):
            raise TypeError(self.name)
        return reply

    def checked(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments, checked, in the form that is passed on; each error names its argument."""
        return {name: check(given[name]) for name, check in self.checks.items() if name in given}


async def judged(work: Callable[[], R], *values: object) -> R:
    """The result of work on these values: in a thread if they are large."""
    return await asyncio.to_thread(work) if is_large(values) else work()


def is_large(value: object) -> bool:
    """Whether a value is large; it is read only as far as needed to tell."""
    left, waiting = MOST_AT_ONCE, [value]
    while waiting and left > 0:
        match waiting.pop():
            case str() as text:
                left -= len(text) // CHARS
            case Mapping() as pairs:
                left -= 2 * len(pairs)
                waiting += [*pairs, *pairs.values()] if left > 0 else []
            case Approve(arguments=inner) | Answer(value=inner):
                waiting.append(inner)
            case list() | tuple() as items:
                left -= len(items)
                waiting += items if left > 0 else []
            case _:
                pass
    return left <= 0


def optional(check: Check) -> Check:
    """The check of an argument that may be left out."""
    return lambda value: None if value is None else check(value)


def _checked(
    field: str, fits: Callable[[Any], object], problem: str, fix: str, refusal: type[InvalidInput] = InvalidInput
) -> Check:
    """The check of an argument that is passed on as it is if it fits; `problem` is a format of the value."""

    def check(value: object) -> object:
        if fits(value):
            return value
        raise refusal(field, problem.format(value), fix)

    return check


def is_app(app: object) -> bool:
    """Whether the object is an `App`."""
    from holdfast.agent import App  # noqa: PLC0415 - a reader names no app, and `holdfast pending` counts milliseconds

    return isinstance(app, App)


def text_of(refusal: type[InvalidInput], text: object) -> str:
    """The text of a comment, checked."""
    if not isinstance(text, str):
        raise refusal("text", f"{type(text).__name__} is not a string", "give a string")
    try:
        return jsontext.check_text(text)
    except jsontext.NotJson as error:
        raise refusal("text", str(error), "give text that can be encoded as UTF-8") from error


def time_of(at: object) -> int | None:
    """A time that a message waits for, in milliseconds UTC; an aware datetime, its text as RFC 3339 has it, or milliseconds."""
    fix = "give an aware datetime, as in datetime.now(UTC) + timedelta(hours=1), or 2027-01-31T09:00:00Z"
    if at is None or (isinstance(at, int) and not isinstance(at, bool) and 0 <= at < LAST_PLACE):
        return at
    try:
        found = datetime.fromisoformat(at) if isinstance(at, str) else at
    except ValueError as error:
        raise InvalidMessage("at", f"{at!a:.40} is no time", fix) from error
    if not isinstance(found, datetime):
        raise InvalidMessage("at", f"{at!a:.40} is no time", fix)
    if found.utcoffset() is None:
        raise InvalidMessage("at", "it has no time zone", fix)
    return (found - EPOCH) // timedelta(milliseconds=1)


def context_of(context: Any) -> str:
    """The context as JSON text."""
    try:
        return jsontext.dumps(context)
    except jsontext.NotJson as error:
        raise InvalidMessage("context", str(error), "give a JSON value") from error


def key_of(field: str, error: type[InvalidInput], key: object) -> str:
    """An idempotency key, checked; a random one if none is given."""
    return uuid.uuid4().hex if key is None else check_request_id(field, key, error)


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


def cursor_of(after: object) -> str | None:
    """The cursor of a list's page, checked. A server that limits a caller to certain agents puts an agent and `~` before it."""
    agent, mark, rest = after.partition("~") if isinstance(after, str) else ("", "", after)
    of_server = bool(mark) and _AGENT.fullmatch(agent) is not None
    if not (of_server and rest == ""):
        pages.conversations_after(rest if of_server else after)
    return after if isinstance(after, str) else None


def is_time(value: object) -> bool:
    """Whether the value is a finite number, such as seconds."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def agents_of(agent: object) -> frozenset[str] | None:
    """The agents to select by: one by name, several, or None for all."""
    if agent is None:
        return None
    given = agent if isinstance(agent, Collection) and not isinstance(agent, str) else [agent]
    return frozenset(name for name in map(agent_of, given) if name is not None)


def reason_of(reason: object) -> str:
    """The reason of a pause or a cancellation, checked."""
    if not isinstance(reason, str) or not encodes(reason):
        raise InvalidInput("reason", f"this {type(reason).__name__} is no text", "give a string that can be encoded as UTF-8")
    if jsontext.size_bytes(reason) > REASON_BYTES:
        raise InvalidInput("reason", f"it has more than {REASON_BYTES} bytes", "shorten it")
    return reason


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
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def flag_of(value: object) -> bool | None:
    """A filter that is set or not; None for one that is not set."""
    if value is None or isinstance(value, bool):
        return value or None
    raise InvalidInput("stopped", f"{value!r:.40} is not a boolean", "give True, or leave it out")


def member_of(kinds: Any, field: str, value: str | None) -> Any:
    """The member of an enumeration with this value; None for None."""
    if value is None:
        return None
    try:
        return kinds(value)
    except ValueError as error:
        allowed = ", ".join(kinds)
        raise InvalidInput(field, f"{value!r:.40} is unknown", f"use one of {allowed}") from error


def taker_of(to: object, myself: Principal | None) -> str:
    """The name of who takes a call on, checked: by default the client's own principal; empty to give the call back."""
    if isinstance(to, EllipsisType):
        if myself is None:
            problem = "this client has no principal"
            raise InvalidInput("to", problem, "say who takes it on, or use client.acting_as(Principal(...))")
        return myself.id
    if to is None or to == "":
        return ""
    name = to.id if isinstance(to, Principal) else to
    if not isinstance(name, str) or not is_name(name):
        raise InvalidInput("to", f"{name!a:.60} is no name", "give the id of a principal, or None to give the call back")
    return name


def deciders_of(to: object) -> Approvers:
    """Who decides a call from now on, checked: `Approvers`, a list of roles and ids, or an object with their arguments."""
    try:
        found = approvers_of(to, "to")
        _ = terms_of(found, "to")
    except ConfigurationError as error:
        raise InvalidInput("to", error.problem, error.fix) from None
    return found


def check_suspension(suspension_id: object, conversation_id: str | None) -> None:
    """Refuse a value that is no suspension's id."""
    if not isinstance(suspension_id, str):
        problem = f"{type(suspension_id).__name__} is not a string"
        raise InvalidInput("suspension_id", problem, "pass PendingCall.suspension_id")
    if not encodes(suspension_id):
        raise StaleCall(conversation_id or "", ascii(suspension_id), StaleReason.UNKNOWN)


def _is_text(value: object) -> bool:
    return isinstance(value, str) and encodes(value)


def _is_place(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < LAST_PLACE


def _matches(pattern: re.Pattern[str]) -> Callable[[Any], object]:
    return lambda value: isinstance(value, str) and pattern.fullmatch(value)


def id_of(field: str) -> Check:
    """The check of the id of a call or a suspension in a decision."""
    fix = f"pass PendingCall.{field}"
    return _checked(field, lambda value: isinstance(value, str), "{!r:.40} is not a string", fix, InvalidDecision)


def link_span_of(expires_s: object) -> float:
    """The seconds for which a link is valid, checked."""
    if is_time(expires_s) and isinstance(expires_s, int | float) and 1 <= expires_s <= LONGEST_LINK_S:
        return expires_s
    raise InvalidInput("expires_s", f"{expires_s!r:.40} is no time for a link", f"give 1 to {LONGEST_LINK_S} seconds")


def kinds_of(decisions: object) -> tuple[DecisionKind, ...] | None:
    """The kinds of decision of a link, checked; None for those that its call takes."""
    if decisions is None:
        return None
    if isinstance(decisions, str) or not isinstance(decisions, Collection) or not decisions:
        raise InvalidInput("decisions", f"{decisions!r:.40} is no list of decisions", 'give some, as in ("approve", "deny")')
    return tuple(member_of(DecisionKind, "decisions", one) for one in decisions)


def span_of(field: str) -> Check:
    """The check of a number of seconds that may be left out."""
    fits = lambda value: is_time(value) and 0 <= value <= LONGEST_SPAN_S  # noqa: E731 - one check, for two fields
    return optional(_checked(field, fits, "{!r:.40} is no number of seconds", f"give 0 to {LONGEST_SPAN_S}, or leave it out"))


for_of = _checked(
    "for_s",
    lambda value: is_time(value) and 0 <= value <= LONGEST_SPAN_S,
    "{!r:.40} is no number of seconds",
    f"give 0 to {LONGEST_SPAN_S}",
)
priority_of = _checked(
    "priority",
    lambda value: isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= LAST_PRIORITY,
    "{!r:.40} is no priority",
    f"give a whole number from 0 (first) to {LAST_PRIORITY}",
    InvalidMessage,
)
attended_of = _checked(
    "attended", lambda value: isinstance(value, bool), "{!r:.40} is no boolean", "give True or False", InvalidMessage
)
began_of = _checked("began", lambda value: isinstance(value, bool), "{!r:.40} is no boolean", "give True or False")
started_of = _checked("agent", _is_text, "{!a:.40} is no agent's name", "use one of its agents", AgentNotFound)
agent_of = optional(_checked("agent", _is_text, "{!a:.40} is no name", "give an agent's name, or leave it out"))
tool_of = optional(_checked("tool", _is_text, "{!a:.40} is no name", "give a tool's name, or leave it out"))
pausable = optional(
    _checked("agent", _matches(_AGENT), "{!a:.40} is no agent's name", "give one, or leave it out for the whole namespace")
)
turn_id_of = optional(_checked("turn_id", _is_text, "{!r:.40} is no id", "pass Turn.turn_id, or leave it out"))
place_of = _checked("after", _is_place, "{!r:.40} is no place in a log", "give a seq: Receipt.seq, Event.seq, or 0")
timeout_of = optional(_checked("timeout_s", is_time, "{!r:.40} is no time", "give seconds, or None to wait without end"))
wait_of = _checked("wait_s", lambda value: is_time(value) and value >= 0, "{!r:.40} is no time", "give seconds")
giver_of = _checked(
    "by", _matches(NAME), "{!a:.80} is no principal's id", "give the principal's id, as `client.given()` lists it"
)
grant_id_of = _checked(
    "grant_id", _matches(_GRANT_ID), "{!a:.80} is no grant's id", "take it from the list (conversation.grants())"
)
