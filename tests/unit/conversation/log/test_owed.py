"""What an event owes: notices to the targets that the spec names for its kind, and to nobody else."""

import pytest
from pydantic import ValidationError

from holdfast.conversation import Answer, SuspensionKind
from holdfast.conversation.log.owed import (
    Envelope,
    addressed,
    lane_of,
    notice_kind,
    notice_target,
    notified,
    own_target,
)
from holdfast.conversation.terms.spec import NoticeKind, NotifySpec


def notices(conversation):
    return [kind for event in conversation.log if (kind := notice_kind(event)) is not None]


def test_a_call_is_suspended_and_settled_and_its_turn_completed(conversation):
    conversation.begun()
    conversation.waiting_for(SuspensionKind.ELICITATION)
    conversation.resolve(Answer("Ann"))
    conversation.reply("done")
    conversation.end()
    expected = [NoticeKind.SUSPENDED, NoticeKind.SETTLED, NoticeKind.TURN_COMPLETED, NoticeKind.ENDED]
    assert notices(conversation) == expected


def test_a_lost_run_is_no_suspension_like_others(conversation):
    conversation.begun().waiting_for(SuspensionKind.LOST)
    assert notices(conversation) == [NoticeKind.LOST_RUN]


def test_a_deadline_that_passes_is_no_decision(conversation):
    conversation.begun().waiting_for(SuspensionKind.APPROVAL)
    conversation.wake(at=conversation.state.due_at)
    assert notices(conversation) == [NoticeKind.SUSPENDED, NoticeKind.EXPIRED]


def test_a_turn_fails(conversation):
    conversation.begun().fail_model()
    assert notices(conversation) == [NoticeKind.TURN_FAILED]


def test_a_cancelled_turn_settles_what_waits(conversation):
    conversation.begun().waiting_for(SuspensionKind.CLIENT_EXEC)
    conversation.cancel()
    assert notices(conversation) == [NoticeKind.SUSPENDED, NoticeKind.SETTLED]


def test_targets_say_what_they_are():
    target = notice_target("ops", "shop.desk:app")
    assert (notified(target), addressed(target), lane_of(target)) == (("ops", "shop.desk:app"), None, target)
    own = own_target("c-1:2")
    assert (notified(own), addressed(own), lane_of(own)) == (None, "c-1:2", "own")


@pytest.mark.parametrize("text", ["", "own:", "own:../x", "notice:", "notice:ops", "notice:a b:app", "else:c-1"])
def test_a_text_that_is_no_target_is_none(text):
    assert notified(text) is None
    assert addressed(text) is None


def test_a_message_has_an_id_of_its_own():
    first = Envelope("ended", "notice:ops:app", 7, 0, 1_700_000_000_000)
    others = [
        Envelope("settled", "notice:ops:app", 7, 0, 1_700_000_000_000),
        Envelope("ended", "notice:audit:app", 7, 0, 1_700_000_000_000),
        Envelope("ended", "notice:ops:app", 8, 0, 1_700_000_000_000),
        Envelope("ended", "notice:ops:app", 7, 1, 1_700_000_000_000),
        Envelope("ended", "notice:ops:app", 7, 0, 1_700_000_000_001),
    ]
    ids = {first.message_id("c-1"), first.message_id("c-2"), *(one.message_id("c-1") for one in others)}
    assert len(ids) == 7
    assert first.message_id("c-1") == Envelope(*("ended", "notice:ops:app", 7, 0, 1_700_000_000_000)).message_id("c-1")


@pytest.mark.parametrize("name", ["", "a:b", "a|b", "a b", "ä", "a\n", "x" * 65])
def test_a_target_has_a_plain_name(name):
    with pytest.raises(ValidationError):
        NotifySpec(name=name, events=())
