"""Calls that clients execute: claims, answers, and calls given back."""

import pytest
from at_a_client import ANA, GRACE_MS, LEE, TIMEOUT_MS, error_of, on_lost, the_call, told

from holdfast.conversation import (
    Answer,
    Approve,
    ApproverTerms,
    Cancel,
    Claim,
    Deny,
    Execution,
    Fail,
    OnLost,
    Principal,
    Proof,
    Redispatch,
    SettledBy,
    Start,
    Status,
    SuspensionKind,
    Tell,
)
from holdfast.conversation.judging.clients import MOST_CLAIMS
from holdfast.conversation.log.auditing import is_audited
from holdfast.conversation.log.index import delta, pending_entries
from holdfast.conversation.terms.delegation import Ancestor, Parent
from holdfast.conversation.terms.presence import GONE_MS
from holdfast.conversation.terms.rule_verdict import RuleEffect
from holdfast.errors import BatchRefused, ConversationEnded, InvalidDecision, InvalidInput, StaleCall, StaleReason


def stale(caught):
    return caught.value.reason


# Claims.


def test_a_claim_lets_one_client_execute_the_call(waits):
    judgement = waits.claim("tab-1", principal=ANA)
    # then it has its time from now on, and the suspension is the same
    [event] = judgement.events
    assert (event.kind, event.client_id, event.principal, event.attempt) == ("call_claimed", "tab-1", ANA, 1)
    assert event.expires_at == waits.now + TIMEOUT_MS
    assert event.look_at == waits.now + GONE_MS + GRACE_MS
    assert judgement.reply.attempt == 1
    assert judgement.reply.seq == waits.state.seq
    call = the_call(waits)
    assert (call.claims, call.suspension.claim.name, call.suspension.expires_at) == (1, "key:ana/tab-1", event.expires_at)
    assert waits.status is Status.AWAITING_INPUT


def test_a_claimed_call_is_claimed_by_nobody_else_and_by_its_client_only_once(waits):
    waits.claim("tab-1", principal=ANA)
    for client_id, principal in (("tab-2", ANA), ("tab-1", LEE), ("tab-1", None), ("tab-1", ANA)):
        with waits.unchanged(), pytest.raises(StaleCall) as caught:
            waits.claim(client_id, the_call(waits).tool_call_id, principal=principal)
        assert stale(caught) is StaleReason.CLAIMED


def test_a_repeated_claim_has_the_same_receipt_also_after_the_calls_end(waits):
    first = waits.claim("tab-1", principal=ANA, request_id="x-1").reply
    again = waits.claim("tab-1", the_call(waits).tool_call_id, principal=ANA, request_id="x-1")
    assert (again.events, again.reply.attempt, again.reply.duplicate) == ((), 1, True)
    claimed = Claim(
        tool_call_id=the_call(waits).tool_call_id,
        suspension_id=the_call(waits).suspension.suspension_id,
        client_id="tab-1",
        principal=ANA,
        request_id="x-1",
    )
    waits.resolve(Answer("here"), client_id="tab-1", principal=ANA)
    assert waits.do(claimed).reply == first.model_copy(update={"duplicate": True})


@pytest.mark.parametrize(("client_id", "principal"), [("tab-2", ANA), ("tab-1", LEE), ("tab-1", None)])
def test_the_request_id_of_a_claim_is_no_other_clients(waits, client_id, principal):
    waits.claim("tab-1", principal=ANA, request_id="x-1")
    with waits.unchanged(), pytest.raises(InvalidInput, match="request_id"):
        waits.claim(client_id, the_call(waits).tool_call_id, principal=principal, request_id="x-1")


@pytest.mark.parametrize(("ends", "reason"), [("resolve", "already_resolved"), ("wake", "expired"), ("cancel", "cancelled")])
def test_a_call_that_is_over_is_not_claimed(waits, ends, reason):
    suspension = the_call(waits).suspension
    named = {"tool_call_id": the_call(waits).tool_call_id, "suspension_id": suspension.suspension_id}
    match ends:
        case "resolve":
            waits.resolve(Answer("here"))
        case "wake":
            waits.wake(at=suspension.expires_at)
        case "cancel":
            waits.cancel()
    with waits.unchanged(), pytest.raises(StaleCall) as caught:
        waits.do(Claim(client_id="tab-1", request_id="x-1", **named))
    assert stale(caught) == reason


def test_a_call_is_not_claimed_after_its_deadline(waits):
    with waits.unchanged(), pytest.raises(StaleCall) as caught:
        waits.do(answer := claim_of(waits), at=the_call(waits).suspension.expires_at)
    assert stale(caught) is StaleReason.EXPIRED
    assert waits.do(answer, at=the_call(waits).suspension.expires_at - 1).events


def claim_of(conversation, **more):
    call = the_call(conversation)
    named = {"tool_call_id": call.tool_call_id, "suspension_id": call.suspension.suspension_id}
    return Claim(**({"client_id": "tab-1", "request_id": "x-1"} | named | more))


@pytest.mark.parametrize("tool", ["ask", "refund", "share", "consult"])
def test_only_a_call_that_waits_for_a_client_is_claimed(begun, tool):
    begun.call(tool)
    with begun.unchanged(), pytest.raises(InvalidInput, match="not for a client"):
        begun.do(claim_of(begun))


@pytest.mark.parametrize("client_id", ["", " ", "-tab", "ä", "t" * 129, "a/b", "tab\n"])
def test_an_unusable_client_id_is_refused(waits, client_id):
    with waits.unchanged(), pytest.raises(InvalidInput, match="client_id"):
        waits.do(claim_of(waits, client_id=client_id))
    with waits.unchanged(), pytest.raises(InvalidInput, match="client_id"):
        waits.cancel_pending(client_id=client_id)


def test_a_claim_is_no_link_of_the_audit_chain_but_its_answer_is_the_claimants(waits):
    head = waits.state.audit_head
    [event] = waits.claim("tab-1", principal=ANA).events
    assert not is_audited(event)
    assert waits.state.audit_head == head
    settled = waits.resolve(Answer("here"), client_id="tab-1", principal=ANA).events[0]
    assert (settled.principal, is_audited(settled)) == (ANA, True)


def test_a_claim_changes_the_entry_of_the_call_in_lists(waits):
    before, [entry] = waits.state, pending_entries(waits.state)
    judgement = waits.claim()
    changes = delta(before, waits.state, judgement.events)
    assert (changes.closed, [one.suspension_id for one in changes.opened]) == ((entry,), [entry.suspension_id])
    assert changes.opened[0].expires_at == judgement.events[0].expires_at


# Answers.


@pytest.mark.parametrize("decision", [Answer("here"), Fail("no"), Answer("here", reason="by hand")])
@pytest.mark.parametrize(("client_id", "principal"), [("", ANA), ("", None), ("tab-2", ANA), ("tab-1", LEE), ("tab-1", None)])
def test_a_claimed_call_is_answered_by_its_client_alone(waits, decision, client_id, principal):
    waits.claim("tab-1", principal=ANA)
    with waits.unchanged(), pytest.raises(StaleCall) as caught:
        waits.resolve(decision, client_id=client_id, principal=principal)
    assert stale(caught) is StaleReason.CLAIMED
    waits.resolve(decision, client_id="tab-1", principal=ANA)
    assert the_call(waits).open is False


def test_the_claimants_answer_is_untrusted_and_its_roles_may_have_changed(waits):
    waits.claim("tab-1", principal=ANA)
    waits.resolve(Answer("here"), client_id="tab-1", principal=Principal("ana", roles=["new"], proof=Proof.KEY))
    assert waits.log[-1].untrusted
    assert waits.result(the_call(waits).tool_call_id) == {"ok": True, "result": "here", "untrusted": True}


def test_an_answer_of_the_claimant_is_repeated_safely(waits):
    waits.claim("tab-1", principal=ANA)
    call = the_call(waits).tool_call_id
    first = waits.resolve(Answer("here"), call, decision_id="d-1", client_id="tab-1", principal=ANA)
    again = waits.resolve(Answer("here"), call, decision_id="d-1", client_id="tab-1", principal=ANA)
    assert (again.events, again.reply.seq, again.reply.duplicate) == ((), first.reply.seq, True)


def test_a_call_that_nobody_claimed_is_answered_without_a_claim(waits):
    waits.resolve(Answer("here"))
    assert waits.result(the_call(waits).tool_call_id)["ok"]


def test_an_answer_must_still_fit(conversations):
    conversation = on_lost(conversations, OnLost.REDISPATCH, response_schema='{"type":"integer"}')
    conversation.claim("tab-1")
    with conversation.unchanged(), pytest.raises(InvalidDecision, match="schema"):
        conversation.resolve(Answer("here"), client_id="tab-1")


def test_anybody_may_cancel_a_claimed_call(waits):
    waits.claim("tab-1", principal=ANA)
    waits.resolve(Cancel("enough"), principal=LEE)
    assert error_of(waits) == "cancelled before the client reported a result; it may or may not have taken effect: enough"


def test_several_decisions_at_once_only_cancel_a_claimed_call(begun):
    first, second = begun.call("locate", "locate")
    begun.claim("tab-1", first)
    with begun.unchanged(), pytest.raises(BatchRefused) as caught:
        begun.resolve_many({first: Answer(1), second: Answer(2)})
    assert [error.reason for error in caught.value.errors.values()] == [StaleReason.CLAIMED]
    begun.resolve_many({first: Cancel(), second: Answer(2)})
    assert begun.effect_ids == ["t1.m2"]


@pytest.mark.parametrize(
    ("how", "error"),
    [("cancel", StaleCall), ("cancel_pending", StaleCall), ("interrupt", StaleCall), ("end", ConversationEnded)],
)
def test_what_ends_the_turn_ends_a_claim(begun, how, error):
    [call] = begun.call("locate")
    late = claim_of(begun)
    begun.claim("tab-1", call, principal=ANA)
    getattr(begun, how)()
    assert begun.result(call)["error"] == "cancelled before the client reported a result; it may or may not have taken effect"
    with begun.unchanged(), pytest.raises(error):
        begun.do(late)


def test_a_steered_message_leaves_a_claim_alone(waits):
    waits.claim("tab-1")
    before = the_call(waits)
    waits.send("and hurry", when="steer")
    assert the_call(waits) == before


# Calls given back.


@pytest.mark.parametrize("rule", list(OnLost))
def test_a_call_that_did_not_begin_waits_for_the_next_client(conversations, rule):
    waits = on_lost(conversations, rule)
    waits.claim("tab-1", principal=ANA)
    judgement = waits.give_back("tab-1", began=False, reason="no permission", principal=ANA)
    # then anybody may claim it, with the time of a new call
    [event] = judgement.events
    assert (event.kind, event.by, event.began, event.attempt, event.reason) == (
        *("call_given_back", "client", False),
        *(1, "no permission"),
    )
    suspension = the_call(waits).suspension
    assert (suspension.claim, suspension.look_at) == (None, waits.now + GRACE_MS)
    assert suspension.expires_at == waits.now + TIMEOUT_MS
    assert waits.claim("tab-2", principal=LEE).reply.attempt == 2


def test_a_call_that_began_waits_again_if_its_tool_may_run_twice(waits):
    waits.claim("tab-1")
    assert told(waits.give_back("tab-1")) == ["call_given_back"]
    assert waits.claim("tab-2").reply.attempt == 2


def test_a_call_that_began_ends_if_its_tool_may_not_run_twice(conversations):
    waits = on_lost(conversations, OnLost.ERROR)
    waits.claim("tab-1")
    assert told(waits.give_back("tab-1")) == ["call_given_back", "suspension_settled", "call_resolved"]
    assert error_of(waits).startswith("outcome unknown: the client that executed this call left")
    assert waits.log[-1].by is SettledBy.LOSS
    assert waits.effect_ids == ["t1.m2"]


def test_a_person_says_what_becomes_of_a_call_that_began(conversations):
    waits = on_lost(conversations, OnLost.ASK)
    waits.claim("tab-1")
    assert told(waits.give_back("tab-1")) == ["call_given_back", "suspension_settled", "call_suspended"]
    suspension = the_call(waits).suspension
    assert (suspension.kind, suspension.claim, suspension.look_at) == (SuspensionKind.LOST, None, 0)
    assert "(attempt 1)" in waits.log[-1].prompt
    # when it is to run again, it is handed to a client; a worker only asks the rules in force
    waits.resolve(Redispatch(), principal=LEE)
    assert waits.run(the_call(waits).tool_call_id).judges_only
    waits.rule(effect=RuleEffect.ALLOW)
    assert (the_call(waits).suspension.kind, waits.effect_ids) == (SuspensionKind.CLIENT_EXEC, [])
    assert waits.log[-1].claims == 1
    assert waits.claim("tab-2").reply.attempt == 2


@pytest.mark.parametrize(
    ("decision", "result"),
    [
        (Answer("it was done"), {"ok": True, "result": "it was done"}),
        (Fail("it broke"), {"ok": False, "error": "it broke"}),
        (
            Cancel(),
            {"ok": False, "error": "cancelled before the client reported a result; it may or may not have taken effect"},
        ),
    ],
)
def test_a_persons_word_on_a_lost_call_is_no_clients(conversations, decision, result):
    waits = on_lost(conversations, OnLost.ASK)
    waits.claim("tab-1")
    waits.give_back("tab-1")
    waits.resolve(decision, principal=LEE)
    assert waits.result(the_call(waits).tool_call_id) == result


def test_a_lost_call_about_which_nobody_says_anything_ends(conversations):
    waits = on_lost(conversations, OnLost.ASK)
    waits.claim("tab-1")
    waits.give_back("tab-1")
    waits.wake(at=the_call(waits).suspension.expires_at)
    assert "the client that executed this call left, and nobody said in time" in error_of(waits)


@pytest.mark.parametrize(("client_id", "principal"), [("tab-2", ANA), ("tab-1", LEE), ("tab-1", None)])
def test_a_claimed_call_is_given_back_by_its_client_alone(waits, client_id, principal):
    waits.claim("tab-1", principal=ANA)
    with waits.unchanged(), pytest.raises(StaleCall) as caught:
        waits.give_back(client_id, principal=principal)
    assert stale(caught) is StaleReason.CLAIMED


def test_a_call_that_nobody_claimed_is_not_given_back(waits):
    with waits.unchanged(), pytest.raises(StaleCall) as caught:
        waits.give_back("tab-1", the_call(waits).tool_call_id)
    assert stale(caught) is StaleReason.UNKNOWN


def test_a_call_is_not_given_back_after_its_deadline(waits):
    waits.claim("tab-1")
    with waits.unchanged(), pytest.raises(StaleCall) as caught:
        waits.give_back("tab-1", at=the_call(waits).suspension.expires_at)
    assert stale(caught) is StaleReason.EXPIRED


def test_a_call_given_back_twice_is_given_back_once(waits):
    waits.claim("tab-1")
    first = waits.give_back("tab-1", request_id="x-1")
    again = waits.give_back("tab-1", the_call(waits).tool_call_id, request_id="x-1")
    assert (again.events, again.reply.seq, again.reply.duplicate) == ((), first.reply.seq, True)
    with waits.unchanged(), pytest.raises(InvalidInput, match="request_id"):
        waits.give_back("tab-1", the_call(waits).tool_call_id, request_id="x-1", began=False)


def test_a_reason_that_is_too_long_is_refused(waits):
    waits.claim("tab-1")
    with waits.unchanged(), pytest.raises(InvalidInput, match="reason"):
        waits.give_back("tab-1", reason="x" * 81)


@pytest.mark.parametrize("began", [True, False])
@pytest.mark.parametrize("rule", [OnLost.REDISPATCH, OnLost.ASK])
def test_a_call_is_claimed_only_so_often(conversations, rule, began):
    waits = on_lost(conversations, rule)
    for number in range(1, MOST_CLAIMS + 1):
        assert waits.claim("tab-1").reply.attempt == number
        waits.give_back("tab-1", began=began)
        if the_call(waits).open and the_call(waits).suspension.kind is SuspensionKind.LOST:
            waits.resolve(Redispatch())
            waits.rule(effect=RuleEffect.ALLOW)
    assert error_of(waits).startswith(f"clients took this call up {MOST_CLAIMS} times")
    assert waits.effect_ids == ["t1.m2"]


def test_the_notes_of_a_call_hold_its_last_claim_alone(waits):
    for _ in range(5):
        waits.claim("tab-1")
        waits.give_back("tab-1", began=False)
    waits.claim("tab-1")
    assert the_call(waits).suspension.notes == (waits.state.seq,)
    assert waits.log[-1].noted == ()


def test_an_answer_of_a_client_whose_claim_ended_counts_while_nobody_else_has_it(waits):
    waits.claim("tab-1")
    waits.present = ()
    waits.wake(at=waits.now + GONE_MS + GRACE_MS)
    waits.resolve(Answer("here after all"), client_id="tab-1")
    assert waits.result(the_call(waits).tool_call_id)["result"] == "here after all"


# Beside everything else.


def test_a_claimed_call_takes_no_word_of_a_machine(waits):
    waits.claim("tab-1")
    said = Tell(suspension_id=the_call(waits).suspension.suspension_id, source="c-2", ok=True, content="1")
    with waits.unchanged(), pytest.raises(Exception, match="it does not wait"):
        waits.do(said)


def test_a_denied_call_never_reaches_a_client(begun):
    begun.call("share")
    begun.resolve(Deny("no"))
    with begun.unchanged(), pytest.raises(StaleCall):
        begun.claim("tab-1", the_call(begun).tool_call_id)


def test_nobody_claims_a_call_in_the_place_of_people_who_do_not_attend(conversations):
    conversation = conversations()
    conversation.start("hello", attended=False)
    conversation.begin()
    conversation.call("locate")
    conversation.present = ()
    conversation.claim("tab-1")
    assert the_call(conversation).suspension.claim.client_id == "tab-1"
    assert told(conversation.wake(at=the_call(conversation).suspension.look_at)) == ["call_given_back"]


def test_no_deadline_of_a_client_outlasts_the_wait_that_its_conversation_was_started_for(conversations):
    above = (Ancestor(conversation_id="c-parent", agent="lead"),)
    conversation = conversations()
    end = conversation.now + 6_000
    parent = Parent(suspension_id="s-1", path=above, depth=2, descendants=10, must_end_by=end)
    conversation.do(Start(agent="desk", app="shop.app:app", text="look", message_id="s-1", parent=parent))
    conversation.begin()
    conversation.call("locate")
    conversation.present = ()
    waits = the_call(conversation).suspension
    assert (waits.look_at, waits.expires_at) == (end, end)
    conversation.claim("tab-1")
    waits = the_call(conversation).suspension
    assert (waits.look_at, waits.expires_at) == (end, end)
    conversation.give_back("tab-1")
    waits = the_call(conversation).suspension
    assert (waits.look_at, waits.expires_at) == (end, end)
    late = claim_of(conversation)
    conversation.now = end
    with conversation.unchanged(), pytest.raises(StaleCall) as caught:
        conversation.do(late, at=end)
    assert stale(caught) is StaleReason.EXPIRED
    conversation.wake(at=end)
    assert error_of(conversation) == "the client did not respond in time"


def test_a_call_that_a_client_had_may_have_taken_effect_wherever_it_is_cancelled(conversations):
    waits = on_lost(conversations, OnLost.ASK)
    waits.claim("tab-1")
    waits.give_back("tab-1")
    waits.resolve(Redispatch())
    assert waits.status is Status.EXECUTING_TOOLS  # the rules in force are asked before it is handed over
    call = the_call(waits).tool_call_id
    waits.cancel()
    assert waits.result(call)["error"] == "cancelled before the client reported a result; it may or may not have taken effect"


def test_the_count_of_claims_outlasts_questions_and_a_wait_for_others(conversations):
    spec = conversations.desk_with(locate={"on_lost": OnLost.ASK}).model_copy(update={"execution": Execution.BATCH})
    conversation = conversations(spec=spec).begun()
    asked, beside = conversation.call("locate", ("lookup", "{}"))
    conversation.claim("tab-1", asked)
    conversation.give_back("tab-1", asked)
    conversation.resolve(Redispatch(), suspension_id=conversation.suspension(asked).suspension_id)
    by_ana = ApproverTerms(who=(("id:ana",),))
    for call in (asked, beside):
        conversation.rule(call, RuleEffect.ASK, approvers=by_ana)
    conversation.resolve(Approve(), suspension_id=conversation.suspension(asked).suspension_id, principal=ANA)
    assert conversation.state.calls.of(asked).status == "held"
    conversation.resolve(Approve(), beside, principal=ANA)
    conversation.rule(asked, RuleEffect.ALLOW)
    assert conversation.claim("tab-2", asked).reply.attempt == 2
