"""What a server says of permission rules."""

import pytest

from holdfast.actors.actor_settings import StoreAddress
from holdfast.agent import Agent, App, Rule, Rules, tool
from holdfast.client.publishing import Here
from holdfast.persistence import AccessScope
from holdfast.server import create_app

from .conftest import Api
from .test_page_tokens import bearer

CHECK = "/v1/rules/check"
CALL = {"agent": "coder", "tool": "bash", "arguments": {"command": "git push"}}


@pytest.fixture
async def published(store):
    """An app that is published under another path than the server's own."""

    @tool(primary="command")
    def bash(command: str) -> str:
        return command

    asks = Rule("bash(git push *)", name="pushes", reason="Others see it.", approvers=["role:maintainer"])
    app = App(agents=[Agent(name="coder", tools=[bash])], rules=Rules(ask=[asks], deny=["bash(rm *)"]))
    here = await Here.of(app, "holdfast.cli.demo_app:app")
    await store.put_app(
        here.record(b"k" * 32, StoreAddress("", "", "")), here.specs, {one.digest: one.to_json() for one in here.rules.values()}
    )
    return here.path


async def test_a_call_is_judged_by_what_is_published_and_nothing_is_proposed(api, published, stack):
    asked = await api("POST", CHECK, json=CALL | {"app": published, "arguments": {"command": "git push origin"}})
    assert asked == {
        "effect": "ask",
        "rule": "pushes",
        "reason": "Others see it.",
        "approvers": ["role:maintainer"],
        "minimum": 1,
        "not_requester": False,
        "by": "rule",
        "hidden": False,
        "also": [],
    }
    denied = await api("POST", CHECK, json=CALL | {"app": published, "arguments": {"command": "ls; rm -rf ~"}})
    assert (denied["effect"], denied["rule"]) == ("deny", "bash(rm *)")
    assert stack.delivered == []


@pytest.mark.parametrize(
    ("change", "status", "code"),
    [
        ({"agent": "nobody"}, 422, "agent_not_found"),
        ({"tool": "nothing"}, 422, "invalid_input"),
        ({"app": "no:app"}, 404, "app_not_published"),
        ({"app": None}, 404, "app_not_published"),  # the server's own, which nobody has published
        ({"agent": ""}, 422, "invalid_request"),
        ({"tool": 7}, 422, "invalid_request"),
        ({"arguments": ["ls"]}, 422, "invalid_request"),
        ({"arguments": None}, 422, "invalid_request"),
        ({"rules": "x"}, 422, "invalid_request"),
    ],
)
async def test_what_cannot_be_checked_is_refused_with_the_field(api, published, change, status, code):
    refused = await api("POST", CHECK, status, json=CALL | {"app": published} | change)
    assert refused["code"] == code
    assert "Traceback" not in refused["detail"]


async def test_a_check_takes_the_scope_to_read(client, published):
    async with Api(create_app(client)).http as http:
        for scopes, status in ((["start", "decide"], 403), (["read"], 200)):
            _, text = await client.access.create_key("ana", [AccessScope(one) for one in scopes])
            told = await http.post(CHECK, json=CALL | {"app": published}, headers=bearer(text))
            assert told.status_code == status, told.text
        assert (await http.post(CHECK, json=CALL)).status_code == 401
