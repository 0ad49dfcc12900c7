"""Conversations made through the store itself, with the machine's own judgements: as an actor does it, without Ray."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from writer import NextCommand, Writer, begin, call, reply, resolve, send, start

from benchmarks import stack
from benchmarks.bench_app import app
from holdfast.client import Answer, AsyncClient
from holdfast.conversation import AgentSpec, Approvers
from holdfast.conversation.records.commands import ProposedCall
from holdfast.persistence import RedisStore

SPEC = app.agents[0].spec
AT_ONCE = 64
QUESTION = '{"question":"0"}'


@asynccontextmanager
async def opened(home: Path, namespace: str = "holdfast") -> AsyncIterator[tuple[AsyncClient, RedisStore]]:
    """A client that needs Redis only, and its store."""
    async with AsyncClient.connect(stack.APP, home=home, namespace=namespace, timeout_s=120) as client:
        yield client, await client.gateway.stack.store()


def started(agent: str = "bench", text: str = "turn 1") -> NextCommand:
    """Start the conversation, of the benchmarks' app."""
    return lambda state: start(text, agent=agent, app=stack.APP, message_id=f"start:{state.conversation_id}")(state)


async def suspended(
    store: RedisStore,
    name: str,
    *,
    spec: AgentSpec = SPEC,
    tool: str = "ask",
    approvers: Approvers | None = None,
    calls: int = 1,
) -> Writer:
    """A conversation in its first turn that waits for one call or several, and that nobody hosts."""
    writer = await Writer.of(store, name)
    writer.spec = spec
    terms = None if approvers is None else approvers.terms
    asked = ProposedCall(tool_call_id="", name=tool, arguments=QUESTION, approvers=terms)
    asked_for = (asked.model_copy(update={"tool_call_id": f"call-{name}-{one}"}) for one in range(calls))
    for step in (started(spec.name), begin(), call(*asked_for)):
        await writer.do(step)
    await writer.release()
    return writer


async def whole_turn(writer: Writer, *, first: bool = False) -> None:
    """A turn with one answered call, each command an append of its own."""
    opening = started() if first else send("turn 1")
    for step in (opening, begin(), call(("ask", QUESTION)), resolve(Answer("yes")), reply("Thank you.")):
        await writer.do(step)


async def used_memory(store: RedisStore) -> int:
    """What Redis holds, in bytes, less the buffers of its connections and of its file."""
    memory = await store._redis.info("memory")
    return memory["used_memory"] - memory["mem_clients_normal"] - memory["mem_aof_buffer"]


async def written_bytes(store: RedisStore) -> int:
    """How long the append-only file is."""
    return (await store._redis.info("persistence"))["aof_current_size"]


async def bytes_of(store: RedisStore, name: str) -> int:
    """What the conversation's own keys take."""
    keys = [store._keys.head(name), store._keys.log(name), store._keys.known(name), store._keys.runs(name)]
    return sum([await store._redis.memory_usage(key, samples=0) or 0 for key in keys])


async def side_by_side(work: Iterable[Any], progress: Any) -> None:
    """Await what the iterable yields, many at once."""
    waiting = iter(work)

    async def one_after_another() -> None:
        for one in waiting:
            await one
            progress()

    async with asyncio.TaskGroup() as group:
        for _ in range(AT_ONCE):
            group.create_task(one_after_another())
