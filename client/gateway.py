"""The way from a client to its conversations: one port, with a gateway over the stack and one over HTTP."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from holdfast.conversation import Answer, Approve, Decision, Principal, Receipt
from holdfast.errors import StaleCall, StaleReason

from . import verbs
from .arguments import encodes
from .verb import Verb

if TYPE_CHECKING:
    from .access import Access

R = TypeVar("R")
MOST_AT_ONCE = 1_000
"""How many values, or hundreds of characters, are checked at once, within a few milliseconds."""
CHARS = 100


class Gateway(Protocol):
    """Carries out operations with checked arguments: `StackGateway` over Redis and Ray, `HttpGateway` over a server."""

    @property
    def access(self) -> "Access":
        """The API keys of the namespace."""
        ...

    def acting_as(self, principal: Principal) -> "Gateway":
        """The same gateway, with this principal for all commands."""
        ...

    async def ask(self, verb: Verb[R], arguments: Mapping[str, Any]) -> R:
        """What an operation replies."""
        ...

    def stream(self, verb: Verb[R], arguments: Mapping[str, Any]) -> AsyncGenerator[R, None]:
        """The items that an operation replies with."""
        ...

    async def aclose(self) -> None:
        """Close the connections."""
        ...


async def asked(gateway: Gateway, verb: Verb[R], **given: Any) -> R:
    """What an operation replies to these arguments, which are checked first: large ones in a thread."""
    return await gateway.ask(verb, await judged(partial(verb.checked, given), *given.values()))


async def streamed(gateway: Gateway, verb: Verb[R], **given: Any) -> AsyncGenerator[R, None]:
    """The items that an operation replies with, once its arguments are checked."""
    async with aclosing(gateway.stream(verb, verb.checked(given))) as found:
        async for one in found:
            yield one


def resolver(gateway: Gateway) -> Callable[..., Coroutine[Any, Any, Receipt]]:
    """The function by which a `PendingCall` decides itself: it takes the ids that the call was shown with."""

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
        arguments = await judged(partial(verbs.RESOLVE_CALL.checked, given), decision)
        if not (encodes(tool_call_id) and encodes(suspension_id or "")):
            raise StaleCall(conversation_id, ascii(tool_call_id), StaleReason.UNKNOWN)
        return await gateway.ask(verbs.RESOLVE_CALL, arguments)

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
