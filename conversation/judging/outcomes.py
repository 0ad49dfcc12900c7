"""The judgement of outcomes of effects: of a model call or a run."""

from collections.abc import Iterable, Mapping
from functools import reduce
from typing import Any

from holdfast.conversation.ids import payload_digest, unique_call_ids
from holdfast.conversation.log.transcript import PAUSED
from holdfast.conversation.records.calls import MOST_REVIEWS, Call, CallStatus
from holdfast.conversation.records.commands import (
    ModelFailed,
    ModelReplied,
    RunFinished,
    RunLost,
    RunRuled,
    RunSuspended,
)
from holdfast.conversation.records.event_base import MEASURED, FailureReason, Reached, StopReason
from holdfast.conversation.records.events import (
    ContextOverflowed,
    ModelAnswered,
    RequestedCall,
    SettledBy,
    TurnCompleted,
)
from holdfast.conversation.records.idempotency import call_key
from holdfast.conversation.records.proposed_call import ProposedCall
from holdfast.conversation.records.state import State, Turn
from holdfast.conversation.terms import questions
from holdfast.conversation.terms.approvers import MOST_BYTES, joined
from holdfast.conversation.terms.decisions import SuspensionKind
from holdfast.conversation.terms.grants import LONGEST_VALUE, MOST_TARGETS, CallTarget
from holdfast.conversation.terms.reply import FINAL_ANSWER, MISFIT, MOST_REPAIRS
from holdfast.conversation.terms.rule_verdict import RuleEffect, RuleVerdict
from holdfast.conversation.terms.spec import Approval, Executor, OnLost, ToolSpec
from holdfast.conversation.text import jsontext, schema
from holdfast.conversation.text.envelope import failure, success

from . import compacting, delegating, granting, shaping, stopping
from .judgement import Draft, Judgement, drafted
from .progress import (
    advance,
    asks,
    begin,
    deny,
    fail,
    finish,
    granted,
    hand_over,
    join,
    schedule,
    stop,
    suspend,
    take,
)
from .table import LATE
from .unattended import ruling_at_proposal

LOST = "outcome unknown: the worker was lost while this call ran; it may or may not have taken effect"
ASK_ABOUT_LOST = "the worker was lost while this call ran (attempt {}): it may or may not have taken effect"
"""The prompt for the person who decides about a lost run."""

STOPPED = {"length": StopReason.LENGTH, "content_filter": StopReason.CONTENT_FILTER}
"""The stop reason of an answer that was cut off, by the provider's finish reason."""
CUT_OFF = "the answer that asked for this call was cut off (finish_reason {}): it did not run"
SMALLER = (
    "{}. Take smaller steps: ask for fewer calls in one answer, and split long arguments over several calls, one after another"
)
"""What the model is told of a call that the token limit cut off, while the turn goes on."""
MOST_CUT = 2
"""How many answers in a row that are cut off inside their calls a turn goes on after."""
FRUITLESS = {
    StopReason.LENGTH: (
        "the model's answer was cut off (finish_reason length) before there was anything to go on with: raise the model's "
        "token limit (max_tokens in model_options), or ask for less"
    ),
    StopReason.CONTENT_FILTER: (
        "the provider's filter cut the model's answer off (finish_reason content_filter) before there was anything to go on "
        "with: rephrase the request"
    ),
}
TERMS = f"the names of those who may decide this call have more than {MOST_BYTES} bytes"
NAME_CHARS = 256
"""How many characters of a tool's name, as the model wrote it, are kept; real names are shorter."""
MAX_CALLS = "the model asked for {} calls in one answer, {} are allowed (Limits.max_calls)"
PROVIDER_TIMES = 6
PROVIDER_ROOM = 64 * 1024
"""The bound of an answer's `provider`: PROVIDER_TIMES bytes for each byte of `reply_bytes`, plus PROVIDER_ROOM bytes. The field
is JSON, whose escapes take up to six bytes for one, and some routes repeat the reasoning in it. `reply_bytes` itself bounds the
answer as it came."""
REPLY_BYTES = "the model's answer has {} bytes, {} are allowed (Limits.reply_bytes)"


def model_replied(state: State, command: ModelReplied) -> Judgement:
    """Record the model's message; each of its calls runs, is held, is suspended or gets an error result."""
    if state.turn is None:
        return Judgement(ignored=LATE.why)
    if state.turn.compacts:
        return compacting.not_summarised(state, command)
    draft, stopping_by = drafted(state, command), state.turn.stopping
    too_much = _too_much(command)
    if too_much is not None:
        reason, error = too_much
        _give_up(draft, error, reason)
        return draft.done()
    calls = delegating.fitting([_clean(call) for call in command.calls], command.limits)
    scope = f"{state.conversation_id}/{command.effect_id}"
    unique = unique_call_ids([call.tool_call_id for call in calls], frozenset(command.known), scope, call_key)
    proposed = dict(zip(unique, calls, strict=True))
    misfit = None if stopping_by is not None else shaping.misfit(draft.spec, command, calls)
    seq = draft.emit(
        ModelAnswered(
            at=command.now,
            effect_id=command.effect_id,
            calls=tuple(_requested(call_id, call) for call_id, call in proposed.items()),
            model=jsontext.clean(command.model),
            shaped=misfit == "",
            misfit=misfit or None,
            **{name: getattr(command, name) for name in MEASURED},
            **{name: jsontext.clean(getattr(command, name)) for name in ("content", "finish_reason", "reasoning", "provider")},
        )
    )
    stopped = STOPPED.get(command.finish_reason or "")
    if stopping_by is not None:
        stop(draft, stopping_by, proposed)
    elif misfit is not None:
        _shaped(draft, proposed, misfit)
    elif stopped is not None and (proposed or not command.content):
        _cut_off(draft, proposed, stopped)
    elif proposed and (reached := _reached(draft)):
        if stopping.asks_first(draft.state.turn):
            _take_up(draft, proposed, seq, stopped=True)
            proposed = {}
        stop(draft, reached, proposed)
    elif proposed or command.finish_reason == PAUSED:
        _take_up(draft, proposed, seq)
        advance(draft)
    elif stopped is not None or _calls_no_more(state.turn, command.now) or not join(draft):
        draft.emit(TurnCompleted(at=command.now, turn_id=state.turn.turn_id, reply_seq=seq, stopped=stopped))
    return draft.done()


def _reached(draft: Draft) -> Reached | None:
    """The bound of the agent's `Stop` that the turn reaches with its last answer."""
    turn, command = draft.state.turn, draft.command
    found = command.reached if isinstance(command, ModelReplied) else None
    return None if turn is None else stopping.by_answer(turn, draft.spec, draft.now, found)


def _calls_no_more(turn: Turn, now: int) -> bool:
    """Whether a turn has no model call after this one, whatever there is to answer."""
    return turn.model_calls + 1 >= turn.max_model_calls or turn.is_overdue(now)


def _cut_off(draft: Draft, proposed: Mapping[str, ProposedCall], stopped: StopReason) -> None:
    """Go on after an answer that is cut off inside its calls, or fail the turn. None of the calls runs."""
    turn, words = draft.state.turn, CUT_OFF.format(stopped)  # nothing shows where the last call is cut off
    goes_on = turn is not None and 0 < turn.cut <= MOST_CUT and turn.model_calls < turn.max_model_calls
    reached = _reached(draft) if goes_on else None
    if reached is not None and not stopping.asks_first(draft.state.turn):
        stop(draft, reached, proposed)
        return
    for call_id in proposed:
        finish(draft, call_id, failure(SMALLER.format(words) if goes_on else words), by=SettledBy.REFUSAL)
    if reached is not None:
        stop(draft, reached)
    elif goes_on:
        advance(draft)
    else:
        fail(draft, FRUITLESS[stopped], FailureReason(stopped.value))


def _shaped(draft: Draft, proposed: Iterable[str], misfit: str) -> None:
    """Complete the turn with a reply that fits; of another one the model is told, or the turn fails."""
    turn = draft.state.turn
    if turn is None:
        return
    more = turn.model_calls < turn.max_model_calls
    again = misfit and turn.misfits <= MOST_REPAIRS and more
    reached = _reached(draft) if again else None
    if reached is not None and not stopping.asks_first(draft.state.turn):
        stop(draft, reached, proposed)
        return
    for call_id in proposed:
        said = failure(MISFIT.format(misfit)) if misfit else success("null")
        finish(draft, call_id, said, by=SettledBy.REPLY, ok=not misfit)
    if not misfit:
        if not more or turn.is_overdue(draft.now) or not join(draft):
            draft.emit(TurnCompleted(at=draft.now, turn_id=turn.turn_id, reply_seq=turn.answered_at))
    elif reached is not None:
        stop(draft, reached)
    elif again:
        advance(draft)
    else:
        words = shaping.FAILED if turn.misfits > MOST_REPAIRS else shaping.UNREPAIRED
        fail(draft, words.format(misfit), FailureReason.INVALID_REPLY)


def _requested(call_id: str, call: ProposedCall) -> RequestedCall:
    original = None if call_id == call.tool_call_id else call.tool_call_id[:200]
    said = {"arguments": call.arguments, "original_id": original, "context": call.context}
    return RequestedCall(tool_call_id=call_id, name=call.name, **said)


def model_failed(state: State, command: ModelFailed) -> Judgement:
    """Fail the turn, or complete it if it stops anyway; the conversation can go on.

    A request that its provider refuses for its length is made smaller once in a turn.
    """
    if state.turn is None:
        return Judgement(ignored=LATE.why)
    draft, error = Draft(state, command), jsontext.clean(command.error)
    if command.reducible and not state.turn.overflowed and not state.turn.compacts:
        about = {"turn_id": state.turn.turn_id, "effect_id": command.effect_id}
        draft.emit(ContextOverflowed(at=command.now, **about, error=error))
    else:
        _give_up(draft, error, command.reason)
    return draft.done()


def _give_up(draft: Draft, error: str, reason: FailureReason | None) -> None:
    """End the turn without an answer to its model call."""
    turn = draft.state.turn
    if turn is not None and turn.stopping is not None:
        detail = stopping.WORDLESS.format(turn.stopping.detail, error)
        stop(draft, turn.stopping.model_copy(update={"detail": detail}))
    else:
        fail(draft, error, reason)


def run_over(state: State, command: RunFinished | RunSuspended | RunRuled | RunLost) -> Judgement:
    """Record the outcome of a run, and go on with its turn."""
    call = state.calls.run(command.effect_id)
    if call is None:
        return Judgement(ignored=LATE.why)
    draft = Draft(state, command)
    match command:
        case RunFinished():
            content = jsontext.clean(command.content)
            finish(draft, call.tool_call_id, content, by=SettledBy.RUN, ok=command.ok, attached=command.attached)
        case RunSuspended():
            _suspended(draft, call, command)
        case RunRuled():
            _ruled(draft, call, command)
        case RunLost():
            _lost(draft, call)
    advance(draft)
    return draft.done()


def _suspended(draft: Draft, call: Call, command: RunSuspended) -> None:
    """Suspend a call whose own body asks for a review. A body that asks for too much, or too often, has failed."""
    problem = _unshowable(call, command)
    if problem is not None:
        finish(draft, call.tool_call_id, failure(problem), by=SettledBy.RUN)
        return
    arguments = payload_digest("review", *(text or "" for text in _shown(command)))
    suspend(draft, call, SuspensionKind.REVIEW, arguments=arguments, asked=command)


def _shown(command: RunSuspended) -> tuple[str | None, ...]:
    return command.title, command.message, command.report_md, command.payload, command.action, command.response_schema


def _unshowable(call: Call, command: RunSuspended) -> str | None:
    """The error text, for the model, if a body's review cannot be shown; None if it can."""
    if call.resumed >= MOST_REVIEWS:
        return f"the tool asked for a person's word more than {MOST_REVIEWS} times in one call"
    limits = command.limits
    size = sum(_bytes(text) for text in _shown(command)) - _bytes(command.action)
    if size > limits.result_bytes:
        return f"what the tool asks to have reviewed has {size} bytes, {limits.result_bytes} are allowed (Limits.result_bytes)"
    if command.approvers is not None and not command.approvers.fits:
        return TERMS
    for text in (command.payload, command.response_schema):
        try:
            jsontext.loads(text or "null")
        except jsontext.NotJson as error:
            return f"what the tool asks to have reviewed is not JSON ({error})"
    return None


def _ruled(draft: Draft, call: Call, command: RunRuled) -> None:
    """Settle or suspend a call whose run the rules in force block, or hand it over. An approval of its arguments counts."""
    ruled = command.ruled
    granting.lapse(draft, ruled.lapsed)
    match ruled.effect:
        case RuleEffect.DENY:
            deny(draft, call.tool_call_id, ruled)
        case RuleEffect.ASK if not call.is_approved(ruled.approvers):
            _ask_first(draft, call, ruled)
        case RuleEffect.ASK:  # an approved call needs no grant
            schedule(draft, call.model_copy(update={"resumed": call.resumed + 1, "grants": ()}))
        case RuleEffect.ALLOW if call.executor is Executor.CLIENT and not granting.in_force(draft, call):
            _ask_first(draft, call, granting.ENDED)  # however late it is: another run would find the same
        case RuleEffect.ALLOW if command.is_late(draft.now) or call.executor is not Executor.CLIENT:
            schedule(draft, call.model_copy(update={"resumed": call.resumed + 1}))
        case RuleEffect.ALLOW:
            hand_over(draft, call)


def _ask_first(draft: Draft, call: Call, ruled: RuleVerdict) -> None:
    """Suspend a run before it begins, for those of its approvers who have not approved these arguments yet."""
    both = joined(call.approvers, ruled.approvers)
    if both is not None and not both.fits:
        finish(draft, call.tool_call_id, failure(TERMS), by=SettledBy.REFUSAL)
        return
    lacking = call.unfulfilled(ruled.approvers)
    if ruled.approvers is not None and call.grants and granted(draft, call) is not None:
        lacking = [ruled.approvers]  # while the grant lasts, it replaces the approval of the others
    asked_by = call.rule if call.grants or call.fulfilled is not None else ""  # otherwise `rule` allowed the call
    changes = {
        "approval": Approval.REQUIRED,
        "rule": ruled.rule or asked_by,
        "resumed": call.resumed + 1,
        "grants": (),
        "decided_at": 0,
        "approvers": reduce(joined, lacking, None),
    }
    begin(draft, call.model_copy(update=changes), rule_reason=ruled.reason, on_timeout=ruled.on_timeout)


def _lost(draft: Draft, call: Call) -> None:
    if call.executor is Executor.CLIENT:  # nothing has run anywhere
        schedule(draft, call)
        return
    match call.on_lost:
        case OnLost.REDISPATCH:
            by = granted(draft, call) if call.grants else None
            schedule(draft, call if by is None else call.model_copy(update={"grants": by}))  # the claim refuses ended grants
        case OnLost.ASK:
            shown = f"@{call.arguments_at}#{call.attempt}"
            suspend(draft, call, SuspensionKind.LOST, arguments=shown, prompt=ASK_ABOUT_LOST.format(call.attempt))
        case OnLost.ERROR:
            finish(draft, call.tool_call_id, failure(LOST), by=SettledBy.LOSS)


def _clean(call: ProposedCall) -> ProposedCall:
    """The call as the log can hold it; a lone surrogate in its arguments becomes its `problem`."""
    cleaned = {name: jsontext.clean(getattr(call, name)) for name in ("tool_call_id", "arguments", "problem", "prompt")}
    if cleaned["arguments"] != call.arguments:
        cleaned["problem"] = "a lone surrogate"
    return call.model_copy(update=cleaned | {"name": jsontext.clean(call.name[:NAME_CHARS])})


def _too_much(command: ModelReplied) -> tuple[FailureReason, str] | None:
    limits = command.limits
    if len(command.calls) > limits.max_calls:
        return FailureReason.MAX_CALLS, MAX_CALLS.format(len(command.calls), limits.max_calls)
    texts = [command.content, command.reasoning]
    texts += [text for call in command.calls for text in (call.tool_call_id, call.name, call.arguments)]
    size = sum(_bytes(text) for text in texts)
    if size > limits.reply_bytes:
        return FailureReason.REPLY_BYTES, REPLY_BYTES.format(size, limits.reply_bytes)
    beside = _bytes(command.provider)
    if beside > PROVIDER_TIMES * limits.reply_bytes + PROVIDER_ROOM:
        return FailureReason.REPLY_BYTES, REPLY_BYTES.format(beside, limits.reply_bytes)
    return None


def _bytes(text: str | None) -> int:
    return 0 if text is None else len(text.encode("utf-8", "replace"))


def _take_up(draft: Draft, proposed: Mapping[str, ProposedCall], seq: int, *, stopped: bool = False) -> None:
    """Take up the calls of the answer at `seq`; unusable ones get an error result at once. `stopped`: the others are held."""
    calls = {call_id: _usable(draft, call_id, one, seq) for call_id, one in proposed.items()}
    wanted = [call for call in calls.values() if isinstance(call, Call) and call.executor is Executor.AGENT]
    calls |= delegating.shared(draft, wanted)
    asked = any(isinstance(call, Call) and asks(draft, call) for call in calls.values())
    for call_id, call in calls.items():
        one = proposed[call_id]
        match call:
            case Call():
                by = one.ruled
                ruled: dict[str, Any] = {} if by is None else {"rule_reason": by.reason, "on_timeout": by.on_timeout}
                ruling = ruling_at_proposal(draft.state, draft.spec, call, one)
                take(
                    draft, call, prompt=one.prompt, arguments=one.arguments, hold=asked, stopped=stopped, ruling=ruling, **ruled
                )
            case RuleVerdict():
                deny(draft, call_id, call)
            case str():
                finish(draft, call_id, failure(call), by=SettledBy.REFUSAL)


def _usable(draft: Draft, call_id: str, proposed: ProposedCall, seq: int) -> Call | RuleVerdict | str:
    """The call; the verdict, if a rule denies it; the error text for the model, if it cannot be used."""
    if draft.spec is not None and draft.spec.reply is not None and proposed.name == FINAL_ANSWER:
        return shaping.ALONE
    tool = draft.spec.tool(proposed.name) if draft.spec is not None else None
    problem = _problem(draft, proposed, tool)
    if tool is None or problem is not None:
        return problem or "this tool does not exist"
    ruled = proposed.ruled
    if ruled is not None and ruled.effect is RuleEffect.DENY:
        return ruled
    asked = None if ruled is None or tool.executor is Executor.HUMAN else ruled.approvers  # an answer is no approval
    terms = joined(proposed.approvers, asked)
    if terms is not None and not terms.fits:
        return TERMS
    return Call(
        tool_call_id=call_id,
        tool=tool.name,
        executor=tool.executor,
        approval=_approval(tool, ruled),
        status=CallStatus.AWAITING,
        arguments_at=seq,
        on_lost=tool.on_lost,
        rule="" if ruled is None else ruled.rule,
        targets=_targets(proposed),
        approvers=terms,
    )


def _targets(proposed: ProposedCall) -> tuple[CallTarget, ...] | None:
    """The targets of a call, within bounds. Too many or invalid ones become `()`, which no grant covers."""
    found = proposed.targets
    if found is None or (len(found) <= MOST_TARGETS and all(_fits(one) for one in found)):
        return found
    return ()


def _fits(target: CallTarget) -> bool:
    return _bytes(target.kind) <= LONGEST_VALUE and _bytes(target.value) <= LONGEST_VALUE and target.is_canonical


def _approval(tool: ToolSpec, ruled: RuleVerdict | None) -> Approval:
    """Whether a person must approve the call: the rules decide for server and client tools, otherwise the tool does."""
    if ruled is None or tool.executor in (Executor.HUMAN, Executor.PROVIDER):
        return tool.approval
    return Approval.REQUIRED if ruled.effect is RuleEffect.ASK else Approval.AUTO


def _problem(draft: Draft, proposed: ProposedCall, tool: ToolSpec | None) -> str | None:
    """The error text, for the model, of a call that can neither run nor be suspended; None if nothing is wrong with it."""
    if tool is None:
        return f"there is no tool named {proposed.name:.80}"
    if tool.executor is Executor.PROVIDER:
        return f"{tool.name} is executed by the model's provider; it cannot be called here"
    if proposed.problem is not None:
        return f"invalid arguments: {proposed.problem}"
    try:
        arguments = jsontext.loads(proposed.arguments) if proposed.arguments.strip() else {}
    except jsontext.NotJson as error:
        return f"invalid arguments: they are not JSON ({error})"
    if not isinstance(arguments, Mapping):
        return "invalid arguments: they are not a JSON object"
    if tool.questions:
        try:
            questions.parse(arguments)
        except questions.NotQuestions as error:
            return f"invalid arguments: {error}"
    if tool.executor is Executor.AGENT:
        return delegating.problem(draft.state, tool, arguments, draft.command.limits)
    broken = schema.problem(tool.parameters, arguments) if tool.strict else None
    return f"invalid arguments: {broken}" if broken is not None else None
