"""What a step costs when an answer asked for very many calls: in proportion to what it changes. Counted, never timed."""

import sys
from collections import Counter

import pytest

from holdfast.conversation import (
    AgentSpec,
    Answer,
    Approval,
    Approve,
    Executor,
    Limits,
    State,
    ToolSpec,
    decide,
    evolve,
    outstanding,
)
from holdfast.conversation.delta import delta
from holdfast.conversation.ids import unique_call_ids
from holdfast.conversation.machine import busy, due_at
from holdfast.testing.writer import begin, call, cancel, finish, lose, resolve, start, wake

NOW = 1_700_000_000_000
SPEC = AgentSpec(
    name="desk",
    model="test/model",
    tools=(
        ToolSpec(name="lookup"),
        ToolSpec(name="refund", approval=Approval.REQUIRED),
        ToolSpec(name="ask", executor=Executor.HUMAN),
        ToolSpec(name="share", executor=Executor.CLIENT, approval=Approval.REQUIRED),
    ),
    limits=Limits(max_calls=10_000, reply_bytes=10**8),
)
FEW, MANY = 300, 1_200


def work(function, *args):
    """How many functions are called, ours and those written in C, and what comes of it."""
    counted = Counter()

    def profile(_frame, event, _arg):
        counted[event] += 1

    sys.setprofile(profile)
    try:
        result = function(*args)
    finally:
        sys.setprofile(None)
    return counted["call"] + counted["c_call"], result


def said(state, step, at=NOW):
    """The command that a step makes of the state, as a host hands it over."""
    return step(state).stamped(at, SPEC, {})


def asked_for(tool, count):
    """A conversation before and after its model has asked for so many calls of one tool."""
    state = State(conversation_id="c-1")
    for step in (start(), begin()):
        state = decide(state, said(state, step)).state
    return state, decide(state, said(state, call(*[tool] * count))).state


def resolution(state, number, decision, at=NOW + 1):
    one = state.calls[number]
    return said(state, resolve(decision, one.tool_call_id, suspension_id=one.suspension.suspension_id), at)


def judged(state, command):
    """A command as a host judges it, with all that its write says of the state."""
    judgement = decide(state, command)
    after = judgement.state
    changes = delta(state, after, judgement.events)
    return changes, after.status, due_at(after), busy(after), after.calls.suspended_count


STEPS = {
    "an approval": ("refund", lambda state, number: resolution(state, number, Approve())),
    "an answer": ("ask", lambda state, number: resolution(state, number, Answer("x"))),
    "the first of two approvals": ("share", lambda state, number: resolution(state, number, Approve())),
    "a run's end": ("lookup", lambda state, number: said(state, finish(state.calls[number].effect_id), NOW + 1)),
    "a lost run": ("lookup", lambda state, number: said(state, lose(state.calls[number].effect_id), NOW + 1)),
    "a late outcome": ("lookup", lambda state, _number: said(state, lose(f"{state.calls[1].tool_call_id}#7"), NOW + 1)),
}


@pytest.mark.parametrize("step", STEPS)
def test_a_step_among_many_calls_costs_what_it_costs_among_few(step):
    tool, command = STEPS[step]
    counts = []
    for size in (FEW, MANY):
        _, state = asked_for(tool, size)
        one = command(state, size // 2)
        if step == "a late outcome":
            counts.append(work(decide, state, one)[0])
        else:
            counts.append(work(judged, state, one)[0])

    assert counts[1] <= 1.3 * counts[0]


@pytest.mark.parametrize("tool", ["lookup", "ask"])
def test_the_last_calls_of_many_cost_what_the_last_of_few_cost(tool):
    counts = []
    for size in (100, 800):
        _, state = asked_for(tool, size)
        step = STEPS["a run's end" if tool == "lookup" else "an answer"][1]
        for number in range(size - 2):
            state = decide(state, step(state, number)).state
        counts.append(work(judged, state, step(state, size - 2))[0])

    assert counts[1] <= 1.3 * counts[0]


def fold(state, events):
    for event in events:
        state = evolve(state, event)
    return state


@pytest.mark.parametrize("tool", ["lookup", "refund", "nobody_has_it"])
def test_four_times_as_many_calls_cost_four_times_as_much(tool):
    costs = []
    for size in (FEW, MANY):
        before, _ = asked_for("lookup", 1)
        # when the model asks for them, the answer is folded again, all is cancelled, or all has expired
        answered, judgement = work(decide, before, said(before, call(*[tool] * size)))
        state = judgement.state
        folded, again = work(fold, before, judgement.events)
        changed, _ = work(delta, before, state, judgement.events)
        cancelled, cancelling = work(decide, state, said(state, cancel()))
        expired, _ = work(decide, state, said(state, wake(), (due_at(state) or NOW) + 1))
        over, _ = work(delta, state, cancelling.state, cancelling.events)
        listed, _ = work(outstanding, state)
        assert again == state
        costs.append([answered, folded, changed, cancelled, expired, over, listed])

    for few, many in zip(*costs, strict=True):
        assert many <= 6 * few


class Text(str):
    """A text that counts how often it is compared."""

    __slots__ = ()
    compared = 0

    def __eq__(self, other):
        Text.compared += 1
        return super().__eq__(other)

    __hash__ = str.__hash__


def test_finding_unique_ids_compares_no_id_with_all_others():
    ids = [Text(f"call_{number}") for number in range(MANY)]
    Text.compared = 0

    unique = unique_call_ids([*ids, Text("call_0")], frozenset(), "c-1/m1", lambda call_id: f"c:{call_id}")

    assert len(set(unique)) == MANY + 1
    assert Text.compared <= 2 * MANY


def test_every_call_of_an_answer_may_be_decided_on_in_any_order():
    _, state = asked_for("share", 40)
    for number in [*range(39, -1, -1), *range(40)]:
        decision = Approve() if state.calls[number].suspensions == 1 else Answer(number)
        judgement = decide(state, resolution(state, number, decision, NOW + 100 - number))
        changes = delta(state, judgement.state, judgement.events)
        assert [entry.suspension_id for entry in changes.closed] == [state.calls[number].suspension.suspension_id]
        state = judgement.state
        waiting = [call.suspension for call in state.calls if call.suspension is not None]
        assert due_at(state) == min((one.expires_at for one in waiting), default=None)
    assert not state.calls.any_open
