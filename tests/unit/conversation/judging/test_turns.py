"""Turns: what begins, queues, ends and cancels them."""

import json

import pytest
import writer as steps

from holdfast.conversation import (
    Answer,
    Approve,
    BeginTurn,
    CallModel,
    Cancelled,
    Principal,
    Proof,
    Start,
    Status,
    outstanding,
)
from holdfast.conversation.records.idempotency import IdempotencyRecord
from holdfast.errors import (
    ConversationEnded,
    ConversationExists,
    InvalidConversationId,
    InvalidInput,
    InvalidMessage,
    TurnNotFound,
)

TERMINAL = {"turn_completed", "turn_failed", "turn_cancelled"}


# Start and send.


def test_a_start_is_acknowledged_and_its_turn_is_about_to_begin(conversation):
    receipt = conversation.start("hello", message_id="m-1").reply
    assert conversation.kinds() == ["conversation_started", "message_accepted"]
    assert (receipt.conversation_id, receipt.seq, receipt.duplicate) == ("c-1", 2, False)
    assert outstanding(conversation.state) == (BeginTurn(effect_id="begin:2", message_seq=2),)
    assert conversation.status is Status.GENERATING


def test_a_turn_begins_with_the_spec_in_force_and_calls_the_model(conversation):
    conversation.start()
    conversation.begin()
    digest = conversation.spec.digest
    assert outstanding(conversation.state) == (
        CallModel(
            effect_id="t1.m1",
            spec_digest=digest,
            code="code-1",
            upto_seq=3,
            message_seq=2,
            stats=conversation.state.turn.stats,
        ),
    )


def test_a_turn_without_a_spec_fails_visibly_and_the_conversation_goes_on(conversation):
    # given an agent that has gone from the app
    conversation.start()
    # when the turn is prepared, then it fails and says why
    conversation.begin(problem="the app has no agent 'desk'")
    assert conversation.kinds()[-2:] == ["turn_started", "turn_failed"]
    assert conversation.log[-1].error == "the app has no agent 'desk'"
    assert conversation.status is Status.FAILED
    # and another message begins another turn
    conversation.send()
    conversation.begin()
    assert conversation.effect_ids == ["t2.m1"]


def test_a_start_whose_reply_was_lost_is_answered_again(conversation):
    first = conversation.start("hello", message_id="m-1").reply
    conversation.begin()
    with conversation.unchanged():
        again = conversation.start("hello", message_id="m-1").reply
    assert again == first.model_copy(update={"duplicate": True})


@pytest.mark.parametrize(
    ("text", "message_id", "context"),
    [("other", "m-1", "null"), ("hello", "m-2", "null"), ("hello", "m-1", '{"tenant":1}')],
    ids=["text", "message_id", "context"],
)
def test_another_start_of_an_existing_id_is_refused(conversation, text, message_id, context):
    conversation.start("hello", message_id="m-1")
    with conversation.unchanged(), pytest.raises(ConversationExists, match="use send"):
        conversation.start(text, message_id=message_id, context=context)


def test_another_agent_under_the_same_message_id_is_refused(conversation):
    conversation.start("hello", message_id="m-1")
    with conversation.unchanged(), pytest.raises(ConversationExists):
        conversation.do(Start(agent="other", app="shop:app", text="hello", message_id="m-1"))


def test_a_message_whose_reply_was_lost_is_answered_again(begun):
    first = begun.send("more", message_id="m-2").reply
    with begun.unchanged():
        again = begun.send("more", message_id="m-2").reply
    assert again == first.model_copy(update={"duplicate": True})


@pytest.mark.parametrize("message_id", ["m-1", "m-2"], ids=["of the start", "of a message"])
def test_a_message_id_with_another_text_is_refused(begun, message_id):
    begun.send("more", message_id="m-2")
    with begun.unchanged(), pytest.raises(InvalidMessage) as refusal:
        begun.send("something else", message_id=message_id)
    assert refusal.value.field == "message_id"


@pytest.mark.parametrize("conversation_id", ["", "-x", ".", "a b", "é", "x" * 129, "a/b", "a\n", "{a}"])
def test_an_ill_formed_conversation_id_is_refused(conversations, conversation_id):
    conversation = conversations(conversation_id)
    with conversation.unchanged(), pytest.raises(InvalidConversationId) as refusal:
        conversation.start()
    assert refusal.value.field == "conversation_id"
    assert "1 to 128" in refusal.value.fix


@pytest.mark.parametrize("conversation_id", ["a", "0", "x" * 128, "A.b_c:d-e"])
def test_a_well_formed_conversation_id_is_accepted(conversations, conversation_id):
    assert conversations(conversation_id).start().reply.seq == 2


@pytest.mark.parametrize("message_id", ["two words", "é", "x" * 201, "tab\t"])
def test_an_ill_formed_message_id_is_refused(conversation, message_id):
    with conversation.unchanged(), pytest.raises(InvalidMessage) as started:
        conversation.start(message_id=message_id)
    conversation.begun()
    with conversation.unchanged(), pytest.raises(InvalidMessage) as sent:
        conversation.send(message_id=message_id)
    assert started.value.field == sent.value.field == "message_id"


def test_text_that_is_too_long_is_refused_by_its_bytes(conversation):
    # given a limit of 2000 bytes
    with conversation.unchanged(), pytest.raises(InvalidMessage) as refusal:
        conversation.start("é" * 1001)
    assert (refusal.value.field, refusal.value.problem) == ("text", "it has 2002 bytes, 2000 are allowed")
    # then exactly the limit passes
    conversation.start("é" * 1000)
    with conversation.unchanged(), pytest.raises(InvalidMessage):
        conversation.send("x" * 2001)


def test_text_over_a_mebibyte_is_refused_where_no_spec_says_otherwise(conversations):
    conversation = conversations(spec=None)
    with conversation.unchanged(), pytest.raises(InvalidMessage, match="1048577 bytes, 1048576 are allowed"):
        conversation.start("x" * (1024 * 1024 + 1))


@pytest.mark.parametrize("text", ["\ud800", "a\udfffb"])
def test_text_with_a_lone_surrogate_is_refused(conversation, text):
    with conversation.unchanged(), pytest.raises(InvalidMessage) as refusal:
        conversation.start(text)
    assert refusal.value.field == "text"


def test_text_that_is_no_string_is_refused(begun):
    with begun.unchanged(), pytest.raises(InvalidMessage, match="int is neither a string nor a list of parts") as refusal:
        begun.do(_unvalidated(text=5))
    assert refusal.value.field == "text"


def _unvalidated(**fields):
    from holdfast.conversation import Send  # noqa: PLC0415 - only here

    return Send.model_construct(message_id="m-9", **fields)


@pytest.mark.parametrize("context", ["", "{", "NaN", '"\\ud800"', '"\ud800"', "nope", '{"a":1,}'])
def test_a_context_that_is_not_json_is_refused(conversation, context):
    with conversation.unchanged(), pytest.raises(InvalidMessage) as refusal:
        conversation.start(context=context)
    assert refusal.value.field == "context"


def test_a_context_that_is_too_long_is_refused(conversation):
    with conversation.unchanged(), pytest.raises(InvalidMessage) as refusal:
        conversation.start(context=json.dumps("x" * 2000))
    assert refusal.value.field == "context"


def test_an_agent_with_a_lone_surrogate_is_refused_with_a_typed_error(conversation):
    with conversation.unchanged(), pytest.raises(InvalidInput):
        conversation.do(Start(agent="\ud800", app="shop:app", text="hello", message_id="m-1"))


# Messages during a turn queue.


def test_messages_during_a_turn_queue_and_run_in_order(begun):
    # given a turn in the middle of a question
    [call] = begun.call("ask")
    # when two messages come, then each has its receipt and the turn is undisturbed
    receipts = [begun.send(text).reply.seq for text in ("second", "third")]
    assert [one.seq for one in begun.state.queue] == receipts
    assert begun.status is Status.AWAITING_INPUT
    # and their turns come one after the other
    begun.resolve(Answer("blue"), call)
    begun.reply("one")
    for turn, seq in enumerate(receipts, 2):
        assert outstanding(begun.state) == (BeginTurn(effect_id=f"begin:{seq}", message_seq=seq),)
        begun.begin()
        assert begun.effect_ids == [f"t{turn}.m1"]
        begun.reply(f"answer {turn}")
    users = [message["content"] for message in begun.messages() if message["role"] == "user"]
    assert users == ["hello", "second", "third"]
    assert begun.status is Status.IDLE


def test_a_queued_message_stands_in_the_transcript_where_its_turn_begins(begun):
    begun.send("second")
    begun.reply("one")
    assert [message["content"] for message in begun.messages()] == ["hello", "one"]
    begun.begin()
    assert [message["content"] for message in begun.messages()] == ["hello", "one", "second"]


def test_a_queued_turn_begins_after_a_failed_one_too(begun):
    begun.send("second")
    begun.fail_model()
    assert begun.status is Status.GENERATING
    begun.begin()
    assert begun.effect_ids == ["t2.m1"]


# The end of a turn (guarantee 10).


@pytest.mark.parametrize(
    ("end", "kind", "status"),
    [
        (lambda conversation: conversation.reply(), "turn_completed", Status.IDLE),
        (lambda conversation: conversation.fail_model(), "turn_failed", Status.FAILED),
        (lambda conversation: conversation.cancel(), "turn_cancelled", Status.IDLE),
    ],
    ids=["completed", "failed", "cancelled"],
)
def test_a_turn_ends_in_exactly_one_terminal_event(begun, end, kind, status):
    end(begun)
    assert [event for event in begun.kinds() if event in TERMINAL] == [kind]
    assert begun.status is status
    assert begun.effect_ids == []
    assert begun.state.last.outcome == kind.removeprefix("turn_")
    assert begun.log[begun.state.last.seq - 1].kind == kind


def test_the_final_answer_can_be_found_from_the_state(begun):
    begun.reply("the end")
    assert begun.log[begun.state.last.reply_seq - 1].content == "the end"


def test_a_model_error_is_kept_in_its_own_words(begun):
    begun.fail_model("context length exceeded")
    assert begun.log[-1].error == "context length exceeded"


def test_a_turn_has_a_limited_number_of_model_calls(begun):
    # given a limit of four model calls
    for number in range(1, 5):
        assert begun.effect_ids == [f"t1.m{number}"]
        [call] = begun.call("lookup")
        begun.finish(call)
    # then a fifth is not made; the turn fails, with every call answered
    assert begun.status is Status.FAILED
    assert "limit of 4 model calls" in begun.log[-1].error
    assert begun.messages()[-1]["role"] == "tool"


def test_a_final_answer_at_the_limit_completes_the_turn(begun):
    for _ in range(3):
        begun.call("nope")
    begun.reply()
    assert begun.status is Status.IDLE


def test_a_turn_at_its_limit_waits_for_its_open_calls_before_it_fails(begun):
    for _ in range(3):
        begun.call("nope")
    [call] = begun.call("ask")
    assert begun.status is Status.AWAITING_INPUT
    begun.resolve(Answer(1), call)
    assert begun.status is Status.FAILED


def test_each_turn_has_a_limit_of_its_own(begun):
    for _ in range(4):
        begun.call("nope")
    begun.send()
    begun.begin()
    begun.call("nope")
    assert begun.effect_ids == ["t2.m2"]


# Cancellation.


def test_a_cancellation_answers_every_open_call_and_says_what_it_cancelled(begun):
    # given a run, a question, an approved run and one that is done
    calls = begun.call("lookup", "ask", "refund", "charge")
    begun.resolve(Approve(), calls[2])
    begun.finish(calls[3])
    # when the turn is cancelled
    cancelled = begun.cancel().reply
    # then the open ones end with an error that the model can read
    assert cancelled == Cancelled(
        conversation_id="c-1", turn_id="t1", calls=tuple(calls[:3]), audit_head=begun.state.audit_head
    )
    for call in calls[:3]:
        assert begun.result(call)["ok"] is False
        assert "cancelled" in begun.result(call)["error"]
    assert begun.result(calls[3])["ok"] is True
    assert begun.log[-1].calls == tuple(calls[:3])
    assert begun.effect_ids == []
    assert begun.status is Status.IDLE


def test_a_cancelled_call_is_said_to_have_not_run_where_that_is_known(begun):
    # given calls at every place where one can be, a browser's before and after its approval
    lookup, ask, refund, locate, *shared = begun.call("lookup", "ask", "refund", "locate", "share", "share", "share")
    share, approved, handed_over = shared
    begun.resolve(Approve(), approved)
    begun.approve(handed_over)
    # when the turn is cancelled
    begun.cancel()
    # then what runs on the server or at the client may have had its effect
    unknown = {call for call in begun.log[-1].calls if "may or may not have taken effect" in begun.result(call)["error"]}
    assert unknown == {lookup, locate, handed_over}
    assert all("it did not run" in begun.result(call)["error"] for call in (ask, refund, share, approved))


def test_a_cancelled_model_call_leaves_no_answer(begun):
    cancelled = begun.cancel().reply
    assert (cancelled.turn_id, cancelled.calls) == ("t1", ())
    assert [message["role"] for message in begun.messages()] == ["user"]


def test_a_turn_that_is_about_to_begin_can_be_cancelled(conversation):
    conversation.start()
    late = conversation.effect_ids[0]
    assert conversation.cancel().reply.turn_id == "t1"
    assert conversation.kinds()[-2:] == ["turn_started", "turn_cancelled"]
    assert late not in conversation.effect_ids
    assert conversation.status is Status.IDLE


def test_a_cancellation_cancels_one_turn_and_the_next_begins(begun):
    begun.send("second")
    begun.cancel()
    assert begun.status is Status.GENERATING
    begun.begin()
    assert begun.effect_ids == ["t2.m1"]


@pytest.mark.parametrize("verb", ["cancel", "cancel_pending"])
def test_a_cancellation_of_nothing_is_no_event_and_only_its_id_is_known_for_a_while(begun, verb):
    begun.reply()
    before, log = begun.state, list(begun.log)
    judgement = getattr(begun, verb)("x-1")
    assert (begun.state, begun.log, judgement.events) == (before, log, ())
    assert judgement.passing == {"x:x-1": IdempotencyRecord(seq=before.seq, at=begun.now, digest=verb)}
    assert judgement.reply == Cancelled(conversation_id="c-1", turn_id=None, calls=())
    assert getattr(begun, verb)("x-1").reply == judgement.reply.model_copy(update={"duplicate": True})


def test_the_same_cancellation_again_spares_the_next_turn(begun):
    begun.send("second")
    first = begun.cancel("x-1").reply
    begun.begin()
    with begun.unchanged():
        assert begun.cancel("x-1").reply == first.model_copy(update={"duplicate": True})
    assert begun.effect_ids == ["t2.m1"]


def test_the_same_cancellation_again_spares_a_later_turn_also_where_it_cancelled_nothing(begun):
    # given a cancellation that found nothing to cancel, and whose reply was lost
    begun.reply()
    begun.cancel("x-1")
    # when it is retried after the next turn began
    begun.send("second")
    begun.begin()
    begun.cancel("x-1")
    # then that turn goes on
    assert begun.effect_ids == ["t2.m1"]


def test_a_request_id_is_for_one_request(begun):
    begun.cancel("x-1")
    with begun.unchanged(), pytest.raises(InvalidInput) as refusal:
        begun.end("x-1")
    assert refusal.value.field == "request_id"


@pytest.mark.parametrize("request_id", ["two words", "x" * 201, "\ud800"])
@pytest.mark.parametrize("verb", ["cancel", "end"])
def test_an_ill_formed_request_id_is_refused(begun, verb, request_id):
    with begun.unchanged(), pytest.raises(InvalidInput) as refusal:
        getattr(begun, verb)(request_id)
    assert refusal.value.field == "request_id"


# The end of the conversation.


def test_the_end_cancels_what_is_open_and_drops_what_is_queued(begun):
    # given a question and a queued message
    [call] = begun.call("ask")
    begun.send("second")
    # when the conversation ends
    receipt = begun.end().reply
    # then the call has a result, the turn its terminal event, and nothing is left
    assert begun.result(call)["ok"] is False
    assert begun.kinds()[-2:] == ["turn_cancelled", "conversation_ended"]
    assert (receipt.seq, begun.status) == (len(begun.log), Status.ENDED)
    assert begun.effect_ids == []
    assert begun.state.queue == ()


def test_an_idle_conversation_ends_without_a_turn(begun):
    begun.reply()
    begun.end()
    assert begun.kinds().count("turn_cancelled") == 0
    assert begun.status is Status.ENDED


def test_nothing_follows_the_end(begun):
    begun.end()
    for ask in (begun.send, begun.cancel, begun.end, lambda: begun.start(message_id="m-2")):
        with begun.unchanged(), pytest.raises(ConversationEnded):
            ask()
    with begun.unchanged():
        assert begun.wake(at=begun.now + 10**12).ignored


# A certain turn, and what waits.


def test_a_cancellation_that_names_a_turn_cancels_that_one_and_spares_the_next(begun):
    begun.send("second")
    assert begun.cancel(turn_id="t1").reply.turn_id == "t1"
    begun.begin()
    late = begun.cancel(turn_id="t1")
    assert late.reply == Cancelled(conversation_id="c-1")
    assert late.events == ()
    assert begun.effect_ids == ["t2.m1"]
    assert begun.cancel(turn_id="t2").reply.turn_id == "t2"


@pytest.mark.parametrize("named", ["t1", None])
def test_the_id_of_a_cancellation_that_found_nothing_is_not_taken_for_a_later_turn(begun, named):
    begun.reply()
    nothing = begun.cancel("x-1", turn_id=named).reply
    begun.send("second")
    for _ in range(2):  # the turn is about to begin, and then is going on
        with begun.unchanged(), pytest.raises(InvalidInput, match="already used for another request"):
            begun.cancel("x-1", turn_id="t2")
        with begun.unchanged():
            assert begun.cancel("x-1", turn_id=named).reply == nothing.model_copy(update={"duplicate": True})
        if begun.state.turn is None:
            begun.begin()
    assert begun.cancel("x-2", turn_id="t2").reply.turn_id == "t2"


def test_a_turn_that_is_about_to_begin_is_cancelled_by_its_name(conversation):
    conversation.start()
    assert conversation.cancel(turn_id="t1").reply.turn_id == "t1"
    assert conversation.status is Status.IDLE


@pytest.mark.parametrize("turn_id", ["t2", "t0", "t01", "t-1", "t", "", "x1", "t1 ", "t٣", "t" + "9" * 5000])
def test_a_turn_that_there_never_was_is_not_found(begun, turn_id):
    with begun.unchanged(), pytest.raises(TurnNotFound) as refused:
        begun.cancel(turn_id=turn_id)
    assert refused.value.turn_id == turn_id


def test_a_cancellation_again_of_another_turn_is_refused(begun):
    begun.cancel("x-1", turn_id="t1")
    begun.send("second")
    begun.begin()
    with begun.unchanged():
        assert begun.cancel("x-1").reply.duplicate
        with pytest.raises(InvalidInput, match="another request"):
            begun.cancel("x-1", turn_id="t2")
        with pytest.raises(InvalidInput, match="another request"):
            begun.cancel_pending("x-1")


def test_what_waits_is_cancelled_and_the_turn_goes_on(begun):
    ask, refund, lookup = begun.call("ask", ("refund", '{"amount":7}'), "lookup")
    cancelled = begun.cancel_pending("x-1", reason="the shop is closed").reply
    assert cancelled == Cancelled(conversation_id="c-1", turn_id="t1", calls=(ask, refund), audit_head=begun.state.audit_head)
    assert begun.result(ask) == {"ok": False, "error": "cancelled before it was answered; it did not run: the shop is closed"}
    assert begun.status is Status.EXECUTING_TOOLS
    begun.finish(lookup)
    assert begun.effect_ids == ["t1.m2"]
    with begun.unchanged():
        assert begun.cancel_pending("x-1").reply == cancelled.model_copy(update={"duplicate": True})


def test_only_what_waits_for_one_thing_is_cancelled(begun):
    ask, refund = begun.call("ask", ("refund", '{"amount":7}'))
    assert begun.cancel_pending(kind="approval").reply.calls == (refund,)
    assert begun.cancel_pending(kind="approval").reply == Cancelled(conversation_id="c-1")
    assert [call.tool_call_id for call in begun.state.calls if call.suspension is not None] == [ask]


def test_a_cancellation_of_what_waits_finds_nothing_while_nothing_waits(begun):
    judgement = begun.cancel_pending("x-1")
    assert judgement.reply == Cancelled(conversation_id="c-1")
    begun.call("ask")
    with begun.unchanged():  # not even when it comes again
        assert begun.cancel_pending("x-1").reply.duplicate


def test_a_turn_without_model_calls_left_fails_when_what_waits_is_cancelled(conversations):
    conversation = conversations(spec=conversations.desk_with({"max_model_calls": 1})).begun()
    conversation.call("ask")
    conversation.cancel_pending()
    assert conversation.kinds()[-2:] == ["pending_cancelled", "turn_failed"]


@pytest.mark.parametrize("reason", ["x" * 79, "\ud800"])
def test_a_reason_that_cannot_be_told_is_refused(begun, reason):
    begun.call("ask")
    with begun.unchanged(), pytest.raises(InvalidInput) as refused:
        begun.cancel_pending(reason=reason * 2)
    assert refused.value.field == "reason"


# Who it was.


def test_the_log_says_who_started_sent_decided_cancelled_and_ended(conversation):
    ana, bot = Principal("ana", roles=("finance",), proof=Proof.OIDC), Principal("bot")

    def by(step, principal):
        return lambda state: step(state).model_copy(update={"principal": principal})

    conversation.do(by(steps.start("hello", message_id="m-1"), bot))
    conversation.begin()
    [ask] = conversation.call("ask")
    conversation.do(by(steps.resolve(Answer("yes"), ask, decision_id="d-1"), ana))
    with conversation.unchanged():  # whoever repeats it gets the first receipt
        assert conversation.do(by(steps.resolve(Answer("yes"), ask, decision_id="d-1"), bot)).reply.duplicate
    conversation.call("ask")
    conversation.do(by(steps.cancel_pending(), ana))
    conversation.do(by(steps.send("more"), bot))
    conversation.do(by(steps.cancel(), ana))
    conversation.do(by(steps.end(), None))
    said = [(event.kind, event.principal) for event in conversation.log if hasattr(event, "principal")]
    assert said == [
        ("message_accepted", bot),
        ("suspension_settled", ana),
        ("suspension_settled", ana),
        ("pending_cancelled", ana),
        ("message_accepted", bot),
        ("turn_cancelled", ana),
        ("conversation_ended", None),
    ]
