"""A summary that somebody asks for precedes the next model call of the turn that goes on; else it belongs to no turn."""

import pytest

from holdfast.conversation import (
    AgentSpec,
    BeginTurn,
    Budget,
    CallModel,
    CompactNow,
    Limits,
    ModelReplied,
    Status,
    Stop,
    Summarized,
    ToolSpec,
    When,
    outstanding,
)
from holdfast.conversation.log.work import effect_of
from holdfast.conversation.records.event_base import SummaryFailure
from holdfast.conversation.terms.budget import Per
from holdfast.conversation.terms.context import Compact, Context
from holdfast.errors import (
    ConversationBusy,
    ConversationEnded,
    ConversationNotFound,
    InvalidInput,
    NotQueued,
    QueueFull,
    TurnNotFound,
)
from holdfast.persistence import Append

COMPACTS = AgentSpec(
    name="desk",
    model="m",
    tools=(ToolSpec(name="lookup"),),
    context=Context(budget=8000, compact=Compact()),
    stop=Stop(timeout_s=60),
)


def compact(request_id="x-1"):
    return CompactNow(request_id=request_id)


def summary(**more):
    said = {"summary": "the order is 7", "boundary": 2, "messages": 1, "input_tokens": 90, "output_tokens": 5} | more
    return lambda state: Summarized(effect_id=outstanding(state)[0].effect_id, **said)


def failure(reason=SummaryFailure.NOT_ASKED):
    return lambda state: Summarized(effect_id=outstanding(state)[0].effect_id, failed=reason, error="too little")


def kinds(judgement):
    return [event.kind for event in judgement.events]


@pytest.fixture
def idle(conversations):
    """An idle conversation whose only turn is over."""
    conversation = conversations(spec=COMPACTS).begun()
    conversation.reply("it is 7")
    return conversation


def test_an_idle_conversation_is_summarised_in_no_turn(idle):
    before, at = idle.state, idle.state.seq + 1
    receipt = idle.do(compact()).reply
    assert (receipt.seq, receipt.duplicate) == (at, False)
    assert receipt.audit_head == idle.state.audit_head
    assert outstanding(idle.state) == (BeginTurn(effect_id=f"begin:{at}", message_seq=at),)
    idle.begin()
    [effect] = outstanding(idle.state)
    assert isinstance(effect, CallModel)
    assert (effect.effect_id, effect.compact, effect.message_seq) == (f"c{at}.m1", True, at)
    assert kinds(idle.do(summary())) == ["compacted"]
    # then nothing is left of it but the summary
    assert (idle.status, outstanding(idle.state)) == (Status.IDLE, ())
    assert (idle.state.boundary, idle.state.compacted_at) == (2, idle.state.seq)
    assert (idle.state.turns, idle.state.last, idle.state.compacting) == (before.turns, before.last, 0)
    idle.send("and now?")
    idle.begin()
    assert (idle.effect_ids, outstanding(idle.state)[0].compact) == (["t2.m1"], False)


def test_a_failure_ends_it_as_well(idle):
    idle.do(compact())
    idle.begin()
    assert kinds(idle.do(failure())) == ["summary_failed"]
    assert (idle.status, idle.state.boundary, idle.state.compacting) == (Status.IDLE, 0, 0)


@pytest.mark.parametrize("outcome", [summary(), failure()], ids=["summary", "failure"])
def test_a_conversation_whose_last_turn_failed_has_still_failed_behind_it(conversations, outcome):
    conversation = conversations(spec=COMPACTS).begun()
    conversation.fail_model("overloaded")
    conversation.do(compact())
    conversation.begin()
    conversation.do(outcome)
    assert conversation.status is Status.FAILED


def test_its_model_call_that_fails_is_a_summary_that_failed(idle):
    idle.do(compact())
    idle.begin()
    idle.fail_model("no answer in time")
    assert (idle.log[-1].kind, idle.log[-1].reason, idle.log[-1].error) == ("summary_failed", "no_answer", "no answer in time")
    assert (idle.status, idle.state.last.outcome) == (Status.IDLE, "completed")


def test_an_answer_in_place_of_a_summary_is_no_answer_of_a_turn(idle):
    idle.do(compact())
    idle.begin()
    idle.do(lambda state: ModelReplied(effect_id=outstanding(state)[0].effect_id, content="Hello"))
    assert (idle.log[-1].kind, idle.log[-1].reason, idle.status) == ("summary_failed", "unusable", Status.IDLE)


def test_without_an_agent_there_is_no_summary(idle):
    idle.do(compact())
    idle.begin(problem="the agent is gone")
    assert [event.kind for event in idle.log[-2:]] == ["compaction_started", "summary_failed"]
    assert (idle.log[-1].error, idle.log[-1].reason, idle.status) == ("the agent is gone", "not_asked", Status.IDLE)


def test_a_budget_that_is_used_up_allows_no_summary_and_a_summary_counts_toward_it(conversations):
    spec = COMPACTS.model_copy(update={"stop": None, "budgets": (Budget(tokens=100, per=Per.CONVERSATION),)})
    conversation = conversations(spec=spec).begun()
    conversation.reply("it is 7", input_tokens=5)
    conversation.do(compact())
    conversation.begin()
    conversation.do(summary())
    assert conversation.state.spent.tokens == 100
    conversation.do(compact("x-2"))
    conversation.begin()
    assert (conversation.log[-1].kind, conversation.log[-1].reason) == ("summary_failed", "not_asked")
    assert conversation.status is Status.IDLE


def test_the_time_of_a_turn_is_none_of_a_summary(idle):
    idle.do(compact())
    idle.begin()
    assert (idle.state.due_at, idle.state.turn.counted) == (None, False)


def test_the_next_model_call_of_a_turn_is_preceded_by_it(conversations):
    conversation = conversations(spec=COMPACTS).begun()
    [call] = conversation.call("lookup")
    conversation.do(compact())
    assert conversation.status is Status.EXECUTING_TOOLS
    conversation.finish(call)
    [effect] = outstanding(conversation.state)
    assert (effect.effect_id, effect.compact) == ("t1.m2", True)
    conversation.do(summary())
    [effect] = outstanding(conversation.state)
    assert (effect.effect_id, effect.compact) == ("t1.m2.r1", False)
    conversation.reply("it is 7")
    assert (conversation.status, outstanding(conversation.state)) == (Status.IDLE, ())


def test_a_turn_that_ends_before_leaves_it_to_be_made_by_itself(conversations):
    conversation = conversations(spec=COMPACTS).begun()
    conversation.do(compact())
    conversation.send("and now?")
    conversation.reply("it is 7")
    assert conversation.effect_ids == [f"begin:{conversation.state.compacting}"]
    conversation.begin()
    conversation.do(summary())
    conversation.begin()
    assert (conversation.effect_ids, outstanding(conversation.state)[0].compact) == (["t2.m1"], False)


def test_a_summary_that_was_due_anyway_serves_the_request(conversations):
    conversation = conversations(spec=COMPACTS).begun()
    conversation.do(compact())
    conversation.do(summary())
    conversation.reply("it is 7")
    assert (conversation.state.compacting, outstanding(conversation.state)) == (0, ())


def test_further_requests_are_served_by_the_same_summary(idle):
    first = idle.do(compact("x-1")).reply.seq
    second = idle.do(compact("x-2")).reply.seq
    assert (idle.state.compacting, second) == (first, first + 1)
    idle.begin()
    idle.do(compact("x-3"))
    idle.do(summary())
    assert (idle.status, outstanding(idle.state)) == (Status.IDLE, ())


def test_as_many_requests_wait_for_one_summary_as_messages_may(conversations):
    few = COMPACTS.model_copy(update={"limits": Limits(queued=2)})
    conversation = conversations(spec=few).begun()
    conversation.do(compact("x-1"))
    conversation.do(compact("x-2"))
    with conversation.unchanged(), pytest.raises(QueueFull):
        conversation.judge(compact("x-3"))
    conversation.do(summary())
    conversation.do(compact("x-3"))
    assert conversation.state.compact_requests == 1


def test_a_request_is_no_progress(idle):
    before = idle.state
    asked = idle.do(compact())
    assert not Append("", "a-1", before, idle.state, 0, events=asked.events).advances


def test_an_answer_in_place_of_a_summary_is_paid_for(conversations):
    conversation = conversations(spec=COMPACTS.model_copy(update={"budgets": (Budget(tokens=1000),)})).begun()
    conversation.reply("it is 7")
    conversation.do(compact())
    conversation.begin()
    before = conversation.state.spent.tokens
    conversation.do(
        lambda state: ModelReplied(effect_id=outstanding(state)[0].effect_id, content="?", input_tokens=90, output_tokens=5)
    )
    assert conversation.state.spent.tokens == before + 95


def test_a_repeated_request_has_the_first_receipt_and_asks_for_nothing(idle):
    first = idle.do(compact()).reply
    idle.begin()
    idle.do(summary())
    with idle.unchanged():
        again = idle.judge(compact()).reply
    assert again == first.model_copy(update={"duplicate": True})


def test_an_id_of_another_request_is_refused(idle):
    idle.do(compact())
    with idle.unchanged(), pytest.raises(InvalidInput, match="request_id"):
        idle.end(request_id="x-1")


def test_the_agent_of_a_turn_has_to_have_its_conversations_summarised(conversations):
    conversation = conversations(spec=COMPACTS.model_copy(update={"context": Context(budget=8000)})).begun()
    with conversation.unchanged(), pytest.raises(InvalidInput, match="has no Compact"):
        conversation.do(compact())
    conversation.reply("it is 7")  # by the next turn another spec may be published
    conversation.do(compact())


def test_there_is_none_of_a_conversation_that_never_began_or_is_over(conversations):
    with pytest.raises(ConversationNotFound):
        conversations().do(compact())
    conversation = conversations(spec=COMPACTS).begun()
    conversation.do(compact())
    conversation.end()
    assert (conversation.state.compacting, outstanding(conversation.state)) == (0, ())
    with pytest.raises(ConversationEnded):
        conversation.do(compact("x-2"))


def test_an_interruption_supersedes_it(idle):
    idle.do(compact())
    done = idle.interrupt("stop that").reply
    assert (done.superseded, done.turn_id, idle.state.compacting) == ((), None, 0)
    idle.begin()
    assert outstanding(idle.state)[0].compact is False


def test_an_interruption_cancels_it_while_it_is_under_way(idle):
    idle.do(compact())
    idle.begin()
    named = idle.state.turn.turn_id
    assert idle.interrupt().reply.turn_id == named
    assert (idle.status, idle.state.compacting, outstanding(idle.state)) == (Status.IDLE, 0, ())


@pytest.mark.parametrize("begins", [False, True], ids=["waiting", "under way"])
def test_it_can_be_cancelled(idle, begins):
    at = idle.do(compact()).reply.seq
    if begins:
        idle.begin()
    assert idle.cancel().reply.turn_id == f"c{at}"
    assert (idle.status, idle.state.compacting, outstanding(idle.state)) == (Status.IDLE, 0, ())
    assert idle.state.last.outcome == "completed"
    assert idle.cancel(turn_id=f"c{at}").reply.turn_id is None
    with pytest.raises(TurnNotFound):
        idle.cancel(turn_id="c99")


def test_it_is_no_message_that_waits(idle):
    at = idle.do(compact()).reply.seq
    assert (idle.state.waiting, len(idle.state.queue)) == ((), 1)
    with pytest.raises(NotQueued):
        idle.withdraw("x-1", at)
    with pytest.raises(ConversationBusy):
        idle.send("now or never", when=When.REJECT)


def test_a_steered_message_waits_for_its_turn_behind_it(idle):
    idle.do(compact())
    idle.begin()
    idle.send("and now?", when=When.STEER)
    idle.do(summary())
    idle.begin()
    assert idle.effect_ids == ["t2.m1"]


def test_a_late_outcome_of_it_is_ignored(idle):
    idle.do(compact())
    idle.begin()
    late = summary()(idle.state)
    idle.do(failure())
    assert effect_of(idle.state, late.effect_id) is None
    with idle.unchanged():
        assert idle.judge(late).ignored
