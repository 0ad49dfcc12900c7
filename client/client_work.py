"""One call at a client: it is claimed, carried out by its handler, and answered; or given back."""

import asyncio
import contextlib
import logging
import uuid
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from holdfast.agent.cancellation import Cancellation
from holdfast.backoff import Backoff
from holdfast.conversation import Answer, Fail, OnDetach
from holdfast.errors import (
    ClusterError,
    HoldfastError,
    InvalidInput,
    OlderRelease,
    OtherBuild,
    OutcomeUnknown,
    Overloaded,
    Quarantined,
    ServerRefused,
    StaleCall,
    StaleReason,
    StoreUnavailable,
    TooManyClients,
)

from . import verbs
from .gateway import Gateway, asked
from .handlers import ClientContext, ClientHandler, decision_of, failed
from .results import AsyncPendingCall

FIRST_S, LONGEST_S, JITTER = 0.1, 5.0, 0.5
REPORT_EVERY_S = 0.1
"""The shortest time between two reports of a handler's progress, in seconds; of those in between, only the last is sent."""
_PASSING = (ClusterError, OlderRelease, OtherBuild, OutcomeUnknown, Overloaded, Quarantined, StoreUnavailable, TooManyClients)
_PASSING_STATUSES = frozenset({408, 429, 500, 502, 503, 504})

R = TypeVar("R")

logger = logging.getLogger("holdfast.client")


def passes(error: HoldfastError) -> bool:
    """Whether the same request may succeed later."""
    return isinstance(error, _PASSING) or (isinstance(error, ServerRefused) and error.http_status in _PASSING_STATUSES)


def again() -> Backoff:
    """The pauses between two tries."""
    return Backoff(FIRST_S, LONGEST_S, jitter=JITTER)


@dataclass(frozen=True, slots=True)
class Claimant:
    """A client of a conversation, as its requests name it. Each request is sent until it is judged."""

    gateway: Gateway
    conversation_id: str
    client_id: str
    on_detach: OnDetach

    async def claim(self, call: AsyncPendingCall) -> int:
        """Claim a call; returns the number of this attempt.

        Raises:
            StaleCall: Another client has it, or the receipt came so late that this claim may have ended since: then it is given
                back, if it has not, and the call waits for a client again.
        """
        said = {"on_detach": self.on_detach, "request_id": uuid.uuid4().hex}
        receipt = await _sent(lambda: asked(self.gateway, verbs.CLAIM, **self._about(call), **said))
        if receipt.duplicate:
            await self.give_back(call, receipt.attempt, began=False)
            raise StaleCall(self.conversation_id, call.tool_call_id, StaleReason.CLAIMED)
        return receipt.attempt

    async def give_back(self, call: AsyncPendingCall, attempt: int, *, began: bool) -> None:
        """Give a call back that this client has claimed; a repetition that arrives late changes nothing."""
        said = {"began": began, "request_id": f"back-{call.suspension_id}-{attempt}"}
        await _sent(lambda: asked(self.gateway, verbs.GIVE_BACK, **self._about(call), **said))

    async def answer(self, call: AsyncPendingCall, decision: Answer | Fail) -> None:
        """Decide a call that this client has claimed."""
        key = uuid.uuid4().hex
        await _sent(lambda: call.resolve(decision, client_id=self.client_id, decision_id=key))

    async def report(self, call: AsyncPendingCall, said: Mapping[str, Any]) -> None:
        """Report the progress of a call that this client has claimed, once."""
        await asked(self.gateway, verbs.REPORT_PROGRESS, **self._about(call), **said)

    def _about(self, call: AsyncPendingCall) -> dict[str, str]:
        ids = {"conversation_id": self.conversation_id, "suspension_id": call.suspension_id}
        return ids | {"tool_call_id": call.tool_call_id, "client_id": self.client_id}


async def _sent(request: Callable[[], Awaitable[R]]) -> R:
    pauses = again()
    while True:
        try:
            return await request()
        except HoldfastError as error:
            if not passes(error):
                raise
            logger.info("a client tries again: %s", error)
        await pauses.sleep()


class Work:
    """A call that a client carries out, or tries to.

    Attributes:
        attempt: The number of the attempt; 0 until the call is claimed.
        over: Whether the call is not this client's any more: another one has it, or it is decided.
        answered: Whether this client has decided it, or never will.
        cancellation: Whether nobody waits for the result any more; a handler that has begun sees it.
    """

    def __init__(
        self, claimant: Claimant, call: AsyncPendingCall, handler: ClientHandler, told: Callable[[str, str], None]
    ) -> None:
        self.call = call
        self.attempt = 0
        self.over = self.answered = False
        self.cancellation = Cancellation()
        self._claimant = claimant
        self._handler = handler
        self._told = told
        self._began = False
        self._handling = False
        self._task = asyncio.create_task(self._run())

    async def done(self) -> None:
        """Return once the work has ended."""
        await asyncio.wait([self._task])

    def when_done(self, done: Callable[[], None]) -> None:
        """Call this once the work ends."""
        self._task.add_done_callback(lambda _: done())

    def lost(self) -> None:
        """Note that the call is no longer this client's. A handler that has begun is not interrupted."""
        self.over = True
        self.cancellation.set()
        if not self._handling:
            self._task.cancel()

    async def leave(self, within_s: float) -> None:
        """End: a request on its way has so many seconds, a cancelled handler three times as many to clean up.

        A handler in a thread ends by itself.
        """
        self.cancellation.set()
        if not self._handling:
            await asyncio.wait([self._task], timeout=within_s)
        self._task.cancel()
        await asyncio.wait([self._task], timeout=3 * within_s)

    async def give_back(self) -> None:
        """Give the call back, if it is still this client's."""
        if self.over or not self.attempt:
            return
        try:
            await self._claimant.give_back(self.call, self.attempt, began=self._began)
        except HoldfastError as error:
            logger.info("%s is not given back: %s", self.call.suspension_id, error)
        else:
            self._told("given_back", "")

    async def _run(self) -> None:
        try:
            await self._carried_out()
        except StaleCall as stale:
            self.over = True
            self._told("stale", stale.reason)
        except HoldfastError as error:
            self.over = self.answered = True  # the call's deadline ends what this client cannot say
            logger.warning("a client cannot carry out %s: %s", self.call.suspension_id, error)
            self._told("refused", str(error))

    async def _carried_out(self) -> None:
        self.attempt = await self._claimant.claim(self.call)
        self._told("claimed", f"attempt {self.attempt}")
        if self.cancellation.is_set:
            return
        reports = _Reports(lambda said: self._claimant.report(self.call, said))
        self._began = self._handling = True
        try:
            given: dict[str, Any] = {"report": reports, "cancellation": self.cancellation}
            decision = await decision_of(self._handler, ClientContext(call=self.call, attempt=self.attempt, **given))
        finally:
            self._handling = False
            reports.close()
        if self.over:
            self._told("cancelled", "")
            return
        await self._answer(decision)
        self.over = self.answered = True

    async def _answer(self, decision: Answer | Fail) -> None:
        try:
            await self._claimant.answer(self.call, decision)
        except InvalidInput as error:
            decision = failed(f"the handler's result cannot be taken: {error.problem}")
            await self._claimant.answer(self.call, decision)
        said = decision.error if isinstance(decision, Fail) else ""
        self._told("failed" if isinstance(decision, Fail) else "answered", said)


class _Reports:
    """Sends a handler's reports of progress, the last one first of all; callable from any thread."""

    def __init__(self, send: Callable[[Mapping[str, Any]], Awaitable[None]]) -> None:
        self._send = send
        self._loop = asyncio.get_running_loop()
        self._last: Mapping[str, Any] | None = None
        self._sending: asyncio.Task[None] | None = None
        self._closed = False

    def __call__(self, value: Any, message: str | None, **how_far: Any) -> None:
        self._last = {"value": value, "message": message, **how_far}
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._begin)

    def close(self) -> None:
        """Send no more."""
        self._closed = True
        if self._sending is not None:
            self._sending.cancel()

    def _begin(self) -> None:
        if not self._closed and (self._sending is None or self._sending.done()):
            self._sending = asyncio.create_task(self._sent())

    async def _sent(self) -> None:
        while (said := self._last) is not None:
            self._last = None
            try:
                await self._send(said)
            except HoldfastError as error:
                logger.debug("progress is not reported: %s", error)
            await asyncio.sleep(REPORT_EVERY_S)
