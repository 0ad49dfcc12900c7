"""Cases of attention: when the sweeper must look at a conversation."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from writer import DESK, LEASE_MS, Writer, begin, call, cancel, finish, reply, resolve, send, start, wake

from holdfast.conversation import Answer, Approve, Stop
from holdfast.persistence import Store, TakeoverReason

from .parking import BOUND_MS, calling, claimed, listening
from .waiting import until


async def due(store: Store, limit: int = 100) -> Sequence[str]:
    """The ids of the conversations that need attention now."""
    return (await store.attention(limit)).conversation_ids


class Attending:
    """A conversation needs attention at the end of its lease while work is outstanding, or at a deadline if that is earlier."""

    async def test_nothing_is_due_at_first(self, store: Store) -> None:
        before = await store.now()
        found = await store.attention(10)

        assert found.conversation_ids == []
        assert before <= found.now <= await store.now()

    async def test_a_busy_conversation_is_due_when_its_lease_ends(self, store: Store, other: Store) -> None:
        writer = await Writer.of(store, "c-1", lease_ms=30)
        await writer.do(start())  # the beginning of its turn is outstanding

        async def is_due() -> bool:
            return await due(other) == ["c-1"]

        await until(is_due)
        assert await is_due()  # looking changes nothing

    async def test_a_busy_conversation_within_its_lease_is_not_due(self, store: Store) -> None:
        writer = await Writer.of(store, "c-1")
        for steps in ((start(),), (begin(),), (call("lookup"),), (finish(),)):
            await writer.do(*steps)
            assert await due(store) == []

    async def test_a_renewed_lease_puts_it_off(self, store: Store) -> None:
        writer = await Writer.of(store, "c-1", lease_ms=1)
        await writer.do(start(), begin())

        async def is_due() -> bool:
            return await due(store) == ["c-1"]

        await until(is_due)
        await store.renew("c-1", writer.token, LEASE_MS)
        assert await due(store) == []
        await store.renew("c-1", writer.token, 1)
        await until(is_due)

    async def test_a_takeover_puts_it_off(self, store: Store) -> None:
        writer = await Writer.of(store, "c-1", lease_ms=1)
        await writer.do(start(), begin())

        async def is_due() -> bool:
            return await due(store) == ["c-1"]

        await until(is_due)
        await Writer.of(store, "c-1", seen=writer.token, because=TakeoverReason.DIED)
        assert await due(store) == []

    async def test_a_busy_conversation_that_was_released_is_due_at_once(self, store: Store) -> None:
        writer = await Writer.of(store, "c-1")
        await writer.do(start(), begin())
        await writer.release()

        assert await due(store) == ["c-1"]

    async def test_a_resting_conversation_without_deadline_is_never_due(self, store: Store) -> None:
        writer = await Writer.of(store, "c-1", lease_ms=1)
        await writer.do(start(), begin())
        await writer.do(reply())
        now = await store.now()

        async def lease_ended() -> bool:
            return await store.now() > now + 5

        await until(lease_ended)
        assert await due(store) == []
        await writer.release()
        assert await due(store) == []

    async def test_a_deadline_is_due_when_it_has_passed(self, store: Store) -> None:
        late, early = await Writer.of(store, "c-1"), await Writer.of(store, "c-2")
        now = await store.now()
        await late.do(start(), begin(), call("ask"), now=now)
        await early.do(start(), begin(), call("ask"), now=now - 3600_000 - 10)

        assert await due(store) == ["c-2"]

    @pytest.mark.parametrize("parked", [False, True])
    async def test_the_end_of_a_turns_time_is_due_while_work_goes_on(self, store: Store, *, parked: bool) -> None:
        now = await store.now()
        for name, steps, since_ms in (
            ("c-1", (), 59_000),
            ("c-2", (), 61_000),
            ("c-3", (call("lookup"),), 61_000),
            ("c-4", (call("lookup", "ask"),), 61_000),  # it stands still, as a person is asked
        ):
            writer = await Writer.of(store, name)
            writer.spec = DESK.model_copy(update={"stop": Stop(timeout_s=60)}).stored_as(DESK.digest)
            await writer.do(start(message_id=f"m-{name}"), begin(), *steps, now=now - since_ms)
            for effect_id in writer.effect_ids if parked else ():
                await claimed(store, effect_id, name)
            if parked:
                await store.release(name, writer.token, look_ms=BOUND_MS)
        assert sorted(await due(store)) == ["c-2", "c-3"]

    async def test_a_deadline_stays_after_release_and_takeover(self, store: Store) -> None:
        writer = await Writer.of(store, "c-1")
        await writer.do(start(), begin(), call("ask"), now=await store.now() - 3600_000 - 10)
        await writer.release()
        assert await due(store) == ["c-1"]

        anew = await Writer.of(store, "c-1")
        assert await due(store) == ["c-1"]
        await store.renew("c-1", anew.token, LEASE_MS)
        assert await due(store) == ["c-1"]
        await anew.release()
        assert await due(store) == ["c-1"]

    async def test_a_deadline_to_come_is_not_due_after_release(self, store: Store) -> None:
        writer = await Writer.of(store, "c-1", lease_ms=1)
        await writer.do(start(), begin(), call("ask"))
        await writer.release()

        assert await due(store) == []

    async def test_the_earliest_of_several_deadlines_counts(self, store: Store) -> None:
        writer = await Writer.of(store, "c-1")
        now = await store.now()
        await writer.do(start(), begin(), call("ask", "locate"), now=now - 60_000 - 10)  # the client has a minute
        assert await due(store) == ["c-1"]

        await writer.do(wake(), now=now)

        assert await due(store) == []
        assert len(writer.suspension_ids) == 1

    async def test_a_deadline_before_the_end_of_a_lease_counts(self, store: Store) -> None:
        writer = await Writer.of(store, "c-1")
        await writer.do(start(), begin(), call("locate", "lookup"), now=await store.now() - 60_000 - 10)

        assert await due(store) == ["c-1"]

    async def test_the_end_of_a_lease_before_a_deadline_counts(self, store: Store) -> None:
        writer = await Writer.of(store, "c-1", lease_ms=1)
        await writer.do(start(), begin(), call("ask", "lookup"))

        async def is_due() -> bool:
            return await due(store) == ["c-1"]

        await until(is_due)

    async def test_what_was_settled_is_not_due(self, store: Store) -> None:
        writer = await Writer.of(store, "c-1")
        now = await store.now()
        await writer.do(start(), begin(), call("ask", "refund"), now=now - 3600_000 - 10)
        await writer.do(resolve(Answer("blue")), now=now - 10)  # before the sweeper came: it counts
        assert await due(store) == ["c-1"]
        await writer.do(resolve(Approve()), now=now - 10)
        assert await due(store) == []
        await writer.do(cancel())
        assert await due(store) == []

    async def test_a_woken_conversation_is_due_no_more(self, store: Store) -> None:
        writer = await Writer.of(store, "c-1")
        await writer.do(start(), begin(), call("ask"), now=await store.now() - 3600_000 - 10)

        await writer.do(wake())

        assert await due(store) == []
        assert writer.state.calls[0].status == "errored"
        await writer.do(reply(), send())
        assert await due(store) == []

    async def test_a_writer_that_has_looked_at_what_is_due_says_when_it_is_due_next(self, store: Store) -> None:
        writer = await Writer.of(store, "c-1")
        now = await store.now()
        await writer.do(start(), begin(), call("ask"), now=now - 3600_000 - 10)
        assert await due(store) == ["c-1"]

        await store.append("c-1", replace(writer.write(), due_at=now + 3600_000))
        assert await due(store) == []
        await store.renew("c-1", writer.token, LEASE_MS)
        await writer.release()
        assert await due(store) == []

        guest = Writer.visiting(store, "c-1", await store.visit("c-1", most_bytes=1 << 20))
        await store.append("c-1", replace(guest.write(), due_at=now))
        assert await due(store) == ["c-1"]
        guest = Writer.visiting(store, "c-1", await store.visit("c-1", most_bytes=1 << 20))
        await store.append("c-1", replace(guest.write(), due_at=now + 3600_000))
        assert await due(store) == []
        await (await Writer.of(store, "c-1")).do(send())  # another writer knows only what the state says
        assert await due(store) == ["c-1"]

    async def test_the_longest_overdue_comes_first_in_a_short_look(self, store: Store) -> None:
        now = await store.now()
        same_bucket = ("c-8", "c-27", "c-63", "c-169")  # by CRC-16; another store may have no buckets
        for overdue_ms, name in zip((30, 10, 40, 20), same_bucket, strict=True):
            writer = await Writer.of(store, name)
            await writer.do(start(), begin(), call("ask"), now=now - 3600_000 - 1000 * overdue_ms)

        everything = [name for name in await due(store) if name in same_bucket]

        assert everything == ["c-63", "c-8", "c-169", "c-27"]
        assert "c-63" in await due(store, 1)
        assert "c-27" not in await due(store, 3)

    async def test_many_are_due_together(self, store: Store) -> None:
        now = await store.now()
        names = [f"many-{number}" for number in range(80)]
        for name in names:
            writer = await Writer.of(store, name)
            await writer.do(start(), begin(), call("ask"), now=now - 3600_000 - 1000)

        assert sorted(await due(store)) == sorted(names)

    # -- work that a worker gives back ---------------------------------------------------------------------------------------

    async def test_work_that_is_given_back_unclaimed_has_its_conversation_looked_at_now(
        self, store: Store, other: Store
    ) -> None:
        writer = await calling(store)
        await store.release("c-1", writer.token, look_ms=BOUND_MS)
        assert await due(store) == []

        assert await other.give_back("c-1", "t1.m1", incarnation="p-1.x")

        assert await due(store) == ["c-1"]
        assert "t1.m1" in (await Writer.of(store, "c-1")).runs

    async def test_a_claim_that_its_worker_does_not_know_of_is_given_back_and_no_other_claim(
        self, store: Store, other: Store
    ) -> None:
        writer = await calling(store)
        await claimed(store)
        await store.release("c-1", writer.token, look_ms=BOUND_MS)

        assert await other.give_back("c-1", "t1.m1", incarnation="p-2.y")
        assert await due(store) == []
        assert await other.give_back("c-1", "t1.m1", incarnation="p-1.x")
        assert await due(store) == ["c-1"]

    async def test_work_is_not_given_back_while_somebody_owns_its_conversation(self, store: Store, other: Store) -> None:
        writer = await calling(store)

        assert not await other.give_back("c-1", "t1.m1", incarnation="p-1.x")
        assert await due(store) == []

        await store.release("c-1", writer.token, look_ms=BOUND_MS)
        assert await other.give_back("c-1", "t1.m1", incarnation="p-1.x")
        assert await due(store) == ["c-1"]

    async def test_nobody_is_called_for_work_that_is_over_or_waits_for_the_end_of_a_pause_or_is_set_aside(
        self, store: Store
    ) -> None:
        for name in ("paused", "aside", "done", "settled"):
            writer = await calling(store, name)
            if name == "aside":
                assert await store.strike(name, writer.token, process="p-1", reason="it died", limit=1) is None
                continue
            if name == "settled":
                await writer.do(reply())
            if name == "done":
                await claimed(store, "t1.m1", name)
            await store.release(name, writer.token, paused=name == "paused", look_ms=BOUND_MS)
        assert await store.finish("done", "t1.m1", incarnation="p-1.x", outcome=b"Hi.")
        assert await due(store) == ["done"]
        done = await Writer.of(store, "done")
        await store.release("done", done.token, paused=True, look_ms=BOUND_MS)

        for name in ("paused", "aside", "done", "settled", "unknown"):
            assert await store.give_back(name, "t1.m1", incarnation="p-1.x")

        assert await due(store) == []
        assert await store.owner("unknown") is None

    async def test_work_that_is_given_back_is_heard_of(self, store: Store, other: Store) -> None:
        async with listening(other) as heard:
            given: list[str] = []

            async def hears() -> bool:
                given.append(f"c-{len(given)}")
                writer = await calling(store, given[-1])
                await store.release(given[-1], writer.token, look_ms=BOUND_MS)
                assert await store.give_back(given[-1], "t1.m1", incarnation="p-1.x")
                return bool(heard)

            await until(hears)  # whoever listens may miss what comes before it has begun to
            assert set(heard) <= set(given)
