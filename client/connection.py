"""The connection of a client and its conversations to the stack: reads and commands, each with a deadline."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, TypeVar

from holdfast import trace_context
from holdfast.conversation import Command, Principal, Reply
from holdfast.errors import (
    AppNotFound,
    ClusterError,
    ClusterUnavailable,
    ConfigurationError,
    HoldfastError,
    LeaseHeld,
    OutcomeUnknown,
    StoreUnavailable,
)
from holdfast.machine_load import because, overload
from holdfast.persistence import Store
from holdfast.registry.registry import Delivered, Delivery, DeliveryResult, Unknown, Unsent

from .list_feed import ListFeed
from .stack import Stack

if TYPE_CHECKING:
    from holdfast.agent import App

    from .transport import RayTransport

DEFAULT_TIMEOUT_S = 30.0
START_S = 60.0
"""How much longer a call may take that may have to start the embedded stack, if its deadline is at least the default."""
GRACE_S = 1.0

_T = TypeVar("_T")


class Connection:
    """A stack, the deadline of each call on it, and the principal of its commands; `proves`: this process has verified it."""

    def __init__(
        self,
        stack: Stack,
        *,
        timeout_s: float,
        principal: Principal | None = None,
        feed: ListFeed | None = None,
        proves: bool = False,
    ) -> None:
        self.stack = stack
        self.feed = feed or ListFeed()
        self.principal = principal
        self._timeout_s = timeout_s
        self._proves = proves

    def acting_as(self, principal: Principal, *, proves: bool = False) -> "Connection":
        """The same connection, with this principal for all commands."""
        return Connection(self.stack, timeout_s=self._timeout_s, principal=principal, feed=self.feed, proves=proves)

    @property
    def allowed_s(self) -> float:
        """How many seconds a call that begins now may take."""
        return self._timeout_s + (START_S if self._timeout_s >= DEFAULT_TIMEOUT_S and self.stack.may_start else 0.0)

    async def app(self) -> "App":
        """The client's app, loaded; `AppNotFound` also if its module was not imported in time."""
        try:
            async with asyncio.timeout(self.allowed_s):
                return await self.stack.loaded_app()
        except TimeoutError as error:
            problem = f"its module was not imported within {self._timeout_s:g} s"
            raise AppNotFound("app", problem, "import it before, or give the client a longer timeout_s") from error

    async def read(self, work: Callable[[Store], Awaitable[_T]], *, block_ms: int = 0) -> _T:
        """The result of `work` on the store, within the deadline of a call, which also covers opening the store.

        The store may wait for news for `block_ms`, which prolongs the deadline.
        """
        async with self._timely(self.allowed_s + block_ms / 1000):
            return await work(await self.stack.store())

    async def store(self, within_s: float | None = None) -> Store:
        """The store, opened in time, else `StoreUnavailable`."""
        async with self._timely(self.allowed_s if within_s is None else within_s):
            return await self.stack.store()

    @asynccontextmanager
    async def _timely(self, within_s: float) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(within_s):
                yield
        except TimeoutError as error:
            raise StoreUnavailable(f"no answer within {self._timeout_s:g} s") from error

    async def reply_to(
        self, conversation_id: str, command: Command, *, what: str, retry_id: str, create: bool = False
    ) -> Reply:
        """The reply to a command, once the events that it led to are durable. Errors are as in `reply_in`."""
        said = {"principal": self.principal, "traceparent": trace_context.current()}
        command = command.model_copy(update={name: value for name, value in said.items() if value is not None})
        delivery = Delivery(conversation_id, command, timeout_s=self.allowed_s, create=create, proves=self._proves)
        return reply_in(await self._delivered(delivery), what=what, retry_id=retry_id)

    async def _delivered(self, delivery: Delivery) -> DeliveryResult:
        """The result of a delivery. If Ray dies, the delivery goes on over the next Ray, with the same ids."""
        while True:
            try:
                transport = self.stack.ready or await self._joined(delivery)
            except ConfigurationError:
                raise
            except HoldfastError as error:
                return delivery.given_up(error)
            result: DeliveryResult
            try:
                async with self.stack.asking(delivery.until + GRACE_S):
                    result = await transport.deliver(delivery)
            except TimeoutError as error:
                result = delivery.given_up(error)
            match result:
                case Unknown() | Unsent(TimeoutError() | ClusterError() | LeaseHeld()):
                    if not await self.stack.lost(transport) or not delivery.left_s:
                        return result
                case _:
                    return result

    async def _joined(self, delivery: Delivery) -> "RayTransport":
        await self.store(delivery.left_s)
        try:
            async with asyncio.timeout_at(delivery.until):
                return await self.stack.transport()
        except TimeoutError as error:
            why = f"it was not joined within {self._timeout_s:g} s{because()}; that goes on: call again"
            raise ClusterUnavailable(why) from error


def reply_in(result: DeliveryResult, *, what: str, retry_id: str) -> Reply:
    """The reply in the result of a delivery.

    Raises:
        OutcomeUnknown: No actor acknowledged the command in time; repeating it with `retry_id` is safe.
        HoldfastError: The command was refused, or reached no actor.
    """
    match result:
        case Delivered(reply):
            return reply
        case Unknown(error) | Unsent(TimeoutError() | LeaseHeld() as error):
            why = str(error) or overload()
            raise OutcomeUnknown(f"{what} ({why})" if why else what, retry_id) from error
        case _:
            raise result.error
