"""Who may decide a call, votes of several people, and what those who may decide tell each other."""

import uuid

import pytest

from holdfast.conversation import Answer, Approve, Cancel, Deny, Principal, Redispatch, SettledBy, SuspensionKind
from holdfast.conversation.judging.deciding import MOST_EDITS
from holdfast.conversation.judging.noting import MOST_NOTES
from holdfast.conversation.records.calls import CallStatus
from holdfast.conversation.records.commands import Assign, Comment, ProposedCall, Resolve, RunRuled
from holdfast.conversation.terms.approvers import MOST_BYTES, Approvers, ApproverTerms
from holdfast.conversation.terms.decisions import DecisionRecord, Review
from holdfast.conversation.terms.grants import CallTarget, Level, Scope
from holdfast.conversation.terms.principal import Proof
from holdfast.conversation.terms.rule_verdict import RuleEffect, RuleVerdict
from holdfast.errors import (
    AlreadyVoted,
    BatchRefused,
    ConfigurationError,
    InvalidDecision,
    InvalidInput,
    NotPermitted,
    StaleCall,
    StaleReason,
)

ANA = Principal("ana", roles=["finance"], proof=Proof.OIDC)
BO = Principal("bo", roles=["finance"], proof=Proof.KEY)
CY = Principal("cy", roles=["support"], proof=Proof.LINK)
TWO = Approvers("role:finance", minimum=2).terms


def proposed(terms, *, tool="refund", number=1, **more):
    return ProposedCall(tool_call_id=f"call_{number}", name=tool, arguments='{"amount":5}', approvers=terms, **more)


def resolving(begun, who, decision, call, *, decision_id=None):
    suspension_id = begun.suspension(call).suspension_id
    return Resolve(
        tool_call_id=call,
        ruling=DecisionRecord.of(decision),
        decision_id=decision_id or uuid.uuid4().hex,
        suspension_id=suspension_id,
        principal=who,
    )


def stands(begun, call):
    return begun.state.turn.call(call).status


# -- who may --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("terms", "who", "why"),
    [
        (Approvers("role:finance"), None, "nobody said"),
        (Approvers("role:finance"), Principal("ana", roles=["finance"]), "stated, not proven"),
        (Approvers(), Principal("ana"), "stated, not proven"),
        (Approvers("role:finance"), CY, "not one of role:finance"),
        (Approvers("id:finance"), ANA, "not one of id:finance"),
        (Approvers("role:Finance", "id:Ana"), ANA, "not one of role:Finance, id:Ana"),
    ],
)
@pytest.mark.parametrize("decision", [Approve(), Deny("no"), Cancel()], ids=["approve", "deny", "cancel"])
def test_a_decision_of_somebody_who_may_not_is_refused_and_changes_nothing(begun, terms, who, why, decision):
    [call] = begun.call(proposed(terms.terms))
    with begun.unchanged(), pytest.raises(NotPermitted, match=why):
        begun.do(resolving(begun, who, decision, call))


@pytest.mark.parametrize(
    ("terms", "who"),
    [
        (Approvers("role:finance"), ANA),
        (Approvers("role:other", "id:ana"), ANA),
        (Approvers(), CY),
        (Approvers("role:finance", stated=True), Principal("ana", roles=["finance"])),
        (None, None),
    ],
)
def test_somebody_who_may_decides(begun, terms, who):
    [call] = begun.call(proposed(None if terms is None else terms.terms))
    judgement = begun.resolve(Approve(), call, principal=who)
    assert stands(begun, call) is CallStatus.RUNNING
    assert (judgement.reply.settled, judgement.reply.votes, judgement.reply.needed) == (True, 0, 0)


@pytest.mark.parametrize(
    ("sender", "fine"),
    [
        (BO, True),
        (ANA, False),
        (Principal("ana"), False),
        (Principal("Ana", proof=Proof.KEY), False),
        (Principal("\uff41n\u00e1", proof=Proof.OIDC), False),
        (Principal("bo"), False),
        (None, False),
    ],
    ids=["another", "the same", "the same, stated", "in capitals", "in other letters", "another, stated", "nobody"],
)
def test_the_one_who_asked_does_not_decide(conversation, sender, fine):
    conversation.start("hello", principal=sender)
    conversation.begin()
    [call] = conversation.call(proposed(Approvers("role:finance", not_requester=True).terms))
    if fine:
        conversation.resolve(Approve(), call, principal=ANA)
        assert stands(conversation, call) is CallStatus.RUNNING
        return
    with conversation.unchanged(), pytest.raises(NotPermitted, match="sent the message"):
        conversation.do(resolving(conversation, ANA, Approve(), call))


def test_a_sender_that_is_stated_is_somebody_else_where_stated_names_count(conversation):
    conversation.start("hello", principal=Principal("bo"))
    conversation.begin()
    [call] = conversation.call(proposed(Approvers("role:finance", not_requester=True, stated=True).terms))
    conversation.resolve(Approve(), call, principal=ANA)
    assert stands(conversation, call) is CallStatus.RUNNING


@pytest.mark.parametrize("name", ["ana", "Ana", "ANA", "a\u0301na", "\uff41na"])
def test_another_spelling_of_a_name_has_no_second_vote(begun, name):
    [call] = begun.call(proposed(TWO))
    begun.resolve(Approve(), call, principal=ANA)
    again = Principal(name, roles=["finance"], proof=Proof.KEY)
    with begun.unchanged(), pytest.raises(AlreadyVoted):
        begun.do(resolving(begun, again, Approve(), call))


def test_another_number_of_spaces_in_a_name_has_no_second_vote(begun):
    one, other = (Principal(name, roles=["finance"], proof=Proof.KEY) for name in ("ana lee", "ana \u00a0 lee"))
    [call] = begun.call(proposed(TWO))
    begun.resolve(Approve(), call, principal=one)
    with begun.unchanged(), pytest.raises(AlreadyVoted):
        begun.do(resolving(begun, other, Approve(), call))


def test_terms_of_the_tool_and_of_a_rule_hold_both(begun):
    ruled = RuleVerdict(effect=RuleEffect.ASK, rule="large", approvers=Approvers("role:board").terms)
    [call] = begun.call(proposed(Approvers("role:finance").terms, ruled=ruled))
    with pytest.raises(NotPermitted, match="role:board"):
        begun.do(resolving(begun, ANA, Approve(), call))
    both = Principal("eve", roles=["board", "finance"], proof=Proof.OIDC)
    begun.resolve(Approve(), call, principal=both)
    assert stands(begun, call) is CallStatus.RUNNING


def test_a_clients_own_execution_is_not_for_approvers(begun):
    [call] = begun.call(proposed(Approvers("role:finance").terms, tool="locate"))
    begun.resolve(Answer({"lat": 1}), call)
    assert stands(begun, call) is CallStatus.RESOLVED


def test_a_lost_run_is_for_the_same_people(begun):
    [call] = begun.call(proposed(Approvers("role:finance").terms, tool="post"))
    if stands(begun, call) is CallStatus.AWAITING:
        begun.resolve(Approve(), call, principal=ANA)
    begun.lose(call)
    assert begun.suspension(call).kind is SuspensionKind.LOST
    with pytest.raises(NotPermitted):
        begun.do(resolving(begun, CY, Redispatch(), call))
    begun.do(resolving(begun, BO, Redispatch(), call))
    assert stands(begun, call) is CallStatus.RUNNING


def test_a_review_has_its_own_approvers_or_those_of_the_call(begun):
    own, theirs = begun.call(
        proposed(Approvers("role:finance").terms, tool="lookup"),
        proposed(Approvers("role:finance").terms, tool="lookup", number=2),
    )
    begun.suspend(own, approvers=Approvers("role:support").terms)
    begun.suspend(theirs)
    with pytest.raises(NotPermitted):
        begun.do(resolving(begun, ANA, Review("allow"), own))
    with pytest.raises(NotPermitted):
        begun.do(resolving(begun, CY, Review("allow"), theirs))
    begun.resolve(Review("allow"), own, principal=CY)
    begun.resolve(Review("allow"), theirs, principal=ANA)
    assert {stands(begun, own), stands(begun, theirs)} == {CallStatus.RESOLVED}


def test_terms_that_are_too_long_to_keep_end_the_call(begun):
    long = ApproverTerms(who=(tuple(f"role:{number:0>190}" for number in range(MOST_BYTES // 190 + 1)),))
    [call] = begun.call(proposed(long))
    assert "the names of those who may decide" in begun.result(call)["error"]


# -- several have to agree ----------------------------------------------------------------------------------------------------


def test_a_vote_is_acknowledged_and_settles_nothing_until_enough_have_agreed(begun):
    [call] = begun.call(proposed(TWO))
    first = begun.resolve(Approve(reason="looks fine"), call, principal=ANA).reply
    assert (first.settled, first.votes, first.needed) == (False, 1, 2)
    assert (begun.log[-1].kind, begun.log[-1].reason) == ("vote_cast", "looks fine")
    assert stands(begun, call) is CallStatus.AWAITING

    second = begun.resolve(Approve(), call, principal=BO).reply
    assert (second.settled, second.votes, second.needed) == (True, 2, 2)
    assert stands(begun, call) is CallStatus.RUNNING


def test_the_same_vote_again_gives_the_same_receipt(begun):
    [call] = begun.call(proposed(TWO))
    asked = resolving(begun, ANA, Approve(), call)
    first, again = begun.do(asked).reply, begun.do(asked).reply
    assert again == first.model_copy(update={"duplicate": True})
    begun.resolve(Approve(), call, principal=BO, decision_id="d-2")
    assert begun.do(asked).reply == again
    settled = begun.judge(
        Resolve(tool_call_id=call, ruling=DecisionRecord.of(Approve()), decision_id="d-2", principal=BO)
    ).reply
    assert (settled.settled, settled.votes, settled.needed, settled.duplicate) == (True, 2, 2, True)


def test_one_person_counts_once_however_they_are_proven(begun):
    [call] = begun.call(proposed(TWO))
    begun.resolve(Approve(), call, principal=ANA)
    other_way = Principal("ana", roles=["finance", "board"], proof=Proof.LINK)
    with begun.unchanged(), pytest.raises(AlreadyVoted) as refused:
        begun.do(resolving(begun, other_way, Approve(), call))
    assert (refused.value.votes, refused.value.needed) == (1, 2)


@pytest.mark.parametrize(("decision", "by"), [(Deny("no"), SettledBy.DENY), (Cancel("no"), SettledBy.CANCELLATION)])
def test_one_no_settles_also_of_somebody_who_has_agreed(begun, decision, by):
    [call] = begun.call(proposed(TWO))
    begun.resolve(Approve(), call, principal=ANA)
    receipt = begun.resolve(decision, call, principal=ANA).reply
    assert (receipt.settled, receipt.votes, receipt.needed) == (True, 1, 2)
    [settled] = [event for event in begun.log if event.kind == "suspension_settled"]
    assert settled.by is by
    assert stands(begun, call) is CallStatus.ERRORED


def test_edited_arguments_ask_all_anew_until_the_same_deadline(begun):
    [call] = begun.call(proposed(TWO))
    before = begun.suspension(call)
    begun.resolve(Approve(), call, principal=BO)
    edited = begun.resolve(Approve({"amount": 4}), call, principal=ANA).reply
    assert (edited.settled, edited.votes, edited.needed) == (False, 1, 2)
    after = begun.suspension(call)
    assert after.suspension_id != before.suspension_id
    assert after.expires_at == before.expires_at
    assert [vote.by for vote in after.votes] == ["ana"]

    with begun.unchanged(), pytest.raises(StaleCall) as stale:
        begun.do(
            Resolve(
                tool_call_id=call,
                ruling=DecisionRecord.of(Approve()),
                decision_id="d-9",
                suspension_id=before.suspension_id,
                principal=CY,
            )
        )
    assert stale.value.reason is StaleReason.SUPERSEDED
    begun.do(resolving(begun, BO, Approve(), call))
    run = begun.run(call)
    assert begun.log[run.arguments_at - 1].body == '{"amount":4}'


def test_edited_arguments_that_break_the_schema_change_nothing(begun):
    [call] = begun.call(proposed(TWO))
    begun.resolve(Approve(), call, principal=BO)
    with begun.unchanged(), pytest.raises(InvalidDecision):
        begun.do(resolving(begun, ANA, Approve({"amount": "much"}), call))


def test_arguments_are_edited_so_often_at_most(begun):
    [call] = begun.call(proposed(TWO))
    for number in range(MOST_EDITS):
        begun.do(resolving(begun, (ANA, BO)[number % 2], Approve({"amount": number}), call))
    with begun.unchanged(), pytest.raises(InvalidDecision, match="edited 8 times"):
        begun.do(resolving(begun, ANA, Approve({"amount": 99}), call))
    begun.do(resolving(begun, ANA, Approve(), call))
    assert stands(begun, call) is CallStatus.RUNNING


def test_votes_for_different_answers_do_not_count_together(begun):
    [call] = begun.call(proposed(TWO, tool="ask"))
    begun.resolve(Answer("red"), call, principal=ANA)
    with begun.unchanged(), pytest.raises(InvalidDecision, match="another answer"):
        begun.do(resolving(begun, BO, Answer("blue"), call))
    begun.resolve(Answer("red"), call, principal=BO)
    assert begun.result(call)["result"] == "red"


def test_reviews_that_allow_count_whatever_their_notes_are_and_one_that_does_not_settles(begun):
    yes, no = begun.call(proposed(TWO, tool="lookup"), proposed(TWO, tool="lookup", number=2))
    begun.suspend(yes)
    begun.suspend(no)
    assert not begun.resolve(Review("allow", "good"), yes, principal=ANA).reply.settled
    assert begun.resolve(Review("allow"), yes, principal=BO).reply.settled
    assert not begun.resolve(Review("allow"), no, principal=ANA).reply.settled
    assert begun.resolve(Review("review", "shorter"), no, principal=BO).reply.settled


def test_the_deadline_ends_a_call_that_too_few_have_agreed_to(begun):
    [call] = begun.call(proposed(TWO))
    begun.resolve(Approve(), call, principal=ANA)
    begun.wake(at=begun.suspension(call).expires_at)
    assert stands(begun, call) is CallStatus.ERRORED


def test_a_batch_of_decisions_may_have_votes_and_is_refused_whole(begun):
    voted, mine, theirs = begun.call(proposed(TWO), proposed(None, number=2), proposed(Approvers("role:board").terms, number=3))
    names = {call: begun.suspension(call).suspension_id for call in (voted, mine, theirs)}
    with begun.unchanged(), pytest.raises(BatchRefused) as refused:
        begun.resolve_many(dict.fromkeys(names.values(), Approve()), principal=ANA)
    assert {key: type(error) for key, error in refused.value.errors.items()} == {names[theirs]: NotPermitted}
    receipts = begun.resolve_many({names[voted]: Approve(), names[mine]: Approve()}, principal=ANA).reply.receipts
    assert [(one.settled, one.votes) for one in receipts] == [(False, 1), (True, 0)]


# -- rules, edits and grants --------------------------------------------------------------------------------------------------


def test_an_approval_does_not_count_where_the_rules_in_force_name_others(begun):
    [call] = begun.call(proposed(Approvers("role:finance").terms))
    begun.resolve(Approve({"amount": 90}), call, principal=ANA)
    run = begun.run(call)
    ruled = RuleVerdict(effect=RuleEffect.ASK, rule="large", reason="much", approvers=Approvers("role:board").terms)
    begun.do(RunRuled(effect_id=run.effect_id, ruled=ruled))
    assert begun.suspension(call).kind is SuspensionKind.APPROVAL
    with pytest.raises(NotPermitted, match="role:board"):
        begun.do(resolving(begun, ANA, Approve(), call))
    begun.do(resolving(begun, Principal("eve", roles=["board"], proof=Proof.OIDC), Approve(), call))
    again = begun.run(call)
    begun.do(RunRuled(effect_id=again.effect_id, ruled=ruled))
    assert stands(begun, call) is CallStatus.RUNNING, "it was decided by those whom the rule names"


BOARD = Approvers("role:board").terms
EVE = Principal("eve", roles=["board"], proof=Proof.OIDC)


def asked_again(begun, call, terms):
    """The worker finds, right before the run, that these people have to decide the call."""
    begun.do(RunRuled(effect_id=begun.run(call).effect_id, ruled=RuleVerdict(effect=RuleEffect.ASK, approvers=terms)))


def test_who_has_decided_the_same_arguments_is_not_asked_in_turns_for_ever(begun):
    finance = Approvers("role:finance").terms
    [call] = begun.call(proposed(finance))
    begun.resolve(Approve({"amount": 90}), call, principal=ANA)
    asked_again(begun, call, BOARD)
    begun.do(resolving(begun, EVE, Approve(), call))
    for terms in (finance, BOARD):
        asked_again(begun, call, terms)
        assert stands(begun, call) is CallStatus.RUNNING


def test_who_has_decided_other_arguments_has_not_decided_edited_ones(begun):
    finance = Approvers("role:finance").terms
    [call] = begun.call(proposed(finance))
    begun.resolve(Approve(), call, principal=ANA)
    asked_again(begun, call, BOARD)
    begun.do(resolving(begun, EVE, Approve({"amount": 90}), call))
    asked_again(begun, call, finance)
    with pytest.raises(NotPermitted, match="role:finance"):
        begun.do(resolving(begun, EVE, Approve(), call))
    begun.do(resolving(begun, ANA, Approve(), call))
    asked_again(begun, call, BOARD)
    assert stands(begun, call) is CallStatus.RUNNING


def target(path="src/a"):
    return (CallTarget(kind="path", value=path, level=Level.WRITE),)


@pytest.mark.parametrize(
    ("terms", "covered"),
    [
        (None, True),
        (Approvers("role:finance"), True),
        (Approvers("role:board"), False),
        (Approvers("role:finance", minimum=2), False),
        (Approvers("role:finance", not_requester=True), False),
        (Approvers("role:finance", "role:board"), False),
    ],
)
def test_a_grant_lets_run_what_the_same_people_may_decide(begun, terms, covered):
    [call] = begun.call(proposed(Approvers("role:finance").terms, targets=target()))
    begun.resolve(Approve(scope=Scope("path", "src/**", level="write")), call, principal=ANA)
    begun.finish(call)
    [later] = begun.call(proposed(None if terms is None else terms.terms, number=2, targets=target("src/b")))
    assert stands(begun, later) is (CallStatus.RUNNING if covered else CallStatus.AWAITING)


def test_a_scope_of_anybody_covers_no_call_that_is_for_some(begun):
    [call] = begun.call(proposed(None, targets=target()))
    begun.resolve(Approve(scope=Scope("path", "src/**", level="write")), call)
    begun.finish(call)
    [later] = begun.call(proposed(Approvers("role:finance").terms, number=2, targets=target("src/b")))
    assert stands(begun, later) is CallStatus.AWAITING


@pytest.mark.parametrize("more", [{"minimum": 2}, {"not_requester": True}])
def test_no_scope_is_given_where_one_persons_word_cannot_stand_for_later_calls(conversation, more):
    conversation.start("hello", principal=BO)
    conversation.begin()
    [call] = conversation.call(proposed(Approvers("role:finance", **more).terms, targets=target()))
    with conversation.unchanged(), pytest.raises(InvalidDecision, match="no grant can replace"):
        conversation.do(resolving(conversation, ANA, Approve(scope=Scope("path", "src/**", level="write")), call))


# -- who takes it on, and comments --------------------------------------------------------------------------------------------


def noted(begun, call, kind=Comment, who=ANA, said="look at the invoice", request_id="r-1"):
    field = {"text": said} if kind is Comment else {"to": said}
    return kind(
        tool_call_id=call,
        suspension_id=begun.suspension(call).suspension_id,
        request_id=request_id,
        principal=who,
        **field,
    )


@pytest.mark.parametrize(("kind", "said"), [(Comment, "look at the invoice"), (Assign, "ana"), (Assign, "")])
def test_a_note_is_kept_and_settles_nothing(begun, kind, said):
    [call] = begun.call(proposed(TWO))
    asked = noted(begun, call, kind, said=said)
    receipt = begun.do(asked).reply
    assert (receipt.seq, receipt.duplicate) == (begun.state.seq, False)
    assert begun.do(asked).reply == receipt.model_copy(update={"duplicate": True})
    assert begun.suspension(call).notes == (receipt.seq,)
    assert stands(begun, call) is CallStatus.AWAITING


def test_notes_name_those_before_them_and_votes_are_among_them(begun):
    [call] = begun.call(proposed(TWO))
    first = begun.do(noted(begun, call)).reply.seq
    second = begun.resolve(Approve(), call, principal=BO).reply.seq
    begun.do(noted(begun, call, Assign, said="ana", request_id="r-2"))
    assert begun.log[-1].noted == (first, second)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"who": CY}, NotPermitted),
        ({"who": None}, NotPermitted),
        ({"said": "  "}, InvalidInput),
        ({"said": "x" * 81}, InvalidInput),
        ({"said": "\ud800"}, InvalidInput),
        ({"request_id": ""}, InvalidInput),
        ({"kind": Assign, "said": "a\u200bna"}, InvalidInput),
        ({"kind": Assign, "said": " ana"}, InvalidInput),
    ],
)
def test_a_note_that_cannot_be_kept_changes_nothing(begun, change, error):
    [call] = begun.call(proposed(TWO))
    with begun.unchanged(), pytest.raises(error):
        begun.do(noted(begun, call, **change))


def test_a_call_has_so_many_notes_at_most(begun):
    [call] = begun.call(proposed(TWO))
    for number in range(MOST_NOTES):
        begun.do(noted(begun, call, request_id=f"r-{number}"))
    with begun.unchanged(), pytest.raises(InvalidInput, match="64 notes"):
        begun.do(noted(begun, call, request_id="r-x"))
    begun.resolve(Approve(), call, principal=ANA)
    begun.resolve(Approve(), call, principal=BO)
    assert stands(begun, call) is CallStatus.RUNNING


def test_a_note_on_what_is_settled_is_stale(begun):
    [call] = begun.call(proposed(None))
    asked = noted(begun, call)
    begun.resolve(Approve(), call)
    with begun.unchanged(), pytest.raises(StaleCall) as stale:
        begun.do(asked)
    assert (stale.value.reason, stale.value.settled_by) == (StaleReason.ALREADY_RESOLVED, "approve")
    with begun.unchanged(), pytest.raises(StaleCall):
        begun.do(asked.model_copy(update={"suspension_id": "s-unknown"}))


def test_a_request_id_stands_for_one_note(begun):
    [call] = begun.call(proposed(None))
    begun.do(noted(begun, call))
    for other in (noted(begun, call, said="something else"), noted(begun, call, Assign, said="ana")):
        with begun.unchanged(), pytest.raises(InvalidInput, match="already used"):
            begun.do(other)


# -- declaring ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("who", "more", "field"),
    [
        (["finance"], {}, "approvers"),
        (["role:"], {}, "approvers"),
        (["role:a\u200bb"], {}, "approvers"),
        ([3], {}, "approvers"),
        ([f"id:{number}" for number in range(65)], {}, "approvers"),
        ([], {"minimum": 0}, "approvers.minimum"),
        ([], {"minimum": 17}, "approvers.minimum"),
        ([], {"minimum": True}, "approvers.minimum"),
        ([], {"not_requester": 1}, "approvers.not_requester"),
        ([], {"stated": "yes"}, "approvers.stated"),
    ],
)
def test_approvers_that_cannot_be_used_are_refused(who, more, field):
    with pytest.raises(ConfigurationError) as refused:
        Approvers(*who, **more)
    assert refused.value.field == field
