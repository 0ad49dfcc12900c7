"""Whatever a model asks for in a conversation that nobody attends: nothing that needs an approval runs without a word."""

import functools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from writer import start

from holdfast.conversation import (
    AgentSpec,
    Answer,
    Approval,
    Approve,
    Cancel,
    Deny,
    Execution,
    Executor,
    Scope,
    State,
    SuspensionKind,
    ToolSpec,
    evolve,
)
from holdfast.conversation.records.calls import CallStatus
from holdfast.conversation.records.commands import ProposedCall
from holdfast.conversation.terms.decisions import DecisionRecord
from holdfast.conversation.terms.spec import UnattendedApprovals, UnattendedQuestions, UnattendedSpec

PACE = {"questions": [{"id": "pace", "text": "How fast?", "options": ["slow", "fast"], "default": "slow"}]}
CITY = {"questions": [{"id": "city", "text": "Where to?", "options": ["Rome", "Oslo"]}]}
ARGUMENTS = {"quiz": [PACE, CITY, {"questions": []}], "refund": [{"amount": 5}], "share": [{}], "ask": [{}], "lookup": [{}]}
DECISIONS = st.sampled_from(
    [
        None,
        Approve(reason="small"),
        Approve({"amount": 3}),
        Approve({"amount": "x"}),
        Approve(scope=Scope("tool", "refund", level="admin")),
        Deny("no"),
        Cancel("never"),
        Answer({"city": "Oslo"}),
        Answer({"pace": "never"}),
    ]
)
REQUIRED = {"refund", "share"}


@st.composite
def proposals(draw):
    made = []
    for number in range(draw(st.integers(1, 6))):
        tool = draw(st.sampled_from(sorted(ARGUMENTS)))
        decision = draw(DECISIONS)
        made.append(
            (
                ProposedCall(
                    tool_call_id=f"call_{number}",
                    name=tool,
                    arguments=json.dumps(draw(st.sampled_from(ARGUMENTS[tool]))),
                    ruling=None if decision is None else DecisionRecord.of(decision),
                ),
                decision,
            )
        )
    return made


@pytest.fixture(scope="module")
def desk():
    amount = '{"type":"object","properties":{"amount":{"type":"integer"}}}'
    tools = (
        ToolSpec(name="lookup"),
        ToolSpec(name="refund", parameters=amount, approval=Approval.REQUIRED),
        ToolSpec(name="share", executor=Executor.CLIENT, approval=Approval.REQUIRED),
        ToolSpec(name="ask", executor=Executor.HUMAN),
        ToolSpec(name="quiz", executor=Executor.HUMAN, questions=True),
    )
    return AgentSpec(name="desk", model="test/model", tools=tools)


def approves(tool, decision):
    """Whether a decision lets a call of that tool run, by the rules in other words."""
    if not isinstance(decision, Approve) or decision.scope is not None:
        return False
    return decision.arguments is None or decision.arguments["amount"] == 3 or tool == "share"


@given(
    proposals(),
    st.sampled_from(Execution),
    st.sampled_from(UnattendedApprovals),
    st.sampled_from(UnattendedQuestions),
)
def test_nothing_runs_that_nobody_approved_and_nothing_waits_that_is_decided(
    conversations, desk, asked, execution, approvals, questions
):
    unattended = UnattendedSpec(approvals=approvals, questions=questions)
    conversation = conversations(spec=desk.model_copy(update={"execution": execution, "unattended": unattended}))
    conversation.do(start("hello", attended=False))
    conversation.begin()
    conversation.call(*(one for one, _ in asked))
    while running := [call for call in conversation.state.calls if call.status is CallStatus.RUNNING]:
        conversation.finish(running[0].tool_call_id)

    decisions = {one.tool_call_id: (one.name, decision) for one, decision in asked}
    for event in conversation.log:
        if event.kind == "run_scheduled" and event.tool in REQUIRED:
            assert approvals is UnattendedApprovals.ASK
            assert approves(*decisions[event.tool_call_id])
    for call in conversation.state.calls.awaiting():
        tool, decision = decisions[call.tool_call_id]
        match call.suspension.kind:
            case SuspensionKind.APPROVAL:
                assert approvals is UnattendedApprovals.ASK
                assert not approves(tool, decision)
                assert not isinstance(decision, Deny | Cancel)
            case SuspensionKind.ELICITATION:
                assert questions is UnattendedQuestions.ASK
                assert not isinstance(decision, Deny | Cancel)
            case kind:
                assert (kind, tool) == (SuspensionKind.CLIENT_EXEC, "share")
                assert approves(tool, decision)
    assert conversation.state.grants == ()
    assert all(event.principal is None for event in conversation.log if event.kind == "suspension_settled")
    assert functools.reduce(evolve, conversation.log, State(conversation_id="c-1")) == conversation.state
    if not list(conversation.state.calls.awaiting()):
        assert conversation.state.calls.held() == ()
