"""The links of a notice: which decisions they make, as whom, and that a notice goes out without them if none can be made."""

import asyncio
import logging

import pytest
from owed_requests import requests_of
from stores import WithActors
from writer import DESK, Writer, begin, call, cancel, end, escalate, lose, resolve, start

from holdfast.actors.actor_settings import LinkSettings, StoreAddress
from holdfast.actors.published import Published
from holdfast.actors.signature import sealed
from holdfast.client import Approve, AsyncClient, Deny, InvalidLink, Principal
from holdfast.client.stack_gateway import StackGateway
from holdfast.conversation import Approvers, Proof
from holdfast.conversation.records.commands import ProposedCall
from holdfast.conversation.terms.link import LONGEST_LINK_S, LinkKeys
from holdfast.conversation.terms.spec import NoticeKind, NotifySpec
from holdfast.errors import StoreUnavailable
from holdfast.persistence import AppRecord, MemoryStore
from holdfast.registry import notice_links
from holdfast.registry.notice_links import NoticeLinks

APP, KEY = "shop:app", b"v" * 32
KEYS = {"k1": b"1" * 32}
URL = "https://desk.example"
KIM = Principal("kim", roles=["finance"])
EVENTS = tuple(NoticeKind)
SPEC = DESK.model_copy(
    update={"notify": (NotifySpec(name="slack", events=EVENTS, decider=KIM), NotifySpec(name="plain", events=EVENTS))}
)


class Desk:
    """A conversation of a published app, and what makes the links of its notices."""

    def __init__(self, store, writer):
        self.store, self.writer = store, writer
        self.lent = LinkSettings(KEYS, URL)
        address = StoreAddress("redis://x", store.namespace, store.store_id)

        async def key():
            return KEY

        self.links = NoticeLinks(store, Published(store, address, key), lambda: self.lent)

    @classmethod
    async def of(cls, *steps, spec=SPEC):
        store = MemoryStore()
        address = StoreAddress("redis://x", store.namespace, store.store_id)
        record = sealed(KEY, address, AppRecord(app=APP, code="k", agents={"desk": spec.digest}))
        await store.put_app(record, (spec,))
        writer = await Writer.of(store, "c-1")
        writer.spec = spec
        await writer.do(start(), begin(), *steps)
        return cls(store, writer)

    async def told(self, target="slack"):
        """The links of each notice to a target, in the log's order."""
        return [(await self.links.added(APP, one)).links for one in await requests_of(self.store, "c-1", target)]

    def terms(self, url):
        begun, _, token = url.rpartition("/r/")
        assert begun == URL
        return LinkKeys(KEYS, self.store.store_id, self.store.namespace).opened(token)


async def test_a_notice_has_a_link_for_each_decision_as_the_decider_of_its_target():
    desk = await Desk.of(call("refund"))
    (links,) = await desk.told()
    assert list(links) == ["approve", "deny"]
    now = await desk.store.now()
    for kind, url in links.items():
        terms = desk.terms(url)
        assert terms.decisions == (kind,)
        assert (terms.principal.id, terms.principal.roles, terms.principal.proof) == ("kim", ("finance",), Proof.LINK)
        (view,) = await desk.store.pending_of("c-1")
        assert terms.expires_at == view.expires_at < now + 3_700_000
        assert (terms.conversation_id, terms.suspension_id) == ("c-1", view.suspension_id)
    assert await desk.told("plain") == [{}]


@pytest.mark.parametrize(
    ("tool", "decisions"), [("refund", ["approve", "deny"]), ("ask", ["answer", "deny"]), ("locate", ["answer"])]
)
async def test_the_decisions_are_those_of_a_link_that_a_client_makes(tool, decisions):
    desk = await Desk.of(call(tool))
    (links,) = await desk.told()
    stack = WithActors(desk.store, desk.writer)
    stack.settings = stack.settings.model_copy(update={"link_keys": KEYS, "public_url": URL})
    client = AsyncClient(StackGateway(stack, timeout_s=30))
    (shown,) = (await client.pending()).items
    made = desk.terms((await client.link(shown, to=KIM)).url)
    assert sorted(links) == sorted(made.decisions) == sorted(decisions)
    assert desk.terms(links[decisions[0]]).shown == made.shown


async def test_a_message_that_comes_again_has_the_same_links_and_each_message_others():
    desk = await Desk.of(call("refund", "ship"))
    first, again = await desk.told(), await desk.told()
    assert first == again
    nonces = [desk.terms(url).nonce for links in first for url in links.values()]
    assert len(set(nonces)) == len(nonces) == 4


async def test_a_link_decides_once_as_its_principal():
    desk = await Desk.of(call("refund"))
    (links,) = await desk.told()
    stack = WithActors(desk.store, desk.writer)
    stack.settings = stack.settings.model_copy(update={"link_keys": KEYS})
    client = AsyncClient(StackGateway(stack, timeout_s=30))
    tokens = {kind: url.rpartition("/")[2] for kind, url in links.items()}
    receipt = await client.redeem(tokens["approve"], Approve())
    assert (await client.redeem(tokens["approve"], Approve())).seq == receipt.seq
    with pytest.raises(InvalidLink, match="settled"):
        await client.redeem(tokens["deny"], Deny())
    settled = next(event for event in desk.writer.events if event.kind == "suspension_settled")
    assert (settled.principal.id, settled.principal.proof) == ("kim", Proof.LINK)


async def test_a_link_lasts_no_longer_than_links_may():
    year = SPEC.limits.model_copy(update={"approval_timeout_s": 365 * 86_400})
    desk = await Desk.of(call("refund"), spec=SPEC.model_copy(update={"limits": year}))
    before = await desk.store.now()
    (links,) = await desk.told()
    assert 0 <= desk.terms(links["deny"]).expires_at - before - LONGEST_LINK_S * 1000 < 60_000


async def test_what_becomes_of_a_lost_run_is_decided_by_a_link():
    desk = await Desk.of(call("ship"), resolve(Approve(), principal=KIM), lose())
    *_, lost = await desk.told()
    assert list(lost) == ["answer", "redispatch"]


@pytest.mark.parametrize(
    "step", [resolve(Deny("no"), principal=KIM), cancel(), end("e-1")], ids=["decided", "cancelled", "ended"]
)
async def test_a_call_that_waits_no_longer_has_no_links(step):
    desk = await Desk.of(call("refund"))
    await desk.writer.do(step)
    assert not any(await desk.told())


async def test_who_may_not_decide_has_no_links_until_an_escalation_lets_them():
    terms = Approvers("role:board").terms
    desk = await Desk.of(call(ProposedCall(tool_call_id="one", name="refund", arguments="{}", approvers=terms)))
    assert await desk.told() == [{}]
    by = Principal("cy", roles=["board"], proof=Proof.KEY)
    await desk.writer.do(escalate(Approvers("role:finance").terms, principal=by))
    suspended, escalated = await desk.told()
    assert list(suspended) == list(escalated) == ["approve", "deny"]


async def test_without_keys_the_notice_goes_out_and_one_warning_says_what_to_set(caplog):
    desk = await Desk.of(call("refund"))
    desk.lent = None
    with caplog.at_level(logging.WARNING, "holdfast.courier"):
        assert [await desk.told(), await desk.told(), await desk.told("plain")] == [[{}]] * 3
    (said,) = [record.getMessage() for record in caplog.records]
    assert "notify 'slack'" in said
    assert "HOLDFAST_LINK_KEYS" in said
    desk.lent = LinkSettings(KEYS, URL)
    assert [list(one) for one in await desk.told()] == [["approve", "deny"]]


async def test_an_app_whose_targets_have_no_decider_is_not_asked_about_its_conversations(monkeypatch):
    desk = await Desk.of(call("refund"), spec=DESK)

    async def load(_):
        raise AssertionError

    monkeypatch.setattr(desk.store, "load", load)
    assert await desk.told() == [{}]


async def test_an_app_that_this_cluster_has_not_signed_has_no_decider():
    desk = await Desk.of(call("refund"))
    await desk.store.put_app(AppRecord(app=APP, code="k", agents={"desk": SPEC.digest}), (SPEC,))
    assert await desk.told() == [{}]


async def test_no_failure_holds_a_notice_up(monkeypatch):
    desk = await Desk.of(call("refund"))
    monkeypatch.setattr(notice_links, "WITHIN_S", 0.05)

    async def hangs(_):
        await asyncio.sleep(3600)

    async def raises(error, _):
        raise error

    loads = [hangs, lambda _: raises(StoreUnavailable("no redis"), _), lambda _: raises(ZeroDivisionError(), _)]
    for load in loads:
        monkeypatch.setattr(desk.store, "load", load)
        async with asyncio.timeout(5):
            assert await desk.told() == [{}]


async def test_names_that_are_too_long_for_a_link_leave_it_out():
    long = Principal("kim", roles=[*("finance" * 20 + str(n) for n in range(10))])
    spec = DESK.model_copy(update={"notify": (NotifySpec(name="slack", events=EVENTS, decider=long),)})
    assert await (await Desk.of(call("refund"), spec=spec)).told() == [{}]


def test_the_keys_are_shown_nowhere():
    assert "1111" not in repr(LinkSettings(KEYS, URL))
