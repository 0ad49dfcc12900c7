"""Cases of runs that are refused: what permission rules do not let begin is done without being claimed."""

import asyncio

import pytest
from writer import Writer, call, cancel, finish

from holdfast.errors import CorruptStore
from holdfast.persistence import Run, RunStatus, Store, TakeoverReason

from .parking import BOUND_MS, calling, claimed, due, listening
from .runs import running
from .waiting import until

RULED = b"ruled|\x00\xff"


class Refusing:
    """A run is refused or claimed, never both; its refusal outlives actor and worker, as an outcome does."""

    async def test_a_refused_run_is_done_with_the_outcome_that_says_why(self, store: Store, other: Store) -> None:
        _, (lookup, charge) = await running(store, "lookup", "charge")

        assert await store.refuse("c-1", lookup, incarnation="i-1.x", outcome=RULED)

        assert await other.run("c-1", lookup) == Run(RunStatus.DONE, incarnation="i-1.x", outcome=RULED)
        assert await other.run("c-1", charge) == Run(RunStatus.RUNNABLE)
        assert list(await other.claims_stand([("c-1", lookup, "i-1.x")])) == [False]

    async def test_who_refused_a_run_may_say_so_again_and_the_first_outcome_stands(self, store: Store, other: Store) -> None:
        _, (lookup,) = await running(store, "lookup")
        assert await store.refuse("c-1", lookup, incarnation="i-1", outcome=RULED)

        assert await store.refuse("c-1", lookup, incarnation="i-1", outcome=b"second")  # its reply was lost
        assert not await other.refuse("c-1", lookup, incarnation="i-2", outcome=b"theirs")

        assert await store.run("c-1", lookup) == Run(RunStatus.DONE, incarnation="i-1", outcome=RULED)

    async def test_nobody_claims_or_finishes_what_was_refused(self, store: Store, other: Store) -> None:
        _, (lookup,) = await running(store, "lookup")
        assert await store.refuse("c-1", lookup, incarnation="i-1", outcome=RULED)

        for incarnation in ("i-1", "i-2"):
            assert not await other.claim("c-1", lookup, incarnation=incarnation, worker="w-1", instead_of="i-1")
        assert not await other.finish("c-1", lookup, incarnation="i-2", outcome=b"theirs")

        assert await store.run("c-1", lookup) == Run(RunStatus.DONE, incarnation="i-1", outcome=RULED)
        assert await store.late("c-1") == {}

    async def test_nobody_refuses_what_was_claimed(self, store: Store, other: Store) -> None:
        _, (lookup,) = await running(store, "lookup")
        run = await claimed(store, lookup)

        for incarnation in (run.incarnation, "i-2"):
            assert not await other.refuse("c-1", lookup, incarnation=incarnation, outcome=RULED)

        assert await store.run("c-1", lookup) == run
        assert await store.finish("c-1", lookup, incarnation=run.incarnation, outcome=b"x")
        assert not await store.refuse("c-1", lookup, incarnation="i-2", outcome=RULED)
        assert await store.run("c-1", lookup) == Run(RunStatus.DONE, incarnation=run.incarnation, outcome=b"x")

    async def test_what_is_not_outstanding_nobody_refuses(self, store: Store) -> None:
        await running(store, "lookup")

        assert not await store.refuse("c-1", "call_9#1", incarnation="i-1", outcome=RULED)
        assert not await store.refuse("c-unknown", "call_9#1", incarnation="i-1", outcome=RULED)

        assert await store.run("c-1", "call_9#1") is None
        assert await store.late("c-1") == {}
        assert await store.owner("c-unknown") is None

    async def test_a_name_that_cannot_stand_in_a_record_refuses_nothing(self, store: Store) -> None:
        _, (lookup,) = await running(store, "lookup")

        for incarnation in ("i|1", ""):
            with pytest.raises(CorruptStore):
                await store.refuse("c-1", lookup, incarnation=incarnation, outcome=RULED)

        assert await store.run("c-1", lookup) == Run(RunStatus.RUNNABLE)

    async def test_of_a_claim_and_a_refusal_at_once_one_wins(self, store: Store, other: Store) -> None:
        writer, runs = await running(store, *["lookup"] * 6)

        for effect_id in runs:
            claimed_it, refused_it = await asyncio.gather(
                store.claim("c-1", effect_id, incarnation="i-1", worker="w-1"),
                other.refuse("c-1", effect_id, incarnation="i-2", outcome=RULED),
            )
            run = await store.run("c-1", effect_id)
            assert run is not None
            assert claimed_it is not refused_it
            assert run.status is (RunStatus.CLAIMED if claimed_it else RunStatus.DONE)
        assert (await writer.succeeded()).runs.keys() == set(runs)

    async def test_the_append_that_settles_a_refused_call_leaves_nothing_of_it(self, store: Store, other: Store) -> None:
        writer, (lookup, charge) = await running(store, "lookup", "charge")
        for effect_id in (lookup, charge):
            assert await store.refuse("c-1", effect_id, incarnation="i-1", outcome=RULED)

        await writer.do(finish(lookup))
        assert await other.run("c-1", lookup) is None
        await writer.do(cancel())

        assert await other.run("c-1", charge) is None
        assert not await store.refuse("c-1", charge, incarnation="i-1", outcome=RULED)
        assert (await store.abandoned("c-1"), await store.late("c-1")) == ({}, {})
        assert (await writer.succeeded()).runs == {}

    async def test_a_refusal_outlives_the_actor_that_asked(self, store: Store, other: Store) -> None:
        writer, (lookup,) = await running(store, "lookup")
        assert await store.refuse("c-1", lookup, incarnation="i-1", outcome=RULED)

        second = await Writer.of(other, "c-1", seen=writer.token, because=TakeoverReason.DIED)

        assert second.runs == {lookup: Run(RunStatus.DONE, incarnation="i-1", outcome=RULED)}

    @pytest.mark.parametrize("paused", [False, True], ids=["released", "released as paused"])
    async def test_a_refusal_in_a_conversation_without_an_owner_must_be_taken_in(
        self, store: Store, other: Store, *, paused: bool
    ) -> None:
        writer, (lookup, charge) = await running(store, "lookup", "charge")
        await claimed(store, charge)
        await store.release("c-1", writer.token, paused=paused, look_ms=BOUND_MS)
        assert await due(store) == []

        assert await other.refuse("c-1", lookup, incarnation="i-1", outcome=RULED)

        assert await due(store) == ["c-1"]
        second = await Writer.of(store, "c-1")
        assert second.runs[lookup] == Run(RunStatus.DONE, incarnation="i-1", outcome=RULED)
        assert await due(store) == []

    async def test_a_refusal_in_a_conversation_that_somebody_owns_or_that_is_set_aside_calls_nobody(
        self, store: Store, other: Store
    ) -> None:
        writer, (lookup, charge) = await running(store, "lookup", "charge")
        assert await store.refuse("c-1", lookup, incarnation="i-1", outcome=RULED)
        assert await due(other) == []

        assert await store.strike("c-1", writer.token, process="p-1", reason="it died", limit=1) is None
        assert await store.refuse("c-1", charge, incarnation="i-1", outcome=RULED)

        assert await due(other) == []
        assert await store.run("c-1", charge) == Run(RunStatus.DONE, incarnation="i-1", outcome=RULED)

    async def test_a_refusal_in_a_conversation_without_an_owner_is_heard_of(self, store: Store, other: Store) -> None:
        async with listening(other) as heard:
            refused: list[str] = []

            async def hears() -> bool:
                refused.append(f"c-{len(refused)}")
                writer = await calling(store, refused[-1], call("lookup"))
                await store.release(refused[-1], writer.token, look_ms=BOUND_MS)
                assert await store.refuse(refused[-1], writer.effect_ids[0], incarnation="i-1", outcome=RULED)
                return bool(heard)

            await until(hears)  # whoever listens may miss what comes before it has begun to
            assert set(heard) <= set(refused)

    @pytest.mark.parametrize("size", [0, 300_000])
    async def test_a_refusal_of_any_size_comes_back(self, store: Store, size: int) -> None:
        _, (lookup,) = await running(store, "lookup")
        outcome = bytes(number % 256 for number in range(size))
        assert await store.refuse("c-1", lookup, incarnation="i-1", outcome=outcome)

        run = await store.run("c-1", lookup)
        assert run is not None
        assert run.outcome == outcome
