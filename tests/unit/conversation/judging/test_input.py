"""Messages while a turn goes on or waits: what each way of sending does, and what is done with those that wait."""

import pytest
from writer import call

from holdfast.conversation import Approve, ApproverTerms, Deny, Principal, Proof, Send, Status, SuspensionKind, Wake
from holdfast.conversation.judging.judgement import Judgement
from holdfast.conversation.records.commands import ProposedCall
from holdfast.conversation.records.events import CallHeld
from holdfast.errors import ConversationBusy, InvalidInput, InvalidMessage, NotPermitted, NotQueued, QueueFull, StaleCall

HOUR_MS = 3_600_000


def seqs(waiting):
    return [one.seq for one in waiting]


def said(conversation):
    """What the model reads of people, in order."""
    return [message["content"] for message in conversation.messages() if message["role"] == "user"]


def answered(conversation):
    """The texts of all turns, once each has been answered."""
    while conversation.state.queue or conversation.state.turn is not None:
        if conversation.state.turn is None:
            conversation.begin()
        conversation.reply()
    return said(conversation)


# -- in order ----------------------------------------------------------------------------------------------------------


def test_messages_wait_in_the_order_of_their_priorities_and_within_one_in_that_of_their_acceptance(begun):
    for text, priority in (("b1", 128), ("c", 255), ("a1", 0), ("b2", 128), ("a2", 0)):
        begun.send(text, priority=priority)

    assert answered(begun) == ["hello", "a1", "a2", "b1", "b2", "c"]


@pytest.mark.parametrize("priority", [-1, 256, True, 1.5])
def test_a_priority_that_is_none_is_refused(begun, priority):
    with begun.unchanged(), pytest.raises(InvalidMessage, match="priority"):
        begun.do(lambda _: _unchecked(priority))


def _unchecked(priority):
    return Send(text="x", message_id="m").model_copy(update={"priority": priority})


# -- later -------------------------------------------------------------------------------------------------------------


def test_a_delayed_message_holds_nobody_up_and_is_queued_once_its_time_has_come(conversation):
    conversation.begun()
    late = conversation.send("late", due=conversation.now + HOUR_MS).reply.seq
    conversation.send("soon")
    conversation.reply()
    conversation.begin()
    conversation.reply()
    # it rests until then, and says when that is
    assert conversation.status is Status.IDLE
    assert not conversation.state.busy
    assert conversation.state.due_at == conversation.log[late - 1].due_at
    assert conversation.effect_ids == []
    assert conversation.wake(at=conversation.state.due_at - 1).ignored == "nothing is due"

    conversation.wake(at=conversation.state.due_at)

    assert conversation.kinds()[-1] == "input_due"
    assert seqs(conversation.state.queue) == [late]
    assert conversation.state.due_at is None
    assert answered(conversation) == ["hello", "soon", "late"]


def test_delayed_messages_are_queued_by_their_times_and_then_by_their_priorities(begun):
    now = begun.now
    begun.send("third", due=now + 30_000, priority=200)
    begun.send("second", due=now + 20_000, priority=200)
    begun.send("first", due=now + 30_000, priority=1)

    begun.wake(at=now + 50_000)

    assert answered(begun) == ["hello", "first", "second", "third"]


@pytest.mark.parametrize("status", ["idle", "failed", "generating", "executing_tools", "awaiting_input"])
def test_a_message_becomes_due_in_every_live_status(conversation, status):
    conversation.begun()
    conversation.send("late", due=conversation.now + 5000)
    match status:
        case "idle":
            conversation.reply()
        case "failed":
            conversation.fail_model()
        case "executing_tools":
            conversation.call("lookup")
        case "awaiting_input":
            conversation.call("ask")
    assert conversation.status == status

    conversation.wake(at=conversation.now + 10_000)

    assert len(conversation.state.queue) == 1


@pytest.mark.parametrize(("ahead", "problem"), [(0, "past"), (-5, "past"), (367 * 24 * HOUR_MS, "a year")])
def test_a_time_that_cannot_be_is_refused(begun, ahead, problem):
    with begun.unchanged(), pytest.raises(InvalidMessage, match=problem):
        begun.send("x", due=begun.now + 1000 + ahead)


@pytest.mark.parametrize("when", ["reject", "steer"])
def test_a_time_goes_with_the_queue_alone(begun, when):
    with begun.unchanged(), pytest.raises(InvalidMessage, match="does not go with"):
        begun.send("x", when=when, due=begun.now + HOUR_MS)


def test_a_held_call_with_a_time_rests_alone_and_begins_then(conversation):
    # given a turn whose only open call is held until a time
    conversation.begun()
    [called] = conversation.call("lookup")
    until = conversation.now + HOUR_MS
    running = conversation.state.turn.call(called)
    held = running.carried(CallHeld, at=conversation.now, held_until=until)
    conversation.do(lambda _: _with_events(conversation, held))
    # then it rests, and its model is not called without the result
    assert conversation.status is Status.EXECUTING_TOOLS
    assert not conversation.state.busy
    assert conversation.effect_ids == []
    assert conversation.state.due_at == until
    assert conversation.wake(at=until - 1).ignored

    conversation.wake(at=until)

    assert conversation.effect_ids == [f"{called}#2"]
    assert conversation.state.due_at is None


def _with_events(conversation, event):
    conversation.adopt(Judgement((event,)))
    return Wake()


# -- refused -----------------------------------------------------------------------------------------------------------


def test_a_message_is_refused_while_a_turn_goes_on_or_waits(conversation):
    conversation.start("hello")
    with conversation.unchanged(), pytest.raises(ConversationBusy) as refused:  # its turn is about to begin
        conversation.send("now?", when="reject")
    assert refused.value.going_on == "generating"
    conversation.begin()
    conversation.call("ask")
    with conversation.unchanged(), pytest.raises(ConversationBusy, match="awaiting_input"):
        conversation.send("now?", when="reject")
    conversation.cancel()

    conversation.send("now?", when="reject")

    assert answered(conversation) == ["hello", "now?"]


# -- steered -----------------------------------------------------------------------------------------------------------


def test_a_steered_message_joins_before_the_next_model_call_once_no_call_is_open(begun):
    one, _ = begun.call("lookup", "ask")
    steered = begun.send("look in Bonn", when="steer").reply.seq
    assert begun.status is Status.AWAITING_INPUT
    begun.finish(f"{one}#1")
    assert seqs(begun.state.turn.steered) == [steered]

    begun.cancel_pending()

    assert begun.kinds()[-1] == "input_joined"
    assert begun.state.turn.steered == ()
    assert begun.state.turn.joined == (steered,)
    assert begun.messages()[-1] == {"role": "user", "content": "look in Bonn"}
    assert [message["role"] for message in begun.messages()] == ["user", "assistant", "tool", "tool", "user"]
    begun.reply()
    assert begun.state.turn is None
    assert begun.state.queue == ()


def test_a_model_call_that_goes_on_is_not_disturbed_and_a_final_answer_goes_on(begun):
    before = begun.effect_ids
    begun.send("and Bonn?", when="steer")
    begun.wake(at=begun.now + 1)
    assert begun.effect_ids == before

    begun.reply("Cologne is fine.")

    assert begun.effect_ids == ["t1.m2"]
    assert [message["content"] for message in begun.messages()] == ["hello", "Cologne is fine.", "and Bonn?"]
    begun.reply("Bonn, too.")
    assert begun.kinds().count("turn_completed") == 1
    assert begun.status is Status.IDLE


def test_steered_messages_that_no_model_call_is_left_for_have_a_turn_of_their_own(conversation):
    conversation.spec = conversation.desk_with(limits={"max_model_calls": 1})
    conversation.begun()
    conversation.send("and then?", when="steer")

    conversation.reply("done")

    assert conversation.kinds()[-1] == "turn_completed"
    assert answered(conversation) == ["hello", "and then?"]


@pytest.mark.parametrize("ends", ["cancel", "fail_model"])
def test_steered_messages_outlive_a_turn_that_ends_without_them(begun, ends):
    begun.send("and then?", when="steer")

    getattr(begun, ends)()

    assert answered(begun) == ["hello", "and then?"]


def test_without_a_turn_a_steered_message_waits_for_its_own(conversation):
    conversation.start("hello")
    conversation.send("and then?", when="steer")

    assert answered(conversation) == ["hello", "and then?"]


def test_an_answer_that_its_provider_continues_is_not_interrupted_by_a_steered_message(begun):
    begun.send("and Bonn?", when="steer")
    begun.reply("I am searching", finish_reason="pause_turn")
    assert begun.state.turn.joined == ()

    begun.reply("Found.")

    assert begun.state.turn.joined != ()


def test_messages_that_have_joined_count_for_the_queue(conversation):
    conversation.spec = conversation.desk_with(limits={"queued": 2})
    conversation.begun()
    for text in ("one", "two"):
        conversation.send(text, when="steer")
        conversation.reply()

    with pytest.raises(QueueFull):
        conversation.send("three", when="steer")


# -- interrupted -------------------------------------------------------------------------------------------------------


def test_an_interruption_cancels_the_turn_supersedes_what_is_queued_and_begins_in_one_append(begun):
    ask, look = begun.call("ask", "lookup")
    queued = begun.send("queued", message_id="m-queued").reply.seq
    steered = begun.send("steered", message_id="m-steered", when="steer").reply.seq
    late = begun.send("late", due=begun.now + HOUR_MS).reply.seq

    done = begun.interrupt("stop, do this", "m-stop").reply

    assert (done.turn_id, done.cancelled, done.epoch, done.duplicate) == ("t1", (ask, look), 1, False)
    assert done.superseded == ("m-queued", "m-steered")
    assert begun.log[done.seq - 1].text == "stop, do this"
    superseded = begun.log[done.seq - 2]
    assert superseded.message_seqs == (queued, steered)
    assert superseded.by_seq == done.seq
    assert seqs(begun.state.delayed) == [late]
    assert begun.effect_ids == [f"begin:{done.seq}"]
    assert answered(begun) == ["hello", "stop, do this"]
    # and repeated, it is the same
    again = begun.interrupt("stop, do this", "m-stop")
    assert again.events == ()
    assert again.reply == done.model_copy(update={"duplicate": True})
    with pytest.raises(InvalidInput, match="another message or request"):
        begun.interrupt("something else", "m-stop")
    with pytest.raises(InvalidMessage, match="another message"):
        begun.send("stop, do this", message_id="m-stop")


def test_the_id_of_another_message_does_not_interrupt(begun):
    begun.send("queued", message_id="q-1")

    with begun.unchanged(), pytest.raises(InvalidInput, match="another message or request"):
        begun.interrupt("queued", "q-1")


def test_an_interruption_without_a_text_ends_what_goes_on(begun):
    begun.call("ask")
    begun.send("queued", message_id="m-queued")

    done = begun.interrupt(request_id="r-1").reply

    assert (done.turn_id, done.superseded) == ("t1", ("m-queued",))
    assert begun.status is Status.IDLE
    assert begun.interrupt(request_id="r-1").reply == done.model_copy(update={"duplicate": True})


def test_two_interruptions_each_have_their_own(begun):
    first = begun.interrupt("one", "i-1").reply

    second = begun.interrupt("two", "i-2").reply

    assert (first.turn_id, second.turn_id) == ("t1", None)
    assert (second.superseded, second.epoch) == (("i-1",), 2)
    assert answered(begun) == ["hello", "two"]


def test_an_interruption_of_nothing_changes_nothing_and_is_remembered(conversation):
    conversation.begun()
    conversation.reply()

    nothing = conversation.interrupt(request_id="r-1")

    assert (nothing.events, nothing.reply.turn_id, nothing.reply.superseded) == ((), None, ())
    conversation.send("more")
    assert conversation.interrupt(request_id="r-1").reply.duplicate


def test_a_decision_after_an_interruption_is_stale(begun):
    asked = begun.waiting_for(SuspensionKind.APPROVAL)
    suspension = begun.suspension(asked).suspension_id
    begun.interrupt("do this instead")

    with pytest.raises(StaleCall):
        begun.resolve(Deny(), tool_call_id=asked, suspension_id=suspension)


# -- withdrawn, moved ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["queue", "steer", "later"])
def test_a_message_is_withdrawn_until_its_turn_begins(begun, how):
    more = {"due": begun.now + HOUR_MS} if how == "later" else {"when": how}
    seq = begun.send("no", message_id="q-1", **more).reply.seq

    first = begun.withdraw("q-1", seq, "w-1").reply

    assert begun.withdraw("q-1", seq, "w-1").reply == first.model_copy(update={"duplicate": True})
    assert begun.send("no", message_id="q-1", **more).reply.duplicate  # its receipt stays
    assert begun.state.due_at is None
    assert answered(begun) == ["hello"]
    with pytest.raises(NotQueued):
        begun.withdraw("q-1", seq, "w-2")


def test_a_message_whose_turn_begins_is_not_withdrawn(conversation):
    seq = conversation.start("hello", message_id="q-1").reply.seq
    conversation.begin()

    with conversation.unchanged(), pytest.raises(NotQueued):
        conversation.withdraw("q-1", seq)


def test_a_message_is_withdrawn_while_its_turn_is_prepared(conversation):
    seq = conversation.start("hello", message_id="q-1").reply.seq

    conversation.withdraw("q-1", seq)

    assert conversation.effect_ids == []
    assert conversation.status is Status.IDLE


def test_another_message_at_that_place_is_not_withdrawn(begun):
    seq = begun.send("no", message_id="q-1").reply.seq

    with begun.unchanged(), pytest.raises(NotQueued):
        begun.withdraw("m-2", seq)


def test_a_waiting_message_gets_another_time_or_priority(begun):
    begun.send("one")
    two = begun.send("two", message_id="m-2").reply.seq
    three = begun.send("three", message_id="m-3", due=begun.now + HOUR_MS).reply.seq

    begun.reschedule("m-2", two, priority=1)
    begun.reschedule("m-3", three, due=begun.now + 10_000)

    assert begun.state.due_at == begun.log[-1].due_at
    begun.wake(at=begun.state.due_at)
    assert answered(begun) == ["hello", "two", "one", "three"]


def test_a_request_to_move_a_message_by_nothing_or_to_no_time_is_refused(begun):
    seq = begun.send("one", message_id="q-1").reply.seq
    steered = begun.send("two", message_id="m-2", when="steer").reply.seq

    with begun.unchanged():
        with pytest.raises(InvalidInput, match="neither"):
            begun.reschedule("q-1", seq)
        with pytest.raises(InvalidMessage, match="past"):
            begun.reschedule("q-1", seq, due=begun.now)
        with pytest.raises(InvalidMessage, match="none"):
            begun.reschedule("q-1", seq, priority=300)
        with pytest.raises(InvalidInput, match="joins the turn"):
            begun.reschedule("m-2", steered, priority=3)


def test_the_end_drops_all_that_waits(begun):
    begun.send("one")
    begun.send("two", when="steer")
    begun.send("three", due=begun.now + HOUR_MS)

    begun.end()

    assert (begun.state.waiting, begun.state.due_at) == ((), None)


def test_who_has_joined_a_turn_may_not_approve_what_their_message_led_to(conversation):
    ana, bob, eve = (Principal(name, proof=Proof.KEY) for name in ("ana", "bob", "eve"))
    conversation.start(principal=ana)
    conversation.begin()
    conversation.send("in Bonn", when="steer", principal=bob)
    conversation.reply("and now?")
    terms = ApproverTerms(not_requester=True)
    asked = ProposedCall(tool_call_id="call_1", name="refund", arguments='{"amount":5}', approvers=terms)
    conversation.do(call(asked))

    for who in (ana, bob):
        with conversation.unchanged(), pytest.raises(NotPermitted, match=who.id):
            conversation.resolve(Approve(), "call_1", principal=who)
    conversation.resolve(Approve(), "call_1", principal=eve)

    assert conversation.run("call_1").attempt == 1
