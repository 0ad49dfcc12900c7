"""What a page token reads: every field is in the table as shown or as not, and what is not shown is in no answer."""

import json
import re
import runpy
import typing
from pathlib import Path

import pytest
from asgi_transport import AsgiTransport
from claiming import claim
from errors_to_show import EXPORTED, SHOWN
from pydantic import BaseModel
from writer import DESK, Writer, assign, begin, call, comment, resolve, start

from holdfast.client import Approve, AsyncClient, AsyncConversation, Deny, Principal, Proof, Scope
from holdfast.client.http_address import Address
from holdfast.client.http_gateway import HttpGateway
from holdfast.conversation import Approvers, CallTarget
from holdfast.conversation.records.commands import ProposedCall
from holdfast.conversation.records.events import EVENTS, CallSuspended
from holdfast.conversation.records.live import LIVE_EVENTS
from holdfast.conversation.terms.decisions import OF_PEOPLE
from holdfast.conversation.terms.rule_verdict import RuleEffect, RuleVerdict
from holdfast.error_codes import code_of
from holdfast.errors import (
    BatchRefused,
    ClusterUnavailable,
    NotPermitted,
    OutcomeUnknown,
    Quarantined,
    StoreUnavailable,
)
from holdfast.persistence import AccessScope
from holdfast.server import create_app, page_view
from holdfast.server.app import OPERATIONS
from holdfast.server.caller import Caller
from holdfast.server.error_responses import problem_of
from holdfast.server.pages import elements

from .conftest import HERE, Api

DOCS = Path(__file__).parents[3] / "docs" / "page.md"
TABLE = {**page_view.REPLIES, **page_view.EVENTS}
FRAME = {"kind", "at"}
"""What every event has."""


def models_in(annotation):
    """The models within an annotation."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return {annotation}
    return {found for inner in typing.get_args(annotation) for found in models_in(inner)}


def reached(roots):
    """These models, and those within their fields that are shown."""
    found, left = set(), set(roots)
    while left:
        model = left.pop()
        found.add(model)
        row = TABLE.get(model, page_view.Row())
        shown = [name for name in f"{row.shown} {row.own}".split() if name in model.model_fields]
        left |= {inner for name in shown for inner in models_in(model.model_fields[name].annotation)} - found
    return found


ROUTES = [one for one in (*OPERATIONS, *elements.OPERATIONS) if one.name in page_view.OPERATIONS]
READ = reached(one.reply for one in ROUTES if one.reply is not None)
TOLD = reached({*EVENTS, *LIVE_EVENTS} - {*page_view.WITHHELD})
MODELS = sorted({*READ, *TOLD}, key=lambda model: model.__name__)


def test_every_route_for_pages_is_one_of_the_api():
    assert {one.name for one in ROUTES} == page_view.OPERATIONS
    assert {one.name for one in ROUTES if one.reply is None} == {"followConversation", "attach", "showForm", "readForm"}


def test_the_table_has_the_replies_and_events_that_a_page_may_read_and_nothing_else():
    assert set(page_view.REPLIES) == READ
    assert set(page_view.EVENTS) == TOLD
    assert not set(page_view.WITHHELD) & set(page_view.EVENTS)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_each_field_is_shown_or_not_by_name(model):
    row = TABLE[model]
    named = [*row.shown.split(), *row.own.split(), *row.hidden.split()]
    has = {name for name, field in model.model_fields.items() if not field.exclude} | set(model.model_computed_fields)
    has |= {"arguments"} if model is CallSuspended else set()
    assert sorted(named) == sorted(has - FRAME if model in {*EVENTS, *LIVE_EVENTS} else has)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_what_is_not_shown_can_be_left_empty(model):
    for name in f"{TABLE[model].own} {TABLE[model].hidden}".split():
        if name in model.model_fields:
            page_view._empty(model, name)


def test_the_guide_has_the_same_table():
    text, script = DOCS.read_text(encoding="utf-8"), runpy.run_path(str(DOCS.with_name("page_types.py")))
    assert text == script["guide"](), "run: python docs/page_types.py"
    for model in page_view.WITHHELD:
        assert f"`{model.model_fields['kind'].default}`" in text.partition("are not sent")[0].rpartition("\n\n")[2]


KIM = Principal("kim-secret", roles=["finance-secret"], proof=Proof.KEY)
LEE = Principal("lee-secret", roles=["finance-secret"], proof=Proof.KEY)
ANA = Principal("ana", proof=Proof.STATED)
BOTH = Approvers("role:finance-secret", minimum=2)
RULED = RuleVerdict(effect=RuleEffect.ASK, rule="rule-secret", reason="rule-reason-secret")
TOUCHED = (CallTarget(kind="path", value="/secret", level="read"),)


def asked(name, **more):
    """A call whose approval says all that one can say."""
    given = {"prompt": "prompt-secret", "ruled": RULED, "targets": TOUCHED} | more
    return ProposedCall(tool_call_id=name, name="refund", arguments='{"order": 7}', **given)


@pytest.fixture
async def secretive(store, stack):
    """A conversation in which people said and did all that is not for its user."""
    writer = stack.writers["c-1"] = await Writer.of(store, "c-1")
    writer.spec = DESK
    calls = [asked("voted", approvers=BOTH.terms), asked("denied"), asked("approved"), asked("granted"), "ask"]
    await writer.do(start(principal=KIM, context='"context-secret"', app="secret:app"), begin(), call(*calls))
    await writer.do(
        assign("kim-secret", principal=KIM),
        comment("comment-secret", principal=LEE),
        resolve(Approve(reason="vote-secret"), "voted", principal=KIM, decision_id="d-secret-1"),
        resolve(Deny("It is too much."), "denied", principal=LEE, decision_id="d-secret-2"),
        resolve(Approve({"order": "edited-secret"}, reason="why-secret"), "approved", principal=LEE, decision_id="d-secret-3"),
        resolve(Approve(scope=Scope("path", "/secret", level="read")), "granted", principal=LEE, decision_id="d-secret-4"),
    )
    return writer


class Reader:
    """A page with its token, and all that it was sent."""

    def __init__(self, api, token):
        self.token = token
        self._api = api
        self._headers = {"Authorization": f"Bearer {token}"}

    async def get(self, path, status=200):
        return await self._api("GET", path, status, headers=self._headers)

    async def post(self, path, body, status=200):
        return await self._api("POST", path, status, json=body, headers=self._headers)

    async def events(self, last):
        """The events of the conversation up to the place `last`."""
        headers = {"authorization": self._headers["Authorization"]}
        async with self._api.stream("GET", "/v1/conversations/c-1/events", **headers) as stream:
            await stream.until(lambda: any(one[1] == last for one in stream.events))
            return stream.events


@pytest.fixture
async def api(client):
    opened = Api(create_app(client))
    async with opened.http:
        yield opened


@pytest.fixture
async def lent(api, client):
    """Gives a page of Ana's that decides certain kinds."""
    _, text = await client.access.create_key("shop", ["read", "start", "decide"])

    async def page(*kinds, scopes=("read", "start", "decide")):
        body = {"conversation_id": "c-1", "kinds": kinds, "principal": "ana", "scopes": scopes}
        made = await api("POST", "/v1/page-tokens", 201, json=body, headers={"Authorization": f"Bearer {text}"})
        return Reader(api, made["token"])

    return page


EVERY = tuple(OF_PEOPLE)


async def test_no_answer_to_a_customers_page_holds_what_people_and_rules_said(secretive, lent, store):
    page = await lent("elicitation")
    turns = await page.get("/v1/conversations/c-1/turns")
    state = await page.get("/v1/conversations/c-1")
    read = [
        state,
        turns,
        await page.get("/v1/conversations/c-1/messages"),
        await page.get("/v1/conversations/c-1/messages/m-1"),
    ]
    read += [await page.get(f"/v1/pending/{one['suspension_id']}") for one in state["pending"]]
    read += [await page.get("/v1/conversations/c-1/turns/t1"), await page.events(secretive.state.seq - 1)]
    read += [await page.get(f"/v1/conversations/c-1/{what}", 403) for what in ("audit", "grants")]
    assert "secret" not in json.dumps(read)
    assert "It is too much." in json.dumps(read), "the model reads why a call was denied"


async def test_a_page_that_decides_reads_the_call_whole_and_nobodys_name(secretive, lent):
    page = await lent(*EVERY)
    state = await page.get("/v1/conversations/c-1")
    voted, question = state["pending"]
    assert (voted["tool_call_id"], voted["arguments"], voted["prompt"]) == ("voted", {"order": 7}, "prompt-secret")
    assert (voted["rule"], voted["rule_reason"]) == ("rule-secret", "rule-reason-secret")
    assert [one["value"] for one in voted["targets"]] == ["/secret"]
    for one in (voted, question):
        assert (one["approvers"], one["requester"], one["votes"], one["assigned"], one["comments"]) == (None, None, [], "", [])
    (grant,) = (await page.get("/v1/conversations/c-1/grants"))["items"]
    assert (grant["pattern"], grant["by"]) == ("/secret", None)
    told = json.dumps([state, await page.events(secretive.state.seq - 1)])
    for hidden in (
        "kim-secret",
        "lee-secret",
        "finance-secret",
        "context-secret",
        "comment-secret",
        "vote-secret",
        "why-secret",
    ):
        assert hidden not in told
    for hidden in ("d-secret", "edited-secret", "secret:app"):
        assert hidden not in told


async def test_a_call_that_waits_for_somebody_else_says_no_more_than_that(secretive, lent):
    page = await lent("elicitation")
    other, question = (await page.get("/v1/conversations/c-1"))["pending"]
    said = {name for name, value in other.items() if value not in (None, "", 0, [], {})}
    assert said == {
        *("conversation_id", "agent", "tool_call_id", "suspension_id", "tool", "executor", "kind"),
        *("created_at", "expires_at", "batch_id"),
    }
    assert question["decisions"]
    reads = await lent(*EVERY, scopes=["read"])
    assert [one["decisions"] for one in (await reads.get("/v1/conversations/c-1"))["pending"]] == [[], []]


async def test_a_page_reads_that_a_client_has_claimed_a_call_and_which_one_if_it_is_of_its_user(store, stack, lent):
    writer = stack.writers["c-1"] = await Writer.of(store, "c-1")
    await writer.do(start(), begin(), call("locate", "locate"))
    await writer.do(claim("laptop-secret", principal=KIM), claim("tab-1", principal=ANA))
    page = await lent("client_exec")
    theirs, own = (await page.get("/v1/conversations/c-1"))["pending"]
    assert (theirs["claimed"]["client_id"], theirs["claimed"]["by"], theirs["attempt"]) == ("", None, 1)
    assert (own["claimed"]["client_id"], own["claimed"]["by"]["id"]) == ("tab-1", "ana")
    told = await page.events(writer.state.seq)
    assert [data["client_id"] for kind, _, data in told if kind == "call_claimed"] == ["", "tab-1"]
    assert "secret" not in json.dumps([theirs, told])


async def test_what_the_pages_own_user_did_is_told_whole(secretive, lent):
    page = await lent(*EVERY)
    question = (await page.get("/v1/conversations/c-1"))["pending"][1]
    body = {"decision": "answer", "value": "blue", "reason": "I like it", "decision_id": "d-1"}
    await page.post(f"/v1/pending/{question['suspension_id']}/resolve", body)
    settled = [data for kind, _, data in await page.events(secretive.state.seq) if kind == "suspension_settled"][-1]
    assert settled["principal"] == {"id": "ana", "roles": [], "proof": "stated"}
    assert (settled["body"], settled["reason"], settled["decision_id"]) == ('"blue"', "I like it", "d-1")
    assert (settled["digest"], settled["head"], settled["shown"]) == ("", "", "")


async def test_a_client_over_http_reads_what_a_page_is_shown(secretive, lent, api):
    page = await lent("elicitation")
    client = AsyncClient(HttpGateway(Address(HERE, token=page.token), timeout_s=30, transport=AsgiTransport(api.app)))
    conversation: AsyncConversation = client.conversation("c-1")
    state = await conversation.state()
    assert [(one.tool, one.kind.value) for one in state.pending] == [("refund", "approval"), ("ask", "elicitation")]
    events = conversation.events(live=False)
    seen = [await anext(events)]
    while seen[-1].seq < secretive.state.seq - 1:
        seen.append(await anext(events))
    await events.aclose()
    assert {"vote_cast", "call_assigned", "call_commented", "grant_given"}.isdisjoint(one.kind for one in seen)
    assert next(one.arguments for one in seen if one.kind == "call_suspended") is None
    await client.aclose()


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (NotPermitted("c-1", "voted", "'ana' is not one of role:finance-secret"), "not_permitted", "somebody else has to"),
        (OutcomeUnknown("the message (redis.secret)", "m-9"), "outcome_unknown", "the request"),
        (StoreUnavailable("redis.secret:6379"), "store_unavailable", "the server's log says why"),
        (ClusterUnavailable("ray.secret:6379"), "cluster_unavailable", "the server's log says why"),
        (Quarantined("c-1", "a-tool-secret", 7), "quarantined", "the server's log says why"),
    ],
)
async def test_errors_name_nobody_and_nothing_of_the_servers(secretive, lent, stack, monkeypatch, error, code, said):
    async def failing(*_, **__):
        raise error

    page = await lent(*EVERY)
    monkeypatch.setattr(stack, "deliver", failing)
    found = await page.post("/v1/conversations/c-1/messages", {"text": "Hello?"}, error.http_code)
    assert (found["code"], said in found["detail"], "secret" in json.dumps(found)) == (code, True, False)


@pytest.mark.parametrize("error", EXPORTED, ids=lambda error: error.__name__)
def test_an_error_is_told_as_it_is_only_where_it_is_listed(error):
    page = Caller(ANA, frozenset(AccessScope), conversation_id="c-1", kinds=frozenset(EVERY))
    told = page_view.error_of(page, SHOWN[error])
    if error in page_view._PLAIN:
        assert told is SHOWN[error]
    elif error is not BatchRefused:
        problem = problem_of(told)
        assert (problem["status"], problem["code"]) == (error.http_code, code_of(error))
        kept = {"conversation_id-x", "tool_call_id-x", "retry_id-x"}
        assert set(re.findall(r"\w+-x", json.dumps(problem))) <= kept


async def test_refused_decisions_of_several_name_nobody(secretive, lent):
    page = await lent(*EVERY)
    (voted, _) = (await page.get("/v1/conversations/c-1"))["pending"]
    item = {"decision": "approve", "suspension_id": voted["suspension_id"]}
    refused = await page.post("/v1/conversations/c-1/resolve-many", {"decisions": [item]}, 409)
    assert [one["why"] for one in refused["errors"]] == ["somebody else has to decide it"]
    each = await page.post("/v1/pending/resolve-each", {"decisions": [item | {"conversation_id": "c-1"}]}, 207)
    assert each["items"][0]["problem"]["why"] == "somebody else has to decide it"
    assert "secret" not in json.dumps([refused, each])
