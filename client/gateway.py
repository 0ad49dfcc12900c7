"""The way from a client to its conversations: what an operation is, and the port that carries it out, over stack or HTTP."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeAlias, TypeVar

from holdfast.conversation import Answer, Approve, Command, Decision, Principal, Receipt, Reply
from holdfast.errors import StaleCall, StaleReason
from holdfast.persistence.access import AccessScope

from .arguments import encodes

if TYPE_CHECKING:
    from .access import Access

R = TypeVar("R")
Checks: TypeAlias = Mapping[str, Callable[[Any], Any]]
"""By argument, in their order: the function that checks the given value and returns the value to pass on."""

KEYS = ("message_id", "decision_id", "request_id")
"""The names of idempotency keys."""
MOST_AT_ONCE = 1_000
"""How many values, or hundreds of characters, are checked at once, within a few milliseconds."""
CHARS = 100


@dataclass(frozen=True, slots=True, eq=False)
class Verb(Generic[R]):
    """One operation.

    Attributes:
        name: The name of the method, of the client or of a conversation.
        route: The HTTP method and the path; `{name}` stands for an argument.
        reply: The type of the result.
        what: What the operation asks for, in the words of an error.
        operation: Its name in the description of the API; by default the method's, in camel case.
        scope: The scope that a server's caller needs; None: no caller has to say who it is.
        also: Further scopes that a caller needs.
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
        return None if self.method == "GET" else next((name for name in KEYS if name in self.checks), None)

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


class Gateway(Protocol):
    """Carries out operations with checked arguments: `StackGateway` over Redis and Ray, `HttpGateway` over a server.

    `resolve` decides a call that was shown, by its `resolver`.
    """

    resolve: Callable[..., Coroutine[Any, Any, Receipt]]

    @property
    def access(self) -> "Access":
        """The API keys of the namespace."""

    def acting_as(self, principal: Principal) -> "Gateway":
        """The same gateway, with this principal for all commands."""

    async def ask(self, verb: Verb[R], arguments: Mapping[str, Any]) -> R:
        """What an operation replies."""

    def stream(self, verb: Verb[R], arguments: Mapping[str, Any]) -> AsyncGenerator[R, None]:
        """The items that an operation replies with."""

    async def aclose(self) -> None:
        """Close the connections."""


async def asked(gateway: Gateway, verb: Verb[R], **given: Any) -> R:
    """What an operation replies to these arguments, which are checked first: large ones in a thread."""
    return await gateway.ask(verb, await judged(partial(verb.checked, given), *given.values()))


async def streamed(gateway: Gateway, verb: Verb[R], **given: Any) -> AsyncGenerator[R, None]:
    """The items that an operation replies with, once its arguments are checked."""
    async with aclosing(gateway.stream(verb, verb.checked(given))) as found:
        async for one in found:
            yield one


def resolver(gateway: Gateway, verb: Verb[Receipt]) -> Callable[..., Coroutine[Any, Any, Receipt]]:
    """The function by which a `PendingCall` decides itself: `verb` takes the ids that the call was shown with."""

    async def resolve(
        conversation_id: str,
        tool_call_id: str,
        decision: Decision,
        *,
        suspension_id: str | None = None,
        decision_id: str | None = None,
    ) -> Receipt:
        ids = {"conversation_id": conversation_id, "tool_call_id": tool_call_id, "suspension_id": suspension_id}
        given = {**ids, "decision": decision, "decision_id": decision_id}
        arguments = await judged(partial(verb.checked, given), decision)
        if not (encodes(tool_call_id) and encodes(suspension_id or "")):
            raise StaleCall(conversation_id, ascii(tool_call_id), StaleReason.UNKNOWN)
        return await gateway.ask(verb, arguments)

    return resolve


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
