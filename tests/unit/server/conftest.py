"""An application over a store in memory, called without a socket."""

import asyncio
import json
from contextlib import asynccontextmanager

import httpx
import pytest
from stores import WithActors
from writer import DESK, Writer, begin, call, start

from holdfast.agent import Agent, App, tool
from holdfast.client import AsyncClient
from holdfast.client.stack_gateway import StackGateway
from holdfast.persistence import MemoryStore
from holdfast.server import Authentication, create_app

OPEN = Authentication(anyone=True)
HERE = "http://127.0.0.1:8484"


@tool(approval="required")
def refund(order: str) -> str:
    """Refund an order."""
    return order


class Api:
    """The application as a client of HTTP calls it."""

    def __init__(self, app):
        self.app = app
        self.http = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=HERE)

    async def __call__(self, method, path, status=200, **options):
        """The body of a reply, which must have that status."""
        found = await self.http.request(method, path, **options)
        assert found.status_code == status, (found.status_code, found.text)
        assert status < 400 or found.headers["content-type"] == "application/problem+json"
        assert found.headers["x-content-type-options"] == "nosniff"
        return found.json()

    @asynccontextmanager
    async def stream(self, method, path, *, body=None, **headers):
        """An open event stream."""
        opened = Stream(self.app, method, path, json.dumps(body).encode() if body is not None else b"", headers)
        try:
            yield await opened.begun()
        finally:
            await opened.leave()


class Stream:
    """One stream: what the application sends, as it is taken in; `taking` says whether it is."""

    def __init__(self, app, method, path, body, headers):
        path, _, query = path.partition("?")
        given = {"host": "127.0.0.1", "content-type": "application/json"} | headers
        self.scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.4"},
            "method": method,
            "path": path,
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "scheme": "http",
            "headers": [(name.replace("_", "-").encode(), value.encode()) for name, value in given.items()],
            "root_path": "",
        }
        self.status = None
        self.headers = {}
        self.raw = b""
        self.complete = False
        self.taking = asyncio.Event()
        self.taking.set()
        self._body = [{"type": "http.request", "body": body, "more_body": False}]
        self._left = asyncio.Event()
        self._changed = asyncio.Event()
        self.task = asyncio.ensure_future(app(self.scope, self._receive, self._send))

    async def _receive(self):
        if self._body:
            return self._body.pop()
        await self._left.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message):
        await self.taking.wait()
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = {name.decode(): value.decode() for name, value in message["headers"]}
        else:
            self.raw += message["body"]
            self.complete = not message.get("more_body", False)
        self._changed.set()

    async def begun(self):
        await self.until(lambda: self.status is not None)
        return self

    async def until(self, condition):
        async with asyncio.timeout(20):
            while not condition():
                self._changed.clear()
                await self._changed.wait()

    @property
    def frames(self):
        """The whole frames so far, each with its fields."""
        parts = self.raw.decode().split("\n\n")[:-1]
        return [dict(line.split(": ", 1) for line in part.split("\n") if not line.startswith(":")) for part in parts]

    @property
    def events(self):
        """The events so far: kind, cursor and data."""
        told = [one for one in self.frames if "event" in one]
        return [(one["event"], int(one["id"]) if "id" in one else None, json.loads(one["data"])) for one in told]

    async def leave(self):
        self._left.set()
        async with asyncio.timeout(20):
            await self.task


@pytest.fixture
def store():
    return MemoryStore()


@pytest.fixture
def app_of_desk():
    return App(agents=[Agent(name="desk", tools=[refund])])


@pytest.fixture
def stack(store, app_of_desk):
    return WithActors(store, app=app_of_desk)


@pytest.fixture
def client(stack):
    return AsyncClient(StackGateway(stack, timeout_s=30))


@pytest.fixture
async def api(client):
    opened = Api(create_app(client, authentication=OPEN))
    async with opened.http:
        yield opened


@pytest.fixture
async def waiting(store, stack):
    """The writer of a conversation that waits for an approval and an answer."""
    writer = await Writer.of(store, "c-1")
    writer.spec = DESK
    await writer.do(start(message_id="m-1"), begin(), call(("refund", '{"order": 7}'), "ask", prompt="Refund 7?"))
    stack.writers["c-1"] = writer
    return writer
