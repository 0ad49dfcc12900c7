"""Cases of a takeover: one of several writers gets the conversation, and only for a reason."""

import asyncio

import pytest
from writer import LEASE_MS, Writer, begin, call, reply, resolve, start

from holdfast.conversation import Answer, State
from holdfast.errors import ConversationNotFound, InvalidMessage, LeaseHeld
from holdfast.persistence import Acquired, Moved, Owner, RunStatus, Store, Takeover, TakeoverReason

from .waiting import until


async def take(
    store: Store,
    conversation_id: str = "c-1",
    *,
    seen: str = "",
    new: str = "t-new",
    because: TakeoverReason = TakeoverReason.ASKED,
    holder: str = "actor-9",
    lease_ms: int = LEASE_MS,
    create: bool = False,
) -> Acquired | Moved:
    """`Store.acquire` with the usual arguments."""
    return await store.acquire(
        conversation_id,
        Takeover(seen_token=seen, new_token=new, because=because, actor=holder, lease_ms=lease_ms, create=create),
    )


class Acquiring:
    """`acquire` is compare-and-set on the owner's token."""

    async def test_the_first_activation_begins_with_nothing(self, store: Store) -> None:
        before = await store.now()
        acquired = await take(store, create=True)

        assert isinstance(acquired, Acquired)
        assert acquired.epoch == 1
        assert acquired.state == State(conversation_id="c-1")
        assert dict(acquired.runs) == {}
        assert before <= acquired.now <= await store.now()

    async def test_what_was_never_started_is_not_found(self, store: Store) -> None:
        with pytest.raises(ConversationNotFound) as refused:
            await take(store)

        assert refused.value.conversation_id == "c-1"
        assert await store.owner("c-1") is None
        acquired = await take(store, create=True)
        assert isinstance(acquired, Acquired)
        assert acquired.epoch == 1

    async def test_what_was_only_acquired_was_never_started(self, store: Store, other: Store) -> None:
        await take(store, create=True)

        assert await other.owner("c-1") == Owner("t-new", 1, "actor-9", started=False)
        with pytest.raises(ConversationNotFound):
            await other.load("c-1")
        with pytest.raises(ConversationNotFound):
            await take(other, new="t-2")
        moved = await take(other, new="t-2", create=True)
        assert isinstance(moved, Moved)
        assert moved.owner.token == "t-new"  # noqa: S105 - a token of this test

    async def test_a_release_before_the_start_leaves_nothing(self, store: Store) -> None:
        writer = await Writer.of(store, "c-1")
        await writer.release()

        assert await store.owner("c-1") is None
        acquired = await take(store, create=True)
        assert isinstance(acquired, Acquired)
        assert acquired.epoch == 1

    async def test_a_refused_start_leaves_nothing(self, store: Store, other: Store) -> None:
        writer = await Writer.of(store, "c-1")
        with pytest.raises(InvalidMessage):
            await writer.do(start(message_id="no id"))
        assert (await other.conversations(limit=10)).items == []
        await writer.release()

        assert await other.owner("c-1") is None
        assert (await other.conversations(limit=10)).items == []
        assert (await other.attention(10)).conversation_ids == []
        await (await Writer.of(store, "c-1")).do(start())
        assert [row.conversation_id for row in (await other.conversations(limit=10)).items] == ["c-1"]

    async def test_of_concurrent_acquires_one_wins(self, store: Store, other: Store) -> None:
        first = await Writer.of(store, "c-1")
        await first.do(start(), begin(), call("ask"))

        answers = await asyncio.gather(
            *(
                take(store if number % 2 else other, seen=first.token, new=f"t-{number}", holder=f"actor-{number}")
                for number in range(12)
            )
        )

        winners = [number for number, answer in enumerate(answers) if isinstance(answer, Acquired)]
        assert len(winners) == 1
        owner = Owner(f"t-{winners[0]}", 2, f"actor-{winners[0]}")
        assert await store.owner("c-1") == owner
        assert [answer.owner for answer in answers if isinstance(answer, Moved)] == [owner] * 11

    async def test_of_concurrent_first_acquires_one_wins(self, store: Store, other: Store) -> None:
        answers = await asyncio.gather(
            *(take(store if number % 2 else other, new=f"t-{number}", create=True) for number in range(12))
        )

        assert sum(isinstance(answer, Acquired) for answer in answers) == 1

    async def test_the_same_new_token_gets_the_same_answer(self, store: Store, other: Store) -> None:
        first = await Writer.of(store, "c-1")
        await first.do(start(), begin(), call("lookup", "ask"))
        won = await take(store, seen=first.token, because=TakeoverReason.DIED)
        again = await take(other, seen=first.token, because=TakeoverReason.DIED)
        whatever_was_seen = await take(other, seen="t-old")

        assert isinstance(won, Acquired)
        for answer in (again, whatever_was_seen):
            assert isinstance(answer, Acquired)
            assert (answer.epoch, answer.state, answer.runs) == (won.epoch, won.state, won.runs) == (2, first.state, won.runs)
        assert await store.owner("c-1") == Owner("t-new", 2, "actor-9")

    async def test_the_owner_that_was_not_seen_stays(self, store: Store) -> None:
        first = await Writer.of(store, "c-1")
        await first.do(start(), begin(), call("ask"))

        for because in TakeoverReason:
            moved = await take(store, seen="t-old", because=because)
            assert moved == Moved(Owner(first.token, 1, "actor-1"))
            assert await take(store, because=because) == moved

    async def test_a_busy_owner_keeps_its_lease(self, store: Store) -> None:
        first = await Writer.of(store, "c-1")
        await first.do(start(), begin())

        with pytest.raises(LeaseHeld) as refused:
            await take(store, seen=first.token)

        assert refused.value.conversation_id == "c-1"
        assert 0 < refused.value.retry_after_ms <= LEASE_MS
        assert await store.owner("c-1") == Owner(first.token, 1, "actor-1")

    @pytest.mark.parametrize("because", [TakeoverReason.DIED, TakeoverReason.OWN])
    async def test_a_busy_owner_that_died_or_begins_anew_is_deposed(self, store: Store, because: TakeoverReason) -> None:
        first = await Writer.of(store, "c-1")
        await first.do(start(), begin())

        acquired = await take(store, seen=first.token, because=because)

        assert isinstance(acquired, Acquired)
        assert (acquired.epoch, acquired.state) == (2, first.state)

    async def test_a_busy_owner_whose_lease_ran_out_is_deposed(self, store: Store) -> None:
        first = await Writer.of(store, "c-1", lease_ms=40)
        await first.do(start(), begin())

        async def taken() -> bool:
            try:
                return isinstance(await take(store, seen=first.token), Acquired)
            except LeaseHeld:
                return False

        await until(taken)

    async def test_a_renewed_lease_holds(self, store: Store) -> None:
        first = await Writer.of(store, "c-1", lease_ms=1)
        await first.do(start(), begin())
        await store.renew("c-1", first.token, LEASE_MS)

        with pytest.raises(LeaseHeld):
            await take(store, seen=first.token)

    async def test_a_run_keeps_the_lease_too(self, store: Store) -> None:
        first = await Writer.of(store, "c-1")
        await first.do(start(), begin(), call("lookup", "ask"))

        with pytest.raises(LeaseHeld):
            await take(store, seen=first.token)

    async def test_a_resting_conversation_is_free_for_who_asks(self, store: Store) -> None:
        first = await Writer.of(store, "c-1")
        await first.do(start(), begin(), call("ask"))  # it has a deadline, but no outstanding work

        acquired = await take(store, seen=first.token)

        assert isinstance(acquired, Acquired)

    async def test_a_released_conversation_is_free_for_who_asks(self, store: Store) -> None:
        first = await Writer.of(store, "c-1")
        await first.do(start(), begin())  # busy, and released all the same
        await first.release()

        assert await store.owner("c-1") == Owner("", 1, "")
        acquired = await take(store)
        assert isinstance(acquired, Acquired)
        assert (acquired.epoch, acquired.state) == (2, first.state)

    async def test_the_token_from_before_a_release_is_seen_no_more(self, store: Store) -> None:
        first = await Writer.of(store, "c-1")
        await first.do(start(), begin(), call("ask"))
        await first.release()

        assert await take(store, seen=first.token) == Moved(Owner("", 1, ""))

    async def test_every_activation_counts_one_epoch(self, store: Store) -> None:
        writer = await Writer.of(store, "c-1")
        await writer.do(start(), begin(), call("ask"))
        epochs = [writer.epoch]
        for number in range(4):
            if number % 2:
                await writer.release()
                writer = await Writer.of(store, "c-1")
            else:
                writer = await writer.succeeded()
            epochs.append(writer.epoch)

        assert epochs == [1, 2, 3, 4, 5]

    async def test_it_hands_over_the_state_and_the_runs(self, store: Store, other: Store) -> None:
        first = await Writer.of(store, "c-1")
        await first.do(start(), begin(), call("lookup", "charge", "ask"))
        lookup, charge = first.effect_ids
        assert await store.claim("c-1", lookup, incarnation="i-1", worker="w-1")
        assert await store.finish("c-1", lookup, incarnation="i-1", outcome=b"\x00done|\xff")

        second = await Writer.of(other, "c-1", seen=first.token, because=TakeoverReason.DIED)

        assert second.state == first.state
        assert set(second.runs) == {lookup, charge}
        assert second.runs[lookup].status is RunStatus.DONE
        assert second.runs[lookup].outcome == b"\x00done|\xff"
        assert second.runs[charge].status is RunStatus.RUNNABLE

    async def test_a_conversation_goes_on_from_owner_to_owner(self, store: Store, other: Store) -> None:
        first = await Writer.of(store, "c-1")
        await first.do(start(), begin(), call("ask"))
        second = await Writer.of(other, "c-1", seen=first.token)
        await second.do(resolve(Answer("blue")))
        third = await Writer.of(store, "c-1", seen=second.token, because=TakeoverReason.DIED)
        await third.do(reply("blue it is"))

        assert (await other.load("c-1")).status == "idle"
        assert (await store.load("c-1")) == third.state

    async def test_nobody_owns_what_nobody_knows(self, store: Store) -> None:
        assert await store.owner("c-unknown") is None
