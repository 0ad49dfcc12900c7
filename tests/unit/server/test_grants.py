"""Grants over HTTP: scopes of approvals, the list of those that stand, and their end."""

import re

import pytest
from writer import Writer, begin, call, start

from holdfast.conversation import CallTarget, Principal, Proof
from holdfast.conversation.records.commands import ProposedCall
from holdfast.persistence import AccessScope
from holdfast.server import create_app

from .conftest import Api

EVERY = [scope.value for scope in AccessScope]
SOURCES = {"kind": "path", "pattern": "src/**", "level": "write"}
APPROVE = {"decision": "approve", "conversation_id": "c-3"}
KINDS = ["approval", "elicitation", "client_exec", "lost", "review"]


def bearer(text):
    return {"Authorization": f"Bearer {text}"}


def touching(number, *paths):
    targets = tuple(CallTarget(kind="path", value=path, level="write") for path in paths)
    return ProposedCall(tool_call_id=f"call_{number}", name="refund", arguments="{}", targets=targets)


@pytest.fixture
async def ids(store, stack):
    """The suspensions of a conversation in which two calls wait that touch `src/`, and one that touches `lib/`."""
    writer = stack.writers["c-3"] = await Writer.of(store, "c-3")
    await writer.do(start(), begin(), call(touching(1, "src/a"), touching(2, "src/b"), touching(3, "lib/c")))
    return writer.suspension_ids


@pytest.fixture
async def guarded(client):
    """The application that asks who calls."""
    asked = Api(create_app(client))
    async with asked.http:
        yield asked


async def key_with(client, scopes):
    _, text = await client.access.create_key("shop", scopes)
    return bearer(text)


async def test_a_scope_is_given_listed_and_revoked(api, ids, stack):
    shown = (await api("GET", f"/v1/pending/{ids[0]}"))["targets"]
    assert shown == [{"kind": "path", "value": "src/a", "level": "write"}]
    body = APPROVE | {"scope": SOURCES | {"ends_s": 600}}
    receipt = await api("POST", f"/v1/pending/{ids[0]}/resolve", json=body)

    (grant,) = (await api("GET", "/v1/conversations/c-3/grants"))["items"]
    assert grant.pop("ends_at") >= receipt["accepted_at"] + 600_000
    given = {"grant_id": f"g{receipt['seq']}", **SOURCES, "seq": receipt["seq"]}
    assert grant == given | {"by": {"id": "local", "roles": [], "proof": "stated"}}
    state = await api("GET", "/v1/conversations/c-3")
    assert [one["suspension_id"] for one in state["pending"]] == [ids[2]]
    assert [one["grants"] for one in state["running"]] == [[], [grant["grant_id"]]]
    stale = await api("POST", f"/v1/pending/{ids[1]}/resolve", 409, json=APPROVE)
    assert (stale["code"], stale["settled_by"]) == ("stale_call", "grant")

    place = f"/v1/conversations/c-3/grants/{grant['grant_id']}"
    sent = {"json": {"reason": "enough"}, "headers": {"Idempotency-Key": "r-1"}}
    revoked = await api("DELETE", place, **sent)
    again = await api("DELETE", place, json={"reason": "enough", "request_id": "r-1"})
    assert (revoked["request_id"], revoked["duplicate"], again["duplicate"], again["seq"]) == (
        "r-1",
        False,
        True,
        revoked["seq"],
    )
    assert (await api("GET", "/v1/conversations/c-3/grants"))["items"] == []
    other = await api("DELETE", place, 422, headers={"Idempotency-Key": "r-1"})
    assert (other["code"], other["field"]) == ("invalid_input", "request_id")
    gone = await api("DELETE", place, 422)
    assert (gone["code"], gone["field"]) == ("invalid_input", "grant_id")
    (event,) = [one for one in stack.writers["c-3"].events if one.kind == "grant_revoked"]
    assert (event.reason, event.principal.id) == ("enough", "local")


async def test_every_way_to_decide_takes_a_scope(api, ids):
    lib, tool = SOURCES | {"pattern": "lib/*"}, {"kind": "tool", "pattern": "*", "level": "admin", "everything": True}
    by_call = {"decision": "approve", "tool_call_id": "call_1", "suspension_id": ids[0], "scope": SOURCES | {"level": "read"}}
    await api("POST", "/v1/conversations/c-3/resolve", json=by_call)
    item = {"decision": "approve", "suspension_id": ids[1], "scope": lib | {"level": "read"}}
    await api("POST", "/v1/conversations/c-3/resolve-many", json={"decisions": [item]})
    item = APPROVE | {"suspension_id": ids[2], "scope": tool}
    await api("POST", "/v1/pending/resolve-each", 207, json={"decisions": [item]})
    found = (await api("GET", "/v1/conversations/c-3/grants"))["items"]
    assert [(one["kind"], one["pattern"], one["level"]) for one in found] == [
        ("path", "src/**", "read"),
        ("path", "lib/*", "read"),
        ("tool", "*", "admin"),
    ]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"kind": "Path"}, "scope.kind"),
        ({"kind": 7}, "approve.scope.kind"),
        ({"pattern": "../**"}, "scope.pattern"),
        ({"pattern": "**"}, "scope.pattern"),
        ({"pattern": ""}, "scope.pattern"),
        ({"pattern": "x" * 300}, "scope.pattern"),
        ({"level": "root"}, "approve.scope.level"),
        ({"level": None}, "approve.scope.level"),
        ({"ends_s": 0}, "scope.ends_s"),
        ({"ends_s": -1}, "scope.ends_s"),
        ({"ends_s": 1e300}, "scope.ends_s"),
        ({"ends_s": "60"}, "approve.scope.ends_s"),
        ({"everything": 1}, "approve.scope.everything"),
        ({"for_all": True}, "approve.scope.for_all"),
    ],
)
async def test_a_scope_that_cannot_be_meant_is_refused_by_its_field(api, ids, stack, change, field):
    place = f"/v1/pending/{ids[0]}/resolve"
    found = await api("POST", place, 422, json=APPROVE | {"scope": SOURCES | change})
    assert (found.get("field") or found["errors"][0]["field"]) == field
    item = {"decision": "approve", "suspension_id": ids[0], "scope": SOURCES | change}
    many = await api("POST", "/v1/conversations/c-3/resolve-many", 422, json={"decisions": [item]})
    assert (many.get("field") or many["errors"][0]["field"]) == f"decisions.0.{field}"
    assert stack.delivered == []


@pytest.mark.parametrize("grant_id", ["g99", "x", "%00", "..", "a%20b", "g1/more"])
async def test_a_grant_that_is_none_is_not_revoked(api, ids, grant_id):
    found = await api.http.delete(f"/v1/conversations/c-3/grants/{grant_id}")
    assert found.status_code in (404, 405, 422)


async def test_a_conversation_that_is_none_has_no_grants(api):
    for method, rest in (("GET", ""), ("DELETE", "/g1")):
        found = await api(method, f"/v1/conversations/c-404/grants{rest}", 404)
        assert found["code"] == "conversation_not_found"


async def test_who_reads_does_not_revoke_and_who_decides_elsewhere_sees_nothing(guarded, client, ids):
    reader = await key_with(client, ["read"])
    assert (await guarded("GET", "/v1/conversations/c-3/grants", headers=reader))["items"] == []
    refused = await guarded("DELETE", "/v1/conversations/c-3/grants/g1", 403, headers=reader)
    assert refused["scope"] == "decide"
    _, text = await client.access.create_key("bar", EVERY, agents=["bar"])
    for method, rest in (("GET", ""), ("DELETE", "/g1")):
        await guarded(method, f"/v1/conversations/c-3/grants{rest}", 404, headers=bearer(text))


@pytest.mark.parametrize("kinds", [["approval"], [kind for kind in KINDS if kind != "lost"], KINDS])
async def test_a_page_gives_and_ends_grants_only_where_it_may_decide_whatever_waits(guarded, client, ids, kinds, stack):
    back_end = await key_with(client, EVERY)
    body = {"conversation_id": "c-3", "kinds": kinds, "principal": "ana"}
    page = bearer((await guarded("POST", "/v1/page-tokens", 201, json=body, headers=back_end))["token"])
    allowed, scoped = kinds == KINDS, APPROVE | {"scope": SOURCES}
    by_call = {"decision": "approve", "tool_call_id": "call_1", "suspension_id": ids[0], "scope": SOURCES}
    item = {"decision": "approve", "suspension_id": ids[0], "scope": SOURCES}
    if not allowed:
        for path, sent in (
            (f"/v1/pending/{ids[0]}/resolve", scoped),
            ("/v1/conversations/c-3/resolve", by_call),
            ("/v1/conversations/c-3/resolve-many", {"decisions": [item]}),
        ):
            assert (await guarded("POST", path, 403, json=sent, headers=page))["code"] == "not_permitted"
        (one,) = (await guarded("POST", "/v1/pending/resolve-each", 207, json={"decisions": [item]}, headers=page))["items"]
        assert (one["status"], one["problem"]["code"]) == (403, "not_permitted")
        assert (await guarded("DELETE", "/v1/conversations/c-3/grants/g1", 403, headers=page))["code"] == "not_permitted"
        assert (await guarded("GET", "/v1/conversations/c-3/grants", 403, headers=page))["code"] == "not_permitted"
        assert stack.delivered == []
    given = await guarded("POST", f"/v1/pending/{ids[0]}/resolve", json=scoped, headers=page if allowed else back_end)
    (grant,) = (await guarded("GET", "/v1/conversations/c-3/grants", headers=page if allowed else back_end))["items"]
    who = Principal("ana") if allowed else Principal("shop", proof=Proof.KEY)
    assert (grant["seq"], grant["by"]) == (given["seq"], {"id": who.id, "roles": [], "proof": who.proof.value})
    if allowed:
        await guarded("DELETE", f"/v1/conversations/c-3/grants/{grant['grant_id']}", headers=page)


async def test_the_inbox_says_what_an_approval_touches(api, ids):
    found = await api.http.get(f"/inbox/{ids[0]}", headers={"Accept": "text/html"})
    assert found.status_code == 200
    assert re.search(r"It touches</span> <code>src/a</code> <span[^>]*>\(path, write\)</span>", found.text)
