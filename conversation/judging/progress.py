"""The steps inside a turn, which are drafted one after the other.

Calls run, are held, suspended or settled; the turn goes on once none of them is open.
"""

from collections.abc import Iterable
from typing import Any

from holdfast.conversation.ids import child_id, suspension_id
from holdfast.conversation.log.transcript import PAUSED
from holdfast.conversation.records.calls import Call, CallStatus
from holdfast.conversation.records.commands import ModelReplied, RunSuspended
from holdfast.conversation.records.event_base import FailureReason, Reached, SummaryFailure
from holdfast.conversation.records.events import (
    CallHeld,
    CallResolved,
    CallSuspended,
    InputJoined,
    RunScheduled,
    SettledBy,
    StopReached,
    SuspensionSettled,
    TurnCompleted,
    TurnFailed,
)
from holdfast.conversation.records.state import State, Turn
from holdfast.conversation.terms.decisions import DecisionRecord, SuspensionKind
from holdfast.conversation.terms.delegation import Delegation
from holdfast.conversation.terms.grants import covering, tool_target
from holdfast.conversation.terms.principal import Principal
from holdfast.conversation.terms.rule_verdict import RuleVerdict
from holdfast.conversation.terms.spec import AgentSpec, Approval, Choice, Execution, Executor, Limits, ToolSpec
from holdfast.conversation.terms.stages import NOTHING, OnTimeout
from holdfast.conversation.terms.stopping import LIMIT_TOOL
from holdfast.conversation.text import jsontext
from holdfast.conversation.text.envelope import edited, failure
from holdfast.conversation.text.jsontext import JsonText

from . import compacting, stopping
from .cancelled import why_cancelled
from .judgement import Draft

OF_TOOL = frozenset({SuspensionKind.APPROVAL, SuspensionKind.ELICITATION, SuspensionKind.LOST})
"""The kinds of suspension at whose deadline follows what their tool says, unless who asks says something else."""
CARRIED_OUT_BY = {Executor.CLIENT: SuspensionKind.CLIENT_EXEC, Executor.AGENT: SuspensionKind.DELEGATE}
"""The kind of the wait for those who carry a call out elsewhere."""
ANSWERED_BY_SCHEMA = frozenset({SuspensionKind.ELICITATION, SuspensionKind.CLIENT_EXEC})
NO_SPEC = AgentSpec(name="", model="")
"""The terms of a turn whose spec is not known."""
MAX_MODEL_CALLS = "the turn reached its limit of {} model calls (Limits.max_model_calls)"


def take(
    draft: Draft,
    call: Call,
    *,
    prompt: str | None,
    arguments: str,
    hold: bool,
    stopped: bool = False,
    rule_reason: str = "",
    ruling: DecisionRecord | None = None,
    on_timeout: OnTimeout | None = None,
) -> None:
    """Take up a call of the model's new answer: it begins, or waits for its turn.

    `prompt` is the question to a person, `rule_reason` why a rule asks and `on_timeout` what it says of the deadline,
    `arguments` a text that identifies the arguments, `ruling` the decision of an unattended conversation. A call is held if
    another one goes first, or, with `hold`, if others must be decided first; with `stopped`, until the turn may go on.
    """
    execution = _execution(draft.spec)
    behind = stopped or (execution is Execution.SEQUENTIAL and draft.state.calls.any_open)
    if behind or (execution is Execution.BATCH and hold and not asks(draft, call)):
        _hold(draft, call, prompt=prompt, rule_reason=rule_reason, ruling=ruling, on_timeout=on_timeout)
    else:
        begin(draft, call, prompt=prompt, arguments=arguments, rule_reason=rule_reason, on_timeout=on_timeout)


def asks(draft: Draft, call: Call) -> bool:
    """Whether a call begins with a question to a person."""
    if call.executor is Executor.HUMAN:
        return True
    return call.approval is Approval.REQUIRED and not call.decided_at and granted(draft, call) is None


def granted(draft: Draft, call: Call) -> tuple[str, ...] | None:
    """The ids of the grants that let a call run; None if those of its approvers do not cover all its targets."""
    targets = (tool_target(call.tool),) if call.targets is None else call.targets
    approvers = call.approvers if call.suspension is None else call.deciders
    found = covering(draft.state.grants, targets, at=draft.now, approvers=approvers)
    return None if found is None else tuple(grant.grant_id for grant in found)


def begin(draft: Draft, call: Call, **asked: Any) -> None:
    """Take the next step with a call that waits for no other: ask a person, hand it to the client, or run it."""
    if asks(draft, call):
        kind = SuspensionKind.ELICITATION if call.executor is Executor.HUMAN else SuspensionKind.APPROVAL
    else:
        by = granted(draft, call) if call.approval is Approval.REQUIRED and not call.decided_at else None
        call = call.model_copy(update={"grants": by or ()})
        if call.executor not in CARRIED_OUT_BY or _is_judged_again(draft, call):
            schedule(draft, call)
            return
        kind = CARRIED_OUT_BY[call.executor]
    suspend(draft, call, kind, **asked)


def go_on(draft: Draft, call: Call) -> None:
    """Go on with an approved call: at once, when all calls of its batch are decided, or when its turn may go on."""
    if _execution(draft.spec) is Execution.BATCH and _undecided(draft):
        _hold(draft, call)
    else:
        begin_again(draft, call)


def begin_again(draft: Draft, call: Call) -> None:
    """Go on with a call that had begun: at once, or when its turn may go on."""
    if draft.state.turn is not None and draft.state.turn.asking is not None:
        _hold(draft, call)
    else:
        begin(draft, call)


def _is_judged_again(draft: Draft, call: Call) -> bool:
    """Whether the rules in force are asked before a client is given the call: it has waited, or a grant lets it go on.

    Rules may have been published meanwhile, and neither the state nor the spec knows them.
    """
    return call.executor is Executor.CLIENT and (bool(call.grants) or draft.state.calls.of(call.tool_call_id) is not None)


def schedule(draft: Draft, call: Call) -> None:
    """Make the next run of a call outstanding; no run of a client's call is an attempt, since none has a body."""
    resumed = call.attempt if call.executor is Executor.CLIENT else call.resumed
    about: dict[str, Any] = {"attempt": call.attempt + 1, "resumed": resumed, "batch_id": draft.batch_id}
    draft.emit(call.carried(RunScheduled, at=draft.now, **about))


def hand_over(draft: Draft, call: Call) -> None:
    """Suspend a call that the rules in force let a client carry out."""
    suspend(draft, call, CARRIED_OUT_BY[call.executor], prompt=_held(draft, call).get("prompt"))


def _hold(draft: Draft, call: Call, **asked: Any) -> None:
    draft.emit(call.carried(CallHeld, at=draft.now, batch_id=draft.batch_id, **asked))


def finish(
    draft: Draft,
    tool_call_id: str,
    content: JsonText,
    *,
    by: SettledBy,
    ok: bool = False,
    **more: Any,
) -> None:
    """Give a call its result, the envelope that the model reads, and mark edited arguments in it (a run has marked them)."""
    call = draft.state.calls.of(tool_call_id)
    if by is not SettledBy.RUN and call is not None and is_edited(draft, call):
        content = edited(content)
    draft.emit(CallResolved(at=draft.now, tool_call_id=tool_call_id, ok=ok, content=content, by=by, **more))


def is_edited(draft: Draft, call: Call) -> bool:
    """Whether a person has edited the call's arguments."""
    return draft.state.turn is not None and call.arguments_at != draft.state.turn.answered_at


def deny(draft: Draft, tool_call_id: str, ruled: RuleVerdict) -> None:
    """Give a call the error result of the permission rule that denies it."""
    finish(draft, tool_call_id, failure(ruled.denial), by=SettledBy.RULE, rule=ruled.rule)


def settled(draft: Draft, call: Call, by: SettledBy, ruling: DecisionRecord | None = None, **more: Any) -> int:
    """End the call's open suspension, by a decision or otherwise; returns the event's `seq`."""
    if call.suspension is None:
        raise ValueError(f"call {call.tool_call_id!r} is not suspended")
    turn, trace = draft.state.turn, draft.command.trace
    if ruling is not None:
        more |= {"body": ruling.body, "decision": ruling.kind, "reason": ruling.reason}
    return draft.emit(
        SuspensionSettled(
            at=draft.now,
            tool_call_id=call.tool_call_id,
            suspension_id=call.suspension.suspension_id,
            by=by,
            traceparent=None if turn is not None and trace == (turn.latest or turn.traceparent) else trace,
            **more,
        )
    )


def give_up(draft: Draft, call: Call, why: str, *, by: SettledBy, principal: Principal | None = None) -> None:
    """Settle an open call that expired or was cancelled (by `principal`), and its suspension if it has one.

    One that asks whether its turn may go on has no result, since the model does not know of it.
    """
    source = ""
    if call.suspension is not None:
        source = call.suspension.source
        settled(draft, call, by, principal=principal)
        if call.suspension.kind is SuspensionKind.LIMIT:
            return
    finish(draft, call.tool_call_id, failure(why, source=source), by=by)


def suspend(
    draft: Draft,
    call: Call,
    kind: SuspensionKind,
    *,
    prompt: str | None = None,
    arguments: str | None = None,
    asked: RunSuspended | None = None,
    rule_reason: str = "",
    expires_at: int | None = None,
    on_timeout: OnTimeout | None = None,
    stage: int = 0,
    stage_at: int = 0,
    reached: Reached | None = None,
) -> None:
    """Suspend a call, for the first or a later time.

    `arguments` is a text that identifies the arguments shown (default: their `seq`). `asked` is what the call's own body asks
    for, `rule_reason` why a rule asks for an approval, `expires_at` the deadline if it is not that of the limits, `on_timeout`
    what a rule says of the deadline, `stage` how many escalations there were, and `stage_at` when the last one was. A turn
    asks about a bound that it has `reached`: then `arguments` is the JSON text of the call's own.
    """
    tool, elsewhere = draft.tool_of(call), kind in CARRIED_OUT_BY.values()
    timeout_s = _timeout_s(tool, draft.command.limits, kind)
    said: dict[str, Any] = {
        "expires_at": expires_at or draft.now + round(timeout_s * 1000),
        "prompt": prompt,
        "response_schema": tool.response_schema if kind in ANSWERED_BY_SCHEMA else None,
        "rule_reason": rule_reason if kind is SuspensionKind.APPROVAL else "",
        "grants": call.grants if elsewhere else (),
        "approvers": None if elsewhere else call.approvers,
        "questions": tool.questions and kind is SuspensionKind.ELICITATION,
        "look_at": client_look_at(draft) if kind is SuspensionKind.CLIENT_EXEC else 0,
    }
    if kind is SuspensionKind.APPROVAL:
        said |= _of_approval(tool, edited=is_edited(draft, call))
        said |= {"on_timeout": on_timeout, "stage": stage, "stage_at": stage_at}
    if asked is not None:
        said |= _of_review(asked, draft.now, timeout_s)
    if reached is not None:
        said |= {"reached": reached, "own_arguments": arguments, "batch_id": ""}
    said["expires_at"] = draft.capped(said["expires_at"])
    terms = said.get("on_timeout") or (tool.on_timeout if kind in OF_TOOL else NOTHING)
    said["remind_at"] = terms.remind_at(draft.now, said["expires_at"])
    shown = arguments or f"@{call.arguments_at}"
    if kind is SuspensionKind.DELEGATE:
        shown = f"{shown}#{draft.now}{draft.command.salt}"  # set back, the conversation may ask another one for something else
    suspended = suspension_id(draft.state.conversation_id, call.tool_call_id, call.suspensions + 1, shown)
    if kind is SuspensionKind.DELEGATE:
        said |= {"source": child_id(suspended), "delegation": _delegation(draft, call, tool)}
    draft.emit(
        call.carried(
            CallSuspended,
            at=draft.now,
            suspension_id=suspended,
            suspension_kind=kind,
            traceparent=draft.command.trace,
            message_at=0 if draft.state.turn is None else draft.state.turn.message_seq,
            **{"batch_id": draft.batch_id} | said,
        )
    )


def client_expires_at(draft: Draft, call: Call) -> int:
    """The deadline (ms UTC) of a client's call that begins to wait, or is claimed."""
    tool = draft.tool_of(call)
    return draft.capped(draft.now + round(_timeout_s(tool, draft.command.limits, SuspensionKind.CLIENT_EXEC) * 1000))


def client_grace_ms(draft: Draft) -> int | None:
    """How long a client's call waits while no client is attached that has its tool, in ms; None: until its deadline."""
    grace_s = (draft.spec or NO_SPEC).client_grace_s
    return None if grace_s is None else round(grace_s * 1000)


def client_look_at(draft: Draft) -> int:
    """When (ms UTC) to look whether a client is attached for a call that begins to wait; 0: never."""
    grace_ms = client_grace_ms(draft)
    return 0 if grace_ms is None else draft.capped(draft.now + grace_ms)


def _delegation(draft: Draft, call: Call, tool: ToolSpec) -> Delegation:
    """What the child of a call is asked, and what may stand below it."""
    answered_at = 0 if draft.state.turn is None else draft.state.turn.answered_at
    return Delegation(agent=tool.agent, depth=levels(draft.state, tool) - 1, descendants=call.share, answered_at=answered_at)


def levels(state: State, tool: ToolSpec) -> int:
    """How many levels of conversations a delegating tool may still have below the conversation."""
    return tool.max_depth if state.parent is None else min(tool.max_depth, state.parent.depth)


def _of_approval(tool: ToolSpec, *, edited: bool) -> dict[str, object]:
    """The event fields that only an approval has; arguments that a person has edited may be approved unchanged."""
    decisions = tool.decisions
    if edited and Choice.APPROVE not in decisions:
        decisions = (Choice.APPROVE, *decisions)
    return {
        "resume": tool.resume,
        "decisions": None if decisions == ToolSpec.model_fields["decisions"].default else decisions,
        "response_schema": tool.response_schema if Choice.ANSWER in tool.decisions else None,
    }


def _of_review(asked: RunSuspended, now: int, timeout_s: float) -> dict[str, object]:
    """The event fields that only a review has."""
    own = {} if asked.approvers is None else {"approvers": asked.approvers}
    return own | {
        "title": jsontext.clean(asked.title),
        "prompt": jsontext.clean(asked.message) or None,
        "report_md": jsontext.clean(asked.report_md) or None,
        "payload": asked.payload,
        "action": jsontext.clean(asked.action),
        "response_schema": asked.response_schema,
        "resume": asked.resume,
        "on_timeout": asked.on_timeout,
        "expires_at": now + round((asked.expires_s or timeout_s) * 1000),
    }


def advance(draft: Draft) -> None:
    """Let held calls begin whose turn it is. Once no call is open, the turn goes on: steered messages join it.

    It fails if its model calls are used up. A model call that goes on is not disturbed, and nothing follows on the last one.
    Nothing begins while the turn asks whether it may go on, and it ends if it may not.
    """
    turn = draft.state.turn
    if turn is None or turn.stopping is not None:
        return
    if turn.asking is not None:
        if turn.question is None:
            _end_stopped(draft, turn.asking)
        return
    for call in _ready(draft):
        begin(draft, call, **_held(draft, call))
    if draft.state.calls.any_open or draft.calls_model:
        return
    reached = stopping.by_results(turn, draft.spec, draft.now)
    if reached is not None:
        stop(draft, reached)
    elif turn.model_calls >= turn.max_model_calls:
        fail(draft, MAX_MODEL_CALLS.format(turn.max_model_calls), FailureReason.MAX_MODEL_CALLS)
    elif not (isinstance(draft.command, ModelReplied) and draft.command.finish_reason == PAUSED):
        join(draft)


def _held(draft: Draft, call: Call) -> dict[str, Any]:
    """What is said when a held call asks somebody, as it was held."""
    held = draft.command.read.get(call.held_at)
    return {name: getattr(held, name) for name in ("prompt", "rule_reason", "on_timeout")} if isinstance(held, CallHeld) else {}


def join(draft: Draft) -> bool:
    """Let the steered messages join the turn, before its next model call; whether there are any."""
    turn = draft.state.turn
    if turn is None or not turn.steered or (draft.spec is not None and draft.spec.over(draft.state.spent, None) is not None):
        return False  # beyond the budget of their conversation they have turns of their own, which it judges
    draft.emit(InputJoined(at=draft.now, turn_id=turn.turn_id, message_seqs=tuple(one.seq for one in turn.steered)))
    return True


def stop(draft: Draft, reached: Reached, calls: Iterable[str] = ()) -> None:
    """End the current turn by the agent's `Stop`: at once, after the model's last words, or if a person lets it go on no more.

    These calls of its last answer do not run. There are none if the turn asks first: then they are held.
    """
    turn = draft.state.turn
    if turn is None:
        return
    if stopping.asks_first(turn):
        ask(draft, turn, reached)
        return
    for call_id in calls:
        finish(draft, call_id, failure(stopping.NOT_RUN.format(reached.detail)), by=SettledBy.REFUSAL)
    if turn.stopping is None and stopping.asks_for_last_words(turn, draft.spec):
        draft.emit(StopReached(at=draft.now, turn_id=turn.turn_id, reason=reached.reason, detail=reached.detail))
        return
    _complete(draft, reached)


def ask(draft: Draft, turn: Turn, reached: Reached) -> None:
    """Suspend a call of Holdfast's own, which the model is not told of, until a person says whether the turn may go on."""
    asking = turn.model_copy(update={"asking": reached, "questions": turn.questions + 1})
    call = Call(
        tool_call_id=asking.question_id,
        tool=LIMIT_TOOL,
        approval=Approval.REQUIRED,
        status=CallStatus.AWAITING,
        arguments_at=draft.state.seq + 1,
    )
    shown = stopping.shown(turn, draft.spec, reached)
    prompt = stopping.MAY_GO_ON.format(reached.detail)
    suspend(draft, call, SuspensionKind.LIMIT, prompt=prompt, arguments=shown, reached=reached)


def ask_again(draft: Draft) -> None:
    """Ask about the next bound that the calls of the last answer reach, once the turn may go on beyond another one."""
    turn = draft.state.turn
    if turn is None or turn.asking is not None:
        return
    reached = stopping.by_answer(turn, draft.spec, draft.now)
    if reached is not None:
        stop(draft, reached)


def _end_stopped(draft: Draft, reached: Reached) -> None:
    """End a turn that may not go on, and with it what still runs, waits or is held."""
    for call in draft.state.calls.open():
        if call.status is CallStatus.HELD:
            finish(draft, call.tool_call_id, failure(stopping.NOT_RUN.format(reached.detail)), by=SettledBy.REFUSAL)
        else:
            give_up(draft, call, why_cancelled(call, stopping.CUT_SHORT.format(reached.detail)), by=SettledBy.CANCELLATION)
    _complete(draft, reached)


def _complete(draft: Draft, reached: Reached) -> None:
    """Complete the turn with the model's last answer."""
    turn = draft.state.turn
    if turn is not None:
        about = {"turn_id": turn.turn_id, "reply_seq": turn.answered_at}
        draft.emit(TurnCompleted(at=draft.now, **about, stopped=reached.reason, detail=reached.detail))


def fail(draft: Draft, error: str, reason: FailureReason | None, *, until: int = 0) -> None:
    """Fail the current turn, or the summary that goes on in place of one; `until` is as in `TurnFailed`."""
    turn = draft.state.turn
    if turn is not None and turn.compacts:
        unasked = reason in (FailureReason.NO_AGENT, FailureReason.BUDGET_EXCEEDED)
        compacting.give_up(draft, error, SummaryFailure.NOT_ASKED if unasked else SummaryFailure.NO_ANSWER)
    elif turn is not None:
        draft.emit(TurnFailed(at=draft.now, turn_id=turn.turn_id, error=error, reason=reason, until=until))


def _ready(draft: Draft) -> tuple[Call, ...]:
    calls = draft.state.calls
    match _execution(draft.spec):
        case Execution.SEQUENTIAL:
            found = () if calls.any_running or calls.any_awaiting else calls.held()[:1]
        case Execution.BATCH:
            first = tuple(call for call in calls.held() if asks(draft, call))
            found = () if _undecided(draft) else first or calls.held()
        case Execution.PARALLEL:
            found = calls.held()
    return tuple(call for call in found if call.held_until <= draft.now)


def _undecided(draft: Draft) -> bool:
    return any(call.undecided for call in draft.state.calls.awaiting())


def _execution(spec: AgentSpec | None) -> Execution:
    return spec.execution if spec is not None else Execution.PARALLEL


def _timeout_s(tool: ToolSpec, limits: Limits, kind: SuspensionKind) -> float:
    match kind:
        case SuspensionKind.APPROVAL | SuspensionKind.LOST | SuspensionKind.REVIEW | SuspensionKind.LIMIT:
            return tool.approval_timeout_s or limits.approval_timeout_s
        case SuspensionKind.ELICITATION:
            return tool.answer_timeout_s or limits.answer_timeout_s
        case SuspensionKind.CLIENT_EXEC:
            return tool.answer_timeout_s or limits.client_timeout_s
        case SuspensionKind.DELEGATE:
            return tool.answer_timeout_s or limits.answer_timeout_s
