"""Actors and workers on three nodes: a node that dies takes its share of what is in flight, and no more."""

import asyncio
from collections import Counter

import pytest
import ray
from fault_stack import WITHIN_S, true
from ray_cluster import several_nodes
from stack_fixture import gone, pid_of
from two_calls import APP, watched

from holdfast.actors.actor_settings import RAY_NAMESPACE
from holdfast.actors.ray_workers import ALONE
from holdfast.client import AsyncClient, Status
from holdfast.persistence import RunStatus
from holdfast.registry.inventory import processes

IN_FLIGHT = 24
WORKERS = 3
ACTORS = 9


@pytest.fixture(scope="module")
def trio():
    """A stack on a cluster of three nodes, with as many workers and three times as many actors."""
    limits = {"HOLDFAST_WORKERS": WORKERS, "HOLDFAST_STANDBY": ACTORS, "HOLDFAST_MAX_ACTORS": ACTORS}
    with several_nodes(3, **{name: str(limit) for name, limit in limits.items()}) as found:
        yield found


class Whereabouts:
    """The nodes of what is in flight, by conversation, and of the processes."""

    def __init__(self, found):
        self.node = {process.name: process.node for process in found}
        self.workers = [process for process in found if process.worker]
        self.actors = [process for process in found if ":actor:" in process.name]
        self.claimed = {}  # the node of the worker that calls the model
        self.hosted = {}  # the node of the actor, where there is one


async def whereabouts(settings, store, names):
    found = Whereabouts(await asyncio.to_thread(processes, settings))
    for name in names:
        state = await store.load(name)
        run = await store.run(name, state.turn.model_effect_id)
        assert run.status is RunStatus.CLAIMED
        found.claimed[name] = found.node[run.worker]
        holder = (await store.owner(name)).actor
        if holder:
            found.hosted[name] = found.node[holder]
    return found


async def all_stand(settings, *, living):
    """Whether all workers and as many actors as are to be warm stand on nodes that live."""
    found = await asyncio.to_thread(processes, settings)
    placed = [process for process in found if process.node in living]
    workers = sum(process.worker and ALONE not in process.short for process in placed)
    return workers == WORKERS and sum(":actor:" in process.name for process in placed) >= ACTORS


async def test_a_node_that_dies_takes_the_model_calls_of_its_worker_along_and_no_others(trio):
    stack, nodes = trio
    async with AsyncClient.connect(APP, timeout_s=WITHIN_S) as client, watched(stack) as oracle:
        # given conversations in flight, at a model that does not answer yet
        names = [f"flight-{number}" for number in range(IN_FLIGHT)]
        stack.model.hold()
        settings = (await client.gateway.stack.transport()).settings
        living = {node["NodeID"] for node in ray.nodes() if node["Alive"]}
        texts = [stack.scenarios.add(name, "Done.") for name in names]
        starts = [client.start("till", text, conversation_id=text) for text in texts]
        conversations = await asyncio.gather(*starts)
        await stack.model.held(IN_FLIGHT, WITHIN_S)
        await true(lambda: all_stand(settings, living=living), "that all are placed")
        before = await whereabouts(settings, oracle.store, names)

        # then each node has a worker, and its share of the actors, of which none is needed
        assert Counter(worker.node for worker in before.workers) == dict.fromkeys(living, 1)
        assert {actor.node for actor in before.actors} == living
        assert before.hosted == {}

        # when a node dies with all that is on it
        lost = max(nodes.others, key=lambda node: len(claimed_there(before, node)))
        there = [process.name for process in (*before.workers, *before.actors) if process.node == lost]
        pids = [await pid_of(ray.get_actor(name, namespace=RAY_NAMESPACE)) for name in there]
        asked_again = claimed_there(before, lost)
        assert 0 < len(asked_again) < IN_FLIGHT
        await nodes.have(f"kill raylet {lost}")
        for pid in pids:
            await gone(pid)

        # then its worker's model calls are made again, the others not
        await stack.model.arrived(IN_FLIGHT + 1, WITHIN_S)  # one by one: a process has died of them, perhaps
        stack.model.release()
        for conversation in conversations:
            state = await conversation.wait(timeout_s=WITHIN_S)
            assert (state.status, state.reply) == (Status.IDLE, "Done.")
            await oracle.at_rest(conversation.id)
        assert requests(stack, names) == {name: 2 if name in asked_again else 1 for name in names}
        await true(lambda: all_stand(settings, living=living - {lost}), "that what died stands elsewhere")


def claimed_there(found, node):
    """The conversations whose model call is a worker's on this node."""
    return {name for name, place in found.claimed.items() if place == node}


def requests(stack, names):
    """How often the model was asked for each conversation."""
    asked = [str(request.body) for request in stack.model.requests]
    return {name: sum(f"'{name}'" in body for body in asked) for name in names}
