"""The bounds of an agent's `Stop` that workers judge: an expression over the answer's text, and functions of the app."""

import inspect
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any, Protocol, TypeVar

from holdfast.actors.workers import ModelRequest
from holdfast.agent import Agent
from holdfast.conversation import AgentSpec, StopReason
from holdfast.conversation.records.event_base import Reached
from holdfast.conversation.terms.money import NANOS, nanos
from holdfast.conversation.terms.reply import FINAL_ANSWER
from holdfast.conversation.terms.turn_stats import TurnStats
from holdfast.conversation.text.regex import Regex
from holdfast.errors import HoldfastError
from holdfast.redaction import Redaction

from .asking import FUNCTION_S
from .model_answer import ModelAnswer

logger = logging.getLogger("holdfast.worker")

_T = TypeVar("_T")
REASON_CHARS = 300
"""How many characters of a function's reason are kept."""
SHOWN_CHARS = 100
"""How many characters of an expression a stop's detail shows."""
FAILED = "it failed ({})"
NO_TEXT = "it returned {}, which is no text"
UNANSWERED = f"it gave no answer within {FUNCTION_S:g} s"


class Room(Protocol):
    """The place where functions of the app run."""

    async def asked(self, agent: str, what: str, function: Callable[[], _T], otherwise: _T) -> _T:
        """See `AppLoop.asked`."""


class Clock(Protocol):
    """The part of a `Store` that says the time."""

    async def now(self) -> int:
        """See `Database.now`."""


@dataclass(frozen=True, slots=True)
class _Bound:
    """A bound: how it is declared, why a turn stops by it, and whether it is reached."""

    said: str
    reason: StopReason
    holds: Callable[[], Any]

    def reached(self, words: str = "") -> Reached:
        return Reached(reason=self.reason, detail=f"Stop({self.said}){': ' if words else ''}{words}")


class Stops:
    """The judgement of one answer. A bound that cannot be judged counts as reached, and its detail says why."""

    def __init__(self, spec: AgentSpec, agent: Agent | None, before: TurnStats, asked_at: int) -> None:
        self._spec = spec
        self._before = before
        self._asked_at, self._asked_s = asked_at, time.monotonic()
        known = () if agent is None or agent.spec.stop is None else agent.spec.stop.functions
        self._functions = {one.name: one.function for one in known}

    @classmethod
    async def of(cls, store: Clock, request: ModelRequest, spec: AgentSpec, agent: Agent | None) -> "Stops | None":
        """The judgement of the request's answer, made before the model is asked; None if its agent has no such bounds."""
        stop = spec.stop
        if stop is None or request.stats is None or request.stopped or (stop.content is None and not stop.functions):
            return None
        try:
            asked_at = await store.now() if stop.functions else 0
        except HoldfastError:  # no reason to lose a model call
            asked_at = round(time.time() * 1000)
        return cls(spec, agent, request.stats, asked_at)

    async def reached(
        self, answer: ModelAnswer, cost_usd: float | None, room: Callable[[], Room], redaction: Redaction
    ) -> Reached | None:
        """The first bound that the turn reaches with an answer; None for an answer that ends the turn anyway."""
        calls = tuple(call.name for call in answer.calls())
        if not calls and self._spec.reply is None:
            return None
        bounds = self._bounds(answer, calls, cost_usd)
        asking: list[_Bound] = []

        def judged() -> tuple[Reached | None]:
            for bound in bounds:
                asking[:] = [bound]
                if (found := _judged(bound, redaction)) is not None:
                    return (found,)
            return (None,)

        unanswered: tuple[Reached | None] | None = None
        found = await room().asked(self._spec.name, "Stop", judged, unanswered)
        if found is not None:
            return found[0]
        bound = (asking or bounds)[0]
        logger.warning("Stop(%s) of agent %r: %s", bound.said, self._spec.name, UNANSWERED)
        return bound.reached(UNANSWERED)

    def _bounds(self, answer: ModelAnswer, calls: tuple[str, ...], cost_usd: float | None) -> list[_Bound]:
        stop, text = self._spec.stop, answer.content or ""
        if stop is None:
            return []
        found = list[_Bound]()
        if (pattern := stop.content) is not None:
            shown = f"content={pattern!r:.{SHOWN_CHARS}}"
            found.append(_Bound(shown, StopReason.CONTENT, lambda: _compiled(pattern).found(text)))
        stats = self._stats(answer, calls, cost_usd)
        for one in stop.functions:
            function = self._functions.get(one.name)
            if function is not None:  # else the app has no such function any more
                found.append(_Bound(f"when={one.name}", StopReason.WHEN, partial(function, stats)))
        return found

    def _stats(self, answer: ModelAnswer, calls: tuple[str, ...], cost_usd: float | None) -> TurnStats:
        before = self._before
        asked = any(name != FINAL_ANSWER or self._spec.reply is None for name in calls)
        return replace(
            before,
            rounds=before.rounds + asked,
            model_calls=before.model_calls + 1,
            tokens=before.tokens + sum(tokens or 0 for tokens in answer.tokens),
            cost_usd=(nanos(before.cost_usd) + nanos(cost_usd)) / NANOS,
            calls=calls,
            text=answer.content or "",
            at=max(self._asked_at + round((time.monotonic() - self._asked_s) * 1000), before.started_at),
        )


def _judged(bound: _Bound, redaction: Redaction) -> Reached | None:
    try:
        told = bound.holds()
    except Exception as error:
        logger.warning("Stop(%s) failed", bound.said, exc_info=True)
        return bound.reached(FAILED.format(type(error).__name__))
    if inspect.iscoroutine(told):
        told.close()  # nobody awaits it
    if told is None or told is False:
        return None
    if told is True:
        return bound.reached()
    if not isinstance(told, str):
        return bound.reached(NO_TEXT.format(type(told).__name__))
    return None if not told else bound.reached(redaction.redacted(" ".join(told.split()), REASON_CHARS))


@lru_cache(maxsize=64)
def _compiled(pattern: str) -> Regex:
    return Regex(pattern)
