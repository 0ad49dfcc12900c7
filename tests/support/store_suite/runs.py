"""Cases of runs: runnable, claimed, done, removed; each step only by the process that may take it."""

import asyncio

import pytest
from crowd import pending
from writer import LEASE_MS, Writer, begin, call, cancel, finish, lose, resolve, start

from holdfast.conversation import Answer, Approve, Redispatch, SuspensionKind
from holdfast.errors import CorruptStore
from holdfast.persistence import Run, RunStatus, Store, TakeoverReason


async def running(store: Store, *tools: str) -> tuple[Writer, tuple[str, ...]]:
    """The writer of a conversation whose calls run, and the ids of the runs."""
    writer = await Writer.of(store, "c-1")
    await writer.do(start(), begin(), call(*tools))
    return writer, writer.effect_ids


async def lost(store: Store) -> tuple[Writer, str]:
    """The writer of a conversation whose only call, with edited arguments, was claimed and lost; the id of the run."""
    writer, _ = await running(store, "ship")
    await writer.do(resolve(Approve({"to": "Rome"})))
    (effect_id,) = writer.effect_ids
    assert await store.claim("c-1", effect_id, incarnation="i-1", worker="w-1")
    await writer.do(lose())
    return writer, effect_id


class Running:
    """A run never starts twice by itself, and its outcome outlives actor and worker."""

    async def test_a_scheduled_run_is_runnable(self, store: Store, other: Store) -> None:
        _, (lookup, charge) = await running(store, "lookup", "charge")

        assert await other.run("c-1", lookup) == Run(RunStatus.RUNNABLE)
        assert await other.run("c-1", charge) == Run(RunStatus.RUNNABLE)

    async def test_an_approved_call_is_runnable_only_then(self, store: Store) -> None:
        writer = await Writer.of(store, "c-1")
        await writer.do(start(), begin(), call("refund"))
        name = writer.state.calls[0].tool_call_id
        assert await store.run("c-1", f"{name}#1") is None
        assert not await store.claim("c-1", f"{name}#1", incarnation="i-1", worker="w-1")

        await writer.do(resolve(Approve()))

        assert await store.run("c-1", f"{name}#1") == Run(RunStatus.RUNNABLE)

    async def test_a_claim_says_who_runs_it(self, store: Store, other: Store) -> None:
        _, (lookup,) = await running(store, "lookup")

        assert await store.claim("c-1", lookup, incarnation="i-1.x", worker="worker:1.x")

        assert await other.run("c-1", lookup) == Run(RunStatus.CLAIMED, incarnation="i-1.x", worker="worker:1.x")
        assert Run(RunStatus.CLAIMED, incarnation="i-1.x").process == "i-1"

    async def test_a_name_that_cannot_stand_in_a_record_claims_nothing(self, store: Store) -> None:
        _, (lookup,) = await running(store, "lookup")

        for incarnation in ("i|1", ""):
            with pytest.raises(CorruptStore):
                await store.claim("c-1", lookup, incarnation=incarnation, worker="w|1")

        assert await store.run("c-1", lookup) == Run(RunStatus.RUNNABLE)

    async def test_it_is_known_how_many_claims_a_process_had(self, store: Store, other: Store) -> None:
        assert await store.claims_of("i-1") == 1
        many = 900
        await store.attest("i-1", 1, claims=many)
        assert await other.claims_of("i-1") == many

    async def test_the_last_progress_of_a_claimed_run_is_kept(self, store: Store, other: Store) -> None:
        _, (lookup,) = await running(store, "lookup")
        assert await store.claim("c-1", lookup, incarnation="i-1", worker="w-1")

        assert await store.keep_progress("c-1", lookup, b"a third")
        assert await store.keep_progress("c-1", lookup, b"half")

        assert await other.progress("c-1") == {lookup: b"half"}
        assert await other.progress("c-2") == {}

    async def test_progress_of_a_run_that_is_not_claimed_is_not_kept(self, store: Store) -> None:
        _, (lookup,) = await running(store, "lookup")

        assert not await store.keep_progress("c-1", lookup, b"too early")
        assert not await store.keep_progress("c-1", "call#1", b"of no run")
        assert await store.claim("c-1", lookup, incarnation="i-1", worker="w-1")
        assert await store.finish("c-1", lookup, incarnation="i-1", outcome=b"outcome")
        assert not await store.keep_progress("c-1", lookup, b"too late")

        assert await store.progress("c-1") == {}

    async def test_progress_of_a_settled_run_goes_with_the_next_report(self, store: Store) -> None:
        writer, (lookup, charge) = await running(store, "lookup", "charge")
        for effect_id in (lookup, charge):
            assert await store.claim("c-1", effect_id, incarnation="i-1", worker="w-1")
            assert await store.keep_progress("c-1", effect_id, b"half")
        await writer.do(finish(lookup))

        assert await store.keep_progress("c-1", charge, b"nearly")

        assert await store.progress("c-1") == {charge: b"nearly"}

    async def test_of_concurrent_claims_one_wins(self, store: Store, other: Store) -> None:
        _, (lookup,) = await running(store, "lookup")

        won = await asyncio.gather(
            *(
                (store if number % 2 else other).claim("c-1", lookup, incarnation=f"i-{number}", worker=f"w-{number}")
                for number in range(12)
            )
        )

        assert sum(won) == 1
        run = await store.run("c-1", lookup)
        assert run is not None
        assert run.incarnation == f"i-{won.index(True)}"

    async def test_the_same_incarnation_may_claim_again(self, store: Store) -> None:
        _, (lookup,) = await running(store, "lookup")
        assert await store.claim("c-1", lookup, incarnation="i-1", worker="w-1")

        assert await store.claim("c-1", lookup, incarnation="i-1", worker="w-1")
        assert not await store.claim("c-1", lookup, incarnation="i-2", worker="w-1")

    async def test_an_outcome_is_recorded_by_who_claimed(self, store: Store, other: Store) -> None:
        _, (lookup,) = await running(store, "lookup")
        await store.claim("c-1", lookup, incarnation="i-1", worker="w-1")

        assert not await store.finish("c-1", lookup, incarnation="i-2", outcome=b"theirs")
        assert await store.finish("c-1", lookup, incarnation="i-1", outcome=b"ours|\x00\xff")

        done = Run(RunStatus.DONE, incarnation="i-1", outcome=b"ours|\x00\xff")
        assert await other.run("c-1", lookup) == done

    async def test_an_outcome_is_recorded_once(self, store: Store) -> None:
        _, (lookup,) = await running(store, "lookup")
        await store.claim("c-1", lookup, incarnation="i-1", worker="w-1")
        await store.finish("c-1", lookup, incarnation="i-1", outcome=b"first")

        assert await store.finish("c-1", lookup, incarnation="i-1", outcome=b"second")  # its reply was lost
        assert not await store.finish("c-1", lookup, incarnation="i-2", outcome=b"theirs")
        assert not await store.claim("c-1", lookup, incarnation="i-1", worker="w-1")
        assert not await store.claim("c-1", lookup, incarnation="i-2", worker="w-1")

        assert await store.run("c-1", lookup) == Run(RunStatus.DONE, incarnation="i-1", outcome=b"first")

    async def test_what_nobody_claimed_nobody_finishes(self, store: Store) -> None:
        _, (lookup,) = await running(store, "lookup")

        assert not await store.finish("c-1", lookup, incarnation="i-1", outcome=b"x")
        assert not await store.finish("c-1", "call_9#1", incarnation="i-1", outcome=b"x")
        assert not await store.finish("c-unknown", lookup, incarnation="i-1", outcome=b"x")

        assert await store.run("c-1", lookup) == Run(RunStatus.RUNNABLE)

    async def test_what_is_not_outstanding_nobody_claims(self, store: Store) -> None:
        await running(store, "lookup")

        assert not await store.claim("c-1", "call_9#1", incarnation="i-1", worker="w-1")
        assert not await store.claim("c-unknown", "call_9#1", incarnation="i-1", worker="w-1")

        assert await store.run("c-1", "call_9#1") is None

    async def test_the_append_that_settles_a_call_removes_its_run(self, store: Store, other: Store) -> None:
        writer, (lookup, charge) = await running(store, "lookup", "charge")
        await store.claim("c-1", lookup, incarnation="i-1", worker="w-1")
        await store.finish("c-1", lookup, incarnation="i-1", outcome=b"x")

        await writer.do(finish(lookup))

        assert await other.run("c-1", lookup) is None
        assert await other.run("c-1", charge) == Run(RunStatus.RUNNABLE)

    async def test_an_outcome_after_its_call_was_settled_is_late(self, store: Store) -> None:
        writer, (lookup,) = await running(store, "lookup")
        await store.claim("c-1", lookup, incarnation="i-1", worker="w-1")
        await writer.do(cancel())

        assert not await store.finish("c-1", lookup, incarnation="i-1", outcome=b"x")
        assert not await store.claim("c-1", lookup, incarnation="i-1", worker="w-1")
        assert await store.run("c-1", lookup) is None

    async def test_a_run_that_goes_on_after_its_call_was_settled_is_named_until_its_outcome_comes(
        self, store: Store, other: Store
    ) -> None:
        writer, (lookup, charge, refund) = await running(store, "lookup", "charge", "charge")
        await store.claim("c-1", lookup, incarnation="i-1", worker="w-1", bound_ms=LEASE_MS)
        await store.claim("c-1", charge, incarnation="i-2", worker="w-1", bound_ms=1)
        assert await store.abandoned("c-1") == {}
        await asyncio.sleep(0.01)
        await writer.do(cancel())

        assert await other.abandoned("c-1") == {lookup: "i-1"}, "nobody had claimed the last, and that of the second has passed"
        assert await store.run("c-1", refund) is None
        assert not await store.finish("c-1", lookup, incarnation="i-1", outcome=b"x")
        assert await other.abandoned("c-1") == {}
        assert await other.abandoned("c-2") == {}

    async def test_a_model_call_and_a_run_with_an_outcome_are_not_abandoned(self, store: Store) -> None:
        writer, (lookup,) = await running(store, "lookup")
        await store.claim("c-1", lookup, incarnation="i-1", worker="w-1", bound_ms=LEASE_MS)
        await store.finish("c-1", lookup, incarnation="i-1", outcome=b"x")
        await writer.do(finish(lookup))
        (model_call,) = writer.effect_ids
        await store.claim("c-1", model_call, incarnation="i-2", worker="w-1", bound_ms=LEASE_MS)
        await writer.do(cancel())

        assert await store.abandoned("c-1") == {}

    async def test_a_lost_run_is_followed_by_the_next_attempt(self, store: Store) -> None:
        writer, (first,) = await running(store, "lookup")
        await store.claim("c-1", first, incarnation="i-1", worker="w-1")

        await writer.do(lose())

        (second,) = writer.effect_ids
        assert (first[-2:], second[-2:]) == ("#1", "#2")
        assert await store.run("c-1", first) is None
        assert await store.run("c-1", second) == Run(RunStatus.RUNNABLE)
        assert not await store.finish("c-1", first, incarnation="i-1", outcome=b"x")

    async def test_a_lost_run_that_is_asked_about_leaves_no_run(self, store: Store, other: Store) -> None:
        writer, first = await lost(store)

        assert await other.run("c-1", first) is None
        assert not await store.claim("c-1", first, incarnation="i-2", worker="w-2")
        assert not await store.finish("c-1", first, incarnation="i-1", outcome=b"x")
        assert (await writer.succeeded()).runs == {}

    async def test_a_lost_run_is_pending_by_its_kind(self, store: Store, other: Store) -> None:
        writer, _ = await lost(store)

        for agent in (None, "desk"):
            assert await pending(other, agent=agent, kind=SuspensionKind.APPROVAL) == []
            (view,) = await pending(other, agent=agent, kind=SuspensionKind.LOST)
            assert [view] == await pending(other, agent=agent) == list(await other.pending_of("c-1"))
            assert (view.kind, view.tool, view.arguments) == (SuspensionKind.LOST, "ship", {"to": "Rome"})
            assert view.suspension_id == writer.suspension_ids[0]
            assert view.prompt is not None
            assert view.expires_at == view.created_at + 3600_000

    async def test_a_redispatch_makes_the_next_attempt_runnable(self, store: Store, other: Store) -> None:
        writer, first = await lost(store)

        await writer.do(resolve(Redispatch()))

        (second,) = writer.effect_ids
        assert second.removesuffix("#2") == first.removesuffix("#1")
        assert await other.run("c-1", first) is None
        assert await other.run("c-1", second) == Run(RunStatus.RUNNABLE)
        assert await pending(other) == await pending(other, kind=SuspensionKind.LOST) == []
        assert await store.claim("c-1", second, incarnation="i-2", worker="w-2")

    async def test_a_run_that_is_lost_again_is_pending_again(self, store: Store, other: Store) -> None:
        writer, _ = await lost(store)
        (before,) = writer.suspension_ids
        await writer.do(resolve(Redispatch()))
        (second,) = writer.effect_ids
        await store.claim("c-1", second, incarnation="i-2", worker="w-2")

        await writer.do(lose())

        (view,) = await pending(other, kind=SuspensionKind.LOST)
        assert view.suspension_id != before
        assert view.arguments == {"to": "Rome"}
        assert await other.run("c-1", second) is None

    async def test_a_lost_run_that_is_answered_needs_no_run(self, store: Store, other: Store) -> None:
        writer, first = await lost(store)

        await writer.do(resolve(Answer(None)))

        assert await other.run("c-1", first) is None
        assert writer.effect_ids == ("t1.m2",)
        assert await pending(other) == []

    async def test_a_run_outlives_its_actor(self, store: Store, other: Store) -> None:
        writer, (lookup, charge) = await running(store, "lookup", "charge")
        await store.claim("c-1", lookup, incarnation="i-1", worker="w-1")
        second = await Writer.of(other, "c-1", seen=writer.token, because=TakeoverReason.DIED)

        assert await store.finish("c-1", lookup, incarnation="i-1", outcome=b"x")
        assert await store.claim("c-1", charge, incarnation="i-1", worker="w-1")

        assert second.runs[lookup] == Run(RunStatus.CLAIMED, incarnation="i-1", worker="w-1")
        assert (await second.succeeded()).runs[lookup] == Run(RunStatus.DONE, incarnation="i-1", outcome=b"x")

    async def test_runs_of_other_conversations_are_other_runs(self, store: Store) -> None:
        for name in ("c-1", "c-2"):
            writer = await Writer.of(store, name)
            await writer.do(start(), begin(), call("lookup"))
        (effect_id,) = writer.effect_ids

        assert await store.claim("c-1", effect_id, incarnation="i-1", worker="w-1")
        assert await store.run("c-2", effect_id) == Run(RunStatus.RUNNABLE)
        assert await store.claim("c-2", effect_id, incarnation="i-2", worker="w-2")

    @pytest.mark.parametrize("size", [0, 1, 300_000])
    async def test_outcomes_of_any_size_come_back(self, store: Store, size: int) -> None:
        _, (lookup,) = await running(store, "lookup")
        outcome = bytes(number % 256 for number in range(size))
        await store.claim("c-1", lookup, incarnation="i-1", worker="w-1")
        await store.finish("c-1", lookup, incarnation="i-1", outcome=outcome)

        run = await store.run("c-1", lookup)
        assert run is not None
        assert run.outcome == outcome

    async def test_an_outcome_that_nobody_waits_for_is_kept_as_late_and_changes_nothing(
        self, store: Store, other: Store
    ) -> None:
        writer = await Writer.of(store, "c-1")
        await writer.do(start(), begin(), call("lookup"))
        (effect_id,) = writer.effect_ids
        assert await store.claim("c-1", effect_id, incarnation="i-1", worker="w")
        await writer.do(cancel())
        before = await store.load("c-1")

        assert not await store.finish("c-1", effect_id, incarnation="i-1", outcome=b"what came of it")

        late = await other.late("c-1")
        assert {name: found.outcome for name, found in late.items()} == {effect_id: b"what came of it"}
        assert await store.load("c-1") == before
        assert await other.late("c-2") == {}
