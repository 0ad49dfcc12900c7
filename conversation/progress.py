"""The steps inside a turn: a call runs, is held, suspended or settled, and the turn goes on once none of its calls is open."""

from . import jsontext
from .calls import Call, SuspensionKind
from .commands import Command, RunSuspended
from .decisions import Ruling
from .envelope import edited, failure
from .events import (
    CallHeld,
    CallResolved,
    CallSuspended,
    FailureReason,
    RunScheduled,
    SettledBy,
    SuspensionSettled,
    TurnFailed,
)
from .grants import covering, tool_target
from .ids import suspension_id
from .jsontext import JsonText
from .judgement import Draft
from .principal import Principal
from .ruled import Ruled
from .spec import AgentSpec, Approval, Choice, Execution, Executor, Limits, ToolSpec

ANSWERED_BY_SCHEMA = frozenset({SuspensionKind.ELICITATION, SuspensionKind.CLIENT_EXEC})
MAX_MODEL_CALLS = "the turn reached its limit of {} model calls (Limits.max_model_calls)"


def take(
    draft: Draft,
    call: Call,
    spec: AgentSpec | None,
    *,
    prompt: str | None,
    arguments: str,
    hold: bool,
    rule_reason: str = "",
    ruling: Ruling | None = None,
) -> None:
    """Take up a call that the model has just asked for: it begins, or waits for its turn.

    `prompt` is what a person will be asked, `rule_reason` why a rule asks, `arguments` a text that identifies the arguments,
    `ruling` what a conversation without people decides about it. A call is held where another goes before it, or, with `hold`,
    where others are to be decided first.
    """
    execution = _execution(spec)
    behind = execution is Execution.SEQUENTIAL and draft.state.calls.any_open
    if behind or (execution is Execution.BATCH and hold and not asks(draft, call)):
        _hold(draft, call, prompt, rule_reason, ruling)
    else:
        begin(draft, call, spec, prompt=prompt, arguments=arguments, rule_reason=rule_reason)


def asks(draft: Draft, call: Call) -> bool:
    """Whether a call begins with a question to a person."""
    if call.executor is Executor.HUMAN:
        return True
    return call.approval is Approval.REQUIRED and not call.decided_at and granted(draft, call) is None


def granted(draft: Draft, call: Call) -> tuple[str, ...] | None:
    """The grants by which a call runs without asking; None where they do not cover all that it touches.

    Of a call that waits, they are those of whoever is asked.
    """
    targets = (tool_target(call.tool),) if call.targets is None else call.targets
    approvers = call.approvers if call.suspension is None else call.deciders
    found = covering(draft.state.grants, targets, at=draft.now, approvers=approvers)
    return None if found is None else tuple(grant.grant_id for grant in found)


def begin(
    draft: Draft,
    call: Call,
    spec: AgentSpec | None,
    *,
    prompt: str | None = None,
    arguments: str | None = None,
    rule_reason: str = "",
) -> None:
    """Take the next step with a call that waits for no other: ask a person, hand it to the client, or run it."""
    if asks(draft, call):
        kind = SuspensionKind.ELICITATION if call.executor is Executor.HUMAN else SuspensionKind.APPROVAL
    else:
        by = granted(draft, call) if call.approval is Approval.REQUIRED and not call.decided_at else None
        call = call.model_copy(update={"grants": by or ()})
        if call.executor is not Executor.CLIENT:
            schedule(draft, call)
            return
        kind = SuspensionKind.CLIENT_EXEC
    suspend(draft, call, spec, kind, prompt=prompt, arguments=arguments, rule_reason=rule_reason)


def go_on(draft: Draft, call: Call, spec: AgentSpec | None) -> None:
    """Go on with a call that was approved: at once, or when all calls of its batch are decided."""
    if _execution(spec) is Execution.BATCH and _undecided(draft):
        _hold(draft, call, None, "")
    else:
        begin(draft, call, spec)


def schedule(draft: Draft, call: Call) -> None:
    """Make the next run of a server call outstanding."""
    draft.emit(
        RunScheduled(
            at=draft.now,
            tool_call_id=call.tool_call_id,
            tool=call.tool,
            attempt=call.attempt + 1,
            arguments_at=call.arguments_at,
            approval=call.approval,
            on_lost=call.on_lost,
            resumed=call.resumed,
            decided_at=call.decided_at,
            batch_id=draft.batch_id,
            rule=call.rule,
            targets=call.targets,
            grants=call.grants,
            approvers=call.approvers,
        )
    )


def settle(
    draft: Draft,
    tool_call_id: str,
    content: JsonText,
    *,
    by: SettledBy,
    ok: bool = False,
    untrusted: bool = False,
    rule: str = "",
) -> None:
    """Give a call its result: the envelope that the model reads. A run marks edited arguments itself, for it has them."""
    turn, call = draft.state.turn, draft.state.calls.of(tool_call_id)
    if by is not SettledBy.RUN and turn is not None and call is not None and call.arguments_at != turn.answered_at:
        content = edited(content)
    draft.emit(
        CallResolved(at=draft.now, tool_call_id=tool_call_id, ok=ok, content=content, by=by, untrusted=untrusted, rule=rule)
    )


def deny(draft: Draft, tool_call_id: str, ruled: Ruled) -> None:
    """Give a call the error result of a permission rule that denies it."""
    settle(draft, tool_call_id, failure(ruled.denial), by=SettledBy.RULE, rule=ruled.rule)


def give_up(draft: Draft, call: Call, content: JsonText, *, by: SettledBy, principal: Principal | None = None) -> None:
    """Settle an open call that expired or was cancelled (by whom), and its suspension where it has one."""
    if call.suspension is not None:
        draft.emit(
            SuspensionSettled(
                at=draft.now,
                tool_call_id=call.tool_call_id,
                suspension_id=call.suspension.suspension_id,
                by=by,
                principal=principal,
                traceparent=newly_traced(draft),
            )
        )
    settle(draft, call.tool_call_id, content, by=by)


def tool_of(spec: AgentSpec | None, call: Call) -> ToolSpec:
    """The tool of a call as the spec has it; a tool with nothing but its name where the spec has none of that name."""
    return (spec.tool(call.tool) if spec is not None else None) or ToolSpec(name=call.tool)


def suspend(
    draft: Draft,
    call: Call,
    spec: AgentSpec | None,
    kind: SuspensionKind,
    *,
    prompt: str | None = None,
    arguments: str | None = None,
    asked: RunSuspended | None = None,
    rule_reason: str = "",
    expires_at: int | None = None,
) -> None:
    """Suspend a call, for the first or a later time.

    `arguments` is a text that identifies the arguments shown, by default their place in the log; `asked` is what the call's own
    body asks for, `rule_reason` why a rule asks for an approval, `expires_at` the deadline, if the limits do not say it.
    """
    tool = tool_of(spec, call)
    timeout_s = _timeout_s(tool, spec.limits if spec is not None else Limits(), kind)
    suspended = CallSuspended(
        at=draft.now,
        tool_call_id=call.tool_call_id,
        tool=call.tool,
        executor=call.executor,
        approval=call.approval,
        suspension_id=suspension_id(
            draft.state.conversation_id, call.tool_call_id, call.suspensions + 1, arguments or f"@{call.arguments_at}"
        ),
        suspension_kind=kind,
        arguments_at=call.arguments_at,
        expires_at=expires_at or draft.now + round(timeout_s * 1000),
        prompt=prompt,
        response_schema=tool.response_schema if kind in ANSWERED_BY_SCHEMA else None,
        on_lost=call.on_lost,
        traceparent=draft.trace,
        batch_id=draft.batch_id,
        rule=call.rule,
        rule_reason=rule_reason if kind is SuspensionKind.APPROVAL else "",
        targets=call.targets,
        grants=call.grants if kind is SuspensionKind.CLIENT_EXEC else (),
        approvers=None if kind is SuspensionKind.CLIENT_EXEC else call.approvers,
        message_at=0 if draft.state.turn is None else draft.state.turn.message_seq,
        questions=tool.questions and kind is SuspensionKind.ELICITATION,
    )
    if kind is SuspensionKind.APPROVAL:
        edited = draft.state.turn is not None and call.arguments_at != draft.state.turn.answered_at
        suspended = suspended.model_copy(update=_of_approval(tool, edited=edited))
    if asked is not None:
        suspended = suspended.model_copy(update=_of_review(asked, draft.now, timeout_s))
        if asked.approvers is not None:
            suspended = suspended.model_copy(update={"approvers": asked.approvers})
    draft.emit(suspended)


def _of_approval(tool: ToolSpec, *, edited: bool) -> dict[str, object]:
    """What an approval has beside what every suspension has; what a person has edited may be approved as it is."""
    decisions = tool.decisions
    if edited and Choice.APPROVE not in decisions:
        decisions = (Choice.APPROVE, *decisions)
    return {
        "resume": tool.resume,
        "decisions": None if decisions == ToolSpec.model_fields["decisions"].default else decisions,
        "response_schema": tool.response_schema if Choice.ANSWER in tool.decisions else None,
    }


def _of_review(asked: RunSuspended, now: int, timeout_s: float) -> dict[str, object]:
    """What a body asks for."""
    return {
        "title": jsontext.clean(asked.title),
        "prompt": jsontext.clean(asked.message) or None,
        "report_md": jsontext.clean(asked.report_md) or None,
        "payload": asked.payload,
        "action": jsontext.clean(asked.action),
        "response_schema": asked.response_schema,
        "resume": asked.resume,
        "expires_at": now + round((asked.expires_s or timeout_s) * 1000),
    }


def newly_traced(draft: Draft) -> str | None:
    """The trace context of the span with which the turn goes on; None where the log names that one already."""
    turn = draft.state.turn
    known = None if turn is None else turn.latest or turn.traceparent
    return None if draft.trace == known else draft.trace


def advance(draft: Draft, command: Command) -> None:
    """Let go of held calls whose turn it is; fail the turn if no call is open and its model calls are used up.

    What follows otherwise is for `outstanding` to say.
    """
    turn = draft.state.turn
    if turn is None:
        return
    _let_go(draft, command)
    if draft.state.calls.any_open:
        return
    if turn.model_calls >= turn.max_model_calls:
        error = MAX_MODEL_CALLS.format(turn.max_model_calls)
        draft.emit(TurnFailed(at=draft.now, turn_id=turn.turn_id, error=error, reason=FailureReason.MAX_MODEL_CALLS))


def _let_go(draft: Draft, command: Command) -> None:
    calls = draft.state.calls
    match _execution(command.spec):
        case Execution.SEQUENTIAL:
            ready = () if calls.any_running or calls.any_awaiting else calls.held()[:1]
        case Execution.BATCH:
            ready = () if _undecided(draft) else calls.held()
        case Execution.PARALLEL:
            ready = calls.held()
    for call in ready:
        held = command.read.get(call.held_at)
        if isinstance(held, CallHeld):
            begin(draft, call, command.spec, prompt=held.prompt, rule_reason=held.rule_reason)
        else:
            begin(draft, call, command.spec)


def _undecided(draft: Draft) -> bool:
    """Whether a call of the batch waits for a person's word before it begins."""
    return any(call.undecided for call in draft.state.calls.awaiting())


def _hold(draft: Draft, call: Call, prompt: str | None, rule_reason: str, ruling: Ruling | None = None) -> None:
    draft.emit(
        CallHeld(
            at=draft.now,
            tool_call_id=call.tool_call_id,
            tool=call.tool,
            executor=call.executor,
            approval=call.approval,
            arguments_at=call.arguments_at,
            on_lost=call.on_lost,
            resumed=call.resumed,
            decided_at=call.decided_at,
            prompt=prompt,
            batch_id=draft.batch_id,
            rule=call.rule,
            rule_reason=rule_reason,
            targets=call.targets,
            approvers=call.approvers,
            ruling=ruling,
        )
    )


def _execution(spec: AgentSpec | None) -> Execution:
    return spec.execution if spec is not None else Execution.PARALLEL


def _timeout_s(tool: ToolSpec, limits: Limits, kind: SuspensionKind) -> float:
    match kind:
        case SuspensionKind.APPROVAL | SuspensionKind.LOST | SuspensionKind.REVIEW:
            return tool.approval_timeout_s or limits.approval_timeout_s
        case SuspensionKind.ELICITATION:
            return tool.answer_timeout_s or limits.answer_timeout_s
        case SuspensionKind.CLIENT_EXEC:
            return tool.answer_timeout_s or limits.client_timeout_s
