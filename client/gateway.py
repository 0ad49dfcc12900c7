"""The port of a client, which carries out operations: over the stack, or over HTTP."""

from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from holdfast.conversation import Principal, Receipt

from .operation import Verb, judged

if TYPE_CHECKING:
    from .access import Access

R = TypeVar("R")


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
