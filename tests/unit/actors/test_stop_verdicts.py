"""Bounds of `Stop` that a worker judges: its functions run in threads, in bounded time, and nothing of an answer is lost."""

import pickle
import threading
from types import SimpleNamespace

import pytest

from holdfast.actors.worker import app_loop, asking
from holdfast.actors.worker.app_loop import AppLoop
from holdfast.actors.worker.model_answer import ModelAnswer
from holdfast.actors.worker.stop_verdicts import Stops
from holdfast.actors.workers import ModelRequest
from holdfast.agent import Agent, App
from holdfast.conversation import Limits, Stop, StopReason, TurnStats
from holdfast.conversation.records.event_base import Reached
from holdfast.errors import StoreUnavailable
from holdfast.persistence import codec
from holdfast.persistence.codec import decode, encode
from holdfast.redaction import PLAIN, Redaction

ASKED = {"conversation_id": "c-1", "agent": "desk", "spec_digest": "d", "effect_id": "t1.m1", "upto_seq": 3, "code": "k"}

BEFORE = TurnStats(started_at=1000)


class Clock:
    """A store that knows the time, or is away."""

    def __init__(self, now=5000):
        self.asked = 0
        self._now = now

    async def now(self):
        self.asked += 1
        if self._now is None:
            raise StoreUnavailable("away")
        return self._now


@pytest.fixture
async def room():
    opened = await AppLoop.open(App(agents=[]))
    yield lambda: opened
    await opened.close()


def request(stats=BEFORE, **more):
    return ModelRequest(attempt=1, stats=stats, **ASKED, **more)


def answer(*tools, content="It is late."):
    found = ModelAnswer(Limits())
    made = [
        SimpleNamespace(index=number, id=f"call_{number}", function=SimpleNamespace(name=name, arguments="{}"))
        for number, name in enumerate(tools)
    ]
    delta = SimpleNamespace(content=content, reasoning_content=None, tool_calls=made)
    found.add(SimpleNamespace(choices=[SimpleNamespace(index=0, delta=delta)]))
    found.ended("tool_calls" if tools else "stop")
    found.finish()
    return found


async def reached(room, agent, found, *, spec=None, redaction=PLAIN, cost_usd=None, clock=None):
    stops = await Stops.of(clock or Clock(), request(), spec or agent.spec, agent)
    return await stops.reached(found, cost_usd, room, redaction)


async def test_a_function_that_hangs_ends_the_turn_and_the_others_are_not_asked(room, monkeypatch):
    monkeypatch.setattr(asking, "FUNCTION_S", 0.05)
    monkeypatch.setattr(app_loop, "FUNCTION_S", 0.05)
    over, asked = threading.Event(), []

    def quick(_):
        asked.append("quick")

    def hangs(_):
        over.wait(30)

    def last(_):
        asked.append("last")

    try:
        found = await reached(room, Agent(name="desk", stop=Stop(when=[quick, hangs, last])), answer("look_up"))
    finally:
        over.set()
    assert found == Reached(reason=StopReason.WHEN, detail="Stop(when=hangs): it gave no answer within 10 s")
    assert asked == ["quick"]


async def test_a_function_that_ends_its_thread_ends_the_turn_and_not_the_worker(room):
    def leaves(_):
        raise SystemExit

    found = await reached(room, Agent(name="desk", stop=Stop(when=leaves)), answer("look_up"))
    assert found.detail.startswith("Stop(when=leaves): it gave no answer")


async def test_functions_run_in_a_thread_of_the_apps_and_see_the_stores_time(room):
    seen = []

    def look(stats):
        seen.append((threading.current_thread().name, stats))

    assert await reached(room, Agent(name="desk", stop=Stop(when=look)), answer("a", "b"), cost_usd=0.25) is None
    [(thread, stats)] = seen
    assert thread.startswith("holdfast-rule")
    assert (stats.calls, stats.cost_usd, stats.started_at) == (("a", "b"), 0.25, 1000)
    assert 5000 <= stats.at < 65_000


async def test_the_answer_is_judged_though_the_store_is_away_before_it(room):
    seen = []
    await reached(room, Agent(name="desk", stop=Stop(when=seen.append)), answer("a"), clock=Clock(None))
    assert seen[0].at > 1_000_000_000_000  # the worker's own


async def test_secrets_are_taken_out_of_a_reason(room):
    agent = Agent(name="desk", stop=Stop(when=lambda _: "the key is hunter2hunter2"))
    found = await reached(room, agent, answer("a"), redaction=Redaction({"KEY": "hunter2hunter2"}))
    assert "hunter2" not in found.detail
    assert found.detail.startswith("Stop(when=<lambda>): the key is ")


async def test_a_stored_spec_is_judged_with_the_functions_of_the_app_and_without_those_it_has_no_more(room):
    def enough(_):
        return "enough"

    agent = Agent(name="desk", stop=Stop(rounds=9, when=enough))
    stored = decode(type(agent.spec), encode(agent.spec))
    assert stored == agent.spec
    assert stored.digest == agent.spec.digest
    assert stored.stop.functions[0].function is None
    assert (await reached(room, agent, answer("a"), spec=stored)).detail == "Stop(when=enough): enough"
    assert await reached(room, Agent(name="desk"), answer("a"), spec=stored) is None
    assert await reached(room, None, answer("a"), spec=stored) is None


def test_a_spec_that_is_pickled_loses_its_functions_and_no_name():
    spec = Agent(name="desk", stop=Stop(when=lambda _: None)).spec
    copied = pickle.loads(pickle.dumps(spec))  # noqa: S301 - our own
    assert copied == spec
    assert copied.stop.functions[0].function is None


async def test_only_agents_with_such_bounds_have_anything_judged_and_only_functions_need_the_time():
    clock = Clock()
    for stop in (None, Stop(rounds=1), Stop(cost_usd=1, timeout_s=5)):
        assert await Stops.of(clock, request(), Agent(name="desk", stop=stop).spec, None) is None
    by_content = Agent(name="desk", stop=Stop(content="late"))
    assert await Stops.of(clock, request(), by_content.spec, by_content) is not None
    assert clock.asked == 0
    assert await Stops.of(clock, request(None), by_content.spec, by_content) is None
    assert await Stops.of(clock, request(stopped="Stop(rounds=1)"), by_content.spec, by_content) is None


async def test_an_answer_without_calls_is_not_judged_unless_it_may_be_repaired(room):
    def judged(_):
        return "judged"

    assert await reached(room, Agent(name="desk", stop=Stop(content="late", when=judged)), answer()) is None
    shaped = Agent(name="desk", stop=Stop(when=judged), reply={"type": "object", "properties": {}})
    assert (await reached(room, shaped, answer())).reason is StopReason.WHEN


async def test_a_call_that_only_gives_the_reply_is_no_round(room):
    seen = []
    shape = {"type": "object", "properties": {}}
    await reached(room, Agent(name="desk", stop=Stop(when=seen.append), reply=shape), answer("final_answer"))
    assert (seen[0].rounds, seen[0].model_calls) == (0, 1)


def test_a_verdict_is_stored_with_its_outcome():
    from holdfast.conversation import ModelReplied  # noqa: PLC0415 - beside what it is about

    outcome = ModelReplied(effect_id="t1.m1", reached=Reached(reason=StopReason.WHEN, detail="Stop(when=enough)"))
    assert codec.decode_outcome(encode(outcome)) == outcome
    assert b"reached" not in encode(ModelReplied(effect_id="t1.m1"))
