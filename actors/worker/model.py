"""Calling models through litellm; no other file imports it.

litellm's retries are off and ours on: a call that fails for a transient reason (rate limits, 5xx, connection errors, timeouts)
is repeated with backoff and jitter, honouring retry-after; one that fails for a lasting reason (a bad key, an unknown model, a
context overflow) is not. A model that cannot answer gives way to the agent's next one, unless the request itself was refused.
"""

import asyncio
import copy
import importlib
import logging
import math
import os
import sys
import types
from asyncio import sleep
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # without it the import tries the network

import litellm
from litellm.litellm_core_utils.litellm_logging import Logging

try:  # litellm's Responses interface imports its gateway to MCP, which we never use, and that imports the optional `mcp`
    importlib.import_module("litellm.responses.mcp.litellm_proxy_mcp_handler")
except ImportError:
    gateway: Any = types.ModuleType("litellm.responses.mcp.litellm_proxy_mcp_handler")
    gateway.LiteLLM_Proxy_MCP_Handler = types.SimpleNamespace(should_use_litellm_mcp_gateway=lambda tools=None: False)  # noqa: ARG005
    sys.modules[gateway.__name__] = gateway

from holdfast.actors.memory import trim
from holdfast.actors.worker import model_outcome
from holdfast.actors.worker.model_outcome import WORDS
from holdfast.actors.workers import AnswerOutcome, ModelRequest
from holdfast.agent import Agent, Suspend
from holdfast.backoff import Backoff
from holdfast.conversation import AgentSpec, FailureReason, ModelFailed, ToolSpec
from holdfast.conversation.records.proposed_call import ProposedCall
from holdfast.conversation.terms.models import ModelSpec
from holdfast.persistence import Runs
from holdfast.redaction import Redaction

from . import cache_marks, destination, media, overflow, prompt
from .app_loop import AppLoop
from .breakers import Breakers, PassedOver
from .chat_chunks import RESPONSES
from .gate import CallRules
from .live import Deltas
from .model_answer import Broken, ModelAnswer, TooMuch
from .model_outcome import ModelCounts
from .provider_stream import ProviderStream
from .reply_format import response_format
from .stop_verdicts import Stops

logger = logging.getLogger("holdfast.worker")

litellm.suppress_debug_info = True
litellm.telemetry = False
litellm.drop_params = False


class _Tokenizer:
    """litellm's tokenizer, which takes 40 MB, loaded once something of it is needed: most answers say their token counts."""

    def __getattr__(self, name: str) -> Any:
        return getattr(litellm.main.encoding, name)


def _priced(self: Logging, result: Any, *given: Any, price: Any = Logging.response_cost_calculator, **named: Any) -> Any:
    return None if isinstance(result, litellm.CustomStreamWrapper) else price(self, result, *given, **named)


litellm.main._encoding_cache = _Tokenizer()  # noqa: SLF001 - every call hands it to its provider's part
Logging.response_cost_calculator = _priced  # of a stream it is asked as that begins, with no text
vars(litellm.utils).pop("json_data", None)  # what a tokenizer was parsed from
trim()

FIRST_DELAY_S = 0.5
LONGEST_DELAY_S = 8.0
LONGEST_RETRY_AFTER_S = 60.0
CLOSE_S = 5.0
"""Seconds that closing a connection may take."""
ANTHROPIC_ELSEWHERE = frozenset({"vertex_ai", "azure_ai"})
"""Other providers whose Claude models speak Anthropic's interface."""
OWN_FORMAT = "supports_native_structured_output"
"""What litellm's table says of Anthropic's models that have structured output of their own."""
WITH_TOOLS = ("openai", "azure")
"""Providers whose structured output goes with tools."""
IMITATED = "bedrock"
"""The provider for which litellm imitates it by a call that it forces."""
PASSING_STATUSES = frozenset({408, 409, 425, 429})
UNAVAILABLE_STATUSES = frozenset({401, 402, 403, 404})
"""Statuses by which a provider refuses the key, the account or the model: another model may answer the same request."""


async def call(
    store: Runs,
    request: ModelRequest,
    *,
    spec: AgentSpec,
    messages: list[dict[str, Any]],
    agent: Agent | None,
    loop: Callable[[], AppLoop],
    rules: CallRules,
    redaction: Redaction,
    counts: ModelCounts,
    breakers: Breakers,
    direct: bool = True,
    hidden: bool = False,
) -> AnswerOutcome:
    """Call the spec's models without hidden tools; the outcome after all retries. App code runs in `loop`'s threads.

    `direct`: plain chunks of a stream are read without litellm. `hidden`: nobody is told of the answer while it comes.
    """
    how: dict[str, Any] = {"redaction": redaction, "counts": counts, "breakers": breakers, "direct": direct, "hidden": hidden}
    asking = _Asking(store, request, spec, messages, agent=agent, hides=rules.hides, **how)
    stops = await Stops.of(store, request, spec, agent)
    failed = partial(ModelFailed, effect_id=request.effect_id)
    try:
        async with asyncio.timeout(spec.limits.model_timeout_s) as whole:
            target, answer = await asking.answered(whole)
    except TimeoutError:
        return model_outcome.overdue(request.effect_id, spec.limits)
    except _Failed as failure:
        return failed(error=str(failure), reason=failure.reason)
    except TooMuch as excess:
        return model_outcome.excessive(request.effect_id, excess, redaction)
    counts.whole(_cost_usd(target.called, answer))
    try:
        calls: tuple[ProposedCall, ...] = ()
        misfit: str | None = None
        if proposed := answer.calls():
            room, in_force, turn = loop(), await rules.now(), await rules.turn()
            judged = partial(model_outcome.judged, agent, spec, proposed, redaction, rules=in_force, turn=turn)
            calls = await room.judged(spec.name, lambda asking: judged(asking=asking))
        if (value := model_outcome.reply_to_validate(agent, spec, answer)) is not None:
            validate = partial(model_outcome.misfit, agent, value, redaction)
            misfit = await loop().judged(spec.name, lambda asking: validate(ask=asking(0)))
        fallback = target.model.model if target.model.model != spec.model else ""
        said: dict[str, Any] = {"route": target.route, "model": fallback, "counts": counts, "misfit": misfit}
        if stops is not None:
            said["reached"] = await stops.reached(answer, counts.cost_usd, loop, redaction)
        return model_outcome.replied(request.effect_id, answer, calls, **said)
    except (Exception, Suspend) as error:  # the answer is paid for, and another would be like it
        logger.exception("model call %s of %s: its answer cannot be used", request.effect_id, request.conversation_id)
        problem = f"the model's answer cannot be used: {_words(error, redaction)}"
        return failed(error=problem, reason=FailureReason.UNUSABLE)


class _Failed(Exception):
    """A model did not answer. `onward`: another one may answer the same request; `why` is the label of the count."""

    def __init__(self, message: str, reason: FailureReason, *, onward: bool, why: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.onward = onward
        self.why = why


@dataclass(frozen=True, slots=True)
class _Target:
    """A model, the arguments that say where it is called, and the messages as it takes them."""

    model: ModelSpec
    called: dict[str, Any]
    route: str
    anthropic: bool
    messages: list[dict[str, Any]]

    @property
    def breaker(self) -> tuple[str, str]:
        return self.model.model, str(self.called.get("api_base") or self.called.get("base_url") or "")


class _Asking:
    """One call of an agent's models, one after the other, until one has answered."""

    def __init__(
        self,
        store: Runs,
        request: ModelRequest,
        spec: AgentSpec,
        messages: list[dict[str, Any]],
        *,
        agent: Agent | None,
        hides: Callable[[ToolSpec], bool],
        redaction: Redaction,
        counts: ModelCounts,
        breakers: Breakers,
        direct: bool,
        hidden: bool,
    ) -> None:
        self._request = request
        self._spec = spec
        self._messages = messages
        self._agent = agent
        self._hides = hides
        self._redaction = redaction
        self._counts = counts
        self._breakers = breakers
        self._direct = direct
        self._deltas = Deltas(store, request, 0, hidden=hidden)

    async def answered(self, whole: asyncio.Timeout) -> tuple[_Target, ModelAnswer]:
        """The model that answered, and its answer, within the time of the whole call.

        Raises:
            _Failed: None answered, or the request itself was refused.
            TooMuch: The answer exceeds the limits.
        """
        models, failures = self._spec.models, list[tuple[str, _Failed]]()
        loop = asyncio.get_running_loop()
        ends_s = loop.time() + self._spec.limits.model_timeout_s
        for left, model in zip(range(len(models) - 1, -1, -1), models, strict=True):
            self._counts.turns_to(model.model)
            share_s = (ends_s - loop.time()) / (left + 1)
            try:
                target = self._target(model)
                return target, await self._within(share_s if left else None, target, whole)
            except _Failed as failed:
                failures.append((model.model, failed))
                if not left or not failed.onward:
                    raise _all(failures) from failed
                self._counts.passed_on(failed.why)
                logger.info("%s: a fallback is asked in place of %s: %s", self._named, model.model, failed)
        raise AssertionError("unreachable: the last model answers or raises")

    @property
    def _named(self) -> str:
        return f"model call {self._request.effect_id} of {self._request.conversation_id}"

    def _target(self, model: ModelSpec) -> _Target:
        try:
            called = destination.arguments(model, self._agent, _provider, _keyed, summarizes=self._deltas.hidden)
        except destination.Elsewhere as elsewhere:
            raise _Failed(str(elsewhere), FailureReason.MODEL_ERROR, onward=True, why="elsewhere") from elsewhere
        route = _provider(called["model"], called.get("custom_llm_provider"))
        anthropic = route == "anthropic" or (route in ANTHROPIC_ELSEWHERE and "claude" in model.model)
        blind = lambda: _says(called["model"], route, "supports_vision") is False  # noqa: E731 - asked only if there is an image
        try:
            messages = media.sendable(self._messages, model=model.model, route=route, anthropic=anthropic, blind=blind)
        except media.Unsendable as unsendable:
            raise _Failed(str(unsendable), FailureReason.UNSUPPORTED_PART, onward=True, why="part") from unsendable
        return _Target(model, called, route, anthropic, messages)

    async def _within(self, share_s: float | None, target: _Target, whole: asyncio.Timeout) -> ModelAnswer:
        """The answer of a model that begins within these seconds, if another one may be asked then."""
        ends_s = None if share_s is None else asyncio.get_running_loop().time() + share_s
        try:
            async with asyncio.timeout_at(ends_s) as bound:
                return await self._with_retries(target, bound, ends_s, lambda: bound.expired() or whole.expired())
        except TimeoutError:
            if share_s is None or not bound.expired():
                raise
            message = f"no answer began within {share_s:.3g} s, its part of Limits.model_timeout_s"
            raise _Failed(message, FailureReason.MODEL_ERROR, onward=True, why="timeout") from None

    async def _with_retries(
        self, target: _Target, bound: asyncio.Timeout, ends_s: float | None, overdue: Callable[[], bool]
    ) -> ModelAnswer:
        backoff = Backoff(FIRST_DELAY_S, LONGEST_DELAY_S, jitter=0.5)
        last: _Failed | None = None
        for left in range(target.model.retries, -1, -1):
            if last is not None:
                self._counts.repeated()
            await self._deltas.begin_anew()
            if not bound.expired():
                bound.reschedule(ends_s)
            try:
                entered = self._breakers.enter(target.breaker, target.model.breaker)
            except PassedOver as passed:
                raise last or _Failed(str(passed), FailureReason.MODEL_UNAVAILABLE, onward=True, why="breaker") from None
            try:
                answer = await self._try(target, bound)
            except TooMuch:
                entered.ended(failed=False)
                raise
            except asyncio.CancelledError:  # by the bound of this model, of the call, or by whoever no longer waits
                entered.ended(failed=True if overdue() else None)
                raise
            except Exception as error:  # litellm raises whatever its providers' clients do
                passes, onward = _passes(error), _passes(error) or _unavailable(error, target.route)
                entered.ended(failed=onward)
                said, reason = _words(error, self._redaction), FailureReason.MODEL_ERROR
                if not onward and _overflows(error, said):
                    said, reason = f"{said} ({overflow.FIX})", FailureReason.CONTEXT_OVERFLOW
                last = _Failed(said, reason, onward=onward, why="error" if passes else "refused")
                asked_s, pause_s = _retry_after_s(error), backoff.next_s()
                if not passes or not left or (ends_s is not None and (asked_s or 0) > LONGEST_DELAY_S):
                    raise last from error
                logger.info("%s, try %d: %s", self._named, self._counts.tries, said)
                await sleep(pause_s if asked_s is None else asked_s)
            else:
                entered.ended(failed=False)
                return answer
        raise AssertionError("unreachable: the last try returns or raises")

    async def _try(self, target: _Target, bound: asyncio.Timeout) -> ModelAnswer:
        def began() -> None:
            if not bound.expired():
                bound.reschedule(None)

        # the arguments are made anew: litellm changes some of what it is given
        arguments = _arguments(self._spec, target, self._hides, stopped=bool(self._request.stopped))
        return await _stream(self._deltas, ModelAnswer(self._spec.limits), arguments, self._counts, began, direct=self._direct)


def _all(failures: list[tuple[str, _Failed]]) -> _Failed:
    """The failures of the models that were asked, as one."""
    last = failures[-1][1]
    if len(failures) == 1:
        return last
    reasons = {failed.reason for _, failed in failures}
    share = WORDS // len(failures)
    said = "; ".join(f"{model:.100}: {failed!s:.{share}}" for model, failed in failures)
    one = len(reasons) == 1 or last.reason is FailureReason.CONTEXT_OVERFLOW  # which the last model said of the request itself
    return _Failed(said, last.reason if one else FailureReason.MODEL_ERROR, onward=False, why=last.why)


async def _stream(
    deltas: Deltas,
    answer: ModelAnswer,
    arguments: dict[str, Any],
    counts: ModelCounts,
    began: Callable[[], None],
    *,
    direct: bool,
) -> ModelAnswer:
    counts.asked()
    found, observed = await litellm.acompletion(**arguments), _observed()
    stream = ProviderStream(found, answer, litellm.ModelResponseStream, observed=observed, direct=direct and not observed)
    restarts = 0
    try:
        async for chunk in stream:
            counts.answers()
            began()
            if answer.restarts > restarts:
                restarts = answer.restarts
                await deltas.begin_anew()
            await deltas.add(*answer.add(chunk))
        answer.finish()
    except Exception:
        answer.check()  # if the answer exceeds a limit, that is why its stream ended
        raise
    finally:
        await _close(stream)
        await deltas.flush()  # an abandoned try's text comes before the next try's
    return answer


def _observed() -> bool:
    """Whether litellm has callbacks or rules for whole answers, counts or caches them, or ends them after a time."""
    told = [*litellm.callbacks, *litellm.success_callback, *litellm._async_success_callback]  # noqa: SLF001 - the coroutines
    # litellm itself adds "cache" with a call of Gemini's; what keeps answers is `litellm.cache`
    others = (
        litellm.max_budget,
        litellm.cache,
        litellm.post_call_rules,
        litellm.constants.LITELLM_MAX_STREAMING_DURATION_SECONDS,
    )
    return any(one != "cache" for one in told) or any(others)


async def _close(stream: ProviderStream) -> None:
    """Close the connection. An error is only logged: a whole answer is paid for, and a failed call has its reason."""
    try:
        async with asyncio.timeout(CLOSE_S):
            await stream.aclose()
    except Exception:
        logger.warning("the connection of a model call could not be closed", exc_info=True)


def _arguments(
    spec: AgentSpec, target: _Target, hidden: Callable[[ToolSpec], bool], *, stopped: bool = False
) -> dict[str, Any]:
    called, route, messages, anthropic = target.called, target.route, target.messages, target.anthropic
    tools = prompt.tools(spec, hidden)
    formatted = None
    if spec.reply is not None:
        formatted = response_format(spec.reply) if not stopped and _structured(target, tools) else None
        tools += [prompt.final_answer(spec.reply)] if formatted is None else []
    offered: dict[str, Any] = {"tools": tools} if tools else {}
    if stopped:
        called, offered = prompt.without_tools(called, tools, route=route, anthropic=anthropic)
    sealed = any((message.get("provider") or {}).get("route") == f"{route}{RESPONSES}" for message in messages)
    interface = RESPONSES if sealed and _by_responses(called, route, offered.get("tools", [])) else ""
    sent = prompt.messages(messages, instructions=spec.instructions, route=route + interface, anthropic=anthropic)
    takes_marks = partial(cache_marks.takes_marks, called["model"], route=route, anthropic=anthropic, says=_says)
    return {
        **copy.deepcopy(called),
        "messages": cache_marks.marked(sent, tools, called["model"]) if spec.context is not None and takes_marks() else sent,
        **offered,
        **({"response_format": formatted} if formatted is not None else {}),
        **({"container": waiting} if anthropic and (waiting := prompt.container(messages)) else {}),
        "stream": True,
        "stream_options": {"include_usage": True},
        "num_retries": 0,
        "max_retries": 0,
        "timeout": spec.limits.model_timeout_s,
        "_skip_mcp_handler": True,  # it would import the optional package `mcp` as soon as there are tools
    }


def _structured(target: _Target, tools: list[dict[str, Any]]) -> bool:
    """Whether a model takes a `response_format` beside these tools, by litellm's table and as its provider's own."""
    asked = {"model": target.called["model"], "custom_llm_provider": target.route or None}
    try:
        if target.anthropic:  # for its other models litellm imitates it by a call that it forces
            called = any("tool_calls" in message for message in target.messages)
            own = target.route == "anthropic" and bool(tools or not called)
            return own and bool(litellm.utils.supports_factory(**asked, key=OWN_FORMAT))
        if target.route.startswith(IMITATED) or (tools and target.route not in WITH_TOOLS):
            return False
        return bool(litellm.supports_response_schema(**asked))
    except Exception:  # noqa: BLE001 - an unknown model
        return False


def _by_responses(called: dict[str, Any], route: str, tools: list[dict[str, Any]]) -> bool:
    """Whether litellm makes the call by OpenAI's Responses interface, because of the model's name or the tools."""
    try:
        model = litellm.get_llm_provider(model=called["model"], custom_llm_provider=called.get("custom_llm_provider"))[0]
        named = {name: called.get(name) for name in ("web_search_options", "reasoning_effort", "api_base")}
        found, _ = litellm.main.responses_api_bridge_check(model=model, custom_llm_provider=route, tools=tools, **named)
        return bool(found.get("mode") == "responses")
    except Exception:  # noqa: BLE001 - then parts for that interface alone are not sent back
        return False


def _cost_usd(called: dict[str, Any], answer: ModelAnswer) -> float | None:
    """The cost of an answer in US dollars, by litellm's prices; None if the price or the token count is unknown."""
    if answer.usage is None:
        return None
    named = called.get("custom_llm_provider")
    try:
        parts = litellm.cost_per_token(model=called["model"], custom_llm_provider=named, usage_object=answer.usage)
        return float(sum(parts))
    except Exception as error:  # noqa: BLE001 - an unknown price must not spoil the answer
        logger.debug("the cost of a call of %s is not known: %s", called["model"], type(error).__name__)
        return None


def _provider(model: str, named: str | None = None) -> str:
    """The name of the provider's interface that litellm chooses; '' if unknown, and then the call itself fails."""
    try:
        return str(litellm.get_llm_provider(model=model, custom_llm_provider=named)[1])
    except Exception:  # noqa: BLE001 - the call fails with the reason
        return ""


def _says(model: str, route: str, what: str) -> Any:
    """What litellm's table of models says of one; None if it says nothing, or does not know the model."""
    try:
        return litellm.get_model_info(model, route or None).get(what)
    except Exception:  # noqa: BLE001 - an unknown model
        return None


def _keyed(family: str) -> bool:
    return litellm.api_key is None and any(os.environ.get(name) for name in destination.FIXED[family])


def _passes(error: Exception) -> bool:
    status = getattr(error, "status_code", None)
    if isinstance(error, Broken):
        return True
    if isinstance(error, litellm.exceptions.ContextWindowExceededError | litellm.exceptions.AuthenticationError):
        return False
    if isinstance(status, int):
        return status in PASSING_STATUSES or status >= 500  # noqa: PLR2004 - server errors
    return isinstance(error, OSError | TimeoutError)


def _unavailable(error: Exception, route: str) -> bool:
    """Whether the model cannot be asked at all, while another one may answer the same request."""
    unknown = not route or isinstance(error, litellm.exceptions.AuthenticationError)
    return unknown or getattr(error, "status_code", None) in UNAVAILABLE_STATUSES


def _overflows(error: Exception, said: str) -> bool:
    """Whether the provider refuses a request because it has more tokens than the model takes."""
    known = isinstance(error, litellm.exceptions.ContextWindowExceededError)
    return overflow.says_overflow(getattr(error, "status_code", None), said, known=known)


def _retry_after_s(error: Exception) -> float | None:
    cause = getattr(error, "original_exception", None) or error  # litellm wraps what a stream raises
    headers = getattr(cause, "litellm_response_headers", None) or {}
    try:
        wait_s = float(headers.get("retry-after", ""))
    except (TypeError, ValueError):
        return None
    return None if math.isnan(wait_s) else min(max(wait_s, 0.0), LONGEST_RETRY_AFTER_S)


def _words(error: BaseException, redaction: Redaction) -> str:
    return redaction.said(error, WORDS).encode("utf-8", "replace").decode()
