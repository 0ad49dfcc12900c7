"""What a write changes of index entries and work records: what a look at the whole states before and after it says."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.conversation import Answer, Approve, Approvers, BeginTurn, Principal, Proof, State, evolve, outstanding
from holdfast.conversation.log.index import Delta, PendingEntry, delta, pending_entries
from holdfast.conversation.records.commands import ProposedCall
from holdfast.conversation.records.events import Ended, ModelAnswered, TurnCancelled, TurnFailed


def whole(before, after):
    """The same, found by listing both states."""
    old, new = pending_entries(before), pending_entries(after)
    was = [effect.effect_id for effect in outstanding(before) if not isinstance(effect, BeginTurn)]
    now = [effect.effect_id for effect in outstanding(after) if not isinstance(effect, BeginTurn)]
    return (
        {entry for entry in new if entry not in old},
        {entry for entry in old if entry not in new},
        set(now) - set(was),
        set(was) - set(now),
    )


def sets(found):
    """As sets; nothing stands in one of them twice."""
    parts = (found.opened, found.closed, found.scheduled, found.settled)
    assert all(len(set(part)) == len(part) for part in parts)
    return tuple(set(part) for part in parts)


@given(st.data())
def test_the_events_alone_say_what_changes(conversations, data):
    # given a conversation whose calls do what calls do, some of them in one write with others
    conversation = conversations().begun()
    states = [conversation.state]

    def step(act):
        act()
        states.append(conversation.state)

    tools = st.sampled_from(["lookup", "refund", "ask", "share", "post", "ship", "nobody"])
    step(lambda: conversation.call(*data.draw(st.lists(tools, min_size=1, max_size=6))))
    for _ in range(data.draw(st.integers(0, 12))):
        calls = conversation.state.calls
        if not calls.any_open:
            break
        one = data.draw(st.sampled_from(calls.open()))
        if one.suspension is None:
            step(lambda one=one: data.draw(st.sampled_from([conversation.finish, conversation.lose]))(one.tool_call_id))
        elif one.suspension.kind == "approval":
            step(lambda one=one: conversation.resolve(Approve(), one.tool_call_id, suspension_id=one.suspension.suspension_id))
        elif one.suspension.kind == "lost":
            step(lambda: conversation.wake(at=conversation.state.calls.due_at))
        else:
            answer = Answer({"years": 3} if one.tool == "share" else "x")
            step(
                lambda one=one, answer=answer: conversation.resolve(
                    answer, one.tool_call_id, suspension_id=one.suspension.suspension_id
                )
            )
    if data.draw(st.booleans()):
        step(data.draw(st.sampled_from([conversation.cancel, conversation.end])))
    # then between any two of its states, the events say what both states say
    for first in range(len(states)):
        for last in range(first, len(states)):
            before, after = states[first], states[last]
            assert sets(delta(before, after, conversation.log[before.seq : after.seq])) == whole(before, after)


@pytest.mark.parametrize(
    ("event", "scheduled"),
    [
        (TurnFailed(at=9, turn_id="t1", error="x"), ()),
        (TurnCancelled(at=9, turn_id="t1"), ()),
        (ModelAnswered(at=9, effect_id="t1.m2"), ("t1.m3",)),
        (Ended(at=9), ()),
    ],
    ids=["turn_failed", "turn_cancelled", "model_answered", "conversation_ended"],
)
def test_what_is_open_is_over_with_its_answer_even_where_no_event_names_it(begun, event, scheduled):
    begun.call("lookup", "ask")
    before = begun.state

    found = delta(before, evolve(before, event), [event])

    assert [entry.suspension_id for entry in found.closed] == [before.calls[1].suspension.suspension_id]
    assert found.settled == (before.calls[0].effect_id,)
    assert (found.opened, found.scheduled) == ((), scheduled)


def test_a_model_call_is_work_from_the_write_that_asks_for_it_to_the_one_that_takes_its_answer_in(conversations):
    # given a conversation whose turn has begun, and the beginning is no work of a record
    conversation = conversations()
    absent = State(conversation_id=conversation.state.conversation_id)
    begun = conversation.begun().state
    assert delta(absent, begun, conversation.log).scheduled == ("t1.m1",)
    # when the model asks for a call that runs, and when that has run
    conversation.call("lookup")
    running = conversation.state
    answered = delta(begun, running, conversation.log[begun.seq :])
    conversation.finish(running.calls[0].tool_call_id)
    again = delta(running, conversation.state, conversation.log[running.seq :])
    # then one piece of work takes the place of the other
    assert (answered.settled, answered.scheduled) == (("t1.m1",), (running.calls[0].effect_id,))
    assert (again.settled, again.scheduled) == ((running.calls[0].effect_id,), ("t1.m2",))


def test_a_vote_or_a_note_says_something_of_a_suspension_that_stays_open(begun):
    [call] = begun.call(ProposedCall(tool_call_id="", name="refund", arguments="{}", approvers=Approvers(minimum=2).terms))
    before, entry = begun.state, PendingEntry.of(begun.state.calls.of(call))
    ana, bo = (Principal(name, proof=Proof.KEY) for name in ("ana", "bo"))
    begun.resolve(Approve(), call, principal=ana)
    assert delta(before, begun.state, begun.log[before.seq :]) == Delta(noted=(entry,))
    voted = begun.state
    begun.resolve(Approve({"amount": 1}), call, principal=bo)
    asked_anew = delta(voted, begun.state, begun.log[voted.seq :])
    assert (asked_anew.closed, len(asked_anew.opened), asked_anew.noted) == ((entry,), 1, ()), "whoever reads it reads the vote"


def test_no_events_change_nothing(begun):
    begun.call("lookup", "ask")

    assert delta(begun.state, begun.state, ()) == Delta()
    assert PendingEntry.of(None) is None
    assert delta(State(conversation_id="c-1"), begun.state, begun.log).scheduled == (begun.state.calls[0].effect_id,)
