"""Cases of supervision: crash counts and quarantine, live actors, successors of workers."""

import pytest
from crowd import conversations, pending
from writer import Writer, begin, call, compact, lose, reply, resolve, send, start

from holdfast.conversation import Answer, Status
from holdfast.errors import Fenced, Quarantined
from holdfast.persistence import Acquired, Blame, Store, Takeover, TakeoverReason
from holdfast.persistence.conversations import FEW_CLAIMS


async def busy(store: Store) -> Writer:
    """The writer of a conversation with a run that may be lost and a question that waits."""
    writer = await Writer.of(store, "c-1")
    await writer.do(start(), begin(), call("lookup", "ask"))
    return writer


async def strike(writer: Writer, process: str, limit: int = 3) -> int | None:
    """The crash count of the conversation after one more process died."""
    blame = await writer.store.strike("c-1", writer.token, process=process, reason=f"{process} died", limit=limit)
    return None if blame is None else blame.crash_count


class Supervising:
    """A conversation that takes process after process down goes into quarantine, until it is retried."""

    async def test_the_death_of_one_process_counts_once(self, store: Store) -> None:
        writer = await busy(store)

        assert [await strike(writer, process) for process in ("w-1", "w-1", "w-2", "w-2")] == [1, 1, 2, 2]
        assert await store.quarantine("c-1") is None

    async def test_strikes_outlive_the_activation(self, store: Store, other: Store) -> None:
        writer = await busy(store)
        await strike(writer, "w-1")

        after = await writer.succeeded()

        assert await strike(after, "w-1") == 1
        assert await strike(after, "w-2") == 2
        assert (await other.owner("c-1")).token == after.token  # type: ignore[union-attr]

    async def test_the_death_of_a_process_with_many_claims_halves_the_company_and_strikes_nobody(self, store: Store) -> None:
        writer = await Writer.of(store, "c-1")
        await writer.do(start(), begin())

        async def died(process: str, claims: int) -> Blame | None:
            return await store.strike("c-1", writer.token, process=process, reason="it died", limit=3, claims=claims)

        assert [await died("w-1", 1000) for _ in range(2)] == [Blame(0, 500)] * 2  # it is told twice
        assert await died("w-2", 30) == Blame(0, 15)
        again = await store.acquire(
            "c-1",
            Takeover(seen_token=writer.token, new_token=writer.token, because=TakeoverReason.OWN, actor="a", lease_ms=15_000),
        )
        assert isinstance(again, Acquired)
        assert again.blame == Blame(0, 15)
        assert await died("w-3", 900) == Blame(0, 7)  # it never grows, whatever is said of the process
        assert await died("w-4", 900) == Blame(1, 1)
        assert await died("w-5", FEW_CLAIMS + 1) == Blame(2, 1)
        await writer.do(reply())
        await writer.do(send(), begin())
        assert await died("w-6", FEW_CLAIMS + 1) == Blame(0, FEW_CLAIMS // 2)  # it has got further since
        assert await died("w-7", 1) == Blame(1, 1)

    async def test_progress_clears_the_strikes_and_a_further_attempt_or_message_does_not(self, store: Store) -> None:
        writer = await busy(store)
        await strike(writer, "w-1")
        await writer.do(lose())
        await writer.do(send())
        assert await strike(writer, "w-2") == 2

        await writer.do(resolve(Answer("blue")))

        assert await strike(writer, "w-3") == 1

    async def test_a_summary_that_is_asked_for_again_and_again_clears_no_strikes(self, store: Store) -> None:
        writer = await Writer.of(store, "c-1")
        await writer.do(start(), begin(), reply(), compact())
        await strike(writer, "w-1")

        await writer.do(compact())

        assert await strike(writer, "w-2") == 2

    async def test_at_the_limit_the_conversation_is_in_quarantine_and_nobody_owns_it(self, store: Store, other: Store) -> None:
        writer = await busy(store)
        before = await store.load("c-1")

        assert [await strike(writer, f"w-{number}", limit=2) for number in (1, 2)] == [1, None]

        found = await other.quarantine("c-1")
        assert found is not None
        assert (found.reason, found.at <= await store.now()) == ("w-2 died", True)
        with pytest.raises(Fenced):
            await writer.do(resolve(Answer("blue")))
        with pytest.raises(Fenced):
            await strike(writer, "w-3")
        for because in TakeoverReason:
            with pytest.raises(Quarantined) as refused:
                await Writer.of(other, "c-1", because=because)
            assert refused.value.reason == "w-2 died"
        assert await store.load("c-1") == before

    async def test_quarantine_shows_in_the_lists_and_needs_no_attention(self, store: Store, other: Store) -> None:
        writer = await busy(store)
        await strike(writer, "w-1", limit=1)

        assert [row.status for row in await conversations(other)] == [Status.QUARANTINED]
        assert [row.conversation_id for row in await conversations(other, status=Status.QUARANTINED)] == ["c-1"]
        assert await conversations(other, status=Status.AWAITING_INPUT) == []
        assert [view.conversation_id for view in await pending(other)] == ["c-1"]
        assert "c-1" not in (await other.attention(100)).conversation_ids

    async def test_a_rebuild_of_the_indexes_keeps_the_quarantine(self, store: Store, other: Store) -> None:
        await strike(await busy(store), "w-1", limit=1)
        before = await conversations(other), await pending(other)

        assert sum([bucket.removed async for bucket in other.reindex()]) == 0

        assert (await conversations(other), await pending(other)) == before
        assert "c-1" not in (await other.attention(100)).conversation_ids

    async def test_a_retry_takes_the_conversation_up_where_it_stood(self, store: Store, other: Store) -> None:
        writer = await busy(store)
        await strike(writer, "w-1", limit=1)

        assert await other.retry("c-1")

        assert not await other.retry("c-1")
        assert await other.quarantine("c-1") is None
        assert "c-1" in (await other.attention(100)).conversation_ids
        assert [row.status for row in await conversations(other)] == [Status.AWAITING_INPUT]
        again = await Writer.of(other, "c-1")
        assert again.state == writer.state
        assert await strike(again, "w-1", limit=1) == 0, "that death has been counted"
        assert await strike(again, "w-2") == 1
        await again.do(resolve(Answer("blue")))
        assert await pending(store) == []

    async def test_what_was_never_quarantined_is_not_retried(self, store: Store) -> None:
        writer = await busy(store)
        assert not await store.retry("c-1")
        assert not await store.retry("c-none")
        await writer.do(resolve(Answer("blue")))

    async def test_actors_are_counted_up_to_the_limit(self, store: Store, other: Store) -> None:
        limit = 2
        assert [await store.heartbeat(name, limit=limit) for name in ("a", "b", "c")] == [True, True, False]
        assert await other.heartbeat("a", limit=limit), "it says again that it lives"
        assert set(await other.live()) == {"a", "b"}
        assert await other.live(quiet_ms=60_000) == {}

        await other.deregister("a")

        assert await store.heartbeat("c", limit=limit)
        assert set(await store.live()) == {"b", "c"}

    async def test_an_actor_that_is_not_heard_of_counts_until_it_is_deregistered(self, store: Store) -> None:
        assert await store.heartbeat("a", limit=1)
        begun = await store.now()
        while await store.now() < begun + 5:
            pass
        assert not await store.heartbeat("b", limit=1)
        assert list(await store.live(quiet_ms=5)) == ["a"]

    async def test_a_worker_has_the_successor_that_was_put_in_office(self, store: Store, other: Store) -> None:
        assert await store.generation("w") == 0
        await store.succeed("w", 1)
        assert await other.generation("w") == 1
        assert await other.generation("v") == 0

    async def test_a_node_where_nothing_new_is_made_is_known_to_everybody_until_that_is_taken_back(
        self, store: Store, other: Store
    ) -> None:
        before = await store.now()
        assert await store.withhold("node-1")
        since = (await other.withheld())["node-1"]
        assert before <= since <= await store.now()
        assert not await other.withhold("node-1")
        assert await other.withhold("*")
        assert set(await store.withheld()) == {"node-1", "*"}
        assert (await store.withheld())["node-1"] == since
        assert await other.withhold("node-1", lift=True)
        assert not await store.withhold("node-1", lift=True)
        assert set(await store.withheld()) == {"*"}

    async def test_a_turn_that_completes_is_progress(self, store: Store) -> None:
        writer = await Writer.of(store, "c-1")
        await writer.do(start(), begin())
        await strike(writer, "w-1")
        await writer.do(reply())
        assert await strike(writer, "w-2") == 1
