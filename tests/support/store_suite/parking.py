"""Cases of work that goes on without an actor: records of model calls, bounds of claims, and when somebody must look again."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import fields, replace

import pytest
from writer import NextCommand, Writer, begin, call, cancel, end, fail_model, finish, reply, send, start

from holdfast.conversation.log.index import Delta, delta
from holdfast.persistence import Append, Appended, Run, RunStatus, Store, TakeoverReason

from .waiting import until

BOUND_MS = 60_000
"""A bound that no test waits for."""
HOUR_MS = 3_600_000


async def calling(store: Store, conversation_id: str = "c-1", *steps: NextCommand) -> Writer:
    """The writer of a conversation whose model call `t1.m1` is outstanding, or what these further steps lead to."""
    writer = await Writer.of(store, conversation_id)
    await writer.do(start(), begin(), *steps)
    return writer


async def claimed(store: Store, effect_id: str = "t1.m1", conversation_id: str = "c-1", *, bound_ms: int = BOUND_MS) -> Run:
    """The record of that work, which a worker has claimed by now."""
    assert await store.claim(conversation_id, effect_id, incarnation="p-1.x", worker="w-1", bound_ms=bound_ms)
    run = await store.run(conversation_id, effect_id)
    assert run is not None
    return run


async def parked(store: Store, *steps: NextCommand, bound_ms: int = BOUND_MS, look_ms: int = BOUND_MS) -> list[Run]:
    """The claims of a conversation that was released while all its work was claimed."""
    writer = await calling(store, "c-1", *steps)
    runs = [await claimed(store, effect_id, bound_ms=bound_ms) for effect_id in writer.effect_ids]
    await store.release("c-1", writer.token, look_ms=look_ms)
    return runs


async def appended(writer: Writer, *steps: NextCommand) -> Appended:
    """What the store answers to one append of these steps."""
    write = writer.judged(*steps, now=await writer.store.now())
    answer = await writer.store.append(writer.conversation_id, write)
    assert isinstance(answer, Appended)
    writer.adopt(write.events, write.after)
    return answer


async def due(store: Store) -> list[str]:
    """The ids of the conversations that need attention now."""
    return list((await store.attention(100)).conversation_ids)


async def is_due(store: Store) -> None:
    """Wait until the conversation needs attention."""

    async def looked() -> bool:
        return await due(store) == ["c-1"]

    await until(looked)


async def passed(store: Store, moment: int) -> None:
    """Wait until that moment has passed by the store's clock."""

    async def looked() -> bool:
        return await store.now() > moment

    await until(looked)


@asynccontextmanager
async def listening(store: Store) -> AsyncIterator[list[str]]:
    """The ids that are heard of, as they are heard."""
    heard: list[str] = []

    async def listen() -> None:
        async for conversation_id in store.outcomes():
            heard.append(conversation_id)  # noqa: PERF401 - each as it comes

    task = asyncio.create_task(listen())
    try:
        yield heard
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


class OlderAppend(Append):
    """A write of a release in which model calls had no records."""

    @classmethod
    def of(cls, write: Append) -> "OlderAppend":
        """The same write, by that release."""
        return cls(**{each.name: getattr(write, each.name) for each in fields(write)})

    @property
    def delta(self) -> Delta:
        """See `Append.delta`."""
        found = delta(self.before, self.after, self.events)
        return replace(found, scheduled=_runs(found.scheduled), settled=_runs(found.settled))


def _runs(effect_ids: Sequence[str]) -> tuple[str, ...]:
    return tuple(effect_id for effect_id in effect_ids if "#" in effect_id)


class Parking:
    """While all of a conversation's work is claimed, nobody needs to own it, and whoever looks at it can tell."""

    # -- the records of model calls ------------------------------------------------------------------------------------------

    async def test_a_model_call_has_a_record_from_the_append_that_asks_for_it_to_the_one_that_settles_it(
        self, store: Store, other: Store
    ) -> None:
        writer = await Writer.of(store, "c-1")
        await writer.do(start())
        assert await other.run("c-1", "t1.m1") is None  # the beginning of a turn is no work of a worker
        await writer.do(begin())
        assert await other.run("c-1", "t1.m1") == Run(RunStatus.RUNNABLE)

        await writer.do(call("lookup"))
        (lookup,) = writer.effect_ids
        assert await other.run("c-1", "t1.m1") is None
        assert await other.run("c-1", lookup) == Run(RunStatus.RUNNABLE)
        await writer.do(finish())
        assert await other.run("c-1", lookup) is None
        assert await other.run("c-1", "t1.m2") == Run(RunStatus.RUNNABLE)

        await writer.do(reply())
        assert await other.run("c-1", "t1.m2") is None
        await writer.do(send(), begin())
        assert await other.run("c-1", "t2.m1") == Run(RunStatus.RUNNABLE)

    @pytest.mark.parametrize("step", [reply(), fail_model(), cancel(), end()], ids=["answered", "failed", "cancelled", "ended"])
    async def test_whatever_settles_a_model_call_removes_its_record(
        self, store: Store, other: Store, step: NextCommand
    ) -> None:
        writer = await calling(store)
        await claimed(store)

        await writer.do(step)

        assert await other.run("c-1", "t1.m1") is None
        assert not await store.claim("c-1", "t1.m1", incarnation="p-2.x", worker="w-2")
        assert (await writer.succeeded()).runs == {}

    async def test_a_model_call_outlives_its_actor_with_its_claim_and_its_outcome(self, store: Store, other: Store) -> None:
        writer = await calling(store)
        run = await claimed(store)
        second = await Writer.of(other, "c-1", seen=writer.token, because=TakeoverReason.DIED)
        assert second.runs == {"t1.m1": run}

        assert await store.finish("c-1", "t1.m1", incarnation="p-1.x", outcome=b"Hi.", keeps_late=False)

        done = Run(RunStatus.DONE, incarnation="p-1.x", outcome=b"Hi.")
        assert (await second.succeeded()).runs == {"t1.m1": done}

    async def test_a_model_call_of_an_older_release_gets_its_record_by_an_append_that_names_it(
        self, store: Store, other: Store
    ) -> None:
        # given a model call that became outstanding without a record
        writer = await Writer.of(store, "c-1")
        await writer.do(start())
        write = OlderAppend.of(writer.judged(begin(), now=await store.now()))
        assert isinstance(await store.append("c-1", write), Appended)
        writer.adopt(write.events, write.after)
        assert await other.run("c-1", "t1.m1") is None
        assert not await store.claim("c-1", "t1.m1", incarnation="p-1.x", worker="w-1")
        # when an append of no events names it
        assert isinstance(await store.append("c-1", replace(writer.write(), unrecorded=["t1.m1"])), Appended)
        # then it has one as any other has
        assert await other.run("c-1", "t1.m1") == Run(RunStatus.RUNNABLE)
        run = await claimed(store)
        assert (await appended(writer, cancel())).removed == {"t1.m1": run}
        assert await other.run("c-1", "t1.m1") is None

    async def test_an_append_says_which_claims_it_has_removed(self, store: Store) -> None:
        writer = await calling(store)
        assert (await appended(writer, send())).removed == {}
        model = await claimed(store)
        answer = await appended(writer, call("lookup", "lookup", "charge", "charge"))
        assert answer.removed == {"t1.m1": model}

        first, second, third, _ = writer.effect_ids  # the last stays runnable
        runs = {effect_id: await claimed(store, effect_id) for effect_id in (first, second, third)}
        assert await store.finish("c-1", second, incarnation="p-1.x", outcome=b"x")
        assert (await appended(writer, finish(first))).removed == {first: runs[first]}

        assert (await appended(writer, cancel())).removed == {third: runs[third]}

    # -- claims --------------------------------------------------------------------------------------------------------------

    async def test_a_claim_stands_for_as_long_as_it_says(self, store: Store, other: Store) -> None:
        await calling(store)
        before = await store.now()
        run = await claimed(store, bound_ms=5000)

        assert before + 5000 <= run.until <= await store.now() + 5000
        assert run == Run(RunStatus.CLAIMED, incarnation="p-1.x", worker="w-1", until=run.until)
        assert (await other.run("c-1", "t1.m1")) == run
        assert await store.claim("c-1", "t1.m1", incarnation="p-1.x", worker="w-1", bound_ms=BOUND_MS)  # its reply was lost
        assert (await other.run("c-1", "t1.m1")) == run

    async def test_a_claim_without_a_bound_names_none(self, store: Store) -> None:
        await calling(store)

        assert (await claimed(store, bound_ms=0)).until == 0

    async def test_the_end_of_its_bound_gives_a_claim_to_nobody_by_itself(self, store: Store) -> None:
        await calling(store)
        run = await claimed(store, bound_ms=1)
        await passed(store, run.until)

        assert not await store.claim("c-1", "t1.m1", incarnation="p-2.x", worker="w-2")
        assert await store.run("c-1", "t1.m1") == run
        assert await store.finish("c-1", "t1.m1", incarnation="p-1.x", outcome=b"Hi.")

    async def test_work_of_a_log_that_was_set_back_claims_nothing(self, store: Store, other: Store) -> None:
        writer = await calling(store)
        held = [(seq, event) for seq, event in await store.read("c-1", after=0)]
        for follows in ((held[-1][0], held[0][1]), (held[-1][0] + 1, held[-1][1])):
            assert not await store.claim("c-1", "t1.m1", incarnation="p-1.x", worker="w-1", bound_ms=5, follows=follows)
            run = await other.run("c-1", "t1.m1")
            assert run is not None
            assert run.status is RunStatus.RUNNABLE

        assert await store.claim("c-1", "t1.m1", incarnation="p-1.x", worker="w-1", follows=held[-1])
        assert await store.claim("c-1", "t1.m1", incarnation="p-1.x", worker="w-1", follows=held[-1])  # its reply was lost
        await writer.do(reply())

    async def test_a_claim_gives_way_only_where_it_is_named(self, store: Store, other: Store) -> None:
        await calling(store)
        first = await claimed(store)

        for named in ("", "p-1", "p-1.", "p-1.xx", "p-2.x", "w-1"):
            assert not await store.claim("c-1", "t1.m1", incarnation="p-2.x", worker="w-2", instead_of=named)
        assert await other.run("c-1", "t1.m1") == first

        assert await store.claim("c-1", "t1.m1", incarnation="p-2.x", worker="w-2", bound_ms=5, instead_of="p-1.x")
        second = await other.run("c-1", "t1.m1")
        assert second is not None
        assert (second.incarnation, second.worker) == ("p-2.x", "w-2")
        assert not await store.claim("c-1", "t1.m1", incarnation="p-3.x", worker="w-3", instead_of="p-1.x")

    async def test_who_had_a_claim_that_gave_way_records_nothing_more(self, store: Store) -> None:
        await calling(store)
        await claimed(store)
        assert await store.claim("c-1", "t1.m1", incarnation="p-2.x", worker="w-2", instead_of="p-1.x")

        assert not await store.finish("c-1", "t1.m1", incarnation="p-1.x", outcome=b"theirs", keeps_late=False)
        assert not await store.claim("c-1", "t1.m1", incarnation="p-1.x", worker="w-1")

        assert await store.finish("c-1", "t1.m1", incarnation="p-2.x", outcome=b"ours", keeps_late=False)
        assert await store.run("c-1", "t1.m1") == Run(RunStatus.DONE, incarnation="p-2.x", outcome=b"ours")

    async def test_what_is_runnable_done_or_settled_does_not_ask_whose_claim_gives_way(self, store: Store) -> None:
        writer = await calling(store)
        assert await store.claim("c-1", "t1.m1", incarnation="p-2.x", worker="w-2", instead_of="p-1.x")
        assert await store.finish("c-1", "t1.m1", incarnation="p-2.x", outcome=b"Hi.")
        assert not await store.claim("c-1", "t1.m1", incarnation="p-3.x", worker="w-3", instead_of="p-2.x")
        await writer.do(reply())
        assert not await store.claim("c-1", "t1.m1", incarnation="p-3.x", worker="w-3", instead_of="p-2.x")
        assert await store.run("c-1", "t1.m1") is None

    async def test_a_claim_does_not_give_way_after_the_moment_until_which_work_may_begin(self, store: Store) -> None:
        await calling(store)
        run = await claimed(store)
        past = await store.now() - 1

        assert not await store.claim("c-1", "t1.m1", incarnation="p-2.x", worker="w-2", until=past, instead_of="p-1.x")
        assert await store.run("c-1", "t1.m1") == run

    async def test_which_claims_stand_is_said_of_many_at_once(self, store: Store, other: Store) -> None:
        writer = await calling(store, "c-1", call("lookup", "lookup", "charge"))
        first, second, third = writer.effect_ids
        await calling(store, "c-2")
        await claimed(store, first)
        await claimed(store, second)
        assert await store.finish("c-1", second, incarnation="p-1.x", outcome=b"x")
        await claimed(store, "t1.m1", "c-2", bound_ms=0)
        asked = [
            ("c-1", first, "p-1.x"),
            ("c-1", first, "p-1"),
            ("c-1", second, "p-1.x"),
            ("c-1", third, "p-1.x"),
            ("c-1", "t1.m1", "p-1.x"),
            ("c-2", "t1.m1", "p-1.x"),
            ("c-3", "t1.m1", "p-1.x"),
        ]

        assert list(await other.claims_stand(asked)) == [True, False, False, False, False, True, False]
        assert list(await other.claims_stand([])) == []
        await writer.do(cancel())
        assert list(await other.claims_stand(asked[:1])) == [False]

    async def test_an_outcome_that_nobody_waits_for_is_kept_only_where_that_is_asked_for(self, store: Store) -> None:
        writer = await calling(store)
        await claimed(store)
        await writer.do(cancel())

        assert not await store.finish("c-1", "t1.m1", incarnation="p-1.x", outcome=b"Hi.", keeps_late=False)
        assert await store.late("c-1") == {}

        assert not await store.finish("c-1", "t1.m1", incarnation="p-1.x", outcome=b"Hi.")
        assert list(await store.late("c-1")) == ["t1.m1"]

    # -- a look at a conversation without an owner ---------------------------------------------------------------------------

    async def test_a_conversation_whose_work_is_all_claimed_goes_on_by_its_claims(self, store: Store, other: Store) -> None:
        runs = await parked(store, call("lookup", "charge"))

        found = await other.look("c-1", BOUND_MS)

        assert sorted(found, key=lambda run: run.until) == sorted(runs, key=lambda run: run.until)
        assert len(found) == 2
        assert await due(store) == []

    async def test_a_look_puts_the_next_one_off(self, store: Store) -> None:
        await parked(store, look_ms=0)
        assert await due(store) == ["c-1"]

        assert await store.look("c-1", BOUND_MS)
        assert await due(store) == []
        assert await store.look("c-1", 20)
        await is_due(store)

    async def test_the_bound_of_a_claim_is_looked_at_although_the_next_look_would_be_later(self, store: Store) -> None:
        (run,) = await parked(store, bound_ms=400)
        assert await store.look("c-1", BOUND_MS)

        await is_due(store)

        assert await store.now() >= run.until
        await passed(store, run.until)
        assert not await store.look("c-1", BOUND_MS)
        assert await due(store) == ["c-1"]

    async def test_a_deadline_is_looked_at_although_the_next_look_would_be_later(self, store: Store) -> None:
        writer = await Writer.of(store, "c-1")
        deadline = await store.now() + 400
        await writer.do(start(), begin(), call("ask", "lookup"), now=deadline - HOUR_MS)
        for effect_id in writer.effect_ids:
            await claimed(store, effect_id)
        await store.release("c-1", writer.token, look_ms=BOUND_MS)
        assert await store.look("c-1", BOUND_MS)
        assert await due(store) == []

        await is_due(store)

        assert await store.now() >= deadline
        assert not await store.look("c-1", BOUND_MS)
        assert await due(store) == ["c-1"]

    async def test_what_somebody_owns_is_not_looked_at(self, store: Store) -> None:
        writer = await calling(store)
        await claimed(store)

        assert not await store.look("c-1", 1)
        assert await due(store) == []  # its lease says when it needs attention
        await store.release("c-1", writer.token, look_ms=BOUND_MS)
        assert await store.look("c-1", BOUND_MS)
        await Writer.of(store, "c-1")
        assert not await store.look("c-1", BOUND_MS)

    async def test_an_outcome_must_be_taken_in(self, store: Store) -> None:
        await parked(store, call("lookup", "charge"))
        assert await store.look("c-1", BOUND_MS)
        effect_id = next(iter((await store.load("c-1")).calls)).effect_id
        assert effect_id is not None
        assert await store.finish("c-1", effect_id, incarnation="p-1.x", outcome=b"x")

        assert not await store.look("c-1", BOUND_MS)
        assert await due(store) == ["c-1"]

    async def test_what_nobody_has_claimed_must_be_begun(self, store: Store) -> None:
        writer = await calling(store, "c-1", call("lookup", "charge"))
        first, second = writer.effect_ids
        await claimed(store, first)
        await store.release("c-1", writer.token)

        assert not await store.look("c-1", BOUND_MS)
        assert await due(store) == ["c-1"]
        await claimed(store, second)  # by a request that was under way
        assert await store.look("c-1", BOUND_MS)

    async def test_what_has_no_record_must_be_begun(self, store: Store) -> None:
        writer = await Writer.of(store, "c-1")
        await writer.do(start())  # the beginning of a turn
        await writer.release()

        assert not await store.look("c-1", BOUND_MS)
        assert await due(store) == ["c-1"]

    async def test_a_claim_without_a_bound_must_be_followed(self, store: Store) -> None:
        await parked(store, bound_ms=0, look_ms=0)

        assert not await store.look("c-1", BOUND_MS)
        assert await due(store) == ["c-1"]

    async def test_what_is_in_quarantine_stays_there(self, store: Store) -> None:
        writer = await calling(store)
        await claimed(store)
        assert await store.strike("c-1", writer.token, process="p-1", reason="it died", limit=1) is None

        assert not await store.look("c-1", 1)
        assert await due(store) == []

    async def test_what_was_released_as_paused_waits_for_the_end_of_the_pause(self, store: Store) -> None:
        writer = await calling(store)
        await claimed(store)
        await store.release("c-1", writer.token, paused=True, look_ms=1)

        assert not await store.look("c-1", 1)
        assert await due(store) == []

    async def test_what_rests_or_never_was_is_not_parked(self, store: Store) -> None:
        writer = await calling(store)
        await writer.do(reply())
        await store.release("c-1", writer.token, look_ms=0)

        assert not await store.look("c-1", 1)
        assert not await store.look("c-unknown", 1)
        assert await due(store) == []
        assert await store.owner("c-unknown") is None

    # -- a release while work goes on, and an outcome after it ---------------------------------------------------------------

    async def test_what_is_released_while_its_work_goes_on_is_looked_at_after_a_while(self, store: Store) -> None:
        await parked(store, look_ms=BOUND_MS)
        assert await due(store) == []

        again = await Writer.of(store, "c-1")
        await store.release("c-1", again.token, look_ms=20)
        await is_due(store)

    async def test_what_is_released_with_an_outcome_recorded_needs_attention_at_once(self, store: Store) -> None:
        writer = await calling(store, "c-1", call("lookup", "charge"))
        first, second = writer.effect_ids
        await claimed(store, first)
        await claimed(store, second)
        assert await store.finish("c-1", first, incarnation="p-1.x", outcome=b"x")
        assert await due(store) == []  # its owner hears of it

        await store.release("c-1", writer.token, look_ms=BOUND_MS)
        assert await due(store) == ["c-1"]
        async with listening(store) as heard:

            async def hears() -> bool:
                again = await Writer.of(store, "c-1")
                await store.release("c-1", again.token, look_ms=BOUND_MS)
                return bool(heard)

            await until(hears)  # whoever listens may miss what comes before it has begun to

    async def test_what_is_released_with_a_deadline_that_has_passed_needs_attention_at_once(self, store: Store) -> None:
        writer = await Writer.of(store, "c-1")
        await writer.do(start(), begin(), call("ask", "lookup"), now=await store.now() - HOUR_MS - 10)
        for effect_id in writer.effect_ids:
            await claimed(store, effect_id)

        await store.release("c-1", writer.token, look_ms=BOUND_MS)

        assert await due(store) == ["c-1"]
        assert not await store.look("c-1", BOUND_MS)

    @pytest.mark.parametrize("paused", [False, True], ids=["parked", "released as paused"])
    async def test_an_outcome_of_what_nobody_owns_needs_attention_at_once(
        self, store: Store, other: Store, *, paused: bool
    ) -> None:
        writer = await calling(store)
        await claimed(store)
        await store.release("c-1", writer.token, paused=paused, look_ms=BOUND_MS)
        assert await due(store) == []

        assert await other.finish("c-1", "t1.m1", incarnation="p-1.x", outcome=b"Hi.", keeps_late=False)

        assert await due(store) == ["c-1"]
        second = await Writer.of(store, "c-1")
        assert second.runs == {"t1.m1": Run(RunStatus.DONE, incarnation="p-1.x", outcome=b"Hi.")}
        assert await due(store) == []

    async def test_an_outcome_of_what_nobody_owns_is_heard_of_and_no_other(self, store: Store, other: Store) -> None:
        async def done(conversation_id: str, *, owned: bool = False, quarantined: bool = False) -> None:
            writer = await calling(store, conversation_id)
            await claimed(store, "t1.m1", conversation_id)
            if quarantined:
                assert await store.strike(conversation_id, writer.token, process="p", reason="it died", limit=1) is None
            elif not owned:
                await store.release(conversation_id, writer.token, look_ms=BOUND_MS)
            assert await store.finish(conversation_id, "t1.m1", incarnation="p-1.x", outcome=b"Hi.")

        async with listening(other) as heard:
            finished: list[str] = []

            async def hears() -> bool:
                finished.append(f"first-{len(finished)}")
                await done(finished[-1])
                return bool(heard)

            await until(hears)  # whoever listens may miss what comes before it has begun to
            assert set(heard) <= set(finished)

            await done("c-owned", owned=True)
            await done("c-quarantined", quarantined=True)
            await done("c-last")

            async def heard_the_last() -> bool:
                return "c-last" in heard

            await until(heard_the_last)
            assert not {"c-owned", "c-quarantined"} & set(heard)
            assert not {"c-owned", "c-quarantined"} & set(await due(store))
