"""The HTTP server as a user starts it, on the real stack: a conversation over HTTP alone, servers that die, and their drain."""

import asyncio
import json
import re
import signal
from pathlib import Path

import httpx
import pytest
from server_process import WITHIN_S, mishaps, server_process, serving, until
from stack_fixture import eventually, runs_of

from holdfast import Approve, AsyncClient
from holdfast.testing import call, calls


@pytest.fixture(scope="module")
def refund(stack):
    """A conversation that asks for an approval."""
    return stack.scenarios.add("http", calls(call("refund", {"order": "A1", "amount": 42}), content="A moment."), "It is done.")


async def test_a_conversation_is_started_followed_decided_and_read_over_http_alone(stack, refund):
    async with serving(stack) as server:
        assert await server("GET", "/health") == {"status": "ok"}
        assert await server("GET", "/ready") == {"status": "ready"}
        assert "support" in [agent["name"] for agent in (await server("GET", "/v1/agents"))["items"]]
        body, key = {"agent": "support", "text": refund, "conversation_id": "http-1"}, {"Idempotency-Key": "m-1"}
        seen = []
        asking = {"Accept": "text/event-stream", **key}
        async with server.stream("POST", "/v1/conversations", json=body, headers=asking) as events:
            suspended = await until(events, "call_suspended", seen)
            state = await server("GET", "/v1/conversations/http-1?wait_s=30")
            (shown,) = state["pending"]
            assert (shown["suspension_id"], shown["arguments"]) == (suspended["suspension_id"], {"order": "A1", "amount": 42})
            place = f"/v1/pending/{shown['suspension_id']}"
            assert await server("GET", place) == shown

            decision = {"decision": "approve", "conversation_id": "http-1"}
            receipt = await server("POST", f"{place}/resolve", json=decision, headers={"Idempotency-Key": "d-1"})
            assert (await until(events, "stream_closed", seen))["reason"] == "complete"

        assert [cursor for _, cursor, _ in seen if cursor is not None] == list(range(1, seen[-1][2]["after"] + 1))
        assert all(data["live"] for _, cursor, data in seen[:-1] if cursor is None)
        again = await server("POST", f"{place}/resolve", json=decision, headers={"Idempotency-Key": "d-1"})
        assert (again["seq"], again["duplicate"]) == (receipt["seq"], True)
        late = await server("POST", f"{place}/resolve", 409, json={"decision": "deny", "conversation_id": "http-1"})
        assert (late["code"], late["reason"], late["settled_by"]) == ("stale_call", "already_resolved", "approve")
        restarted = await server("POST", "/v1/conversations", 201, json=body, headers=key)
        assert restarted["duplicate"]

        sent = await server("POST", "/v1/conversations/http-1/end", headers={"Idempotency-Key": "e-1"})
        became = await server("GET", "/v1/conversations/http-1/messages/m-1")
        (turn,) = (await server("GET", "/v1/conversations/http-1/turns"))["items"]
        assert (became["status"], became["reply"], became["turn_id"]) == ("completed", "It is done.", turn["turn_id"])
        assert turn["usage"]["model_calls"] == 2
        messages = (await server("GET", "/v1/conversations/http-1/messages"))["items"]
        assert [message["role"] for message in messages] == ["user", "assistant", "tool", "assistant"]
        gone = await server.http.get("/v1/conversations/http-1/events", headers={"Last-Event-ID": str(sent["seq"])})
        assert gone.status_code == 204
        assert [run["kind"] for run in runs_of(stack, "http-1")] == ["refund"]
        assert server.end(signal.SIGTERM) == 0


async def test_a_server_that_is_killed_loses_nothing_and_another_goes_on_where_it_was(stack, refund):
    seen, body = [], {"agent": "support", "text": refund}
    async with serving(stack) as server, serving(stack) as other:
        started = await server("POST", "/v1/conversations", 201, json=body, headers={"Idempotency-Key": "kill-1"})
        place = f"/v1/conversations/{started['conversation_id']}"
        async with server.stream("GET", f"{place}/events") as events:
            suspended = await until(events, "call_suspended", seen)
            where = f"/v1/pending/{suspended['suspension_id']}/resolve"
            decision = {"decision": "approve", "conversation_id": started["conversation_id"]}
            asked = asyncio.ensure_future(server.http.post(where, json=decision, headers={"Idempotency-Key": "kill-d"}))
            for _ in range(20):  # the request is on its way, and perhaps recorded already
                await asyncio.sleep(0)
            server.end(signal.SIGKILL)
            with pytest.raises(httpx.HTTPError):
                await until(events, "turn_completed", seen)
        await asyncio.gather(asked, return_exceptions=True)

        receipts = [await other("POST", where, json=decision, headers={"Idempotency-Key": "kill-d"}) for _ in range(2)]
        assert receipts[1] == {**receipts[0], "duplicate": True}
        again = await other("POST", "/v1/conversations", 201, json=body, headers={"Idempotency-Key": "kill-1"})
        assert (again["seq"], again["duplicate"]) == (started["seq"], True)
        cursors = [cursor for _, cursor, _ in seen if cursor is not None]
        headers = {"Last-Event-ID": str(cursors[-1])}
        async with other.stream("GET", f"{place}/events?live=false", headers=headers) as events:
            await until(events, "turn_completed", seen)
        cursors = [cursor for _, cursor, _ in seen if cursor is not None]
        assert cursors == list(range(1, cursors[-1] + 1))
        assert len(runs_of(stack, started["conversation_id"])) == 1


async def test_a_client_over_http_goes_on_when_its_server_is_killed_and_another_takes_its_place(stack, refund):
    async with serving(stack) as server, AsyncClient.connect(url=server.url, timeout_s=WITHIN_S) as client:
        conversation = await client.start("support", refund, message_id="killed-1")
        following = asyncio.ensure_future(up_to(conversation.events(live=False), "turn_completed"))
        lists = client.events()
        assert (await anext(lists)).kind == "following"
        listing = asyncio.ensure_future(up_to(lists, "settled"))
        (approval,) = (await conversation.wait(after=conversation.receipt.seq)).pending
        deciding = asyncio.ensure_future(approval.resolve(Approve()))
        for _ in range(20):  # the request is on its way, and perhaps recorded already
            await asyncio.sleep(0)
        server.end(signal.SIGKILL)
        async with serving(stack, "--port", str(httpx.URL(server.url).port)):
            receipt = await deciding
            state = await conversation.wait(after=receipt.seq, timeout_s=WITHIN_S)
            seen = await asyncio.wait_for(following, WITHIN_S)
            settled = (await asyncio.wait_for(listing, WITHIN_S))[-1]
    assert (settled.conversation_id, settled.data["suspension_id"]) == (conversation.id, approval.suspension_id)
    assert (state.status, state.reply) == ("idle", "It is done.")
    assert [event.seq for event in seen] == list(range(1, seen[-1].seq + 1))
    assert len(runs_of(stack, conversation.id)) == 1


async def up_to(events, kind):
    """The events up to the first of that kind."""
    seen = []
    async for event in events:
        seen.append(event)
        if event.kind == kind:
            break
    await events.aclose()
    return seen


async def test_a_server_that_is_told_to_end_says_where_to_resume_and_finishes_what_it_has_begun(stack, refund):
    async with serving(stack) as server:
        started = await server("POST", "/v1/conversations", 201, json={"agent": "support", "text": refund})
        place = f"/v1/conversations/{started['conversation_id']}"
        state = await server("GET", f"{place}?wait_s=30&after={started['seq']}")
        async with server.stream("GET", f"{place}/events") as events:
            await until(events, "call_suspended")
            polling = asyncio.ensure_future(server("GET", f"{place}?wait_s=50&after={state['seq']}"))
            pausing = asyncio.ensure_future(server("POST", "/v1/pause", json={"agent": "nobody"}))  # takes a second
            async with asyncio.timeout(WITHIN_S):
                while not (await server("GET", "/v1/agents"))["paused"]:
                    await asyncio.sleep(0.02)
            server.process.send_signal(signal.SIGTERM)
            closed = await until(events, "stream_closed")
        assert closed == {"reason": "draining", "after": state["seq"]}
        assert (await polling)["seq"] == state["seq"]
        assert (await pausing)["agent"] == "nobody"
        assert await asyncio.to_thread(server.process.wait, WITHIN_S) == 0
        assert mishaps(server.process.stderr.read()) == []


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        (("--host", "0.0.0.0"), "host"),  # noqa: S104 - it is refused
        (("--public-host", "*"), "public_host"),
        (("--host", "0.0.0.0", "--public-host", "desk.example", "--no-auth"), "no_auth"),  # noqa: S104 - as above
        (("--port", "70000"), "port"),
    ],
)
def test_a_server_that_everybody_could_reach_is_refused(stack, arguments, field):
    process = stack.python(
        "-m", "holdfast.cli", "serve", "--namespace", "nobody", "--port", "0", *arguments
    )  # where there are no keys
    out, err = process.communicate(timeout=WITHIN_S)
    assert (process.returncode, out) == (2, "")
    assert err.startswith(f"error: {field}: ")
    assert len(err.splitlines()) == 1


def test_a_person_signs_in_over_the_link_and_a_program_has_a_key_until_it_is_revoked(stack):
    def keys(*arguments):
        out, err = stack.python("-m", "holdfast.cli", "keys", *arguments).communicate(timeout=WITHIN_S)
        return out, err

    with server_process(stack) as process:
        try:
            told = [process.stdout.readline() for _ in range(3)]
            url = re.search(r"http://127\.0\.0\.1:\d+", told[0])[0]
            assert "/signin/" not in "".join(told), "what is no terminal is kept and read by others"
            kept = Path(re.search(r"the link is in (/\S+)", told[2])[1])
            assert (kept.stat().st_mode & 0o777, kept.parent.stat().st_mode & 0o777) == (0o600, 0o700)
            link = kept.read_text().strip()
            assert link.startswith(f"{url}/signin/")
            with httpx.Client(base_url=url, timeout=WITHIN_S) as http:
                assert http.get("/v1/pending").status_code == 401
                assert "<button" in http.get(link).text
                assert http.get("/v1/pending").status_code == 401
                assert http.post(link).status_code == 303
                assert http.get("/v1/pending").status_code == 200
                assert httpx.post(link).status_code == 410
            made = json.loads(keys("create", "--name", "ana", "--scope", "read", "--expires", "1d", "--json")[0])
            assert made["key_id"] in [one["key_id"] for one in json.loads(keys("list", "--json")[0])["items"]]
            assert made["key"] not in "".join(keys("list") + keys("list", "--json"))
            with httpx.Client(base_url=url, timeout=WITHIN_S, headers={"Authorization": f"Bearer {made['key']}"}) as http:
                assert http.get("/v1/pending").status_code == 200
                assert http.post("/v1/pause").json()["code"] == "not_permitted"
                assert keys("revoke", made["key_id"]) == (f"Revoked {made['key_id']}.\n", "")
                eventually(lambda: http.get("/v1/pending").status_code == 401)
            assert "there is no API key" in keys("revoke", made["key_id"])[1]
        finally:
            process.kill()
        written = process.stderr.read()
        assert mishaps(written) == []
        assert not [secret for secret in (made["key"], link.rpartition("/")[2]) if secret in written]


def test_a_key_with_quotas_sends_no_more_once_the_model_has_used_them(stack):
    text = stack.scenarios.add("quota", "It is done.", "It is done again.")

    def keys(*arguments):
        out, err = stack.python("-m", "holdfast.cli", "keys", *arguments).communicate(timeout=WITHIN_S)
        return out or err

    made = json.loads(
        keys(
            *("create", "--name", "shop", "--scope", "read", "--scope", "start", "--json"),
            *("--starts-per-day", "9", "--tokens-per-day", "1", "--cost-per-day", "2.5"),
        )
    )
    assert "cost_usd_per_day" in keys("create", "--name", "shop", "--scope", "read", "--cost-per-day", "-1")
    with server_process(stack) as process:
        try:
            url = re.search(r"http://127\.0\.0\.1:\d+", process.stdout.readline())[0]
            with httpx.Client(base_url=url, timeout=3 * WITHIN_S, headers={"Authorization": f"Bearer {made['key']}"}) as http:
                body = {"agent": "support", "text": text, "conversation_id": "http-quota"}
                eventually(lambda: http.post("/v1/conversations", json=body).status_code == 201, 120)
                eventually(lambda: http.get("/v1/conversations/http-quota").json()["status"] == "idle", 120)
                place = "/v1/conversations/http-quota/messages"
                # what a model call used is counted beside the turn
                eventually(lambda: listed(keys, made)["used"]["tokens_per_day"] > 0)
                refused = http.post(place, json={"text": text})
                assert (refused.status_code, refused.json()["quota"]) == (429, "tokens_per_day")
            used = listed(keys, made)["used"]
            assert (used["starts_per_day"], refused.json()["used"]) == (1, used["tokens_per_day"])
            assert "starts 1 of 9" in " ".join(keys("list").split())
            keys("revoke", made["key_id"])
        finally:
            process.kill()
        assert mishaps(process.stderr.read()) == []


def listed(keys, made):
    return next(one for one in json.loads(keys("list", "--json"))["items"] if one["key_id"] == made["key_id"])
