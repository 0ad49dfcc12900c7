"""Two containers with one Redis, each with its own Ray at an address that leads the other nowhere."""

import asyncio
import contextlib
from functools import partial

import pytest
from contained import NAME, Contained
from fault_stack import QUICK, WITHIN_S, environment_kept, true
from lacking import lacking
from redis_server import RedisServer, binaries
from stack_fixture import FAST, RunningStack, eventually, open_gate, runs_of
from two_calls import watched

from holdfast.registry.cluster import BINDING_STALE_MS


@pytest.fixture
def shared(tmp_path):
    """A Redis, a folder for what runs write down, and a way to have a container."""
    if not binaries():
        lacking("there is no Redis server on this machine")
    runs = tmp_path / "runs"
    runs.mkdir()
    with contextlib.ExitStack() as stack:
        stack.enter_context(environment_kept())
        server = stack.enter_context(RedisServer(appendonly="yes", appendfsync="always"))

        def container(name):
            found = Contained(tmp_path / name, server.url, runs, **(FAST | QUICK))
            stack.callback(found.end)
            return found

        yield RunningStack(home=None, redis_url=server.url, model=None, scenarios=None, runs=runs), container


async def test_a_living_clusters_store_is_refused_and_when_it_falls_silent_its_run_is_joined_and_not_run_again(shared):
    stack, container = shared
    first, second = container("first"), container("second")
    begun = await first.have("begin")
    await asyncio.to_thread(eventually, lambda: runs_of(stack, NAME), WITHIN_S)
    async with watched(stack) as oracle:
        owner = await oracle.store.owner(NAME)

        refused = await second.have("answer")

        assert refused["error"] == "WrongCluster", refused
        assert begun["address"] in refused["said"]
        assert await oracle.store.owner(NAME) == owner
        assert len(oracle.bodies(NAME)) == 1

        await first.have("freeze the sweeper")  # as if its node had a pause; its worker is at the run
        await true(partial(silent, oracle.store), "the first cluster's silence")
        await first.have("kill the host")
        answered = await second.have("answer")  # once the owner's lease has run out
        assert "seq" in answered, answered
        assert (await oracle.store.owner(NAME)).epoch > owner.epoch
        assert len(oracle.bodies(NAME)) == 1
        late = await first.have("answer")
        assert late["error"] == "WrongCluster", late
        await first.have("resume the sweeper")  # which finds that the store is another's, and wakes nobody

        open_gate(stack, NAME)
        end = await second.have("see the end")

        assert end == {
            "reply": "Done.",
            "results": [{"ok": True, "result": "pay_by_key is done"}, {"ok": True, "result": False}],
        }
        assert [body["attempt"] for body in oracle.bodies(NAME)] == [1]
        assert (await first.have("answer"))["error"] == "WrongCluster"


async def silent(store):
    return (await store.binding()).age_ms >= BINDING_STALE_MS
