"""What a worker keeps of logs: continued where it is known to be of the same log, bounded, never trusted by its length."""

import pytest

from holdfast.actors.worker.transcripts import OVERLAP, OWN_BYTES, TRIES, Transcripts
from holdfast.actors.workers import ModelRequest
from holdfast.conversation import AgentSpec, Context, window
from holdfast.conversation.records.events import CallResolved, ConversationStarted, MessageAccepted, TurnStarted
from holdfast.conversation.sizes import message_tokens


def log(*texts):
    """A turn for each text."""
    events = [ConversationStarted(at=1, conversation_id="c-1", agent="desk", app="shop:app")]
    for number, text in enumerate(texts, 1):
        seq, at = len(events) + 1, int.from_bytes(text.encode()[-6:])  # what was said otherwise was said at another time
        events.append(MessageAccepted(at=at, message_id=f"m-{number}", digest="", text=text))
        events.append(TurnStarted(at=at, turn_id=f"t{number}", message_seq=seq, spec_digest="s", code="k", max_model_calls=9))
    return events


class Log:
    """A store that has this log, and counts what is read."""

    def __init__(self, events):
        self.events, self.read_entries = events, 0

    async def read(self, conversation_id, *, after, limit, whole):
        found = list(enumerate(self.events[after : after + limit], after + 1))
        self.read_entries += len(found)
        return found


def request(events, *, recent=0, conversation_id="c-1"):
    return ModelRequest(
        code="k",
        conversation_id=conversation_id,
        agent="desk",
        spec_digest="s",
        effect_id="t1.m1",
        upto_seq=len(events),
        attempt=1,
        log_tail=tuple(events[len(events) - recent :]),
    )


def said(reading):
    return [message["content"] for message in reading.messages]


async def test_a_log_that_the_request_brings_whole_is_not_read():
    store = Log(log("one", "two", "three"))
    assert said(await Transcripts().reading(store, request(store.events, recent=len(store.events)))) == ["one", "two", "three"]
    assert store.read_entries == 0


async def test_the_last_entries_prove_that_the_log_is_the_same():
    store, kept = Log(log(*map(str, range(300)))), Transcripts()
    before = await kept.reading(store, request(store.events))
    store.read_entries = 0
    after = await kept.reading(store, request(store.events))
    assert (after, store.read_entries) == (before, OVERLAP)


@pytest.mark.parametrize("recent", [0, 2, 4])
@pytest.mark.parametrize("length", [0, 1])
async def test_a_log_that_was_set_back_and_went_on_otherwise_is_read_anew(recent, length):
    kept = Transcripts()
    old, new = log("same", "old"), log("same", "new", *["more"] * length)
    before = await kept.reading(Log(old), request(old))
    after = await kept.reading(Log(new), request(new, recent=recent))
    assert said(after) == ["same", "new", *["more"] * length]
    assert after.mark != before.mark


async def test_a_log_that_is_shorter_now_is_read_anew():
    kept = Transcripts()
    await kept.reading(Log(log("same", "old")), request(log("same", "old")))
    new = log("other")
    assert said(await kept.reading(Log(new), request(new))) == ["other"]


async def test_a_log_that_is_set_back_between_two_pages_is_read_anew():
    old = log(*[f"old {number}" for number in range(300)])
    new = log(*[f"new {number}" for number in range(300)])

    class SetBack(Log):
        async def read(self, conversation_id, *, after, limit, whole):
            found = await super().read(conversation_id, after=after, limit=limit, whole=whole)
            self.events = new
            return found

    reading = await Transcripts().reading(SetBack(old), request(new))
    assert said(reading) == [f"new {number}" for number in range(300)]


async def test_a_log_that_changes_under_its_reader_again_and_again_is_given_up():
    class Changing(Log):
        async def read(self, conversation_id, *, after, limit, whole):
            self.events = log(*[f"{self.read_entries} {number}" for number in range(300)])
            return await super().read(conversation_id, after=after, limit=limit, whole=whole)

    store = Changing(log(*["x"] * 300))
    with pytest.raises(RuntimeError, match="changes while it is read"):
        await Transcripts().reading(store, request(store.events))
    assert store.read_entries < (TRIES + 2) * 600


async def test_a_log_that_ends_before_what_is_asked_for_is_not_waited_for():
    store = Log(log("one", "two"))
    with pytest.raises(RuntimeError, match="ends at 5, not 7"):
        await Transcripts().reading(store, request(log("one", "two", "three")))


async def test_they_are_bounded_in_bytes_however_short_they_are():
    kept = Transcripts(most_bytes=116_000)
    for number in range(50):
        events = log(f"{number}")
        await kept.reading(Log(events), request(events, conversation_id=f"c-{number}"))
    assert 5 < len(kept) < 116_000 / OWN_BYTES
    events = [*log("x"), CallResolved(at=9, tool_call_id="call_1", ok=True, content="x" * 108_000, by="run")]
    await kept.reading(Log(events), request(events, conversation_id="c-large"))
    assert (len(kept), kept.size_bytes > 108_000) == (1, True)
    larger = log("x" * 200_000)
    assert said(await kept.reading(Log(larger), request(larger, conversation_id="c-larger"))) == ["x" * 200_000]
    assert (len(kept), kept.size_bytes) == (0, 0)


async def test_what_is_sent_is_within_the_agents_budget_and_each_message_is_counted_once(monkeypatch):
    counted = []
    monkeypatch.setattr(window, "message_tokens", lambda message: counted.append(message) or message_tokens(message))
    terms = AgentSpec(name="desk", model="m", context=Context(budget=1000))
    store, kept = Log(log(*(f"{n} {'x' * 200}" for n in range(40)))), Transcripts()
    reading = await kept.reading(store, request(store.events))
    assert reading.window(AgentSpec(name="desk", model="m")).messages == reading.messages
    assert not counted
    sent = reading.window(terms)
    assert sent.fits
    assert sent.messages == reading.messages[-len(sent.messages) :] != reading.messages
    assert len(counted) == 40
    closed = reading.window(terms, "Stop(rounds=2)")
    assert "Stop(rounds=2)" in closed.messages[-1]["content"]
    assert closed.messages[:-1] == reading.messages[-len(closed.messages) + 1 :]
    assert len(counted) == 41
    assert (await kept.reading(store, request(store.events))).window(terms).messages == sent.messages
    assert len(counted) == 41
