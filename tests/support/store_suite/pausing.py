"""Cases of pauses: new work that waits, the record of a pause, and conversations that are found again at its end."""

import asyncio

import pytest
from writer import Writer, begin, call, reply, send, start

from holdfast.errors import InvalidInput
from holdfast.persistence import Pause, RunStatus, Store, TakeoverReason
from holdfast.persistence.lists import MOST_PAUSED


async def left(store: Store, conversation_id: str = "c-1", agent: str = "desk") -> Writer:
    """The former writer of a conversation whose model call is outstanding, and which was released because of a pause."""
    writer = await Writer.of(store, conversation_id, lease_ms=1)
    await writer.do(start(agent=agent), begin())
    await store.release(conversation_id, writer.token, paused=True)
    return writer


async def due(store: Store) -> set[str]:
    """The ids of the conversations that need attention now."""
    return set((await store.attention(100)).conversation_ids)


class Pausing:
    """A mark beside the conversations stops and starts new work, and no conversation that waits for it is forgotten."""

    async def test_a_pause_says_whose_work_waits_who_said_so_why_and_since_when(self, store: Store, other: Store) -> None:
        before = await store.now()

        made = await store.pause("desk", by="ana@laptop", reason="the bill: 3|4 of it")

        assert (made.agent, made.by, made.reason, made.duplicate) == ("desk", "ana@laptop", "the bill: 3|4 of it", False)
        assert before <= made.since <= await store.now()
        found = await other.paused()
        assert list(found.pauses) == [made]
        assert found.now >= made.since

    async def test_a_pause_that_stands_stays_as_it_is(self, store: Store, other: Store) -> None:
        made = await store.pause(None, by="ana", reason="")

        again = await other.pause(None, by="bob", reason="another reason")

        assert again == Pause(None, "", "ana", made.since, duplicate=True)
        assert list((await store.paused()).pauses) == [made]

    async def test_pauses_of_the_namespace_and_of_agents_are_independent(self, store: Store, other: Store) -> None:
        for agent in ("desk", None, "bar"):
            await store.pause(agent, by="ana", reason="")
        assert [pause.agent for pause in (await other.paused()).pauses] == [None, "bar", "desk"]

        lifted = await other.unpause(None)

        assert lifted is not None
        assert (lifted.agent, lifted.by) == (None, "ana")
        standing = await store.paused()
        assert [pause.agent for pause in standing.pauses] == ["bar", "desk"]
        assert [standing.of(agent) is None for agent in ("desk", "bar", "shop")] == [False, False, True]

    async def test_what_is_not_paused_is_not_resumed(self, store: Store) -> None:
        await store.pause("desk", by="ana", reason="")

        assert await store.unpause(None) is None
        assert await store.unpause("bar") is None

        assert [pause.agent for pause in (await store.paused()).pauses] == ["desk"]

    async def test_two_who_lift_a_pause_at_once_lift_no_other(self, store: Store, other: Store) -> None:
        for number in range(20):
            made = await store.pause("desk", by="ana", reason=f"reason {number}")

            lifted, again, anew = await asyncio.gather(
                store.unpause("desk"), other.unpause("desk"), other.pause("desk", by="bob", reason="another")
            )

            assert {one.reason for one in (lifted, again) if one} <= {made.reason, "another"}
            standing = (await store.paused()).pauses
            if anew.duplicate:
                assert not standing
            for one in standing:
                assert await store.unpause("desk") == one
            assert await store.unpause("desk") is None

    async def test_as_many_may_stand_as_each_look_can_read(self, store: Store) -> None:
        for number in range(MOST_PAUSED):
            await store.pause(f"agent-{number}", by="ana", reason="")

        with pytest.raises(InvalidInput) as refused:
            await store.pause("one-more", by="ana", reason="")

        assert refused.value.field == "agent"
        assert (await store.pause("agent-0", by="ana", reason="")).duplicate
        assert not (await store.pause(None, by="ana", reason="")).duplicate, "all may always be stopped"
        await store.unpause(None)
        await store.unpause("agent-0")
        assert not (await store.pause("one-more", by="ana", reason="")).duplicate

    async def test_a_run_is_not_claimed_after_the_moment_until_which_it_may_be(self, store: Store, other: Store) -> None:
        writer = await Writer.of(store, "c-1")
        await writer.do(start(), begin(), call("lookup"))
        (effect_id,) = writer.effect_ids
        now = await store.now()

        for moment in (now - 1, now):  # a thing that ends at a moment does not count at it
            assert not await store.claim("c-1", effect_id, incarnation="i-1", worker="w-1", until=moment)
        assert (await other.run("c-1", effect_id)).status is RunStatus.RUNNABLE  # type: ignore[union-attr]
        assert await store.claim("c-1", effect_id, incarnation="i-1", worker="w-1", until=now + 60_000)

        # the incarnation that has claimed the run gets it again, whenever it asks
        assert await store.claim("c-1", effect_id, incarnation="i-1", worker="w-1", until=now - 1)

    async def test_who_was_left_since_its_work_is_paused_needs_no_attention_until_that_is_over(
        self, store: Store, other: Store
    ) -> None:
        await store.pause("desk", by="ana", reason="")
        await left(store)
        assert await due(other) == set()
        assert await other.readmit(100) == 0
        assert await due(other) == set()

        await store.unpause("desk")

        assert await other.readmit(100) == 1
        assert await due(other) == {"c-1"}
        assert await other.readmit(100) == 0

    async def test_a_pause_that_was_over_before_a_conversation_was_left_holds_nobody(self, store: Store, other: Store) -> None:
        await left(store)
        assert await other.readmit(100) == 1
        assert await due(store) == {"c-1"}

    async def test_its_deadlines_need_attention_all_the_same(self, store: Store, other: Store) -> None:
        long_ago = await store.now() - 3_700_000
        writer = await Writer.of(store, "c-1", lease_ms=60_000)
        await writer.do(start(), begin(), call("ask", "lookup"), now=long_ago)

        await store.release("c-1", writer.token, paused=True)

        assert await due(other) == {"c-1"}

    async def test_whoever_takes_it_over_answers_for_it_again(self, store: Store, other: Store) -> None:
        await store.pause(None, by="ana", reason="")
        await left(store)

        anew = await Writer.of(other, "c-1", lease_ms=1)

        while "c-1" not in await due(store):  # its lease ends, and no owner has renewed it
            pass
        await store.unpause(None)
        assert await store.readmit(100) == 0
        await anew.do(reply())

    async def test_what_is_left_at_rest_is_not_paused(self, store: Store) -> None:
        writer = await Writer.of(store, "c-1", lease_ms=1)
        await writer.do(start(), begin(), reply())

        await store.release("c-1", writer.token, paused=True)

        assert await store.readmit(100) == 0
        again = await Writer.of(store, "c-1", lease_ms=1)
        await again.do(send())
        assert await store.readmit(100) == 0

    async def test_of_those_that_wait_only_they_are_found_whose_pause_is_over(self, store: Store, other: Store) -> None:
        # names of which one begins with another, and sorts otherwise once something stands behind it
        agents = ("desk", "desk-2", "desk.eu", "bar", "desk0")
        for agent in agents:
            await store.pause(agent, by="ana", reason="")
            for number in range(3):
                await left(store, f"{agent}:{number}", agent)
        assert await other.readmit(100) == 0

        await store.unpause("desk-2")
        assert await other.readmit(100) == 3
        assert await due(store) == {f"desk-2:{number}" for number in range(3)}

        await store.pause(None, by="ana", reason="")
        await store.unpause("bar")
        assert await other.readmit(100) == 0, "the namespace is paused"

        await store.unpause(None)
        assert await other.readmit(100) == 3
        for agent in agents:
            await store.unpause(agent)
        assert await other.readmit(100) == 9
        assert len(await due(store)) == 15

    async def test_many_are_found_some_at_a_time(self, store: Store) -> None:
        names = [f"c-{number}" for number in range(70)]  # more than there are buckets, which each have their own limit
        for name in names:
            await left(store, name)
        found = []
        while count := await store.readmit(1):
            found.append(count)
        assert sum(found) == 70
        assert len(found) > 1
        assert await due(store) == set(names)

    async def test_a_conversation_in_quarantine_is_not_woken_by_the_end_of_a_pause(self, store: Store) -> None:
        await left(store)
        assert await store.strike("c-1", "", process="w-1", reason="it died", limit=1) is None

        await store.readmit(100)
        assert await due(store) == set()

        assert await store.retry("c-1")
        assert await due(store) == {"c-1"}

    async def test_what_waits_is_still_there_after_its_indexes_were_made_anew(self, store: Store, other: Store) -> None:
        await left(store)
        assert [bucket.problems async for bucket in other.reindex() if bucket.problems] == []
        await other.readmit(100)
        assert await due(store) == {"c-1"}
        anew = await Writer.of(other, "c-1", because=TakeoverReason.ASKED)
        await anew.do(reply())

    async def test_during_a_pause_indexes_that_are_made_anew_wake_nobody_who_waits_for_its_end(
        self, store: Store, other: Store
    ) -> None:
        await store.pause("desk", by="ana", reason="")
        names = {f"c-{number}" for number in range(5)}
        for name in names:
            await left(store, name)
        await left(store, "bar:1", "bar")
        long_ago = await store.now() - 3_700_000
        overdue = await Writer.of(store, "overdue", lease_ms=60_000)
        await overdue.do(start(), begin(), call("ask", "lookup"), now=long_ago)
        await store.release("overdue", overdue.token, paused=True)

        for _ in range(2):
            assert [bucket.problems async for bucket in other.reindex() if bucket.problems] == []
            assert await due(store) == {"overdue"}

        assert await other.readmit(100) == 1
        assert await due(store) == {"overdue", "bar:1"}
        await store.unpause("desk")
        assert await other.readmit(100) == 6
        assert await due(store) == {"overdue", "bar:1", *names}
