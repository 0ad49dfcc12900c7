"""Cases of the outbox: what is owed is leased in order, acknowledged once, tried again, set aside, listed and dropped."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace

import pytest
from writer import Writer, begin, end, reply, start

from holdfast.conversation.log.owed import Envelope, notice_target, own_target
from holdfast.errors import Fenced, InvalidInput
from holdfast.persistence import Lane, Leased, Leases, OutboxFigures, OutboxState, OwedFigures, Store, Verdict
from holdfast.persistence.outbox import ASIDE_MS, outbox_id

from .waiting import until

OPS = notice_target("ops", "shop.app:app")
AUDIT = notice_target("audit", "shop.app:app")
CHILD = own_target("c-child")
LEASE_MS = 60_000


async def owe(store: Store, name: str, *kinds: str, target: str = OPS) -> Writer:
    """A conversation whose start owes things of these kinds to a target."""
    writer = await Writer.of(store, name)
    await owe_more(writer, *kinds, target=target)
    return writer


async def owe_more(writer: Writer, *kinds: str, target: str = OPS) -> None:
    """The next append, which owes things of these kinds."""
    write = writer.judged(begin() if writer.state.seq else start(), now=await writer.store.now())
    seq = write.after.seq
    owed = [Envelope(kind, target, seq, n, 0) for n, kind in enumerate(kinds)]
    await writer.store.append(writer.conversation_id, replace(write, owed=owed))
    writer.adopt(write.events, write.after)


async def lease(store: Store, lane: str = OPS, *, most: int = 10, lease_ms: int = LEASE_MS) -> Sequence[Leased]:
    """What is due in a lane, of all buckets."""
    _, lanes = await store.lanes()
    leases = [await store.lease(found, most=most, lease_ms=lease_ms) for found in lanes if found.name == lane]
    return [one for found in leases for one in found.leased]


async def one_leased(store: Store, lane: str = OPS, *, lease_ms: int = LEASE_MS) -> Leased:
    """The only thing that is due in a lane."""
    (leased,) = await lease(store, lane, lease_ms=lease_ms)
    return leased


async def leased_again(store: Store) -> Leased:
    """What is due in a lane, as soon as it is."""
    found: list[Leased] = []

    async def is_due() -> bool:
        found.extend(await lease(store))
        return bool(found)

    await until(is_due)
    (leased,) = found
    return leased


@asynccontextmanager
async def news(store: Store) -> AsyncIterator[list[Lane | None]]:
    """The news of what is owed, as they come."""
    heard: list[Lane | None] = []

    async def listen() -> None:
        async for one in store.owed_news():
            heard.append(one)  # noqa: PERF401 - each as it comes

    task = asyncio.create_task(listen())
    try:
        yield heard
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def kinds_of(leased: Sequence[Leased]) -> list[str]:
    """Of what is leased, the kinds."""
    return sorted(one.envelope.kind for one in leased)


async def ids(store: Store, state: OutboxState) -> list[str]:
    """The ids in the outbox."""
    rows = (await store.outbox(state, limit=100)).items
    return [outbox_id(row.conversation_id, row.envelope) for row in rows]


class Owing:
    """What is owed is delivered at least once and in order, whoever delivers it, and nothing stops what can be delivered."""

    async def test_what_an_append_owes_is_leased_in_order(self, store: Store, other: Store) -> None:
        before = await store.now()
        writer = await owe(store, "c-1", "suspended", "settled")
        await owe_more(writer, "ended")

        first = await one_leased(other)
        assert (first.conversation_id, first.tries) == ("c-1", 1)
        assert (first.envelope.kind, first.envelope.n, first.envelope.target) == ("suspended", 0, OPS)
        assert before <= first.envelope.at <= await store.now()
        assert await lease(store) == []

        assert await other.acknowledge(first, Verdict.DELIVERED) is Verdict.DELIVERED
        second = await one_leased(store)
        assert (second.envelope.kind, second.envelope.n, second.envelope.seq) == ("settled", 1, first.envelope.seq)
        await store.acknowledge(second, Verdict.DELIVERED)
        third = await one_leased(store)
        assert (third.envelope.kind, third.tries) == ("ended", 1)
        await store.acknowledge(third, Verdict.DELIVERED)
        assert await lease(store) == []
        assert (await store.lanes())[1] == []
        assert (await store.outbox_figures()).lanes == {}

    async def test_an_append_that_owes_nothing_leaves_the_outbox_empty(self, store: Store) -> None:
        writer = await Writer.of(store, "c-1")
        await writer.do(start(), begin(), reply(), end())
        assert (await store.lanes())[1] == []
        assert (await store.outbox(OutboxState.OWED, limit=10)).items == []

    async def test_the_same_append_again_owes_nothing_more(self, store: Store, other: Store) -> None:
        writer = await Writer.of(store, "c-1")
        write = replace(writer.judged(start(), now=await store.now()), owed=[Envelope("ended", OPS, 2, 0, 0)])
        await store.append("c-1", write)
        await other.append("c-1", write)
        (row,) = (await store.outbox(OutboxState.OWED, limit=10)).items
        assert row.waiting == 1

    async def test_a_fenced_append_owes_nothing(self, store: Store) -> None:
        writer = await Writer.of(store, "c-1")
        write = replace(writer.judged(start(), now=await store.now()), owed=[Envelope("ended", OPS, 2, 0, 0)])
        await writer.succeeded()
        with pytest.raises(Fenced):
            await store.append("c-1", write)
        assert (await store.lanes())[1] == []

    async def test_lanes_are_apart_and_conversations_do_not_wait_for_each_other(self, store: Store) -> None:
        await owe(store, "c-1", "ended")
        await owe(store, "c-2", "settled")
        await owe(store, "c-3", "suspended", target=AUDIT)
        await owe(store, "c-4", "end", target=CHILD)
        assert kinds_of(await lease(store)) == ["ended", "settled"]
        assert kinds_of(await lease(store, AUDIT)) == ["suspended"]
        (own,) = await lease(store, "own")
        assert (own.envelope.kind, own.envelope.target) == ("end", CHILD)

    async def test_no_more_is_leased_than_was_asked_for(self, store: Store) -> None:
        await owe(store, "c-1", "ended")
        (lane,) = (await store.lanes())[1]
        assert await store.lease(lane, most=0, lease_ms=LEASE_MS) == Leases([])
        assert await store.lease(replace(lane, name=AUDIT), most=10, lease_ms=LEASE_MS) == Leases([])
        assert len((await store.lease(lane, most=10, lease_ms=LEASE_MS)).leased) == 1

    async def test_whoever_delivers_too_late_acknowledges_nothing(self, store: Store, other: Store) -> None:
        writer = await owe(store, "c-1", "suspended", "settled")
        frozen = await one_leased(other, lease_ms=1)

        second = await leased_again(store)
        assert (second.envelope, second.tries) == (frozen.envelope, 2)
        for verdict in Verdict:
            assert await other.acknowledge(frozen, verdict, reason="late") is None
        assert await store.acknowledge(second, Verdict.DELIVERED) is Verdict.DELIVERED
        third = await one_leased(store)
        assert third.envelope.kind == "settled"
        for leased in (frozen, second):
            assert await other.acknowledge(leased, Verdict.DELIVERED) is None
        assert await store.acknowledge(third, Verdict.DELIVERED) is Verdict.DELIVERED
        assert await store.acknowledge(third, Verdict.DELIVERED) is None
        await owe_more(writer, "ended")
        assert (await one_leased(store)).envelope.kind == "ended"

    async def test_what_is_tried_again_stays_the_first_one(self, store: Store) -> None:
        writer = await owe(store, "c-1", "suspended")
        leased = await one_leased(store)
        assert await store.acknowledge(leased, Verdict.LATER, reason="it answers 503", after_ms=1) is Verdict.LATER
        await owe_more(writer, "settled")

        again = await leased_again(store)
        assert (again.envelope, again.tries) == (leased.envelope, 2)

    async def test_what_waits_for_its_next_try_is_due_no_sooner(self, store: Store) -> None:
        writer = await owe(store, "c-1", "suspended")
        await store.acknowledge(await one_leased(store), Verdict.LATER, reason="it answers 503", after_ms=3_600_000)
        await owe_more(writer, "settled")
        assert await lease(store) == []
        now, (lane,) = await store.lanes()
        assert now + 3_500_000 < lane.due_at <= now + 3_600_000
        (row,) = (await store.outbox(OutboxState.OWED, limit=10)).items
        assert (row.reason, row.tries, row.waiting, row.due_at) == ("it answers 503", 1, 2, lane.due_at)

    async def test_a_queue_that_was_tried_for_too_long_is_set_aside(self, store: Store) -> None:
        await owe(store, "c-1", "suspended", "settled")
        leased = await one_leased(store)
        said = await store.acknowledge(leased, Verdict.LATER, reason="it is gone", after_ms=5, tried_ms=0)
        assert said is Verdict.ASIDE
        (row,) = (await store.outbox(OutboxState.SET_ASIDE, limit=10)).items
        assert (row.envelope, row.reason, row.due_at) == (leased.envelope, "it is gone", 0)
        second = await one_leased(store)
        assert (second.envelope.kind, second.tries) == ("settled", 1)

    async def test_what_is_set_aside_lets_the_next_one_go(self, store: Store) -> None:
        await owe(store, "c-1", "suspended", "settled")
        leased = await one_leased(store)
        assert await store.acknowledge(leased, Verdict.ASIDE, reason="it answers 410") is Verdict.ASIDE
        second = await one_leased(store)
        assert second.envelope.kind == "settled"
        await store.acknowledge(second, Verdict.DELIVERED)
        now, lanes = await store.lanes()
        assert [lane for lane in lanes if lane.due_at <= now] == []
        assert (await store.outbox_figures()).lanes == {OPS: OwedFigures(set_aside=1)}
        (row,) = (await store.outbox(OutboxState.SET_ASIDE, limit=10)).items
        assert row.since <= now
        assert await store.redeliver(outbox_id("c-1", row.envelope))
        again = await one_leased(store)
        assert (again.envelope, again.tries) == (leased.envelope, 1)
        await store.acknowledge(again, Verdict.DELIVERED)
        assert await ids(store, OutboxState.SET_ASIDE) == []
        assert (await store.outbox_figures()).lanes == {}

    async def test_an_operator_has_it_tried_now(self, store: Store) -> None:
        await owe(store, "c-1", "suspended")
        leased = await one_leased(store)
        await store.acknowledge(leased, Verdict.LATER, reason="it answers 503", after_ms=3_600_000)
        (name,) = await ids(store, OutboxState.OWED)
        assert await store.redeliver(name)
        assert (await one_leased(store)).tries == 2
        assert await store.redeliver(name)
        assert await lease(store) == []  # it is being delivered

    async def test_an_operator_drops_what_is_owed_or_set_aside(self, store: Store) -> None:
        await owe(store, "c-1", "suspended", "settled", "ended")
        first = await one_leased(store)
        await store.acknowledge(first, Verdict.ASIDE, reason="it answers 410")
        (aside,) = await ids(store, OutboxState.SET_ASIDE)
        second = await one_leased(store)
        assert await store.drop_owed(aside)
        assert not await store.drop_owed(aside)
        assert not await store.redeliver(aside)
        assert await lease(store) == []
        (owed,) = await ids(store, OutboxState.OWED)
        assert owed == outbox_id("c-1", second.envelope)
        assert await store.drop_owed(owed)
        assert await store.acknowledge(second, Verdict.DELIVERED) is None
        third = await one_leased(store)
        assert (third.envelope.kind, third.tries) == ("ended", 1)
        assert await store.drop_owed(outbox_id("c-1", third.envelope))
        assert (await store.outbox_figures()).lanes == {}

    async def test_what_is_dropped_while_it_is_delivered_is_not_overtaken(self, store: Store) -> None:
        await owe(store, "c-1", "suspended", "settled", "ended")
        leased = await one_leased(store)
        await store.acknowledge(leased, Verdict.LATER, reason="it answers 503", after_ms=0)
        leased = await one_leased(store)
        assert leased.tries == 2
        assert await store.drop_owed(outbox_id("c-1", leased.envelope))
        assert await lease(store) == []
        assert await store.acknowledge(leased, Verdict.DELIVERED) is None
        second = await one_leased(store)
        assert (second.envelope.kind, second.tries) == ("settled", 1)

    async def test_what_follows_a_dropped_one_is_delivered_though_the_courier_died(self, store: Store) -> None:
        await owe(store, "c-1", "suspended", "settled")
        leased = await one_leased(store, lease_ms=300)
        assert await store.drop_owed(outbox_id("c-1", leased.envelope))
        second = await leased_again(store)
        assert (second.envelope.kind, second.tries) == ("settled", 1)
        assert await store.acknowledge(leased, Verdict.DELIVERED) is None
        assert await store.drop_owed(outbox_id("c-1", second.envelope))
        assert await store.acknowledge(second, Verdict.DELIVERED) is None
        assert (await store.outbox_figures()).lanes == {}

    @pytest.mark.parametrize("name", ["", "c-1", "c-1~notice:ops:app~1", "c-1~notice:ops:app~1.0.ended.x", 7])
    async def test_a_text_that_is_no_id_is_refused(self, store: Store, name: object) -> None:
        for verb in (store.redeliver, store.drop_owed):
            with pytest.raises(InvalidInput, match="names nothing in the outbox"):
                await verb(name)  # type: ignore[arg-type]

    async def test_the_outbox_is_listed_page_by_page_the_oldest_first(self, store: Store, other: Store) -> None:
        names = [f"c-{number}" for number in range(9)]
        for number, name in enumerate(names):
            await owe(store, name, "suspended", target=AUDIT if number % 2 else OPS)
        for state in OutboxState:
            listed, after = [], None
            while True:
                page = await other.outbox(state, limit=4, after=after)
                listed += page.items
                after = page.next
                if after is None:
                    break
            assert sorted(row.conversation_id for row in listed) == names
            assert [row.since for row in listed] == sorted(row.since for row in listed)
            assert {row.state for row in listed} == {state}
            for lane in (OPS, AUDIT):
                for leased in await lease(store, lane):
                    await store.acknowledge(leased, Verdict.ASIDE, reason=f"no {leased.conversation_id}")
        assert {row.reason for row in listed} == {f"no {name}" for name in names}

    @pytest.mark.parametrize("cursor", ["", "x", "1", 5])
    async def test_a_page_of_the_outbox_begins_after_a_cursor(self, store: Store, cursor: str) -> None:
        with pytest.raises(InvalidInput, match="not a cursor"):
            await store.outbox(OutboxState.OWED, limit=10, after=cursor)
        with pytest.raises(InvalidInput, match="limit"):
            await store.outbox(OutboxState.OWED, limit=0)

    async def test_what_was_set_aside_is_dropped_once_it_is_old_or_too_much(self, store: Store) -> None:
        await owe(store, "c-1", *("suspended", "settled", "expired", "ended"))
        await owe(store, "c-2", "ended", target=AUDIT)
        for _ in range(3):
            await store.acknowledge(await one_leased(store), Verdict.ASIDE, reason="no")
        await store.acknowledge(await one_leased(store, AUDIT), Verdict.ASIDE, reason="no")
        lane = next(one for one in (await store.lanes())[1] if one.name == OPS)

        kept = await store.lease(lane, most=0, lease_ms=LEASE_MS)
        fewer = await store.lease(lane, most=10, lease_ms=LEASE_MS, most_aside=2)
        rows = (await store.outbox(OutboxState.SET_ASIDE, limit=10)).items
        assert (kept.dropped, fewer.dropped, [one.envelope.kind for one in fewer.leased]) == (0, 1, ["ended"])
        assert sorted(row.envelope.kind for row in rows) == ["ended", "expired", "settled"]

        assert await store.acknowledge(fewer.leased[0], Verdict.DELIVERED) is Verdict.DELIVERED
        now, lanes = await store.lanes()  # a lane in which nothing is owed any more is still looked at
        assert {one.name for one in lanes if now < one.due_at <= now + ASIDE_MS} == {OPS, AUDIT}
        assert (await store.lease(lane, most=10, lease_ms=LEASE_MS, aside_ms=0)).dropped == 2
        assert [lane.name for lane in (await store.lanes())[1]] == [AUDIT]
        (row,) = (await store.outbox(OutboxState.SET_ASIDE, limit=10)).items
        assert row.conversation_id == "c-2"

    async def test_the_figures_are_by_lane(self, store: Store) -> None:
        await owe(store, "c-1", "suspended", "settled")
        await owe(store, "c-2", "suspended")
        await owe(store, "c-3", "suspended", target=AUDIT)
        await store.acknowledge(await one_leased(store, AUDIT), Verdict.ASIDE, reason="no")
        rows = (await store.outbox(OutboxState.OWED, limit=10)).items
        found = await store.outbox_figures()
        oldest = min(row.envelope.at for row in rows)
        lanes = {OPS: OwedFigures(queues=2, since=oldest), AUDIT: OwedFigures(set_aside=1)}
        assert found == OutboxFigures(found.now, lanes)

    async def test_a_quarantine_owes_what_the_last_append_said(self, store: Store, other: Store) -> None:
        for targets in ([OPS, AUDIT], []):
            writer = await Writer.of(store, f"c-{len(targets)}")
            write = writer.judged(start(), now=await store.now())
            await store.append(writer.conversation_id, replace(write, quarantine_owes=[OPS, AUDIT]))
            writer.adopt(write.events, write.after)
            write = writer.judged(begin(), now=await store.now())
            await store.append(writer.conversation_id, replace(write, quarantine_owes=targets))
            await other.strike(writer.conversation_id, writer.token, process="p-1", reason="it kills", limit=1)
        for lane in (OPS, AUDIT):
            leased = await one_leased(store, lane)
            envelope = leased.envelope
            assert (leased.conversation_id, envelope.kind, envelope.target) == ("c-2", "quarantined", lane)
            assert envelope.seq == write.after.seq

    async def test_whoever_listens_is_told(self, store: Store, other: Store) -> None:
        made = iter(range(1_000_000))
        async with news(other) as heard:

            async def told() -> bool:  # the listening begins at some moment
                await owe(store, f"c-{next(made)}", "ended")
                return bool(heard)

            await until(told)
        _, lanes = await store.lanes()
        owing = {(one.bucket, one.name) for one in lanes}
        assert all(one is None or (one.bucket, one.name) in owing for one in heard)

    async def test_a_lane_is_no_lane_of_a_target_with_a_longer_name(self, store: Store) -> None:
        await owe(store, "c-1", "ended", target=f"{OPS}2")
        assert await lease(store) == []
        _, lanes = await store.lanes()
        assert lanes == [Lane(lanes[0].bucket, f"{OPS}2", lanes[0].due_at)]
