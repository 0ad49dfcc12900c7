"""Requests of somebody who wants to decide what is for others: forged fields, pages under other names, bodies that are none."""

import httpx
import pytest
from writer import Writer, begin, call, start

from holdfast.conversation import Approvers, Principal
from holdfast.conversation.records.commands import ProposedCall
from holdfast.server import create_app

from .conftest import HERE, Api

APPROVE = {"decision": "approve"}
TERMS = {"two": Approvers("role:finance", minimum=2), "cfo": Approvers("role:cfo"), "others": Approvers(not_requester=True)}


@pytest.fixture
async def api(client):
    asked = Api(create_app(client))
    asked.http = httpx.AsyncClient(transport=httpx.ASGITransport(asked.app), base_url=HERE)
    async with asked.http:
        yield asked


@pytest.fixture
async def ana(client):
    _, text = await client.access.create_key("ana", ["read", "decide", "start"], roles=["finance"])
    return {"Authorization": f"Bearer {text}"}


@pytest.fixture
async def ids(store, stack):
    """The suspensions of a conversation whose message came from a page that says that it is Bo's."""
    writer = stack.writers["c-1"] = await Writer.of(store, "c-1")
    calls = [ProposedCall(tool_call_id=name, name="refund", arguments="{}", approvers=one.terms) for name, one in TERMS.items()]
    await writer.do(start(principal=Principal("bo")), begin(), call(*calls))
    return {one.tool_call_id: one.suspension.suspension_id for one in writer.state.calls}


@pytest.mark.parametrize(
    "forged",
    [
        {"principal": {"id": "kim", "roles": ["cfo"], "proof": "key"}},
        {"principal": "kim"},
        {"by": "kim"},
        {"roles": ["cfo"]},
        {"proof": "oidc"},
        {"votes": 2},
        {"approvers": []},
        {"arguments": "{}"},
        {"arguments": []},
        {"reason": 7},
        {"scope": "everything"},
        {"scope": {"kind": "tool", "pattern": "*", "level": "admin", "everything": 1}},
        {"conversation_id": ["c-1"]},
    ],
    ids=lambda forged: f"{forged}"[:40],
)
async def test_a_body_names_nobody_who_decides(api, ana, ids, stack, forged):
    before = stack.writers["c-1"].state
    refused = await api("POST", f"/v1/pending/{ids['cfo']}/resolve", 422, json=APPROVE | forged, headers=ana)
    assert refused["code"] == "invalid_request"
    assert stack.writers["c-1"].state == before


@pytest.mark.parametrize(
    "text",
    [
        '{"decision":"deny","decision":"approve"}',
        '{"decision":"approve","arguments":{"amount":NaN}}',
        '{"decision":"approve","arguments":{"amount":Infinity}}',
        '{"decision":"approve","arguments":{"amount":1,"amount":2}}',
        '{"decision":"approve","arguments":' + '{"a":' * 500 + "1" + "}" * 500 + "}",
        '{"decision":"approve","reason":"\\ud800"}',
        '["approve"]',
        "null",
        "",
    ],
    ids=["twice", "nan", "infinity", "twice inside", "deep", "surrogate", "a list", "null", "nothing"],
)
async def test_a_body_that_can_be_read_in_two_ways_decides_nothing(api, ana, ids, stack, text):
    before = stack.writers["c-1"].state
    headers = ana | {"Content-Type": "application/json"}
    answer = await api.http.post(f"/v1/pending/{ids['two']}/resolve", content=text, headers=headers)
    assert 400 <= answer.status_code < 500
    assert stack.writers["c-1"].state == before


async def test_whoever_may_state_who_a_page_is_for_does_not_ask_under_another_name(api, ana, ids):
    refused = await api("POST", f"/v1/pending/{ids['others']}/resolve", 403, json=APPROVE, headers=ana)
    assert "stated, not proven: it may have been 'ana'" in refused["why"]


async def test_headers_that_name_somebody_are_nobodys_proof(api, ana, ids):
    forged = ana | {"X-Forwarded-User": "kim", "X-Forwarded-Groups": "cfo", "X-Holdfast-Principal": "kim"}
    refused = await api("POST", f"/v1/pending/{ids['cfo']}/resolve", 403, json=APPROVE, headers=forged)
    assert refused["why"] == "'ana' is not one of role:cfo"


async def test_neither_each_nor_many_nor_a_page_decides_for_others(api, ana, ids):
    item = APPROVE | {"suspension_id": ids["cfo"]}
    refused = await api("POST", "/v1/conversations/c-1/resolve-many", 409, json={"decisions": [item]}, headers=ana)
    assert refused["code"] == "batch_refused"
    each = await api(
        "POST", "/v1/pending/resolve-each", 207, json={"decisions": [item | {"conversation_id": "c-1"}]}, headers=ana
    )
    assert "role:cfo" in str(each)
    by_call = APPROVE | {"tool_call_id": "cfo"}
    assert (await api("POST", "/v1/conversations/c-1/resolve", 403, json=by_call, headers=ana))["code"] == "not_permitted"
    made = {"conversation_id": "c-1", "kinds": ["approval"], "principal": "kim"}
    page = await api("POST", "/v1/page-tokens", 201, json=made, headers=ana)
    refused = await api(
        "POST", f"/v1/pending/{ids['cfo']}/resolve", 403, json=APPROVE, headers={"Authorization": f"Bearer {page['token']}"}
    )
    assert refused["why"] == "somebody else has to decide it"
