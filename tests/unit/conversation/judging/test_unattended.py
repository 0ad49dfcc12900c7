"""Questions of the model and their answers, and conversations that nobody attends."""

import json

import pytest
from writer import lose, rule, start

from holdfast.actors.worker.gate import UNREADABLE
from holdfast.conversation import (
    AgentSpec,
    Answer,
    Approve,
    Cancel,
    Deny,
    Execution,
    Executor,
    Scope,
    SettledBy,
    Start,
    Status,
    SuspensionKind,
    ToolSpec,
)
from holdfast.conversation.records.commands import ProposedCall, RunRuled
from holdfast.conversation.terms.decisions import DecisionKind, DecisionRecord
from holdfast.conversation.terms.rule_verdict import RuleEffect, RuleVerdict
from holdfast.conversation.terms.spec import UnattendedSpec
from holdfast.errors import ConversationExists, InvalidDecision, StaleCall

TRIP = {
    "questions": [
        {"id": "city", "text": "Where to?", "options": ["Rome", "Oslo"]},
        {"id": "pace", "text": "How fast?", "options": ["slow", "fast"], "default": "slow"},
    ]
}
PACE = {"questions": TRIP["questions"][1:]}


def quiz(arguments, **more):
    return ProposedCall(tool_call_id="call_q", name="quiz", arguments=json.dumps(arguments), **more)


def desk(conversations, *, execution=Execution.PARALLEL, **unattended):
    plain = conversations.desk
    tools = (*plain.tools, ToolSpec(name="quiz", executor=Executor.HUMAN, questions=True))
    return AgentSpec(
        name="desk",
        model="test/model",
        tools=tools,
        limits=plain.limits,
        execution=execution,
        unattended=UnattendedSpec(**unattended),
    )


@pytest.fixture
def asking(conversations):
    """A conversation of the desk that can ask questions, in whose first turn the model is called."""
    return conversations(spec=desk(conversations)).begun()


@pytest.fixture
def alone(conversations):
    """Makes a conversation that nobody attends."""

    def made(*, execution=Execution.PARALLEL, **unattended):
        conversation = conversations(spec=desk(conversations, execution=execution, **unattended))
        conversation.do(start("hello", attended=False))
        conversation.begin()
        return conversation

    return made


def test_questions_wait_for_a_person_and_the_model_reads_all_answers(asking):
    [call] = asking.call(quiz(TRIP))
    assert asking.log[-1].questions
    asking.resolve(Answer({"city": "Oslo"}), call)
    assert asking.result(call) == {"ok": True, "result": {"answers": {"city": "Oslo", "pace": "slow"}}}
    assert [event.body for event in asking.log if event.kind == "suspension_settled"] == ['{"city":"Oslo"}']


def test_an_answer_is_judged_by_the_questions_of_its_own_call(asking):
    [call] = asking.call(quiz(TRIP))
    with asking.unchanged(), pytest.raises(InvalidDecision, match=r"decision\.value\.city: 'Paris' is not offered"):
        asking.resolve(Answer({"city": "Paris"}), call)
    assert asking.suspension(call).kind is SuspensionKind.ELICITATION


def test_questions_that_cannot_be_read_take_no_answer_but_a_cancellation(asking):
    [call] = asking.call(quiz(TRIP))
    asking.log[asking.state.turn.call(call).arguments_at - 1] = None
    with pytest.raises(InvalidDecision, match="cannot be read"):
        asking.resolve(Answer({"city": "Rome"}), call)
    asking.resolve(Cancel("later"), call)
    assert "later" in asking.log[-1].content


def test_several_decisions_judge_each_answer_by_its_questions(asking):
    first, second = asking.call(quiz(TRIP), ProposedCall(tool_call_id="call_2", name="quiz", arguments=json.dumps(PACE)))
    asking.resolve_many({first: Answer({"city": "Rome"}), second: Answer({})})
    assert asking.result(second) == {"ok": True, "result": {"answers": {"pace": "slow"}}}


def test_bad_questions_are_a_result_that_says_what_is_wrong(asking):
    [call] = asking.call(quiz({"questions": [{"id": "city", "text": "Where to?", "options": []}]}))
    assert asking.result(call)["error"].startswith("invalid arguments: questions[0].options: there are 0")


def test_only_people_answer_questions():
    with pytest.raises(ValueError, match="answers no questions"):
        ToolSpec(name="quiz", questions=True)


def test_an_attended_start_has_the_digest_that_it_always_had():
    plain = Start(agent="desk", app="shop:app", text="hello", message_id="m-1")
    assert plain.digest == plain.model_copy(update={"attended": True}).digest
    assert plain.digest != plain.model_copy(update={"attended": False}).digest


def test_no_function_approves_in_a_persons_place_where_the_rules_in_force_cannot_be_read(alone):
    conversation = alone()
    approving = DecisionRecord(kind=DecisionKind.APPROVE)
    called = ProposedCall(tool_call_id="call_1", name="refund", arguments='{"amount":5}', ruled=UNREADABLE, ruling=approving)
    [call] = conversation.call(called)
    assert conversation.suspension(call).kind is SuspensionKind.APPROVAL


def test_a_start_that_is_repeated_otherwise_attended_is_another_start(alone):
    conversation = alone()
    with pytest.raises(ConversationExists):
        conversation.do(start("hello"))
    assert conversation.do(start("hello", attended=False)).reply.duplicate


def test_unattended_questions_are_cancelled_at_once(alone):
    conversation = alone(questions="cancel")
    [call, other] = conversation.call(quiz(TRIP), "ask")
    assert conversation.status is Status.GENERATING
    for one in (call, other):
        said = conversation.result(one)["error"]
        assert said == "nobody attends this conversation, so this call was cancelled"
    settled = [event for event in conversation.log if event.kind == "suspension_settled"]
    assert [(one.by, one.decision, one.principal) for one in settled] == [
        (SettledBy.UNATTENDED, DecisionKind.CANCEL, None),
        (SettledBy.UNATTENDED, DecisionKind.CANCEL, None),
    ]


def test_unattended_questions_take_their_defaults(alone):
    conversation = alone(questions="defaults")
    [call] = conversation.call(quiz(PACE))
    assert conversation.result(call) == {"ok": True, "result": {"answers": {"pace": "slow"}}}
    assert [event.by for event in conversation.log if event.kind == "call_resolved"] == [SettledBy.UNATTENDED]


def test_a_question_without_the_default_that_it_needs_is_cancelled(alone):
    conversation = alone(questions="defaults")
    [call, other] = conversation.call(quiz(TRIP), "ask")
    assert "cancelled" in conversation.result(call)["error"]
    assert "cancelled" in conversation.result(other)["error"]


def test_unattended_approvals_are_denied(alone):
    conversation = alone(approvals="deny")
    refund, share = conversation.call("refund", "share")
    for one in (refund, share):
        assert conversation.result(one)["error"] == "nobody attends this conversation, so this call was denied"
    assert not [kind for kind in conversation.kinds() if kind == "run_scheduled"]


def test_without_another_word_an_unattended_conversation_asks(alone):
    conversation = alone()
    calls = conversation.call("refund", "ask", quiz(TRIP))
    assert [conversation.suspension(one).kind for one in calls] == ["approval", "elicitation", "elicitation"]


def test_an_attended_conversation_asks_whatever_its_agent_says(conversations):
    conversation = conversations(spec=desk(conversations, approvals="deny", questions="cancel")).begun()
    calls = conversation.call("refund", quiz(TRIP, ruling=DecisionRecord.of(Cancel())))
    assert all(conversation.suspension(one) for one in calls)


def refund(decision, number=1):
    ruling = None if decision is None else DecisionRecord.of(decision)
    return ProposedCall(tool_call_id=f"call_{number}", name="refund", arguments='{"amount":5}', ruling=ruling)


def test_a_function_of_the_app_may_approve_deny_or_edit(alone):
    conversation = alone()
    calls = conversation.call(
        refund(Approve(reason="small"), 1), refund(Deny("large"), 2), refund(Approve({"amount": 4}), 3), refund(None, 4)
    )
    assert conversation.run(calls[0]).decided_at
    assert conversation.result(calls[1])["error"] == "nobody attends this conversation, so this call was denied: large"
    assert conversation.run(calls[2]).arguments_at == conversation.run(calls[2]).decided_at
    assert conversation.suspension(calls[3]).kind is SuspensionKind.APPROVAL
    settled = [event for event in conversation.log if event.kind == "suspension_settled"]
    assert {one.by for one in settled} == {SettledBy.UNATTENDED}
    assert settled[0].reason == "small"


@pytest.mark.parametrize(
    "decision", [Answer("no such"), Approve({"amount": 5000}), Approve(scope=Scope("tool", "refund", level="execute"))]
)
def test_a_decision_of_a_function_that_does_not_fit_asks_a_person(alone, decision):
    conversation = alone()
    [call] = conversation.call(refund(decision))
    assert conversation.suspension(call).kind is SuspensionKind.APPROVAL
    assert conversation.state.grants == ()


def test_a_function_answers_questions_within_what_they_offer(alone):
    conversation = alone()
    first = quiz(TRIP, ruling=DecisionRecord.of(Answer({"city": "Oslo"})))
    second = quiz(TRIP, ruling=DecisionRecord.of(Answer({"city": "Paris"}))).model_copy(update={"tool_call_id": "call_2"})
    calls = conversation.call(first, second)
    assert conversation.result(calls[0])["result"] == {"answers": {"city": "Oslo", "pace": "slow"}}
    assert conversation.suspension(calls[1]).kind is SuspensionKind.ELICITATION


def test_a_rule_that_denies_goes_over_a_function_that_approves(alone):
    conversation = alone()
    ruled = RuleVerdict(effect=RuleEffect.DENY, rule="no-refunds")
    [call] = conversation.call(refund(Approve()).model_copy(update={"ruled": ruled}))
    assert "no-refunds" in conversation.result(call)["error"]


def test_a_rule_that_denies_before_the_run_goes_over_a_function_that_approved(alone):
    conversation = alone()
    [call] = conversation.call(refund(Approve()))
    conversation.do(rule(call, name="no-refunds"))
    assert "no-refunds" in conversation.result(call)["error"]


@pytest.mark.parametrize(
    ("unattended", "ruling", "ends"),
    [
        ({"approvals": "deny"}, None, "result"),
        ({}, DecisionRecord.of(Deny("no")), "result"),
        ({}, DecisionRecord.of(Approve()), "run"),
        ({}, None, "asks"),
    ],
)
def test_what_a_rule_asks_about_before_the_run_is_decided_as_at_the_proposal(alone, unattended, ruling, ends):
    conversation = alone(**unattended)
    [call] = conversation.call("lookup")
    effect_id = conversation.run(call).effect_id
    conversation.do(RunRuled(effect_id=effect_id, ruled=RuleVerdict(effect=RuleEffect.ASK, rule="look"), ruling=ruling))
    match ends:
        case "result":
            assert "denied" in conversation.result(call)["error"]
        case "run":
            run = conversation.run(call)
            assert (run.attempt, run.resumed, run.decided_at > 0) == (2, 1, True)
        case _:
            assert conversation.suspension(call).kind is SuspensionKind.APPROVAL


def test_held_calls_are_decided_one_after_the_other_in_one_write(alone):
    conversation = alone(execution=Execution.SEQUENTIAL, questions="defaults", approvals="deny")
    run, pace, denied, trip = conversation.call(
        "lookup", quiz(PACE), refund(None, 2), quiz(TRIP).model_copy(update={"tool_call_id": "call_3"})
    )
    assert conversation.kinds()[-4:] == ["run_scheduled", "call_held", "call_held", "call_held"]
    assert conversation.log[-3].ruling.kind is DecisionKind.ANSWER
    conversation.finish(run)
    assert conversation.status is Status.GENERATING
    assert conversation.result(pace)["result"] == {"answers": {"pace": "slow"}}
    assert "denied" in conversation.result(denied)["error"]
    assert "cancelled" in conversation.result(trip)["error"]


def test_in_a_batch_nothing_waits_for_what_is_decided_at_once(alone):
    conversation = alone(execution=Execution.BATCH)
    plain, first, second = conversation.call("lookup", refund(Approve(), 1), refund(Approve(), 2))
    assert {conversation.run(call).tool_call_id for call in (plain, first, second)} == {plain, first, second}


def test_a_client_has_its_part_of_a_call_that_a_function_approved(alone):
    conversation = alone()
    ruling = DecisionRecord.of(Approve())
    [call] = conversation.call(ProposedCall(tool_call_id="c1", name="share", arguments='{"amount":5}', ruling=ruling))
    conversation.rule(call, RuleEffect.ALLOW)
    assert conversation.suspension(call).kind is SuspensionKind.CLIENT_EXEC


def test_lost_runs_and_reviews_ask_a_person_all_the_same(alone):
    conversation = alone(approvals="deny", questions="cancel")
    lost, reviewed = conversation.call("post", "lookup")
    conversation.do(lose(lost))
    conversation.suspend(reviewed)
    assert [conversation.suspension(one).kind for one in (lost, reviewed)] == ["lost", "review"]


def test_a_later_decision_is_told_that_nobody_attended(alone):
    conversation = alone(approvals="deny")
    [call] = conversation.call("refund")
    with pytest.raises(StaleCall) as stale:
        conversation.resolve(Approve(), call)
    assert stale.value.settled_by == SettledBy.UNATTENDED


def test_the_last_model_call_of_a_turn_fails_it_once_its_questions_are_cancelled(alone):
    conversation = alone(questions="cancel")
    for _ in range(conversation.spec.limits.max_model_calls):
        conversation.call("ask")
    assert conversation.status is Status.FAILED
