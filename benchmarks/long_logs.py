"""A page of a conversation's messages, one turn, and one event to an open page, by how many turns the conversation has."""

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
from redis_server import RedisServer
from stores import InMemory
from writer import Writer, begin, call, finish, reply, send, start

from benchmarks.result import Part, Row, Table, number
from holdfast.client import AsyncClient, AsyncConversation
from holdfast.client.stack_gateway import StackGateway
from holdfast.persistence import RedisStore
from holdfast.server import Authentication, create_app

PAGE = 50
AT_MOST = 1.5
"""What a page or an event may take at the last size, of what it takes at the first one."""
SHORT, LONG = "x" * 200, "y" * 1000
"""Texts of a user's message or of a result, and of an answer."""
WARM_UP = 3
LAST, MIDDLE, TURN, MESSAGE = (
    "the last page of 50 messages",
    "a page of 50 in the middle",
    "a turn in the middle",
    "its message",
)
ELEMENTS, INBOX = "an event to an open page of yours", "an event to an open page of the inbox"
GOALS = (LAST, MIDDLE, ELEMENTS, INBOX)


async def talked(store: RedisStore, name: str, turns: int) -> None:
    """A conversation of so many turns, each of two rounds with a call and of an answer: six messages."""
    writer = await Writer.of(store, name)
    for turn in range(turns):
        text = f"{turn} {SHORT}"
        opening = start(text, message_id="m-0") if turn == 0 else send(text, message_id=f"m-{turn}")
        await writer.do(opening, begin())
        for _ in range(2):
            await writer.do(call("lookup", content=LONG))
            await writer.do(finish(content=SHORT))
        await writer.do(reply(LONG))
    await writer.release()


async def asked(
    conversation: AsyncConversation, http: httpx.AsyncClient, turns: int
) -> dict[str, Callable[[], Awaitable[Any]]]:
    """What is measured, by its name."""
    again = (await conversation.messages_page(limit=PAGE, before="end")).again
    middle = (await conversation.turns_page(limit=turns // 2)).next if turns > 1 else None
    path = f"/v1/conversations/{conversation.id}"

    async def elements() -> None:
        await got(http, path)
        await got(http, f"{path}/messages?limit=1000&after={again}")

    async def page(limit: int = PAGE, **place: str | None) -> None:
        found = await conversation.messages_page(limit=limit, **place)
        assert len(found.items) == limit, found

    return {
        LAST: lambda: page(before="end"),
        MIDDLE: lambda: page(before=middle) if turns > 20 else page(after=None),
        TURN: lambda: conversation.turn(f"t{turns // 2}"),
        MESSAGE: lambda: conversation.message(f"m-{turns // 2 - 1}"),
        ELEMENTS: elements,
        INBOX: lambda: got(http, f"/conversations/{conversation.id}/now"),
    }


async def got(http: httpx.AsyncClient, path: str) -> None:
    """A reply of the server."""
    found = await http.get(path)
    assert found.status_code == 200, (path, found.text)


async def measured(sizes: list[int], rounds: int) -> dict[int, dict[str, list[tuple[float, float]]]]:
    """Milliseconds of the clock and of the processor that each took at each size, in turns."""
    with RedisServer() as server:
        store = RedisStore(server.url)
        await store.open()
        client = AsyncClient(StackGateway(InMemory(store), timeout_s=60))
        app = create_app(client, authentication=Authentication(anyone=True))
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1:8484", timeout=60) as http:
            work = {}
            for turns in sizes:
                await talked(store, f"long-{turns}", turns)
                work[turns] = await asked(client.conversation(f"long-{turns}"), http, turns)
            samples = {turns: {name: list[tuple[float, float]]() for name in work[turns]} for turns in sizes}
            for turn in range(rounds + WARM_UP):
                for turns in sizes:
                    for name, one in work[turns].items():
                        began, cpu = time.perf_counter(), time.process_time()
                        await one()
                        took = (time.perf_counter() - began) * 1000, (time.process_time() - cpu) * 1000
                        if turn >= WARM_UP:
                            samples[turns][name].append(took)
        await store.close()
    return samples


def measure(*, quick: bool) -> Part:
    """Rows of processor time: the last size against the first one."""
    sizes, rounds = ([10, 100], 10) if quick else ([10, 100, 1_000], 50)
    samples = asyncio.run(measured(sizes, rounds))
    wall, cpu = ({turns: _medians(found, place) for turns, found in samples.items()} for place in (0, 1))
    first, last = sizes[0], sizes[-1]
    return Part(
        rows=[
            Row(
                f"{name} at turn {last:,}, against turn {first:,} (processor time, p50)",
                cpu[last][name],
                "ms",
                cpu[first][name],
                cpu[last][name] / cpu[first][name],
                AT_MOST,
                rounds,
            )
            for name in GOALS
        ],
        tables=[
            Table(
                "Reading a long conversation, by its turns (p50, processor time in brackets)",
                ["what", *(f"{turns:,} turns" for turns in sizes)],
                [
                    [name, *(f"{number(wall[turns][name])} ms ({number(cpu[turns][name])} ms)" for turns in sizes)]
                    for name in samples[first]
                ],
            )
        ],
        raw={str(turns): found for turns, found in samples.items()},
    )


def _medians(samples: dict[str, list[tuple[float, float]]], place: int) -> dict[str, float]:
    return {name: statistics.median(one[place] for one in each) for name, each in samples.items()}
