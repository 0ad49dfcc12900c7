"""Cases of the audit chain: it goes on under each owner in turn, no former owner forks it, and receipts repeat their heads."""

import pytest
from writer import Writer, begin, call, resolve, start

from holdfast.client.audit import AuditReport, kept_of, report
from holdfast.conversation import Approve, Deny, Receipt
from holdfast.conversation.records.idempotency import decision_key
from holdfast.errors import Fenced
from holdfast.persistence import Store


async def audit(store: Store, *receipts: Receipt | str) -> AuditReport:
    """The audit of the conversation as the store has it."""
    return await report(lambda work: work(store), "c-1", kept_of(receipts, "c-1"))


async def asked(store: Store) -> Writer:
    """The writer of a conversation in which three refunds wait."""
    writer = await Writer.of(store, "c-1")
    await writer.do(start(), begin(), call("refund", "refund", "refund"))
    return writer


class Auditing:
    """The chain of decisions is one, whoever writes it."""

    async def test_the_chain_goes_on_when_its_owner_dies_between_two_decisions(self, store: Store, other: Store) -> None:
        writer = await asked(store)
        first = await writer.do(resolve(Approve()))
        successor = await writer.succeeded()
        assert successor.state.audit_head == writer.state.audit_head
        second = await successor.do(resolve(Deny()))
        third = await (await successor.succeeded()).do(resolve(Deny()))
        receipts = [one for one in (first, second, third) if isinstance(one, Receipt)]

        found = await audit(other, *receipts)

        _, *decisions = found.entries
        assert (found.intact, found.head) == (True, receipts[-1].audit_head)
        assert [entry.head for entry in decisions] == [one.audit_head for one in receipts]
        assert [entry.previous for entry in decisions[1:]] == [one.audit_head for one in receipts[:-1]]

    async def test_a_deposed_owner_cannot_fork_the_chain(self, store: Store, other: Store) -> None:
        writer = await asked(store)
        await writer.do(resolve(Approve()))
        successor = await writer.succeeded()
        kept = await successor.do(resolve(Deny()))
        assert isinstance(kept, Receipt)

        with pytest.raises(Fenced):
            await writer.do(resolve(Approve()))

        found = await audit(other, kept)
        assert (found.intact, found.head, len(found.entries)) == (True, kept.audit_head, 3)

    async def test_the_store_keeps_the_head_of_a_decision_beside_its_id(self, store: Store, other: Store) -> None:
        writer = await asked(store)
        first, *_ = writer.state.calls.awaiting()
        decide = resolve(Approve(), first.tool_call_id, decision_id="d-1")
        receipt = await writer.do(decide)
        assert isinstance(receipt, Receipt)

        known = await other.known("c-1", [decision_key("d-1")])
        again = await (await writer.succeeded()).do(decide)

        assert known[decision_key("d-1")].head == receipt.audit_head
        assert isinstance(again, Receipt)
        assert (again.duplicate, again.audit_head) == (True, receipt.audit_head)

    async def test_a_long_log_is_audited_page_by_page(self, store: Store, other: Store) -> None:
        writer = await Writer.of(store, "c-1")
        await writer.do(start(), begin(), call(*["refund"] * 120))
        for _ in range(120):
            await writer.do(resolve(Deny()))

        found = await audit(other, writer.state.audit_head)

        assert (found.intact, len(found.entries), found.head) == (True, 121, writer.state.audit_head)
