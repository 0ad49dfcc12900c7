"""A stack whose processes have traps at the numbered steps, and what fault tests wait for."""

import asyncio
import contextlib
import os
import tempfile
from pathlib import Path

import pytest
import ray
from stack_fixture import Scenarios, end_stack, host_of, pid_of, start_stack
from trap_folder import Traps

from holdfast.actors.activation.guest import GUESTS
from holdfast.actors.actor_settings import RAY_NAMESPACE
from holdfast.actors.ray_launcher import find
from holdfast.actors.steps import TRAPS
from holdfast.embedded.local_ray import ensure_ray
from holdfast.registry import cluster, registry
from holdfast.testing import ModelServer

WITHIN_S = 90
QUICK = {"HOLDFAST_LINGER_S": "1", "HOLDFAST_STANDBY": "3", GUESTS: "0"}
"""Conversations that rest are left soon, and who takes one over finds an actor that is warm.

Without guests, actors do all that they can; `tests/faults/test_guests.py` has guests.
"""


@contextlib.contextmanager
def environment_kept():
    """Whatever happens inside to this process's environment is undone."""
    before = dict(os.environ)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@contextlib.contextmanager
def impatient():
    """Clients of this process wait less long for an actor that does not answer; tests freeze many of them."""
    usual, registry.PATIENCE_S = registry.PATIENCE_S, 1.5
    try:
        yield
    finally:
        registry.PATIENCE_S = usual


@contextlib.contextmanager
def trapped_stack(**settings):
    """A real stack whose processes have traps; this process is in its Ray for as long."""
    with environment_kept(), impatient(), tempfile.TemporaryDirectory(prefix="hf-traps-", dir="/tmp") as folder:
        traps = Traps(Path(folder) / "traps")
        scenarios = Scenarios()
        os.environ[TRAPS] = str(traps.folder)
        os.environ["PYTHONPATH"] = str(Path(__file__).parent)  # where the processes find who springs the traps
        with ModelServer(script=scenarios) as model:
            stack = start_stack(model, scenarios, **(QUICK | {"HOLDFAST_PUBLISH": "true"} | settings))
            stack.redis_url = settings.get("HOLDFAST_REDIS_URL", stack.redis_url)
            try:
                address = ensure_ray(stack.home)
                os.environ.update(address.env)
                joined = cluster.join(address.address, embedded=True)
                yield stack, traps
                cluster.leave(joined)
            finally:
                traps.clear()
                end_stack(stack)


def named(name):
    """The actor of a name."""
    return ray.get_actor(name, namespace=RAY_NAMESPACE)


async def true(condition, what="the condition"):
    """Wait until an async condition holds; what it gave."""
    try:
        async with asyncio.timeout(WITHIN_S):
            while not (found := await condition()):
                await asyncio.sleep(0.02)
    except TimeoutError:
        pytest.fail(f"{what} did not come true within {WITHIN_S} s")
    return found


async def at_ease(store, *but):
    """Wait until no conversation but these is hosted, so that nobody else reaches a step."""

    async def released():
        page = await store.conversations(limit=500)
        owners = [await store.owner(row.conversation_id) for row in page.items if row.conversation_id not in but]
        return not any(owner.actor and find(owner.actor) for owner in owners)

    await true(released, "that every other conversation is left")


async def host_pid(store, conversation_id):
    """The process that hosts a conversation, or has just taken it up and left it to its worker."""
    return await pid_of(await host_of(store, conversation_id))


async def full(store):
    """Whether as many actors are warm as there shall be."""
    return await store.offers() >= int(QUICK["HOLDFAST_STANDBY"])
