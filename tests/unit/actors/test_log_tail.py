"""What an actor hands to the worker is the very end of the log, or nothing."""

from holdfast.actors.activation.ownership import TAIL, TAIL_BYTES, LogTail
from holdfast.conversation.records.events import MessageAccepted, ModelAnswered


def message(number):
    return MessageAccepted(at=number, message_id=f"m-{number}", digest="", text="x")


def test_it_begins_at_the_models_last_answer():
    log_tail = LogTail()
    answer = ModelAnswered(at=2, effect_id="e")
    log_tail.add(1, [message(1)])
    log_tail.add(3, [answer, message(3)])
    assert log_tail.upto(3) == (answer, message(3))


def test_of_another_place_in_the_log_it_knows_nothing():
    log_tail = LogTail()
    log_tail.add(2, [message(1), message(2)])
    assert log_tail.upto(1) == log_tail.upto(3) == ()


def test_after_a_gap_it_begins_anew():
    log_tail = LogTail()
    log_tail.add(1, [message(1)])
    log_tail.add(5, [message(5)])
    assert log_tail.upto(5) == (message(5),)


def test_it_keeps_no_more_than_its_bound():
    log_tail = LogTail()
    for number in range(1, TAIL + 10):
        log_tail.add(number, [message(number)])
    assert len(log_tail.upto(TAIL + 9)) == TAIL


def test_it_keeps_no_more_than_its_bound_in_bytes():
    log_tail = LogTail()
    for number in range(1, 9):
        log_tail.add(number, [MessageAccepted(at=number, message_id=f"m-{number}", digest="", text="x" * (TAIL_BYTES // 4))])
    assert [event.at for event in log_tail.upto(8)] == [6, 7, 8]
    log_tail.add(9, [MessageAccepted(at=9, message_id="m-9", digest="", text="x" * (2 * TAIL_BYTES))])
    assert log_tail.upto(9) == ()
    log_tail.add(10, [message(10)])
    assert log_tail.upto(10) == (message(10),)


def test_each_takeover_names_its_log_anew():
    assert LogTail().lineage != LogTail().lineage != ""
