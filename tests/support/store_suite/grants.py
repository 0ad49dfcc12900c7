"""Cases of runs by grants: they are claimed in the epoch in which nobody has revoked their grants, and in no other."""

import asyncio

import pytest
from writer import Writer, begin, call, finish, reply, resolve, revoke, revoke_given, send, start

from holdfast.conversation import Approve, Approvers, Principal, Proof
from holdfast.conversation.records.commands import ProposedCall
from holdfast.conversation.terms.grants import Level, Scope
from holdfast.persistence import Run, RunStatus, Store, TakeoverReason

from .parking import BOUND_MS

REFUNDS = Scope("tool", "refund", level=Level.EXECUTE)


async def granted(store: Store, *tools: str) -> tuple[Writer, tuple[str, ...]]:
    """The writer of a conversation that has a grant for refunds, and the ids of the runs that begin now."""
    writer = await Writer.of(store, "c-1")
    await writer.do(start(), begin(), call("refund"), resolve(Approve(scope=REFUNDS)), finish(), call(*tools))
    return writer, writer.effect_ids


async def revoked(writer: Writer) -> int:
    """End the grants; the epoch after that."""
    for grant in writer.state.grants:
        await writer.do(revoke(grant.grant_id))
    return writer.state.grants_epoch


async def claim(store: Store, effect_id: str, *, epoch: int | None, incarnation: str = "i-1", instead_of: str = "") -> bool:
    """Whether a worker may begin that run."""
    return await store.claim("c-1", effect_id, incarnation=incarnation, worker="w-1", epoch=epoch, instead_of=instead_of)


class Granting:
    """What a grant lets run is claimed only as long as none was revoked since; the epoch goes with the conversation."""

    async def test_before_anything_was_revoked_a_run_by_a_grant_is_claimed_in_the_epoch_of_then(
        self, store: Store, other: Store
    ) -> None:
        writer, (refund,) = await granted(store, "refund")
        assert (writer.state.grants_epoch, len(writer.state.grants)) == (0, 1)

        assert not await claim(other, refund, epoch=1)
        assert await other.run("c-1", refund) == Run(RunStatus.RUNNABLE)
        assert await claim(other, refund, epoch=0)

        assert await store.run("c-1", refund) == Run(RunStatus.CLAIMED, incarnation="i-1", worker="w-1")

    async def test_what_a_grant_let_run_is_not_claimed_after_its_revocation(self, store: Store, other: Store) -> None:
        writer, (refund,) = await granted(store, "refund")
        assert await revoked(writer) == 1

        assert not await claim(other, refund, epoch=0)

        assert await store.run("c-1", refund) == Run(RunStatus.RUNNABLE)
        assert await store.refuse("c-1", refund, incarnation="i-1", outcome=b"ask")

    async def test_what_other_grants_let_run_is_claimed_in_the_epoch_after_it(self, store: Store, other: Store) -> None:
        writer, runs = await granted(store, "refund", "refund")
        epoch = await revoked(writer)

        assert [await claim(other, effect_id, epoch=epoch) for effect_id in runs] == [True, True]
        assert not await claim(other, runs[0], epoch=epoch, incarnation="i-2")

    async def test_work_that_needs_no_grant_is_claimed_in_any_epoch(self, store: Store, other: Store) -> None:
        writer, (refund, lookup) = await granted(store, "refund", "lookup")
        await revoked(writer)

        assert await claim(other, lookup, epoch=None)
        assert await store.run("c-1", refund) == Run(RunStatus.RUNNABLE)

    async def test_each_revocation_begins_an_epoch_of_its_own(self, store: Store) -> None:
        writer, (refund,) = await granted(store, "refund", "ship")
        await revoked(writer)
        await writer.do(resolve(Approve(scope=Scope("tool", "ship", level=Level.EXECUTE))))
        assert await revoked(writer) == 2

        for epoch in (0, 1, 3):
            assert not await claim(store, refund, epoch=epoch)
        assert await claim(store, refund, epoch=2)

    async def test_who_has_claimed_a_run_may_say_so_again_after_a_revocation(self, store: Store, other: Store) -> None:
        """The claim was made in time, and its answer may have been lost."""
        writer, (refund,) = await granted(store, "refund")
        assert await claim(store, refund, epoch=0)
        await revoked(writer)

        assert await claim(other, refund, epoch=0)
        assert await claim(other, refund, epoch=1)
        assert not await claim(other, refund, epoch=1, incarnation="i-2")
        assert not await store.refuse("c-1", refund, incarnation="i-1", outcome=b"ask")
        assert await store.finish("c-1", refund, incarnation="i-1", outcome=b"paid")

    async def test_a_claim_that_another_gives_way_to_is_made_in_the_epoch_of_then(self, store: Store) -> None:
        writer, (refund,) = await granted(store, "refund")
        assert await claim(store, refund, epoch=0)
        await revoked(writer)

        assert not await claim(store, refund, epoch=0, incarnation="i-2", instead_of="i-1")
        run = await store.run("c-1", refund)
        assert run is not None
        assert run.incarnation == "i-1"
        assert await claim(store, refund, epoch=1, incarnation="i-2", instead_of="i-1")

    @pytest.mark.parametrize("paused", [False, True], ids=["released", "released as paused"])
    async def test_the_epoch_goes_with_a_conversation_that_nobody_owns(
        self, store: Store, other: Store, *, paused: bool
    ) -> None:
        writer, (refund,) = await granted(store, "refund")
        await revoked(writer)
        await store.release("c-1", writer.token, paused=paused, look_ms=BOUND_MS)

        assert not await claim(other, refund, epoch=0)

        revived = await Writer.of(other, "c-1")
        assert (revived.state.grants_epoch, revived.state.grants) == (1, ())
        assert not await claim(other, refund, epoch=0)
        assert await claim(other, refund, epoch=1)

    async def test_the_epoch_outlives_the_actor_that_died(self, store: Store, other: Store) -> None:
        writer, (refund,) = await granted(store, "refund")
        await revoked(writer)

        second = await Writer.of(other, "c-1", seen=writer.token, because=TakeoverReason.DIED)
        await second.do(send("and then?"))

        assert not await claim(store, refund, epoch=0)
        assert await claim(store, refund, epoch=second.state.grants_epoch)

    async def test_later_turns_stay_in_the_epoch(self, store: Store) -> None:
        writer, (refund,) = await granted(store, "refund")
        await revoked(writer)
        await writer.do(finish(refund), reply(), send(), begin(), call("refund"), resolve(Approve(scope=REFUNDS)))
        await writer.do(finish(), call("refund"))
        (later,) = writer.effect_ids

        assert not await claim(store, later, epoch=0)
        assert await claim(store, later, epoch=1)

    async def test_of_a_claim_and_a_revocation_at_once_the_claim_comes_first_or_is_refused(
        self, store: Store, other: Store
    ) -> None:
        writer, runs = await granted(store, *["refund"] * 6)
        (grant,) = writer.state.grants

        async def revocation() -> None:
            await writer.do(revoke(grant.grant_id))

        *won, _ = await asyncio.gather(*(claim(other, effect_id, epoch=0) for effect_id in runs), revocation())

        for effect_id, made in zip(runs, won, strict=True):
            run = await store.run("c-1", effect_id)
            assert run is not None
            assert run.status is (RunStatus.CLAIMED if made else RunStatus.RUNNABLE)
            assert await claim(store, effect_id, epoch=0) is made

    async def test_another_conversation_has_an_epoch_of_its_own(self, store: Store) -> None:
        writer, (refund,) = await granted(store, "refund")
        await revoked(writer)
        second = await Writer.of(store, "c-2")
        await second.do(start(), begin(), call("lookup"))
        (lookup,) = second.effect_ids

        assert await store.claim("c-2", lookup, incarnation="i-1", worker="w-1", epoch=0)
        assert not await claim(store, refund, epoch=0)

    async def test_in_a_conversation_that_is_not_there_nothing_is_claimed(self, store: Store) -> None:
        for epoch in (None, 0, 1):
            assert not await store.claim("c-unknown", "call_1#1", incarnation="i-1", worker="w-1", epoch=epoch)
        assert await store.owner("c-unknown") is None

    async def test_the_conversations_in_which_grants_or_votes_stand_are_a_list_of_their_own(
        self, store: Store, other: Store
    ) -> None:
        async def listed() -> list[str]:
            page = await other.conversations(limit=10, given=True)
            return [row.conversation_id for row in page.items]

        bare = await Writer.of(store, "c-0")
        await bare.do(start(), begin(), call("refund"))
        assert await listed() == []

        writer, _ = await granted(store, "refund")
        voting = await Writer.of(store, "c-2")
        two = Approvers(minimum=2).terms
        asked = ProposedCall(tool_call_id="call_1", name="refund", arguments="{}", approvers=two)
        bo = Principal("bo", proof=Proof.KEY)
        await voting.do(start(), begin(), call(asked), resolve(Approve(), principal=bo))
        assert await listed() == ["c-1", "c-2"]
        (row,) = (await store.pending(limit=10, agent="desk")).items[-1:]
        assert [vote.by for vote in row.votes] == [bo]

        await voting.do(revoke_given("bo", Proof.KEY))
        assert await listed() == ["c-1"]
        (row,) = (await store.pending(limit=10, agent="desk")).items[-1:]
        assert row.votes == ()
        await revoked(writer)
        assert await listed() == []

    async def test_a_quarantine_and_a_rebuild_of_the_indexes_keep_that_list(self, store: Store) -> None:
        writer, _ = await granted(store, "refund")
        for number in range(9):
            if (await store.strike("c-1", writer.token, process=f"p-{number}", reason="it dies", limit=3)) is None:
                break
        async for rebuilt in store.reindex():
            assert not rebuilt.problems
        page = await store.conversations(limit=10, given=True)
        assert [row.conversation_id for row in page.items] == ["c-1"]
