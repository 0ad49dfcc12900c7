"""`holdfast serve` as a process of its own, as a user starts it, and a client of HTTP for it."""

import asyncio
import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import httpx

SUPPORT = Path(__file__).parent
WITHIN_S = 60


class Server:
    """A server process, and a client of HTTP for it."""

    def __init__(self, process, url):
        self.process = process
        self.url = url
        self.http = httpx.AsyncClient(base_url=url, timeout=WITHIN_S)

    async def __call__(self, method, path, status=200, **options):
        found = await self.http.request(method, path, **options)
        assert found.status_code == status, found.text
        return found.json()

    @contextlib.asynccontextmanager
    async def stream(self, method, path, **options):
        """An open event stream, as an iterator over (kind, cursor, data)."""
        async with self.http.stream(method, path, **options) as response:
            assert response.status_code in (200, 201), await response.aread()
            yield told(response)

    async def rested(self, name, after):
        """The state of a conversation when it rests for nobody."""
        async with asyncio.timeout(WITHIN_S):
            while True:
                state = await self("GET", f"/v1/conversations/{name}?wait_s=20&after={after}")
                if state["status"] in ("idle", "failed", "ended"):
                    return state

    def end(self, number):
        self.process.send_signal(number)
        return self.process.wait(WITHIN_S)


async def told(response):
    fields = {}
    async for line in response.aiter_lines():
        name, _, value = line.partition(": ")
        if name:
            fields[name] = value
        elif line == "" and "event" in fields:
            cursor = int(fields["id"]) if "id" in fields else None
            yield fields["event"], cursor, json.loads(fields["data"])
            fields = {}
        elif line == "":
            fields = {}


async def until(events, kind, seen=None):
    """The data of the next event of that kind; what comes before it, and itself, is added to `seen`."""
    async with asyncio.timeout(WITHIN_S):
        async for found in events:
            if seen is not None:
                seen.append(found)
            if found[0] == kind:
                return found[2]
    message = f"the stream ended without {kind}"
    raise AssertionError(message)


def mishaps(written):
    """What a server wrote beside its lines of what it did."""
    return [line for line in written.splitlines() if '"level": "INFO"' not in line]


def server_process(stack, *options):
    """The process; its log goes to a file, which `stderr` reads: a pipe that nobody reads fills up, and the server hangs."""
    with tempfile.NamedTemporaryFile("w", encoding="utf-8") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "holdfast.cli", "serve", "--port", "0", "--app", "shop_app:app", *options],
            env={**os.environ, **stack.env, "PYTHONPATH": str(SUPPORT)},
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
        process.stderr = Path(log.name).open(encoding="utf-8")  # noqa: SIM115 - the process closes it
    return process


@contextlib.asynccontextmanager
async def serving(stack, *options):
    with server_process(stack, "--no-auth", *options) as process:
        try:
            line = await asyncio.wait_for(asyncio.to_thread(process.stdout.readline), WITHIN_S)
            url = re.search(r"http://127\.0\.0\.1:\d+", line)
            assert url, process.stderr.read()
            server = Server(process, url[0])
            async with server.http:
                yield server
        finally:
            process.kill()
