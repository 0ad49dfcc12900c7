"""The application on a real uvicorn, in a thread, over a store in memory."""

import asyncio
import contextlib
import threading

import uvicorn
from stack_fixture import eventually
from stores import WithActors
from writer import Writer, begin, call, start

from holdfast.agent import Agent, App, tool
from holdfast.client import AsyncClient
from holdfast.client.stack_gateway import StackGateway
from holdfast.persistence import MemoryStore
from holdfast.server import Authentication, Bounds, create_app
from holdfast.server.app import drain
from holdfast.server.connections import Connections
from holdfast.server.listening import open_socket


@tool(approval="required")
def refund(order: str) -> str:
    """Refund an order."""
    return order


class Served:
    """A server in a thread with a loop of its own; `run` does something there."""

    def __init__(self, bounds, client=None, authentication=None):
        self.store = MemoryStore()
        self.stack = WithActors(self.store, app=App(agents=[Agent(name="desk", tools=[refund])]))
        self.client = client or AsyncClient(StackGateway(self.stack, timeout_s=30))
        self.app = create_app(self.client, bounds=bounds, authentication=authentication or Authentication(anyone=True))
        self._socket = open_socket("127.0.0.1", 0)
        self.port = self._socket.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.connections = Connections.of(self.app)
        options = {"http": self.connections.protocol, "log_config": None, "log_level": "critical"}
        config = uvicorn.Config(self.app, lifespan="off", timeout_graceful_shutdown=5, **options)
        self._server = uvicorn.Server(config)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def _serve(self):
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._kept())
        self._loop.close()

    async def _kept(self):
        async with self.connections.kept():
            await self._server.serve(sockets=[self._socket])

    @property
    def streams(self):
        """How many event streams are open."""
        return len(self.app.state.serving.streams)

    def close(self, client):
        """Close a client, once no stream uses it any more: it would open its store again."""
        eventually(lambda: self.streams == 0, 30, "no stream")
        self.run(client.aclose())

    def drain(self):
        """End the streams, as `holdfast serve` does before it ends."""
        self._loop.call_soon_threadsafe(drain, self.app)

    def run(self, work):
        """The result of some work in the server's loop."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    def waiting(self, name, text="hello"):
        """The writer of a conversation that waits for two decisions."""

        async def written():
            writer = self.stack.writers[name] = await Writer.of(self.store, name)
            await writer.do(start(text), begin(), call(("refund", '{"order": 7}'), "ask"))
            return writer

        return self.run(written())

    def __enter__(self):
        self._thread.start()
        eventually(lambda: self._server.started, 30, "a server that listens")
        return self

    def __exit__(self, *_):
        self._server.should_exit = True
        self._thread.join(30)


@contextlib.contextmanager
def served(client=None, authentication=None, **bounds):
    """A server with these bounds, before a client of its own or the given one; it asks nobody who they are unless told to."""
    with Served(Bounds(**bounds), client, authentication) as running:
        yield running
