"""Cases of guests: who records an outcome where nobody owns the conversation, and judges it there by one write of its own."""

from dataclasses import replace

import pytest
from writer import Writer, begin, call, cancel, finish, reply, send, start, wake

from holdfast.conversation import State, Status, outstanding
from holdfast.errors import CorruptStore, Fenced
from holdfast.persistence import Appended, KnownIds, RunStatus, Store, Visited

from .parking import BOUND_MS, HOUR_MS, appended, due, is_due, listening, parked
from .waiting import until

ONE = {"incarnation": "p-1.x", "outcome": b"an outcome", "keeps_late": False}


async def visit(store: Store, effect_id: str = "t1.m1", *, look_ms: int = BOUND_MS) -> Writer:
    """The guest that has recorded the outcome of that work."""
    visited = await store.finish_as_guest("c-1", effect_id, **ONE, look_ms=look_ms)
    assert isinstance(visited, Visited)
    return Writer.visiting(store, "c-1", visited)


MOST = 1 << 20
"""More bytes than any conversation here has."""


async def resting(store: Store) -> Writer:
    """The last owner of a conversation that has done a turn, and that nobody owns."""
    writer = await Writer.of(store, "c-1")
    await writer.do(start(message_id="m-1"), begin(), reply())
    await writer.release()
    return writer


async def message(store: Store) -> Writer:
    """The guest that has a message for that conversation."""
    visited = await store.visit("c-1", most_bytes=MOST)
    assert visited is not None
    return Writer.visiting(store, "c-1", visited)


class Visiting:
    """One write by no owner: where nobody owns the conversation, and nobody wrote since the writer read it."""

    async def test_a_guest_reads_what_it_judges_with_and_nobody_is_told(self, store: Store, other: Store) -> None:
        await parked(store)
        before = await store.load("c-1")

        async with listening(other) as heard:
            visited = await store.finish_as_guest("c-1", "t1.m1", **ONE, look_ms=BOUND_MS)
            assert isinstance(visited, Visited)
            assert await due(store) == []
            assert heard == []

        assert visited.state == before
        assert abs(visited.now - await store.now()) < HOUR_MS
        run = await store.run("c-1", "t1.m1")
        assert run is not None
        assert (run.status, run.outcome) == (RunStatus.DONE, b"an outcome")
        assert not await store.look("c-1", BOUND_MS)

    async def test_a_guest_that_writes_nothing_leaves_the_outcome_to_whoever_looks(self, store: Store) -> None:
        await parked(store)
        await visit(store, look_ms=1)
        await is_due(store)
        assert (await Writer.of(store, "c-1")).runs["t1.m1"].outcome == b"an outcome"

    async def test_a_guest_that_gives_up_tells_of_the_outcome(self, store: Store, other: Store) -> None:
        await parked(store)
        await visit(store)
        async with listening(other) as heard:

            async def told() -> bool:
                assert await store.finish("c-1", "t1.m1", **ONE | {"outcome": b"another"})
                return "c-1" in heard

            await until(told)
        await is_due(store)
        run = await store.run("c-1", "t1.m1")
        assert run is not None
        assert run.outcome == b"an outcome"

    async def test_a_guest_reads_again_under_its_own_claim(self, store: Store) -> None:
        await parked(store)
        assert (await visit(store)).state == (await visit(store)).state

    async def test_a_look_that_was_due_earlier_stays(self, store: Store) -> None:
        await parked(store, look_ms=1)
        await visit(store, look_ms=HOUR_MS)
        await is_due(store)

    async def test_an_owner_judges_the_outcome_itself(self, store: Store) -> None:
        writer = await Writer.of(store, "c-1")
        await writer.do(start(), begin())
        assert await store.claim("c-1", "t1.m1", incarnation="p-1.x", worker="w-1")
        assert await store.finish_as_guest("c-1", "t1.m1", **ONE, look_ms=BOUND_MS) is True
        await writer.do(reply())

    async def test_in_quarantine_the_outcome_is_only_recorded(self, store: Store) -> None:
        await parked(store)
        assert await store.strike("c-1", "", process="p", reason="why", limit=1) is None
        assert await store.finish_as_guest("c-1", "t1.m1", **ONE, look_ms=BOUND_MS) is True
        assert await due(store) == []
        await store.retry("c-1")
        assert (await Writer.of(store, "c-1")).runs["t1.m1"].status is RunStatus.DONE

    async def test_what_was_released_as_paused_is_left_to_an_actor(self, store: Store) -> None:
        writer = await Writer.of(store, "c-1")
        await writer.do(start(), begin())
        assert await store.claim("c-1", "t1.m1", incarnation="p-1.x", worker="w-1")
        await store.release("c-1", writer.token, paused=True)
        assert await store.finish_as_guest("c-1", "t1.m1", **ONE, look_ms=BOUND_MS) is True
        await is_due(store)

    async def test_another_claim_and_settled_work_have_no_guest(self, store: Store) -> None:
        runs = await parked(store, call("lookup"))
        args = {"look_ms": BOUND_MS, "outcome": b"late"}
        assert await store.finish_as_guest("c-1", "t1.m1.c1#1", incarnation="p-2.y", keeps_late=True, **args) is False
        assert [run.status for run in runs] == [RunStatus.CLAIMED]
        writer = await Writer.of(store, "c-1")
        await writer.do(cancel())
        await writer.release()
        assert await store.finish_as_guest("c-1", "t1.m1.c1#1", incarnation="p-1.x", keeps_late=True, **args) is False
        assert (await store.late("c-1"))["t1.m1.c1#1"].outcome == b"late"

    async def test_a_guest_ends_a_turn(self, store: Store, other: Store) -> None:
        await parked(store)
        before = await store.owner("c-1")
        guest = await visit(store)
        await guest.do(reply("forty-two"))

        assert await other.load("c-1") == guest.state
        assert [event.kind for _, event in await other.read("c-1", after=3)] == ["model_answered", "turn_completed"]
        assert await store.run("c-1", "t1.m1") is None
        assert await due(store) == []
        assert before is not None
        assert await store.owner("c-1") == replace(before, epoch=before.epoch + 1, token="", actor="")
        (row,) = (await other.conversations(limit=10)).items
        assert row.status is Status.IDLE

    async def test_the_next_owner_goes_on_after_a_guest(self, store: Store) -> None:
        await parked(store)
        guest = await visit(store)
        await guest.do(reply())
        writer = await Writer.of(store, "c-1")
        assert writer.state == guest.state
        await writer.do(send(message_id="m-2"), begin())

    async def test_what_a_guest_leaves_outstanding_needs_attention_in_time(self, store: Store) -> None:
        await parked(store)
        guest = await visit(store)
        await guest.do(call("lookup"))
        assert await due(store) == []
        run = await store.run("c-1", guest.effect_ids[0])
        assert run is not None
        assert run.status is RunStatus.RUNNABLE

        await store.claim("c-1", guest.effect_ids[0], incarnation="p-1.x", worker="w-1", bound_ms=BOUND_MS)
        second = await visit(store, guest.effect_ids[0])
        second.lease_ms = 1
        await second.do(finish())
        await is_due(store)

    async def test_a_guest_is_fenced_by_an_owner(self, store: Store, other: Store) -> None:
        await parked(store)
        guest = await visit(store)
        writer = await Writer.of(other, "c-1")
        with pytest.raises(Fenced):
            await guest.do(reply())
        assert await other.load("c-1") == writer.state
        await writer.do(reply())

    async def test_a_guest_is_fenced_by_a_write_in_between(self, store: Store, other: Store) -> None:
        await parked(store)
        guest = await visit(store)
        writer = await Writer.of(other, "c-1")
        await writer.do(send(message_id="m-2"))
        await writer.release()
        with pytest.raises(Fenced):
            await guest.do(reply())
        assert await other.load("c-1") == writer.state

    async def test_of_two_guests_one_writes(self, store: Store, other: Store) -> None:
        await parked(store)
        first, second = await visit(store), await visit(other)
        await first.do(reply())
        with pytest.raises(Fenced):
            await second.do(reply())

    async def test_an_owner_that_came_and_wrote_nothing_does_not_fence_a_guest(self, store: Store) -> None:
        await parked(store)
        guest = await visit(store)
        writer = await Writer.of(store, "c-1")
        await store.release("c-1", writer.token, look_ms=BOUND_MS)
        await guest.do(reply())

    async def test_a_quarantine_fences_a_guest(self, store: Store) -> None:
        await parked(store)
        guest = await visit(store)
        await store.strike("c-1", "", process="p", reason="why", limit=1)
        with pytest.raises(Fenced):
            await guest.do(reply())

    async def test_a_release_as_paused_fences_a_guest(self, store: Store) -> None:
        await parked(store)
        guest = await visit(store)
        writer = await Writer.of(store, "c-1")
        await store.release("c-1", writer.token, paused=True)
        with pytest.raises(Fenced):
            await guest.do(reply())

    async def test_a_guests_write_can_be_repeated(self, store: Store) -> None:
        await parked(store)
        guest = await visit(store)
        write = guest.judged(reply(), now=await store.now())
        assert isinstance(await store.append("c-1", write), Appended)
        assert isinstance(await store.append("c-1", write), Appended)
        assert len(await store.read("c-1", after=3)) == 2

    async def test_a_guest_writes_an_outcome_under_its_claim_alone(self, store: Store, other: Store) -> None:
        now, held = await store.now(), Visited(0, State(conversation_id="c-1"), "")
        for step in (start(), begin()):
            write = Writer.visiting(store, "c-1", held).judged(step, now=now)
            await store.append("c-1", write)
            held = Visited(now, write.after, write.append_id)
        outcome = Writer.visiting(other, "c-1", held).judged(reply("forty-two"), now=now)

        for claimed in (False, True):
            if claimed:
                await store.claim("c-1", "t1.m1", incarnation="p-1.x", worker="w-1", bound_ms=BOUND_MS)
            with pytest.raises(Fenced):
                await other.append("c-1", replace(outcome, claim=("t1.m1", "p-1.y")))
        for _ in range(2):
            assert isinstance(await other.append("c-1", replace(outcome, claim=("t1.m1", "p-1.x"))), Appended)
        assert await other.load("c-1") == outcome.after
        assert await store.run("c-1", "t1.m1") is None

    async def test_a_guest_writes_why_a_run_does_not_begin_while_nobody_has_claimed_it(
        self, store: Store, other: Store
    ) -> None:
        now, guest = await store.now(), Writer.visiting(store, "c-1")
        write = guest.judged(start(), begin(), call("lookup", "lookup"), now=now)
        await store.append("c-1", write)
        first, second = (effect.effect_id for effect in outstanding(write.after))
        await store.claim("c-1", second, incarnation="p-1.x", worker="w-1", bound_ms=BOUND_MS)
        held = Visited(now, write.after, write.append_id)
        verdict = Writer.visiting(other, "c-1", held).judged(cancel(), now=now)

        for taken in (second, "unknown#1"):
            with pytest.raises(Fenced):
                await other.append("c-1", replace(verdict, claim=(taken, "")))
        for _ in range(2):
            assert isinstance(await other.append("c-1", replace(verdict, claim=(first, ""))), Appended)
        assert await store.load("c-1") == verdict.after

    async def test_a_run_whose_outcome_is_written_under_its_claim_has_ended_and_the_others_go_on(self, store: Store) -> None:
        now, guest = await store.now(), Writer.visiting(store, "c-1")
        write = guest.judged(start(), begin(), call("lookup", "lookup"), now=now)
        await store.append("c-1", write)
        first, second = (effect.effect_id for effect in outstanding(write.after))
        for one, name in ((first, "p-1.x"), (second, "p-1.y")):
            await store.claim("c-1", one, incarnation=name, worker="w-1", bound_ms=BOUND_MS)
        held = Visited(now, write.after, write.append_id)
        outcome = Writer.visiting(store, "c-1", held).judged(finish(), cancel(), now=now)
        assert isinstance(await store.append("c-1", replace(outcome, claim=(first, "p-1.x"))), Appended)
        assert await store.abandoned("c-1") == {second: "p-1.y"}

    async def test_what_comes_too_late_is_not_written_and_a_repetition_is_never_too_late(self, store: Store) -> None:
        now, guest = await store.now(), Writer.visiting(store, "c-1")
        for until_ms in (now - HOUR_MS, now):
            said = await store.append("c-1", replace(guest.judged(start(), now=now), until_ms=until_ms))
            assert isinstance(said, KnownIds)
            assert not said.known
        assert await store.owner("c-1") is None
        write = guest.judged(start(), now=now)
        assert isinstance(await store.append("c-1", replace(write, until_ms=now + HOUR_MS)), Appended)
        assert isinstance(await store.append("c-1", replace(write, until_ms=now)), Appended)

    async def test_a_recorded_outcome_is_no_claim(self, store: Store) -> None:
        await parked(store)
        guest = await visit(store)
        with pytest.raises(Fenced):
            await store.append("c-1", replace(guest.judged(reply(), now=await store.now()), claim=("t1.m1", "p-1.x")))
        await guest.do(reply())

    async def test_a_guest_starts_a_conversation(self, store: Store, other: Store) -> None:
        guest = Writer.visiting(store, "c-1")
        await guest.do(start(message_id="m-1"), begin())

        assert await other.load("c-1") == guest.state
        owner = await other.owner("c-1")
        assert owner is not None
        assert (owner.token, owner.epoch, owner.started) == ("", 1, True)
        assert await due(store) == []
        assert (await other.known("c-1", ["m:m-1"])).keys() == {"m:m-1"}

    async def test_a_guest_starts_no_conversation_that_is_there(self, store: Store) -> None:
        await (await Writer.of(store, "c-1")).do(start())
        with pytest.raises(Fenced):
            await Writer.visiting(store, "c-1").do(start())
        assert len(await store.read("c-1")) == 2

    async def test_a_guest_starts_no_conversation_that_another_holds(self, store: Store) -> None:
        writer = await Writer.of(store, "c-1")
        with pytest.raises(Fenced):
            await Writer.visiting(store, "c-1").do(start())
        await writer.release()
        await Writer.visiting(store, "c-1").do(start())

    async def test_a_start_that_is_refused_leaves_nothing(self, store: Store) -> None:
        guest = Writer.visiting(store, "c-1")
        assert isinstance(await store.append("c-1", guest.write()), Appended)
        assert await store.owner("c-1") is None
        await guest.do(start())

    async def test_a_guest_that_visits_reads_what_it_judges_with_and_writes_nothing(self, store: Store, other: Store) -> None:
        writer = await resting(store)
        before = await store.owner("c-1")
        visited = await other.visit("c-1", most_bytes=MOST)
        assert visited is not None
        assert visited.state == writer.state
        assert abs(visited.now - await store.now()) < HOUR_MS
        assert await store.owner("c-1") == before
        assert await due(store) == []

    async def test_a_guest_brings_a_message_to_a_conversation_that_rests(self, store: Store, other: Store) -> None:
        writer = await resting(store)
        guest = await message(store)
        await guest.do(send(message_id="m-2"), begin())
        assert await other.load("c-1") == guest.state
        assert guest.state.turn is not None
        owner = await other.owner("c-1")
        assert owner is not None
        assert (owner.token, owner.epoch) == ("", writer.epoch + 1)
        assert (await other.known("c-1", ["m:m-2"])).keys() == {"m:m-2"}
        assert await due(store) == []
        run = await store.run("c-1", guest.effect_ids[0])
        assert run is not None
        assert run.status is RunStatus.RUNNABLE

    async def test_of_two_guests_with_messages_the_second_one_reads_again(self, store: Store, other: Store) -> None:
        await resting(store)
        first, second = await message(store), await message(other)
        await first.do(send(message_id="m-2"))
        with pytest.raises(Fenced):
            await second.do(send(message_id="m-3"))
        second = await message(other)
        await second.do(send(message_id="m-3"))
        assert await store.load("c-1") == second.state
        assert len(second.state.queue) == 2

    async def test_a_takeover_fences_a_guest_with_a_message(self, store: Store) -> None:
        await resting(store)
        guest = await message(store)
        writer = await Writer.of(store, "c-1")
        with pytest.raises(Fenced):
            await guest.do(send())
        await writer.do(send())
        await writer.release()
        assert (await message(store)).state == writer.state

    async def test_nobody_visits_what_has_an_owner_or_was_never_started(self, store: Store) -> None:
        assert await store.visit("c-1", most_bytes=MOST) is None
        writer = await Writer.of(store, "c-1")
        assert await store.visit("c-1", most_bytes=MOST) is None
        await writer.do(start(), begin())
        assert await store.visit("c-1", most_bytes=MOST) is None
        await writer.do(reply())
        await writer.release()
        assert await store.visit("c-1", most_bytes=MOST) is not None

    async def test_nobody_visits_in_quarantine_or_what_was_released_as_paused(self, store: Store) -> None:
        await parked(store)
        writer = await Writer.of(store, "c-1")
        await store.release("c-1", writer.token, paused=True)
        assert await store.visit("c-1", most_bytes=MOST) is None
        assert await store.strike("c-1", "", process="p", reason="why", limit=1) is None
        assert await store.visit("c-1", most_bytes=MOST) is None

    async def test_nobody_visits_what_is_too_large_to_read_for_one_message(self, store: Store) -> None:
        await resting(store)
        assert await store.visit("c-1", most_bytes=16) is None
        await (await message(store)).do(send("x" * 20_000))
        assert await store.visit("c-1", most_bytes=20_000) is None
        assert await store.visit("c-1", most_bytes=40_000) is not None

    async def test_a_guest_does_not_put_off_when_the_work_of_others_is_looked_at(self, store: Store) -> None:
        await parked(store, call("lookup", "charge"), look_ms=1)
        guest = await visit(store, "call_4_1#1")
        await guest.do(finish("call_4_1#1"))
        assert guest.state.busy
        await is_due(store)

    async def test_what_was_due_before_a_guests_write_is_looked_at_after_it_has_had_its_time(self, store: Store) -> None:
        await resting(store)
        now = await store.now()
        guest = await message(store)
        await guest.do(send("late", due=now - 1), now=now - HOUR_MS)
        await is_due(store)
        guest = await message(store)
        await guest.do(wake(), begin())
        assert guest.state.busy
        assert await due(store) == []

    async def test_a_guests_write_can_be_repeated_after_the_next_takeover(self, store: Store) -> None:
        await parked(store)
        guest = await visit(store)
        write = guest.judged(reply(), now=await store.now())
        await store.append("c-1", write)
        await Writer.of(store, "c-1")
        assert isinstance(await store.append("c-1", write), Appended)

    async def test_a_guest_hears_of_known_ids(self, store: Store) -> None:
        await parked(store, send(message_id="m-2"))
        guest = await visit(store)
        write = guest.judged(reply(), now=await store.now())
        answer = await store.append("c-1", replace(write, absent=["m:m-2"]))
        assert isinstance(answer, KnownIds)
        assert answer.known.keys() == {"m:m-2"}
        assert await store.load("c-1") == guest.state

    async def test_a_guests_write_clears_the_crash_count(self, store: Store) -> None:
        await parked(store)
        await store.strike("c-1", "", process="p", reason="why", limit=3)
        guest = await visit(store)
        await appended(guest, call("ask"))
        assert (await store.strike("c-1", "", process="q", reason="why", limit=3)).crash_count == 1

    async def test_a_writer_is_an_owner_or_a_guest(self, store: Store) -> None:
        await parked(store)
        guest = await visit(store)
        write = guest.judged(reply(), now=await store.now())
        for wrong in (replace(write, token="t"), replace(write, seen=None), replace(write, append_id="")):
            with pytest.raises(CorruptStore):
                await store.append("c-1", wrong)
