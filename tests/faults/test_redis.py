"""Redis dies, stands still, fills up and goes back in time: typed errors meanwhile, and nothing acknowledged is lost."""

import asyncio
import contextlib
import json
import os
import resource
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

import pytest
import redis
from fault_stack import WITHIN_S, at_ease, trapped_stack
from lacking import lacking
from redis_server import RedisServer, binaries
from refusals import contents
from stack_fixture import eventually, open_gate

from holdfast.client import Answer, Approve, AsyncClient, Deny, OutcomeUnknown, Status, StoreUnavailable
from holdfast.errors import CorruptStore
from holdfast.testing import call, calls

DISK_BYTES = 8 << 20
PAUSE_S = 7
"""Longer than a lease and than anybody's patience with an actor; shorter than a connection's."""


@pytest.fixture(scope="module")
def server():
    """A server whose data is on a small disk of its own where this machine allows one."""
    if not binaries():
        lacking("there is no Redis server on this machine")
    with small_disk() as data, RedisServer(appendonly="yes", appendfsync="always", dir=str(data)) as running:
        running.data = data
        yield running


@contextlib.contextmanager
def small_disk():
    """A directory with little room, if mounting is allowed; else one without that bound."""
    with tempfile.TemporaryDirectory(prefix="hf-disk-", dir="/tmp") as folder:
        mount = shutil.which("mount")
        options = ["-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", folder]
        mounted = mount is not None and subprocess.run([mount, *options], capture_output=True, check=False).returncode == 0
        try:
            yield Path(folder)
        finally:
            if mounted:
                subprocess.run(["umount", folder], check=True)


@pytest.fixture(scope="module")
def trapped(server):
    with trapped_stack(HOLDFAST_REDIS_URL=server.url) as found:
        yield found


@pytest.fixture
def raw(server):
    with redis.Redis(unix_socket_path=str(server.socket)) as opened:
        yield opened


async def paying(stack, client, name, tool="pay"):
    text = stack.scenarios.add(name, calls(call(tool, {"question": "?"} if tool == "ask" else {})), "Done.", "Done.")
    conversation = await client.start("till", text, conversation_id=name)
    (pay,) = (await conversation.wait(timeout_s=WITHIN_S)).pending
    return conversation, pay


async def at_work(stack, client, oracle, name, tool="pay"):
    """A conversation whose call runs for as long as its gate is closed, and the receipt of its approval."""
    conversation, pay = await paying(stack, client, name, tool)
    receipt = await pay.resolve(Approve())
    await asyncio.to_thread(eventually, lambda: oracle.bodies(conversation.id), WITHIN_S)
    return conversation, receipt


async def ended(oracle, conversation, *, result="pay is done", ran=1):
    """The conversation has ended as it would have, and its body ran so often."""
    state = await conversation.wait(timeout_s=WITHIN_S)
    while state.status is not Status.IDLE:
        state = await conversation.wait(after=state.seq, timeout_s=WITHIN_S)
    assert state.reply == "Done."
    await oracle.at_rest(conversation.id)
    found = [json.loads(message["content"]) for message in await conversation.messages() if message["role"] == "tool"]
    assert [envelope.get("result", envelope.get("error")) for envelope in found] == [result]
    assert len(oracle.bodies(conversation.id)) == ran


def sent_results(stack, name):
    """The results that the model was sent last for the conversation of a name."""
    sent = [request.body["messages"] for request in stack.model.requests]
    own = [messages for messages in sent if name in [message["content"] for message in messages if message["role"] == "user"]]
    return [json.loads(message["content"]) for message in own[-1] if message["role"] == "tool"]


async def test_killed_and_started_again_it_has_what_was_acknowledged_and_outcomes_find_their_way(stack, client, oracle, server):
    waiting, pay = await paying(stack, client, "killed-waiting")
    running, _ = await at_work(stack, client, oracle, "killed-running")
    open_gate(stack, waiting.id)
    stack.model.hold(times=1)
    try:
        asking = await client.start("till", stack.scenarios.add("killed-asking", "Done."), conversation_id="killed-asking")
        await stack.model.held(1, WITHIN_S)
        server.kill()
        open_gate(stack, running.id)  # its outcome comes while there is no store
    finally:
        stack.model.release()
    deciding = asyncio.create_task(client.resolve(pay, Approve(), decision_id="d-1"))
    server.start()
    receipt = await deciding
    await oracle.acknowledged(waiting.id, receipt, by="d-1")
    await ended(oracle, waiting)
    await ended(oracle, running)
    state = await asking.wait(timeout_s=WITHIN_S)
    assert (state.status, state.reply) == (Status.IDLE, "Done.")
    await oracle.at_rest(asking.id)


async def test_paused_for_longer_than_a_lease_it_deposes_nobody_who_is_healthy(stack, client, store, oracle, server):
    running, _ = await at_work(stack, client, oracle, "paused-running")
    asked, _ = await at_work(stack, client, oracle, "paused-asked")
    waiting, pay = await paying(stack, client, "paused-waiting")
    open_gate(stack, waiting.id)
    epoch = (await store.owner(running.id)).epoch
    os.kill(server._process.pid, signal.SIGSTOP)
    try:
        sending = asyncio.create_task(asked.send("go on", message_id="m-1"))
        deciding = asyncio.create_task(client.resolve(pay, Approve(), decision_id="d-1"))
        await asyncio.sleep(PAUSE_S)  # the fault itself takes its time
    finally:
        os.kill(server._process.pid, signal.SIGCONT)
    await oracle.acknowledged(waiting.id, await deciding, by="d-1")
    sent = await sending
    await oracle.acknowledged(asked.id, sent, by="m-1")
    assert (await store.owner(running.id)).epoch == epoch  # its worker has it, and nobody had to take it up
    for conversation in (running, asked):
        open_gate(stack, conversation.id)
    for conversation in (waiting, running, asked):
        await ended(oracle, conversation)


async def test_out_of_memory_it_refuses_with_a_typed_error_and_nothing_is_half_written(stack, client, oracle, raw):
    running, _ = await at_work(stack, client, oracle, "memory-running")
    waiting, pay = await paying(stack, client, "memory-waiting")
    open_gate(stack, waiting.id)
    before = contents(raw, waiting.id)
    async with in_haste() as hasty:
        raw.config_set("maxmemory", 1)
        try:
            with pytest.raises((StoreUnavailable, OutcomeUnknown), match="raise maxmemory"):
                await hasty.resolve(pay, Approve(), decision_id="d-1")
            open_gate(stack, running.id)
            assert contents(raw, waiting.id) == before
        finally:
            raw.config_set("maxmemory", 0)
    receipt = await client.resolve(pay, Approve(), decision_id="d-1")
    await oracle.acknowledged(waiting.id, receipt, by="d-1")
    await ended(oracle, waiting)
    await ended(oracle, running)


@contextlib.asynccontextmanager
async def in_haste():
    """A client that has connected before the fault, and does not wait for its end."""
    async with AsyncClient.connect(timeout_s=4) as client:
        await client.gateway.stack.transport()
        yield client


@contextlib.contextmanager
def full(server):
    """No room on the server's disk: a file fills it, or, where that would be the machine's, its own files may not grow."""
    if os.path.ismount(server.data):
        filler = server.data / "filler"
        with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
            while file.write(bytes(4096)):
                pass
        yield
        filler.unlink()
    else:
        pid = server._process.pid
        largest = max(file.stat().st_size for file in server.data.rglob("*") if file.is_file())
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (largest, largest))
        yield


async def test_with_a_full_disk_it_ends_and_what_was_acknowledged_is_there_when_there_is_room_again(
    stack, client, oracle, server
):
    """A server that fsyncs always and cannot, ends. It is started again by whoever runs it."""
    running, receipt = await at_work(stack, client, oracle, "disk-running")
    waiting, ask = await paying(stack, client, "disk-waiting", "ask")
    large = "more than the last block has room for " * 1000
    async with in_haste() as hasty:
        with full(server):
            with pytest.raises((StoreUnavailable, OutcomeUnknown)):
                await hasty.resolve(ask, Answer(large), decision_id="d-1")
            assert server._process.wait(WITHIN_S) != 0
            open_gate(stack, running.id)
    server.kill()
    server.start()
    (event,) = await oracle.store.at(running.id, [receipt.seq])
    assert event.kind == "suspension_settled"
    again = await client.resolve(ask, Answer(large), decision_id="d-1")
    await oracle.acknowledged(waiting.id, again, by="d-1")
    await ended(oracle, waiting, result=large, ran=0)
    await ended(oracle, running)


async def test_set_back_to_older_files_it_refuses_who_lived_later_and_conversations_go_on_from_there(
    stack, client, store, oracle, server, tmp_path
):
    resolved, pay = await paying(stack, client, "back-resolved")
    approved, pay_later = await paying(stack, client, "back-approved")
    await at_ease(store)
    answered, ask = await paying(stack, client, "back-answered", "ask")
    running, _ = await at_work(stack, client, oracle, "back-running", "pay_by_key")
    copied = tmp_path / "older"
    shutil.copytree(server.data, copied)
    older = {each.id: (await store.owner(each.id)).epoch for each in (resolved, approved, answered, running)}

    # What the older files know nothing of: two have ended, one runs, one has its outcome.
    await ask.resolve(Answer("the answer of before"))
    await ended(oracle, answered, result="the answer of before", ran=0)
    open_gate(stack, resolved.id)
    await pay.resolve(Approve())
    await ended(oracle, resolved)
    await pay_later.resolve(Approve())
    await asyncio.to_thread(eventually, lambda: oracle.bodies(approved.id), WITHIN_S)
    open_gate(stack, running.id)
    await ended(oracle, running, result="pay_by_key is done")

    server.kill()
    shutil.rmtree(server.data / "appendonlydir", ignore_errors=True)
    shutil.copytree(copied, server.data, dirs_exist_ok=True)
    server.start()
    for each in (resolved, approved):
        (stack.runs / each.id).unlink()  # whoever sets a store back has to know what its tools have done since
    open_gate(stack, approved.id)  # a run that nobody has asked for comes to its end

    for each, shown in ((resolved, pay), (approved, pay_later)):
        (again,) = await each.pending()
        assert again.suspension_id == shown.suspension_id
        receipt = await client.resolve(again, Deny("set back"), decision_id="d-1")
        await oracle.acknowledged(each.id, receipt, by="d-1")
        await ended(oracle, each, result="the user denied this call: set back", ran=0)

    (again,) = await answered.pending()
    try:
        await again.resolve(Answer("the answer of after"))
    except CorruptStore:  # its actor has it still as it was later: nothing was decided, so it is asked again
        await again.resolve(Answer("the answer of after"))
    await ended(oracle, answered, result="the answer of after", ran=0)
    assert [envelope["result"] for envelope in sent_results(stack, answered.id)] == ["the answer of after"]

    # Its claim is known, its outcome is not, and its worker has forgotten it: a lost run, which may run again.
    await ended(oracle, running, result="pay_by_key is done", ran=2)
    assert [body["attempt"] for body in oracle.bodies(running.id)] == [1, 2]
    for each in (resolved, approved, answered, running):
        assert (await store.owner(each.id)).epoch > older[each.id]
