"""An agent's budget: once it is used up no turn begins, and the failure says until when."""

import pytest
from pydantic import ValidationError

from holdfast.conversation import AgentSpec, Budget, FailureReason, Status, When, evolve, outstanding
from holdfast.conversation.records.context_events import SummaryFailed
from holdfast.conversation.records.event_base import SummaryFailure
from holdfast.conversation.records.events import TurnFailed, TurnStarted
from holdfast.conversation.terms.budget import DAY_MS, DaySpent, Per, Spent
from holdfast.persistence import Append

USED = {"input_tokens": 40, "output_tokens": 2, "cost_usd": 0.1}


BOTH = (Budget(tokens=100), Budget(cost_usd=5, per="day"))
DAY = 1_795_000_000_000 // DAY_MS


def bounded(*budgets, **budget):
    return AgentSpec(name="desk", model="m", budgets=budgets or (Budget(**budget),))


@pytest.fixture
def begins(conversations):
    """A conversation of an agent with these budgets, whose first turn is at its model call."""
    return lambda *budgets, **budget: conversations(spec=bounded(*budgets, **budget)).begun()


def again(conversation, today=None):
    """The end of the next turn if it does not begin, else None."""
    conversation.send("and now?")
    conversation.begin(today=today)
    return conversation.log[-1] if isinstance(conversation.log[-1], TurnFailed) else None


def test_a_conversation_that_has_used_up_its_budget_begins_no_turn(begins):
    conversation = begins(cost_usd=0.2)
    conversation.reply(**USED)
    assert again(conversation) is None
    conversation.reply(**USED)
    failed = again(conversation)
    assert (failed.reason, failed.until) == (FailureReason.BUDGET_EXCEEDED, 0)
    assert failed.error == "this conversation has used 0.2 US dollars: its agent has Budget(cost_usd=0.2)"
    assert isinstance(conversation.log[-2], TurnStarted)
    assert (conversation.status, outstanding(conversation.state)) == (Status.FAILED, ())
    assert conversation.state.spent == Spent(tokens=84, nano_usd=200_000_000)


def test_a_turn_that_has_begun_goes_on_beyond_it(begins):
    conversation = begins(tokens=10)
    conversation.call("unknown", **USED)
    assert conversation.status is Status.GENERATING
    conversation.reply(**USED)
    assert conversation.status is Status.IDLE
    assert again(conversation).error == "this conversation has used 84 tokens: its agent has Budget(tokens=10)"


def test_every_message_that_waits_is_told_so(begins):
    conversation = begins(tokens=10)
    conversation.send("two")
    conversation.send("three")
    conversation.reply(**USED)
    for _ in range(2):
        conversation.begin()
        assert conversation.log[-1].reason is FailureReason.BUDGET_EXCEEDED
    assert conversation.state.queue == ()


def test_what_the_agent_has_used_today_bounds_all_its_conversations_until_midnight(begins):
    conversation = begins(cost_usd=5, per="day")
    conversation.reply(**USED)
    assert conversation.state.spent == Spent()
    assert again(conversation, DaySpent(DAY, Spent(tokens=10**9, nano_usd=4_999_999_999))) is None
    conversation.reply(**USED)
    failed = again(conversation, DaySpent(DAY, Spent(nano_usd=5_000_000_000)))
    assert (failed.reason, failed.until) == (FailureReason.BUDGET_EXCEEDED, (DAY + 1) * DAY_MS)
    assert failed.error == ("the agent has used 5 US dollars today: it has Budget(cost_usd=5, per='day'), until midnight (UTC)")


def test_both_bounds_of_a_budget_count_and_unknown_use_does_not(begins):
    budget = Budget(cost_usd=1, tokens=100)
    assert budget.exceeded(Spent(tokens=99, nano_usd=999_999_999)) is None
    assert "tokens=100" in budget.exceeded(Spent(tokens=100)).said
    assert "cost_usd=1" in budget.exceeded(Spent(nano_usd=1_000_000_000)).said
    conversation = begins(cost_usd=0.000000001, tokens=1)
    conversation.reply()
    assert again(conversation) is None
    assert again(begins(tokens=1, per="day"), None) is None


def test_an_agent_without_a_budget_counts_nothing_and_writes_what_it_wrote(conversations):
    conversation = conversations(spec=AgentSpec(name="desk", model="m")).begun()
    conversation.reply(**USED)
    assert "budget" not in "".join(event.model_dump_json(exclude_defaults=True) for event in conversation.log)
    assert "spent" not in conversation.state.model_dump_json(exclude_defaults=True)


@pytest.mark.parametrize(
    "bounds",
    [
        {},
        {"per": "day"},
        {"tokens": 0},
        {"tokens": 10**13},
        {"cost_usd": 0},
        {"cost_usd": float("inf")},
        {"tokens": 1, "per": "week"},
    ],
    ids=str,
)
def test_a_budget_that_is_none_is_refused(bounds):
    with pytest.raises(ValidationError):
        Budget(**bounds)


def test_the_words_of_per_are_those_of_the_enumeration():
    assert [Budget(tokens=1, per=one.value).per for one in Per] == list(Per)


def test_a_model_call_for_a_summary_counts_too(begins):
    conversation = begins(tokens=100)
    event = SummaryFailed(at=1, turn_id="t1", effect_id="t1.m1", reason=SummaryFailure.EMPTY, **USED)
    assert evolve(conversation.state, event).spent == Spent(tokens=42, nano_usd=100_000_000)
    daily = begins(tokens=100, per="day")
    before = daily.state
    write = Append(
        token="t",
        append_id="a",
        before=before,
        after=evolve(before, event),
        lease_ms=1,
        events=[event.model_copy(update={"at": DAY_MS})],
    )
    assert write.spent == DaySpent(1, Spent(tokens=42, nano_usd=100_000_000))


def test_an_answer_counts_toward_both_budgets_of_its_agent(begins):
    conversation = begins(*BOTH)
    assert conversation.state.turn.budgets == (Per.CONVERSATION, Per.DAY)
    before = conversation.state
    asked = conversation.reply(**USED)
    assert conversation.state.spent == Spent(tokens=42, nano_usd=100_000_000)
    write = Append("t", "a", before, conversation.state, 1, events=asked.events)
    assert write.spent == DaySpent(asked.events[0].at // DAY_MS, conversation.state.spent)


def test_the_budget_that_is_used_up_is_named_and_the_one_for_good_before_the_one_for_today(begins):
    little, much = DaySpent(DAY, Spent(tokens=1)), DaySpent(DAY, Spent(nano_usd=5_000_000_000))
    conversation = begins(*BOTH)
    conversation.reply(**USED)
    failed = again(conversation, much)
    assert ("the agent has used 5 US dollars" in failed.error, failed.until) == (True, (DAY + 1) * DAY_MS)
    for _ in range(2):
        assert again(conversation, little) is None
        conversation.reply(**USED)
    for today in (little, much):
        failed = again(conversation, today)
        assert (failed.error, failed.until) == ("this conversation has used 126 tokens: its agent has Budget(tokens=100)", 0)


@pytest.mark.parametrize(("tokens", "kind"), [(99, "input_joined"), (100, "turn_completed")])
def test_whether_a_message_joins_a_turn_is_up_to_the_budget_of_the_conversation_alone(begins, tokens, kind):
    conversation = begins(*BOTH)
    conversation.send("one", when=When.STEER)
    conversation.reply(input_tokens=tokens, cost_usd=9)
    assert conversation.log[-1].kind == kind


def test_messages_that_were_to_join_a_turn_beyond_it_have_turns_of_their_own(begins):
    conversation = begins(tokens=10)
    conversation.send("one", when=When.STEER)
    conversation.reply(**USED)
    assert (conversation.log[-1].kind, conversation.status) == ("turn_completed", Status.GENERATING)
    conversation.begin()
    assert conversation.log[-1].reason is FailureReason.BUDGET_EXCEEDED
