"""What an actor hands to the worker is the very end of the log, or nothing."""

from holdfast.actors.recent import MOST, MOST_BYTES, Recent
from holdfast.conversation.events import MessageAccepted, ModelAnswered


def message(number):
    return MessageAccepted(at=number, message_id=f"m-{number}", digest="", text="x")


def test_it_begins_at_the_models_last_answer():
    recent = Recent()
    answer = ModelAnswered(at=2, effect_id="e")
    recent.add(1, [message(1)])
    recent.add(3, [answer, message(3)])
    assert recent.upto(3) == (answer, message(3))


def test_of_another_place_in_the_log_it_knows_nothing():
    recent = Recent()
    recent.add(2, [message(1), message(2)])
    assert recent.upto(1) == recent.upto(3) == ()


def test_after_a_gap_it_begins_anew():
    recent = Recent()
    recent.add(1, [message(1)])
    recent.add(5, [message(5)])
    assert recent.upto(5) == (message(5),)


def test_it_keeps_no_more_than_its_bound():
    recent = Recent()
    for number in range(1, MOST + 10):
        recent.add(number, [message(number)])
    assert len(recent.upto(MOST + 9)) == MOST


def test_it_keeps_no_more_than_its_bound_in_bytes():
    recent = Recent()
    for number in range(1, 9):
        recent.add(number, [MessageAccepted(at=number, message_id=f"m-{number}", digest="", text="x" * (MOST_BYTES // 4))])
    assert [event.at for event in recent.upto(8)] == [6, 7, 8]
    recent.add(9, [MessageAccepted(at=9, message_id="m-9", digest="", text="x" * (2 * MOST_BYTES))])
    assert recent.upto(9) == ()
    recent.add(10, [message(10)])
    assert recent.upto(10) == (message(10),)


def test_each_takeover_names_its_log_anew():
    assert Recent().lineage != Recent().lineage != ""
