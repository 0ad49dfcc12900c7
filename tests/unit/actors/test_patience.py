"""How long an actor waits for work that a worker keeps before it goes on offer."""

import asyncio

from hosted import OPEN, START, Keeps, keeping, recorded, soon, stored, wall_ms

from holdfast.actors.activation.rest import HOLD_MS, OFFER_AFTER_MS, TRIED, Patience
from holdfast.actors.answers import Hosted
from holdfast.actors.host import Host
from holdfast.conversation import ModelReplied
from holdfast.persistence import TakeoverReason
from holdfast.settings import ProcessLimits, Timing

LONG, SHORT = HOLD_MS * 20, HOLD_MS // 10


def after(*waits):
    patience = Patience()
    for for_ms, over in waits:
        patience.waited(for_ms, over=over)
    return patience


def test_of_work_that_nothing_is_known_of_a_short_end_is_expected():
    assert Patience().hold_ms() == HOLD_MS


def test_while_most_work_goes_on_for_long_only_one_wait_in_some_is_held():
    patience = after((SHORT, True), *[(LONG, True)] * 3)
    held = [patience.hold_ms() for _ in range(10 * TRIED)]
    assert held.count(HOLD_MS) == 10
    assert held.count(OFFER_AFTER_MS) == 10 * TRIED - 10


def test_short_work_is_waited_for_again_once_some_is_seen_where_most_waits_are_cut_off():
    patience = after(*[(LONG, True)] * 100)
    patience.waited(SHORT, over=True)
    assert {patience.hold_ms() for _ in range(2 * TRIED)} == {HOLD_MS}


def test_a_wait_that_was_cut_off_says_only_how_long_it_was_at_least():
    assert after(*[(SHORT, False)] * 100).hold_ms() == HOLD_MS
    assert after(*[(HOLD_MS, False)] * 2).hold_ms() == OFFER_AFTER_MS


async def test_an_actor_goes_on_offer_for_a_call_that_goes_on_and_not_for_one_that_ends_at_once():
    store, workers = await stored(OPEN), keeping(Keeps("p-1.x"))
    workers.store, ranks, still = store, [], [wall_ms()]

    async def offer(name, rank):
        ranks.append(rank)

    store.offer = offer
    host = Host(
        store,
        workers,
        name="actor-1",
        timing=Timing(lease_ms=60_000, tick_ms=5),
        process_limits=ProcessLimits(),
        clock=lambda: still[0] if still else wall_ms(),
        leave=lambda: None,
    )
    first = START.model_copy(update={"spec": OPEN})
    assert isinstance(await host.activate("c-1", "", TakeoverReason.ASKED, create=True, first=first), Hosted)
    await soon(lambda: workers.joined)
    still[0] += HOLD_MS - 1
    await asyncio.sleep(0.02)
    assert ranks == []
    still[0] += 1
    await soon(lambda: ranks)
    assert ranks[-1] > 1 << 50

    still.clear()
    outcome = ModelReplied(effect_id="t1.m1", content="Hello.", finish_reason="stop")
    await recorded(store, outcome)
    workers.join_answer = outcome
    workers.join_gate.set()
    await soon(lambda: ranks[-1] < 1 << 50)
