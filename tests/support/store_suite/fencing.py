"""Cases of fencing: a deposed writer can no longer write or confirm."""

import pytest
from writer import Writer, begin, call, reply, resolve, send, start

from holdfast.conversation import Answer, Approve
from holdfast.errors import CorruptStore, Fenced, InvalidDecision
from holdfast.persistence import Append, Owner, Store, TakeoverReason

from .waiting import until


class Fencing:
    """Only the newest writer writes, and only the newest writer answers."""

    async def test_a_deposed_writer_cannot_append(self, store: Store, other: Store) -> None:
        first = await Writer.of(store, "c-1")
        await first.do(start())
        second = await first.succeeded()
        before = await other.load("c-1")

        with pytest.raises(Fenced):
            await first.do(begin())

        assert await other.load("c-1") == before
        await second.do(begin())
        assert [event.kind for _, event in await other.read("c-1", after=0)] == [
            "conversation_started",
            "message_accepted",
            "turn_started",
        ]

    async def test_a_deposed_writer_cannot_confirm_a_refusal(self, store: Store) -> None:
        first = await Writer.of(store, "c-1")
        await first.do(start(), begin(), call("ask"))
        await first.succeeded()

        with pytest.raises(Fenced):  # not InvalidDecision: a deposed writer gets no judgement
            await first.do(resolve(Approve()))

    async def test_a_deposed_writer_cannot_confirm_with_an_append_of_nothing(self, store: Store) -> None:
        first = await Writer.of(store, "c-1")
        await first.do(start())
        second = await first.succeeded()

        with pytest.raises(Fenced):
            await store.append("c-1", first.write())

        await store.append("c-1", second.write())

    async def test_the_owner_confirms_a_refusal_and_writes_nothing(self, store: Store) -> None:
        writer = await Writer.of(store, "c-1")
        await writer.do(start(), begin(), call("ask"))
        before = await store.load("c-1")

        with pytest.raises(InvalidDecision):
            await writer.do(resolve(Approve()))

        assert await store.load("c-1") == before == writer.state

    async def test_a_deposed_writer_cannot_renew(self, store: Store, other: Store) -> None:
        first = await Writer.of(store, "c-1")
        await first.do(start())
        second = await Writer.of(other, "c-1", seen=first.token, because=TakeoverReason.DIED)

        with pytest.raises(Fenced):
            await store.renew("c-1", first.token, 1000)

        assert await other.renew("c-1", second.token, 1000) > 0

    async def test_a_release_by_a_deposed_token_does_nothing(self, store: Store, other: Store) -> None:
        first = await Writer.of(store, "c-1")
        await first.do(start())
        second = await first.succeeded()

        await other.release("c-1", first.token)

        assert await store.owner("c-1") == Owner(second.token, 2, "actor-2")
        await second.do(begin())

    async def test_a_released_writer_cannot_write(self, store: Store) -> None:
        writer = await Writer.of(store, "c-1")
        await writer.do(start())
        await writer.release()

        with pytest.raises(Fenced):
            await writer.do(begin())
        with pytest.raises(Fenced):
            await store.append("c-1", writer.write())
        with pytest.raises(Fenced):
            await store.renew("c-1", writer.token, 1000)

    async def test_releasing_twice_is_releasing_once(self, store: Store) -> None:
        writer = await Writer.of(store, "c-1")
        await writer.do(start())
        await writer.release()
        await writer.release()

        assert await store.owner("c-1") == Owner("", 1, "")

    async def test_what_nobody_acquired_nobody_writes(self, store: Store) -> None:
        writer = await Writer.of(store, "c-1")
        stranger = Writer(store, "c-2", writer.token, 1, writer.state.model_copy(update={"conversation_id": "c-2"}), {})

        with pytest.raises(Fenced):
            await stranger.do(start())
        with pytest.raises(Fenced):
            await store.renew("c-2", writer.token, 1000)
        await store.release("c-2", writer.token)

        assert await store.owner("c-2") is None
        assert await store.read("c-2", after=0) == []

    async def test_the_empty_token_owns_nothing(self, store: Store) -> None:
        writer = await Writer.of(store, "c-1")
        await writer.do(start())
        await writer.release()
        before = await store.load("c-1")
        nobody = Append(token="", append_id="a-1", before=writer.state, after=writer.state, lease_ms=1000)

        with pytest.raises((Fenced, CorruptStore)):
            await store.append("c-1", nobody)
        with pytest.raises((Fenced, CorruptStore)):
            await store.renew("c-1", "", 1000)
        with pytest.raises(CorruptStore):
            await store.release("c-1", "")

        assert await store.owner("c-1") == Owner("", 1, "")
        assert await store.load("c-1") == before

    async def test_a_writer_that_is_late_still_owns_what_nobody_took(self, store: Store) -> None:
        writer = await Writer.of(store, "c-1", lease_ms=1)
        await writer.do(start())

        async def lease_ran_out() -> bool:
            return "c-1" in (await store.attention(10)).conversation_ids

        await until(lease_ran_out)
        assert await store.renew("c-1", writer.token, 60_000) > 0
        assert not await lease_ran_out()
        writer.lease_ms = 1
        await writer.do(begin())
        await until(lease_ran_out)
        await writer.do(reply())

    async def test_a_deposed_writer_that_repeats_a_write_is_fenced(self, store: Store) -> None:
        first = await Writer.of(store, "c-1")
        written = first.judged(start(), now=await store.now())
        await store.append("c-1", written)
        second = await first.succeeded()

        with pytest.raises(Fenced):
            await store.append("c-1", written)

        assert second.state == written.after

    async def test_each_of_many_deposed_writers_is_fenced(self, store: Store, other: Store) -> None:
        activations = [await Writer.of(store, "c-1")]
        await activations[0].do(start(), begin(), call("ask"))
        for _ in range(4):
            activations.append(await activations[-1].succeeded())

        for writer in activations[:-1]:
            with pytest.raises(Fenced):
                await writer.do(resolve(Answer("blue")))
        await activations[-1].do(resolve(Answer("blue")))

        settled = [event for _, event in await other.read("c-1", after=0) if event.kind == "suspension_settled"]
        assert len(settled) == 1
        assert activations[-1].epoch == 5

    async def test_fencing_one_conversation_leaves_the_others_alone(self, store: Store) -> None:
        one, two = await Writer.of(store, "c-1"), await Writer.of(store, "c-2")
        await one.do(start())
        await two.do(start())
        await one.succeeded()

        await two.do(send())
        assert (await store.load("c-2")).seq == 3
