"""Trees over HTTP: what is below a conversation, for whom."""

import json

import pytest
from family import asking, begun, child_of, delegated, three_levels, wait_for
from writer import DESK, call, finish, resolve

from holdfast.client import Approve
from holdfast.server import create_app
from holdfast.server.pages.destinations import path_of

from .conftest import Api

CLERK = DESK.model_copy(update={"name": "clerk"})


@pytest.fixture
async def family(store):
    """A root above two children, of which the first waits for a person and for a child of its own."""
    root, middle, clerk = await three_levels(store, "refund")
    await child_of(root, wait_for(root, "other"), DESK.model_copy(update={"name": "other"}))
    return root, middle, clerk


async def headers_of(client, agents):
    _, text = await client.access.create_key("ana", ["read", "decide"], agents=agents)
    return {"Authorization": f"Bearer {text}"}


def told(node):
    """What a reply says of a tree, by agent."""
    below = {one["agent"]: told(one) for one in node["children"]}
    return {"status": node["status"], "pending": node["pending"]} | ({"below": below} if below else {})


async def test_a_tree_and_its_calls_are_one_request_each(api, client, family):
    node = await api("GET", "/v1/conversations/root/tree")
    clerk = {"status": "awaiting_input", "pending": 1}
    middle, other = clerk | {"below": {"clerk": clerk}}, {"status": "generating", "pending": 0}
    assert told(node) == {"status": "awaiting_input", "pending": 0, "below": {"middle": middle, "other": other}}
    calls = (await api("GET", "/v1/pending?root=root"))["items"]
    assert [(one["agent"], [above["agent"] for above in one["path"]]) for one in calls] == [
        ("middle", ["root"]),
        ("clerk", ["root", "middle"]),
    ]
    assert [one["tool"] for one in (await api("GET", "/v1/conversations/root"))["waits"]] == ["middle", "other"]
    await api("GET", "/v1/conversations/nobody/tree", 404)
    await api("GET", "/v1/pending?root=nobody", 404)
    await api("GET", "/v1/pending?root=no%20id", 422)


async def test_a_key_for_some_agents_sees_of_another_agents_child_only_that_there_is_one(client, family):
    api = Api(create_app(client))
    _, middle, clerk = family
    for agents in (["root", "other"], ["root", "other", "clerk"]):
        headers = await headers_of(client, agents)
        first, second = (await api("GET", "/v1/conversations/root/tree", headers=headers))["children"]
        assert second["status"] == "generating"
        assert (first["conversation_id"], first["agent"], first["status"]) == ("", "", None)
        assert (first["pending"], first["children"], first["waited_for"]) == (0, [], True)
        assert first["problem"] == "you may not see it"
    listed = await api("GET", "/v1/pending?root=root", headers=headers)
    assert [one["conversation_id"] for one in listed["items"]] == [clerk.conversation_id]
    below = await headers_of(client, ["clerk"])
    for path in ("/v1/pending?root=root", f"/v1/pending?root={middle.conversation_id}", "/v1/conversations/root/tree"):
        assert (await api("GET", path, 404, headers=below))["code"] == "conversation_not_found"


async def test_the_inbox_shows_what_a_call_is_below_with_its_task_and_the_last_words_there(api, store):
    root = await begun(store, "root", asking("root", "clerk"), text="Refund order 7, please.")
    (wait,) = await delegated(root, "clerk")
    clerk = await child_of(root, wait, CLERK)
    await clerk.do(call("refund"))
    (found,) = (await api("GET", "/v1/pending"))["items"]
    page = (await api.http.get(path_of(found["suspension_id"], clerk.conversation_id))).text
    assert '<a href="/conversations/root"><bdi>root</bdi></a>' in page
    assert "Refund order 7, please." in page
    assert "look into it" in page
    assert "<bdi>root</bdi> → <bdi>clerk</bdi>" in (await api.http.get("/inbox")).text
    assert f'<a href="/conversations/{clerk.conversation_id}">' in (await api.http.get("/conversations/root")).text


async def test_the_inbox_shows_nothing_of_a_parent_whose_agent_the_viewer_may_not_see(client, store):
    api = Api(create_app(client))
    root = await begun(store, "root", asking("root", "clerk"), text="Refund order 7, please.")
    (wait,) = await delegated(root, "clerk")
    clerk = await child_of(root, wait, CLERK)
    await clerk.do(call("refund"))
    headers = await headers_of(client, ["clerk"])
    (found,) = (await api("GET", "/v1/pending", headers=headers))["items"]
    page = (await api.http.get(path_of(found["suspension_id"], clerk.conversation_id), headers=headers)).text
    assert "look into it" in page
    assert "Refund order 7" not in page
    assert "/conversations/root" not in page


@pytest.fixture
async def pages(client, family, stack):
    """An application that asks who calls, and the headers of two pages of `middle`, by whether they have its tree."""
    for writer in family:
        stack.writers[writer.conversation_id] = writer
    _, text = await client.access.create_key("shop", ["read", "start", "decide"])
    api, headers = Api(create_app(client)), {}
    for tree in (False, True):
        body = {"conversation_id": family[1].conversation_id, "tree": tree, "kinds": ["approval"]}
        made = await api("POST", "/v1/page-tokens", 201, json=body, headers={"Authorization": f"Bearer {text}"})
        assert made["tree"] is tree
        headers[tree] = {"Authorization": f"Bearer {made['token']}"}
    return api, headers


async def test_a_page_with_its_tree_reaches_what_is_below_its_conversation_and_nothing_else(pages, family):
    (api, headers), (root, middle, clerk) = pages, family
    alone, below = headers[False], headers[True]
    (hidden,) = (await api("GET", f"/v1/conversations/{middle.conversation_id}/tree", headers=alone))["children"]
    assert (hidden["conversation_id"], hidden["agent"], hidden["status"]) == ("", "", None)
    (shown,) = (await api("GET", f"/v1/conversations/{middle.conversation_id}/tree", headers=below))["children"]
    assert (shown["conversation_id"], shown["agent"], shown["pending"]) == (clerk.conversation_id, "clerk", 1)
    (other,) = [one.suspension.source for one in root.state.calls if one.tool == "other"]
    suspension_id = clerk.suspension_ids[0]
    place = f"/v1/pending/{suspension_id}"
    for named in ("", f"?conversation_id={clerk.conversation_id}"):
        assert (await api("GET", place + named, headers=below))["tool"] == "refund"
        await api("GET", place + named, 404 if named else 409, headers=alone)
    for name in ("root", other, "nobody"):
        for path in ("", "/tree", "/messages", "/events"):
            told = await api("GET", f"/v1/conversations/{name}{path}", 404, headers=below)
            assert told["code"] == "conversation_not_found"
        await api("POST", f"/v1/conversations/{name}/messages", 404, json={"text": "x"}, headers=below)
    body = {"decision": "deny", "conversation_id": clerk.conversation_id}
    await api("POST", f"{place}/resolve", 404, json=body, headers=alone)
    await api("POST", f"{place}/resolve", 409, json=body | {"conversation_id": middle.conversation_id}, headers=below)
    await api("POST", f"{place}/resolve", json=body, headers=below)


async def test_a_page_with_its_tree_decides_below_only_the_kinds_that_it_was_lent(pages, family):
    (api, headers), (*_, clerk) = pages, family
    await clerk.do(resolve(Approve()), finish(), call("ask"))
    body = {"decision": "answer", "value": "x", "conversation_id": clerk.conversation_id}
    refused = await api("POST", f"/v1/pending/{clerk.suspension_ids[0]}/resolve", 403, json=body, headers=headers[True])
    assert refused["code"] == "not_permitted"


async def test_a_page_with_its_tree_reaches_only_its_makers_agents(client, family):
    _, middle, clerk = family
    _, text = await client.access.create_key("shop", ["read", "start", "decide"], agents=["middle"])
    api, body = Api(create_app(client)), {"conversation_id": middle.conversation_id, "tree": True}
    made = await api("POST", "/v1/page-tokens", 201, json=body, headers={"Authorization": f"Bearer {text}"})
    page = {"Authorization": f"Bearer {made['token']}"}
    await api("GET", f"/v1/conversations/{clerk.conversation_id}", 404, headers=page)
    (hidden,) = (await api("GET", f"/v1/conversations/{middle.conversation_id}/tree", headers=page))["children"]
    assert (hidden["conversation_id"], hidden["status"]) == ("", None)


async def test_a_conversation_with_a_childs_name_is_below_nothing(pages, store):
    api, headers = pages
    await begun(store, "d-aaaaaaaaaaaaaaaaaaaa", CLERK)
    await api("GET", "/v1/conversations/d-aaaaaaaaaaaaaaaaaaaa", 404, headers=headers[True])


def named(stream):
    """The conversations whose events a stream has told."""
    return {json.loads(one["data"]).get("conversation_id") for one in stream.frames if "event" in one}


async def test_a_stream_of_a_tree_has_the_conversations_that_its_caller_may_see(client, family):
    root, middle, clerk = family
    api, path = Api(create_app(client)), "/v1/conversations/root/events?descendants=true&live=false"
    (other,) = [one.suspension.source for one in root.state.calls if one.tool == "other"]
    whole, some = await headers_of(client, None), await headers_of(client, ["root", "clerk", "other"])
    async with api.stream("GET", path, authorization=whole["Authorization"]) as stream:
        await stream.until(lambda: named(stream) == {"root", other, middle.conversation_id, clerk.conversation_id})
    async with api.stream("GET", path, authorization=some["Authorization"]) as stream:
        await stream.until(lambda: named(stream) == {"root", other})
        assert not any(middle.conversation_id in one.get("id", "") for one in stream.frames)
        assert clerk.conversation_id not in stream.raw.decode()
    await api("GET", path, 422, headers=whole | {"Last-Event-ID": "x"})


async def test_a_page_without_its_tree_is_told_of_no_other_conversation(pages, family):
    (api, headers), (_, middle, clerk) = pages, family
    path = f"/v1/conversations/{middle.conversation_id}/events?descendants=true&live=false"
    async with api.stream("GET", path, authorization=headers[True]["Authorization"]) as stream:
        await stream.until(lambda: named(stream) == {middle.conversation_id, clerk.conversation_id})
    async with api.stream("GET", path, authorization=headers[False]["Authorization"]) as stream:
        await stream.until(lambda: named(stream) == {middle.conversation_id} and len(stream.frames) >= middle.state.seq)
        assert clerk.conversation_id not in stream.raw.decode()
