"""A node that is drained: its actors leave."""

import asyncio

import pytest

from holdfast.actors import placement
from holdfast.actors.answers import Occupied
from holdfast.actors.host import Host
from holdfast.actors.placement import drained
from holdfast.persistence import EVERYWHERE, MemoryStore, TakeoverReason
from holdfast.settings import ProcessLimits, Timing


@pytest.mark.parametrize(
    ("withheld", "living", "expected"),
    [
        ({}, ["here", "there"], False),
        ({"there": 1}, ["here", "there"], False),
        ({"here": 1}, ["here", "there"], True),
        ({"here": 1}, ["here"], False),  # there is no other: it is used again
        ({"here": 1, "there": 1}, ["here", "there"], False),
        ({"here": 1, EVERYWHERE: 1}, ["here", "there"], True),
    ],
)
async def test_a_node_counts_as_drained_while_another_lives(monkeypatch, withheld, living, expected):
    class Here:
        def is_initialized(self):
            return True

        def get_runtime_context(self):
            return self

        def get_node_id(self):
            return "here"

        def nodes(self):
            return [{"NodeID": node, "NodeManagerAddress": "x", "Alive": True} for node in living] + [
                {"NodeID": "gone", "NodeManagerAddress": "x", "Alive": False}
            ]

    monkeypatch.setattr(placement, "ray", Here())
    assert await drained(withheld) is expected


async def test_an_actor_on_a_drained_node_leaves_and_takes_nothing_up_until_it_has():
    store, clock, left = MemoryStore(), iter(range(0, 10**9, 1000)), asyncio.Event()

    async def look(withheld):
        return "here" in withheld

    host = Host(
        store,
        None,
        name="actor-1",
        timing=Timing(tick_ms=10),
        process_limits=ProcessLimits(),
        clock=lambda: next(clock),
        leave=left.set,
        drained=look,
    )
    await host.offer_blank()
    assert await store.take() == ["actor-1"]  # by one that has not asked yet
    await store.withhold("here")
    async with asyncio.timeout(10):
        while not host._drained:
            await asyncio.sleep(0.005)
    assert await host.activate("c-1", "", TakeoverReason.ASKED, create=True) == Occupied()
    async with asyncio.timeout(10):
        await left.wait()
    assert await store.offers() == 0
    assert await store.live() == {}
