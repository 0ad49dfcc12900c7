"""The audit chain on the real stack: one chain over kills and faces, found to be broken where Redis was tampered with."""

import asyncio
import json
import os
import sys

import msgpack
import pytest
import redis.asyncio as redis
from stack_fixture import kill_host

from holdfast.client import Approve, Deny, Principal, Status
from holdfast.persistence.keys import Keys
from holdfast.testing import call, calls

WITHIN_S = 120


async def holdfast(stack, *arguments: str) -> tuple[int, str]:
    """The exit code of a command as a user starts it, and what it prints."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "holdfast.cli", *arguments),
        env={**os.environ, **stack.env},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    out, _ = await asyncio.wait_for(process.communicate(), WITHIN_S)
    return process.returncode, out.decode()


@pytest.fixture
async def decided(stack, client, store):
    """A conversation with three decisions, between which its actor was killed; and their receipts."""
    asked = calls(*(call("refund", {"order": order, "amount": 7}) for order in "ABC"))
    text = stack.scenarios.add("audited", asked, "Done.")
    conversation = await client.start("support", text)
    first, second, third = (await conversation.wait(timeout_s=60)).pending
    ana = client.acting_as(Principal("ana", roles=["finance"]))
    receipts = [await ana.resolve(first, Approve(reason="due"), decision_id="d-1")]
    await kill_host(store, conversation.id)
    receipts.append(await second.resolve(Deny("paid")))
    await kill_host(store, conversation.id)
    receipts.append(await third.resolve(Approve()))
    state = await conversation.wait(after=receipts[-1].seq, timeout_s=60)
    assert (state.status, state.reply) == (Status.IDLE, "Done.")
    return conversation, receipts


async def test_the_chain_goes_on_over_kills_and_is_found_broken_where_it_was_tampered_with(stack, client, store, decided):
    conversation, receipts = decided
    report = await conversation.audit(receipts=receipts)
    assert (report.intact, report.head) == (True, receipts[-1].audit_head)
    message, first, *_ = report.entries
    assert (first.settled_by, first.principal_id, first.roles) == ("approve", "ana", ("finance",))
    assert [one.previous for one in report.entries[2:]] == [one.audit_head for one in receipts[:-1]]
    (settled,) = await store.at(conversation.id, [receipts[0].seq])
    decided_again = client.acting_as(Principal("ana", roles=["finance"])).resolve
    again = await decided_again(
        settled.suspension_id, Approve(reason="due"), conversation_id=conversation.id, decision_id="d-1"
    )
    assert (again.duplicate, again.audit_head) == (True, receipts[0].audit_head)

    code, printed = await holdfast(stack, "audit", conversation.id, "--receipt", receipts[0].audit_head)
    assert code == 0, printed
    assert printed.splitlines()[-1] == f"4 entries, head {report.head}: the chain is intact."
    code, printed = await holdfast(stack, "audit", conversation.id, "--jsonl")
    lines = [json.loads(line) for line in printed.splitlines()]
    assert ([line.get("head") for line in lines], code) == (
        [message.head, *(one.audit_head for one in receipts), report.head],
        0,
    )

    await tampered(store, conversation.id, receipts[1].seq)
    report = await conversation.audit(receipts=receipts)
    assert (report.intact, report.broken_at) == (False, receipts[1].seq)
    code, printed = await holdfast(stack, "audit", conversation.id)
    assert code == 1
    assert f"Broken at {receipts[1].seq}: " in printed


async def tampered(store, conversation_id, seq):
    """Say in the log that somebody else has decided what stands at a place."""
    log = Keys(store.namespace).log(conversation_id)
    async with redis.Redis.from_url(store.url) as raw:
        entries = await raw.xrange(log)
        await raw.delete(log)
        for entry_id, fields in entries:
            if entry_id == f"{seq}-0".encode():
                version, kind, record = msgpack.unpackb(fields[b"e"])
                fields[b"e"] = msgpack.packb([version, kind, record | {"principal": {"id": "eve"}}])
            await raw.xadd(log, fields, id=entry_id)
