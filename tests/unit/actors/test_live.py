"""Live events of a run: lossy, and bounded however much a body reports."""

import asyncio
import threading

from holdfast.actors.worker import live
from holdfast.actors.worker.model_answer import CallPiece
from holdfast.actors.workers import ModelRequest, RunRequest
from holdfast.conversation.text import jsontext
from holdfast.persistence import codec

REQUEST = RunRequest(
    code="k",
    conversation_id="c-1",
    agent="desk",
    spec_digest="s",
    effect_id="call_1#1",
    turn_id="t1",
    tool_call_id="call_1",
    tool="slow",
    attempt=1,
    arguments_at=3,
)


class Listening:
    """A store that takes what is published when its gate is open."""

    def __init__(self):
        self.heard, self.gate, self.at_once, self.most = [], asyncio.Event(), 0, 0

    async def publish(self, conversation_id, payload):
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        await self.gate.wait()
        self.heard.append(jsontext.loads(codec.unpack(payload)[4])["value"])
        self.at_once -= 1

    async def keep_progress(self, conversation_id, effect_id, payload):
        return True


async def heard(store, count):
    async with asyncio.timeout(20):
        while len(store.heard) < count:
            await asyncio.sleep(0.001)
    return store.heard


async def test_a_body_that_floods_its_reports_loses_the_oldest_and_holds_up_nobody(monkeypatch):
    monkeypatch.setattr(live, "PROGRESS_PAUSE_S", 0)
    store, loop = Listening(), asyncio.get_running_loop()
    report = live.Progress(store, REQUEST, loop)
    body = threading.Thread(target=lambda: [report(number, None) for number in range(10_000)])
    body.start()
    await asyncio.to_thread(body.join)
    tasks = len(asyncio.all_tasks())
    store.gate.set()
    async with asyncio.timeout(20):
        while store.heard[-1:] != [9_999]:
            await asyncio.sleep(0.001)
    values = store.heard
    assert tasks <= 3  # the test, what publishes and what keeps
    assert store.most == 1
    assert values == sorted(values)
    assert len(values) <= live.PROGRESS_WAITING + 1


async def test_a_few_reports_are_all_heard_in_order_and_at_once():
    store = Listening()
    store.gate.set()
    report = live.Progress(store, REQUEST, asyncio.get_running_loop())
    for number in range(5):
        report(number, "so far")
    assert await heard(store, 5) == [0, 1, 2, 3, 4]
    report(5, None)
    assert (await heard(store, 6))[-1] == 5


# -- a model's text, as it comes -------------------------------------------------------------------------------------------

CALL = ModelRequest(code="k", conversation_id="c-1", agent="desk", spec_digest="s", effect_id="t1.m1", upto_seq=2, attempt=1)


class Texts(Listening):
    """A store that hears what a model says."""

    listened = True

    async def publish(self, conversation_id, payload):
        kind, _, _, _, text = codec.unpack(payload)
        await self.gate.wait()
        self.heard.append((kind, text))
        return self.listened


async def test_pieces_that_come_together_are_published_together_and_a_piece_that_nothing_follows_soon():
    store = Texts()
    store.gate.set()
    deltas = live.Deltas(store, CALL, 1)
    for piece in ("Hel", "lo", "."):
        await deltas.add(piece)
    assert await heard(store, 1) == [("text_delta", "Hello.")]


async def test_a_stream_that_stalls_holds_no_piece_back(monkeypatch):
    store = Texts()
    store.gate.set()
    monkeypatch.setattr(live, "DELTA_EVERY_S", 0)
    deltas = live.Deltas(store, CALL, 1)
    await deltas.add("one ")
    monkeypatch.setattr(live, "DELTA_EVERY_S", 0.01)
    await deltas.add("two")
    assert await heard(store, 2) == [("text_delta", "one "), ("text_delta", "two")]


async def test_pieces_keep_their_order_and_their_kind_while_publishing_is_slow(monkeypatch):
    store = Texts()
    monkeypatch.setattr(live, "DELTA_EVERY_S", 0.001)
    deltas = live.Deltas(store, CALL, 1)

    async def stream():
        for number in range(20):
            await deltas.add("" if number % 2 else f"{number},", f"{number}," if number % 2 else "")
            await asyncio.sleep(0.002)
        await deltas.flush()

    streaming = asyncio.create_task(stream())
    await asyncio.sleep(0.02)
    store.gate.set()
    async with asyncio.timeout(20):
        await streaming
    said = [(kind, number) for kind, text in store.heard for number in text.strip(",").split(",")]
    assert said == [("reasoning_delta" if number % 2 else "text_delta", str(number)) for number in range(20)]


# -- the arguments of calls, as a model writes them ------------------------------------------------------------------------


def pieces_of(store):
    return [(kind, jsontext.loads(text) if kind == "arguments_delta" else text) for kind, text in store.heard]


async def test_the_arguments_of_each_call_come_with_its_place_and_its_tool(monkeypatch):
    store = Texts()
    store.gate.set()
    deltas = live.Deltas(store, CALL, 1)
    await deltas.add("Let me see. ", calls=[CallPiece(0, "refund", "")])
    await deltas.add("", calls=[CallPiece(0, "refund", '{"or')])
    await deltas.add("", calls=[CallPiece(0, "refund", 'der":1}'), CallPiece(1, "ship", "{}")])
    await deltas.flush()

    assert pieces_of(store) == [
        ("text_delta", "Let me see. "),
        ("arguments_delta", {"index": 0, "tool": "refund", "text": '{"order":1}'}),
        ("arguments_delta", {"index": 1, "tool": "ship", "text": "{}"}),
    ]


async def test_where_nobody_listens_the_arguments_of_many_calls_cost_one_message_a_second(monkeypatch):
    store = Texts()
    store.gate.set()
    store.listened = False
    deltas = live.Deltas(store, CALL, 1)
    for number in range(500):
        await deltas.add("", calls=[CallPiece(number, "ship", "{}")])
    await deltas.flush()
    await live.Deltas(store, CALL, 2).add("", calls=[CallPiece(number, "ship", "{}") for number in range(500)])
    assert len(store.heard) <= 4
    monkeypatch.setattr(live, "UNHEARD_S", 0)
    store.listened = True
    await deltas.add("", calls=[CallPiece(500, "ship", "{}")])
    await deltas.add("", calls=[CallPiece(501, "ship", "{}")])
    await deltas.flush()
    assert [said["index"] for _, said in pieces_of(store)][-2:] == [500, 501]
