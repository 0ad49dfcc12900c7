"""Audits over HTTP: a list in parts, lines for an archive, and who may read them."""

import json

import pytest
from writer import Writer, begin, call, resolve, start

from holdfast.conversation import Approve, Deny
from holdfast.errors import StoreUnavailable
from holdfast.persistence import codec
from holdfast.server import create_app

from .conftest import Api

PLACE = "/v1/conversations/c-3/audit"
LINES = {"Accept": "application/jsonl"}


@pytest.fixture
async def writer(store, stack):
    """The writer of a conversation in which two refunds were decided."""
    writer = stack.writers["c-3"] = await Writer.of(store, "c-3")
    await writer.do(start(), begin(), call("refund", "refund"))
    await writer.do(resolve(Approve(reason="due")), resolve(Deny("no")))
    return writer


def lines(response):
    return [json.loads(line) for line in response.text.splitlines()]


async def test_the_chain_comes_in_parts_with_the_verdict_on_the_whole(api, writer):
    whole = await api("GET", PLACE)
    assert (whole["intact"], whole["broken_at"], whole["breaks"], whole["next"]) == (True, None, [], None)
    assert whole["head"] == writer.state.audit_head
    assert [one["reason"] for one in whole["items"]] == ["", "due", "no"]
    first = await api("GET", f"{PLACE}?limit=1")
    assert (first["items"], first["next"], first["head"]) == (whole["items"][:1], whole["items"][0]["seq"], whole["head"])
    rest = await api("GET", f"{PLACE}?limit=2&after={first['next']}")
    assert (rest["items"], rest["next"]) == (whole["items"][1:], None)
    assert (await api("GET", f"{PLACE}?receipt={whole['head']}"))["intact"]
    missing = await api("GET", f"{PLACE}?receipt={'0' * 64}")
    assert (missing["intact"], missing["broken_at"], missing["breaks"][0]["seq"]) == (False, None, None)


async def test_an_export_is_lines_of_json_that_end_with_the_verdict(api, writer):
    response = await api.http.get(PLACE, headers=LINES)
    assert (response.status_code, response.headers["content-type"]) == (200, "application/jsonl")
    message, first, second, verdict = lines(response)
    assert (message["kind"], message["format"], first["previous"]) == ("message_accepted", 2, message["head"])
    assert (first["kind"], second["previous"]) == ("suspension_settled", first["head"])
    assert (verdict["kind"], verdict["intact"], verdict["head"]) == ("audit_report", True, second["head"])
    later = lines(await api.http.get(f"{PLACE}?after={first['seq']}", headers=LINES))
    assert [one.get("seq") for one in later] == [second["seq"], None]


async def test_what_was_tampered_with_is_told_with_its_place(api, writer, store):
    log = store._conversations["c-3"].log
    seq = next(seq for seq, data in enumerate(log, 1) if codec.decode_event(data).kind == "suspension_settled")
    log[seq - 1] = b"rubbish"
    report = await api("GET", PLACE)
    assert (report["intact"], report["broken_at"], len(report["items"])) == (False, seq, 3)
    assert lines(await api.http.get(PLACE, headers=LINES))[-1]["broken_at"] == seq


async def test_an_export_that_breaks_off_says_so_in_its_last_line(api, writer, store, monkeypatch):
    monkeypatch.setattr("holdfast.client.audit.READ_AT_ONCE", 5)
    read = store.read

    async def failing(*args, after, **more):
        if after >= writer.state.seq - 3:
            raise StoreUnavailable("gone")
        return await read(*args, after=after, **more)

    monkeypatch.setattr(store, "read", failing)
    *_, last = lines(await api.http.get(PLACE, headers=LINES))
    assert (last["kind"], last["problem"]["code"]) == ("audit_failed", "store_unavailable")


@pytest.mark.parametrize("query", ["limit=0", "limit=1001", "after=-1", "after=x", "receipt=x", "receipt=" + "A" * 64, "x=7"])
async def test_a_query_that_cannot_be_used_is_refused(api, writer, query):
    assert (await api("GET", f"{PLACE}?{query}", 422))["code"] == "invalid_request"


@pytest.mark.parametrize("headers", [{}, LINES])
async def test_a_conversation_that_is_none_has_no_audit(api, headers):
    assert (await api("GET", "/v1/conversations/c-404/audit", 404, headers=headers))["code"] == "conversation_not_found"


async def test_whoever_may_read_may_audit_and_nobody_else(client, writer):
    async with Api(create_app(client)).http as http:
        _, reader = await client.access.create_key("shop", ["read"])
        _, other = await client.access.create_key("shop", ["start"])
        assert (await http.get(PLACE, headers={"Authorization": f"Bearer {reader}"})).status_code == 200
        assert (await http.get(PLACE, headers={"Authorization": f"Bearer {other}"})).status_code == 403
        assert (await http.get(PLACE)).status_code == 401


async def test_receipts_of_decisions_have_their_head(api, writer, store, stack):
    other = stack.writers["c-4"] = await Writer.of(store, "c-4")
    await other.do(start(), begin(), call("refund"))
    body = {"decision": "approve", "conversation_id": "c-4", "decision_id": "d-1"}
    place = f"/v1/pending/{other.suspension_ids[0]}/resolve"
    receipt, again = await api("POST", place, json=body), await api("POST", place, json=body)
    assert receipt["audit_head"] == again["audit_head"] != ""
    ended = await api("POST", "/v1/conversations/c-4/end", json={})
    assert (await api("GET", f"/v1/conversations/c-4/audit?receipt={receipt['audit_head']}"))["head"] == ended["audit_head"]
