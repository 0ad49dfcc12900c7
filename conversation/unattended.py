"""What is decided in a conversation that nobody attends, where a call would ask: by its agent's word, in the same write.

Each such call is suspended and settled as by a person, so that the log says what was asked and what became of it.
"""

from holdfast.errors import InvalidDecision

from . import jsontext, questions
from .calls import Call, CallStatus, SuspensionKind
from .commands import Command, ModelReplied, ProposedCall, RunRuled
from .decisions import DecisionKind, Ruling
from .envelope import failure, success
from .events import CallHeld, CallSuspended, Event, ModelAnswered, SettledBy, SuspensionSettled
from .judgement import Draft, Judgement
from .progress import advance, go_on, newly_traced, settle
from .spec import AgentSpec, Approval, Executor, ToolSpec, UnattendedApprovals, UnattendedQuestions
from .state import State
from .suspensions import Settlement, content, result_of
from .voting import is_yes

NOBODY = "nobody attends this conversation"
ASKING = frozenset({SuspensionKind.APPROVAL, SuspensionKind.ELICITATION})
"""What is decided here: reviews and lost runs ask a person all the same, and a client's part is the client's."""


def ruling_at_proposal(state: State, spec: AgentSpec | None, call: Call, proposed: ProposedCall) -> Ruling | None:
    """What is decided about a call that would ask; None where a person is asked."""
    if state.attended or spec is None:
        return None
    if call.executor is Executor.HUMAN:
        return _about_questions(spec, spec.tool(call.tool), proposed)
    if call.approval is Approval.REQUIRED:
        return _about_approval(spec, proposed.ruling)
    return None


def followed(before: State, command: Command, judgement: Judgement) -> Judgement:
    """The judgement of a command with what follows where nobody attends the conversation, for one write.

    A call that its ruling does not fit waits for a person.
    """
    if judgement.state is None or judgement.state.attended or not judgement.events:
        return judgement
    draft = Draft(judgement.state, command.now, command.trace, list(judgement.events), salt=command.salt)
    place = 0
    while place < len(draft.events):
        upto = len(draft.events)
        known = _with_events(before, command, draft.events)
        for event in draft.events[place:upto]:
            if isinstance(event, CallSuspended) and event.suspension_kind in ASKING:
                _decide(draft, known, event, _ruling(before, known, draft.events, event))
        if len(draft.events) == upto:
            break
        place = upto
        advance(draft, _with_events(before, command, draft.events))
    return Judgement(tuple(draft.events), judgement.reply, judgement.ignored, draft.state)


def _with_events(before: State, command: Command, events: list[Event]) -> Command:
    """The command with the events that it has led to among the entries that it is judged by."""
    written = dict(enumerate(events, before.seq + 1))
    return command.model_copy(update={"read": {**command.read, **written}})


def _ruling(before: State, command: Command, events: list[Event], asked: CallSuspended) -> Ruling | None:
    for entry in command.read.values():
        if isinstance(entry, CallHeld) and entry.tool_call_id == asked.tool_call_id:
            return entry.ruling
    if isinstance(command, RunRuled) and command.spec is not None:
        return _about_approval(command.spec, command.ruling)
    if isinstance(command, ModelReplied) and isinstance(events[0], ModelAnswered):
        proposed = dict(zip((call.tool_call_id for call in events[0].calls), command.calls, strict=True))
        call = Call(
            tool_call_id=asked.tool_call_id,
            tool=asked.tool,
            executor=asked.executor,
            approval=asked.approval,
            status=CallStatus.AWAITING,
            arguments_at=asked.arguments_at,
        )
        return ruling_at_proposal(before, command.spec, call, proposed[asked.tool_call_id])
    return None


def _about_approval(spec: AgentSpec, said: Ruling | None) -> Ruling | None:
    if spec.unattended.approvals is UnattendedApprovals.DENY:
        return Ruling(kind=DecisionKind.DENY, body='""')
    return said


def _about_questions(spec: AgentSpec, tool: ToolSpec | None, proposed: ProposedCall) -> Ruling | None:
    match spec.unattended.questions:
        case UnattendedQuestions.ASK:
            return proposed.ruling
        case UnattendedQuestions.CANCEL:
            return Ruling(kind=DecisionKind.CANCEL)
        case UnattendedQuestions.DEFAULTS:
            asked = tool is not None and tool.questions
            answers = questions.defaults(questions.parse(jsontext.loads(proposed.arguments))) if asked else None
            if answers is None:
                return Ruling(kind=DecisionKind.CANCEL)
            return Ruling(kind=DecisionKind.ANSWER, body=jsontext.dumps(answers))


def _decide(draft: Draft, command: Command, asked: CallSuspended, ruling: Ruling | None) -> None:
    """Settle a suspension by a ruling; one that does not fit, and a scope, which only a person gives, settle nothing."""
    call = draft.state.calls.of(asked.tool_call_id)
    suspension = None if call is None else call.suspension
    if call is None or suspension is None or ruling is None or ruling.scope is not None:
        return
    try:
        body = content(draft.state, command, ruling, call, suspension)
    except InvalidDecision:
        return
    if call.deciders is not None and is_yes(ruling):
        return  # the call is for certain people to let go on
    seq = draft.emit(
        SuspensionSettled(
            at=draft.now,
            tool_call_id=call.tool_call_id,
            suspension_id=suspension.suspension_id,
            by=SettledBy.UNATTENDED,
            body=ruling.body,
            decision=ruling.kind,
            traceparent=newly_traced(draft),
            reason=ruling.reason,
        )
    )
    _follow(draft, command.spec, call, Settlement(suspension, ruling, body, "", ""), seq)


def _follow(draft: Draft, spec: AgentSpec | None, call: Call, settlement: Settlement, seq: int) -> None:
    ruling, suspension = settlement.ruling, settlement.suspension
    resumed = call.resumed + (call.attempt > 0)  # a run that was asked about at its dispatch had not begun
    decided = call.model_copy(update={"decided_at": seq, "held_at": 0, "resumed": resumed})
    match ruling.kind:
        case DecisionKind.APPROVE:
            go_on(draft, decided if ruling.body is None else decided.edited(seq), spec)
        case DecisionKind.ANSWER if call.passes(suspension, ruling.kind):
            go_on(draft, decided, spec)
        case DecisionKind.ANSWER:
            envelope = success(result_of(spec, call, settlement))
            settle(draft, call.tool_call_id, envelope, by=SettledBy.UNATTENDED, ok=True)
        case _:
            what = "it was not answered" if call.executor is Executor.HUMAN else "this call was denied"
            what = "this call was cancelled" if ruling.kind is DecisionKind.CANCEL else what
            why = settlement.body if ruling.kind is DecisionKind.DENY else ruling.reason
            said = f"{NOBODY}, so {what}{': ' if why else ''}{why}"
            settle(draft, call.tool_call_id, failure(said), by=SettledBy.UNATTENDED)
