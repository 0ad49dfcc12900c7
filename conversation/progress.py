"""The steps inside a turn: a call runs, is suspended or settled, and the turn goes on once none of its calls is open."""

from .calls import Call, SuspensionKind
from .events import CallResolved, CallSuspended, FailureReason, RunScheduled, SettledBy, SuspensionSettled, TurnFailed
from .ids import suspension_id
from .jsontext import JsonText
from .judgement import Draft
from .principal import Principal
from .spec import AgentSpec, Limits, ToolSpec

ANSWERED_BY_SCHEMA = frozenset({SuspensionKind.ELICITATION, SuspensionKind.CLIENT_EXEC})
MAX_MODEL_CALLS = "the turn reached its limit of {} model calls (Limits.max_model_calls)"


def schedule(draft: Draft, call: Call, *, attempt: int, arguments_at: int) -> None:
    """Make a run of a server call outstanding, with the arguments in the event whose `seq` is `arguments_at`."""
    draft.emit(
        RunScheduled(
            at=draft.now,
            tool_call_id=call.tool_call_id,
            tool=call.tool,
            attempt=attempt,
            arguments_at=arguments_at,
            approval=call.approval,
            on_lost=call.on_lost,
        )
    )


def settle(
    draft: Draft, tool_call_id: str, content: JsonText, *, by: SettledBy, ok: bool = False, untrusted: bool = False
) -> None:
    """Give a call its result: the envelope that the model reads."""
    draft.emit(CallResolved(at=draft.now, tool_call_id=tool_call_id, ok=ok, content=content, by=by, untrusted=untrusted))


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
    *,
    call: Call,
    tool: ToolSpec,
    spec: AgentSpec | None,
    kind: SuspensionKind,
    arguments: str,
    prompt: str | None,
) -> None:
    """Suspend a call, for the first or a later time; `arguments` is a text that identifies the arguments shown."""
    timeout_s = _timeout_s(tool, spec.limits if spec is not None else Limits(), kind)
    draft.emit(
        CallSuspended(
            at=draft.now,
            tool_call_id=call.tool_call_id,
            tool=call.tool,
            executor=call.executor,
            approval=call.approval,
            suspension_id=suspension_id(draft.state.conversation_id, call.tool_call_id, call.suspensions + 1, arguments),
            suspension_kind=kind,
            arguments_at=call.arguments_at,
            expires_at=draft.now + round(timeout_s * 1000),
            prompt=prompt,
            response_schema=tool.response_schema if kind in ANSWERED_BY_SCHEMA else None,
            on_lost=call.on_lost,
            traceparent=draft.trace,
        )
    )


def newly_traced(draft: Draft) -> str | None:
    """The trace context of the span with which the turn goes on; None where the log names that one already."""
    turn = draft.state.turn
    known = None if turn is None else turn.latest or turn.traceparent
    return None if draft.trace == known else draft.trace


def advance(draft: Draft) -> None:
    """Fail the turn if no call is open and its model calls are used up; otherwise `outstanding` says what follows."""
    turn = draft.state.turn
    if turn is None or turn.calls.any_open:
        return
    if turn.model_calls >= turn.max_model_calls:
        error = MAX_MODEL_CALLS.format(turn.max_model_calls)
        draft.emit(TurnFailed(at=draft.now, turn_id=turn.turn_id, error=error, reason=FailureReason.MAX_MODEL_CALLS))


def _timeout_s(tool: ToolSpec, limits: Limits, kind: SuspensionKind) -> float:
    match kind:
        case SuspensionKind.APPROVAL | SuspensionKind.LOST:
            return tool.approval_timeout_s or limits.approval_timeout_s
        case SuspensionKind.ELICITATION:
            return tool.answer_timeout_s or limits.answer_timeout_s
        case SuspensionKind.CLIENT_EXEC:
            return tool.answer_timeout_s or limits.client_timeout_s
