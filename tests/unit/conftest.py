"""Unit tests touch nothing outside: no socket connects, Ray does not start, no model is called."""

import asyncio
import gc
import os
import signal
import socket
import sys

import pytest
from hypothesis import settings

settings.register_profile(
    "unit",
    deadline=None,
    database=None,  # the examples are found anew; nothing is written into the tree
    max_examples=100,
    derandomize="CI" in os.environ,
    print_blob=True,
)
settings.load_profile("unit")


class OutsideWorld(AssertionError):
    """A unit test tried to leave the process."""


def _forbidden(what):
    def refuse(*_args, **_kwargs):
        message = f"a unit test must not {what}"
        raise OutsideWorld(message)

    return refuse


@pytest.fixture(autouse=True)
def no_connections(monkeypatch):
    for name in ("connect", "connect_ex"):
        monkeypatch.setattr(socket.socket, name, _forbidden("connect a socket"))


@pytest.fixture(autouse=True)
def no_ray(monkeypatch):
    ray = sys.modules.get("ray")
    if ray is not None:
        monkeypatch.setattr(ray, "init", _forbidden("start or join Ray"))


@pytest.fixture(autouse=True)
def no_models(monkeypatch):
    litellm = sys.modules.get("litellm")
    if litellm is not None:
        for name in ("completion", "acompletion"):
            monkeypatch.setattr(litellm, name, _forbidden("call a model"))


@pytest.fixture(autouse=True)
def no_load(monkeypatch):
    """Whatever else this machine has to do."""
    monkeypatch.setattr(os, "getloadavg", lambda: (0.0, 0.0, 0.0))


@pytest.fixture
async def skip(monkeypatch):
    """Lets so many seconds of the loop's clock pass at once."""
    loop = asyncio.get_running_loop()
    time, skipped = loop.time, [0.0]
    monkeypatch.setattr(loop, "time", lambda: time() + sum(skipped))
    return skipped.append


@pytest.fixture
def promptly():
    """Bounds the CPU time of work that must not hang; a guard, not a measurement. No garbage is collected meanwhile."""

    def overdue(_signal, _frame):
        message = "it hangs"
        raise TimeoutError(message)

    gc.disable()
    before = signal.signal(signal.SIGPROF, overdue)
    signal.setitimer(signal.ITIMER_PROF, 2)
    yield
    signal.setitimer(signal.ITIMER_PROF, 0)
    signal.signal(signal.SIGPROF, before)
    gc.enable()
