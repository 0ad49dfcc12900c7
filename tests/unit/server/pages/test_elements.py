"""The forms of the elements of `holdfast.js`: what they offer, what they tell whom of a call, and which decision they make."""

import json
from urllib.parse import urlencode

import pytest
from stores import WithActors
from writer import Writer, begin, call, start

from holdfast.client.inbox.fields import ABSENT, FieldKind, Fields
from holdfast.client.inbox.form import Form
from holdfast.conversation import AgentSpec, Approval, Choice, Executor, Limits, ToolSpec
from holdfast.conversation.records.commands import ProposedCall
from holdfast.conversation.terms.decisions import OF_PEOPLE
from holdfast.conversation.terms.rule_verdict import RuleEffect, RuleVerdict
from holdfast.server import create_app
from holdfast.server.pages.elements import nodes_of

from ..conftest import Api  # noqa: TID252 - the conftest of the folder above

TEXT = {"type": "string"}
SURVEY = {
    "type": "object",
    "properties": {"name": TEXT, "age": {"type": "integer", "minimum": 18}, "member": {"type": "boolean"}, "note": TEXT},
    "required": ["name", "age", "member"],
}
SPEC = AgentSpec(
    name="desk",
    model="test/model",
    tools=(
        ToolSpec(name="refund", approval=Approval.REQUIRED),
        ToolSpec(name="careful", approval=Approval.REQUIRED, decisions=(Choice.EDIT, Choice.ANSWER)),
        ToolSpec(name="ask", executor=Executor.HUMAN, response_schema=json.dumps(TEXT)),
        ToolSpec(name="survey", executor=Executor.HUMAN, response_schema=json.dumps(SURVEY)),
    ),
    limits=Limits(answer_timeout_s=3600),
)


async def held(store, stack, *calls):
    """The suspensions of calls that wait in a conversation, by their tools."""
    assert isinstance(stack, WithActors)
    writer = stack.writers["c-1"] = await Writer.of(store, "c-1")
    writer.spec = SPEC
    await writer.do(start(spec=SPEC), begin(), call(*calls))
    return {view.tool: view.suspension_id for view in await store.pending_of("c-1")}


def texts(nodes):
    """All texts of nodes, and of their attributes."""
    for node in nodes:
        if isinstance(node, str):
            yield node
        else:
            yield from node[1].values()
            yield from texts(node[2:])


def inputs(nodes):
    """What a browser sends of a form that nobody has touched."""
    for tag, attributes, *children in (node for node in nodes if not isinstance(node, str)):
        if tag == "input" and attributes.get("type") == "hidden":
            yield attributes["name"], attributes["value"]
        yield from inputs(children)


async def filled(api, suspension, nodes, status=200, **fields):
    said = urlencode({**dict(inputs(nodes)), **{name.replace("__", "/"): value for name, value in fields.items()}})
    return await api("POST", f"/v1/pending/{suspension}/form", status, json={"fields": said})


def test_html_becomes_nodes_in_which_texts_are_texts():
    found = nodes_of(
        '<p class="a" hidden>&lt;b&gt; <code>x</code>\n  <input value="&quot;">\n</p>\n<textarea>\n\n a</textarea>'
    )
    assert found == [
        ["p", {"class": "a", "hidden": ""}, "<b> ", ["code", {}, "x"], ["input", {"value": '"'}]],
        ["textarea", {}, "\n a"],
    ]


async def test_a_form_is_read_as_a_decision_and_decides_nothing(api, store, stack):
    (suspension,) = (await held(store, stack, ("refund", '{"order":"A1"}'))).values()
    drawn = await api("GET", f"/v1/pending/{suspension}/form?conversation_id=c-1")
    words = list(texts(drawn["nodes"]))
    assert {"Approve", "Deny", "Also allow later calls"} <= set(words)
    assert not {"Cancel the call", "Edit the arguments", "Add a reason"} & set(words)

    found = [
        (await filled(api, suspension, drawn["nodes"], decision="approve"))["decision"],
        (await filled(api, suspension, drawn["nodes"], decision="deny", reason="no"))["decision"],
        (await filled(api, suspension, drawn["nodes"], decision="approve", scope="0", lasts="15m"))["decision"],
    ]
    scope = {"kind": "tool", "pattern": "refund", "level": "execute", "ends_s": 900, "everything": False}
    assert found == [
        {"decision": "approve"},
        {"decision": "deny", "reason": "no"},
        {"decision": "approve", "scope": scope},
    ]
    assert [view.suspension_id for view in await store.pending_of("c-1")] == [suspension]


async def test_what_is_wrong_is_said_beside_its_field_and_what_was_typed_stays(api, store, stack):
    suspension = (await held(store, stack, "survey"))["survey"]
    drawn = await api("GET", f"/v1/pending/{suspension}/form?conversation_id=c-1")
    again = await filled(api, suspension, drawn["nodes"], decision="answer", v__age="young", v__note="<b>&")
    assert again["decision"] is None
    assert list(texts(again["nodes"])).count("this is needed") == 2
    assert {"this is no whole number", "young", "<b>&"} <= set(texts(again["nodes"]))

    typed = {"decision": "answer", "v__name": "Ana", "v__member": "false"}
    assert "minimum" in (await filled(api, suspension, drawn["nodes"], **typed, v__age="7"))["problem"]
    found = await filled(api, suspension, drawn["nodes"], **typed, v__age="12345678901234567890")
    assert found["decision"]["value"] == {"name": "Ana", "age": 12345678901234567890, "member": False}


async def test_a_call_that_takes_nothing_of_what_elements_offer_waits_for_somebody_else(api, store, stack):
    suspension = (await held(store, stack, "careful"))["careful"]
    drawn = await api("GET", f"/v1/pending/{suspension}/form")
    assert [word for word in texts(drawn["nodes"]) if " " in word] == ["It waits for somebody who may decide it."]
    for decision in ("approve", "edit", "answer", "cancel", "teleport", ""):
        assert (await filled(api, suspension, [], 422, decision=decision))["code"] == "invalid_request"


SECRET = ProposedCall(
    tool_call_id="gated",
    name="refund",
    arguments='{"order":"A1"}',
    prompt="prompt-secret",
    ruled=RuleVerdict(effect=RuleEffect.ASK, rule="rule-secret", reason="reason-secret"),
)


@pytest.mark.parametrize(
    ("kinds", "scopes", "offered", "status"),
    [
        (["elicitation"], ["read", "decide"], set(), 403),
        (["approval"], ["read"], set(), 403),
        (["approval"], ["read", "decide"], {"Approve", "Deny"}, 200),
        (sorted(OF_PEOPLE), ["read", "decide"], {"Approve", "Deny", "Also allow later calls"}, 200),
    ],
)
async def test_a_page_has_the_form_of_what_it_decides_alone(client, store, stack, kinds, scopes, offered, status):
    suspension = (await held(store, stack, SECRET))["refund"]
    _, key = await client.access.create_key("shop", ["read", "decide", "start"])
    api = Api(create_app(client))
    async with api.http:
        body = {"conversation_id": "c-1", "kinds": kinds, "scopes": scopes}
        made = await api("POST", "/v1/page-tokens", 201, json=body, headers={"Authorization": f"Bearer {key}"})
        api.http.headers["Authorization"] = f"Bearer {made['token']}"
        drawn = await api("GET", f"/v1/pending/{suspension}/form")
        assert {word for word in texts(drawn["nodes"]) if word in ("Approve", "Deny", "Also allow later calls")} == offered
        assert "secret" not in json.dumps(drawn)
        await filled(api, suspension, drawn["nodes"], status, decision="approve")
        expected = {403: 403, 200: 200 if len(offered) == 3 else 422}[status]
        scoped = await filled(api, suspension, [], expected, decision="approve", scope="0", lasts="1h")
        assert "code" in scoped or "scope" in scoped["decision"]


async def test_a_page_of_another_conversation_has_no_form_of_it(client, store, stack):
    suspension = (await held(store, stack, "refund"))["refund"]
    other = await Writer.of(store, "c-2")
    other.spec = SPEC
    await other.do(start(spec=SPEC), begin())
    _, key = await client.access.create_key("shop", ["read", "decide", "start"])
    api = Api(create_app(client))
    async with api.http:
        made = await api(
            "POST", "/v1/page-tokens", 201, json={"conversation_id": "c-2"}, headers={"Authorization": f"Bearer {key}"}
        )
        api.http.headers["Authorization"] = f"Bearer {made['token']}"
        await api("GET", f"/v1/pending/{suspension}/form", 409)
        await api("GET", f"/v1/pending/{suspension}/form?conversation_id=c-1", 404)


CASES = [
    (None, "a\nb", FieldKind.LINES, "a\nb"),
    ({}, "[1]", FieldKind.LINES, "[1]"),
    ({**TEXT, "maxLength": 20}, "x", FieldKind.TEXT, "x"),
    (TEXT, "", FieldKind.LINES, ABSENT),
    ({**TEXT, "minLength": 0}, "", FieldKind.LINES, ""),
    ({"type": ["string", "null"]}, "", FieldKind.LINES, None),
    ({"type": "boolean"}, "false", FieldKind.FLAG, False),
    ({"type": "boolean"}, "", FieldKind.FLAG, ABSENT),
    ({"enum": ["a", 7]}, "7", FieldKind.CHOICE, 7),
    ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "3", FieldKind.INTEGER, 3),
    ({"type": "array", "items": TEXT}, "a\n\n b", FieldKind.ITEMS, ["a", " b"]),
    ({"type": "array", "items": {"type": "number"}}, "[1, 2]", FieldKind.JSON, [1, 2]),
    ({"$ref": "https://elsewhere.example/schema"}, "{}", FieldKind.JSON, {}),
    (False, "1", FieldKind.JSON, 1),
]


@pytest.mark.parametrize(("schema", "typed", "kind", "value"), CASES)
def test_an_answer_of_a_pages_user_has_a_field_of_its_schema(schema, typed, kind, value):
    fields = Fields.of_user(schema, label="Answer")
    assert fields.root.kind is kind
    assert fields.filled(Form({"v": [typed]})).value() == value


def test_fields_of_a_pages_user_say_bounds_and_have_the_controls_of_their_formats():
    properties = {
        "age": {"type": "integer", "minimum": 0, "exclusiveMaximum": 9},
        "mail": {**TEXT, "format": "email", "maxLength": 9},
    }
    age, mail = Fields.of_user({"properties": properties}, label="Answer").root.inner
    assert (age.hint, mail.input, mail.most) == ("≥ 0, < 9", "email", 9)
