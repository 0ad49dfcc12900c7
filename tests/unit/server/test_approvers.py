"""Who may decide, over HTTP: what a problem says, who has agreed, who takes a call on, comments, and what a page may."""

import httpx
import pytest
from writer import Writer, begin, call, start

from holdfast.conversation import Approvers, Principal, Proof
from holdfast.conversation.records.commands import ProposedCall
from holdfast.server import create_app

from .conftest import HERE, Api

APPROVE = {"decision": "approve"}
PEOPLE = {"ana": ["finance"], "bo": ["finance"], "cy": ["support"], "shop": ["back end"]}
TERMS = {"two": Approvers("role:finance", minimum=2), "shop": Approvers("id:shop"), "stated": Approvers("id:eve", stated=True)}


@pytest.fixture
async def api(client):
    asked = Api(create_app(client))
    asked.http = httpx.AsyncClient(transport=httpx.ASGITransport(asked.app), base_url=HERE)
    async with asked.http:
        yield asked


@pytest.fixture
async def keys(client):
    """What each person sends with a request."""
    scopes = ["read", "decide", "start"]
    made = {name: await client.access.create_key(name, scopes, roles=roles) for name, roles in PEOPLE.items()}
    return {name: {"Authorization": f"Bearer {text}"} for name, (_, text) in made.items()}


@pytest.fixture
async def ids(store, stack):
    """The suspensions of a conversation that Cy started, by what their calls are about."""
    writer = stack.writers["c-1"] = await Writer.of(store, "c-1")
    calls = [ProposedCall(tool_call_id=name, name="refund", arguments="{}", approvers=one.terms) for name, one in TERMS.items()]
    cy = Principal("cy", roles=["support"], proof=Proof.KEY)
    await writer.do(start(principal=cy), begin(), call(*calls))
    return {one.tool_call_id: one.suspension.suspension_id for one in writer.state.calls}


async def test_a_role_is_proven_by_a_key_and_two_people_agree(api, keys, ids):
    place = f"/v1/pending/{ids['two']}/resolve"
    refused = await api("POST", place, 403, json=APPROVE, headers=keys["cy"])
    assert {name: refused[name] for name in ("code", "status", "conversation_id", "tool_call_id", "why")} == {
        "code": "not_permitted",
        "status": 403,
        "conversation_id": "c-1",
        "tool_call_id": "two",
        "why": "'cy' is not one of role:finance",
    }
    first = await api("POST", place, json=APPROVE, headers=keys["ana"])
    assert (first["settled"], first["votes"], first["needed"]) == (False, 1, 2)
    twice = await api("POST", place, 409, json=APPROVE, headers=keys["ana"])
    assert (twice["code"], twice["principal_id"], twice["votes"], twice["needed"]) == ("already_voted", "ana", 1, 2)
    shown = await api("GET", f"/v1/pending/{ids['two']}", headers=keys["cy"])
    assert shown["approvers"] == {
        "who": [["role:finance"]],
        "minimum": 2,
        "not_requester": False,
        "stated": False,
        "each": False,
    }
    assert shown["requester"] == {"id": "cy", "roles": ["support"], "proof": "key"}
    (vote,) = shown["votes"]
    assert vote["by"] == {"id": "ana", "roles": ["finance"], "proof": "key"}
    assert (vote["decision"], vote["value"], vote["reason"]) == ("approve", None, "")
    item = APPROVE | {"suspension_id": ids["two"]}
    many = await api("POST", "/v1/conversations/c-1/resolve-many", json={"decisions": [item]}, headers=keys["bo"])
    assert [(one["settled"], one["votes"], one["needed"]) for one in many["items"]] == [(True, 2, 2)]


async def test_an_assignment_and_a_comment_are_recorded_once(api, keys, ids):
    place = f"/v1/pending/{ids['two']}"
    mine = await api("POST", f"{place}/assign", headers=keys["ana"] | {"Idempotency-Key": "r-1"})
    again = await api("POST", f"{place}/assign", json={"request_id": "r-1"}, headers=keys["ana"])
    assert (mine["request_id"], mine["duplicate"], again["duplicate"], again["seq"]) == ("r-1", False, True, mine["seq"])
    said = {"text": "Which order?", "conversation_id": "c-1"}
    await api("POST", f"{place}/comment", json=said, headers=keys["bo"])
    shown = await api("GET", place, headers=keys["cy"])
    assert shown["assigned"] == "ana"
    assert [(one["by"]["id"], one["text"]) for one in shown["comments"]] == [("bo", "Which order?")]
    await api("POST", f"{place}/assign", json={"to": ""}, headers=keys["bo"])
    assert (await api("GET", place, headers=keys["cy"]))["assigned"] == ""
    for what, body in (("assign", {}), ("comment", {"text": "me"})):
        refused = await api("POST", f"{place}/{what}", 403, json=body, headers=keys["cy"])
        assert (refused["code"], refused["tool_call_id"]) == ("not_permitted", "two")
    for body, field in (({"text": ""}, "text"), ({"text": "x" * 5000}, "text")):
        assert (await api("POST", f"{place}/comment", 422, json=body, headers=keys["bo"]))["field"] == field
    for body in ({}, {"text": 7}, {"text": "x", "by": "eve"}):
        await api("POST", f"{place}/comment", 422, json=body, headers=keys["bo"])
    assert (await api("POST", f"{place}/assign", 422, json={"to": "\u200beve"}, headers=keys["bo"]))["field"] == "to"
    await api("POST", "/v1/pending/s-none/assign", 409, json={}, headers=keys["bo"])


async def test_an_administrator_lets_others_decide_what_waits_for_somebody_else(api, client, keys, ids):
    place = f"/v1/pending/{ids['two']}/escalate"
    await api("POST", place, 403, json={"to": ["role:support"]}, headers=keys["cy"])
    _, key = await client.access.create_key("root", ["read", "decide", "admin"])
    root = {"Authorization": f"Bearer {key}"}
    made = await api("POST", place, json={"to": {"who": ["role:support"], "minimum": 2}, "reason": "gone"}, headers=root)
    assert made["request_id"]
    shown = await api("GET", f"/v1/pending/{ids['two']}", headers=keys["cy"])
    assert (shown["approvers"]["who"], shown["approvers"]["minimum"]) == ([["role:support"]], 2)
    await api("POST", f"/v1/pending/{ids['two']}/resolve", 403, json=APPROVE, headers=root)
    for body in ({}, {"to": "role:x"}, {"to": ["role:x"], "administrator": True}, {"to": {"everybody": True}}):
        await api("POST", place, 422, json=body, headers=root)
    for body in ({}, {"for_s": -1}, {"for_s": "2h"}, {"for_s": 1e13}):
        await api("POST", f"/v1/pending/{ids['shop']}/snooze", 422, json=body, headers=keys["shop"])


async def test_the_list_selects_by_who_may_decide(api, keys, ids):
    async def names(query):
        found = await api("GET", f"/v1/pending?{query}", headers=keys["cy"])
        return {one["tool_call_id"] for one in found["items"]}

    assert await names("approver=ana&roles=support,finance") == {"two"}
    assert await names("approver=shop") == {"shop"}
    assert await names("approver=cy") == set()
    refused = await api("GET", "/v1/pending?roles=finance", 422, headers=keys["cy"])
    assert (refused["code"], refused["field"]) == ("invalid_input", "roles")


async def test_a_page_decides_as_the_principal_that_it_was_made_for(api, keys, ids):
    async def page(**more):
        body = {"conversation_id": "c-1", "kinds": ["approval"]} | more
        made = await api("POST", "/v1/page-tokens", 201, json=body, headers=keys["shop"])
        return {"Authorization": f"Bearer {made['token']}"}

    eve, own = await page(principal="eve"), await page()
    for asked, page_token in (("two", eve), ("shop", await page(principal="shop"))):  # a stated name is not a proven one
        refused = await api("POST", f"/v1/pending/{ids[asked]}/resolve", 403, json=APPROVE, headers=page_token)
        assert (refused["code"], refused["why"]) == ("not_permitted", "somebody else has to decide it")
    for name, page_token in (("stated", eve), ("shop", own)):
        await api("POST", f"/v1/pending/{ids[name]}/assign", headers=page_token)
        await api("POST", f"/v1/pending/{ids[name]}/comment", json={"text": "I look"}, headers=page_token)
        assert (await api("POST", f"/v1/pending/{ids[name]}/resolve", json=APPROVE, headers=page_token))["settled"]


async def test_a_page_notes_nothing_on_calls_that_it_may_not_decide(api, keys, ids):
    body = {"conversation_id": "c-1", "principal": "eve"}  # by default a page decides no approvals
    made = await api("POST", "/v1/page-tokens", 201, json=body, headers=keys["shop"])
    page = {"Authorization": f"Bearer {made['token']}"}
    for what, said in (("assign", {}), ("comment", {"text": "I look"})):
        refused = await api("POST", f"/v1/pending/{ids['stated']}/{what}", 403, json=said, headers=page)
        assert (refused["code"], refused["kind"]) == ("not_permitted", "approval")
