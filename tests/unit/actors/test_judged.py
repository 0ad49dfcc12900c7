"""The verdict of the rules in force right before a run, where a function of the app says whether a person is asked."""

import threading
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from holdfast.actors.actor_settings import ActorSettings, StoreAddress, WorkerSettings
from holdfast.actors.worker import asking
from holdfast.actors.worker.app_loop import AppLoop
from holdfast.actors.worker.run_rules import judged
from holdfast.actors.worker.worker import Worker
from holdfast.actors.workers import RunRequest
from holdfast.agent import Agent, App, Rules, Tool, TurnContext
from holdfast.conversation.terms.rule_verdict import RuleEffect
from holdfast.persistence import AppRecord, MemoryStore

ACTORS = ActorSettings(StoreAddress("redis://x", "holdfast", "store-1"))
SETTINGS = WorkerSettings(ACTORS, "worker-0", "shop:app", "c", base="worker-0")
TURN = TurnContext(conversation_id="c-1", agent="desk")
LIFTED = RunRequest(
    code="k",
    conversation_id="c-1",
    agent="desk",
    spec_digest="d",
    effect_id="call_1#1",
    turn_id="t1",
    tool_call_id="call_1",
    tool="refund",
    attempt=1,
    arguments_at=3,
    rule="small refunds",
)


class Given:
    """A worker, its store, and how the tool's function answers."""

    def __init__(self, answer):
        self.now = 1_000_000
        self.store = MemoryStore(clock=lambda: self.now)
        self._worker = Worker(SETTINGS)
        tool = Tool(name="refund", callback=lambda: "", parameters={"type": "object"}, approval=lambda _: answer(self))
        self._agent = Agent(name="desk", tools=[tool])

    async def publish(self, rules):
        record = AppRecord(app="shop:app", code="c", rules={"desk": rules.digest})
        await self.store.put_app(record, [], {rules.digest: rules.to_json()})

    async def judged(self, request):
        async with _app_loop() as loop:
            return await judged(self._worker._bench_at(self.store, loop), request, self._agent, {}, TURN, edits=False)


@asynccontextmanager
async def _app_loop():
    loop = await AppLoop.open(App(agents=[]))
    try:
        yield loop
    finally:
        await loop.close()


async def test_a_function_that_takes_long_leaves_the_run_time_to_begin():
    def slow(given):
        given.now += 5_000
        return False

    given = Given(slow)
    await given.publish(Rules())
    ruled, until = await given.judged(LIFTED)
    assert ruled is None
    assert until > given.now


@pytest.fixture
def silent(monkeypatch):
    """A function that does not say anything."""
    over = threading.Event()
    monkeypatch.setattr(asking, "FUNCTION_S", 0.02)
    yield lambda _: over.wait(30)
    over.set()


async def test_a_function_that_does_not_say_asks_a_person(silent):
    ruled, _ = await Given(silent).judged(LIFTED)
    assert ruled.effect is RuleEffect.ASK


async def test_a_person_who_has_approved_is_not_asked_again_since_a_function_does_not_say(silent):
    ruled, _ = await Given(silent).judged(replace(LIFTED, decided_at=5, fulfilled=()))
    assert ruled is None


async def test_a_rule_that_denies_holds_whatever_a_function_does_not_say(silent):
    given = Given(silent)
    await given.publish(Rules(deny=["refund"]))
    ruled, _ = await given.judged(replace(LIFTED, decided_at=5, fulfilled=()))
    assert ruled.effect is RuleEffect.DENY
