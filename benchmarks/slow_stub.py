"""A stub model that takes its time, as a process of its own: `python -m benchmarks.slow_stub`.

It speaks OpenAI's streamed chat completions over plain HTTP, by hand: a thousand streams that wait cost it a timer each and
next to no processor time, which the system under test needs on the same machine. The last message of a request says which
conversation it is of, and requests are counted by it. The answer comes `delay_s` after the request; where the message begins
with `HELD`, it comes at the release. The first tool of a request that is in `ROUNDS` is called so often before the answer.

`POST /control` takes `{"delay_s": 5}`, `{"release": true}` and `{"forget": true}`, all of them optional; its answer says how
many streams are open, how many were at most, and how many requests each conversation has made.
"""

import asyncio
import json
import signal
from collections import Counter
from functools import cache
from typing import Any

import uvloop

from holdfast.testing import call, calls, say
from holdfast.testing.transcripts import Completion

ANSWER = "Thank you."
HELD = "held"
BACKLOG = 4096
ROUNDS = {"look": 3, "ask": 1}
"""How many tool rounds a turn has, by the name of the tool."""
_ASKED = {"model": "gpt-4o-mini", "stream_options": {"include_usage": True}}
_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


def _chunked(body: bytes) -> bytes:
    return f"{len(body):x}\r\n".encode() + body + b"\r\n"


@cache
def _stream(tool: str, number: int) -> bytes:
    """A turn's model answer of this number, counted from 0."""
    more = number < ROUNDS.get(tool, 0)
    completion = Completion(_ASKED, calls(call(tool, {"question": str(number)})) if more else say(ANSWER))
    return b"".join(_chunked(frame) for frame in [*completion.frames(), completion.end]) + b"0\r\n\r\n"


class Model:
    """What all connections share: the delay, what is held, and the counts."""

    def __init__(self) -> None:
        self.delay_s = 0.0
        self.requests: Counter[str] = Counter()
        self.open = self.most_open = self.answered = 0
        self._held: list[asyncio.Future[None]] = []
        self._released = False

    async def answer(self, conversation: str) -> None:
        """Count the request, and wait until its answer is due."""
        self.requests[conversation] += 1
        self.open += 1
        self.most_open = max(self.most_open, self.open)
        try:
            if conversation.startswith(HELD) and not self._released:
                held = asyncio.get_running_loop().create_future()
                self._held.append(held)
                await held
            elif self.delay_s:
                await asyncio.sleep(self.delay_s)
            self.answered += 1
        finally:
            self.open -= 1

    def control(self, wishes: dict[str, Any]) -> None:
        """Do what a control request asks for."""
        if wishes.get("forget"):
            self.requests.clear()
            self.most_open, self.answered, self._released = self.open, 0, False
        self.delay_s = float(wishes.get("delay_s", self.delay_s))
        if wishes.get("release"):
            self._released = True
            for held in self._held:
                if not held.done():
                    held.set_result(None)
            self._held.clear()

    def state(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "open": self.open,
            "most_open": self.most_open,
            "answered": self.answered,
            "requests": dict(self.requests),
        }


async def serve(model: Model, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """One connection, request after request."""
    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            body = await reader.readexactly(_length(head))
            if b"/chat/completions" in head.partition(b"\r\n")[0]:
                writer.write(_HEAD)
                asked = json.loads(body)
                await model.answer(conversation_of(asked))
                tools = [tool["function"]["name"] for tool in asked.get("tools") or ()] or [""]
                writer.write(_stream(tools[0], sum(message.get("role") == "tool" for message in asked["messages"])))
            else:
                model.control(json.loads(body or b"{}"))
                told = json.dumps(model.state()).encode()
                about = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(told)}\r\n\r\n"
                writer.write(about.encode() + told)
    except (asyncio.IncompleteReadError, ConnectionError):  # the client has hung up
        pass
    finally:
        writer.close()


def conversation_of(body: dict[str, Any]) -> str:
    """Whose request it is: the text of its last message."""
    return str(body["messages"][-1]["content"])


def _length(head: bytes) -> int:
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            return int(value)
    return 0


async def main() -> None:
    """Print the URL and serve until SIGTERM."""
    model, ended = Model(), asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    server = await asyncio.start_server(lambda reader, writer: serve(model, reader, writer), "127.0.0.1", 0, backlog=BACKLOG)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", flush=True)
    await ended.wait()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())
