"""A program that carries out calls as a client, each once a gate is open: `CONVERSATION CLIENT [URL]`.

It writes each call down when its handler begins. Its gate is a file `<conversation>.<client>.gate` beside that.
"""

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from holdfast import AsyncClient, AsyncConversation, ClientContext


@contextlib.asynccontextmanager
async def attached(conversation: AsyncConversation, handlers: Any, **how: Any) -> "AsyncIterator[asyncio.Task[None]]":
    """A client of this process that is attached, and carries calls out meanwhile."""
    async with conversation.attach(handlers, **how) as found:
        work = asyncio.create_task(found.serve())
        try:
            yield work
        finally:
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)


def noting(conversation_id: str, client_id: str) -> Any:
    """A handler that writes down that it began, and answers with its client's id once its gate is open."""

    runs = Path(os.environ["HOLDFAST_TEST_RUNS"])

    async def handle(_arguments: dict[str, Any], context: ClientContext) -> str:
        began = {"key": context.call.tool_call_id, "attempt": context.attempt, "client_id": client_id}
        with (runs / f"{conversation_id}.handled").open("a") as log:
            log.write(json.dumps(began) + "\n")
        while not (runs / f"{conversation_id}.{client_id}.gate").exists():
            await asyncio.sleep(0.02)
        return client_id

    return handle


async def main(conversation_id: str, client_id: str, url: str | None = None) -> None:
    """Carry out what waits until the conversation has ended."""
    handler = noting(conversation_id, client_id)
    async with AsyncClient.connect(url=url, timeout_s=90) as client:
        attached = client.conversation(conversation_id).attach({"locate": handler, "stamp": handler}, client_id=client_id)
        async with attached:
            print("attached", flush=True)  # noqa: T201 - whoever started it waits for this
            await attached.serve()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
