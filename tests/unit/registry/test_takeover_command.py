"""A command that travels with the takeover: who has had it, and who may say so."""

import asyncio

import pytest

from holdfast.actors.answers import Failed, Hosted, NotHosted, Occupied, OwnedElsewhere, Replied
from holdfast.conversation import Wake
from holdfast.errors import LeaseHeld, Overloaded, StaleCall, StoreUnavailable
from holdfast.persistence import MemoryStore, Owner
from holdfast.registry.pool import ActorDied, ActorUnavailable, Pool
from holdfast.registry.registry import Delivery, Refused, Registry, Unknown, Unsent
from holdfast.settings import ProcessLimits, Timing

STALE, FULL, HELD = StaleCall("c-1", "call-1", "unknown"), Overloaded("c-1", 1000), LeaseHeld("c-1", 5000)
AWAY = StoreUnavailable("away")


class Company:
    """Actors that are always on offer, and give or raise one answer to a takeover after the other."""

    def __init__(self, *answers):
        self.store = MemoryStore()
        self._answers = list(answers)
        self.taken_over, self.asked = [], []

    async def find(self, name):
        return self

    def ours(self, name):
        return True

    def judges(self, name):
        return True

    async def activate(self, conversation_id, seen_token, because, *, create, first=None):
        self.taken_over.append(first)
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, asyncio.Event):
            await answer.wait()
        return answer

    async def ask(self, conversation_id, command):
        self.asked.append(command)
        return Replied(None)


async def delivered(company, *, timeout_s=5.0):
    for number in range(10):
        await company.store.offer(f"actor-{number}", number + 1)
    pool = Pool(company.store, company, timing=Timing(), process_limits=ProcessLimits())
    registry = Registry(company.store, company, pool=pool, timing=Timing())
    return await registry.deliver(Delivery("c-1", Wake(), timeout_s=timeout_s, create=True))


async def test_a_command_that_came_with_the_takeover_is_judged_in_that_call():
    company = Company(Hosted(Replied(None)))
    assert await delivered(company) == Replied(None)
    assert company.taken_over == [Wake()]
    assert company.asked == []


async def test_a_refusal_in_that_call_is_the_result():
    company = Company(Hosted(Failed(STALE)))
    assert await delivered(company) == Refused(STALE)
    assert company.asked == []


@pytest.mark.parametrize("takeover", [Occupied(), OwnedElsewhere(Owner("t", 1, "actor-3")), Failed(AWAY)], ids=repr)
async def test_what_took_nothing_over_has_not_judged_the_command_and_the_next_one_does(takeover):
    company = Company(takeover, Hosted(Replied(None)))
    assert await delivered(company) == Replied(None)
    assert company.taken_over == [Wake(), Wake()]


@pytest.mark.parametrize("answer", [Failed(HELD), Hosted(Failed(FULL))], ids=repr)
async def test_a_command_that_nobody_has_judged_is_unsent(answer):
    error = answer.error if isinstance(answer, Failed) else answer.first.error
    assert await delivered(Company(answer), timeout_s=0.5) == Unsent(error)


@pytest.mark.parametrize("lost", [ActorDied(), ActorUnavailable()], ids=repr)
@pytest.mark.parametrize("answer", [Failed(HELD), Hosted(Failed(FULL))], ids=repr)
async def test_after_a_takeover_without_an_answer_what_became_of_the_command_is_unknown(lost, answer):
    error = answer.error if isinstance(answer, Failed) else answer.first.error
    assert await delivered(Company(lost, answer), timeout_s=0.5) == Unknown(error)


async def test_a_takeover_that_does_not_end_in_time_leaves_the_command_unknown():
    result = await delivered(Company(asyncio.Event()), timeout_s=0.1)
    assert isinstance(result, Unknown)


async def test_an_actor_that_lost_the_conversation_at_once_has_not_judged_the_command():
    company = Company(Hosted(NotHosted()), Hosted(Replied(None)))
    assert await delivered(company) == Replied(None)
    assert company.asked == []
