"""Unattended conversations: the agent decides, in the same write, the calls that would ask a person.

Each such call is suspended and settled as by a person, so the log holds the question and the decision.
"""

from dataclasses import replace

from holdfast.conversation.records.calls import Call, CallStatus
from holdfast.conversation.records.commands import Command, ModelReplied, RunRuled
from holdfast.conversation.records.events import CallHeld, CallSuspended, Event, ModelAnswered, SettledBy
from holdfast.conversation.records.proposed_call import ProposedCall
from holdfast.conversation.records.state import State
from holdfast.conversation.terms import questions
from holdfast.conversation.terms.decisions import FIRST_WORDS, DecisionKind, DecisionRecord, SuspensionKind
from holdfast.conversation.terms.spec import AgentSpec, Approval, Executor, ToolSpec, UnattendedApprovals, UnattendedQuestions
from holdfast.conversation.text import jsontext
from holdfast.conversation.text.envelope import failure, success
from holdfast.errors import InvalidDecision

from .deciding import Fitted, fit
from .judgement import Draft, Judgement
from .progress import advance, finish, go_on, settled

_DECIDED = FIRST_WORDS | {SuspensionKind.LIMIT}
NOBODY = "nobody attends this conversation"
# Approvals and elicitations are decided here, and a turn that asks whether it may go on. Reviews and lost runs still ask a
# person, and client calls are the client's.


def ruling_at_proposal(state: State, spec: AgentSpec | None, call: Call, proposed: ProposedCall) -> DecisionRecord | None:
    """The agent's decision about a new call that would ask a person; None: a person is asked after all."""
    if state.attended or spec is None:
        return None
    if call.executor is Executor.HUMAN:
        return _about_questions(spec, spec.tool(call.tool), proposed)
    if call.approval is Approval.REQUIRED:
        return _about_approval(spec, proposed.ruling)
    return None


def followed(before: State, command: Command, judgement: Judgement) -> Judgement:
    """The judgement with the agent's decisions added. A call without a fitting decision waits for a person."""
    draft = Draft(judgement.state or before, command, list(judgement.events))
    place = 0
    while place < len(draft.events):
        upto = len(draft.events)
        draft.command = _with_events(before, command, draft.events)
        for event in draft.events[place:upto]:
            if isinstance(event, CallSuspended) and event.suspension_kind in _DECIDED:
                _decide(draft, event, _ruling(before, draft.command, draft.events, event))
        if len(draft.events) == upto:
            break
        place = upto
        draft.command = _with_events(before, command, draft.events)
        advance(draft)
    return replace(judgement, events=tuple(draft.events), state=draft.state)


def _with_events(before: State, command: Command, events: list[Event]) -> Command:
    """The command, with its own events added to the log entries that it reads."""
    written = dict(enumerate(events, before.seq + 1))
    return command.model_copy(update={"read": {**command.read, **written}})


def _ruling(before: State, command: Command, events: list[Event], asked: CallSuspended) -> DecisionRecord | None:
    if asked.suspension_kind is SuspensionKind.LIMIT:
        return None if command.spec is None else _about_approval(command.spec, None)
    for entry in command.read.values():
        if isinstance(entry, CallHeld) and entry.tool_call_id == asked.tool_call_id:
            return entry.ruling
    if isinstance(command, RunRuled) and command.spec is not None:
        return _about_approval(command.spec, command.ruling)
    if isinstance(command, ModelReplied) and isinstance(events[0], ModelAnswered):
        proposed = dict(zip((call.tool_call_id for call in events[0].calls), command.calls, strict=True))
        call = asked.carried(Call, status=CallStatus.AWAITING)
        return ruling_at_proposal(before, command.spec, call, proposed[asked.tool_call_id])
    return None


def _about_approval(spec: AgentSpec, said: DecisionRecord | None) -> DecisionRecord | None:
    if spec.unattended.approvals is UnattendedApprovals.DENY:
        return DecisionRecord(kind=DecisionKind.DENY, body='""')
    return said


def _about_questions(spec: AgentSpec, tool: ToolSpec | None, proposed: ProposedCall) -> DecisionRecord | None:
    match spec.unattended.questions:
        case UnattendedQuestions.ASK:
            return proposed.ruling
        case UnattendedQuestions.CANCEL:
            return DecisionRecord(kind=DecisionKind.CANCEL)
        case UnattendedQuestions.DEFAULTS:
            asked = tool is not None and tool.questions
            answers = questions.defaults(questions.parse(jsontext.loads(proposed.arguments))) if asked else None
            if answers is None:
                return DecisionRecord(kind=DecisionKind.CANCEL)
            return DecisionRecord(kind=DecisionKind.ANSWER, body=jsontext.dumps(answers))


def _decide(draft: Draft, asked: CallSuspended, ruling: DecisionRecord | None) -> None:
    """Settle a suspension by a ruling, unless the ruling does not fit or has a scope: only people give scopes."""
    call, suspension = draft.state.calls.open_suspension(asked.suspension_id) or (None, None)
    if call is None or suspension is None or ruling is None or ruling.scope is not None:
        return
    try:
        fitted = fit(draft, call, suspension, ruling)
    except InvalidDecision:
        return
    if call.deciders is None or not fitted.is_yes:  # only the named approvers may let the call go on
        _follow(draft, fitted, settled(draft, call, SettledBy.UNATTENDED, ruling))


def _follow(draft: Draft, fitted: Fitted, seq: int) -> None:
    call, ruling = fitted.call, fitted.ruling
    if fitted.suspension.kind is SuspensionKind.LIMIT:
        return
    resumed = call.resumed + (call.attempt > 0)  # an attempt that was suspended at its dispatch never began
    decided = call.model_copy(update={"decided_at": seq, "held_at": 0, "resumed": resumed})
    match ruling.kind:
        case DecisionKind.APPROVE:
            go_on(draft, decided if ruling.body is None else decided.edited(seq))
        case DecisionKind.ANSWER if call.passes(fitted.suspension, ruling.kind):
            go_on(draft, decided)
        case DecisionKind.ANSWER:
            envelope = success(fitted.result(draft.tool_of(call)))
            finish(draft, call.tool_call_id, envelope, by=SettledBy.UNATTENDED, ok=True)
        case _:
            what = "it was not answered" if call.executor is Executor.HUMAN else "this call was denied"
            what = "this call was cancelled" if ruling.kind is DecisionKind.CANCEL else what
            why = fitted.value if ruling.kind is DecisionKind.DENY else ruling.reason
            said = f"{NOBODY}, so {what}{': ' if why else ''}{why}"
            finish(draft, call.tool_call_id, failure(said), by=SettledBy.UNATTENDED)
