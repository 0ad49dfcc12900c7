"""Events over HTTP: whole frames of any split, resumed without a gap after a cut, silence that ends, and bounds."""

import asyncio
import itertools
import json

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as some

from holdfast.client import AsyncClient, http_exchange
from holdfast.client import http_events as module
from holdfast.client.http_address import Address
from holdfast.client.http_events import Frame, Frames
from holdfast.client.http_gateway import HttpGateway
from holdfast.errors import ConversationNotFound, ServerRefused, ServerUnavailable, StoreUnavailable
from holdfast.server.error_responses import problem_of
from holdfast.server.streams import HEARTBEAT, frame

TEXT = "ü\r\n\x0b\u2028 data: x"


def accepted(seq):
    told = {
        "kind": "message_accepted",
        "at": 5,
        "message_id": f"m-{seq}",
        "text": TEXT,
        "digest": "d",
        "seq": seq,
        "live": False,
    }
    return frame("message_accepted", told, cursor=seq)


def delta(text):
    told = {"kind": "text_delta", "at": 5, "effect_id": "t1.m1", "attempt": 1, "text": text, "seq": None, "live": True}
    return frame("text_delta", told)


def closed(reason, **more):
    return frame("stream_closed", {"reason": reason, "after": 0, **more})


class Chunks(httpx.AsyncByteStream):
    """Chunks of a stream; at the end it ends, breaks off with an error, or (`None`) hangs."""

    def __init__(self, chunks, end=b""):
        self.chunks, self.end = chunks, end

    async def __aiter__(self):
        for chunk in self.chunks:
            yield chunk
        if self.end is None:
            await asyncio.Event().wait()
        if isinstance(self.end, Exception):
            raise self.end


class Streams(httpx.AsyncBaseTransport):
    """Answers each request with the next of its streams, or raises."""

    def __init__(self, *answers):
        self.answers, self.asked = list(answers), []

    async def handle_async_request(self, request):
        query = dict(request.url.params)
        self.asked.append((request.headers.get("last-event-id"), query.get("live")))
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, Chunks):
            return httpx.Response(200, headers={"content-type": "text/event-stream; charset=utf-8"}, stream=answer)
        status, document = answer
        headers = {"content-type": "application/problem+json"}
        return httpx.Response(status, headers=headers, stream=httpx.ByteStream(json.dumps(document).encode()))


@pytest.fixture(autouse=True)
def hasty(monkeypatch):
    for one in (module, http_exchange):
        monkeypatch.setattr(one, "FIRST_S", 0.001)
        monkeypatch.setattr(one, "LONGEST_S", 0.01)


async def read(*answers, after=0, number=None, **options):
    """The places (or texts) of the events, and what was asked for."""
    transport = Streams(*answers)
    client = AsyncClient(HttpGateway(Address("http://127.0.0.1:8484"), timeout_s=0.5, transport=transport))
    found, events = [], client.conversation("c-1").events(after=after, **options)
    async for event in events:
        found.append(event.seq or event.data["text"])
        if len(found) == number:
            break
    await events.aclose()
    return found, transport.asked


async def test_a_stream_that_is_cut_goes_on_after_the_last_recorded_event():
    whole = accepted(4)
    found, asked = await read(
        Chunks([accepted(1) + delta("a"), accepted(2), whole[:20]], httpx.ReadError("gone")),
        httpx.ConnectError("refused"),
        Chunks([accepted(2), accepted(3)]),
        Chunks([closed("draining")]),
        Chunks([whole, closed("ended")]),
    )
    assert found == [1, "a", 2, 3, 4]
    assert asked == [(None, "true"), ("2", "true"), ("2", "true"), ("3", "true"), ("3", "true")]


async def test_a_stream_begins_where_it_is_told_and_leaves_live_events_out_where_they_are_not_wanted():
    found, asked = await read(Chunks([accepted(8), closed("ended")]), after=7, live=False)
    assert (found, asked) == ([8], [("7", "false")])


async def test_a_silent_stream_is_opened_again_and_heartbeats_are_no_silence(monkeypatch):
    monkeypatch.setattr(module, "SILENT_S", 0.05)
    found, asked = await read(Chunks([HEARTBEAT, accepted(1)], None), Chunks([closed("ended")]))
    assert (found, len(asked)) == ([1], 2)


async def test_a_stream_that_fails_raises_what_it_failed_with():
    with pytest.raises(StoreUnavailable, match="down"):
        await read(Chunks([closed("failed", problem=problem_of(StoreUnavailable("down")))]))
    with pytest.raises(ConversationNotFound):
        await read((404, problem_of(ConversationNotFound("c-1"))))
    with pytest.raises(ServerRefused, match="403, cross_site"):
        await read((403, {"code": "cross_site", "detail": "no"}))


async def test_a_server_that_stays_away_is_given_up_at_the_deadline():
    gone = [httpx.ConnectError("refused")] * 1000
    with pytest.raises(ServerUnavailable, match="refused"):
        await read(Chunks([accepted(1)]), *gone)


async def test_who_leaves_closes_the_stream():
    left = Chunks([accepted(1), accepted(2)], None)
    found, asked = await read(left, number=1)
    assert (found, len(asked)) == ([1], 1)


@pytest.mark.parametrize(
    "sent",
    [
        b"data: {}\n\n",
        b"data: nonsense\n\n",
        b"data: []\n\n",
        b"data: \xff\n\n",
        frame("weather", {"kind": "weather", "seq": None, "at": 5, "live": False}, cursor=1),
        frame("text_delta", {"kind": "text_delta", "seq": None, "at": 5, "live": True}),
        frame("message_accepted", {"kind": "message_accepted", "seq": "one", "at": 5, "live": False}),
    ],
)
async def test_what_is_no_event_is_no_answer_of_holdfast(sent):
    with pytest.raises(ServerRefused, match="unreadable"):
        await read(Chunks([sent]))


@given(cuts=some.lists(some.integers(0, 200), max_size=8), end=some.sampled_from([b"\n", b"\r\n"]))
def test_frames_are_whole_however_the_bytes_are_split(cuts, end):
    raw = b": hello\nretry: 5\n\nid: 1\nevent: one\ndata: {}\n\ndata: a\ndata:b\nweather: x\n\nevent: empty\n\n".replace(
        b"\n", end
    )
    places = sorted({0, len(raw), *(cut for cut in cuts if cut < len(raw))})
    frames = Frames()
    found = [one for begin, over in itertools.pairwise(places) for one in frames.fed(raw[begin:over])]
    assert found == [Frame("one", "{}", "1"), Frame("", "a\nb")]


@pytest.mark.parametrize("sent", [[b"data: " + b"x" * 1000], [b"data: xxxx\n"] * 100, [b": " + b"x" * 1000]])
def test_a_frame_is_bounded_whatever_it_is_made_of(sent, monkeypatch):
    monkeypatch.setattr(module, "FRAME_BYTES", 500)
    frames = Frames()
    with pytest.raises(ServerRefused, match="more than 500 bytes"):
        [list(frames.fed(chunk)) for chunk in sent]


def test_many_frames_are_no_large_one(monkeypatch):
    monkeypatch.setattr(module, "FRAME_BYTES", 500)
    frames = Frames()
    assert len([one for _ in range(1000) for one in frames.fed(b"data: xxxx\n\n")]) == 1000


async def test_what_a_newer_server_sends_ends_no_stream_and_leaves_no_gap():
    told = {"kind": "conversation_sung_to", "at": 5, "song": "x", "seq": 2, "live": False}
    more = json.loads(accepted(3).partition(b"\ndata: ")[2]) | {"mood": "merry"}
    humming = {"kind": "hum", "at": 5, "seq": None, "live": True}
    unknown = [frame("conversation_sung_to", told, cursor=2), frame("hum", humming)]
    first = Chunks([accepted(1), *unknown, frame("message_accepted", more, cursor=3), unknown[0]], end=httpx.ReadError("cut"))
    second = Chunks([frame("conversation_sung_to", told | {"seq": 4}, cursor=4)], end=httpx.ReadError("cut"))

    found, asked = await read(first, second, Chunks([accepted(5), closed("ended")]))

    assert found == [1, 3, 5]
    assert [last for last, _ in asked] == [None, "3", "4"]


def told(conversation_id, *, cursor=None, kind="status", agent="desk"):
    said = {"kind": kind, "at": 5, "conversation_id": conversation_id, "agent": agent, "seq": 3, "data": {"status": "idle"}}
    return frame(kind, said, cursor=cursor)


async def read_lists(*answers, number=None, **options):
    transport = Streams(*answers)
    client = AsyncClient(HttpGateway(Address("http://127.0.0.1:8484"), timeout_s=0.5, transport=transport))
    found, events = [], client.events(**options)
    async for event in events:
        found.append((event.conversation_id, event.cursor))
        if len(found) == number:
            break
    await events.aclose()
    return found, [last for last, _ in transport.asked]


async def test_the_lists_go_on_after_the_last_cursor_whatever_came_without_one_or_was_not_wanted():
    found, asked = await read_lists(
        Chunks([told("c-1"), told("c-1", cursor="17_1-0"), told("c-2")], httpx.ReadError("gone")),
        Chunks([told("c-2"), told("c-2", cursor="18_2-0"), told("c-3", cursor="19_3-0", agent="bar")]),
        Chunks([told("c-4", cursor="20_1-0", kind="weather"), closed("draining")]),
        Chunks([told("c-5", cursor="21_5-0")]),
        agent=["desk", "till"],
        number=6,
    )
    assert found == [("c-1", None), ("c-1", "17_1-0"), ("c-2", None), ("c-2", None), ("c-2", "18_2-0"), ("c-5", "21_5-0")]
    assert asked == [None, "17_1-0", "19_3-0", "20_1-0"]


async def test_an_id_that_is_no_cursor_of_the_lists_is_no_answer_of_holdfast():
    for bad in ("x", "1" * 5_000, "ü"):
        with pytest.raises(ServerRefused, match="no cursor"):
            await read_lists(Chunks([told("c-1", cursor=bad)]))
