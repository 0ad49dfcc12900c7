"""One model call with fallbacks: the models are asked one after the other, each with its retries behind its breaker.

How a model is asked is a `Caller`'s: through litellm in a worker, by a script in a rehearsal. A try that fails for a passing
reason (rate limits, 5xx, connection errors, timeouts) is repeated with backoff and jitter, honouring retry-after; one that
fails for a lasting reason (a bad key, an unknown model, a context overflow) is not. A model that cannot answer gives way to
the next one, unless the request itself was refused.
"""

import asyncio
import logging
from abc import ABC, abstractmethod
from asyncio import sleep
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

from holdfast.agent import Agent
from holdfast.backoff import Backoff
from holdfast.conversation import FailureReason
from holdfast.conversation.terms.models import ModelSpec

from . import destination, media, overflow
from .breakers import Breakers, PassedOver, Route
from .model_answer import Broken, ModelAnswer, TooMuch
from .model_outcome import WORDS, ModelCounts

logger = logging.getLogger("holdfast.worker")

_Tries: TypeAlias = Callable[[asyncio.Timeout], Awaitable[ModelAnswer]]

FIRST_DELAY_S = 0.5
LONGEST_DELAY_S = 8.0
ANTHROPIC_ELSEWHERE = frozenset({"vertex_ai", "azure_ai"})
"""Other providers whose Claude models speak Anthropic's interface."""
PASSING_STATUSES = frozenset({408, 409, 425, 429})
UNAVAILABLE_STATUSES = frozenset({401, 402, 403, 404})
"""Statuses by which a provider refuses the key, the account or the model: another model may answer the same request."""


class Failed(Exception):
    """A model did not answer.

    `onward`: another one may answer the same request; `passes`: so may the same one, later, after `wait_s` if its provider asks
    for that. `why` is the label of the count.
    """

    def __init__(
        self,
        message: str,
        reason: FailureReason,
        *,
        onward: bool,
        why: str,
        passes: bool = False,
        wait_s: float | None = None,
    ) -> None:
        super().__init__(message)
        self.reason = reason
        self.onward = onward
        self.why = why
        self.passes = passes
        self.wait_s = wait_s


@dataclass(frozen=True, slots=True)
class Target:
    """A model, the arguments that say where it is called, and the messages as it takes them."""

    model: ModelSpec
    called: dict[str, Any]
    route: str
    anthropic: bool
    messages: list[dict[str, Any]]

    @property
    def breaker(self) -> Route:
        """The route of its breaker."""
        return self.model.model, str(self.called.get("api_base") or self.called.get("base_url") or "")


class Caller(ABC):
    """How the models of one call are asked."""

    @abstractmethod
    def target(self, model: ModelSpec) -> Target:
        """The model with the messages as it takes them.

        Raises:
            Failed: It cannot be asked.
        """

    @abstractmethod
    async def attempt(self, target: Target, bound: asyncio.Timeout) -> ModelAnswer:
        """Ask once; lift `bound`, the model's part of the time, as soon as the answer begins (`reschedule(None)`).

        Raises:
            TooMuch: The answer is beyond the agent's limits, which ends the call.
            Exception: The try failed; `failure` says how.
        """

    @abstractmethod
    def failure(self, error: Exception, target: Target) -> Failed:
        """The failure of a try that raised this error."""

    @abstractmethod
    def bounded(self, seconds: float | None) -> AbstractAsyncContextManager[asyncio.Timeout]:
        """A bound of so many seconds; None: without end."""

    @abstractmethod
    def now_s(self) -> float:
        """The time by which these seconds are counted."""

    @abstractmethod
    async def anew(self) -> None:
        """A try begins: what has been shown of an earlier one is void."""

    async def pause(self, seconds: float) -> None:
        """Wait before the next try."""
        await sleep(seconds)


async def answered(
    caller: Caller,
    models: Sequence[ModelSpec],
    *,
    timeout_s: float,
    whole: asyncio.Timeout,
    counts: ModelCounts,
    breakers: Breakers,
    named: str,
) -> tuple[Target, ModelAnswer]:
    """The model that answered, and its answer, within `timeout_s`, which is the bound `whole`; `named` is the call in the logs.

    Raises:
        Failed: None answered, or the request itself was refused.
        TooMuch: The answer exceeds the limits.
    """
    failures = list[tuple[str, Failed]]()
    ends_s = caller.now_s() + timeout_s
    for left, model in zip(range(len(models) - 1, -1, -1), models, strict=True):
        counts.turns_to(model.model)
        share_s = (ends_s - caller.now_s()) / (left + 1)
        tries = partial(_with_retries, caller, counts=counts, breakers=breakers, named=named, whole=whole)
        try:
            target = caller.target(model)
            return target, await _within(caller, share_s if left else None, partial(tries, target))
        except Failed as failed:
            failures.append((model.model, failed))
            if not left or not failed.onward:
                raise _all(failures) from failed
            counts.passed_on(failed.why)
            logger.info("%s: a fallback is asked in place of %s: %s", named, model.model, failed)
    raise AssertionError("unreachable: the last model answers or raises")


def target(
    model: ModelSpec,
    agent: Agent | None,
    messages: list[dict[str, Any]],
    *,
    provider: Callable[[str, str | None], str],
    keyed: Callable[[str], bool],
    blind: Callable[[str, str], bool],
    hidden: bool,
) -> Target:
    """A model as the app has it be called, with the messages as it takes them.

    `provider` gives the provider's interface of a model ('': unknown), by the app's word for it if there is one; `keyed` is as
    `destination.arguments` has it; `blind` says of a model and its interface whether it is known to take no images. `hidden`:
    the answer is a summary, which nobody reads while it comes.

    Raises:
        Failed: It may not be called, or cannot take a part of this turn.
    """
    try:
        called = destination.arguments(model, agent, lambda name: provider(name, None), keyed, summarizes=hidden)
    except destination.Elsewhere as elsewhere:
        raise Failed(str(elsewhere), FailureReason.MODEL_ERROR, onward=True, why="elsewhere") from elsewhere
    route = provider(called["model"], called.get("custom_llm_provider"))
    anthropic = route == "anthropic" or (route in ANTHROPIC_ELSEWHERE and "claude" in model.model)
    sees_none = partial(blind, called["model"], route)
    try:
        taken = media.sendable(messages, model=model.model, route=route, anthropic=anthropic, blind=sees_none)
    except media.Unsendable as unsendable:
        raise Failed(str(unsendable), FailureReason.UNSUPPORTED_PART, onward=True, why="part") from unsendable
    return Target(model, called, route, anthropic, taken)


def passes(error: Exception) -> bool:
    """Whether the same request may be answered later, by the status of the error or its type."""
    status = getattr(error, "status_code", None)
    if isinstance(error, Broken):
        return True
    if isinstance(status, int):
        return status in PASSING_STATUSES or status >= 500  # noqa: PLR2004 - server errors
    return isinstance(error, OSError | TimeoutError)


def unavailable(error: Exception) -> bool:
    """Whether the model cannot be asked at all, while another one may answer the same request."""
    return getattr(error, "status_code", None) in UNAVAILABLE_STATUSES


def failure(said: str, *, passing: bool, onward: bool, too_long: bool, wait_s: float | None = None) -> Failed:
    """A failed try in the words of its error: whether it passes, another model may answer, the request was too long."""
    reason = FailureReason.MODEL_ERROR
    if not onward and too_long:
        said, reason = f"{said} ({overflow.FIX})", FailureReason.CONTEXT_OVERFLOW
    return Failed(said, reason, onward=onward, why="error" if passing else "refused", passes=passing, wait_s=wait_s)


async def _within(caller: Caller, share_s: float | None, tries: _Tries) -> ModelAnswer:
    """The answer of a model that begins within these seconds, if another one may be asked then."""
    try:
        async with caller.bounded(share_s) as bound:
            return await tries(bound)
    except TimeoutError:
        if share_s is None or not bound.expired():
            raise
        message = f"no answer began within {share_s:.3g} s, its part of Limits.model_timeout_s"
        raise Failed(message, FailureReason.MODEL_ERROR, onward=True, why="timeout") from None


async def _with_retries(
    caller: Caller,
    target: Target,
    bound: asyncio.Timeout,
    *,
    counts: ModelCounts,
    breakers: Breakers,
    whole: asyncio.Timeout,
    named: str,
) -> ModelAnswer:
    backoff = Backoff(FIRST_DELAY_S, LONGEST_DELAY_S, jitter=0.5)
    last: Failed | None = None
    ends_s = bound.when()
    for left in range(target.model.retries, -1, -1):
        if last is not None:
            counts.repeated()
        await caller.anew()
        if not bound.expired():
            bound.reschedule(ends_s)
        try:
            entered = breakers.enter(target.breaker, target.model.breaker)
        except PassedOver as passed:
            raise last or Failed(str(passed), FailureReason.MODEL_UNAVAILABLE, onward=True, why="breaker") from None
        try:
            answer = await caller.attempt(target, bound)
        except TooMuch:
            entered.ended(failed=False)
            raise
        except asyncio.CancelledError:  # by the bound of this model, of the call, or by whoever no longer waits
            entered.ended(failed=True if bound.expired() or whole.expired() else None)
            raise
        except Exception as error:  # clients of providers raise anything
            try:
                last = caller.failure(error, target)
            except BaseException:
                entered.ended(failed=None)
                raise
            entered.ended(failed=last.onward)
            pause_s = backoff.next_s()
            if not last.passes or not left or (ends_s is not None and (last.wait_s or 0) > LONGEST_DELAY_S):
                raise last from error
            logger.info("%s, try %d: %s", named, counts.tries, last)
            await caller.pause(pause_s if last.wait_s is None else last.wait_s)
        else:
            entered.ended(failed=False)
            return answer
    raise AssertionError("unreachable: the last try returns or raises")


def _all(failures: list[tuple[str, Failed]]) -> Failed:
    """The failures of the models that were asked, as one."""
    last = failures[-1][1]
    if len(failures) == 1:
        return last
    reasons = {failed.reason for _, failed in failures}
    share = WORDS // len(failures)
    said = "; ".join(f"{model:.100}: {failed!s:.{share}}" for model, failed in failures)
    one = len(reasons) == 1 or last.reason is FailureReason.CONTEXT_OVERFLOW  # which the last model said of the request itself
    return Failed(said, last.reason if one else FailureReason.MODEL_ERROR, onward=False, why=last.why)
