"""Whether a run may begin: the rules in force, and the app's functions, are asked just before it is claimed.

In an unattended conversation, a function of the app decides calls that would ask a person.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

from holdfast.actors.workers import RunRequest
from holdfast.agent import Agent, TurnContext
from holdfast.agent.unattended import call_of
from holdfast.conversation.judging.granting import MAY_NOT
from holdfast.conversation.terms import questions
from holdfast.conversation.terms.decisions import DecisionRecord
from holdfast.conversation.terms.rule_verdict import RuleEffect, RuleVerdict
from holdfast.conversation.terms.spec import Approval, Executor, ToolSpec

from .bench import Bench
from .gate import UNTOLD_DECIDERS, asks_others, lifted, required_again, stopped


async def judged(
    bench: Bench, request: RunRequest, agent: Agent | None, arguments: dict[str, Any] | None, turn: TurnContext, *, edits: bool
) -> tuple[RuleVerdict | None, int | None]:
    """The verdict that blocks a run, if any, and the latest time at which it may begin otherwise.

    The rules are read after the app's function has answered, because a run must begin soon after. `edits`: a person has edited
    the arguments.
    """
    lapsed, held_until = ((), None) if bench.givers is None else await bench.givers.lapsed(request)
    if lapsed:
        return RuleVerdict(effect=RuleEffect.ASK, reason=MAY_NOT, lapsed=lapsed), None
    tool, asked = None if agent is None else agent.tool(request.tool), bench.room.asked
    others: RuleVerdict | None = None
    said = partial(required_again, agent, request, arguments, turn)
    by_function = tool is not None and tool.approves_by_function and lifted(request)
    required = await asked(request.agent, f"approval= of {request.tool}", said, otherwise=True) if by_function else said()
    if edits:
        named = partial(asks_others, agent, request, arguments)
        by_function = tool is not None and tool.is_decided_by_function
        others = await asked(request.agent, f"approvers= of {request.tool}", named, UNTOLD_DECIDERS) if by_function else named()
    rules, until = await bench.rules.begin_by(request.agent)
    return stopped(rules, agent, request, arguments, required=required, others=others), earliest(until, held_until)


async def decided_alone(
    bench: Bench, request: RunRequest, agent: Agent | None, arguments: dict[str, Any], *, turn: TurnContext, ruled: RuleVerdict
) -> DecisionRecord | None:
    """The decision of the app's function on a run that needs approval only now; None if a person decides."""
    declared = None if agent is None else agent.tool(request.tool)
    if agent is None or declared is None or turn.attended or not agent.unattended.by_function:
        return None

    def decide() -> DecisionRecord | None:
        return alone(agent, declared.spec, arguments, turn, ruled, prompt=declared.render(arguments))

    return await bench.room.asked(agent.name, f"unattended= of {agent.name}", decide, None)


def earliest(*times: int | None) -> int | None:
    """The earliest of these times; None stands for any time."""
    return min((time for time in times if time is not None), default=None)


def alone(
    agent: Agent | None,
    tool: ToolSpec | None,
    arguments: Mapping[str, Any] | None,
    turn: TurnContext,
    ruled: RuleVerdict | None,
    *,
    prompt: str | None = None,
) -> DecisionRecord | None:
    """The app's decision on a proposed call; None if the call needs none, or a person decides."""
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
