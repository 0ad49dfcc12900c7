"""The way from a client to its conversations: one port, with a gateway over the stack and one over HTTP."""

from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from holdfast.conversation import Decision, Principal, Receipt
from holdfast.errors import StaleCall, StaleReason

from . import verbs
from .arguments import encodes
from .large import judged
from .verb import Verb

if TYPE_CHECKING:
    from .access import Access

R = TypeVar("R")


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
