"""What a step costs when an answer asked for very many calls: in proportion to what it changes. Counted, never timed."""

import sys
from collections import Counter

import pytest
from writer import begin, call, cancel, finish, lose, resolve, revoke, rule, send, start, wake

from holdfast.conversation import (
    AgentSpec,
    Answer,
    Approval,
    Approve,
    Executor,
    Limits,
    Principal,
    State,
    ToolSpec,
    decide,
    evolve,
    outstanding,
)
from holdfast.conversation.ids import unique_call_ids
from holdfast.conversation.judging.deciding import MOST_EDITS
from holdfast.conversation.judging.noting import MOST_NOTES
from holdfast.conversation.log.index import delta
from holdfast.conversation.records.commands import Assign, Comment, EscalateCall, ProposedCall, RunFinished
from holdfast.conversation.terms.approvers import MOST_BYTES, MOST_NAMES, MOST_VOTES, Approvers, terms_of
from holdfast.conversation.terms.grants import LONGEST_VALUE, MOST_GRANTS, MOST_TARGETS, CallTarget, Level, Scope
from holdfast.conversation.terms.principal import Proof
from holdfast.conversation.terms.rule_verdict import RuleEffect
from holdfast.errors import AlreadyVoted, InvalidDecision, InvalidInput
from holdfast.persistence import codec

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
    return changes, after.status, after.due_at, after.busy, after.calls.suspended_count


def by(command, who, roles=("r01",)):
    """A command of somebody who has proven to be that person."""
    return command.model_copy(update={"principal": Principal(who, roles=roles, proof=Proof.OIDC)})


def note(state, number, kind=Comment, at=NOW + 1, **said_of_it):
    """A comment on a call that waits, or who takes it on, from somebody who may decide it."""
    one = state.calls[number]
    waits = {"tool_call_id": one.tool_call_id, "suspension_id": one.suspension.suspension_id}
    command = kind(request_id=f"x-{state.seq}", **waits, **said_of_it)
    return by(command.stamped(at, SPEC, {}), "ana")


TWO = ProposedCall(tool_call_id="call_1", name="refund", arguments="{}", approvers=Approvers("role:r01", minimum=2).terms)
STEPS = {
    "a vote": (TWO, lambda state, number: by(resolution(state, number, Approve()), "ana")),
    "an edit of what is voted on": (TWO, lambda state, number: by(resolution(state, number, Approve({"a": 1})), "ana")),
    "a comment": (TWO, lambda state, number: note(state, number, text="looks odd")),
    "who takes it on": (TWO, lambda state, number: note(state, number, Assign, to="ana")),
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
        expired, _ = work(decide, state, said(state, wake(), (state.due_at or NOW) + 1))
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
        approves = state.calls[number].suspensions == 1
        judgement = decide(state, resolution(state, number, Approve() if approves else Answer(number), NOW + 100 - number))
        changes = delta(state, judgement.state, judgement.events)
        assert [entry.suspension_id for entry in changes.closed] == [state.calls[number].suspension.suspension_id]
        state = judgement.state
        if approves:
            assert len(changes.scheduled) == 1
            state = decide(
                state, said(state, rule(state.calls[number].tool_call_id, RuleEffect.ALLOW), NOW + 100 - number)
            ).state
        waiting = [call.suspension for call in state.calls if call.suspension is not None]
        assert state.due_at == min((one.due_at for one in waiting), default=None)
    assert not state.calls.any_open


LONGEST = "a" * LONGEST_VALUE
ANA = Principal("a" * 200, roles=("r" * 60,) * 4, proof="oidc")


def with_grants(count, pattern=LONGEST):
    """A conversation that has so many grants, given by somebody with a long name, and waits for another decision."""
    state = State(conversation_id="c-1")
    for step in (start(), begin(), call(*["share"] * (count + 1))):
        state = decide(state, said(state, step)).state
    scope = Scope("path", pattern, level="read")
    for number in range(count):
        command = resolution(state, number, Approve(scope=scope), NOW + number)
        state = decide(state, command.model_copy(update={"principal": ANA})).state
    return state


def kept(state):
    """How many bytes a snapshot of the state has, as the stores keep it."""
    return len(codec.encode(state))


def test_what_grants_add_to_a_state_is_bounded():
    one, most = (sum(len(grant.model_dump_json()) for grant in with_grants(count).grants) for count in (1, MOST_GRANTS))
    assert most <= MOST_GRANTS * (one + 10)
    assert len(with_grants(MOST_GRANTS).grants) == MOST_GRANTS
    with pytest.raises(InvalidDecision, match="grants"):
        with_grants(MOST_GRANTS + 1)


def test_grants_that_end_and_are_given_anew_leave_nothing_behind():
    state = with_grants(0)
    sizes = []
    for turn in range(40):
        scope = Scope("path", LONGEST, level="read")
        state = decide(state, resolution(state, 0, Approve(scope=scope), NOW + turn)).state
        (grant,) = state.grants
        state = decide(state, said(state, revoke(grant.grant_id), NOW + turn)).state
        state = decide(state, said(state, cancel(), NOW + turn)).state
        for step in (send(), begin(), call("share")):
            state = decide(state, said(state, step, NOW + turn)).state
        sizes.append(kept(state))
    assert sizes[-1] <= sizes[0] + 40, "but for the digits of its numbers"


@pytest.mark.parametrize("tool", ["refund", "lookup", "share"])
def test_what_targets_add_to_a_state_is_bounded(tool):
    fitting = tuple(CallTarget(kind="k" * 32, value="a" * LONGEST_VALUE) for _ in range(MOST_TARGETS))
    more = (*fitting, fitting[0])
    longer = (CallTarget(kind="path", value="a" * (LONGEST_VALUE + 1)),)
    sizes = {}
    for name, targets in (("none", None), ("fitting", fitting), ("more", more), ("longer", longer)):
        proposed = ProposedCall(tool_call_id="call_1", name=tool, arguments="{}", targets=targets)
        _, state = asked_for(proposed, 1)
        sizes[name] = kept(state)
    assert sizes["none"] < sizes["fitting"] <= sizes["none"] + MOST_TARGETS * (LONGEST_VALUE + 32 + 60) + 20
    assert max(sizes["more"], sizes["longer"]) <= sizes["none"] + 20


@pytest.mark.parametrize("grants", [0, MOST_GRANTS])
def test_four_times_as_many_calls_cost_four_times_as_much_under_any_number_of_grants(grants):
    base = with_grants(grants, "src/*/x*y*/**")
    costs = []
    for size in (25, 100):
        state = decide(base, said(base, cancel(), NOW + 100)).state
        for step in (send(), begin()):
            state = decide(state, said(state, step, NOW + 100)).state
        target = CallTarget(kind="path", value="lib/a", level=Level.READ)
        calls = [
            ProposedCall(tool_call_id=f"call_x{number}", name="refund", arguments="{}", targets=(target,))
            for number in range(size)
        ]
        asked, judgement = work(decide, state, said(state, call(*calls), NOW + 100))
        decided, _ = work(decide, judgement.state, resolution(judgement.state, 0, Approve(), NOW + 101))
        costs.append((asked, decided))
    assert costs[1][0] <= 6 * costs[0][0]
    assert costs[1][1] <= 1.3 * costs[0][1]


LONG_NAMES = [f"p{number:02}".ljust(200, "p") for number in range(MOST_VOTES)]


def longest_terms():
    """Terms with as many bytes of names as a call may have, which as many people as possible have to agree to."""
    named = [f"role:r{number:02}".ljust(MOST_BYTES // MOST_NAMES, "r") for number in range(MOST_NAMES)]
    return terms_of(Approvers(*named, minimum=MOST_VOTES), "approvers")


def with_votes(votes, notes, *, edits=0):
    """A conversation whose call was edited, then agreed to by so many people, and noted on so often; whoever does it may."""
    terms = longest_terms()
    role = terms.who[0][0].removeprefix("role:")
    proposed = ProposedCall(tool_call_id="call_1", name="refund", arguments="{}", approvers=terms)
    _, state = asked_for(proposed, 1)
    commands = [lambda state, n=n: by(resolution(state, 0, Approve({"a": n})), LONG_NAMES[0], [role]) for n in range(edits)]
    commands += [
        lambda state: by(note(state, 0, text="x" * 4_000), LONG_NAMES[0], [role]),
        lambda state: by(note(state, 0, Assign, to=LONG_NAMES[0]), LONG_NAMES[0], [role]),
    ] * (notes // 2)
    skip = 1 if edits else 0
    commands += [
        lambda state, who=who: by(resolution(state, 0, Approve()), who, [role]) for who in LONG_NAMES[skip : skip + votes]
    ]
    for command in commands:
        state = decide(state, command(state)).state
    return state, role


def test_what_votes_and_notes_add_to_a_state_is_bounded():
    sizes = {(votes, notes): kept(with_votes(votes, notes)[0]) for votes in (0, 15) for notes in (0, MOST_NOTES)}
    bare = kept(asked_for("refund", 1)[1])
    assert bare < sizes[0, 0] <= bare + MOST_BYTES + 5 * MOST_NAMES + 100, "the terms"
    votes, notes = (MOST_VOTES - 1) * (200 + 16 + 30), (MOST_NOTES + MOST_VOTES) * 10
    assert sizes[0, 0] < sizes[0, MOST_NOTES] <= sizes[0, 0] + notes
    assert sizes[0, 0] < sizes[15, 0] <= sizes[0, 0] + votes + 16 * 10
    assert sizes[15, MOST_NOTES] <= sizes[0, 0] + votes + notes


def test_after_the_last_note_a_call_takes_votes_but_no_notes_and_no_second_vote():
    state, role = with_votes(MOST_VOTES - 1, MOST_NOTES)
    suspension = state.calls[0].suspension
    assert (len(suspension.votes), len(suspension.notes)) == (MOST_VOTES - 1, MOST_NOTES + MOST_VOTES - 1)
    for refused in (note(state, 0, text="more"), note(state, 0, Assign, to="ana")):
        with pytest.raises(InvalidInput, match="64 notes"):
            decide(state, by(refused, LONG_NAMES[0], [role]))
    with pytest.raises(AlreadyVoted):
        decide(state, by(resolution(state, 0, Approve()), LONG_NAMES[0], [role]))
    state = decide(state, by(resolution(state, 0, Approve()), LONG_NAMES[-1], [role])).state
    assert not state.calls.suspended_count
    waited = kept(with_votes(0, 0)[0])
    assert kept(state) < waited + MOST_BYTES + 5 * MOST_NAMES + 200, "votes and notes are gone; who has approved it is kept"
    outcome = RunFinished(effect_id=state.calls[0].effect_id, ok=True, content="{}")
    state = decide(state, outcome.stamped(state.updated_at, None, {})).state
    assert kept(state) < waited + 200


def test_escalated_approvers_are_kept_beside_the_calls_own_and_no_third_time():
    sizes = []
    for stages in range(3):
        state, role = with_votes(0, 0)
        for _ in range(stages):
            state = decide(state, by(note(state, 0, EscalateCall, approvers=longest_terms()), LONG_NAMES[0], [role])).state
        sizes.append(kept(state))
        assert state.calls[0].replaced == (longest_terms() if stages else None)
    assert sizes[0] + MOST_BYTES < sizes[1] <= sizes[2] <= sizes[0] + MOST_BYTES + 5 * MOST_NAMES + 300


def test_edits_of_what_several_agree_to_leave_no_votes_behind():
    sizes = [kept(with_votes(14, MOST_NOTES - 2, edits=edits)[0]) for edits in (1, MOST_EDITS)]
    assert sizes[1] <= sizes[0] + 100, "but for the digits of its numbers"
    state, role = with_votes(1, 2, edits=MOST_EDITS)
    with pytest.raises(InvalidDecision, match="edited 8 times"):
        decide(state, by(resolution(state, 0, Approve({"a": 100})), LONG_NAMES[2], [role]))


def test_a_vote_and_a_note_on_what_has_many_cost_what_they_cost_on_what_has_few():
    costs = []
    for votes, notes in ((1, 2), (MOST_VOTES - 2, MOST_NOTES - MOST_VOTES)):
        state, role = with_votes(votes, notes)
        vote = by(resolution(state, 0, Approve()), LONG_NAMES[-1], [role])
        comment = by(note(state, 0, text="looks odd"), LONG_NAMES[0], [role])
        costs.append((work(judged, state, vote)[0], work(judged, state, comment)[0]))
    for few, many in zip(*costs, strict=True):
        assert many <= 1.6 * few
