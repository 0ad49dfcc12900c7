"""Calling models, through litellm: the one file that imports it.

Its retries are off and ours on: what may pass (rate limits, 5xx, connection errors, timeouts) is repeated with backoff and
jitter, honouring retry-after; what will not (a bad key, an unknown model, a context overflow) is not.
"""

import asyncio
import logging
import os
import random
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # without it the import tries the network

import litellm

from holdfast.agent import Agent
from holdfast.conversation import AgentSpec, Executor, ModelFailed, ModelReplied, ProposedCall, jsontext
from holdfast.persistence import Store

from .app_loop import AppLoop
from .crew import ModelOutcome
from .live import Deltas
from .requests import ModelRequest

logger = logging.getLogger("holdfast.worker")

litellm.suppress_debug_info = True
litellm.telemetry = False
litellm.drop_params = False

ATTEMPTS = 5
FIRST_DELAY_S = 0.5
LONGEST_DELAY_S = 8.0
LONGEST_RETRY_AFTER_S = 60.0
PASSING_STATUSES = frozenset({408, 409, 425, 429})


async def call(
    store: Store,
    request: ModelRequest,
    *,
    spec: AgentSpec,
    messages: list[dict[str, Any]],
    agent: Agent | None,
    loop: Callable[[], Awaitable[AppLoop]],
) -> ModelOutcome:
    """Call the spec's model with the messages; what came of it after all retries. The app's own rules run on its loop."""
    arguments = _arguments(spec, messages)
    try:
        async with asyncio.timeout(spec.limits.model_timeout_s):
            answer = await _with_retries(store, request, arguments)
    except TimeoutError:
        error = f"the model did not answer within {spec.limits.model_timeout_s:g} s (Limits.model_timeout_s)"
        return ModelFailed(effect_id=request.effect_id, error=error)
    except _Failed as failed:
        return ModelFailed(effect_id=request.effect_id, error=str(failed))
    try:
        return ModelReplied(
            effect_id=request.effect_id,
            content=answer.content,
            calls=await _verdicts(agent, spec, answer.calls(), loop),
            finish_reason=answer.finish_reason if isinstance(answer.finish_reason, str) else None,
            input_tokens=_count(answer.input_tokens),
            output_tokens=_count(answer.output_tokens),
        )
    except Exception as error:  # the answer has been paid for: asking again would bring its like
        logger.exception("model call %s of %s: its answer cannot be used", request.effect_id, request.conversation_id)
        return ModelFailed(effect_id=request.effect_id, error=f"the model's answer cannot be used: {_words(error)}")


class _Failed(Exception):
    pass


@dataclass(slots=True)
class _Call:
    tool_call_id: str = ""
    name: str = ""
    arguments: str = ""


@dataclass(slots=True)
class _Answer:
    content: str | None = None
    finish_reason: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    by_index: dict[int, _Call] = field(default_factory=dict)

    def calls(self) -> list[_Call]:
        return [self.by_index[index] for index in sorted(self.by_index)]

    def add(self, chunk: Any) -> str:
        """Fold a chunk in; the text it brought."""
        usage = getattr(chunk, "usage", None)
        if usage is not None:
            self.input_tokens, self.output_tokens = usage.prompt_tokens, usage.completion_tokens
        if not chunk.choices:
            return ""
        choice = chunk.choices[0]
        self.finish_reason = choice.finish_reason or self.finish_reason
        for position, part in enumerate(choice.delta.tool_calls or []):
            index = part.index if part.index is not None else position
            call = self.by_index.setdefault(index, _Call())
            call.tool_call_id = call.tool_call_id or part.id or ""
            call.name += part.function.name or ""
            call.arguments += part.function.arguments or ""
        text = choice.delta.content or ""
        if text:
            self.content = (self.content or "") + text
        return text


async def _with_retries(store: Store, request: ModelRequest, arguments: dict[str, Any]) -> _Answer:
    delay_s = FIRST_DELAY_S
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return await _stream(Deltas(store, request, attempt), arguments)
        except asyncio.CancelledError:
            raise
        except Exception as error:  # litellm raises whatever its providers' clients do
            if not _passes(error) or attempt == ATTEMPTS:
                raise _Failed(_words(error)) from error
            logger.info("model call %s of %s, try %d: %s", request.effect_id, request.conversation_id, attempt, error)
            wait_s = _retry_after_s(error)
            await asyncio.sleep(wait_s if wait_s is not None else delay_s * random.uniform(0.5, 1))  # noqa: S311 - jitter
            delay_s = min(2 * delay_s, LONGEST_DELAY_S)
    message = "unreachable: the last try returns or raises"
    raise AssertionError(message)


async def _stream(deltas: Deltas, arguments: dict[str, Any]) -> _Answer:
    answer = _Answer()
    stream = await litellm.acompletion(**arguments)
    try:
        async for chunk in stream:
            text = answer.add(chunk)
            if text:
                await deltas.add(text)
    finally:
        close = getattr(stream, "aclose", None)
        if close is not None:
            await close()
    await deltas.flush()
    if answer.content is not None:
        answer.content = answer.content.encode("utf-8", "replace").decode()
    return answer


def _arguments(spec: AgentSpec, messages: list[dict[str, Any]]) -> dict[str, Any]:
    system = [{"role": "system", "content": spec.instructions}] if spec.instructions else []
    tools = [_tool(spec, name) for name in (tool.name for tool in spec.tools)]
    return {
        **jsontext.loads(spec.model_options),
        "model": spec.model,
        "messages": [*system, *map(_sendable, messages)],
        **({"tools": tools} if tools else {}),
        "stream": True,
        "stream_options": {"include_usage": True},
        "num_retries": 0,
        "max_retries": 0,
        "timeout": spec.limits.model_timeout_s,
        "_skip_mcp_handler": True,  # it would import the optional package `mcp` as soon as there are tools
    }


def _tool(spec: AgentSpec, name: str) -> dict[str, Any]:
    tool = spec.tool(name)
    if tool is None or (tool.executor is Executor.PROVIDER and tool.definition is not None):
        return dict(jsontext.loads(tool.definition)) if tool is not None and tool.definition is not None else {}
    function = {"name": tool.name, "description": tool.description, "parameters": jsontext.loads(tool.parameters)}
    return {"type": "function", "function": function}


def _count(tokens: object) -> int | None:
    return tokens if isinstance(tokens, int) and 0 <= tokens < 1 << 53 else None


def _sendable(message: dict[str, Any]) -> dict[str, Any]:
    """The message with tool calls that every provider takes back: a legal name, and arguments that parse.

    What the model really wrote stays in the log; its result has told it what was wrong.
    """
    if "tool_calls" not in message:
        return dict(message)  # litellm may change what it is given
    sent = []
    for called in message["tool_calls"]:
        name, arguments = called["function"]["name"], called["function"]["arguments"]
        try:
            jsontext.loads(arguments)
        except jsontext.NotJson:
            arguments = "{}"
        name = re.sub(r"[^A-Za-z0-9_-]", "_", name)[:64] or "_"
        sent.append({**called, "function": {"name": name, "arguments": arguments}})
    return {**message, "tool_calls": sent}


async def _verdicts(
    agent: Agent | None, spec: AgentSpec, calls: list[_Call], loop: Callable[[], Awaitable[AppLoop]]
) -> tuple[ProposedCall, ...]:
    """The calls with the app's verdicts; its own code gives them, so in a thread and within a bound."""
    if not calls:
        return ()
    there = await loop()
    return tuple(await there.ruled(lambda: [_judged(agent, spec, call) for call in calls], spec.limits.run_timeout_s))


def _judged(agent: Agent | None, spec: AgentSpec, call: _Call) -> ProposedCall:
    """The call with the verdict of the app: whether a signature's arguments validate, and what its prompt renders to."""
    arguments = call.arguments.encode("utf-8", "replace").decode()
    name = call.name.encode("utf-8", "replace").decode()
    problem: str | None = None
    prompt: str | None = None
    tool = agent.tool(name) if agent is not None else None
    if tool is not None and spec.tool(name) is not None:
        try:
            value = jsontext.loads(arguments) if arguments.strip() else {}
        except jsontext.NotJson:
            value = None  # the machine says so
        if isinstance(value, dict):
            problem = tool.validate(value)
            prompt = tool.render(value)
    return ProposedCall(tool_call_id=call.tool_call_id, name=name, arguments=arguments, problem=problem, prompt=prompt)


def _passes(error: Exception) -> bool:
    status = getattr(error, "status_code", None)
    if isinstance(error, litellm.exceptions.ContextWindowExceededError | litellm.exceptions.AuthenticationError):
        return False
    if isinstance(status, int):
        return status in PASSING_STATUSES or status >= 500  # noqa: PLR2004 - server errors
    return isinstance(error, OSError | TimeoutError)


def _retry_after_s(error: Exception) -> float | None:
    headers = getattr(error, "litellm_response_headers", None) or {}
    try:
        return min(max(float(headers.get("retry-after", "")), 0.0), LONGEST_RETRY_AFTER_S)
    except (TypeError, ValueError):
        return None


def _words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:2000].encode("utf-8", "replace").decode()
