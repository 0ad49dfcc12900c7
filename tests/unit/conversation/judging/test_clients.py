"""Clients that are attached, gone or have left, and what becomes of the calls that wait for them."""

import pytest
from at_a_client import ANA, GRACE_MS, LEE, TIMEOUT_MS, error_of, here, on_lost, the_call, told
from writer import call as answered_with

from holdfast.conversation import (
    Answer,
    ApproverTerms,
    Execution,
    OnDetach,
    OnLost,
    Principal,
    SettledBy,
    SuspensionKind,
    Wake,
)
from holdfast.conversation.records.commands import CancelPending, ProposedCall
from holdfast.conversation.terms.presence import GONE_MS, KEPT_MS, LEAVES_MS

# Grace.


def test_a_call_fails_if_nobody_attaches_within_the_grace(waits):
    look_at = the_call(waits).suspension.look_at
    assert (look_at, waits.state.due_at) == (waits.now + GRACE_MS, look_at)
    with waits.unchanged():
        assert waits.wake(at=look_at - 1).ignored
    waits.wake(at=look_at)
    assert error_of(waits) == "no client is attached: it did not run"
    assert [event.by for event in waits.log[-2:]] == [SettledBy.EXPIRY, SettledBy.EXPIRY]
    assert waits.effect_ids == ["t1.m2"]


@pytest.mark.parametrize("client", [{"tools": ("other",)}, {"until": 0}, {"until": 1_700_000_000_000}])
def test_a_client_without_the_tool_or_gone_for_long_is_nobody(waits, client):
    waits.present = (here(waits, **client),)
    waits.wake(at=the_call(waits).suspension.look_at)
    assert error_of(waits) == "no client is attached: it did not run"


def test_with_somebody_attached_the_call_waits_and_nothing_is_written(waits):
    waits.now = the_call(waits).suspension.look_at
    waits.present = (here(waits), here(waits, "tab-2", until=waits.now + 7_000), here(waits, "tab-3", tools=("other",)))
    with waits.unchanged():
        judgement = waits.wake(at=waits.now)
    # then it looks again once the last of them is gone for the grace
    assert (judgement.events, judgement.state, judgement.due_at) == ((), None, waits.now + GONE_MS + GRACE_MS)
    later = judgement.due_at
    waits.wake(at=later)
    assert error_of(waits) == "no client is attached: it did not run"


def test_a_client_that_left_within_the_grace_may_come_back(waits):
    waits.now = the_call(waits).suspension.look_at
    waits.present = (here(waits, until=waits.now - GRACE_MS + 1),)
    with waits.unchanged():
        assert waits.wake(at=waits.now).due_at == waits.now + 1
    waits.present = (here(waits, until=waits.now - GRACE_MS),)
    assert waits.wake(at=waits.now).events


def test_a_look_is_never_later_than_the_deadline(waits):
    suspension = the_call(waits).suspension
    waits.now = suspension.expires_at - 1
    waits.present = (here(waits),)
    assert waits.wake(at=waits.now).due_at == suspension.expires_at
    waits.wake(at=suspension.expires_at)
    assert error_of(waits) == "the client did not respond in time"


@pytest.mark.parametrize("beside", ["question", "message"])
def test_something_else_that_is_due_before_the_next_look_is_due_then(conversations, beside):
    spec = conversations.desk_with(ask={"answer_timeout_s": 10})
    conversation = conversations(spec=spec).begun()
    _, asked, *_ = conversation.call("locate", "ask")
    first = conversation.suspension(asked).expires_at
    if beside == "message":
        conversation.resolve(Answer("yes"), asked)
        first = conversation.now + 8_000
        conversation.send("later", due=first)
    conversation.now = conversation.state.due_at
    conversation.present = (here(conversation, until=conversation.now + 1_000_000),)
    assert conversation.wake(at=conversation.now).due_at == first


def test_a_look_without_knowledge_of_the_clients_does_nothing(waits):
    waits.present = None
    with waits.unchanged():
        judgement = waits.wake(at=the_call(waits).suspension.look_at)
    assert (judgement.ignored, judgement.due_at) == ("nothing is due", None)
    waits.wake(at=the_call(waits).suspension.expires_at)
    assert error_of(waits) == "the client did not respond in time"


def test_a_wake_looks_at_the_clients_only_if_a_call_is_to_be_looked_after(waits):
    at = the_call(waits).suspension.look_at
    assert [Wake().looks(waits.state, now) for now in (at - 1, at)] == [False, True]
    assert not Wake().acts(waits.state, at)
    assert Wake().acts(waits.state, the_call(waits).suspension.expires_at)
    waits.resolve(Answer("here"))
    assert not Wake().looks(waits.state, at)
    waits.call("refund")
    assert not Wake().looks(waits.state, the_call(waits).suspension.expires_at)


def test_an_agent_without_a_grace_lets_its_calls_wait(conversations):
    spec = conversations.desk_with().model_copy(update={"client_grace_s": None})
    waits = conversations(spec=spec).begun()
    waits.call("locate")
    waits.present = ()
    assert (the_call(waits).suspension.look_at, waits.state.due_at) == (0, waits.now + TIMEOUT_MS)
    waits.claim("tab-1")
    waits.wake(at=waits.now + GONE_MS)
    assert (the_call(waits).suspension.claim, the_call(waits).suspension.look_at) == (None, 0)


def test_the_grace_begins_with_the_approval(begun):
    begun.call("share")
    begun.approve(the_call(begun).tool_call_id)
    suspension = the_call(begun).suspension
    assert (suspension.kind, suspension.look_at) == (SuspensionKind.CLIENT_EXEC, begun.now + GRACE_MS)


def test_one_call_without_a_client_does_not_end_another(begun):
    first, second = begun.call("locate", ("share", '{"amount":5}'))
    begun.approve(second)
    begun.now = begun.suspension(second).look_at
    begun.present = (here(begun, tools=("share",)),)
    judgement = begun.wake(at=begun.now)
    assert begun.result(first)["error"] == "no client is attached: it did not run"
    assert judgement.due_at == begun.now + GONE_MS + GRACE_MS
    assert begun.suspension(second) is not None


# A claimant that is gone.


@pytest.mark.parametrize("gone", ["forgotten", "gone", "another of the same id"])
def test_a_claimant_that_is_gone_gives_back_after_the_grace(waits, gone):
    waits.claim("tab-1", principal=ANA)
    look_at = the_call(waits).suspension.look_at
    waits.present = {
        "forgotten": (),
        "gone": (here(waits, "tab-1", ANA, until=look_at - GRACE_MS),),
        "another of the same id": (here(waits, "tab-1", LEE, until=look_at + GONE_MS),),
    }[gone]
    [event] = waits.wake(at=look_at).events
    assert (event.kind, event.by, event.began, event.client_id, event.request_id) == (
        *("call_given_back", "loss", True),
        *("tab-1", None),
    )
    assert the_call(waits).suspension.claim is None
    assert waits.claim("tab-2").reply.attempt == 2


def test_a_claimant_that_is_there_keeps_its_call(waits):
    waits.claim("tab-1", principal=ANA)
    waits.now = the_call(waits).suspension.look_at
    waits.present = (here(waits, "tab-1", ANA, tools=("other",)),)
    with waits.unchanged():
        assert waits.wake(at=waits.now).due_at == waits.now + GONE_MS + GRACE_MS


@pytest.mark.parametrize(
    ("rule", "follows"),
    [
        (OnLost.ERROR, ["call_given_back", "suspension_settled", "call_resolved"]),
        (OnLost.ASK, ["call_given_back", "suspension_settled", "call_suspended"]),
    ],
)
def test_what_follows_is_what_the_tool_says_of_lost_runs(conversations, rule, follows):
    waits = on_lost(conversations, rule)
    waits.claim("tab-1")
    assert told(waits.wake(at=the_call(waits).suspension.look_at)) == follows


def test_a_call_whose_claimant_is_gone_fails_if_no_other_client_comes(waits):
    waits.claim("tab-1")
    waits.wake(at=the_call(waits).suspension.look_at)
    waits.wake(at=the_call(waits).suspension.look_at)
    assert error_of(waits) == "no client is attached; one that had claimed this call left: it may or may not have taken effect"


def test_a_claim_that_is_not_kept_ends_with_its_client(waits):
    waits.claim("tab-1", on_detach=OnDetach.CANCEL)
    assert told(waits.wake(at=the_call(waits).suspension.look_at)) == ["suspension_settled", "call_resolved"]
    assert error_of(waits).endswith("it may or may not have taken effect: the client left")
    assert {event.by for event in waits.log[-2:]} == {SettledBy.CANCELLATION}


def test_the_deadline_of_a_claimed_call_counts_whether_its_client_is_there_or_not(waits):
    waits.claim("tab-1")
    expires_at = the_call(waits).suspension.expires_at
    waits.present = (here(waits, until=expires_at + GONE_MS),)
    waits.wake(at=expires_at)
    assert error_of(waits) == "the client did not respond in time"


# Clients that leave.


def asked_alone(conversation, *who, tool="refund", **terms):
    """A call that only these may decide."""
    approvers = ApproverTerms(who=(tuple(who),), **terms)
    one = ProposedCall(tool_call_id="call_9", name=tool, arguments='{"amount":5}', approvers=approvers)
    conversation.do(answered_with(one))
    return "call_9"


def left(conversation, client_id="tab-1", principal=ANA, ago=LEAVES_MS):
    return here(conversation, client_id, principal, until=conversation.now - ago, on_detach=OnDetach.CANCEL)


@pytest.mark.parametrize("tool", ["refund", "ask"])
def test_what_waits_for_the_principal_of_a_client_that_left_alone_is_cancelled(begun, tool):
    call = asked_alone(begun, "id:ana", tool=tool)
    begun.present = (left(begun),)
    assert told(begun.wake(at=begun.now)) == ["suspension_settled", "call_resolved"]
    assert begun.log[-1].by is SettledBy.CANCELLATION
    assert begun.result(call)["error"] == "cancelled before it was answered; it did not run: the client left"


@pytest.mark.parametrize("who", [("id:lee",), ("id:ana", "id:lee"), ("role:ops",), ("id:ana ",)])
def test_what_somebody_else_may_decide_waits_on(begun, who):
    asked_alone(begun, *who)
    begun.present = (left(begun),)
    with begun.unchanged():
        begun.wake(at=begun.now)


def test_what_anybody_may_decide_waits_on(begun):
    begun.call("refund", "ask")
    begun.present = (left(begun),)
    with begun.unchanged():
        begun.wake(at=begun.now)


def test_a_principal_that_may_not_decide_a_call_does_not_end_it_by_leaving(begun):
    asked_alone(begun, "id:ana")
    begun.present = (left(begun, principal=Principal("ana")),)  # stated, and only a proven one may decide
    with begun.unchanged():
        begun.wake(at=begun.now)


def test_a_client_that_keeps_ends_nothing_when_it_leaves(begun):
    asked_alone(begun, "id:ana")
    begun.present = (here(begun, "tab-1", ANA, until=0),)
    with begun.unchanged():
        begun.wake(at=begun.now)


def test_a_client_that_is_gone_has_not_left_yet(begun):
    asked_alone(begun, "id:ana")
    begun.present = (left(begun, ago=LEAVES_MS - 1),)
    with begun.unchanged():
        begun.wake(at=begun.now)


@pytest.mark.parametrize(
    ("client_id", "principal", "ago", "waits"),
    [
        ("tab-2", ANA, -1_000, True),
        ("tab-2", ANA, LEAVES_MS - 1, True),
        ("tab-2", ANA, KEPT_MS, False),
        ("tab-1", LEE, -1_000, False),
        ("tab-2", Principal("ana"), -1_000, False),
    ],
    ids=["another one", "another one that may come back", "another one that left", "somebody else's", "a stated one"],
)
def test_another_client_of_the_same_principal_keeps_its_questions(begun, client_id, principal, ago, waits):
    asked_alone(begun, "id:ana")
    begun.present = (left(begun), here(begun, client_id, principal, until=begun.now - ago))
    assert bool(begun.wake(at=begun.now).events) is not waits


def test_a_review_for_the_principal_of_a_client_that_left_alone_is_cancelled(begun):
    [call] = begun.call("lookup")
    begun.suspend(call, approvers=ApproverTerms(who=(("id:ana",),)))
    begun.present = (left(begun),)
    begun.wake(at=begun.now)
    assert begun.result(call)["error"] == "cancelled while it ran; it may or may not have taken effect: the client left"


def test_a_client_that_left_leaves_its_claims_and_no_others(begun):
    first, second, third = begun.call("locate", "locate", "locate")
    begun.claim("tab-1", first, principal=ANA)
    begun.claim("tab-2", second, principal=ANA)
    begun.claim("tab-1", third, principal=LEE)
    others = here(begun, "tab-2", ANA), here(begun, "tab-1", LEE)
    begun.present = (left(begun), *others)
    begun.wake(at=begun.now)
    assert begun.result(first)["error"].endswith("the client left")
    assert [begun.suspension(one) is None for one in (first, second, third)] == [True, False, False]


def test_held_calls_go_on_after_a_call_that_was_left(conversations):
    spec = conversations.desk_with().model_copy(update={"execution": Execution.SEQUENTIAL})
    conversation = conversations(spec=spec).begun()
    conversation.call("locate", ("lookup", "{}"))
    conversation.claim("tab-1", principal=ANA)
    conversation.present = (left(conversation),)
    assert told(conversation.wake(at=conversation.now))[-1] == "run_scheduled"


# Cancelling what waits for a client.


def test_a_client_cancels_what_waits_for_it_alone(begun):
    mine, others, free = begun.call("locate", "locate", "locate")
    begun.claim("tab-1", mine, principal=ANA)
    begun.claim("tab-1", others, principal=LEE)
    reply = begun.cancel_pending(client_id="tab-1", principal=ANA).reply
    assert reply.calls == (mine,)
    assert begun.result(mine)["error"].endswith("the client left")
    assert [begun.suspension(one) is None for one in (others, free)] == [False, False]


@pytest.mark.parametrize("present", [None, (), "itself", "another"])
def test_a_client_cancels_the_questions_of_its_principal_unless_another_one_is_there(begun, present):
    call = asked_alone(begun, "id:ana")
    itself, another = here(begun, "tab-1", ANA), here(begun, "tab-2", ANA)
    begun.present = {"itself": (itself,), "another": (itself, another)}.get(present, present)
    reply = begun.cancel_pending(client_id="tab-1", principal=ANA, reason="logged out").reply
    assert reply.calls == (() if present == "another" else (call,))
    if present != "another":
        assert begun.result(call)["error"] == "cancelled before it was answered; it did not run: logged out"


@pytest.mark.parametrize("leaves", [True, False])
@pytest.mark.parametrize(("kinds", "ends"), [(None, True), ((), False), (("elicitation",), False), (("approval",), True)])
def test_of_what_waits_for_its_principal_a_client_ends_only_what_it_may_decide(begun, kinds, ends, leaves):
    call = asked_alone(begun, "id:ana")
    if leaves:
        begun.present = (left(begun).model_copy(update={"kinds": kinds}),)
        begun.wake(at=begun.now)
    else:
        begun.cancel_pending(client_id="tab-1", principal=ANA, kinds=kinds)
    assert (begun.suspension(call) is None) == ends


@pytest.mark.parametrize("leaves", [True, False])
def test_a_client_that_may_decide_nothing_ends_its_claims(begun, leaves):
    (call,) = begun.call("locate")
    begun.claim("tab-1", call, principal=ANA)
    if leaves:
        begun.present = (left(begun).model_copy(update={"kinds": ()}),)
        begun.wake(at=begun.now)
    else:
        begun.cancel_pending(client_id="tab-1", principal=ANA, kinds=())
    assert begun.log[-1].kind != "call_claimed"
    assert begun.suspension(call) is None


def test_a_client_may_cancel_one_kind_of_what_waits_for_it(begun):
    begun.call("locate")
    begun.claim("tab-1", principal=ANA)
    nothing = begun.cancel_pending(client_id="tab-1", principal=ANA, kind=SuspensionKind.APPROVAL)
    assert (nothing.events, nothing.reply.calls) == ((), ())
    assert begun.cancel_pending(client_id="tab-1", principal=ANA, kind=SuspensionKind.CLIENT_EXEC).reply.calls


def test_a_cancellation_looks_at_the_clients_only_if_its_sender_has_questions(begun):
    command = CancelPending(request_id="x-1", client_id="tab-1", principal=ANA)
    assert not command.looks(begun.state, begun.now)
    asked_alone(begun, "id:ana")
    assert command.looks(begun.state, begun.now)
    assert not command.model_copy(update={"client_id": None}).looks(begun.state, begun.now)
    assert not command.model_copy(update={"principal": LEE}).looks(begun.state, begun.now)


def test_a_nameless_sender_has_claims_and_no_questions(begun):
    asked_alone(begun, "id:ana", stated=True)
    begun.present = ()
    assert begun.cancel_pending(client_id="tab-1").reply.calls == ()
