"""Delivery of a command over a registry that is a fake: by what the actors answer, what is known of the command."""

import asyncio

import pytest

from holdfast.actors.answers import Failed, NotHosted, Replied
from holdfast.conversation import Wake
from holdfast.errors import ConversationNotFound, LeaseHeld, Overloaded, Quarantined, StaleCall, StoreUnavailable
from holdfast.persistence import MemoryStore
from holdfast.registry.pool import ActorDied, ActorUnavailable
from holdfast.registry.registry import Delivery, Refused, Registry, Unknown, Unsent
from holdfast.settings import Timing

AWAY, FULL, HELD = StoreUnavailable("away"), Overloaded("c-1", 1000), LeaseHeld("c-1", 5000)
NEVER, STALE = ConversationNotFound("c-1"), StaleCall("c-1", "call-1", "unknown")
POISON = Quarantined("c-1", "it hangs", 1)


class Looks(Registry):
    """Finds an actor at each look, or raises; the actor answers or raises what stands next to it."""

    def __init__(self, *looks):
        super().__init__(MemoryStore(), None, pool=None, timing=Timing())
        self._looks = list(looks)
        self.dead = []

    async def _found(self, delivery, search):
        found = self._looks.pop(0)
        if isinstance(found, Exception):
            raise found
        return "actor-1", found

    def _died(self, conversation_id, name):
        self.dead.append(name)

    async def not_hosted(self, conversation_id, name, *, until):
        pass


class Actor:
    def __init__(self, answer):
        self._answer = answer

    async def ask(self, conversation_id, command):
        if isinstance(self._answer, asyncio.Event):
            await self._answer.wait()
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer


async def result_of(*looks, timeout_s=5, **options):
    return await Looks(*looks).deliver(Delivery("c-1", Wake(), timeout_s=timeout_s, **options))


DIED, LOST = Actor(ActorDied()), Actor(ActorUnavailable())
DOUBTFUL = Actor(Failed(AWAY))
STRANGER = Actor(NotHosted())


@pytest.mark.parametrize("error", [NEVER, HELD, FULL, TimeoutError()], ids=repr)
async def test_what_no_actor_has_had_is_unsent(error):
    assert await result_of(error) == Unsent(error)
    assert await result_of(STRANGER, error) == Unsent(error)


@pytest.mark.parametrize("had", [DIED, LOST, DOUBTFUL], ids=["died", "lost", "doubtful"])
@pytest.mark.parametrize("error", [NEVER, HELD, FULL], ids=repr)
async def test_what_an_actor_may_have_judged_is_unknown_whatever_comes_after_it(had, error):
    assert await result_of(had, error) == Unknown(error)
    assert await result_of(had, STRANGER, error) == Unknown(error)


@pytest.mark.parametrize("had", [DIED, LOST, DOUBTFUL], ids=["died", "lost", "doubtful"])
async def test_what_an_actor_may_have_judged_is_handed_over_again_and_answered(had):
    assert await result_of(had, Actor(Replied(None))) == Replied(None)
    assert await result_of(had, Actor(Failed(STALE))) == Refused(STALE)


async def test_an_actor_with_too_many_commands_has_not_judged_this_one():
    assert await result_of(Actor(Failed(FULL))) == Unsent(FULL)
    assert await result_of(LOST, Actor(Failed(FULL))) == Unknown(FULL)


async def test_in_quarantine_what_is_not_known_was_never_judged():
    assert await result_of(DIED, POISON) == Unsent(POISON)


async def test_a_store_that_is_away_is_waited_for_unless_the_caller_comes_again_by_itself():
    assert await result_of(AWAY, AWAY, Actor(Replied(None))) == Replied(None)
    assert await result_of(AWAY, waits_for_store=False) == Unsent(AWAY)
    assert await result_of(DOUBTFUL, waits_for_store=False) == Unknown(AWAY)
    assert await result_of(*[AWAY] * 99, timeout_s=0.05) == Unsent(AWAY)


async def test_a_timeout_says_why_it_took_so_long():
    result = await result_of(AWAY, TimeoutError())
    assert isinstance(result, Unsent)
    assert isinstance(result.error, TimeoutError)
    assert str(result.error) == str(AWAY)


async def test_a_delivery_that_is_cancelled_knows_whether_an_actor_has_the_command():
    delivery = Delivery("c-1", Wake(), timeout_s=5)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await Looks(Actor(asyncio.Event())).deliver(delivery)
    assert delivery.given_up(FULL) == Unknown(FULL)


async def test_a_dead_host_is_reported():
    registry = Looks(DIED, Actor(Replied(None)))
    await registry.deliver(Delivery("c-1", Wake(), timeout_s=5))
    assert registry.dead == ["actor-1"]
