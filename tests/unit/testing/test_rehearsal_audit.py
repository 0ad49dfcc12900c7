"""A rehearsal with its audit: decisions are links of a chain there as they are in a store."""

import pytest

from holdfast import Agent, Approve, Deny, InvalidInput, tool
from holdfast.testing import BlockingRehearsal, Rehearsal, call, calls


@tool(approval="required")
async def refund(order: int) -> str:
    """Refund an order."""
    return f"refunded {order}"


DESK = Agent(name="desk", tools=[refund])
ASKED = calls(call("refund", {"order": 1}), call("refund", {"order": 2}))


async def test_the_decisions_of_a_rehearsal_are_a_chain():
    async with Rehearsal(DESK, model=[ASKED, "Done."], conversation_id="c-7") as conversation:
        first, second = (await conversation.send("Refund both.")).pending
        await conversation.resolve(first, Approve())
        result = await conversation.resolve(second, Deny("paid out"))
        *_, receipt = result.receipts
        report = await conversation.audit(receipts=receipt)
        assert (report.intact, report.head, report.conversation_id) == (True, receipt.audit_head, "c-7")
        assert [(entry.tool, entry.settled_by, entry.reason) for entry in report.entries[1:]] == [
            ("refund", "approve", ""),
            ("refund", "deny", "paid out"),
        ]
        with pytest.raises(InvalidInput):
            await conversation.audit(receipts=["no head"])


async def test_no_two_rehearsals_of_the_same_decisions_have_a_digest_in_common():
    found = []
    for _ in range(2):
        async with Rehearsal(DESK, model=[ASKED, "Done."]) as conversation:
            for waiting in (await conversation.send("Refund both.")).pending:
                await conversation.resolve(waiting, Deny("no"))
            entries = (await conversation.audit()).entries
            assert {entry.format for entry in entries} == {2}
            found += [one for entry in entries for one in (entry.shown_digest, entry.body_digest, entry.head) if one]
    assert len(set(found)) == len(found) == 2 * (2 + 3 + 3)


def test_a_blocking_rehearsal_has_an_audit_too():
    with BlockingRehearsal(DESK, model=[ASKED, "Done."]) as conversation:
        first, _ = conversation.send("Refund both.").pending
        conversation.resolve(first, Approve())
        assert [entry.settled_by for entry in conversation.audit().entries] == ["", "approve"]
