"""Calls that wait for a machine: only its source's word and `Cancel` settle them, and nobody is asked."""

import json

import pytest

from holdfast.conversation import Cancel, SettledBy, Status, Tell, WaitsFor
from holdfast.conversation.log.index import pending_entries
from holdfast.conversation.log.work import outstanding
from holdfast.errors import ConversationEnded, InvalidInput, NotPermitted, StaleCall, StaleReason


@pytest.fixture
def waiting(begun):
    """A conversation with one call that waits for another one."""
    [call] = begun.call("consult")
    return begun, call


def word(conversation, call, **changes):
    waits = conversation.suspension(call)
    said = {"suspension_id": waits.suspension_id, "source": waits.source, "ok": True, "content": '"fine"'}
    return Tell(**(said | changes))


def test_a_wait_for_a_machine_is_nobodys_to_do(waiting):
    conversation, call = waiting
    state = conversation.state
    assert (state.status, state.waits_for, state.resting, state.busy) == (
        Status.AWAITING_INPUT,
        WaitsFor.MACHINES,
        False,
        False,
    )
    assert pending_entries(state) == ()
    assert state.calls.suspended_count == 0
    assert outstanding(state) == ()
    assert state.due_at == conversation.suspension(call).expires_at


def test_a_person_beside_a_machine_is_waited_for(begun):
    _, person = begun.call("consult", "ask")
    assert (begun.state.waits_for, begun.state.resting) == (WaitsFor.PEOPLE, True)
    assert [entry.suspension_id for entry in pending_entries(begun.state)] == [begun.suspension(person).suspension_id]
    begun.resolve(Cancel(), person)
    assert begun.state.waits_for is WaitsFor.MACHINES


@pytest.mark.parametrize(
    ("said", "result"),
    [
        ({}, {"ok": True, "result": "fine"}),
        ({"content": '{"a":[1]}'}, {"ok": True, "result": {"a": [1]}}),
        ({"ok": False, "content": '"it broke"'}, {"ok": False, "error": "it broke"}),
        ({"ok": False, "content": '{"code":1}'}, {"ok": False, "error": '{"code":1}'}),
    ],
)
def test_the_source_settles_the_call_and_the_turn_goes_on(waiting, said, result):
    conversation, call = waiting
    source = conversation.suspension(call).source
    receipt = conversation.do(word(conversation, call, **said)).reply
    assert conversation.result(call) == result | {"conversation": source}
    settled = conversation.log[receipt.seq - 1]
    assert (settled.by, settled.decision, settled.principal) == (SettledBy.SOURCE, None, None)
    assert settled.head == receipt.audit_head != ""
    assert conversation.status is Status.GENERATING


@pytest.mark.parametrize("letter", ["x", "é", "\n", "\U0001f642"])
def test_a_text_that_is_too_long_is_cut_and_marked(waiting, letter):
    conversation, call = waiting
    whole = json.dumps(letter * 400, ensure_ascii=False)
    conversation.do(word(conversation, call, content=whole))
    result = conversation.result(call)
    assert result["ok"]
    assert (letter * 400).startswith(result["result"])
    size = len(json.dumps(result["result"], ensure_ascii=False).encode())
    assert 300 - 4 < size <= 300
    assert result["cut_from_bytes"] == len(whole.encode())


def test_a_value_that_is_too_long_is_a_failed_result_and_names_the_limit(waiting):
    conversation, call = waiting
    conversation.do(word(conversation, call, content=json.dumps(["x" * 400])))
    result = conversation.result(call)
    assert not result["ok"]
    assert "Limits.result_bytes" in result["error"]


def test_another_source_or_no_json_changes_nothing(waiting):
    conversation, call = waiting
    for changes, error in [({"source": "c-3"}, NotPermitted), ({"source": ""}, NotPermitted), ({"content": "{"}, InvalidInput)]:
        with conversation.unchanged(), pytest.raises(error):
            conversation.do(word(conversation, call, **changes))


def test_nobody_tells_the_answer_to_a_person(begun):
    [call] = begun.call("ask")
    for source in ("", "c-2"):
        with begun.unchanged(), pytest.raises(NotPermitted):
            begun.do(word(begun, call, source=source))


def test_a_second_word_is_stale_and_says_who_came_first(waiting):
    conversation, call = waiting
    said = word(conversation, call)
    conversation.do(said)
    for again in (said, word_for(said, source="c-3"), word_for(said, content='"no"')):
        with conversation.unchanged(), pytest.raises(StaleCall) as stale:
            conversation.do(again)
        assert (stale.value.reason, stale.value.settled_by) == (StaleReason.ALREADY_RESOLVED, SettledBy.SOURCE)


def word_for(said, **changes):
    return said.model_copy(update=changes)


def test_cancelled_expired_and_ended_waits_take_no_word(conversations):
    for end, error in [
        (lambda one, call: one.resolve(Cancel(), call), StaleCall),
        (lambda one, call: one.wake(at=one.suspension(call).expires_at), StaleCall),
        (lambda one, _: one.cancel("x-1"), StaleCall),
        (lambda one, _: one.end(), ConversationEnded),
    ]:
        conversation = conversations().begun()
        [call] = conversation.call("consult")
        said = word(conversation, call)
        end(conversation, call)
        with conversation.unchanged(), pytest.raises(error):
            conversation.do(said)
