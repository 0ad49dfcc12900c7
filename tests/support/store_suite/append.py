"""Cases of a write: all or nothing, once, and only where the writer's state is the store's."""

import asyncio
import dataclasses

import pytest
from writer import DESK, Writer, begin, call, cancel, end, finish, reply, resolve, rule, send, start

from holdfast.conversation import (
    Answer,
    Approve,
    Cancelled,
    Command,
    Limits,
    ModelReplied,
    Receipt,
    SettledBy,
    State,
    SuspensionKind,
)
from holdfast.conversation.records.idempotency import (
    IdempotencyRecord,
    call_key,
    decision_key,
    message_key,
    request_key,
    suspension_key,
)
from holdfast.conversation.terms.rule_verdict import RuleEffect
from holdfast.errors import (
    CorruptStore,
    InvalidDecision,
    InvalidMessage,
    QueueFull,
    StaleCall,
    StaleReason,
    StoreUnavailable,
)
from holdfast.persistence import Appended, KnownIds, Store, TakeoverReason
from holdfast.persistence.conversations import MOST_PASSING, TAIL_BYTES
from holdfast.testing.faulty_store import FailAfter, FailBefore, Fault, Faults, FaultyStore


class Appending:
    """`append` is atomic and idempotent, and knows the ids of earlier commands."""

    async def test_a_write_is_there_for_everyone(self, store: Store, other: Store) -> None:
        writer = await Writer.of(store, "c-1")
        before = await store.now()
        written = await store.append("c-1", writer.judged(start(), now=before))

        assert isinstance(written, Appended)
        assert before <= written.now <= await store.now()
        assert [event.kind for _, event in await other.read("c-1", after=0)] == ["conversation_started", "message_accepted"]
        assert (await other.load("c-1")).seq == 2

    async def test_the_same_append_id_writes_once(self, store: Store, other: Store) -> None:
        writer = await Writer.of(store, "c-1")
        written = writer.judged(start(), begin(), call("lookup", "ask"), now=await store.now())
        await store.append("c-1", written)
        run_id = written.delta.scheduled[0]
        await store.claim("c-1", run_id, incarnation="i-1", worker="w-1")

        assert isinstance(await store.append("c-1", written), Appended)

        assert await other.load("c-1") == written.after
        assert len(await other.read("c-1", after=0)) == len(written.events)
        assert len((await other.pending(limit=10)).items) == 1
        run = await other.run("c-1", run_id)
        assert run is not None
        assert run.status == "claimed"  # it was not made runnable once more

    async def test_the_same_append_twice_at_once_writes_once(self, store: Store, other: Store) -> None:
        writer = await Writer.of(store, "c-1")
        written = writer.judged(start(), now=await store.now())

        answers = await asyncio.gather(*((store if n % 2 else other).append("c-1", written) for n in range(8)))

        assert all(isinstance(answer, Appended) for answer in answers)
        assert len(await store.read("c-1", after=0)) == 2

    async def test_a_lost_reply_is_made_good_by_the_same_append(self, store: Store, other: Store) -> None:
        faulty = FaultyStore(store, Faults(append={1: FailAfter()}))
        writer = await Writer.of(faulty, "c-1")
        written = writer.judged(start(), now=await store.now())

        with pytest.raises(StoreUnavailable):
            await faulty.append("c-1", written)
        assert isinstance(await faulty.append("c-1", written), Appended)

        assert len(await other.read("c-1", after=0)) == 2
        writer.adopt(written.events, written.after)
        await writer.do(begin())

    async def test_who_never_knew_finds_out_by_taking_over_from_himself(self, store: Store) -> None:
        faults: tuple[Fault, ...] = (FailAfter(), FailBefore())
        for number, fault in enumerate(faults):
            name = f"c-{number}"
            faulty = FaultyStore(store, Faults(append={1: fault}))
            writer = await Writer.of(faulty, name)
            with pytest.raises(StoreUnavailable):
                await writer.do(start())
            anew = await Writer.of(faulty, name, seen=writer.token, because=TakeoverReason.OWN)

            receipt = await anew.do(start())

            assert isinstance(receipt, Receipt)
            assert receipt.duplicate is isinstance(fault, FailAfter)
            assert receipt.seq == 2
            assert len(await store.read(name, after=0)) == 2

    async def test_an_append_of_nothing_changes_nothing(self, store: Store) -> None:
        writer = await Writer.of(store, "c-1")
        await writer.do(start(), begin(), call("lookup", "ask"))
        seen = (await store.load("c-1"), await store.read("c-1", after=0), await store.pending(limit=5))

        assert isinstance(await store.append("c-1", writer.write()), Appended)

        assert (await store.load("c-1"), await store.read("c-1", after=0), await store.pending(limit=5)) == seen
        assert await store.run("c-1", writer.effect_ids[0]) is not None

    async def test_a_writer_behind_the_log_is_refused(self, store: Store) -> None:
        writer = await Writer.of(store, "c-1")
        await writer.do(start())
        behind = dataclasses.replace(writer, state=State(conversation_id="c-1"))
        before = await store.load("c-1")

        with pytest.raises(CorruptStore):
            await store.append("c-1", behind.judged(start(message_id="m-2"), now=await store.now()))

        assert await store.load("c-1") == before
        assert await store.append("c-1", writer.write(absent=[message_key("m-2")])) is not None
        await writer.do(begin())

    async def test_a_writer_ahead_of_the_log_is_refused(self, store: Store) -> None:
        writer = await Writer.of(store, "c-1")
        await writer.do(start())
        ahead = dataclasses.replace(writer)
        written = ahead.judged(send(), now=await store.now())
        ahead.adopt(written.events, written.after)
        before = await store.load("c-1")

        with pytest.raises(CorruptStore):
            await ahead.do(send())
        with pytest.raises(CorruptStore):
            await store.append("c-1", ahead.write())

        assert await store.load("c-1") == before
        await writer.do(begin())

    async def test_a_known_id_stops_the_write(self, store: Store) -> None:
        writer = await Writer.of(store, "c-1")
        await writer.do(start(message_id="m-1"))
        before = await store.load("c-1")
        write = writer.judged(send(message_id="m-2"), now=await store.now())
        write = dataclasses.replace(write, absent=[message_key("m-2"), message_key("m-1"), decision_key("d-1")])

        answer = await store.append("c-1", write)

        assert isinstance(answer, KnownIds)
        assert set(answer.known) == {message_key("m-1")}
        assert answer.known[message_key("m-1")].seq == 2
        assert abs(answer.now - await store.now()) < 60_000
        assert await store.load("c-1") == before
        assert isinstance(await store.append("c-1", dataclasses.replace(write, absent=[message_key("m-2")])), Appended)

    async def test_a_stopped_write_was_not_the_append_of_its_id(self, store: Store) -> None:
        writer = await Writer.of(store, "c-1")
        await writer.do(start(message_id="m-1"))
        write = writer.judged(send(message_id="m-2"), now=await store.now())
        assert isinstance(await store.append("c-1", dataclasses.replace(write, absent=[message_key("m-1")])), KnownIds)

        assert isinstance(await store.append("c-1", write), Appended)

        assert (await store.load("c-1")).seq == 3

    async def test_an_append_of_nothing_asks_for_ids_too(self, store: Store) -> None:
        writer = await Writer.of(store, "c-1")
        await writer.do(start(message_id="m-1"))

        answer = await store.append("c-1", writer.write(absent=[message_key("m-1"), message_key("m-2")]))

        assert isinstance(answer, KnownIds)
        assert set(answer.known) == {message_key("m-1")}

    async def test_ids_are_known_for_one_conversation_alone(self, store: Store) -> None:
        one, two = await Writer.of(store, "c-1"), await Writer.of(store, "c-2")
        await one.do(start(message_id="m-1"))

        receipt = await two.do(start(message_id="m-1"))

        assert isinstance(receipt, Receipt)
        assert not receipt.duplicate

    async def test_a_repeated_message_gets_its_first_receipt(self, store: Store, other: Store) -> None:
        writer = await Writer.of(store, "c-1")
        await writer.do(start(), begin(), call("ask"))
        first = await writer.do(send("more", message_id="m-2"))
        later = await Writer.of(other, "c-1", seen=writer.token)

        again = await later.do(send("more", message_id="m-2"))

        assert isinstance(first, Receipt)
        assert isinstance(again, Receipt)
        assert again == first.model_copy(update={"duplicate": True})
        with pytest.raises(InvalidMessage):
            await later.do(send("something else", message_id="m-2"))
        assert (await other.load("c-1")) == writer.state

    async def test_a_repeated_decision_gets_its_first_receipt(self, store: Store) -> None:
        writer = await Writer.of(store, "c-1")
        await writer.do(start(), begin(), call("ask", "ask"))
        asked = writer.suspension_ids[0]
        first = await writer.do(resolve(Answer(False), decision_id="d-1", suspension_id=asked))
        anew = await writer.succeeded()
        calls = [call.tool_call_id for call in anew.state.calls]

        repeated = resolve(Answer(False), decision_id="d-1", suspension_id=asked)
        again = await anew.do(lambda state: repeated(state).model_copy(update={"tool_call_id": calls[0]}))

        assert isinstance(first, Receipt)
        assert again == first.model_copy(update={"duplicate": True})
        with pytest.raises(InvalidDecision):
            await anew.do(resolve(Answer(True), decision_id="d-1"))

    async def test_a_request_that_changes_nothing_writes_its_id_alone_and_that_passes(self, store: Store, other: Store) -> None:
        writer = await Writer.of(store, "c-1")
        await writer.do(start(), begin(), reply())
        log, seq = await other.read("c-1", after=0), writer.state.seq

        nothing = await writer.do(cancel("x-0"))

        assert nothing == Cancelled(conversation_id="c-1")
        assert (await other.load("c-1")).seq == seq
        assert await other.read("c-1", after=0) == log
        assert set(await other.known("c-1", [request_key("x-0"), request_key("x-1")])) == {request_key("x-0")}
        assert await writer.do(cancel("x-0")) == nothing.model_copy(update={"duplicate": True})
        await writer.do(send(message_id="m-2"), begin())
        assert await writer.do(cancel("x-0")) == nothing.model_copy(update={"duplicate": True})  # it cancels no later turn
        await writer.do(reply())
        seq = writer.state.seq
        for number in range(1, MOST_PASSING + 1):
            await writer.do(cancel(f"x-{number}"))
        keys = [request_key(f"x-{number}") for number in range(MOST_PASSING + 1)]
        assert list(await other.known("c-1", keys)) == keys[1:]
        assert await other.read("c-1", after=seq) == []

    async def test_everything_settled_is_known_by_its_id(self, store: Store) -> None:
        writer = await Writer.of(store, "c-1")
        await writer.do(start(message_id="m-1"), begin(), call("ask", "refund", "lookup"))
        asked, gated = writer.suspension_ids
        calls = [one.tool_call_id for one in writer.state.calls]
        await writer.do(resolve(Answer("blue"), decision_id="d-1", suspension_id=asked))
        await writer.do(cancel("x-1"))
        await writer.do(end("x-2"))
        keys = [
            message_key("m-1"),
            decision_key("d-1"),
            suspension_key(asked),
            suspension_key(gated),
            *map(call_key, calls),
            request_key("x-1"),
            request_key("x-2"),
        ]

        answer = await store.append("c-1", writer.write(absent=keys))

        assert isinstance(answer, KnownIds)
        assert set(answer.known) == set(keys)
        assert all(isinstance(value, IdempotencyRecord) for value in answer.known.values())
        assert answer.known[suspension_key(asked)].by is SettledBy.ANSWER
        assert answer.known[suspension_key(gated)].by is SettledBy.CANCELLATION
        assert answer.known[call_key(calls[0])].by is SettledBy.ANSWER
        assert answer.known[request_key("x-1")].calls == tuple(calls[1:])
        places = dict(await store.read("c-1", after=0))
        assert places[answer.known[suspension_key(asked)].seq].kind == "suspension_settled"
        assert places[answer.known[message_key("m-1")].seq].kind == "message_accepted"

    async def test_why_a_decision_is_stale_is_known_long_after(self, store: Store) -> None:
        writer = await Writer.of(store, "c-1")
        await writer.do(start(), begin(), call("ask"))
        asked, name = writer.suspension_ids[0], writer.state.calls[0].tool_call_id
        await writer.do(resolve(Answer("blue")))
        await writer.do(reply())
        for _ in range(3):
            await writer.do(send(), begin(), call("ask"))
            await writer.do(resolve(Answer("red")))
            await writer.do(reply())

        late = resolve(Answer("green"), suspension_id=asked)
        with pytest.raises(StaleCall) as refused:
            await writer.do(lambda state: late(state).model_copy(update={"tool_call_id": name}))

        assert refused.value.reason is StaleReason.ALREADY_RESOLVED
        assert refused.value.settled_by is SettledBy.ANSWER

    async def test_a_call_id_that_the_model_repeats_is_rewritten(self, store: Store) -> None:
        writer = await Writer.of(store, "c-1")
        await writer.do(start(), begin(), call("ask"))
        used = writer.state.calls[0].tool_call_id
        await writer.do(resolve(Answer("blue")))
        asked = call("ask")

        def again(state: State) -> Command:
            command = asked(state)
            assert isinstance(command, ModelReplied)
            return command.model_copy(update={"calls": (command.calls[0].model_copy(update={"tool_call_id": used}),)})

        await writer.do(again)

        assert writer.state.calls[0].tool_call_id not in {used, ""}
        assert writer.state == await store.load("c-1")

    async def test_an_append_renews_the_lease(self, store: Store) -> None:
        writer = await Writer.of(store, "c-1", lease_ms=1)
        writer.lease_ms = 600_000
        await writer.do(start())

        assert (await store.attention(10)).conversation_ids == []

    async def test_many_events_are_one_write(self, store: Store) -> None:
        writer = await Writer.of(store, "c-1")
        steps = [start(), begin()]
        for _ in range(40):
            steps += [call("lookup"), finish()]
        await writer.do(*steps, reply())

        assert (await store.load("c-1")) == writer.state
        assert len(await store.read("c-1", after=0)) == writer.state.seq > 120

    async def test_the_size_of_the_logs_tail_is_told_to_whoever_writes_next(self, store: Store, other: Store) -> None:
        writer = await Writer.of(store, "c-1")
        assert writer.tail_bytes == 0
        await writer.do(start("x" * 1000), begin())
        written = writer.judged(call("lookup"), now=await store.now())
        first = await store.append("c-1", written)
        assert isinstance(first, Appended)
        again = await store.append("c-1", written)
        assert isinstance(again, Appended)

        anew = await Writer.of(other, "c-1", seen=writer.token, because=TakeoverReason.DIED)

        assert 1000 < writer.tail_bytes < first.tail_bytes < 3000
        assert again.tail_bytes == anew.tail_bytes == first.tail_bytes
        await anew.do(finish(), reply())
        assert anew.tail_bytes == (await Writer.of(store, "c-1", seen=anew.token)).tail_bytes == 0

    async def test_a_tail_that_has_become_long_ends_in_a_snapshot(self, store: Store) -> None:
        writer = await Writer.of(store, "c-1")
        await writer.do(start(), begin(), call("lookup"))
        sizes = []
        for number in range(40):
            await writer.do(send("x" * 5000, message_id=f"long-{number}"))
            sizes.append(writer.tail_bytes)
        await writer.do(send("x" * 200_000, message_id="longest"))

        assert max(sizes) <= TAIL_BYTES
        assert max(sizes) > TAIL_BYTES / 2  # the store waits until the tail is worth a snapshot
        assert sizes.count(0) == 3
        assert writer.tail_bytes == 0
        anew = await writer.succeeded()
        assert (anew.state, anew.tail_bytes) == (writer.state, 0)
        await anew.do(finish(), reply(), begin())
        assert await store.load("c-1") == anew.state

    async def test_a_full_queue_refuses_and_still_knows_what_it_took(self, store: Store) -> None:
        writer = await Writer.of(store, "c-1")
        writer.spec = DESK.model_copy(update={"limits": Limits(queued=2)})
        await writer.do(start(), begin(), send(message_id="m-2"))
        first = await writer.do(send(message_id="m-3"))
        before = await store.load("c-1")

        with pytest.raises(QueueFull):
            await writer.do(send(message_id="m-4"))

        assert await store.load("c-1") == before
        assert isinstance(first, Receipt)
        assert await writer.do(send(message_id="m-3")) == first.model_copy(update={"duplicate": True})

    @pytest.mark.parametrize("backwards", [False, True])
    async def test_of_many_that_wait_each_goes_when_it_is_settled(self, store: Store, other: Store, *, backwards: bool) -> None:
        writer = await Writer.of(store, "c-1")
        await writer.do(start(), begin(), call(*["share", "ask", "lookup", "refund"] * 8))
        order = list(writer.suspension_ids)
        for suspension_id in reversed(order) if backwards else order:
            [kind] = [view.kind for view in await other.pending_of("c-1") if view.suspension_id == suspension_id]
            decision = Answer("blue") if kind is SuspensionKind.ELICITATION else Approve()
            await writer.do(resolve(decision, suspension_id=suspension_id))
            waiting = set(writer.suspension_ids)
            for agent in (None, "desk"):
                shown = (await other.pending(limit=100, agent=agent)).items
                assert {view.suspension_id for view in shown} == waiting
                by_kind = [(await other.pending(limit=100, agent=agent, kind=one)).items for one in SuspensionKind]
                assert sorted(view.suspension_id for views in by_kind for view in views) == sorted(waiting)
            (row,) = (await other.conversations(limit=5)).items
            assert row.pending == len(waiting)

        for one in [one for one in writer.state.calls.running() if one.tool == "share"]:
            await writer.do(rule(one.effect_id, RuleEffect.ALLOW))
        assert len(writer.suspension_ids) == 8  # the shared calls await their client
        rebuilt = [bucket async for bucket in other.reindex()]
        assert sum(bucket.removed for bucket in rebuilt) == 0
        await writer.do(cancel())
        assert (await other.pending(limit=100)).items == []

    async def test_a_gated_call_shows_its_second_phase_only(self, store: Store) -> None:
        writer = await Writer.of(store, "c-1")
        await writer.do(start(), begin(), call("share"))
        first = writer.suspension_ids[0]
        await writer.do(resolve(Approve()))
        await writer.do(rule(effect=RuleEffect.ALLOW))
        second = writer.suspension_ids[0]

        assert first != second
        assert [view.suspension_id for view in (await store.pending(limit=5)).items] == [second]
        with pytest.raises(StaleCall) as refused:
            await writer.do(lambda state: resolve(Approve())(state).model_copy(update={"suspension_id": first}))
        assert refused.value.reason is StaleReason.SUPERSEDED
