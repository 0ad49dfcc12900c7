"""Pausing through a client, over a store in memory: what is refused, what is said, and when it returns."""

import asyncio
import getpass

import pytest

from holdfast.client import AsyncClient, InvalidInput, stack_gateway
from holdfast.client.operation import REASON_BYTES, this_user
from holdfast.client.stack_gateway import StackGateway
from holdfast.persistence import MemoryStore


class Stack:
    """Has one store, and no Ray: none is needed."""

    may_start = False

    def __init__(self, store):
        self._store = store

    async def store(self):
        return self._store


@pytest.fixture
def client():
    return AsyncClient(StackGateway(Stack(MemoryStore()), timeout_s=10))


@pytest.fixture
def slept(monkeypatch):
    """How long was waited, in place of waiting."""
    found = []

    async def sleep(seconds):
        found.append(seconds)

    monkeypatch.setattr(stack_gateway.asyncio, "sleep", sleep)
    return found


async def test_a_pause_returns_once_what_was_seen_before_it_counts_no_more(client, slept):
    made = await client.pause("desk", "the bill")

    assert (made.agent, made.reason, made.by, made.duplicate) == ("desk", "the bill", this_user(), False)
    assert [round(seconds, 1) for seconds in slept] == [1.1]
    assert await client.paused() == [made]


async def test_a_pause_that_has_stood_for_long_is_not_waited_for(slept):
    now = [1_700_000_000_000]
    client = AsyncClient(StackGateway(Stack(MemoryStore(clock=lambda: now[0])), timeout_s=10))
    made = await client.pause()
    now[0] += 60_000

    again = await client.pause(reason="another")

    assert (again.duplicate, again.reason, again.since) == (True, "", made.since)
    assert slept == [1.1, 0]


async def test_what_was_lifted_is_said_and_none_if_there_was_nothing(client, slept):
    made = await client.pause("desk")
    assert await client.unpause() is None
    assert await client.unpause("desk") == made
    assert await client.unpause("desk") is None
    assert await client.paused() == []


@pytest.mark.parametrize("agent", ["", "a|b", "a b", 7, "x" * 65, "\ud800", True])
@pytest.mark.parametrize("verb", ["pause", "unpause"])
async def test_what_is_no_agents_name_is_refused(client, verb, agent):
    with pytest.raises(InvalidInput) as refused:
        await getattr(client, verb)(agent)
    assert refused.value.field == "agent"
    assert await client.paused() == []


@pytest.mark.parametrize("reason", [None, 7, b"x", "\ud800", "x" * (REASON_BYTES + 1), "é" * REASON_BYTES])
async def test_what_is_no_reason_is_refused(client, reason):
    with pytest.raises(InvalidInput) as refused:
        await client.pause(reason=reason)
    assert refused.value.field == "reason"
    assert await client.paused() == []


async def test_two_that_pause_at_once_make_one_pause(client, slept):
    made = await asyncio.gather(*(client.pause(reason=str(number)) for number in range(5)))
    assert sorted(pause.duplicate for pause in made) == [False, True, True, True, True]
    assert {(pause.reason, pause.since) for pause in made} == {(made[0].reason, made[0].since)}


def test_a_user_without_a_name_is_named_by_number(monkeypatch):
    def nameless():
        raise KeyError

    monkeypatch.setattr(getpass, "getuser", nameless)
    assert this_user().partition("@")[0].isdigit()
    monkeypatch.setattr(getpass, "getuser", lambda: "a|b\x1b[2J\n" + "x" * 500)
    assert "|" not in this_user()
    assert this_user().isprintable()
    assert len(this_user()) == 200
