"""What a function of the app decides about a call that would ask, in a conversation that nobody attends."""

from collections.abc import Mapping
from typing import Any

from holdfast.agent import Agent, TurnContext
from holdfast.agent.unattended import call_of
from holdfast.conversation import questions
from holdfast.conversation.decisions import DecisionRecord
from holdfast.conversation.ruled import RuleEffect, RuleVerdict
from holdfast.conversation.spec import Approval, Executor, ToolSpec


def alone(
    agent: Agent | None,
    tool: ToolSpec | None,
    arguments: Mapping[str, Any] | None,
    turn: TurnContext,
    ruled: RuleVerdict | None,
    *,
    prompt: str | None = None,
) -> DecisionRecord | None:
    """What is decided about a call that the model asks for; None where it would not ask, or a person decides."""
    if agent is None or tool is None or arguments is None or turn.attended or not agent.unattended.by_function:
        return None
    if tool.executor is Executor.HUMAN:
        asked = None
        if tool.questions:
            try:
                asked = questions.parse(arguments)
            except questions.NotQuestions:
                return None  # the machine reports the error
        return agent.unattended.about_questions(call_of(tool.name, arguments, turn, prompt=prompt, questions=asked))
    if tool.approval is not Approval.REQUIRED if ruled is None else ruled.effect is not RuleEffect.ASK:
        return None
    rule, reason = ("", "") if ruled is None else (ruled.rule, ruled.reason)
    return agent.unattended.about_approval(call_of(tool.name, arguments, turn, prompt=prompt, rule=rule, rule_reason=reason))
