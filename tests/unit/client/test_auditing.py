"""Audits as a client has them: on the stack, over HTTP, and from a program that blocks."""

import asyncio
from types import SimpleNamespace

import pytest
from asgi_transport import AsgiTransport
from stores import WithActors, now
from writer import Writer, begin, call, start

from holdfast.client import Approve, AsyncClient, Client, Deny, InvalidInput, Principal
from holdfast.client.audit import MOST_KEPT
from holdfast.client.http_address import Address
from holdfast.client.http_gateway import HttpGateway
from holdfast.client.stack_gateway import StackGateway
from holdfast.conversation import evolve
from holdfast.conversation.records.state import State
from holdfast.errors import ConversationNotFound
from holdfast.persistence import MemoryStore, codec
from holdfast.server import Authentication, create_app


@pytest.fixture(params=["stack", "http"])
async def given(request):
    """A client, its conversation in which three calls wait, and the store."""
    store = MemoryStore()
    writer = await Writer.of(store, "c-1")
    await writer.do(start(), begin(), call("refund", "refund", "ship"), now=now())
    client, transport = AsyncClient(StackGateway(WithActors(store, writer), timeout_s=30)), None
    over = client
    if request.param == "http":
        transport = AsgiTransport(create_app(client, authentication=Authentication(anyone=True)))
        over = AsyncClient(HttpGateway(Address("http://127.0.0.1:8484"), timeout_s=30, transport=transport))
    yield SimpleNamespace(client=over, conversation=over.conversation("c-1"), writer=writer, store=store)
    await over.aclose()


@pytest.fixture
async def decided(given):
    """The receipts of two decisions in it."""
    first, second, _ = await given.conversation.pending()
    return [await first.resolve(Approve(reason="it is due")), await second.resolve(Deny("no"))]


def tampered(given, seq, **fields):
    """Change a stored entry of the log."""
    log = given.store._conversations["c-1"].log
    log[seq - 1] = codec.encode(codec.decode_event(log[seq - 1]).model_copy(update=fields))


async def test_an_audit_lists_the_decisions_and_ends_at_the_last_receipts_head(given, decided):
    report = await given.conversation.audit(receipts=decided)
    assert (report.intact, report.broken_at, report.breaks) == (True, None, [])
    message, *decisions = report.entries
    assert (message.kind, message.seq, message.format) == ("message_accepted", 2, 2)
    assert [(entry.seq, entry.settled_by, entry.reason, entry.tool) for entry in decisions] == [
        (decided[0].seq, "approve", "it is due", "refund"),
        (decided[1].seq, "deny", "no", "refund"),
    ]
    assert [entry.head for entry in decisions] == [one.audit_head for one in decided]
    assert report.head == decided[1].audit_head
    assert all(entry.shown_digest and entry.previous for entry in decisions)


async def test_before_anything_was_decided_the_head_is_that_of_the_message(given):
    report = await given.conversation.audit()
    assert (report.intact, [entry.kind for entry in report.entries]) == (True, ["message_accepted"])
    assert report.head == given.writer.state.audit_head


async def test_what_was_changed_in_the_store_is_found_at_its_place(given, decided):
    tampered(given, decided[0].seq, reason="it was never due")
    report = await given.conversation.audit()
    assert (report.intact, report.broken_at) == (False, decided[0].seq)
    assert [entry.problem is None for entry in report.entries] == [True, False, True]
    (found,) = report.breaks
    assert "does not follow" in found.problem


async def test_an_entry_that_cannot_be_read_hides_nothing_of_the_rest(given, decided):
    given.store._conversations["c-1"].log[decided[0].seq - 1] = b"rubbish"
    report = await given.conversation.audit(receipts=[decided[1]])
    assert (report.intact, report.broken_at) == (False, decided[0].seq)
    assert [(entry.seq, entry.kind) for entry in report.entries] == [
        (2, "message_accepted"),
        (decided[0].seq, ""),
        (decided[1].seq, "suspension_settled"),
    ]
    assert report.head == decided[1].audit_head


async def test_a_log_that_was_rewritten_with_all_its_heads_is_found_by_a_receipt(given, decided):
    found = given.store._conversations["c-1"]
    events = [codec.decode_event(data) for data in found.log]
    writer = await Writer.of(MemoryStore(), "c-1")
    await writer.do(start(), begin(), call("refund", "refund", "ship"))
    state = State(conversation_id="c-1")
    for event in events[: decided[0].seq - 1]:
        state = evolve(state, event)
    forged = events[decided[0].seq - 1].model_copy(update={"reason": "forged"})
    from holdfast.conversation.log.auditing import linked  # noqa: PLC0415 - what only a forger does

    whole = events[: decided[0].seq - 1]
    for event in (forged, *events[decided[0].seq :]):
        bound = linked(state, event, "forged")
        state = evolve(state, bound)
        whole.append(bound)
    found.log[:] = [codec.encode(event) for event in whole]
    found.snapshot = codec.encode(state)
    assert (await given.conversation.audit()).intact
    report = await given.conversation.audit(receipts=decided[0])
    assert (report.intact, report.broken_at) == (False, decided[0].seq)
    report = await given.conversation.audit(receipts=decided[0].audit_head)
    assert (report.intact, report.broken_at) == (False, None)


async def test_lines_are_the_entries_and_the_verdict_and_overlap_by_one_head(given, decided):
    lines = [line async for line in given.conversation.audit_lines()]
    assert [line["kind"] for line in lines] == [
        "message_accepted",
        "suspension_settled",
        "suspension_settled",
        "audit_report",
    ]
    assert (lines[-1]["intact"], lines[-1]["head"], lines[-1]["broken_at"]) == (True, decided[1].audit_head, None)
    (third,) = await given.conversation.pending()
    receipt = await third.resolve(Deny())
    later = [line async for line in given.conversation.audit_lines(after=lines[-2]["seq"])]
    assert [line.get("seq") for line in later] == [receipt.seq, None]
    assert later[0]["previous"] == lines[-2]["head"]


@pytest.mark.parametrize("receipts", [7, "", "no head", ["0" * 63], [None], ["A" * 64], ["0" * 64] * (MOST_KEPT + 1)])
async def test_what_is_no_receipt_of_a_decision_is_refused(given, receipts):
    with pytest.raises(InvalidInput) as refused:
        await given.conversation.audit(receipts=receipts)
    assert refused.value.field == "receipts"


async def test_receipts_of_other_conversations_are_refused(given, decided):
    with pytest.raises(InvalidInput):
        await given.conversation.audit(receipts=[decided[0].model_copy(update={"conversation_id": "c-2"})])


async def test_the_receipt_of_a_message_shows_that_its_sender_was_changed(given):
    receipt = await given.conversation.send("and now?")
    assert (await given.conversation.audit(receipts=[receipt])).intact
    tampered(given, receipt.seq, principal=Principal("eve"))
    assert (await given.conversation.audit()).broken_at == receipt.seq


async def test_a_place_that_is_none_is_refused(given):
    with pytest.raises(InvalidInput):
        await anext(given.conversation.audit_lines(after=-1))


async def test_a_conversation_that_was_never_started_has_no_audit(given):
    with pytest.raises(ConversationNotFound):
        await given.client.conversation("c-none").audit()
    with pytest.raises(ConversationNotFound):
        await anext(given.client.conversation("c-none").audit_lines())


async def test_all_conversations_are_audited_and_a_broken_one_hides_no_other(given, decided):
    other = await Writer.of(given.store, "c-2")
    await other.do(start(), begin(), call("refund"), now=now())
    tampered(given, decided[1].seq, principal=Principal("eve"))
    found = {report.conversation_id: report async for report in given.client.audit()}
    assert {name: report.intact for name, report in found.items()} == {"c-1": False, "c-2": True}
    assert found["c-1"].broken_at == decided[1].seq
    assert [report.conversation_id async for report in given.client.audit(status="awaiting_input")] == list(found)
    with pytest.raises(InvalidInput):
        await anext(given.client.audit(status="asleep"))


async def test_duplicates_repeat_their_heads_over_every_face(given):
    first, *_ = await given.conversation.pending()
    receipt = await first.resolve(Approve(), decision_id="d-1")
    again = await first.resolve(Approve(), decision_id="d-1")
    assert (again.duplicate, again.audit_head) == (True, receipt.audit_head)
    cancelled = await given.conversation.cancel_pending(request_id="x-1")
    report = await given.conversation.audit(receipts=[receipt, cancelled])
    assert (report.intact, report.head) == (True, cancelled.audit_head)
    ended = await given.conversation.end(request_id="e-1")
    assert (await given.conversation.audit(receipts=[ended])).head == ended.audit_head


def test_a_program_that_blocks_has_the_same_audit(monkeypatch):
    store = MemoryStore()
    writer = asyncio.run(Writer.of(store, "c-1"))
    asyncio.run(writer.do(start(), begin(), call("refund"), now=now()))
    made = AsyncClient(StackGateway(WithActors(store, writer), timeout_s=30))
    monkeypatch.setattr(AsyncClient, "connect", lambda **_: made)
    with Client.connect() as client:
        conversation = client.conversation("c-1")
        (pending,) = conversation.pending()
        receipt = pending.resolve(Approve())
        report = conversation.audit(receipts=receipt)
        assert (report.intact, report.head) == (True, receipt.audit_head)
        assert [line["kind"] for line in conversation.audit_lines()] == [
            "message_accepted",
            "suspension_settled",
            "audit_report",
        ]
        assert [one.conversation_id for one in client.audit()] == ["c-1"]
