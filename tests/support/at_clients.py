"""Calls that wait for clients, in tests of faults: what clients ask for, how such calls end, and programs that answer them."""

import asyncio
import signal
from contextlib import asynccontextmanager

from fault_stack import WITHIN_S, true

from holdfast.client import Answer, Approve, Status
from holdfast.conversation import Present
from holdfast.testing import call, calls


class Waiting:
    """A conversation whose only call waits for a client. `key` is the id of the request of which a test is about."""

    key = "x-1"

    def __init__(self, stack, client, oracle, name, tool="locate"):
        self.stack, self.client, self.oracle, self.name, self.tool = stack, client, oracle, name, tool

    async def begin(self, *before):
        """Bring the conversation there, and do these things first."""
        text = self.stack.scenarios.add(self.name, calls(call(self.tool, {})), "Done.")
        self.conversation = await self.client.start("counter", text, conversation_id=self.name)
        (self.call,) = (await self.conversation.wait(timeout_s=WITHIN_S)).pending
        for name in before:
            await getattr(self, name)(key=f"before-{name}")
        return self

    async def claim(self, client_id="tab-1", *, key=key, on_detach="keep"):
        return await self.conversation.claim(self.call, client_id, on_detach=on_detach, request_id=key)

    async def give_back(self, client_id="tab-1", *, key=key):
        return await self.conversation.give_back(self.call, client_id, began=False, request_id=key)

    async def answer(self, client_id="tab-1", *, key=key):
        return await self.conversation.resolve(self.call, Answer(client_id), client_id=client_id, decision_id=key)

    async def approve(self, *, key=key):
        return await self.conversation.resolve(self.call, Approve(), decision_id=key)

    async def shown(self):
        """The call as it waits, once it does."""

        async def waits():
            return next(iter(await self.conversation.pending()), None)

        self.call = await true(waits, f"that {self.name} waits")
        return self.call

    async def handed_over(self):
        """The call as it waits for a client, once it does."""

        async def waits():
            return next((one for one in await self.conversation.pending() if one.kind == "client_exec"), None)

        self.call = await true(waits, f"that {self.name} waits for a client")
        return self.call

    async def ends(self, *, result):
        """Check that the call ends with this result, that everything was done once, and that nothing was lost; the log."""
        state = await self.conversation.wait(timeout_s=WITHIN_S)
        while state.status is not Status.IDLE:
            state = await self.conversation.wait(after=state.seq, timeout_s=WITHIN_S)
        assert state.reply == "Done."
        events = await self.oracle.at_rest(self.name)
        (resolved,) = [event for event in events if event.kind == "call_resolved"]
        assert result in resolved.content
        return events


@asynccontextmanager
async def present(waiting, *, tool="locate", on_detach="keep"):
    """A client that has claimed the call is present in this block, and leaves at its end; it is found gone a while later."""
    waiting.tool, store = tool, waiting.oracle.store
    one = Present(client_id="tab-1", tools=(tool,), on_detach=on_detach)

    async def renewed():
        while True:
            await store.attach(waiting.name, one)
            await asyncio.sleep(2)

    await waiting.begin()
    await store.attach(waiting.name, one)
    await waiting.claim(on_detach=on_detach)
    renewing = asyncio.create_task(renewed())
    try:
        yield
    finally:
        renewing.cancel()
        await asyncio.gather(renewing, return_exceptions=True)
        await store.detach(waiting.name, one.name)


async def taken_over(waiting):
    """Check that the call was given back once, and have another client carry it out; the log."""

    async def free():
        return (await waiting.shown()).claimed is None

    await true(free, f"that the claim on {waiting.name} ends")
    assert (await waiting.claim("tab-2", key="y-1")).attempt == 2
    await waiting.answer("tab-2", key="y-2")
    events = await waiting.ends(result='"tab-2"')
    (back,) = [event for event in events if event.kind == "call_given_back"]
    assert (back.by, back.client_id, back.began) == ("loss", "tab-1", True)
    return events


class Programs:
    """Programs that are attached to a conversation (`attached_client.py`)."""

    def __init__(self, waiting):
        self.waiting, self.processes = waiting, []

    async def start(self, client_id, *url):
        """Start a client, and wait until it is attached."""
        process = self.waiting.stack.python("-m", "attached_client", self.waiting.name, client_id, *url)
        self.processes.append(process)
        line = await asyncio.wait_for(asyncio.to_thread(process.stdout.readline), WITHIN_S)
        assert line.strip() == "attached", process.stderr.read()
        return process

    def open(self, client_id):
        """Let a client's handlers answer."""
        (self.waiting.stack.runs / f"{self.waiting.name}.{client_id}.gate").touch()

    async def handles(self, count):
        """Wait until so many handlers have begun; who began them."""

        async def began():
            found = self.waiting.oracle.handled(self.waiting.name)
            return found if len(found) >= count else None

        found = await true(began, f"that {count} handlers of {self.waiting.name} begin")
        return [(one["client_id"], one["attempt"]) for one in found]

    def close(self):
        for process in self.processes:
            process.send_signal(signal.SIGCONT)
            process.kill()
            process.communicate()
