"""Summaries of the first messages of a conversation: what a model is asked for one, and the verdict on its answer. All is pure.

The messages stand in the request as data, in an envelope of Holdfast's own: a text among them is nobody's word to the model
that summarises. The last summary is among them, so each one stands for everything up to its boundary.
"""

from collections.abc import Mapping
from typing import Any

from holdfast.conversation import notes
from holdfast.conversation.log.transcript import PAUSED
from holdfast.conversation.records.commands import ModelFailed, ModelReplied, Summarized
from holdfast.conversation.records.event_base import MEASURED, FailureReason, StopReason, SummaryFailure
from holdfast.conversation.sizes import notes_tokens
from holdfast.conversation.terms.models import ModelSpec
from holdfast.conversation.terms.spec import AgentSpec
from holdfast.conversation.text import jsontext
from holdfast.conversation.text.tokens import text_tokens
from holdfast.conversation.window import Summarizing

BOUNDS = ("max_tokens", "max_completion_tokens")
"""The model options that bound an answer."""
NOT_OF_SUMMARIES = frozenset(
    {
        *(*BOUNDS, "n", "stop", "response_format", "tool_choice", "parallel_tool_calls", "web_search_options"),
        *("thinking", "reasoning", "reasoning_effort", "modalities", "audio", "prediction"),
        *("logprobs", "top_logprobs", "logit_bias"),
    }
)
"""The options of an agent's model that a request for a summary does not have: thinking would use up what it may answer."""
OF_THINKING = frozenset({"thinking", "reasoning", "reasoning_effort"})
"""Those of them that a model has which is declared for summaries: it may think less than it would without."""
ASKED_FOR_TOOLS = "the model asked for tools in place of a summary"
NO_TEXT = "the model's answer has no text"
CUT_OFF = "the summary was cut off at the model's token limit (Compact.max_tokens): {} tokens"
FILTERED = "the provider's filter cut the summary off"
HARDLY_SMALLER = "with a summary of about {} tokens, the messages of the next request have hardly fewer than {}"
UNDECLARED = "the agent {!r} has no Compact"
TOO_LITTLE = (
    "nothing that may be summarised would save enough: not what the model has not answered yet, the last messages "
    "(Compact.keep), and what a summary stands for already"
)
_UNANSWERED: Mapping[FailureReason | None, SummaryFailure] = {
    FailureReason.CONTEXT_OVERFLOW: SummaryFailure.OVERFLOW,
    FailureReason.REPLY_BYTES: SummaryFailure.TOO_LONG,
}


def summarizer(spec: AgentSpec) -> AgentSpec:
    """The agent without tools that summarises an agent's conversations, with its models or those that `Compact` declares."""
    compact = None if spec.context is None else spec.context.compact
    if compact is None:
        raise ValueError(f"agent {spec.name!r} has no Compact")
    models, left_out = spec.models, NOT_OF_SUMMARIES
    if (chain := compact.chain) is not None:
        models, left_out = chain.models, NOT_OF_SUMMARIES - OF_THINKING
    elif isinstance(compact.model, str):
        models = (next((one for one in spec.declared_models if one.model == compact.model), ModelSpec(model=compact.model)),)
    most = notes_tokens(spec)
    first, *others = (one.model_copy(update={"options": _options(one.options, most, left_out)}) for one in models)
    timeout_s = min(compact.timeout_s, spec.limits.model_timeout_s)
    return AgentSpec(
        name=spec.name,
        model=first.model,
        model_options=first.options,
        retries=first.retries,
        breaker=first.breaker,
        fallbacks=tuple(others),
        instructions=compact.prompt or notes.PROMPT,
        limits=spec.limits.model_copy(update={"model_timeout_s": timeout_s}),
    )


def _options(options: jsontext.JsonText, most: int, left_out: frozenset[str]) -> jsontext.JsonText:
    given = jsontext.loads(options)
    bound = next((name for name in reversed(BOUNDS) if name in given), BOUNDS[0])
    return jsontext.dumps({name: value for name, value in given.items() if name not in left_out} | {bound: most})


def without_thinking(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of an agent's model that are not stored, as a request for a summary has them: without those of thinking."""
    left_out = NOT_OF_SUMMARIES.difference(BOUNDS)
    plain = {name: value for name, value in options.items() if name not in left_out}
    if isinstance(extra := plain.get("extra_body"), Mapping):
        plain["extra_body"] = {name: value for name, value in extra.items() if name not in left_out}
    return plain


def request(due: Summarizing) -> list[dict[str, Any]]:
    """The messages of a request for a summary, behind the instructions of `summarizer`."""
    return notes.request(due.messages, notes=due.behind)


def verdict(outcome: ModelReplied | ModelFailed, due: Summarizing, origins: Mapping[int, tuple[int, int]]) -> Summarized:
    """The outcome of a model call that was to summarise; `origins` are those of the transcript."""
    if isinstance(outcome, ModelFailed):
        reason = _UNANSWERED.get(outcome.reason, SummaryFailure.NO_ANSWER)
        return failed(outcome.effect_id, reason, outcome.error)
    summary = (outcome.content or "").strip()
    used: dict[str, Any] = {"effect_id": outcome.effect_id, "tokens_before": due.tokens, "model": outcome.model}
    used |= {name: getattr(outcome, name) for name in MEASURED}
    problem = _problem(outcome, summary)
    if problem is None and (saved := due.saves(summary)) is not None:
        placed = {"boundary": origins[due.first][0] - 1, "messages": due.first, "tokens_after": due.tokens - saved}
        asked_at = 0 if due.asked is None else origins[due.asked][1]
        return Summarized(**used, **placed, asked_at=asked_at, summary=summary)
    if problem is None:
        problem = SummaryFailure.SAVES_TOO_LITTLE, HARDLY_SMALLER.format(text_tokens(summary), due.tokens)
    return Summarized(**used, failed=problem[0], error=problem[1])


def failed(effect_id: str, reason: SummaryFailure, error: str) -> Summarized:
    """The outcome of a model call that was to summarise, and was not answered."""
    return Summarized(effect_id=effect_id, failed=reason, error=error)


def nothing(spec: AgentSpec) -> str:
    """Why there is nothing to summarise, though somebody has asked for it."""
    return UNDECLARED.format(spec.name) if spec.context is None or spec.context.compact is None else TOO_LITTLE


def _problem(answer: ModelReplied, summary: str) -> tuple[SummaryFailure, str] | None:
    if answer.calls:
        return SummaryFailure.CALLS, ASKED_FOR_TOOLS
    if answer.finish_reason == StopReason.CONTENT_FILTER:
        return SummaryFailure.REFUSED, FILTERED
    if answer.finish_reason in (StopReason.LENGTH, PAUSED):
        return SummaryFailure.TOO_LONG, CUT_OFF.format(answer.output_tokens or text_tokens(summary))
    if not summary:
        return SummaryFailure.EMPTY, NO_TEXT
    return None
