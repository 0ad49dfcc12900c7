"""The processes of the benchmark of conversations in flight: the stub model, and who drives a system."""

import contextlib
import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.stack import ROOT

END_WITHIN_S = 40.0


class Stub:
    """The stub model's process, from outside."""

    def __init__(self, url: str) -> None:
        self.url = url

    def control(self, **wishes: Any) -> dict[str, Any]:
        """Set the delay, release what is held, forget the counts; the state after that."""
        request = urllib.request.Request(self.url.removesuffix("/v1") + "/control", json.dumps(wishes).encode())  # noqa: S310
        with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310 - our own server
            return dict(json.load(answer))


@contextlib.contextmanager
def model() -> Iterator[Stub]:
    """The stub model in a process of its own, until the end."""
    command = [sys.executable, "-m", "benchmarks.slow_stub"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield Stub(process.stdout.readline().strip())
        finally:
            process.terminate()


class Driven:
    """A process that drives one system through one part, and stops at its marks."""

    def __init__(self, process: subprocess.Popen[str], what: str) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._process, self._what = process, what
        self._to, self._from = process.stdin, process.stdout
        self.pid = process.pid

    def until(self, mark: str) -> dict[str, Any]:
        """What it says at its next mark, which must be this one.

        Raises:
            RuntimeError: It has ended.
        """
        line = self._from.readline()
        if not line:
            message = f"{self._what} ended with {self._process.wait()}"
            raise RuntimeError(message)
        said = json.loads(line)
        assert said["mark"] == mark, said
        return dict(said)

    def go_on(self, **order: Any) -> None:
        """Let it go on from its mark, with an order where it takes one."""
        self._to.write((json.dumps(order) if order else "") + "\n")
        self._to.flush()

    def end(self) -> None:
        """Wait until it has ended by itself."""
        self._to.close()
        self._process.wait(END_WITHIN_S)


@contextlib.contextmanager
def driven(
    system: str, verb: str, folder: Path, url: str, *options: str, python: str = sys.executable, settings: dict[str, str]
) -> Iterator[Driven]:
    """Start the process, which is over in the end. With another interpreter than this one, it is a peer's."""
    peer = python != sys.executable
    module = [str(ROOT / "peers" / "in_flight_peer.py")] if peer else ["-m", "benchmarks.flight_driver"]
    env = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        **settings,
        "HOLDFAST_HOME": str(folder),
        "OPENAI_API_BASE": url,
        "OPENAI_API_KEY": "x",
    }
    pipe = subprocess.PIPE
    command = [python, *module, system, verb, *options]
    with subprocess.Popen(command, env=env, cwd=folder if peer else ROOT, stdin=pipe, stdout=pipe, text=True) as process:
        try:
            driver = Driven(process, f"{system}: {verb}")
            yield driver
            driver.end()
        finally:
            process.kill()
