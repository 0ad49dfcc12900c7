"""The spans of a worker's work: one for each model call and each tool run."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from opentelemetry.trace import Span, SpanKind

from holdfast import traces
from holdfast.actors.workers import AnswerOutcome, ModelRequest, RunRequest
from holdfast.conversation import AgentSpec, ModelFailed
from holdfast.conversation.terms.parts import in_words
from holdfast.redaction import Redaction

TEXT = 4096
"""How many characters of one text a span may show."""
WORD = 100
"""How many characters of a provider's finish reason a span shows."""
MESSAGES = 16_384
"""How many characters of messages a span may show, taken from the last ones."""


@dataclass(frozen=True, slots=True)
class Content:
    """The content of messages and tools in spans: none without a `redaction`, which is applied to all of it."""

    redaction: Redaction | None = None

    def of(self, text: str | None) -> str | None:
        """The text as a span may show it; None if it may not."""
        return None if self.redaction is None or text is None else self.redaction.redacted(text, TEXT)

    def of_messages(self, messages: Sequence[Mapping[str, Any]]) -> str | None:
        """The last of these messages (OpenAI chat format), as JSON in the form of the conventions; None if none is shown."""
        if self.redaction is None:
            return None
        shown: list[str] = []
        left = MESSAGES
        for message in reversed(messages):
            text = json.dumps({"role": message.get("role", ""), "parts": list(self._parts(message))}, ensure_ascii=False)
            left -= len(text)
            if left < 0:
                break
            shown.append(text)
        return f"[{','.join(reversed(shown))}]"

    def _parts(self, message: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        content = message.get("content")
        text = None if content is None else in_words(content)
        if message.get("role") == "tool":
            yield {"type": "tool_call_response", "id": message.get("tool_call_id"), "response": self.of(text)}
        elif text:
            yield {"type": "text", "content": self.of(text)}
        for call in message.get("tool_calls") or ():
            asked = call["function"]
            arguments = self.of(asked["arguments"])
            named = {"id": self.of(call.get("id")), "name": self.of(asked["name"])}
            yield {"type": "tool_call", **named, "arguments": arguments}


NO_CONTENT = Content()


@dataclass(frozen=True)
class _WorkSpan:
    _span: Span
    _content: Content


class ModelSpan(_WorkSpan):
    """The span of a model call."""

    def ended(self, outcome: AnswerOutcome, *, tries: int = 1) -> None:
        """Record the outcome of the call, and how many requests it took."""
        if isinstance(outcome, ModelFailed):
            reason = "failed" if outcome.reason is None else outcome.reason.value
            _failed(self._span, reason, {traces.TRIES: tries})
            return
        answer: dict[str, Any] = {"role": "assistant", "content": outcome.content}
        answer["tool_calls"] = [
            {"id": call.tool_call_id, "function": {"name": call.name, "arguments": call.arguments}} for call in outcome.calls
        ]
        said: dict[str, traces.Said | None] = {
            traces.TRIES: tries,
            traces.RESPONSE_MODEL: outcome.model or None,
            traces.FINISH_REASONS: None if outcome.finish_reason is None else (outcome.finish_reason[:WORD],),
            traces.INPUT_TOKENS: outcome.input_tokens,
            traces.OUTPUT_TOKENS: outcome.output_tokens,
            traces.CACHED_TOKENS: outcome.cached_tokens or None,
            traces.REASONING_TOKENS: outcome.reasoning_tokens or None,
            traces.COST_USD: outcome.cost_usd,
            traces.OUTPUT: self._content.of_messages([answer]),
        }
        traces.say(self._span, said)


class RunSpan(_WorkSpan):
    """The span of a run."""

    def ended(self, result: str, *, ok: bool) -> None:
        """Record the outcome of the run; `result` is the envelope's text."""
        said = {traces.RESULT: self._content.of(result)}
        if ok:
            traces.say(self._span, said)
        else:
            _failed(self._span, "tool_error", said)

    def suspended(self, title: str) -> None:
        """Record that the body asks for a person's decision."""
        traces.say(self._span, {traces.RESULT: self._content.of(title), traces.SUSPENDED: True})


@contextmanager
def model_span(
    request: ModelRequest, spec: AgentSpec, messages: Sequence[Mapping[str, Any]], content: Content = NO_CONTENT
) -> Iterator[ModelSpan]:
    """The span of a model call, as the current one."""
    said = {
        **_about(request, "chat"),
        traces.MODEL: spec.model,
        traces.ATTEMPT: request.attempt,
        traces.INSTRUCTIONS: content.of(spec.instructions or None),
        traces.INPUT: content.of_messages(messages),
    }
    span = traces.begin(f"chat {spec.model}", said, parent=request.traceparent, kind=SpanKind.CLIENT)
    with traces.during(span):
        yield ModelSpan(span, content)


@contextmanager
def run_span(request: RunRequest, arguments: Mapping[str, Any], content: Content = NO_CONTENT) -> Iterator[RunSpan]:
    """The span of a run, as the current one: the body's own spans are its children."""
    shown = None if content.redaction is None else json.dumps(arguments, ensure_ascii=False, default=str)
    said = {
        **_about(request, "execute_tool"),
        traces.TOOL: request.tool,
        traces.CALL: request.tool_call_id,
        traces.TURN: request.turn_id,
        traces.ATTEMPT: request.attempt,
        traces.ARGUMENTS: content.of(shown),
    }
    span = traces.begin(f"execute_tool {request.tool}", said, parent=request.traceparent)
    with traces.during(span):
        yield RunSpan(span, content)


def _about(request: ModelRequest | RunRequest, operation: str) -> dict[str, traces.Said | None]:
    return {
        traces.OPERATION: operation,
        traces.AGENT: request.agent,
        traces.CONVERSATION: request.conversation_id,
        traces.EFFECT: request.effect_id,
    }


def _failed(span: Span, error: str, said: Mapping[str, traces.Said | None]) -> None:
    traces.say(span, {**said, traces.ERROR: error})
    traces.failed(span)
