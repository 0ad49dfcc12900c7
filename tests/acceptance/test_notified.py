"""Notification targets on the real thing: what is owed reaches a receiver that fails, refuses, and outlives a worker."""

import asyncio
import base64
import json
import os
import signal

import pytest
from receivers import OK, Receiver, says
from stack_fixture import client_of
from standardwebhooks import Webhook

from holdfast.client import Approve
from holdfast.testing import call

SECRET = "whsec_" + base64.b64encode(bytes(range(32))).decode()
WITHIN_S = 90

pytestmark = pytest.mark.gate


@pytest.fixture
async def receiver():
    async with Receiver(says(OK)) as started:
        yield started


@pytest.fixture
async def client(stack, receiver, monkeypatch, request):
    del stack
    monkeypatch.setenv("NOTIFIED_URL", receiver.url)
    monkeypatch.setenv("NOTIFIED_SECRET", SECRET)
    async with client_of(f"notified-{request.node.name[:12]}", "notified_app:app", timeout_s=90) as connected:
        yield connected


def verified(request):
    """The id and the kind of a message, once its receiver has verified it."""
    head, body = request.split(b"\r\n\r\n", 1)
    headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n")[1:])
    said = Webhook(SECRET).verify(body, headers)
    assert headers["webhook-id"] == said["id"] == json.loads(body)["id"]
    return said["id"], said["type"]


async def until(condition):
    async with asyncio.timeout(WITHIN_S):
        while not (found := await condition() if asyncio.iscoroutinefunction(condition) else condition()):
            await asyncio.sleep(0.05)
    return found


def refusing(receiver, refusals):
    """Answers, to each message in turn, what `refusals` says, and then that it has it."""

    async def answers(writer):
        writer.write(refusals.pop(0) if refusals else OK)

    receiver.answers = answers


def status(code, *headers):
    return "\r\n".join((f"HTTP/1.1 {code} No", *headers, "Content-Length: 0", "", "")).encode()


async def test_what_fails_is_sent_again_in_order_and_what_is_refused_is_set_aside_until_somebody_retries_it(
    stack, client, receiver
):
    refusing(receiver, [status(503, "Retry-After: 1"), OK, status(410)])
    text = stack.scenarios.add("told-1", call("refund", {"order": "A-1"}), "Done.")
    conversation = await client.start("desk", text, conversation_id="told-1")
    state = await conversation.wait(timeout_s=WITHIN_S)
    await until(lambda: len(receiver.requests) == 2)
    receipt = await state.pending[0].resolve(Approve())
    await conversation.wait(after=receipt.seq, timeout_s=WITHIN_S)
    await until(lambda: len(receiver.requests) == 4)
    told = [verified(one) for one in receiver.requests]
    assert [kind for _, kind in told] == ["suspended", "suspended", "settled", "turn_completed"]
    assert told[0] == told[1]
    assert len({one for one, _ in told}) == 3

    async def aside():
        return (await client.outbox("set_aside")).items

    (row,) = await until(aside)
    assert (row.target, row.kind, row.reason, row.message_id) == ("webhook", "settled", "localhost answered 410", told[2][0])
    assert await client.redeliver(row.id)
    await until(lambda: len(receiver.requests) == 5)
    assert verified(receiver.requests[4]) == told[2]

    async def empty():
        return not [*(await client.outbox()).items, *(await client.outbox("set_aside")).items]

    await until(empty)
    lines = (stack.runs / "told-1.told").read_text().splitlines()
    assert [line.split()[1:] for line in lines] == [["suspended", "A-1"]]


async def test_what_kills_its_worker_is_set_aside_at_the_third_try(stack, client, receiver):
    text = stack.scenarios.add("told-3", call("refund", {"order": "deadly"}), "Done.")
    await client.start("desk", text, conversation_id="told-3")

    async def aside():
        return (await client.outbox("set_aside")).items

    (row,) = await until(aside)
    assert (row.target, row.kind) == ("note", "suspended")
    assert row.reason.startswith("WorkerLost: ")
    pids = [line.split()[0] for line in (stack.runs / "told-3.told").read_text().splitlines()]
    assert len(pids) == len(set(pids)) <= 3  # a try at a worker that is not back yet tells nobody
    assert await client.drop(row.id)


async def test_what_a_worker_was_sending_when_it_was_killed_is_sent_again(stack, client, receiver):
    hung = asyncio.Event()

    async def hangs(_writer):
        hung.set()
        await asyncio.sleep(3600)

    receiver.answers = hangs
    text = stack.scenarios.add("told-2", call("refund", {"order": "A-2"}), "Done.")
    conversation = await client.start("desk", text, conversation_id="told-2")
    await conversation.wait(timeout_s=WITHIN_S)
    async with asyncio.timeout(WITHIN_S):
        await hung.wait()
    await until((stack.runs / "told-2.told").exists)  # the other target is not held up
    refusing(receiver, [])
    os.kill(int((stack.runs / "told-2.told").read_text().split()[0]), signal.SIGKILL)
    await until(lambda: len(receiver.requests) == 2)
    assert verified(receiver.requests[0]) == verified(receiver.requests[1])
