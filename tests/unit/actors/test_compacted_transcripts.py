"""A worker's transcripts of a conversation that is summarised, through a thousand turns."""

import json
import re

from writer import Writer, begin, call, fail_model, finish, reply, send, start

from holdfast.actors.worker.transcripts import Transcripts
from holdfast.actors.workers import ModelRequest
from holdfast.conversation import AgentSpec, Compact, Context, ModelReplied, ToolSpec, compaction, outstanding, window
from holdfast.conversation.log.transcript import Transcript
from holdfast.conversation.window import fixed_tokens
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
