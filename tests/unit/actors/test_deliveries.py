"""Deliveries that were asked for together are answered together, without the slow ones."""

import asyncio
from dataclasses import replace

import pytest
from owed_requests import request

from holdfast.actors.worker import deliveries as module
from holdfast.actors.worker.deliveries import Deliveries
from holdfast.actors.workers import Delivered, Later

QUICK, SLOW, BROKEN = (request("c-1", name, "ended", 3) for name in ("quick", "slow", "broken"))


class Targets:
    def __init__(self):
        self.gate, self.told = asyncio.Event(), []

    async def deliver(self, one):
        self.told.append(one.target)
        if one == SLOW:
            await self.gate.wait()
            return Later("busy", 7)
        if one == BROKEN:
            raise LookupError("a mistake")
        return Delivered()


@pytest.fixture
def targets(monkeypatch):
    monkeypatch.setattr(module, "TOGETHER_S", 0.01)
    return Targets()


async def test_a_slow_one_is_answered_alone_and_made_once(targets):
    deliveries = Deliveries()
    assert await deliveries.answers([QUICK, SLOW], targets.deliver) == [Delivered(), None]
    assert len(deliveries) == 1
    alone = asyncio.create_task(deliveries.answers([SLOW], targets.deliver))
    await asyncio.sleep(0.05)
    assert not alone.done()
    targets.gate.set()
    assert await alone == [Later("busy", 7)]
    assert targets.told == ["quick", "slow"]
    assert len(deliveries) == 0


async def test_an_answer_that_comes_before_it_is_asked_for_is_kept_and_forgotten_once_nobody_asks(targets, monkeypatch):
    monkeypatch.setattr(module, "FETCHED_S", 0.2)
    deliveries = Deliveries()
    for told in (1, 2):
        assert await deliveries.answers([QUICK, SLOW], targets.deliver) == [Delivered(), None]
        targets.gate.set()
        await asyncio.sleep(0.02)
        assert await deliveries.answers([SLOW], targets.deliver) == [Later("busy", 7)]
        assert targets.told.count("slow") == told
        targets.gate.clear()
    assert await deliveries.answers([QUICK, SLOW], targets.deliver) == [Delivered(), None]
    targets.gate.set()
    async with asyncio.timeout(5):
        while len(deliveries):
            await asyncio.sleep(0.01)


async def test_a_message_that_comes_again_with_other_links_while_it_is_told_is_told_once(targets):
    deliveries = Deliveries()
    first = asyncio.create_task(deliveries.answers([replace(SLOW, links={"deny": "https://x.example/1"})], targets.deliver))
    again = asyncio.create_task(deliveries.answers([replace(SLOW, links={"deny": "https://x.example/2"})], targets.deliver))
    await asyncio.sleep(0.02)
    targets.gate.set()
    assert await first == await again == [Later("busy", 7)]
    assert targets.told == ["slow"]


async def test_one_that_fails_fails_no_other(targets):
    first, second = await Deliveries().answers([BROKEN, QUICK], targets.deliver)
    assert (str(first), second) == ("a mistake", Delivered())
