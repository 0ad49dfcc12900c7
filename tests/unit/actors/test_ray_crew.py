"""The crew on Ray, with handles that are fakes: what is asked of whom."""

import asyncio
from types import SimpleNamespace

import pytest
from ray.exceptions import ActorUnavailableError

from holdfast.actors import ActorSettings, CrewUnavailable, NoOutcome, StoreAddress, ray_crew
from holdfast.actors.ray_crew import RayCrew
from holdfast.actors.requests import ModelRequest
from holdfast.persistence import MemoryStore

SETTINGS = ActorSettings(StoreAddress("redis://x", "holdfast", "store-1"))
REQUEST = ModelRequest(conversation_id="c-1", agent="desk", spec_digest="d", effect_id="t1.m1", upto_seq=3, attempt=1)


def remote(function):
    """A method of an actor's handle."""
    return SimpleNamespace(remote=function)


@pytest.fixture
def known(monkeypatch):
    """The actors that there are, by name; of every name that is looked for, a note."""
    actors = {}
    monkeypatch.setattr(ray_crew, "find", actors.get)
    return actors


async def test_a_call_that_is_cancelled_before_its_worker_is_known_is_dropped_there_all_the_same(known):
    dropped = []
    looked = asyncio.Event()

    async def prepare():
        looked.set()
        await asyncio.Event().wait()

    name = ray_crew.worker_name(SETTINGS, "shop:app", "code-1", "0")
    known[name] = SimpleNamespace(prepare=remote(prepare), drop=remote(lambda *which: dropped.append(which)))
    crew = RayCrew(MemoryStore(), SETTINGS)
    calling = asyncio.create_task(crew.call_model("shop:app", "code-1", REQUEST))
    async with asyncio.timeout(10):
        await looked.wait()
        calling.cancel()
        crew.drop("c-1", "t1.m1")
        while not dropped:
            await asyncio.sleep(0)
    assert dropped == [("c-1", "t1.m1")]


@pytest.mark.parametrize(("lives", "died"), [("process-1", False), ("process-2", True)])
async def test_who_asks_which_process_there_is_waits_for_ray_to_have_started_one(known, monkeypatch, lives, died):
    monkeypatch.setattr(ray_crew, "LOOK_AGAIN_S", 0)
    answers = [ActorUnavailableError("restarting", b"0" * 16), lives]

    async def process():
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    known["worker-1"] = SimpleNamespace(process=remote(process))
    crew = RayCrew(MemoryStore(), SETTINGS)
    assert await crew._died("worker-1", "process-1") is died
    assert answers == []


async def test_a_run_of_another_releases_worker_is_waited_for_as_long_as_its_process_lives(known):
    async def process():
        return "process-1"

    name = f"{SETTINGS.family}0.0.1:worker:0123:0"
    known[name] = SimpleNamespace(process=remote(process))
    crew = RayCrew(MemoryStore(), SETTINGS)
    with pytest.raises(CrewUnavailable, match="another release"):
        await crew.join(name, "process-1.abc", "c-1", "call_1#1")
    assert await crew.join(name, "process-0.abc", "c-1", "call_1#1") is NoOutcome.GONE
