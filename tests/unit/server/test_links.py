"""Links over HTTP: who makes one, what its page shows, by what it decides, and what decides nothing."""

import html
import logging
import re

import httpx
import pytest
from writer import Writer, begin, call, escalate, resolve, start

from holdfast.client import Principal
from holdfast.conversation import Approvers, Deny, Proof
from holdfast.conversation.records.commands import ProposedCall
from holdfast.server import create_app

from .conftest import HERE, Api

KEYS = {"k1": b"1" * 32}
TO = {"to": {"id": "ana", "roles": ["finance"]}}
APPROVE = {"decision": "approve"}
FORM = "application/x-www-form-urlencoded"
FROM_PAGE = {"Origin": HERE, "Sec-Fetch-Site": "same-origin"}


@pytest.fixture
async def api(client):
    asked = Api(create_app(client))
    asked.http = httpx.AsyncClient(transport=httpx.ASGITransport(asked.app), base_url=HERE)
    async with asked.http:
        yield asked


@pytest.fixture
async def writer(store, stack):
    stack.settings = stack.settings.model_copy(update={"link_keys": KEYS, "public_url": HERE})
    found = stack.writers["c-1"] = await Writer.of(store, "c-1")
    terms = Approvers("role:finance")
    asked = [
        ProposedCall(tool_call_id="one", name="refund", arguments='{"order": "<b>7</b>"}', approvers=terms.terms),
        ProposedCall(tool_call_id="many", name="refund", arguments="{}", approvers=Approvers("role:finance", minimum=2).terms),
        ProposedCall(tool_call_id="q", name="ask", arguments="{}", prompt="Which colour?"),
    ]
    await found.do(start(principal=Principal("bo")), begin(), call(*asked))
    return found


async def bearer(client, *scopes, **more):
    _, text = await client.access.create_key("maker", scopes, **more)
    return {"Authorization": f"Bearer {text}"}


@pytest.fixture
async def link(api, client, writer):
    """The path of a link for a call, by the call's id."""
    headers = await bearer(client, "decide", "admin", "read")

    async def made(name="one", **more):
        suspension_id = writer.state.calls.of(name).suspension.suspension_id
        found = await api("POST", f"/v1/pending/{suspension_id}/links", 201, json=TO | more, headers=headers)
        assert found["url"] == f"{HERE}/r/{found['token']}"
        return f"/r/{found['token']}"

    return made


async def form_of(api, path, status=200):
    """The form token on a link's page."""
    shown = await api.http.get(path)
    assert shown.status_code == status, shown.text
    found = re.search(r'name="form" value="([^"]+)"', shown.text)
    return found and found[1]


async def pressed(api, path, status, *, headers=FROM_PAGE, **fields):
    """The text of the page after a button was pressed."""
    found = await api.http.post(path, data=fields, headers=headers)
    assert found.status_code == status, found.text
    assert found.headers["content-type"].startswith("text/html")
    return html.unescape(found.text)


async def test_a_link_is_made_by_who_may_decide_and_administer(api, client, writer):
    """It speaks for whomever it names: who may only decide would become anybody."""
    suspension_id = writer.state.calls.of("one").suspension.suspension_id
    for scopes, agents, status in (
        (("decide",), None, 403),
        (("admin", "read"), None, 403),
        (("decide", "admin"), ["bar"], 409),
        (("decide", "admin"), ["desk"], 201),
    ):
        headers = await bearer(client, *scopes, agents=agents)
        await api("POST", f"/v1/pending/{suspension_id}/links", status, json=TO, headers=headers)
    for body in (
        {},
        {"to": {"id": ""}},
        {"to": {"id": "ana", "proof": "key"}},
        TO | {"expires_s": 0},
        TO | {"decisions": ["x"]},
    ):
        await api("POST", f"/v1/pending/{suspension_id}/links", 422, json=body, headers=headers)
    refused = await api("POST", f"/v1/pending/{suspension_id}/links", 403, json={"to": {"id": "cy"}}, headers=headers)
    assert (refused["code"], refused["reason"]) == ("invalid_link", "not_permitted")
    await api("POST", f"/v1/pending/{suspension_id[:12]}/links", 409, json=TO, headers=headers)


async def test_without_keys_the_error_names_the_variable_and_a_link_leads_nowhere(api, client, writer, stack, link):
    path = await link()
    stack.settings = stack.settings.model_copy(update={"link_keys": {}})
    suspension_id = writer.state.calls.of("one").suspension.suspension_id
    headers = await bearer(client, "decide", "admin")
    refused = await api("POST", f"/v1/pending/{suspension_id}/links", 500, json=TO, headers=headers)
    assert (refused["field"], "HOLDFAST_LINK_KEYS" in refused["fix"]) == ("link_keys", True)
    assert (await api.http.get(path)).status_code == 403
    assert (await api("POST", path, 403, json=APPROVE))["reason"] == "key"


@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_looking_shows_the_call_and_changes_nothing(api, link, stack, writer, method):
    path, before = await link(), writer.state
    for headers in ({}, {"User-Agent": "scanner"}, {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}):
        shown = await api.http.request(method, path, headers=headers)
        assert shown.status_code == 200
        assert (shown.headers["cache-control"], shown.headers["x-robots-tag"]) == ("no-store", "noindex, nofollow")
        assert shown.headers["referrer-policy"] == "same-origin"
        assert "default-src 'none'" in shown.headers["content-security-policy"]
    assert (writer.state, stack.delivered) == (before, [])
    if method == "GET":
        assert "&lt;b&gt;7" in shown.text
        assert "<b>7" not in shown.text
        assert all(one in shown.text for one in ("refund", "ana", 'value="approve"', 'value="deny"'))
        assert not any(one in shown.text for one in ('value="cancel"', "edit=1", 'name="scope"', "<script", "/inbox"))


async def test_a_button_decides_as_the_link_s_principal_and_again_with_the_same_receipt(api, link, writer):
    path = await link()
    form = await form_of(api, path)
    for _ in range(2):
        assert "recorded: approved" in await pressed(api, path, 200, form=form, decision="approve", note="seen")
    settled = [event for event in writer.events if event.kind == "suspension_settled"]
    assert [event.principal for event in settled] == [Principal("ana", roles=["finance"], proof=Proof.LINK)]
    assert "takes no second one" in await pressed(api, path, 410, form=form, decision="deny", reason="no")
    assert "takes no second one" in await pressed(api, path, 410, form=form, decision="approve", note="not seen")
    assert await form_of(api, path, 410) is None
    used = await api("POST", path, 410, json={"decision": "deny", "reason": "no"})
    assert (used["code"], used["reason"]) == ("invalid_link", "used")


async def test_a_denial_again_is_recorded_and_one_with_another_reason_a_second_decision(api, link):
    path = await link()
    form = await form_of(api, path)
    for _ in range(2):
        assert "recorded: denied" in await pressed(api, path, 200, form=form, decision="deny", reason="too\r\nmuch")
    assert "takes no second one" in await pressed(api, path, 410, form=form, decision="deny", reason="too little")


async def test_who_may_decide_no_more_sees_the_tool_and_the_agent_alone(api, link, writer):
    path = await link()
    form = await form_of(api, path)
    await writer.do(escalate(Approvers("role:boss").terms, principal=Principal("eve", roles=["finance"], proof=Proof.KEY)))
    shown = html.unescape((await api.http.get(path)).text)
    assert "refund of desk waits for others: you may not decide this" in shown
    assert "<b>7" not in shown
    assert "<b>7" not in await pressed(api, path, 403, form=form, decision="deny", reason="no")


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Origin": "https://elsewhere.example", "Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Origin": "null"},
    ],
    ids=str,
)
async def test_a_form_counts_only_from_the_page_itself(api, link, writer, headers):
    path, before = await link(), writer.state
    form = await form_of(api, path)
    found = await api.http.post(path, data={"form": form, "decision": "approve"}, headers=headers)
    assert (found.status_code, writer.state) == (403, before)


@pytest.mark.parametrize("form", [None, "", "x", "other"])
async def test_a_form_without_the_token_of_this_link_decides_nothing(api, link, writer, form):
    path, before = await link(), writer.state
    fields = {"form": await form_of(api, await link("many")) if form == "other" else form}
    await pressed(api, path, 403, decision="approve", **{name: one for name, one in fields.items() if one is not None})
    assert writer.state == before


async def test_a_program_redeems_it_as_json(api, link):
    path = await link()
    receipt = await api("POST", path, json=APPROVE)
    assert (receipt["settled"], receipt["conversation_id"]) == (True, "c-1")
    assert await api("POST", path, json=APPROVE) == receipt | {"duplicate": True}


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"decision": "approve", "arguments": {"order": "8"}}, 422, "invalid_decision"),
        ({"decision": "approve", "scope": {"kind": "tool", "pattern": "refund", "level": "execute"}}, 422, "invalid_decision"),
        ({"decision": "approve", "principal": {"id": "kim"}}, 422, "invalid_request"),
        ({"decision": "answer", "value": 1}, 403, "invalid_link"),
        ({"decision": "cancel"}, 403, "invalid_link"),
        ({}, 422, "invalid_request"),
        ([], 422, "invalid_request"),
    ],
    ids=str,
)
async def test_a_body_that_does_not_fit_the_link_decides_nothing(api, link, writer, body, status, code):
    path, before = await link(), writer.state
    assert (await api("POST", path, status, json=body))["code"] == code
    assert writer.state == before


async def test_no_body_is_read_for_what_is_no_link_and_none_that_is_too_large(api, link):
    async def body():
        raise AssertionError("the body was read")
        yield b""

    await api("POST", "/r/k1.x.y", 403, content=body(), headers={"Content-Type": "application/json"})
    path, large = await link(), b"x" * 5_000_000
    await api("POST", path, 413, content=large, headers={"Content-Type": "application/json"})
    found = await api.http.post(path, content=b"decision=" + large, headers=FROM_PAGE | {"Content-Type": FORM})
    assert found.status_code == 413


async def test_a_changed_link_and_one_that_is_over_say_so(api, link, writer, stack, monkeypatch):
    path = await link()
    changed = f"{path[:-1]}{'A' if path[-1] != 'A' else 'B'}"
    assert (await api("POST", changed, 403, json=APPROVE))["reason"] == "malformed"
    assert "not whole" in (await api.http.get(changed)).text
    await writer.do(resolve(Deny("no"), "one", principal=Principal("eve", roles=["finance"], proof=Proof.KEY)))
    assert (await api("POST", path, 410, json=APPROVE))["reason"] == "settled"
    assert "it was denied" in (await api.http.get(path)).text
    path, store = await link("q", to={"id": "ana"}, expires_s=5), await stack.store()
    now = await store.now()

    async def later():
        return now + 6000

    monkeypatch.setattr(store, "now", later)
    assert (await api("POST", path, 410, json=APPROVE))["reason"] == "expired"
    assert (await api.http.get(path)).status_code == 410


async def test_of_several_who_must_agree_one_agrees(api, link):
    path = await link("many")
    form = await form_of(api, path)
    for _ in range(2):
        assert "1 of 2 people have agreed" in await pressed(api, path, 200, form=form, decision="approve")
    other = await link("many")
    assert "has agreed" in await pressed(api, other, 409, form=await form_of(api, other), decision="approve")


async def test_a_question_is_answered(api, link, writer):
    path = await link("q")
    page = (await api.http.get(path)).text
    assert "Which colour?" in page
    fields = dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', page))
    (name,) = {*re.findall(r'<(?:textarea|input)[^>]* name="(v[^"]*)"', page)} - {"v-json"}
    assert "recorded: answered" in await pressed(api, path, 200, decision="answer", **fields | {name: "blue"})


async def test_in_the_inbox_who_may_speak_for_others_makes_a_link(api, client, writer, stack):
    suspension_id = writer.state.calls.of("one").suspension.suspension_id
    place, form = f"/inbox/{suspension_id}", {"conversation_id": "c-1", "to": "ana ", "roles": "finance, "}
    for scopes in (("read", "decide"), ("read", "admin")):
        headers = await bearer(client, *scopes)
        assert f"{place}/link" not in (await api.http.get(f"{place}?conversation_id=c-1", headers=headers)).text
        await pressed(api, f"{place}/link", 403, headers=FROM_PAGE | headers, **form)
    headers = await bearer(client, "read", "decide", "admin")
    assert f"{place}/link" in (await api.http.get(f"{place}?conversation_id=c-1", headers=headers)).text
    for bad, status in (({"to": ""}, 422), ({"to": "cy", "roles": ""}, 403)):
        await pressed(api, f"{place}/link", status, headers=FROM_PAGE | headers, **form | bad)
    made = await pressed(api, f"{place}/link", 200, headers=FROM_PAGE | headers, **form)
    (path,) = re.findall(rf"{HERE}(/r/[\w.-]+)", made)
    assert "recorded: approved" in await pressed(api, path, 200, form=await form_of(api, path), decision="approve")
    await pressed(api, f"{place}/link", 409, headers=FROM_PAGE | headers, **form)
    stack.settings = stack.settings.model_copy(update={"link_keys": {}})
    place = f"/inbox/{writer.state.calls.of('many').suspension.suspension_id}?conversation_id=c-1"
    assert "Make a link" not in (await api.http.get(place, headers=headers)).text


async def test_a_link_lets_nobody_into_the_rest(api, link):
    token = (await link()).removeprefix("/r/")
    for path in ("/v1/pending", "/v1/conversations/c-1", "/v1/agents"):
        await api("GET", path, 401, headers={"Authorization": f"Bearer {token}"})


async def test_the_log_names_who_made_a_link_and_never_the_link(api, link, caplog):
    caplog.set_level(logging.INFO)
    path = await link()
    await api("POST", path, json=APPROVE)
    await api.http.get(path)
    said = [record.getMessage() for record in caplog.records if record.name.startswith("holdfast")]
    assert any(line.startswith("key:maker has made a link by which 'ana' decides s-") for line in said)
    assert not any(path.removeprefix("/r/")[:40] in line for line in said)


async def test_what_nobody_signed_costs_the_store_nothing(api, link, stack, monkeypatch):
    path, store = await link(), await stack.store()

    async def asked(*_):
        raise AssertionError("the store was asked")

    for name in ("now", "load", "read"):
        monkeypatch.setattr(store, name, asked)
    await api("POST", f"{path[:-3]}AAA", 403, json=APPROVE)
    assert (await api.http.get("/r/k1.AAAA.AAAA")).status_code == 403
