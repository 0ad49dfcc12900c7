"""Delegation: what may be delegated, what a child is given, and how a child ends."""

import pytest

from holdfast.conversation import (
    Answer,
    Approval,
    Approve,
    ApproverTerms,
    Cancel,
    CancelPending,
    Execution,
    Principal,
    Proof,
    Start,
    Status,
    SuspensionKind,
    Tell,
)
from holdfast.conversation.ids import child_id
from holdfast.conversation.log.owed import Owed, owed_by, own_target, quarantine_owes
from holdfast.conversation.records.commands import ProposedCall
from holdfast.conversation.terms.delegation import Ancestor, Parent
from holdfast.conversation.terms.stages import Default, OnTimeout, Stage
from holdfast.errors import ConversationExists, NotPermitted, StaleCall, StaleReason

TASK = '{"task":"look into it"}'
ABOVE = (Ancestor(conversation_id="c-root", agent="boss"), Ancestor(conversation_id="c-parent", agent="lead"))


def parent(**changes):
    said = {"suspension_id": "s-1", "path": ABOVE, "depth": 2, "descendants": 10, "must_end_by": 1_700_000_900_000}
    return Parent(**(said | changes))


def child(conversations, spec=None, **changes):
    """A conversation that another one has started; its first turn is at its first model call."""
    conversation = conversations(spec=spec or conversations.desk)
    conversation.do(starting(**changes))
    conversation.begin()
    return conversation


def starting(**changes):
    return Start(agent="desk", app="shop.app:app", text="look", message_id="s-1", parent=parent(**changes))


def consult(number=1, arguments=TASK, **more):
    return ProposedCall(tool_call_id=f"call_{number}", name="consult", arguments=arguments, **more)


def desk(conversations, **tool):
    """The desk with a tool `consult` that differs in these fields."""
    return conversations.desk_with(consult=tool)


def delegations(conversation):
    return [event.delegation for event in conversation.log if event.kind == "call_suspended" and event.delegation is not None]


def owed(conversation, since):
    """What the events after `since` owe other conversations."""
    before = conversation.state.model_copy(update={"seq": since, "turn": None})
    return [(one.kind, one.target) for one in owed_by(conversation.log[since:], before, conversation.state, None)]


def test_a_call_waits_for_a_child_whose_id_follows_from_the_suspension(begun):
    [call] = begun.call("consult")
    waits = begun.suspension(call)
    assert (waits.kind, waits.source) == (SuspensionKind.DELEGATE, child_id(waits.suspension_id))
    (asked,) = delegations(begun)
    assert (asked.agent, asked.depth, asked.answered_at) == ("clerk", 2, begun.state.turn.answered_at)
    assert owed(begun, len(begun.log) - 1) == [("start", own_target(waits.source))]


def test_a_conversation_that_was_set_back_asks_another_child(conversations):
    sources = set()
    for salt in ("pepper", "salt"):
        conversation = conversations().begun()
        conversation.salt = salt
        [call] = conversation.call(consult())
        sources.add(conversation.suspension(call).source)
    assert len(sources) == 2


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("{}", "task"),
        ('{"task":7}', "task"),
        ('{"task":null}', "task"),
        ('{"task":"x","more":1}', "task"),
        ('{"task":" "}', "empty"),
        ('{"task":"%s"}' % ("x" * 2001), "message_bytes"),
        ("[]", "not a JSON object"),
    ],
)
def test_a_task_that_cannot_be_used_is_an_error_for_the_model(begun, arguments, said):
    begun.call(consult(arguments=arguments))
    assert said in begun.result("call_1")["error"]
    assert begun.status is Status.GENERATING


def test_a_context_that_is_too_long_is_an_error_for_the_model(begun):
    begun.call(consult(context='"%s"' % ("x" * 2000)))
    assert "context" in begun.result("call_1")["error"]


def test_contexts_of_one_answer_that_are_too_long_together_are_errors_from_there_on(conversations):
    limits = conversations.desk.limits.model_copy(update={"reply_bytes": 2500})
    conversation = conversations(spec=conversations.desk.model_copy(update={"limits": limits})).begun()
    long = '"%s"' % ("x" * 1000)
    conversation.call(*[consult(number, context=long) for number in range(3)], consult(3, context='"short"'))
    assert "Limits.reply_bytes" in conversation.result("call_2")["error"]
    answered = conversation.log[delegations(conversation)[0].answered_at - 1]
    assert [call.context for call in answered.calls] == [long, long, None, '"short"']
    assert len(delegations(conversation)) == 3


def test_the_context_for_the_child_stands_with_the_call(begun):
    begun.call(consult(context='{"order":7}'))
    answered = begun.log[delegations(begun)[0].answered_at - 1]
    assert answered.calls[0].context == '{"order":7}'


@pytest.mark.parametrize("agent", ["desk", "boss", "lead"])
def test_an_agent_that_works_on_it_already_is_not_asked(conversations, agent):
    conversation = child(conversations, desk(conversations, agent=agent))
    conversation.call(consult())
    assert "already works" in conversation.result("call_1")["error"]


def test_levels_only_shrink(conversations):
    for depth, max_depth, left in [(2, 3, 1), (1, 3, 0), (3, 1, 0)]:
        conversation = child(conversations, desk(conversations, max_depth=max_depth), depth=depth)
        conversation.call(consult())
        assert delegations(conversation)[0].depth == left
    conversation = child(conversations, depth=0)
    conversation.call(consult())
    assert "max_depth" in conversation.result("call_1")["error"]


def test_one_answer_shares_half_of_what_is_left_and_later_ones_have_the_rest(conversations):
    conversation = child(conversations, descendants=10)
    conversation.call(*map(consult, range(2)))
    assert [one.descendants for one in delegations(conversation)] == [2, 2]
    assert conversation.state.turn.delegated == 6
    for call in ("call_0", "call_1"):
        conversation.resolve(Cancel(), call)
    conversation.call(*map(consult, range(2, 8)))
    assert [one.descendants for one in delegations(conversation)[2:]] == [0, 0, 0, 0]
    assert all("Limits.descendants" in conversation.result(f"call_{n}")["error"] for n in (6, 7))


def test_a_held_call_keeps_its_share(conversations):
    conversation = conversations(spec=conversations.desk.model_copy(update={"execution": Execution.SEQUENTIAL})).begun()
    conversation.call(*map(consult, range(2)))
    assert conversation.state.turn.delegated == 2 + 2 * 24
    conversation.resolve(Cancel(), "call_0")
    assert [one.descendants for one in delegations(conversation)] == [24, 24]
    assert conversation.state.turn.delegated == 2 + 2 * 24


def test_an_approval_comes_first(conversations):
    conversation = conversations(spec=desk(conversations, approval=Approval.REQUIRED)).begun()
    conversation.call(consult())
    assert conversation.suspension("call_1").kind is SuspensionKind.APPROVAL
    assert owed(conversation, len(conversation.log) - 1) == []
    conversation.resolve(Approve({"task": "look twice"}))
    waits = conversation.suspension("call_1")
    assert waits.kind is SuspensionKind.DELEGATE
    edit = conversation.log[conversation.state.calls.of("call_1").arguments_at - 1]
    assert edit.body == '{"task":"look twice"}'


def test_a_child_ends_with_its_turn_in_the_same_append_and_owes_its_word(conversations):
    for end, last in [
        (lambda one: one.reply("done"), "turn_completed"),
        (lambda one: one.fail_model(), "turn_failed"),
        (lambda one: one.cancel(), "turn_cancelled"),
    ]:
        conversation = child(conversations)
        conversation.send("and this?", message_id="m-2")
        since = len(conversation.log)
        end(conversation)
        assert conversation.kinds(since)[-2:] == [last, "conversation_ended"]
        assert (conversation.status, conversation.state.queue) == (Status.ENDED, ())
        assert owed(conversation, since) == [("tell", own_target("c-parent"))]


def test_a_child_whose_agent_is_gone_ends_too(conversations):
    conversation = conversations(spec=None)
    conversation.do(starting())
    conversation.begin(problem="no such agent")
    assert conversation.status is Status.ENDED


def test_a_conversation_of_its_own_goes_on(begun):
    begun.reply("done")
    assert begun.status is Status.IDLE
    assert quarantine_owes(begun.state, None) == ()


def test_a_quarantined_child_owes_its_word(conversations):
    owes = quarantine_owes(child(conversations).state, None)
    assert owes == (Owed("tell", own_target("c-parent")),)


def test_no_deadline_below_is_later_than_the_wait_above(conversations):
    end = parent().must_end_by
    conversation = child(conversations)
    [call] = conversation.call("ask")
    usual = conversation.suspension(call).expires_at
    assert usual < end
    conversation = child(conversations, must_end_by=usual - 7)
    [call] = conversation.call("ask")
    assert conversation.suspension(call).expires_at == usual - 7
    conversation = child(conversations, must_end_by=usual - 7)
    [call] = conversation.call("consult")
    assert conversation.suspension(call).expires_at == usual - 7


def test_nothing_is_decided_after_the_wait_above_is_over(conversations):
    conversation = child(conversations)
    [call] = conversation.call("ask")
    with conversation.unchanged(), pytest.raises(StaleCall) as stale:
        conversation.resolve(Answer("blue"), call, at=parent().must_end_by)
    assert stale.value.reason is StaleReason.EXPIRED


def test_at_the_end_of_the_wait_above_nothing_escalates_and_no_default_decides(conversations):
    stages = OnTimeout(stages=(Stage(approvers=ApproverTerms(), for_s=10),), default=Default(kind="answer", value='"blue"'))
    spec = conversations.desk_with(ask={"on_timeout": stages})
    conversation = child(conversations, spec, must_end_by=1_700_000_060_000)
    [call] = conversation.call("ask")
    events = conversation.wake(at=1_700_000_060_000).events
    assert [event.kind for event in events] == ["suspension_settled", "call_resolved"]
    assert not conversation.result(call)["ok"]


def test_who_edited_the_task_above_has_asked_for_it_too(conversations):
    terms = ApproverTerms(who=(("id:ana", "id:bob", "id:eve"),), not_requester=True)
    ana, bob, eve = (Principal(name, proof=Proof.KEY) for name in ("ana", "bob", "eve"))
    conversation = conversations()
    conversation.do(starting(editors=(bob,)).model_copy(update={"principal": ana}))
    conversation.begin()
    conversation.call(ProposedCall(tool_call_id="call_1", name="refund", arguments='{"amount":5}', approvers=terms))
    for who in (ana, bob):
        with conversation.unchanged(), pytest.raises(NotPermitted):
            conversation.resolve(Approve(), "call_1", principal=who)
    conversation.resolve(Approve(), "call_1", principal=eve)


def test_a_start_that_comes_too_late_starts_nothing(conversations):
    conversation = conversations()
    with conversation.unchanged(), pytest.raises(StaleCall) as stale:
        conversation.do(starting(), at=parent().must_end_by)
    assert stale.value.reason is StaleReason.EXPIRED


def test_a_start_is_repeated_and_a_foreign_holder_of_the_id_is_told_apart(conversations):
    conversation = child(conversations)
    assert conversation.do(starting()).reply.duplicate
    other = parent().model_copy(update={"path": (Ancestor(conversation_id="c-other", agent="lead"),)})
    for foreign in (
        starting().model_copy(update={"parent": other}),
        starting().model_copy(update={"parent": None}),
        starting().model_copy(update={"message_id": "m-9"}),
    ):
        with conversation.unchanged(), pytest.raises(ConversationExists):
            conversation.do(foreign)


@pytest.mark.parametrize(
    ("end", "said"),
    [
        (lambda one, call: one.wake(at=one.suspension(call).expires_at), "did not answer in time"),
        (lambda one, call: one.resolve(Cancel("no need"), call), "what it did until then stands: no need"),
        (lambda one, _: one.do(CancelPending(request_id="r-1", reason="no need")), "until then stands: no need"),
        (lambda one, _: one.cancel(), "cancelled before the agent that was asked answered"),
    ],
)
def test_the_result_of_a_call_whose_child_is_waited_for_no_longer_names_the_child(begun, end, said):
    [call] = begun.call("consult")
    source = begun.suspension(call).source
    end(begun, call)
    result = begun.result(call)
    assert said in result.pop("error")
    assert result == {"ok": False, "conversation": source}


def test_a_word_of_a_source_that_has_not_ended_owes_its_end(begun):
    [call] = begun.call("consult")
    waits, since, before = begun.suspension(call), len(begun.log), begun.state
    named = {"suspension_id": waits.suspension_id, "source": waits.source}
    begun.do(Tell(**named, ok=False, content='"set aside"', ended=False))
    owes = owed_by(begun.log[since:], before, begun.state, None)
    assert [(one.kind, one.target) for one in owes] == [("end", own_target(waits.source))]
