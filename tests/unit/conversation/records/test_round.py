"""The calls of an answer: an immutable sequence that finds what is open without looking at the rest."""

import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from holdfast.conversation import SuspensionKind
from holdfast.conversation.records.calls import Call, CallStatus, Suspension
from holdfast.conversation.records.rounds import Round
from holdfast.conversation.records.state import Turn

IDS = [f"call-{number}" for number in range(6)]


@st.composite
def a_call(draw):
    status = draw(st.sampled_from(CallStatus))
    suspension = None
    if status is CallStatus.AWAITING and draw(st.booleans()):
        suspension = Suspension(
            suspension_id=f"s-{draw(st.integers(1, 3))}",
            kind=draw(st.sampled_from(SuspensionKind)),
            seq=draw(st.integers(1, 9)),
            created_at=draw(st.integers(1, 9)),
            expires_at=draw(st.integers(10, 15)),
        )
    return Call(
        tool_call_id=draw(st.sampled_from(IDS)),
        tool=draw(st.sampled_from(["lookup", "ask"])),
        status=status,
        arguments_at=1,
        attempt=draw(st.integers(0, 2)),
        suspension=suspension,
    )


def naively(calls, call):
    """The same change to a tuple."""
    if any(other.tool_call_id == call.tool_call_id for other in calls):
        return tuple(call if other.tool_call_id == call.tool_call_id else other for other in calls)
    return (*calls, call)


def check(made, calls):
    """A round says of itself what a look at each of its calls says."""
    assert tuple(made) == calls
    assert len(made) == len(calls)
    assert made == Round(calls)
    assert hash(made) == hash(Round(calls))
    assert made.running() == tuple(call for call in calls if call.status is CallStatus.RUNNING)
    assert made.awaiting() == tuple(call for call in calls if call.status is CallStatus.AWAITING)
    assert made.open() == tuple(call for call in calls if call.open)
    assert made.any_running == any(call.status is CallStatus.RUNNING for call in calls)
    assert made.any_awaiting == any(call.status is CallStatus.AWAITING for call in calls)
    assert made.any_open == any(call.open for call in calls)
    deadlines = [call.suspension.expires_at for call in calls if call.suspension is not None]
    assert made.suspended_count == len(deadlines)
    assert made.due_at == min(deadlines, default=None)
    for now in range(9, 17):
        late = tuple(call for call in calls if call.suspension is not None and call.suspension.expires_at <= now)
        assert made.due(now) == late
    for tool_call_id in [*IDS, "", "call-99"]:
        assert made.of(tool_call_id) == next((call for call in calls if call.tool_call_id == tool_call_id), None)
        for attempt in range(4):
            effect_id = f"{tool_call_id}#{attempt}"
            runs = [call for call in calls if call.status is CallStatus.RUNNING and call.effect_id == effect_id]
            assert made.run(effect_id) == next(iter(runs), None)


@settings(max_examples=200)
@given(st.lists(a_call(), max_size=25))
def test_a_round_is_what_a_tuple_would_be_and_stays_so(changes):
    # given rounds of which each follows from the one before
    made, calls = [Round()], [()]
    # when calls come and change
    for call in changes:
        made.append(made[-1].with_call(call))
        calls.append(naively(calls[-1], call))
    # then each of them, the older ones too, says what a tuple of the same calls would
    for one, expected in zip(made, calls, strict=True):
        check(one, expected)


@given(st.lists(a_call(), max_size=6, unique_by=lambda call: call.tool_call_id))
def test_a_round_is_stored_as_the_list_of_its_calls_and_travels_whole(calls):
    turn = Turn(turn_id="t1", message_seq=2, spec_digest="d", code="c", max_model_calls=5, calls=Round(calls))

    dumped = turn.model_dump(exclude_defaults=True)

    assert list(dumped.get("calls", ())) == [call.model_dump(exclude_defaults=True) for call in calls]
    assert ("calls" in dumped) == bool(calls)
    assert turn.model_dump(mode="json")["calls"] == [call.model_dump(mode="json") for call in calls]
    for read in (
        Turn.model_validate(dumped),
        Turn.model_validate_json(turn.model_dump_json()),
        pickle.loads(pickle.dumps(turn)),  # noqa: S301 - our own
        turn.model_copy(deep=True),
    ):
        assert read == turn
        assert hash(read) == hash(turn)
        check(read.calls, tuple(calls))


def test_a_round_is_a_sequence():
    calls = [Call(tool_call_id=name, tool="lookup", status=CallStatus.RUNNING, arguments_at=1) for name in IDS]
    made = Round(calls)

    assert made[0] == calls[0]
    assert made[-1] == calls[-1]
    assert made[1:4] == tuple(calls[1:4])
    assert made[::-2] == tuple(calls[::-2])
    assert calls[2] in made
    assert made.index(calls[3]) == 3
    assert made != tuple(calls)
    assert repr(made).startswith("Round([Call(")
    with pytest.raises(IndexError):
        _ = made[6]


def test_a_snapshot_in_which_a_call_stands_twice_is_refused():
    call = {"tool_call_id": "a", "tool": "lookup", "status": "running", "arguments_at": 1}

    with pytest.raises(ValidationError, match="twice"):
        Turn.model_validate(
            {
                "turn_id": "t1",
                "message_seq": 2,
                "spec_digest": "d",
                "code": "c",
                "max_model_calls": 5,
                "calls": [call, call],
            }
        )


def test_what_is_no_list_of_calls_is_refused():
    with pytest.raises(ValidationError):
        Turn(turn_id="t1", message_seq=2, spec_digest="d", code="c", max_model_calls=5, calls=[1])
