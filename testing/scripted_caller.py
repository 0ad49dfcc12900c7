"""How a rehearsal asks the models of a call: its script once for each of them, in place of the model's tries."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

from holdfast.actors.worker import failover, overflow, prompt
from holdfast.actors.worker.failover import Failed, Target
from holdfast.actors.worker.model_answer import ModelAnswer
from holdfast.actors.worker.model_outcome import WORDS
from holdfast.agent import Agent, model_table
from holdfast.conversation import AgentSpec
from holdfast.conversation.terms.models import ModelSpec
from holdfast.redaction import PLAIN

from .moved_clock import MovedClock
from .scripted_model import ScriptedModel, answer_of, cost_of
from .transcripts import Message


class ScriptedCaller(failover.Caller):
    """One call of an agent's models, by a script.

    The script is asked once for each model: its error is raised again for each further try, without pauses. `sent` is told
    what the script is asked. `spec` is the agent's, or that of who summarises; `hidden` as in `failover.target`.

    Attributes:
        mistake: The exception that the script itself raised: a mistake of the test, not an error of the model.
        cost_usd: What the answer cost in US dollars; None if it does not say.
    """

    def __init__(
        self,
        script: ScriptedModel,
        agent: Agent,
        spec: AgentSpec,
        messages: list[dict[str, Any]],
        *,
        effect_id: str,
        clock: MovedClock,
        sent: Callable[[list[Message]], None],
        hidden: bool,
    ) -> None:
        self.mistake: Exception | None = None
        self.cost_usd: float | None = None
        self._script = script
        self._agent = agent
        self._spec = spec
        self._messages = messages
        self._effect_id = effect_id
        self._clock = clock
        self._sent = sent
        self._hidden = hidden
        self._refused: tuple[Target, Exception] | None = None

    def target(self, model: ModelSpec) -> Target:
        """See `Caller.target`."""
        known: dict[str, Any] = {"provider": _provider, "keyed": lambda _: True, "blind": _blind}
        return failover.target(model, self._agent, self._messages, hidden=self._hidden, **known)

    async def attempt(self, target: Target, bound: asyncio.Timeout) -> ModelAnswer:
        """See `Caller.attempt`."""
        del bound
        if self._refused is not None and self._refused[0] is target:
            raise self._refused[1]
        messages = prompt.messages(target.messages, instructions=self._spec.instructions, route="", anthropic=False)
        self._sent(messages)
        try:
            said = await self._script.reply(messages)
        except Exception as error:
            self.mistake = error
            raise
        if isinstance(said, Exception):
            self._refused = target, said
            raise said
        try:
            answer = answer_of(said, self._spec.limits)
        except Exception as error:
            self._refused = target, error
            raise
        self.cost_usd = cost_of(said)
        return answer

    def failure(self, error: Exception, target: Target) -> Failed:
        """See `Caller.failure`; an error without a `status_code` is what its type says, or else refuses the request."""
        del target
        said = PLAIN.said(error, WORDS)
        if self.mistake is not None:
            return failover.failure(f"the test's own: {said}", passing=False, onward=False, too_long=False)
        passing = failover.passes(error)
        status = getattr(error, "status_code", None)
        too_long = overflow.says_overflow(overflow.REFUSED if status is None else status, said)
        return failover.failure(said, passing=passing, onward=passing or failover.unavailable(error), too_long=too_long)

    def bounded(self, seconds: float | None) -> AbstractAsyncContextManager[asyncio.Timeout]:
        """See `Caller.bounded`."""
        return asyncio.timeout(None) if seconds is None else self._clock.bounded(self._effect_id, seconds)

    def now_s(self) -> float:
        """See `Caller.now_s`."""
        return self._clock() / 1000

    async def anew(self) -> None:
        """See `Caller.anew`; nobody listens."""

    async def pause(self, seconds: float) -> None:
        """See `Caller.pause`; the clock stands still."""
        del seconds


def _provider(model: str, named: str | None) -> str:
    return named or model_table.provider(model)


def _blind(model: str, provider: str) -> bool:
    del provider
    return model_table.takes_no_images(model)
