"""The inbox in a real terminal against the stack, and over a server."""

import asyncio
import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
import time

from served import served
from tcp_proxy import TcpProxy

from holdfast.cli.inbox.app import Inbox
from holdfast.cli.options import Where
from holdfast.cli.session import Reached
from holdfast.cli.watching import Wanted
from holdfast.client import AsyncClient
from holdfast.testing import call, calls

ESCAPES = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")


class Terminal:
    """`holdfast inbox` in a terminal of its own."""

    def __init__(self, cli, *arguments, columns=160, lines=40):
        self._main, side = pty.openpty()
        fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        command = [sys.executable, "-m", "holdfast.cli", "inbox", *arguments]
        env = cli.env | {"TERM": "xterm-256color", "COLUMNS": str(columns), "LINES": str(lines)}  # pytest-xdist says 80 and 24
        self.process = subprocess.Popen(command, env=env, stdin=side, stdout=side, stderr=side, start_new_session=True)
        os.close(side)
        os.set_blocking(self._main, False)
        self.printed = ""

    def until(self, *words, within_s=60):
        """Wait until all words were printed since the last key."""
        deadline = time.monotonic() + within_s
        while not all(word in ESCAPES.sub("", self.printed) for word in words):
            assert time.monotonic() < deadline, ESCAPES.sub("", self.printed)
            try:
                self.printed += os.read(self._main, 65536).decode(errors="replace")
            except BlockingIOError:
                time.sleep(0.02)
            except OSError:  # it has ended
                self.process.wait(10)
                return

    def press(self, keys):
        """Type."""
        self.printed = ""
        os.write(self._main, keys.encode())

    def close(self):
        self.process.kill()
        self.process.wait(10)
        os.close(self._main)


def test_a_call_is_decided_in_a_terminal_and_its_turn_goes_on(cli):
    cli.scenario("inboxed", calls(call("refund", {"order": "\x1b]0;gotcha\x07A1", "amount": 42})), "Done as you said.")
    path = cli.file({"agent": "support", "messages": ["inboxed"], "conversation_id": "inbox-1"}, name="inboxed.jsonl")
    cli("submit", path, code=5)
    terminal = Terminal(cli, "--root", "inbox-1")
    try:
        terminal.until("1 wait", "Arguments", "Approve")
        assert "\x1b]0;gotcha" not in terminal.printed
        terminal.press("a")
        terminal.until("Reason, for the log")
        terminal.press("seen\r")
        terminal.until("approved by you")
        terminal.press("q")
        assert terminal.process.wait(30) == 0
    finally:
        terminal.close()

    assert cli.rested("inbox-1").reply == "Done as you said."


def test_an_unreachable_store_ends_it_with_its_exit_code(cli, tmp_path):
    terminal = Terminal(cli, "--redis-url", f"unix://{tmp_path}/nobody.sock")
    try:
        terminal.until("error: ", within_s=90)
        assert terminal.process.wait(30) == 4
    finally:
        terminal.close()


async def test_the_inbox_works_over_a_server():
    with served() as server:
        writer = await asyncio.to_thread(server.waiting, "c-1")
        async with AsyncClient.connect(url=server.url) as client:
            app = Inbox(Reached(client, None, Where()), Wanted({}))
            async with app.run_test(size=(200, 40)) as pilot, asyncio.timeout(30):
                while app.shown is None:
                    await pilot.pause(0.02)
                tool = app.shown.call.tool
                await pilot.press("d", *"no", "enter")
                while not any(one.ended for one in app.waiting.entries.values()):
                    await pilot.pause(0.02)
                await asyncio.to_thread(server.waiting, "c-2")
                while len(app.waiting.entries) < 4:
                    await pilot.pause(0.02)
                (ended,) = [one for one in app.waiting.entries.values() if one.ended]

    assert (ended.call.tool, ended.ended) == (tool, "denied by you")
    assert len(writer.suspension_ids) == 1


async def test_a_server_that_is_away_is_said_and_what_waits_is_there_once_it_is_back(monkeypatch):
    monkeypatch.setattr("holdfast.cli.inbox.waiting.FIRST_S", 0.1)
    with served() as server:
        await asyncio.to_thread(server.waiting, "c-1")
        async with TcpProxy(server.port) as proxy, AsyncClient.connect(url=proxy.url, timeout_s=1) as client:
            app = Inbox(Reached(client, None, Where()), Wanted({}))
            async with app.run_test(size=(200, 40)) as pilot, asyncio.timeout(60):
                while app.shown is None:
                    await pilot.pause(0.02)
                await proxy.go()
                while not app.waiting.problem:
                    await pilot.pause(0.02)
                said = app.waiting.problem
                await asyncio.to_thread(server.waiting, "c-2")
                proxy.come()
                while app.waiting.problem or len(app.waiting.entries) < 4:
                    await pilot.pause(0.02)

    assert "unavailable" in said
