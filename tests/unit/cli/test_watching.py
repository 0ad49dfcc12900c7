"""`holdfast pending --watch`: which calls and changes it prints, by each filter of the list."""

import asyncio
import json
from contextlib import asynccontextmanager
from unittest.mock import AsyncMock

import pytest
from stores import WithActors
from writer import Writer, begin, call, comment, escalate, resolve, start

from holdfast.cli import watching
from holdfast.cli.options import Where
from holdfast.cli.session import Reached
from holdfast.client import AsyncClient
from holdfast.client.stack_gateway import StackGateway
from holdfast.conversation import Answer, ApproverTerms, Deny, Principal, Proof
from holdfast.conversation.records.proposed_call import ProposedCall
from holdfast.persistence import MemoryStore

HOUR_MS = 3_600_000
CLERK = Principal("cleo", roles=("clerk",), proof=Proof.KEY)
CLERKS = ApproverTerms(who=(("role:clerk",),))


@pytest.fixture
async def store():
    return MemoryStore()


@pytest.fixture
def watched(store, capsys, monkeypatch):
    """Watches with filters while the test runs; gives what was printed, as (kind, conversation or suspension)."""
    monkeypatch.setattr(watching, "RECHECK_S", 0.01)
    printed = list[dict]()

    def read():
        printed.extend(map(json.loads, capsys.readouterr().out.splitlines()))
        return [(one["kind"], one["conversation_id"], one["data"].get("tool", "")) for one in printed]

    async def until(*lines):
        async with asyncio.timeout(20):
            while not set(lines) <= set(read()):
                await asyncio.sleep(0.01)
        return read()

    @asynccontextmanager
    async def watching_with(**wanted):
        gateway = StackGateway(WithActors(store), timeout_s=10)
        on = Reached(AsyncClient(gateway), gateway.stack, Where())
        task = asyncio.create_task(watching.run(on, wanted=wanted, as_json=True))
        try:
            await until(("following", "", ""))
            yield until
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await gateway.feed.close()

    return watching_with


async def waits(store, name, *tools, since_ms=0):
    """A conversation whose calls of these tools wait, since then."""
    writer = await Writer.of(store, name)
    await writer.do(start(), begin(), call(*tools), now=await store.now() - since_ms)
    return writer


@pytest.mark.parametrize("wanted", [{"tool": "ask"}, {"root": "later"}, {"kind": "elicitation"}], ids=str)
async def test_only_wanted_calls_are_printed_with_their_ends(store, watched, wanted):
    other, later = await waits(store, "other", "refund"), await waits(store, "later", "ask")
    async with watched(**wanted) as until:
        await until(("pending", "later", "ask"))
        await other.do(resolve(Deny("no")))
        await later.do(comment("Who knows?"))
        await until(("noted", "later", "ask"))
        await later.do(resolve(Answer("ten")))
        printed = await until(("settled", "later", ""))

    assert {name for _, name, _ in printed} == {"", "later"}


async def test_without_a_filter_every_change_is_printed(store, watched):
    async with watched() as until:
        other = await waits(store, "other", "refund")
        await until(("pending", "other", "refund"), ("status", "other", ""))
        await other.do(resolve(Deny("no")))
        await until(("settled", "other", ""))


@pytest.mark.parametrize("wanted", [{"older_than_s": 3600.0}, {"expires_within_s": 1800.0}], ids=str)
async def test_a_call_is_printed_once_its_time_has_come(store, watched, wanted, monkeypatch):
    async with watched(**wanted) as until:
        await waits(store, "now", "refund")
        await waits(store, "hours", "refund", since_ms=2 * HOUR_MS)
        printed = await until(("pending", "hours", "refund"))
        assert "now" not in {name for _, name, _ in printed}
        now = await store.now()
        monkeypatch.setattr(Reached, "now", AsyncMock(return_value=now + HOUR_MS))
        await until(("pending", "now", "refund"))


async def test_an_escalation_shows_the_call_to_those_who_may_decide_it_now(store, watched):
    async with watched(approver=Principal("ana", roles=("cfo",)), tool="refund") as until:
        low = await waits(store, "low", ProposedCall(tool_call_id="c-1", name="refund", arguments="{}", approvers=CLERKS))
        await waits(store, "free", "refund")
        printed = await until(("pending", "free", "refund"))
        assert "low" not in {name for _, name, _ in printed}
        await low.do(escalate(ApproverTerms(who=(("role:cfo",),)), principal=CLERK))
        await until(("noted", "low", "refund"))
