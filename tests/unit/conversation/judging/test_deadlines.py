"""Deadlines that act: reminders, escalations, and what decides a call that nobody decided."""

import uuid

import pytest

from holdfast.conversation import (
    Approve,
    Approvers,
    Choice,
    Deny,
    EscalateCall,
    Execution,
    Executor,
    Principal,
    Proof,
    Resume,
    SettledBy,
    Snooze,
    Start,
    Status,
    ToolSpec,
)
from holdfast.conversation.judging.noting import MOST_NOTES, MOST_SNOOZES
from holdfast.conversation.log.chain import ChainCheck
from holdfast.conversation.log.index import delta, pending_entries
from holdfast.conversation.records.calls import CallStatus
from holdfast.conversation.records.commands import WAKE_SPAN_MS, Comment, ProposedCall, RunRuled
from holdfast.conversation.terms.rule_verdict import RuleEffect, RuleVerdict
from holdfast.conversation.terms.stages import Default, OnTimeout, Stage
from holdfast.errors import AlreadyVoted, InvalidInput, NotPermitted, StaleCall, StaleReason

LEAD, BOARD, FINANCE = (Approvers(f"role:{name}").terms for name in ("lead", "board", "finance"))
ANA = Principal("ana", roles=["finance"], proof=Proof.KEY)
LEE = Principal("lee", roles=["lead"], proof=Proof.KEY)
BO = Principal("bo", roles=["board"], proof=Proof.KEY)
STAGES = (Stage(approvers=LEAD, for_s=100), Stage(approvers=BOARD, for_s=50))
DENY = Default(kind="deny", value='"too late"')


def desk(conversations, tool="refund", **terms):
    """A conversation with a desk whose tool has these terms."""
    return conversations(spec=conversations.desk_with(**{tool: {"on_timeout": OnTimeout(**terms)}})).begun()


def wait(conversation, tool="refund", approvers=FINANCE, **more):
    arguments = '{"task":"look"}' if tool == "consult" else '{"amount":5}'
    call = ProposedCall(tool_call_id="call_1", name=tool, arguments=arguments, approvers=approvers, **more)
    conversation.call(call)
    return "call_1"


def due(conversation):
    """Wake it when something is due."""
    return conversation.wake(at=conversation.state.due_at).events


def escalating(conversation, call, to=BOARD, by=ANA, **more):
    named = {"tool_call_id": call, "suspension_id": conversation.suspension(call).suspension_id}
    return EscalateCall(approvers=to, principal=by, **({"request_id": uuid.uuid4().hex} | named | more))


# Stages, one after the other.


def test_each_deadline_leads_to_the_next_stage_and_in_the_end_to_the_default(conversations):
    conversation = desk(conversations, stages=STAGES, default=DENY)
    call = wait(conversation)
    first = conversation.suspension(call)
    begins = conversation.now
    # when nobody decides, others are asked, under the same id, and with more time
    for number, (stage, who) in enumerate(zip(STAGES, (LEE, BO), strict=True), 1):
        (event,) = due(conversation)
        assert (event.kind, event.stage, event.approvers) == ("call_escalated", number, stage.approvers)
        now = conversation.suspension(call)
        assert (now.suspension_id, now.expires_at) == (first.suspension_id, conversation.now + stage.for_s * 1000)
        assert conversation.state.turn.call(call).deciders.outsider(who) is None
        assert conversation.state.turn.call(call).deciders.outsider(ANA) is not None
    # then the default decides, and nobody is named
    settled, resolved = due(conversation)
    assert (settled.by, settled.decision, settled.principal, settled.body) == (SettledBy.EXPIRY, "deny", None, '"too late"')
    assert resolved.by is SettledBy.EXPIRY
    assert conversation.now == begins + 300_000 + 150_000
    assert conversation.result(call)["error"].endswith("(the user did not respond): too late")
    assert conversation.status is Status.GENERATING


def test_without_stages_a_call_fails_as_ever(begun):
    [call] = begun.call("refund")
    settled, _ = due(begun)
    assert (settled.by, settled.decision) == (SettledBy.EXPIRY, None)
    assert "nobody approved this call in time" in begun.result(call)["error"]


def test_a_late_wake_takes_one_stage_which_has_its_whole_time(conversations):
    conversation = desk(conversations, stages=STAGES)
    call = wait(conversation)
    late = conversation.suspension(call).expires_at + 10_000_000
    (event,) = conversation.wake(at=late).events
    assert (event.stage, event.expires_at) == (1, late + 100_000)
    assert conversation.wake(at=late + 1).events == ()


def test_whoever_is_asked_now_decides_and_the_earlier_ones_no_more(conversations):
    conversation = desk(conversations, stages=STAGES)
    call = wait(conversation)
    due(conversation)
    with conversation.unchanged(), pytest.raises(NotPermitted):
        conversation.resolve(Approve(), call, principal=ANA)
    conversation.resolve(Approve(), call, principal=LEE)
    # and the rules that name the earlier approvers take it for approved
    ruled = RuleVerdict(effect=RuleEffect.ASK, rule="late", approvers=FINANCE)
    conversation.do(RunRuled(effect_id=f"{call}#1", ruled=ruled))
    assert conversation.state.turn.call(call).status is CallStatus.RUNNING


def test_an_escalation_voids_the_votes(conversations):
    conversation = desk(
        conversations, stages=(Stage(approvers=Approvers("role:lead", "role:finance", minimum=2).terms, for_s=9),)
    )
    call = wait(conversation, approvers=Approvers("role:finance", minimum=2).terms)
    assert not conversation.resolve(Approve(), call, principal=ANA).reply.settled
    with pytest.raises(AlreadyVoted):
        conversation.resolve(Approve(), call, principal=ANA)
    due(conversation)
    assert conversation.suspension(call).votes == ()
    assert conversation.resolve(Approve(), call, principal=ANA).reply.votes == 1
    assert conversation.resolve(Approve(), call, principal=LEE).reply.settled


def test_an_edit_under_several_approvers_keeps_the_stage_and_what_follows(conversations):
    two = Approvers("role:lead", "role:finance", minimum=2).terms
    ruled = RuleVerdict(effect=RuleEffect.ASK, on_timeout=OnTimeout(stages=(Stage(approvers=two, for_s=60), *STAGES)))
    conversation = conversations().begun()
    call = wait(conversation, ruled=ruled)
    due(conversation)
    before = conversation.suspension(call)
    conversation.resolve(Approve({"amount": 4}), call, principal=ANA)
    after = conversation.suspension(call)
    assert after.suspension_id != before.suspension_id
    assert (after.stage, after.expires_at, after.staged) == (1, before.expires_at, True)
    (event,) = due(conversation)
    assert (event.stage, event.approvers) == (2, LEAD)


# What decides in the end.


@pytest.mark.parametrize(
    ("tool", "changes", "default", "result"),
    [
        ("age", {}, '{"years":7}', {"ok": True, "result": {"years": 7}}),
        ("age", {}, '{"years":"old"}', {"ok": False, "error": "the user did not respond in time"}),
        ("refund", {"decisions": tuple(Choice)}, '"as if"', {"ok": True, "result": "as if"}),
        ("refund", {}, '"as if"', None),
        ("refund", {"decisions": tuple(Choice), "resume": Resume.PASS_TO_TOOL}, '"as if"', None),
    ],
)
def test_an_answer_by_default_is_the_result_if_it_fits(conversations, tool, changes, default, result):
    terms = {"on_timeout": OnTimeout(default=Default(kind="answer", value=default))}
    conversation = conversations(spec=conversations.desk_with(**{tool: terms | changes})).begun()
    call = wait(conversation, tool, None)
    settled, resolved = due(conversation)
    assert (settled.by, resolved.by) == (SettledBy.EXPIRY, SettledBy.EXPIRY)
    assert conversation.result(call) == (result or {"ok": False, "error": conversation.result(call)["error"]})
    assert (settled.decision == "answer") is resolved.ok


def test_questions_are_answered_by_default_with_their_own_defaults(conversations):
    asked = '{"questions":[{"id":"pace","text":"How fast?","default":"slow"},{"id":"why","text":"Why?","required":false}]}'
    spec = conversations.desk_with()
    quiz = ToolSpec(
        name="quiz",
        executor=Executor.HUMAN,
        questions=True,
        on_timeout=OnTimeout(default=Default(kind="answer", value='{"why":"so"}')),
    )
    conversation = conversations(spec=spec.model_copy(update={"tools": (*spec.tools, quiz)})).begun()
    [call] = conversation.call(("quiz", asked))
    due(conversation)
    assert conversation.result(call) == {"ok": True, "result": {"answers": {"pace": "slow", "why": "so"}}}


def test_a_lost_run_escalates_and_a_denial_does_not_say_that_it_did_not_run(conversations):
    conversation = desk(conversations, "post", stages=STAGES[:1], default=DENY)
    call = wait(conversation, "post")
    conversation.lose(call)
    assert [event.kind for event in due(conversation)] == ["call_escalated"]
    due(conversation)
    assert conversation.result(call)["error"].startswith("outcome unknown")


def test_a_review_has_the_stages_that_its_body_asks_for_and_passes_the_answer_on(conversations):
    conversation = desk(conversations, "lookup", stages=STAGES)
    call = wait(conversation, "lookup")
    terms = OnTimeout(stages=STAGES[1:], default=Default(kind="answer", value="3"), reminders_s=(5,))
    conversation.suspend(call, response_schema='{"type":"integer"}', resume=Resume.PASS_TO_TOOL, expires_s=30, on_timeout=terms)
    kinds = [event.kind for _ in range(4) for event in due(conversation)]
    assert kinds == ["call_reminded", "call_escalated", "call_reminded", "suspension_settled", "run_scheduled"]
    assert conversation.state.turn.call(call).passed_at == len(conversation.log) - 1


def test_a_review_does_not_take_the_stages_of_its_tool(conversations):
    conversation = desk(conversations, "lookup", stages=STAGES)
    call = wait(conversation, "lookup")
    conversation.suspend(call)
    assert [event.kind for event in due(conversation)] == ["suspension_settled", "call_resolved"]
    assert "nobody reviewed" in conversation.result(call)["error"]


@pytest.mark.parametrize("tool", ["locate", "consult"])
def test_a_clients_call_and_a_machine_have_no_stages(conversations, tool):
    conversation = desk(conversations, tool, stages=STAGES, reminders_s=(1,))
    call = wait(conversation, tool, None)
    assert conversation.suspension(call).acts_at == conversation.suspension(call).expires_at
    with conversation.unchanged(), pytest.raises(InvalidInput):
        conversation.do(escalating(conversation, call))
    over = conversation.wake(at=conversation.suspension(call).expires_at).events
    assert [event.kind for event in over] == ["suspension_settled", "call_resolved"]


def test_a_rules_deadline_replaces_the_tools_also_if_the_call_was_held(conversations):
    spec = conversations.desk_with(refund={"on_timeout": OnTimeout(default=DENY)})
    conversation = conversations(spec=spec.model_copy(update={"execution": Execution.SEQUENTIAL})).begun()
    ruled = RuleVerdict(effect=RuleEffect.ASK, rule="big", on_timeout=OnTimeout(stages=STAGES[:1]))
    proposed = [
        ProposedCall(tool_call_id=f"call_{number}", name="refund", arguments='{"amount":5}', ruled=ruled) for number in (1, 2)
    ]
    conversation.call(*proposed)
    assert [event.kind for event in due(conversation)] == ["call_escalated"]
    conversation.resolve(Deny("no"), "call_1", principal=LEE)
    assert [event.kind for event in due(conversation)] == ["call_escalated"]
    assert due(conversation)[0].decision is None  # the tool's default is replaced, too


# Reminders.


def test_reminders_come_before_the_end_of_each_stage_and_each_one_once(conversations):
    conversation = desk(conversations, stages=STAGES[:1], reminders_s=(10, 60, 1000))
    call = wait(conversation)
    begins = conversation.now
    moments = []
    while conversation.suspension(call) is not None:
        moments += [(event.kind, conversation.now - begins) for event in due(conversation)[:1]]
    assert moments == [
        ("call_reminded", 240_000),
        ("call_reminded", 290_000),
        ("call_escalated", 300_000),
        ("call_reminded", 340_000),
        ("call_reminded", 390_000),
        ("suspension_settled", 400_000),
    ]


def test_a_late_reminder_comes_once_and_none_comes_after_the_deadline(conversations):
    conversation = desk(conversations, reminders_s=(10, 60))
    call = wait(conversation)
    ends = conversation.suspension(call).expires_at
    (event,) = conversation.wake(at=ends - 5_000).events
    assert (event.kind, event.remind_at) == ("call_reminded", 0)
    assert conversation.state.due_at == ends
    assert conversation.wake(at=ends).events[0].kind == "suspension_settled"


def test_one_wake_does_all_that_is_due_but_for_terms_that_it_has_not_read(conversations):
    ruled = RuleVerdict(effect=RuleEffect.ASK, on_timeout=OnTimeout(stages=STAGES))
    conversation = conversations().begun()
    calls = [ProposedCall(tool_call_id=name, name=name, arguments='{"amount":5}', ruled=ruled) for name in ("refund", "ship")]
    conversation.call(*calls, "ask")  # 300, 400 and 200 s
    late = conversation.suspension("ship").expires_at + WAKE_SPAN_MS
    conversation.wake(at=late)
    assert conversation.suspension("refund").stage == conversation.suspension("ship").stage == 0
    assert not conversation.state.calls.of(conversation.log[-1].tool_call_id).suspension
    for _ in range(2):
        conversation.wake(at=late)
    assert conversation.suspension("refund").stage == conversation.suspension("ship").stage == 1
    assert conversation.state.due_at > late


# By hand.


def test_whoever_may_decide_lets_others_decide_for_as_long_as_the_stage_lasts(conversations):
    conversation = desk(conversations, stages=STAGES, reminders_s=(100,))
    call = wait(conversation)
    conversation.now += 200_000
    receipt = conversation.do(escalating(conversation, call, reason="on holiday")).reply
    now = conversation.suspension(call)
    assert (now.stage, now.expires_at, now.remind_at) == (0, conversation.now + 300_000, conversation.now + 200_000)
    assert receipt.audit_head == conversation.log[-1].head != ""
    with pytest.raises(NotPermitted):
        conversation.resolve(Approve(), call, principal=ANA)
    # the stages of its deadline still follow
    due(conversation)
    assert [event.stage for event in due(conversation)] == [1]


def test_a_repetition_has_the_first_receipt_and_its_id_serves_nothing_else(conversations):
    conversation = desk(conversations)
    call = wait(conversation)
    said = escalating(conversation, call, request_id="x-1")
    receipt = conversation.do(said).reply
    with conversation.unchanged():
        again = conversation.do(said).reply
    assert (again.seq, again.duplicate) == (receipt.seq, True)
    with conversation.unchanged(), pytest.raises(InvalidInput):
        conversation.do(said.model_copy(update={"approvers": LEAD}))


def test_only_those_who_may_decide_and_proven_administrators_escalate(conversations):
    conversation = desk(conversations)
    call = wait(conversation)
    refused = [(BO, False), (None, False), (Principal("root"), True), (Principal("ana", roles=["finance"]), False)]
    for who, administrator in refused:
        with conversation.unchanged(), pytest.raises(NotPermitted):
            conversation.do(escalating(conversation, call, by=who, administrator=administrator))
    conversation.do(escalating(conversation, call, to=LEAD, by=BO, administrator=True))
    assert conversation.state.turn.call(call).deciders == LEAD


def test_a_settled_call_is_not_escalated_and_a_call_takes_so_many_notes(conversations):
    conversation = desk(conversations)
    call = wait(conversation)
    said = escalating(conversation, call)
    named = {"tool_call_id": call, "suspension_id": said.suspension_id, "principal": ANA}
    for number in range(MOST_NOTES):
        conversation.do(Comment(text="hm", request_id=f"n-{number}", **named))
    with conversation.unchanged(), pytest.raises(InvalidInput):
        conversation.do(said)
    assert due(conversation)[0].kind == "suspension_settled"
    with pytest.raises(StaleCall) as stale:
        conversation.do(said)
    assert stale.value.reason is StaleReason.EXPIRED


# Not now.


def snoozing(conversation, call, for_s, by=ANA, **more):
    named = {"tool_call_id": call, "suspension_id": conversation.suspension(call).suspension_id}
    return Snooze(for_s=for_s, principal=by, **({"request_id": uuid.uuid4().hex} | named | more))


def test_a_snooze_hides_a_call_from_who_says_it_and_moves_no_deadline(conversations):
    conversation = desk(conversations, stages=STAGES)
    call = wait(conversation, approvers=None)
    before = conversation.suspension(call)
    conversation.do(snoozing(conversation, call, 60))
    conversation.do(snoozing(conversation, call, 10, by=BO))
    now = conversation.suspension(call)
    assert [(one.by, one.until - conversation.now) for one in now.snoozed] == [("key:ana", 59_000), ("key:bo", 10_000)]
    assert (now.expires_at, now.due_at, conversation.state.due_at) == (before.expires_at, before.due_at, before.expires_at)
    # a later one replaces it, and the end of it leaves nothing
    conversation.do(snoozing(conversation, call, 5))
    assert [one.by for one in conversation.suspension(call).snoozed] == ["key:bo", "key:ana"]
    conversation.do(snoozing(conversation, call, 0))
    conversation.do(snoozing(conversation, call, 0, by=BO))
    assert (conversation.suspension(call).snoozed, conversation.suspension(call).notes) == ((), ())


def test_snoozes_take_no_room_of_notes_and_have_a_bound(conversations):
    conversation = desk(conversations)
    call = wait(conversation, approvers=None)
    for number in range(MOST_NOTES):
        conversation.do(snoozing(conversation, call, 1000, by=Principal(f"p-{number}")))
    with conversation.unchanged(), pytest.raises(InvalidInput):
        conversation.do(snoozing(conversation, call, 1000, by=Principal("one more")))
    conversation.do(snoozing(conversation, call, 2000, by=Principal("p-1")))
    named = {"tool_call_id": call, "suspension_id": conversation.suspension(call).suspension_id}
    conversation.do(Comment(text="hm", request_id="n-1", principal=ANA, **named))
    assert len(conversation.suspension(call).notes) == MOST_NOTES + 1


def test_a_call_is_hidden_a_bounded_number_of_times_and_can_always_be_shown_again(conversations):
    conversation = desk(conversations)
    call = wait(conversation, approvers=None)
    for number in range(MOST_SNOOZES):
        conversation.do(snoozing(conversation, call, 1000 * (number % 2)))
    for by, for_s in ((ANA, 1), (BO, 1), (BO, 0)):
        with conversation.unchanged(), pytest.raises(InvalidInput, match="256 times"):
            conversation.do(snoozing(conversation, call, for_s, by=by))
    conversation.do(snoozing(conversation, call, 0))
    assert conversation.suspension(call).snoozed == ()
    with conversation.unchanged(), pytest.raises(InvalidInput):
        conversation.do(snoozing(conversation, call, 0))


def test_a_snooze_needs_somebody_who_may_decide_and_a_time(conversations):
    conversation = desk(conversations)
    call = wait(conversation)
    for said, error in [
        (snoozing(conversation, call, 60, by=BO), NotPermitted),
        (snoozing(conversation, call, -1), InvalidInput),
        (snoozing(conversation, call, 10**10), InvalidInput),
        (snoozing(conversation, call, float("inf")), InvalidInput),
    ]:
        with conversation.unchanged(), pytest.raises(error):
            conversation.do(said)


# Nobody gets round the terms.


TWO = Approvers("role:finance", minimum=2, not_requester=True).terms


def test_whoever_lets_others_decide_lowers_nothing(conversations):
    conversation = desk(conversations)
    call = wait(conversation, approvers=Approvers("role:finance", minimum=2).terms)
    conversation.do(escalating(conversation, call, to=Approvers("id:ana", stated=True).terms))
    terms = conversation.state.turn.call(call).deciders
    assert (terms.minimum, terms.stated) == (2, False)
    assert not conversation.resolve(Approve(), call, principal=ANA).reply.settled
    # an administrator may, but who asked stays excluded
    conversation.do(escalating(conversation, call, to=LEAD, by=BO, administrator=True))
    assert conversation.state.turn.call(call).deciders == LEAD


def test_who_asked_stays_excluded_and_may_not_let_others_decide(conversations):
    conversation = conversations(spec=conversations.desk_with(refund={"on_timeout": OnTimeout(stages=STAGES)}))
    conversation.do(lambda _: Start(agent="desk", app="a:a", text="pay", message_id="m-1", principal=ANA))
    conversation.begin()
    call = wait(conversation, approvers=TWO)
    with conversation.unchanged(), pytest.raises(NotPermitted, match="sent the message"):
        conversation.do(escalating(conversation, call))
    due(conversation)
    assert conversation.state.turn.call(call).deciders == LEAD.model_copy(update={"not_requester": True})


def test_terms_that_a_person_put_in_between_are_not_fulfilled_by_others(conversations):
    conversation = desk(conversations)
    call = wait(conversation, approvers=None)
    board = Approvers("role:board").terms
    conversation.do(escalating(conversation, call, to=board))
    conversation.do(escalating(conversation, call, to=LEAD, by=BO))
    conversation.resolve(Approve(), call, principal=LEE)
    conversation.do(RunRuled(effect_id=f"{call}#1", ruled=RuleVerdict(effect=RuleEffect.ASK, rule="late", approvers=board)))
    assert conversation.state.turn.call(call).status is CallStatus.AWAITING


def test_nobody_and_nobody_too_late_lets_others_decide(conversations):
    conversation = desk(conversations)
    call = wait(conversation, approvers=None)
    with conversation.unchanged(), pytest.raises(InvalidInput):
        conversation.do(escalating(conversation, call, by=None))
    late = conversation.suspension(call).expires_at
    with conversation.unchanged(), pytest.raises(StaleCall):
        conversation.do(escalating(conversation, call), at=late)


def test_an_edit_leaves_an_escalation_by_hand_the_whole_stage(conversations):
    conversation = desk(conversations)
    call = wait(conversation, approvers=Approvers("role:finance", minimum=2).terms)
    conversation.now = conversation.suspension(call).expires_at - 10_000
    conversation.resolve(Approve({"amount": 4}), call, principal=ANA)
    conversation.do(escalating(conversation, call, to=LEAD))
    assert conversation.suspension(call).expires_at == conversation.now + 300_000


def test_an_answer_that_was_declared_for_an_approval_is_not_the_outcome_of_a_lost_run(conversations):
    terms = {"on_timeout": OnTimeout(default=Default(kind="answer", value='"not paid"')), "decisions": tuple(Choice)}
    conversation = conversations(spec=conversations.desk_with(ship=terms)).begun()
    call = wait(conversation, "ship", None)
    conversation.resolve(Approve(), call)
    conversation.lose(call)
    due(conversation)
    assert conversation.result(call)["error"].startswith("outcome unknown")


def test_the_same_id_with_another_time_is_another_snooze(conversations):
    conversation = desk(conversations)
    call = wait(conversation)
    said = snoozing(conversation, call, 60, request_id="x-1")
    conversation.do(said)
    with conversation.unchanged():
        assert conversation.do(said).reply.duplicate
        with pytest.raises(InvalidInput):
            conversation.do(said.model_copy(update={"for_s": 0}))


# The lists and the chain.


def test_an_escalation_moves_the_call_in_the_lists_and_is_a_link_of_the_chain(conversations):
    conversation = desk(conversations, stages=STAGES, default=DENY)
    wait(conversation)
    before = conversation.state
    events = due(conversation)
    changes = delta(before, conversation.state, events)
    assert [(entry.suspension_id, entry.who) for entry in changes.closed] == [
        (changes.opened[0].suspension_id, ("role:finance",))
    ]
    assert [entry.who for entry in changes.opened] == [("role:lead",)]
    assert pending_entries(conversation.state) == changes.opened
    due(conversation), due(conversation)
    check = ChainCheck("c-1")
    entries = [entry for seq, event in enumerate(conversation.log, 1) if (entry := check.add(seq, event)) is not None]
    check.done(conversation.state.seq)
    assert not check.breaks
    assert [(entry.kind, entry.subject) for entry in entries][-3:] == [
        ("call_escalated", "stage 1"),
        ("call_escalated", "stage 2"),
        ("suspension_settled", ""),
    ]
    assert (entries[-1].settled_by, entries[-1].decision, entries[-1].principal_id) == ("expiry", "deny", "")
