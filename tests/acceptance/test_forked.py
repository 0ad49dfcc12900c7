"""Processes forked from one that has joined Ray: they read, their commands are refused at once, and they end by themselves."""

import http.client
import json
import os
import signal
import socket
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

SUPPORT = Path(__file__).parents[1] / "support"

IN_CHILD = """
import json, os, sys, time
from holdfast.client import Client

with Client.connect("shop_app:app", timeout_s=60) as client:
    client.start("support", "forked", conversation_id="forked-parent").wait(timeout_s=60)
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        said = []
        for tried in (client, Client.connect("shop_app:app", timeout_s=60)):
            said.append([row.conversation_id for row in tried.conversations(limit=500).items].count("forked-parent"))
            began = time.monotonic()
            try:
                tried.start("support", "forked", conversation_id="forked-child")
            except Exception as error:
                said.append([type(error).__name__, str(error), time.monotonic() - began < 20])
        os.write(write, json.dumps(said).encode())
        sys.exit(7)
    os.close(write)
    said = json.loads(os.fdopen(read).read())
    give_up = time.monotonic() + 30
    while (ended := os.waitpid(pid, os.WNOHANG))[0] == 0 and time.monotonic() < give_up:
        time.sleep(0.05)
    if not ended[0]:
        os.kill(pid, 9)
    status = os.waitstatus_to_exitcode(ended[1]) if ended[0] else "hangs"
    after = client.start("support", "forked", conversation_id="forked-after").wait(timeout_s=60).reply
    print(json.dumps([said, status, after]))
"""


@pytest.fixture
def python_path(stack, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(SUPPORT))


@pytest.mark.gate
def test_in_a_forked_child_clients_read_and_commands_are_refused_with_the_fix_and_the_parent_goes_on(stack, python_path):
    stack.scenarios.add("forked", "Hello.")

    with stack.python("-c", IN_CHILD) as process:
        out, err = process.communicate(timeout=180)

    assert process.returncode == 0, err
    (read, used, read_anew, fresh), status, after = json.loads(out.splitlines()[-1])
    assert (read, read_anew) == (1, 1)
    for name, message, at_once in (used, fresh):
        assert name == "ConfigurationError"
        assert "post_fork" in message
        assert at_once
    assert status == 7
    assert after == "Hello."


@contextmanager
def gunicorn(stack, use):
    """A gunicorn of two workers, the application loaded before they are forked; its port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    os.environ["PRELOADED_USE"] = use
    options = ("--preload", "--workers=2", "--threads=2", "--timeout=120", f"--bind=127.0.0.1:{port}", "--no-control-socket")
    with stack.python("-m", "gunicorn", *options, "preloaded:application") as server:
        try:
            yield port
        finally:
            os.environ.pop("PRELOADED_USE")
            server.send_signal(signal.SIGTERM)
            server.communicate(timeout=90)


def got(port, path, *, within_s=120):
    """What a worker says, as soon as the server is there."""
    give_up = time.monotonic() + within_s
    while True:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=90)
        try:
            connection.request("GET", path)
            return json.loads(connection.getresponse().read())["said"]
        except ConnectionRefusedError:
            assert time.monotonic() < give_up, "gunicorn does not listen"
            time.sleep(0.1)
        finally:
            connection.close()


@pytest.mark.parametrize("use", ["nothing", "read"])
def test_workers_of_a_preloaded_gunicorn_command_with_a_client_that_only_read_before(stack, python_path, use):
    stack.scenarios.add("preloaded", "Hello.")

    with gunicorn(stack, use) as port:
        assert isinstance(got(port, "/read"), int)
        assert [got(port, f"/start/preloaded-{use}-{number}") for number in range(4)] == ["Hello."] * 4


def test_workers_of_a_preloaded_gunicorn_read_and_refuse_commands_when_it_joined_ray_before(stack, python_path):
    stack.scenarios.add("preloaded", "Hello.")

    with gunicorn(stack, "command") as port:
        assert got(port, "/read") >= 1
        for number in range(4):
            name, message = got(port, f"/start/preloaded-refused-{number}")
            assert name == "ConfigurationError"
            assert "post_fork" in message
