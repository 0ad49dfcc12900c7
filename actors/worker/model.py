"""Calling models through litellm; no other file imports it.

litellm's retries are off: `failover` repeats a try that fails, and asks the next model.
"""

import asyncio
import copy
import importlib
import logging
import math
import os
import sys
import types
from collections.abc import Callable
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
from holdfast.conversation import AgentSpec, FailureReason, ModelFailed, ToolSpec
from holdfast.conversation.records.proposed_call import ProposedCall
from holdfast.conversation.terms.models import ModelSpec
from holdfast.persistence import Runs
from holdfast.redaction import Redaction

from . import cache_marks, destination, failover, overflow, prompt
from .app_loop import AppLoop
from .breakers import Breakers
from .chat_chunks import RESPONSES
from .failover import Failed, Target
from .gate import CallRules
from .live import Deltas
from .model_answer import ModelAnswer, TooMuch
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

LONGEST_RETRY_AFTER_S = 60.0
CLOSE_S = 5.0
"""Seconds that closing a connection may take."""
OWN_FORMAT = "supports_native_structured_output"
"""What litellm's table says of Anthropic's models that have structured output of their own."""
WITH_TOOLS = ("openai", "azure")
"""Providers whose structured output goes with tools."""
IMITATED = "bedrock"
"""The provider for which litellm imitates it by a call that it forces."""


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
    how: dict[str, Any] = {"redaction": redaction, "counts": counts, "direct": direct, "hidden": hidden}
    calling = _Calling(store, request, spec, messages, agent=agent, hides=rules.hides, **how)
    named, timeout_s = f"model call {request.effect_id} of {request.conversation_id}", spec.limits.model_timeout_s
    asked = partial(failover.answered, calling, spec.models, timeout_s=timeout_s, named=named)
    stops = await Stops.of(store, request, spec, agent)
    failed = partial(ModelFailed, effect_id=request.effect_id)
    try:
        async with asyncio.timeout(timeout_s) as whole:
            target, answer = await asked(whole=whole, counts=counts, breakers=breakers)
    except TimeoutError:
        return model_outcome.overdue(request.effect_id, spec.limits)
    except Failed as failure:
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
        logger.exception("%s: its answer cannot be used", named)
        problem = f"the model's answer cannot be used: {_words(error, redaction)}"
        return failed(error=problem, reason=FailureReason.UNUSABLE)


class _Calling(failover.Caller):
    """How the models of one call are asked through litellm."""

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
        direct: bool,
        hidden: bool,
    ) -> None:
        self._request = request
        self._spec = spec
        self._hides = hides
        self._redaction = redaction
        self._counts = counts
        self._direct = direct
        self._deltas = Deltas(store, request, 0, hidden=hidden)
        self._target = partial(failover.target, agent=agent, messages=messages, hidden=hidden)

    def target(self, model: ModelSpec) -> Target:
        blind = lambda model, route: _says(model, route, "supports_vision") is False  # noqa: E731 - asked only if there is an image
        return self._target(model, provider=_provider, keyed=_keyed, blind=blind)

    def bounded(self, seconds: float | None) -> asyncio.Timeout:
        return asyncio.timeout(seconds)

    def now_s(self) -> float:
        return asyncio.get_running_loop().time()

    async def anew(self) -> None:
        await self._deltas.begin_anew()

    async def attempt(self, target: Target, bound: asyncio.Timeout) -> ModelAnswer:
        def began() -> None:
            if not bound.expired():
                bound.reschedule(None)

        # the arguments are made anew: litellm changes some of what it is given
        arguments = _arguments(self._spec, target, self._hides, stopped=bool(self._request.stopped))
        return await _stream(self._deltas, ModelAnswer(self._spec.limits), arguments, self._counts, began, direct=self._direct)

    def failure(self, error: Exception, target: Target) -> Failed:
        passing, said = _passes(error), _words(error, self._redaction)
        onward, too_long = passing or _unavailable(error, target.route), _overflows(error, said)
        return failover.failure(said, passing=passing, onward=onward, too_long=too_long, wait_s=_retry_after_s(error))


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


def _arguments(spec: AgentSpec, target: Target, hidden: Callable[[ToolSpec], bool], *, stopped: bool = False) -> dict[str, Any]:
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
    if spec.context is not None and cache_marks.takes_marks(called["model"], route=route, anthropic=anthropic, says=_says):
        sent = cache_marks.marked(sent, tools, called["model"], anthropic=anthropic)
    return {
        **copy.deepcopy(called),
        "messages": sent,
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


def _structured(target: Target, tools: list[dict[str, Any]]) -> bool:
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
    lasting = litellm.exceptions.ContextWindowExceededError | litellm.exceptions.AuthenticationError
    return not isinstance(error, lasting) and failover.passes(error)


def _unavailable(error: Exception, route: str) -> bool:
    """Whether the model cannot be asked at all, while another one may answer the same request."""
    return not route or isinstance(error, litellm.exceptions.AuthenticationError) or failover.unavailable(error)


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
