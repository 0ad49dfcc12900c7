"""The outcomes of model calls, for the machine: the whole answer with the app's verdicts, or why there is none.

The worker makes these outcomes of what litellm streams; `holdfast.testing.run` makes them of what a script says.
"""

from collections.abc import Iterable

from holdfast.agent import Agent
from holdfast.conversation import AgentSpec, FailureReason, Limits, ModelFailed, ModelReplied, jsontext
from holdfast.conversation.commands import ProposedCall
from holdfast.redaction import Redaction

from .model_answer import AnswerCall, ModelAnswer, TooMuch

WORDS = 2000
"""How many characters of a provider's error are kept."""


def replied(effect_id: str, answer: ModelAnswer, calls: tuple[ProposedCall, ...], *, route: str) -> ModelReplied:
    """The outcome of a call that was answered.

    Args:
        effect_id: The effect that the call carried out.
        answer: The whole answer.
        calls: The calls of the answer, with the app's verdicts.
        route: The name of the provider's interface that the answer came by.
    """
    input_tokens, output_tokens = answer.tokens
    return ModelReplied(
        effect_id=effect_id,
        content=answer.content,
        calls=calls,
        finish_reason=answer.finish_reason,
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        reasoning=answer.reasoning,
        provider=answer.provider(route),
    )


def overdue(effect_id: str, limits: Limits) -> ModelFailed:
    """The outcome of a call that passed its bound."""
    error = f"the model did not answer within {limits.model_timeout_s:g} s (Limits.model_timeout_s)"
    return ModelFailed(effect_id=effect_id, error=error, reason=FailureReason.MODEL_TIMEOUT)


def excessive(effect_id: str, excess: TooMuch, redaction: Redaction) -> ModelFailed:
    """The outcome of a call whose answer is beyond the agent's limits."""
    return ModelFailed(effect_id=effect_id, error=redaction.redacted(str(excess), WORDS), reason=excess.reason)


def judged(agent: Agent | None, spec: AgentSpec, calls: Iterable[AnswerCall], redaction: Redaction) -> tuple[ProposedCall, ...]:
    """The calls with the app's verdicts. The app's own code gives them: it may take long, or raise any error."""
    return tuple(_judged(agent, spec, call, redaction) for call in calls)


def _judged(agent: Agent | None, spec: AgentSpec, call: AnswerCall, redaction: Redaction) -> ProposedCall:
    """The call with the app's verdict: what is wrong with its arguments, if anything, and the tool's rendered prompt."""
    arguments, name = call.arguments, call.name
    problem: str | None = None
    shown: str | None = None
    tool = agent.tool(name) if agent is not None else None
    if agent is not None and tool is not None and spec.tool(name) is not None:
        try:
            value = jsontext.loads(arguments) if arguments.strip() else {}
        except jsontext.NotJson:
            value = None  # the machine reports the error
        if isinstance(value, dict):
            problem = tool.validate(value, errors=agent.errors, redaction=redaction)
            shown = tool.render(value)
    return ProposedCall(tool_call_id=call.tool_call_id, name=name, arguments=arguments, problem=problem, prompt=shown)
