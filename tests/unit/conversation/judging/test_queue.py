"""The queue of messages is bounded; what was accepted stays accepted."""

import pytest

from holdfast.conversation import Status
from holdfast.errors import InvalidMessage, QueueFull


@pytest.fixture
def waiting(conversation):
    """A conversation in the middle of a turn that lets two messages wait."""
    conversation.spec = conversation.desk_with(limits={"queued": 2})
    return conversation.begun()


def test_a_message_beyond_the_bound_is_refused_and_changes_nothing(waiting):
    # given as many messages as may wait
    waiting.send("one", message_id="m-one")
    waiting.send("two", message_id="m-two")
    before = waiting.state
    # when one more is sent
    with pytest.raises(QueueFull) as refused:
        waiting.send("three", message_id="m-three")
    # then it is refused with what to do, and nothing has changed
    assert (refused.value.conversation_id, refused.value.queued) == ("c-1", 2)
    assert "Limits.queued" in str(refused.value)
    assert "send this one again" in str(refused.value)
    assert waiting.state == before


def test_an_accepted_message_gets_its_receipt_again_however_full_the_queue_is(waiting):
    first = waiting.send("one", message_id="m-one").reply
    waiting.send("two")

    again = waiting.send("one", message_id="m-one")

    assert again.reply == first.model_copy(update={"duplicate": True})
    assert again.events == ()
    with pytest.raises(InvalidMessage, match="another message"):
        waiting.send("something else", message_id="m-one")


def test_a_message_is_taken_again_once_a_turn_has_begun(waiting):
    waiting.send()
    waiting.send()
    waiting.reply()
    with pytest.raises(QueueFull):  # the next turn is still being prepared: its message waits
        waiting.send("three", message_id="m-three")

    waiting.begin()

    assert waiting.send("three", message_id="m-three").reply.duplicate is False
    assert len(waiting.state.queue) == 2


def test_a_message_that_cannot_be_used_is_refused_for_that(waiting):
    waiting.send()
    waiting.send()

    with pytest.raises(InvalidMessage, match="are allowed"):
        waiting.send("x" * 3000)


def test_a_conversation_starts_and_its_first_turn_takes_messages_under_the_least_bound(conversation):
    conversation.spec = conversation.desk_with(limits={"queued": 1})
    conversation.start()
    with pytest.raises(QueueFull):
        conversation.send()
    conversation.begin()

    conversation.send()

    assert conversation.status is Status.GENERATING
    assert len(conversation.state.queue) == 1


def test_a_hundred_messages_wait_where_nothing_else_is_said(conversation):
    conversation.begun()
    for _ in range(100):
        conversation.send()

    with pytest.raises(QueueFull, match="100 messages"):
        conversation.send()


def test_a_queue_that_is_fuller_than_a_new_bound_only_shrinks(waiting):
    waiting.send()
    waiting.send()
    waiting.spec = waiting.desk_with(limits={"queued": 1})

    with pytest.raises(QueueFull):
        waiting.send()

    assert len(waiting.state.queue) == 2
    waiting.spec = waiting.desk_with(limits={"queued": 2})
    waiting.cancel()
    waiting.begin()
    assert len(waiting.state.queue) == 1
