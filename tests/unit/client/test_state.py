"""What a client says of a conversation: what runs, why it stopped, what a suspended call looks like."""

import asyncio

import pytest
from stores import InMemory
from writer import Writer, begin, call, fail_model, lose, reply, resolve, start

from holdfast.actors.worker.live import Progress
from holdfast.actors.workers import RunRequest
from holdfast.client import AsyncClient, stack_state
from holdfast.client.stack_gateway import StackGateway
from holdfast.conversation import Answer, Approve, Executor, FailureReason, Status, StopReason, Tell, WaitsFor
from holdfast.conversation.records.events import TurnCompleted
from holdfast.errors import CorruptStore
from holdfast.persistence import MemoryStore
from holdfast.testing import FailBefore, Faults, FaultyStore


@pytest.fixture
def store():
    return MemoryStore()


@pytest.fixture
def conversation(store):
    return AsyncClient(StackGateway(InMemory(store), timeout_s=30)).conversation("c-1")


async def test_the_state_says_of_each_running_call_its_tool_arguments_since_when_and_how_far(store, conversation):
    writer = await Writer.of(store, "c-1")
    await writer.do(start(), begin(), call(("lookup", '{"order": 7}'), ("refund", '{"order": 8}')), now=1_000)
    looking, _ = writer.state.calls
    await store.claim("c-1", looking.effect_id, incarnation="i-1", worker="w-1")
    request = RunRequest(
        code="k",
        conversation_id="c-1",
        agent="desk",
        spec_digest="",
        effect_id=looking.effect_id,
        turn_id="t-1",
        tool_call_id=looking.tool_call_id,
        tool="lookup",
        attempt=1,
        arguments_at=looking.arguments_at,
    )
    report = Progress(store, request, asyncio.get_running_loop())
    report(0.25, "a quarter")
    while not await store.progress("c-1"):
        await asyncio.sleep(0)

    state = await conversation.state()

    (shown,) = state.running
    assert (shown.tool_call_id, shown.tool, shown.arguments) == (looking.tool_call_id, "lookup", '{"order": 7}')
    assert (shown.since, shown.attempt, shown.executor) == (1_000, 1, Executor.SERVER)
    assert shown.progress["value"] == 0.25
    assert shown.progress["message"] == "a quarter"
    assert shown.progress["at"] > 0


async def test_a_run_that_was_approved_or_repeated_runs_since_then_and_shows_the_edited_arguments(store, conversation):
    writer = await Writer.of(store, "c-1")
    await writer.do(start(), begin(), call("lookup", "refund"), now=1_000)
    await writer.do(resolve(Approve({"order": 9})), now=2_000)
    await writer.do(lose(writer.state.calls[0].effect_id), now=3_000)

    lookup, refund = (await conversation.state()).running

    assert (lookup.since, lookup.attempt) == (3_000, 2)
    assert (refund.since, refund.attempt, refund.arguments) == (2_000, 1, '{"order":9}')


async def test_arguments_of_a_running_call_are_shown_in_short(store, conversation):
    writer = await Writer.of(store, "c-1")
    await writer.do(start(), begin(), call(("lookup", '{"text": "%s"}' % ("x" * 10_000))))

    (shown,) = (await conversation.state()).running

    assert len(shown.arguments) == stack_state.SHORT_LENGTH + 1
    assert shown.arguments.endswith("…")


async def test_the_state_says_why_a_turn_failed_and_what_cut_a_reply_off(store, conversation):
    writer = await Writer.of(store, "c-1")
    await writer.do(start(), begin(), fail_model("too slow", reason=FailureReason.MODEL_TIMEOUT))

    failed = await conversation.state()

    assert (failed.error, failed.failed, failed.stopped) == ("too slow", FailureReason.MODEL_TIMEOUT, None)


async def test_the_state_says_what_cut_the_last_reply_off(store, conversation):
    writer = await Writer.of(store, "c-1")
    await writer.do(start(), begin(), lambda state: reply("half a sen")(state).model_copy(update={"finish_reason": "length"}))

    state = await conversation.state()

    assert isinstance(writer.events[-1], TurnCompleted)
    assert (state.reply, state.stopped, state.failed) == ("half a sen", StopReason.LENGTH, None)


async def suspended(events):
    return await anext(event async for event in events if event.kind == "call_suspended")


async def test_a_suspended_call_can_be_drawn_from_its_event(store, conversation):
    writer = await Writer.of(store, "c-1")
    await writer.do(start(), begin(), call(("refund", '{"order": 7}'), prompt="Refund 7?"))

    event = await suspended(conversation.events(live=False))

    assert event.data["arguments"] == {"order": 7}
    assert (event.data["tool"], event.data["prompt"]) == ("refund", "Refund 7?")


async def test_arguments_that_cannot_be_read_do_not_end_the_events(store):
    writer = await Writer.of(store, "c-1")
    await writer.do(start(), begin(), call("refund"))
    broken = FaultyStore(store, Faults(at=FailBefore(CorruptStore("an entry is torn"))))

    event = await suspended(AsyncClient(StackGateway(InMemory(broken), timeout_s=30)).conversation("c-1").events(live=False))

    assert event.data["arguments"] is None
    assert event.data["tool"] == "refund"


async def test_arguments_too_large_for_a_stream_are_left_to_the_list_of_what_is_pending(store, conversation, monkeypatch):
    monkeypatch.setattr(stack_state, "SHOWN_ARGUMENTS_BYTES", 100)
    writer = await Writer.of(store, "c-1")
    await writer.do(start(), begin(), call(("refund", '{"text": "%s"}' % ("x" * 100))))

    event = await suspended(conversation.events(live=False))

    assert event.data["arguments"] is None


async def test_wait_goes_on_while_machines_alone_are_waited_for(store, conversation):
    # given a conversation that waits for another one
    writer = await Writer.of(store, "c-1")
    await writer.do(start(), begin(), call(("consult", '{"task":"look into it"}')))
    # then nobody has to do anything, and whoever waits goes on waiting
    state = await conversation.state()
    assert (state.status, state.waits_for, state.pending) == (Status.AWAITING_INPUT, WaitsFor.MACHINES, [])
    waiting = asyncio.create_task(conversation.wait())
    assert not (await asyncio.wait([waiting], timeout=0.2))[0]
    # until that one has spoken and the turn is over
    waited = writer.state.calls[0].suspension
    told = Tell(suspension_id=waited.suspension_id, source=waited.source, ok=True, content='"it is fine"')
    await writer.do(lambda _: told, reply("done"))
    done = await waiting
    assert (done.status, done.waits_for, done.reply) == (Status.IDLE, None, "done")


async def test_wait_returns_if_a_person_is_waited_for_beside_a_machine(store, conversation):
    writer = await Writer.of(store, "c-1")
    await writer.do(start(), begin(), call(("consult", '{"task":"look into it"}'), "ask"))
    _, person = writer.state.calls
    state = await conversation.wait()
    assert (state.waits_for, [one.tool_call_id for one in state.pending]) == (WaitsFor.PEOPLE, [person.tool_call_id])
    await writer.do(resolve(Answer("blue"), person.tool_call_id))
    assert (await conversation.state()).waits_for is WaitsFor.MACHINES
