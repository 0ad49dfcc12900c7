"""One activation when what nobody foresaw happens: everything it does comes to an end, and says why."""

import asyncio
import time

import pytest
from hosted import GATED, OPEN, START, FakeWorkers, activated, decided, stored, until
from writer import call, fail_model, reply

from holdfast.actors.activation import activation as activation_module
from holdfast.actors.activation import judge as judging
from holdfast.actors.activation import outstanding
from holdfast.actors.workers import NoOutcome, NoWorker
from holdfast.conversation import AgentSpec, Approve, RunFinished, Send, Status, ToolSpec, Wake, decide
from holdfast.conversation.text.envelope import failure
from holdfast.errors import CorruptStore, Fenced, NewerRecord, Overloaded, StoreUnavailable
from holdfast.persistence import codec

DEADLINE_S = 20
UNGATED = START.model_copy(update={"spec": OPEN})


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    monkeypatch.setattr(outstanding, "LONGEST_DELAY_S", 0.01)


def broken(monkeypatch, kind, times=10**6):
    """Judging this kind of command breaks, so many times."""
    left = [times]

    def judge(state, command):
        if command.kind == kind and left[0]:
            left[0] -= 1
            message = "nobody foresaw this"
            raise ZeroDivisionError(message)
        return decide(state, command)

    monkeypatch.setattr(judging, "decide", judge)


class Losing(FakeWorkers):
    """Whose runs fail, or are lost."""

    def __init__(self, *answers, lost):
        super().__init__(*answers)
        self.lost = lost

    async def run_tool(self, app, code, request):
        await self.store.claim(request.conversation_id, request.effect_id, incarnation="i.1", worker="w")
        if self.lost:
            return NoOutcome.GONE
        outcome = RunFinished(effect_id=request.effect_id, ok=False, content=failure("no"))
        recorded = codec.encode(outcome)
        await self.store.finish(request.conversation_id, request.effect_id, incarnation="i.1", outcome=recorded)
        return outcome


PLAYS = {
    "turn_prepared": lambda: FakeWorkers(reply()),
    "model_failed": lambda: FakeWorkers(*[fail_model("bad key") for _ in range(9)]),
    "run_finished": lambda: Losing(call("refund"), reply(), lost=False),
    "run_lost": lambda: Losing(call("refund"), reply(), lost=True),
}
"""For each kind of outcome, workers that bring it about."""


async def quarantined(store):
    async with asyncio.timeout(DEADLINE_S):
        while (found := await store.quarantine("c-1")) is None:
            await asyncio.sleep(0.005)
    return found


@pytest.mark.parametrize("kind", PLAYS)
async def test_an_outcome_that_can_never_be_judged_puts_its_conversation_in_quarantine_with_the_reason(kind, monkeypatch):
    broken(monkeypatch, kind)
    once = AgentSpec(name="desk", model="m", tools=(ToolSpec(name="refund", on_lost="error"),))
    store = await stored(once)
    active = await activated(store, PLAYS[kind]())
    await active.ask(START.model_copy(update={"spec": once}))

    found = await quarantined(store)

    assert kind in found.reason
    assert "nobody foresaw this" in found.reason
    assert active.over


@pytest.mark.parametrize("kind", PLAYS)
async def test_an_outcome_that_could_not_be_judged_once_is_brought_about_again(kind, monkeypatch):
    broken(monkeypatch, kind, times=1)
    once = AgentSpec(name="desk", model="m", tools=(ToolSpec(name="refund", on_lost="error"),))
    store = await stored(once)
    active = await activated(store, PLAYS[kind]())
    await active.ask(START.model_copy(update={"spec": once}))

    state = await until(store, lambda state: state.last is not None)

    assert state.last.outcome == ("failed" if kind == "model_failed" else "completed")
    assert await store.quarantine("c-1") is None


async def test_what_is_due_and_cannot_be_settled_ends_in_quarantine(monkeypatch):
    broken(monkeypatch, "wake")
    store, workers = await stored(GATED), FakeWorkers(call("refund"))
    active = await activated(store, workers)
    await active.ask(START)
    await until(store, lambda state: state.calls)
    for _ in range(2):
        with pytest.raises(StoreUnavailable, match="nobody foresaw this"):
            await active.ask(Wake())
    assert await store.quarantine("c-1") is None
    with pytest.raises(StoreUnavailable):
        await active.ask(Wake())
    assert "due" in (await quarantined(store)).reason


async def test_what_somebody_asks_and_nobody_can_judge_sets_nothing_aside(monkeypatch):
    broken(monkeypatch, "send")
    store, workers = await stored(GATED), FakeWorkers(call("refund"))
    active = await activated(store, workers)
    await active.ask(START)
    for number in range(5):
        with pytest.raises(StoreUnavailable):
            await active.ask(Send(text="hi", message_id=f"m-{number + 2}"))
    await active.ask(decided(await until(store, lambda state: state.calls), Approve()))
    assert await store.quarantine("c-1") is None
    workers.gate.set()


def wrapped(cause):
    """As a worker says it over Ray: the error is wrapped, and wrapped again."""
    task_error = RuntimeError("in a worker")
    task_error.cause = cause
    error = NoWorker(str(cause))
    error.__cause__ = task_error
    return error


@pytest.mark.parametrize(
    "error",
    [wrapped(CorruptStore("the log lacks entry 2")), ZeroDivisionError("the log lacks entry 2")],
    ids=["unreadable", "any"],
)
async def test_an_effect_that_fails_again_and_again_for_no_outside_reason_ends_in_quarantine(error, monkeypatch):
    monkeypatch.setattr(outstanding, "UNEXPLAINED", 3)
    monkeypatch.setattr(outstanding, "UNREADABLE", 3)
    store, workers = await stored(GATED), FakeWorkers(*[error] * 10)
    active = await activated(store, workers)
    await active.ask(START)

    found = await quarantined(store)

    assert "the log lacks entry 2" in found.reason
    assert (len(workers.calls), active.over) == (3, True)


@pytest.mark.parametrize("error", [wrapped(NewerRecord("log", 9, 3)), NoWorker("no worker")], ids=["newer", "away"])
async def test_what_an_older_process_cannot_read_or_no_worker_takes_is_waited_for(error, monkeypatch):
    monkeypatch.setattr(outstanding, "UNEXPLAINED", 3)
    store, workers = await stored(GATED), FakeWorkers(*[error] * 10, reply())
    active = await activated(store, workers)
    await active.ask(START)

    state = await until(store, lambda state: state.last is not None)

    assert state.last.outcome == "completed"


async def test_a_run_whose_record_is_gone_is_lost():
    once = AgentSpec(name="desk", model="m", tools=(ToolSpec(name="refund", on_lost="error"),))
    store, workers = await stored(once), FakeWorkers(call("refund"), reply())
    workers.run_tool = None
    active = await activated(store, workers)

    async def forgotten(app, code, request):
        store._conversations["c-1"].runs.clear()
        return NoOutcome.NOT_MINE

    workers.run_tool = forgotten
    await active.ask(START.model_copy(update={"spec": once}))

    state = await until(store, lambda state: state.last is not None)

    assert state.last.outcome == "completed"
    results = [event for _, event in await store.read("c-1", after=0) if event.kind == "call_resolved"]
    assert ["outcome unknown" in result.content for result in results] == [True]


async def test_an_activation_whose_renewal_breaks_ends_and_can_be_taken_over(monkeypatch):
    store, workers = await stored(GATED), FakeWorkers()
    active = await activated(store, workers, lease_ms=60)

    async def breaking(*_):
        raise ZeroDivisionError

    monkeypatch.setattr(store, "renew", breaking)
    await active.ask(START)
    async with asyncio.timeout(DEADLINE_S):
        while not active.over:
            await asyncio.sleep(0.005)
    with pytest.raises(Fenced):
        await active.ask(Wake())


async def test_too_many_commands_for_one_conversation_are_refused_and_what_waits_is_answered(monkeypatch):
    monkeypatch.setattr(activation_module, "MOST_WAITING", 3)
    store, workers = await stored(GATED), FakeWorkers(call("refund"))
    active = await activated(store, workers)
    await active.ask(START)
    await until(store, lambda state: state.calls)

    answers = await asyncio.gather(
        *(active.ask(Send(text="hi", message_id=f"m-{number + 2}")) for number in range(9)), return_exceptions=True
    )

    refused = [answer for answer in answers if isinstance(answer, Overloaded)]
    assert (len(refused), len(answers) - len(refused)) == (6, 3)
    assert (await active.ask(Send(text="hi", message_id="m-9"))).duplicate is False


async def test_a_clock_that_steps_back_stores_no_call_that_has_expired_already():
    # given an actor whose clock steps back by two minutes before the model answers
    brief = AgentSpec(
        name="desk", model="m", tools=(ToolSpec(name="refund", approval="required", approval_timeout_s=60, on_lost="error"),)
    )
    store, workers = await stored(brief), FakeWorkers()
    stepped = [0]
    active = await activated(store, workers, clock=lambda: time.monotonic_ns() // 1_000_000 - stepped[0])
    await active.ask(START.model_copy(update={"spec": brief}))
    await until(store, lambda state: state.turn is not None)
    async with asyncio.timeout(DEADLINE_S):
        while not workers.calls:
            await asyncio.sleep(0)
    stepped[0] = 120_000
    # when it asks for a call that waits a minute for its approval
    workers.answers.append(call("refund"))
    workers.gate.set()
    state = await until(store, lambda state: state.calls)
    # then that minute has begun
    assert state.status is Status.AWAITING_INPUT
    assert state.calls[0].suspension.expires_at > await store.now()
    events = [event.at for _, event in await store.read("c-1", after=0)]
    assert events == sorted(events)


class Refusing:
    """A store that cannot take the model's answers in: something beside the log is not as it was left."""

    def __init__(self, store):
        self._store = store

    def __getattr__(self, name):
        return getattr(self._store, name)

    async def append(self, conversation_id, write):
        if any(event.kind == "model_answered" for event in write.events):
            raise CorruptStore("an index is no sorted set")
        return await self._store.append(conversation_id, write)


async def test_an_answer_that_the_store_cannot_take_in_is_not_paid_for_without_end():
    # given a store that refuses the append of what the model answers, and takes everything else
    store, workers = await stored(GATED), FakeWorkers(*[call("refund") for _ in range(99)])
    activation = await activated(Refusing(store), workers)
    await activation.ask(START)
    # then the conversation is set aside after as many tries as are allowed, with the reason
    async with asyncio.timeout(DEADLINE_S):
        while await store.quarantine("c-1") is None:
            await asyncio.sleep(0.001)
    assert len(workers.calls) == 3
    assert "an index is no sorted set" in (await store.quarantine("c-1")).reason


async def test_a_run_without_a_record_is_looked_at_again_where_that_look_breaks(monkeypatch):
    # given a run whose record is gone, and a first look at it that breaks
    store, workers = await stored(OPEN), FakeWorkers(call("refund"), reply())
    hosting_ = await activated(store, workers)
    broken(monkeypatch, "wake", times=1)
    await hosting_.ask(UNGATED)
    await until(store, lambda state: state.calls)
    store._conversations["c-1"].runs.clear()
    workers.gate.set()
    # then it is found to be lost all the same, and run again
    async with asyncio.timeout(DEADLINE_S):
        while (await store.load("c-1")).status is not Status.IDLE:
            await asyncio.sleep(0.001)
