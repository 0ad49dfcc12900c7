"""Event streams: cursors, resuming without a gap, live events, heartbeats, and how a stream ends."""

import asyncio
import json
from contextlib import AsyncExitStack

import pytest
from writer import begin, cancel, comment, end, reply, resolve

from holdfast.client import AsyncConversation, Principal
from holdfast.conversation import Approve
from holdfast.errors import StoreUnavailable
from holdfast.persistence import codec
from holdfast.server import Bounds, create_app, drain

from .conftest import OPEN, Api

PATH = "/v1/conversations/c-1/events"


def cursors(stream):
    return [cursor for _, cursor, _ in stream.events if cursor is not None]


async def test_recorded_events_come_with_their_cursor_and_lines_end_in_lf(api, waiting):
    async with api.stream("GET", PATH) as stream:
        await stream.until(lambda: len(cursors(stream)) == waiting.state.seq)

        assert (stream.status, stream.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
        assert stream.headers["cache-control"] == "no-store"
        assert stream.raw.startswith(b"retry: 1000\n\n")
        assert b"\r" not in stream.raw
        assert cursors(stream) == list(range(1, waiting.state.seq + 1))
        kinds = [kind for kind, _, _ in stream.events]
        assert (kinds[0], kinds[-1]) == ("conversation_started", "call_suspended")
        _, seq, suspended = next(one for one in stream.events if one[0] == "call_suspended")
        assert (suspended["seq"], suspended["live"], suspended["arguments"]) == (seq, False, {"order": 7})


@pytest.mark.parametrize("last", range(6))
async def test_a_listener_that_comes_back_misses_nothing_and_sees_nothing_twice(api, waiting, last):
    async with api.stream("GET", f"{PATH}?after=0", last_event_id=str(last)) as stream:
        await stream.until(lambda: waiting.state.seq in cursors(stream))
        assert cursors(stream) == list(range(last + 1, waiting.state.seq + 1))
    async with api.stream("GET", f"{PATH}?after={last}&live=false") as stream:
        await stream.until(lambda: waiting.state.seq in cursors(stream))
        assert cursors(stream) == list(range(last + 1, waiting.state.seq + 1))


async def test_live_events_are_marked_and_move_no_cursor(api, waiting, store):
    async with api.stream("GET", PATH, last_event_id=str(waiting.state.seq)) as stream:
        async with asyncio.timeout(20):
            while "c-1" not in store._listeners:
                await asyncio.sleep(0)
        await store.publish("c-1", codec.pack(["text_delta", "t1.m1", 1, 5, "one\r\ntwo\n\n"]))
        await stream.until(lambda: stream.events)

        ((kind, cursor, told),) = stream.events
        assert (kind, cursor, told["seq"], told["live"]) == ("text_delta", None, None, True)
        assert (told["text"], told["attempt"], told["at"]) == ("one\r\ntwo\n\n", 1, 5)
        await waiting.do(resolve(Approve()))
        await stream.until(lambda: cursors(stream))
        assert cursors(stream)[0] == waiting.state.seq - 1


async def test_a_quiet_stream_has_heartbeats_which_are_comments(client, waiting):
    api = Api(create_app(client, authentication=OPEN, bounds=Bounds(heartbeat_s=0.01)))
    async with api.stream("GET", PATH, last_event_id=str(waiting.state.seq)) as stream:
        await stream.until(lambda: stream.raw.count(b": \n\n") >= 3)
        assert stream.events == []


async def test_a_stream_ends_with_the_conversation_and_a_browser_does_not_come_back(api, waiting):
    async with api.stream("GET", PATH) as stream:
        await waiting.do(end())
        await stream.until(lambda: stream.complete)
        kind, cursor, told = stream.events[-1]
        assert (kind, cursor, told) == ("stream_closed", None, {"reason": "ended", "after": waiting.state.seq})
    async with api.stream("GET", PATH, last_event_id=str(waiting.state.seq)) as stream:
        assert stream.status == 204
    async with api.stream("GET", PATH, last_event_id=str(waiting.state.seq - 1)) as stream:
        await stream.until(lambda: stream.complete)
        assert [kind for kind, _, _ in stream.events] == ["conversation_ended", "stream_closed"]


async def test_a_drained_server_ends_its_streams_and_polls_and_says_where_to_resume(api, waiting):
    async with api.stream("GET", PATH) as stream, api.stream("GET", f"{PATH}?after=2") as other:
        for one in (stream, other):
            await one.until(lambda one=one: waiting.state.seq in cursors(one))
        polling = asyncio.ensure_future(api("GET", f"/v1/conversations/c-1?wait_s=60&after={waiting.state.seq}"))
        await asyncio.sleep(0)
        drain(api.app)
        for one in (stream, other):
            await one.until(lambda one=one: one.complete)
            assert one.events[-1] == ("stream_closed", None, {"reason": "draining", "after": waiting.state.seq})
        async with asyncio.timeout(20):
            assert (await polling)["seq"] == waiting.state.seq
    assert (await api("GET", PATH, 503))["code"] == "draining"
    assert (await api("GET", "/ready", 503))["code"] == "draining"
    assert await api("GET", "/v1/conversations/c-1/messages")


async def test_a_stream_that_never_rests_is_drained_too(client, waiting, monkeypatch):
    api, endless = Api(create_app(client, authentication=OPEN)), AsyncConversation.events

    async def busy(self, **_):
        event = await anext(endless(self, after=0, live=False))
        while True:
            yield event

    monkeypatch.setattr(AsyncConversation, "events", busy)
    async with api.stream("GET", PATH) as stream:
        await stream.until(lambda: len(cursors(stream)) > 10)
        drain(api.app)
        await stream.until(lambda: stream.complete)
        assert stream.events[-1][2]["reason"] == "draining"


async def test_a_start_streams_the_events_of_its_turn_and_no_more(api, store, stack):
    body = {"agent": "desk", "text": "Hello", "conversation_id": "c-5"}
    async with api.stream("POST", "/v1/conversations", body=body, accept="text/event-stream", idempotency_key="m-5") as stream:
        assert (stream.status, stream.headers["location"]) == (201, "/v1/conversations/c-5")
        assert stream.headers["idempotency-key"] == "m-5"
        writer = stack.writers["c-5"]
        await writer.do(begin(), reply("Hi."))
        await stream.until(lambda: stream.complete)
        told = [kind for kind, _, _ in stream.events]
    assert told == [
        "conversation_started",
        "message_accepted",
        "turn_started",
        "model_answered",
        "turn_completed",
        "stream_closed",
    ]
    async with api.stream("POST", "/v1/conversations", body=body, accept="text/event-stream", idempotency_key="m-5") as again:
        await again.until(lambda: again.complete)
        assert again.events[:-1] == stream.events[:-1]
        assert again.events[-1][2]["reason"] == "complete"


async def test_a_start_that_is_refused_is_a_problem_and_no_stream(api):
    async with api.stream("POST", "/v1/conversations", body={"agent": "no", "text": "x"}, accept="text/event-stream") as stream:
        await stream.until(lambda: stream.complete)
        assert (stream.status, json.loads(stream.raw)["code"]) == (422, "agent_not_found")


async def test_a_start_whose_turn_is_cancelled_ends_its_stream(api, stack):
    body = {"agent": "desk", "text": "Hello", "conversation_id": "c-5"}
    async with api.stream("POST", "/v1/conversations", body=body, accept="text/event-stream") as stream:
        await stack.writers["c-5"].do(begin(), cancel())
        await stream.until(lambda: stream.complete)
        assert [kind for kind, _, _ in stream.events][-2:] == ["turn_cancelled", "stream_closed"]


async def test_no_more_streams_are_opened_than_may_be(client, waiting):
    api = Api(create_app(client, authentication=OPEN, bounds=Bounds(streams=2)))
    async with api.stream("GET", PATH), api.stream("GET", PATH):
        found = await api.http.get(PATH)
        assert (found.status_code, found.json()["code"]) == (429, "too_many_streams")
        assert int(found.headers["retry-after"]) >= 1
        started = await api.http.post(
            "/v1/conversations", json={"agent": "desk", "text": "x"}, headers={"Accept": "text/event-stream"}
        )
        assert started.status_code == 429
        assert [row["conversation_id"] for row in (await api("GET", "/v1/conversations"))["items"]] == ["c-1"]
    async with api.stream("GET", PATH) as again:
        assert again.status == 200


async def test_a_listener_that_takes_nothing_in_is_cut_off_and_resumes(client, waiting):
    api = Api(create_app(client, authentication=OPEN, bounds=Bounds(patience_s=0.05)))
    async with api.stream("GET", PATH) as stream:
        await stream.until(lambda: cursors(stream))
        stream.taking.clear()
        await waiting.do(resolve(Approve()))
        async with asyncio.timeout(20):
            await stream.task
        assert not stream.complete
        last = cursors(stream)[-1]
    async with api.stream("GET", PATH, last_event_id=str(last)) as resumed:
        await resumed.until(lambda: waiting.state.seq in cursors(resumed))
        assert cursors(resumed)[0] == last + 1


async def test_what_is_behind_a_stream_may_fail_and_the_stream_says_so(client, waiting, store, monkeypatch):
    api = Api(create_app(client, authentication=OPEN))
    async with api.stream("GET", PATH) as stream:
        await stream.until(lambda: waiting.state.seq in cursors(stream))

        async def fails(*_, **__):
            raise StoreUnavailable("it is gone")

        monkeypatch.setattr(store, "read", fails)
        await waiting.do(resolve(Approve()))
        await stream.until(lambda: stream.complete)
    told = stream.events[-1][2]
    assert (told["reason"], told["problem"]["code"]) == ("failed", "store_unavailable")
    assert told["after"] in cursors(stream)


async def test_what_was_started_is_streamed_although_others_have_taken_the_last_place(client, waiting, stack, monkeypatch):
    api = Api(create_app(client, authentication=OPEN, bounds=Bounds(streams=1)))
    begun, body = client.start, {"agent": "desk", "text": "x", "conversation_id": "c-5"}

    async def slowly(*arguments, **options):
        started = await begun(*arguments, **options)
        await others.enter_async_context(api.stream("GET", PATH))
        return started

    monkeypatch.setattr(client, "start", slowly)
    opened = api.stream("POST", "/v1/conversations", body=body, accept="text/event-stream")
    async with AsyncExitStack() as others, opened as stream:
        assert stream.status == 201
        await stream.until(lambda: cursors(stream) == [1, 2])


# -- the lists ----------------------------------------------------------------------------------------------------------


def told(stream):
    return [(one["event"], one.get("id"), json.loads(one["data"])) for one in stream.frames if "event" in one]


async def test_the_lists_are_followed_and_resumed_without_a_gap(api, waiting):
    async with api.stream("GET", "/v1/events") as stream:
        await stream.until(lambda: told(stream))
        kind, begun, said = told(stream)[0]
        assert (stream.status, kind, said["data"]) == (200, "following", {})
        await waiting.do(resolve(Approve()))
        await waiting.do(end())
        await stream.until(lambda: told(stream)[-1][2]["data"].get("status") == "ended")
        seen = told(stream)[1:]
        kinds = [kind for kind, _, _ in seen]
        assert kinds[:2] == ["settled", "status"]
        assert [cursor is not None for kind, cursor, _ in seen] == [kind == "status" for kind in kinds]
        assert all(said["conversation_id"] == "c-1" and said["agent"] == "desk" for _, _, said in seen)
        assert seen[0][2]["data"]["decision"] == "approve"
    for last in [begun, *(cursor for _, cursor, _ in seen if cursor is not None)][:-1]:
        async with api.stream("GET", f"/v1/events?after={begun}", last_event_id=last) as again:
            await again.until(lambda again=again: told(again) and told(again)[-1][2]["data"].get("status") == "ended")
            places = [cursor for _, cursor, _ in seen]
            assert told(again) == (seen[places.index(last) + 1 :] if last in places else seen)


async def test_what_others_say_of_a_call_is_told_as_the_list_shows_it(api, waiting):
    async with api.stream("GET", "/v1/events?agent=nobody") as others, api.stream("GET", "/v1/events") as stream:
        await others.until(lambda: told(others))
        await stream.until(lambda: told(stream))
        await waiting.do(comment("Which order?", principal=Principal("ana")))
        await stream.until(lambda: told(stream)[-1][0] == "status")
        (kind, _, said), (_, cursor, _) = told(stream)[1:]
        shown = next(one for one in (await api("GET", "/v1/pending"))["items"] if one["comments"])
        assert (kind, said["data"]) == ("noted", shown)
        assert [one["text"] for one in shown["comments"]] == ["Which order?"]
        await waiting.do(end())
        async with api.stream("GET", f"/v1/events?after={cursor}") as rest:
            await rest.until(lambda: told(rest))
            assert told(rest)[0][0] == "settled"
        assert [kind for kind, _, _ in told(others)] == ["following"]


async def test_the_lists_are_followed_by_agent_and_by_kind(api, waiting):
    async with (
        api.stream("GET", "/v1/events?agent=nobody") as others,
        api.stream("GET", "/v1/events?kind=approval") as approvals,
        api.stream("GET", "/v1/events?agent=desk") as desk,
    ):
        for one in (others, approvals, desk):
            await one.until(lambda one=one: told(one))
        await waiting.do(end())
        await desk.until(lambda: told(desk)[-1][0] == "status")
        await approvals.until(lambda: len(told(approvals)) > 1)
        assert [kind for kind, _, _ in told(others)] == ["following"]
        assert [kind for kind, _, _ in told(approvals)] == ["following", "settled"]
        assert {said["data"].get("suspension_kind") for _, _, said in told(approvals)[1:]} == {"approval"}


@pytest.mark.parametrize("last", ["-1", "x", "1_64-0", "1-1", "9" * 40, "1" * 2000])
async def test_a_cursor_of_the_lists_is_checked(api, last):
    found = await api("GET", "/v1/events", 422, headers={"Last-Event-ID": last})
    assert found["field"] == "Last-Event-ID"
    await api("GET", f"/v1/events?after={last}", 422)


async def test_a_drained_server_ends_the_streams_of_lists_and_says_where_to_resume(api, waiting):
    async with api.stream("GET", "/v1/events") as stream:
        await stream.until(lambda: told(stream))
        await waiting.do(resolve(Approve()))
        await stream.until(lambda: told(stream)[-1][0] == "status")
        drain(api.app)
        await stream.until(lambda: stream.complete)
        kind, cursor, said = told(stream)[-1]
        assert (kind, cursor, said["reason"]) == ("stream_closed", None, "draining")
        assert said["after"] == told(stream)[-2][1]
