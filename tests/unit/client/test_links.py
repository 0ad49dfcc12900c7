"""Links at the stack itself: whom they are made for, what they decide, and every way in which one decides nothing."""

from dataclasses import replace

import pytest
from stores import WithActors
from writer import Writer, begin, call, cancel, end, escalate, resolve, start

from holdfast.client import (
    AlreadyVoted,
    Answer,
    Approve,
    AsyncClient,
    ConfigurationError,
    Deny,
    InvalidDecision,
    InvalidInput,
    InvalidLink,
    Principal,
    Scope,
    StaleCall,
)
from holdfast.client.stack_gateway import StackGateway
from holdfast.conversation import Approvers, Proof
from holdfast.conversation.records.commands import ProposedCall
from holdfast.conversation.terms.decisions import DecisionKind
from holdfast.conversation.terms.link import SHOWN_CHARS, LinkKeys, LinkTerms
from holdfast.persistence import MemoryStore

KEYS = {"k2": b"2" * 32, "k1": b"1" * 32}
ANA = Principal("ana", roles=["finance"])
PROVEN = replace(ANA, proof=Proof.KEY)


@pytest.fixture
async def stack():
    store = MemoryStore()
    writer = await Writer.of(store, "c-1")
    terms = Approvers("role:finance").terms
    asked = [
        ProposedCall(tool_call_id=name, name="refund", arguments='{"order": 7}', approvers=terms) for name in ("one", "two")
    ]
    two = ProposedCall(tool_call_id="many", name="refund", arguments="{}", approvers=Approvers("role:finance", minimum=2).terms)
    await writer.do(start(), begin(), call(*asked, two, ProposedCall(tool_call_id="q", name="ask", arguments="{}")))
    found = WithActors(store, writer)
    found.settings = found.settings.model_copy(update={"link_keys": KEYS, "public_url": "https://holdfast.example/x"})
    return found


@pytest.fixture
def client(stack):
    return AsyncClient(StackGateway(stack, timeout_s=30))


@pytest.fixture
async def shown(client):
    return {one.tool_call_id: one for one in (await client.pending()).items}


def keyed(stack, **keys):
    stack.settings = stack.settings.model_copy(update={"link_keys": keys})


async def refused(stack, client, token, decision=None):
    """The reason for which a link decides nothing; the log stays as it was."""
    before = stack.writers["c-1"].state
    with pytest.raises(InvalidLink) as error:
        await client.redeem(token, decision or Approve())
    assert stack.writers["c-1"].state == before
    return str(error.value.reason)


async def test_a_link_decides_once_as_its_principal(stack, client, shown):
    link = await client.link(shown["one"], to=ANA, expires_s=3600)

    assert link.url == f"https://holdfast.example/x/r/{link.token}"
    assert len(link.token) <= 700
    assert link.token not in repr(link)
    receipt = await client.redeem(link.token, Approve(reason="seen"))
    again = await client.redeem(link.token, Approve(reason="seen"))
    assert (receipt.duplicate, again.duplicate, again.seq) == (False, True, receipt.seq)
    settled = next(event for event in stack.writers["c-1"].events if event.kind == "suspension_settled")
    assert settled.principal == replace(ANA, proof=Proof.LINK)
    (entry,) = [one for one in (await client.conversation("c-1").audit()).entries if one.kind == "suspension_settled"]
    assert (entry.principal_id, entry.proof, entry.request_id) == ("ana", "link", settled.decision_id)
    assert await refused(stack, client, link.token, Deny("no")) == "used"
    assert await refused(stack, client, link.token, Approve(reason="another")) == "used"


async def test_a_link_is_made_by_the_id_of_a_suspension_and_decides_by_what_the_call_takes(stack, client, shown):
    question = shown["q"].suspension_id
    one = await client.link(question, to=Principal("bo"), conversation_id="c-1", decisions=["answer"])
    assert await refused(stack, client, one.token, Deny("no")) == "not_permitted"
    one = await client.link(question, to=Principal("bo"))
    assert await refused(stack, client, one.token, Approve()) == "not_permitted"
    with pytest.raises(InvalidDecision):
        await client.redeem(one.token, Answer({"not": "a text"}))
    assert (await client.redeem(one.token, Answer("blue"))).settled
    deny = await client.link(shown["two"], to=ANA, decisions=["deny"])
    assert await refused(stack, client, deny.token) == "not_permitted"
    assert (await client.redeem(deny.token, Deny("no"))).settled


@pytest.mark.parametrize(
    ("given", "error", "said"),
    [
        ({"to": Principal("cy", roles=["support"])}, InvalidLink, r"not_permitted.*'cy' is not one of role:finance"),
        ({"to": Principal("ana", roles=["finance"], proof=Proof.KEY)}, InvalidInput, "no server has proven"),
        ({"to": "ana"}, InvalidInput, "principal"),
        ({"to": Principal("a\u200bna", roles=["finance"])}, InvalidInput, "does not show whole"),
        ({"to": Principal("ana", roles=["finance", *(f"{n}" * 30 for n in range(20))])}, InvalidInput, "700 are allowed"),
        ({"decisions": ["answer"]}, InvalidInput, "decisions: the call takes no answer"),
        ({"decisions": ["agree"]}, InvalidInput, "decisions"),
        ({"decisions": "approve"}, InvalidInput, "decisions"),
        ({"decisions": []}, InvalidInput, "decisions"),
        ({"expires_s": 0}, InvalidInput, "expires_s"),
        ({"expires_s": float("nan")}, InvalidInput, "expires_s"),
        ({"expires_s": True}, InvalidInput, "expires_s"),
        ({"expires_s": 91 * 86_400}, InvalidInput, "expires_s"),
    ],
    ids=lambda one: f"{one}"[:60],
)
async def test_no_link_is_made_for_who_may_not_decide_and_for_what_no_call_takes(client, shown, given, error, said):
    with pytest.raises(error, match=said):
        await client.link(shown["one"], **{"to": ANA} | given)


async def test_no_link_is_made_to_a_call_that_does_not_wait_and_by_the_beginning_of_an_id(stack, client, shown):
    with pytest.raises(InvalidInput, match="only the beginning"):
        await client.link(shown["one"].suspension_id[:12], to=ANA)
    await client.resolve(shown["q"], Answer("blue"))
    with pytest.raises(StaleCall):
        await client.link(shown["q"], to=ANA)


async def test_without_keys_no_link_is_made_or_opened_and_the_error_says_what_to_set(stack, client, shown):
    token = (await client.link(shown["one"], to=ANA)).token
    keyed(stack)
    for asking in (client.link(shown["one"], to=ANA), client.redeem(token, Approve())):
        with pytest.raises(ConfigurationError, match=r"link_keys: there is no key.*set HOLDFAST_LINK_KEYS"):
            await asking


async def test_every_key_opens_links_until_it_goes(stack, client, shown):
    keyed(stack, k1=KEYS["k1"])
    older = (await client.link(shown["one"], to=ANA)).token
    keyed(stack, **KEYS)
    newer = (await client.link(shown["two"], to=ANA)).token
    assert (older[:3], newer[:3]) == ("k1.", "k2.")
    assert (await client.redeem(older, Approve())).settled
    keyed(stack, k1=KEYS["k1"])
    assert await refused(stack, client, newer) == "key"
    keyed(stack, k2=KEYS["k1"])  # another key under its id
    assert await refused(stack, client, newer) == "malformed"


async def test_an_expired_link_decides_nothing(stack, client, shown, monkeypatch):
    token = (await client.link(shown["one"], to=ANA, expires_s=1)).token
    store = await stack.store()
    now = await store.now()

    async def later():
        return now + 2000

    monkeypatch.setattr(store, "now", later)
    assert await refused(stack, client, token) == "expired"


async def test_a_link_of_another_store_or_namespace_decides_nothing(stack, client, shown, monkeypatch):
    token = (await client.link(shown["one"], to=ANA)).token
    store = await stack.store()
    for field in ("store_id", "namespace"):
        with monkeypatch.context() as patch:
            patch.setattr(store, field, "another")
            assert await refused(stack, client, token) == "malformed"


@pytest.mark.parametrize(
    "step", [cancel(), end("e-1"), resolve(Deny("no"), "one", principal=PROVEN)], ids=["cancelled", "ended", "decided"]
)
async def test_a_link_for_what_was_settled_otherwise_decides_nothing(stack, client, shown, step):
    token = (await client.link(shown["one"], to=ANA)).token
    await stack.writers["c-1"].do(step)
    assert await refused(stack, client, token) == "settled"


async def test_a_link_for_an_older_phase_decides_nothing(stack, client, shown):
    """The arguments were edited, and the approvers are asked anew, under another suspension."""
    token = (await client.link(shown["many"], to=ANA)).token
    edit = Approve({"order": 8})
    await stack.writers["c-1"].do(resolve(edit, "many", principal=Principal("bo", roles=["finance"], proof=Proof.KEY)))
    assert await refused(stack, client, token) == "settled"


async def test_who_may_decide_is_judged_when_the_link_is_used(stack, client, shown):
    """As after an escalation: the link was made when its principal might decide."""
    store = await stack.store()
    keys = LinkKeys(KEYS, store.store_id, store.namespace)
    suspension = stack.writers["c-1"].state.calls.of("one").suspension
    cy = Principal("cy", roles=["support"], proof=Proof.LINK)
    ids = ("c-1", suspension.suspension_id, suspension.shown[:SHOWN_CHARS])
    token = keys.signed(LinkTerms(*ids, cy, (DecisionKind.APPROVE,), await store.now() + 60_000, "nonce"))
    assert await refused(stack, client, token) == "not_permitted"
    other = keys.signed(LinkTerms(*ids[:2], "0" * 32, cy, (DecisionKind.APPROVE,), await store.now() + 60_000, "nonce"))
    assert await refused(stack, client, other) == "settled", "something else was shown"


async def test_a_link_from_before_an_escalation_decides_nothing_and_one_for_who_decides_then_does(stack, client, shown):
    older = (await client.link(shown["one"], to=ANA)).token
    bo = Principal("bo", roles=["board"])
    with pytest.raises(InvalidLink, match="not_permitted"):
        await client.link(shown["one"], to=bo)
    await stack.writers["c-1"].do(escalate(Approvers("role:board").terms, principal=PROVEN))

    assert await refused(stack, client, older) == "not_permitted"
    newer = (await client.link(shown["one"].suspension_id, to=bo)).token
    assert (await client.redeem(newer, Approve())).settled
    assert await refused(stack, client, older) == "settled"


async def test_of_several_who_must_agree_each_has_a_link(stack, client, shown):
    bo = Principal("bo", roles=["finance"])
    tokens = [(await client.link(shown["many"], to=who)).token for who in (ANA, bo, ANA)]
    first = await client.redeem(tokens[0], Approve())
    assert (first.settled, first.votes, first.needed) == (False, 1, 2)
    assert (await client.redeem(tokens[0], Approve())).duplicate
    with pytest.raises(AlreadyVoted):
        await client.redeem(tokens[2], Approve())
    assert (await client.redeem(tokens[1], Approve())).settled


@pytest.mark.parametrize("decision", [Approve({"order": 8}), Approve(scope=Scope("tool", "refund", level="execute"))])
async def test_a_link_neither_edits_nor_grants(stack, client, shown, decision):
    token = (await client.link(shown["one"], to=ANA)).token
    before = stack.writers["c-1"].state
    with pytest.raises(InvalidDecision, match="neither edits arguments nor gives grants"):
        await client.redeem(token, decision)
    assert stack.writers["c-1"].state == before


@pytest.mark.parametrize("token", ["", "x", "k1", "k1..", 7, None, "k1." + "A" * 800, "ü.ü.ü", "k1.e30.x\n"], ids=repr)
async def test_what_is_no_token_is_malformed(stack, client, token):
    assert await refused(stack, client, token) == "malformed"
