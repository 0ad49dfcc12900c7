"""The store that fails on demand."""

import asyncio

import pytest

from holdfast.errors import ConversationNotFound, Fenced, StoreUnavailable
from holdfast.persistence import MemoryStore
from holdfast.testing import Delay, FailAfter, FailBefore, Faults, FaultyStore


@pytest.fixture
def inner():
    return MemoryStore()


async def test_a_call_that_fails_before_did_nothing(inner):
    store = FaultyStore(inner, Faults(offer=FailBefore()))

    with pytest.raises(StoreUnavailable):
        await store.offer("actor-1", 0)

    assert await inner.offers() == 0


async def test_a_call_that_fails_after_did_everything(inner):
    store = FaultyStore(inner, Faults(offer=FailAfter()))

    with pytest.raises(StoreUnavailable):
        await store.offer("actor-1", 0)

    assert await inner.offers() == 1


async def test_the_third_call_fails_and_the_fourth_does_not(inner):
    store = FaultyStore(inner, Faults(offer={3: FailAfter()}))
    await store.offer("actor-1", 0)
    await store.offer("actor-2", 0)
    with pytest.raises(StoreUnavailable):
        await store.offer("actor-3", 0)
    await store.offer("actor-4", 0)

    assert await inner.offers() == 4
    assert store.calls["offer"] == 4


async def test_what_the_policy_says_nothing_of_passes(inner):
    store = FaultyStore(inner, Faults(append=FailBefore()))

    assert await store.open() == inner.store_id
    with pytest.raises(ConversationNotFound):
        await store.load("c-1")
    assert store.store_id == inner.store_id
    assert store.calls == {"open": 1, "load": 1}


async def test_another_error_may_be_asked_for(inner):
    store = FaultyStore(inner, Faults(renew=FailBefore(Fenced("c-1")), now=FailAfter(TimeoutError())))

    with pytest.raises(Fenced):
        await store.renew("c-1", "t-1", 1000)
    with pytest.raises(TimeoutError):
        await store.now()


async def test_a_call_waits_until_it_may_go_on(inner):
    gate = asyncio.Event()
    store = FaultyStore(inner, Faults(offer=Delay(until=gate)))
    offering = asyncio.create_task(store.offer("actor-1", 0))
    while not store.calls["offer"]:
        await asyncio.sleep(0)
    assert await inner.offers() == 0

    gate.set()
    await offering

    assert await inner.offers() == 1


async def test_a_delay_is_only_a_delay(inner):
    store = FaultyStore(inner, Faults(offer=Delay(0.001)))
    await store.offer("actor-1", 0)

    assert await inner.offers() == 1


async def test_listening_may_fail_at_once_or_after_the_first(inner):
    store = FaultyStore(inner, Faults(listen={1: FailBefore(), 2: FailAfter()}))
    with pytest.raises(StoreUnavailable):
        await anext(store.listen("c-1"))

    listening = store.listen("c-1")
    heard = asyncio.ensure_future(anext(listening))
    while not heard.done():
        await inner.publish("c-1", b"x")
        await asyncio.sleep(0)
    assert await heard == b"x"
    with pytest.raises(StoreUnavailable):
        await anext(listening)


async def test_a_policy_is_any_function(inner):
    seen = []

    def policy(method, number):
        seen.append((method, number))

    store = FaultyStore(inner, policy)
    await store.now()
    await store.now()
    await store.offers()
    store.policy = Faults(now=FailBefore())

    with pytest.raises(StoreUnavailable):
        await store.now()
    assert seen == [("now", 1), ("now", 2), ("offers", 1)]


def test_a_method_that_no_store_has_is_a_mistake():
    with pytest.raises(AttributeError, match="apend"):
        Faults(apend=FailBefore())


def test_what_the_store_lacks_it_lacks(inner):
    store = FaultyStore(inner, Faults())

    with pytest.raises(AttributeError):
        _ = store.nonsense
