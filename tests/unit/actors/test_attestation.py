"""A worker says that its claims stand: before the first, then now and then, and not while it has none."""

import asyncio

import pytest

from holdfast.actors.worker import attestation
from holdfast.actors.worker.attestation import Attestation
from holdfast.errors import StoreUnavailable
from holdfast.persistence import MemoryStore
from holdfast.testing import FailBefore, Faults, FaultyStore


@pytest.fixture
def store():
    return FaultyStore(MemoryStore(), Faults())


async def until(condition):
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.001)


async def test_a_claim_stands_before_the_run_begins_and_many_runs_cost_one_write(store):
    own = Attestation("process-1")

    async def run():
        return await store.attested("process-1")

    assert await asyncio.gather(*(own.during(store, run) for _ in range(50))) == [True] * 50
    assert store.calls["attest"] <= 50
    before = store.calls["attest"]
    for _ in range(50):
        await own.during(store, run)
    assert store.calls["attest"] == before


async def test_it_is_said_again_for_as_long_as_anything_runs(store, monkeypatch):
    monkeypatch.setattr(attestation, "EVERY_S", 0.005)
    store.policy = Faults(attest={2: FailBefore()})  # which ends nothing
    own, gates = Attestation("process-1"), [asyncio.Event(), asyncio.Event()]
    runs = [asyncio.create_task(own.during(store, gate.wait)) for gate in gates]
    await until(lambda: store.calls["attest"] > 4)
    gates[0].set()
    await runs[0]
    said = store.calls["attest"]
    await until(lambda: store.calls["attest"] > said + 2)
    gates[1].set()
    await runs[1]
    assert own._saying is None
    await until(lambda: not any("_go_on" in repr(task) for task in asyncio.all_tasks()))


async def test_a_run_whose_claim_could_not_be_attested_is_not_begun(store):
    store.policy = Faults(attest=FailBefore())
    begun = []

    async def run():
        begun.append(1)

    with pytest.raises(StoreUnavailable):
        await Attestation("process-1").during(store, run)
    assert not begun


async def test_how_many_claims_there_are_is_said_as_they_double():
    store = MemoryStore()
    own, gate = Attestation("process-1"), asyncio.Event()
    assert await store.claims_of("process-1") == 1
    runs = []
    for number in range(1, 41):
        runs.append(asyncio.create_task(own.during(store, gate.wait)))
        await asyncio.sleep(0)
        known = await store.claims_of("process-1")
        assert known <= number <= max(2 * known, attestation.SMALL), (known, number)
    gate.set()
    await asyncio.gather(*runs)
    assert await store.claims_of("process-1") > 8  # still known after its end
