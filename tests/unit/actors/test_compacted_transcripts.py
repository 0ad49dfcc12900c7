"""A worker's transcripts of a conversation that is summarised, through a thousand turns."""

import json
import re
from dataclasses import replace

import pytest
from writer import Writer, begin, call, compact, fail_model, finish, reply, send, start

from holdfast.actors.worker.transcripts import Transcripts
from holdfast.actors.workers import ModelRequest
from holdfast.conversation import AgentSpec, Compact, Context, ModelReplied, ToolSpec, compaction, outstanding, window
from holdfast.conversation.log.transcript import Transcript
from holdfast.conversation.sizes import fixed_tokens
from holdfast.conversation.terms.overrides import Overridable, Overrides
from holdfast.persistence.memory_store import MemoryStore

LONG = "z" * 400


class Worker:
    """Answers the model calls of one conversation as a worker does, by a model that is a function of what it is sent."""

    def __init__(self, writer, transcripts=None):
        self.writer, self.kept = writer, transcripts or Transcripts()
        self.summaries, self.sizes, self.failing = [], [], False
        self.known = set()

    @classmethod
    async def of(cls, budget=8000, **terms):
        writer = await Writer.of(MemoryStore(), "c-1")
        context = Context(budget=budget, preview=None, compact=Compact(**terms))
        spec = AgentSpec(name="desk", model="m", tools=(ToolSpec(name="lookup"),), context=context)
        writer.spec = spec.model_copy(update={"limits": spec.limits.model_copy(update={"max_model_calls": 1000})})
        await writer.do(start("begin"), begin())
        return cls(writer)

    @property
    def request(self):
        [effect] = outstanding(self.writer.state)
        return ModelRequest(conversation_id="c-1", agent="desk", attempt=1, **vars(effect))

    async def sent(self):
        """The messages of the outstanding model call, after the summary that precedes it, if one does."""
        for _ in range(3):
            reading = await self.kept.reading(self.writer.store, self.request)
            found = reading.window(self.writer.spec)
            assert found.fits, found.tokens
            if found.due is None:
                self.check(found)
                return found
            [asked] = compaction.request(found.due)
            facts = dict.fromkeys(re.findall(r"fact-\d+", asked["content"]))
            text = "" if self.failing else f"facts: {' '.join(facts)}"
            answered = ModelReplied(effect_id=self.request.effect_id, content=text, input_tokens=50, output_tokens=5)
            verdict = compaction.verdict(answered, found.due, reading.origins)
            self.summaries.append(verdict)
            await self.writer.do(lambda _, said=verdict: said)
        raise AssertionError("it is summarised again and again")

    def check(self, found):
        waiting = []
        for message in found.messages:
            if message["role"] == "tool":
                assert message["tool_call_id"] in waiting
                assert message["tool_call_id"] in self.known
                waiting.remove(message["tool_call_id"])
            else:
                assert not waiting
                waiting = [one["id"] for one in message.get("tool_calls", ())]
        assert not waiting
        self.sizes.append(len(json.dumps(found.messages)))

    async def turn(self, text, *, last=None):
        await self.sent()
        await self.writer.do(call("lookup", content="let me see"))
        [effect] = outstanding(self.writer.state)
        self.known.add(effect.tool_call_id)
        await self.writer.do(finish(content=LONG))
        await self.sent()
        await self.writer.do(last or reply(LONG), send(text), begin())

    def fresh(self):
        """What one who reads the whole log anew would send."""
        transcript = Transcript()
        for seq, event in enumerate(self.writer.events, 1):
            transcript.add(seq, event)
        said = transcript.messages(), transcript.reported
        return window.window(self.writer.spec, *said, compacted=transcript.compacted, failed=transcript.failed)


async def test_a_thousand_turns_in_a_window_of_8000_tokens_end_and_planted_facts_are_in_the_notes():
    worker = await Worker.of()
    for number in range(1000):
        await worker.turn(f"fact-{number} {LONG}" if number % 200 == 7 else f"{number} {LONG}")
        if number % 97 == 0:
            assert worker.fresh().messages == (await worker.sent()).messages
    assert len(worker.summaries) > 20
    assert not [one for one in worker.summaries if one.failed]
    assert worker.summaries[-1].summary == "facts: fact-7 fact-207 fact-407 fact-607 fact-807"
    boundaries = [one.boundary for one in worker.summaries]
    assert boundaries == sorted(set(boundaries))
    full = worker.sizes[100 : 2 * 50 + 100]
    assert max(worker.sizes[-100:]) <= 1.2 * max(full), "requests grow"
    room = (8000 - 2000 - 400 - fixed_tokens(worker.writer.spec)) * 10 // 3
    assert max(worker.sizes) <= room


async def test_a_worker_that_goes_on_and_one_that_begins_anew_send_the_same():
    worker = await Worker.of(1500)
    for number in range(60):
        worker.failing = number % 7 in (2, 3)
        last = fail_model("down") if number % 5 == 4 else reply(f"{number} {LONG}")
        await worker.turn(f"{number} {LONG[: 40 * (number % 4)]}", last=last)
        sent = await worker.sent()
        other = Worker(worker.writer, Transcripts())
        other.known = worker.known
        assert (await other.sent()).messages == sent.messages == worker.fresh().messages
        assert not other.summaries
    assert {bool(one.failed) for one in worker.summaries} == {True, False}


async def test_a_message_that_joins_a_turn_behind_a_summary_is_sent():
    worker = await Worker.of(1500)
    for number in range(12):
        await worker.turn(f"{number} {LONG}")
    assert worker.summaries
    await worker.sent()
    await worker.writer.do(call("lookup"))
    [effect] = outstanding(worker.writer.state)
    worker.known.add(effect.tool_call_id)
    await worker.writer.do(send("and this", when="steer"), finish(content=LONG))
    assert {"role": "user", "content": "and this"} in (await worker.sent()).messages


class Counting:
    """A store that counts the entries that are read."""

    def __init__(self, store):
        self._store, self.entries = store, 0

    async def read(self, *args, **kwargs):
        found = list(await self._store.read(*args, **kwargs))
        self.entries += len(found)
        return found

    async def at(self, conversation_id, places):
        self.entries += len(places)
        return await self._store.at(conversation_id, places)


async def begun_anew(worker):
    """What a worker that knows nothing of the conversation sends, and how many entries it reads."""
    store = Counting(worker.writer.store)
    reading = await Transcripts().reading(store, worker.request)
    return reading, store.entries


async def test_a_worker_that_begins_anew_reads_what_stands_behind_the_boundary():
    worker = await Worker.of(1500)
    for number in range(80):
        await worker.turn(f"{number} {LONG[: 40 * (number % 4)]}")
    sent = await worker.sent()
    reading, entries = await begun_anew(worker)
    found = reading.window(worker.writer.spec)
    assert found.messages == sent.messages
    assert found.tokens == sent.tokens
    assert entries <= worker.writer.state.seq - worker.writer.state.boundary + 4 < 60
    kept = worker.kept._kept["c-1"]
    assert kept.transcript.first == reading.first == worker.summaries[-1].messages
    assert len(kept.sizes) == worker.writer.state.seq - worker.writer.state.boundary


@pytest.mark.parametrize("when", ["queue", "steer"])
async def test_messages_that_waited_before_the_boundary_are_read_by_their_places(when):
    worker = await Worker.of(1500, at=0.5)
    await worker.writer.do(*[send(f"waits {number} {LONG[:20]}", when=when) for number in range(6)])
    for number in range(30):
        await worker.turn(f"{number} {LONG[:100]}")
        reading, _ = await begun_anew(worker)
        sent = await worker.sent()
        reading, _ = await begun_anew(worker)
        assert reading.window(worker.writer.spec).messages == sent.messages == worker.fresh().messages
    assert worker.summaries


async def test_within_a_long_turn_the_message_that_asked_and_its_overrides_are_read_by_their_places():
    worker = await Worker.of(1500)
    await worker.sent()
    await worker.writer.do(reply("yes"))
    worker.writer.spec = worker.writer.spec.model_copy(update={"overridable": Overridable(max_tokens=900)})
    await worker.writer.do(send(f"the task {LONG}", overrides=Overrides(max_tokens=300)), begin())
    asked_at = worker.writer.state.turn.message_seq
    for number in range(40):
        sent = await worker.sent()
        reading, _ = await begun_anew(worker)
        assert reading.overrides == Overrides(max_tokens=300)
        found = reading.window(worker.writer.spec)
        assert found.messages == sent.messages == worker.fresh().messages
        assert any("the task" in str(message["content"]) for message in sent.messages)
        await worker.writer.do(call("lookup", content=f"step {number}"))
        [effect] = outstanding(worker.writer.state)
        worker.known.add(effect.tool_call_id)
        await worker.writer.do(finish(content=LONG))
    assert len(worker.summaries) > 2
    assert all(one.asked_at == asked_at for one in worker.summaries[1:])


async def test_a_summary_by_one_that_began_anew_has_the_boundary_that_it_would_have_otherwise():
    worker, made = await Worker.of(1500), 0
    for number in range(60):
        reading, _ = await begun_anew(worker)
        due = reading.window(worker.writer.spec).due
        other = (await worker.kept.reading(worker.writer.store, worker.request)).window(worker.writer.spec).due
        assert due == other or (due.messages, due.tokens) == (other.messages, other.tokens)
        if due is not None:
            answered = ModelReplied(effect_id="e", content="notes")
            whole = await Transcripts().reading(worker.writer.store, replace(worker.request, boundary=0))
            expected = compaction.verdict(answered, whole.window(worker.writer.spec).due, whole.origins)
            assert compaction.verdict(answered, due, reading.origins) == expected
            made += 1
        await worker.turn(f"{number} {LONG}")
    assert made > 2


async def test_a_log_that_was_set_back_to_before_the_summary_is_read_whole():
    worker = await Worker.of(1500)
    for number in range(20):
        await worker.turn(f"{number} {LONG}")
    await worker.sent()
    wrong = replace(worker.request, boundary=worker.request.boundary + 1)
    reading = await Transcripts().reading(worker.writer.store, wrong)
    assert reading.first == worker.summaries[-1].messages, "it is read whole, and then dropped"
    assert reading.window(worker.writer.spec).messages == worker.fresh().messages


async def test_a_worker_that_begins_anew_makes_the_same_summary_by_hand():
    worker = await Worker.of(at=1.0)
    for number in range(20):
        await worker.turn(f"fact-{number} {LONG}")
    for again in range(2):
        await worker.writer.do(reply(LONG), compact(), begin())
        dues = []
        for kept in (worker.kept, Transcripts()):
            reading = await kept.reading(worker.writer.store, worker.request)
            assert worker.request.compact
            dues.append(reading.window(worker.writer.spec, by_hand=True).due)
            verdict = compaction.verdict(
                ModelReplied(effect_id=worker.request.effect_id, content="notes"), dues[-1], reading.origins
            )
        assert dues[0] == dues[1]
        await worker.writer.do(lambda _, said=verdict: said)
        assert worker.writer.events[-1].kind == "compacted"
        assert (worker.writer.state.turn, worker.writer.state.boundary) == (None, verdict.boundary)
        await worker.writer.do(send("and now?"), begin())
        assert worker.fresh().messages == (await worker.sent()).messages
        for number in range(10):
            await worker.turn(f"fact-{again}{number} {LONG}")
