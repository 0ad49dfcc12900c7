"""Delegation: which calls may be delegated, and the end of a conversation that was started for one."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from holdfast.conversation.records.calls import Call
from holdfast.conversation.records.commands import Command
from holdfast.conversation.records.events import Ended
from holdfast.conversation.records.proposed_call import ProposedCall
from holdfast.conversation.records.state import State
from holdfast.conversation.terms.spec import Limits, ToolSpec
from holdfast.conversation.text import jsontext

from .judgement import Draft, Judgement
from .progress import levels

KEPT = 2
"""The calls of one answer share one half (1/2) of the conversations that are left; later answers of the turn have the rest."""
USED_UP = "this turn may have {} conversations below it (Limits.descendants), and they are used up: answer it yourself"


def fitting(calls: Sequence[ProposedCall], limits: Limits) -> tuple[ProposedCall, ...]:
    """The calls of one answer; one whose context exceeds the limits, alone or with those before it, has a problem instead."""
    found, left = [], limits.reply_bytes
    for call in calls:
        size, problem = jsontext.size_bytes(call.context or ""), None
        if size > limits.message_bytes:
            problem = f"the context has {size} bytes, {limits.message_bytes} are allowed (Limits.message_bytes)"
        elif size > left:
            problem = f"the contexts of one answer's calls may have {limits.reply_bytes} bytes together (Limits.reply_bytes)"
        else:
            left -= size
        found.append(call if problem is None else call.model_copy(update={"context": None, "problem": problem}))
    return tuple(found)


def problem(state: State, tool: ToolSpec, arguments: Mapping[str, Any], limits: Limits) -> str | None:
    """The error text, for the model, of a call that cannot be delegated; None if it can."""
    task, rest = arguments.get("task"), arguments.keys() - {"task"}
    if not isinstance(task, str) or rest:
        return 'invalid arguments: give {"task": "..."}, a text that says what to do'
    if not task.strip():
        return "invalid arguments: the task is empty"
    size = jsontext.size_bytes(task)
    if size > limits.message_bytes:
        return f"the task has {size} bytes, {limits.message_bytes} are allowed (Limits.message_bytes)"
    above = () if state.parent is None else tuple(one.agent for one in state.parent.path)
    if tool.agent in (*above, state.agent):
        return f"the agent {tool.agent!r} already works on this, or waits for it: answer it yourself"
    if levels(state, tool) < 1:
        return f"this agent may not delegate any further: {tool.name} allows no level below it (max_depth)"
    return None


def shared(draft: Draft, calls: Sequence[Call]) -> dict[str, Call | str]:
    """Calls of one answer to be delegated, by id, each with how many conversations may stand below its child.

    In the place of a call for which none is left stands the error text for the model.
    """
    state, limits = draft.state, draft.command.limits
    allowed = limits.descendants if state.parent is None else min(state.parent.descendants, limits.descendants)
    left = allowed - (0 if state.turn is None else state.turn.delegated)
    begun = min(len(calls), max(left, 0))
    share = (left - begun) // (KEPT * begun) if begun else 0
    found: dict[str, Call | str] = {call.tool_call_id: call.model_copy(update={"share": share}) for call in calls[:begun]}
    return found | {call.tool_call_id: USED_UP.format(allowed) for call in calls[begun:]}


def ended(command: Command, judgement: Judgement) -> Judgement:
    """The judgement; a conversation that was started for a call of another one ends with its first turn."""
    state = judgement.state
    if state is None or state.parent is None or state.last is None or state.ended:
        return judgement
    draft = Draft(state, command, list(judgement.events))
    draft.emit(Ended(at=command.now))
    return replace(judgement, events=tuple(draft.events), state=draft.state)
