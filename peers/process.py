"""Running a contender: a script in its own environment, one verb, one line of JSON."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.stack import ROOT, console
from peers.environment import HERE, python


@dataclass(frozen=True, slots=True)
class Contender:
    """One system over one store."""

    name: str
    script: str
    peer: bool
    """Whether it runs in the peers' environment; else in this one."""
    store: str
    """What is given as `--store`."""


def run(contender: Contender, verb: str, model_url: str, **options: Any) -> dict[str, Any]:
    """Run a verb to its end; what it printed."""
    with started(contender, verb, model_url, **options) as (process, result):
        process.stdin.close()
        if process.wait() != 0:
            message = f"{contender.name}: {verb} ended with {process.returncode}"
            raise RuntimeError(message)
    return result


def killed(contender: Contender, verb: str, model_url: str, **options: Any) -> dict[str, Any]:
    """Run a verb, and kill -9 its process as soon as it has printed; also those that it names."""
    with started(contender, verb, model_url, **options) as (process, result):
        process.kill()
        for pid in result.get("pids", ()):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    return result


@contextlib.contextmanager
def started(
    contender: Contender,
    verb: str,
    model_url: str,
    *,
    prefix: str,
    count: int,
    levels: Sequence[int] = (1,),
    warm_s: float = 1.0,
) -> Iterator[tuple[subprocess.Popen, dict[str, Any]]]:
    """Start a verb and wait for what it prints."""
    command = [
        python() if contender.peer else sys.executable,
        str(HERE / contender.script),
        verb,
        "--model-url",
        model_url,
        "--store",
        contender.store,
    ]
    command += ["--prefix", prefix, "--count", str(count), "--levels", *map(str, levels), "--warm-s", str(warm_s)]
    env = {**os.environ, **({} if contender.peer else {"PYTHONPATH": str(ROOT)})}
    pipe = subprocess.PIPE
    with (
        console.status(f"{contender.name}: {verb}") as status,
        subprocess.Popen(command, env=env, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process,
    ):
        lines: list[str] = []

        def follow() -> None:
            for line in process.stderr:
                lines.append(line)
                status.update(f"{contender.name}: {line.strip()[:100]}")

        thread = threading.Thread(target=follow, daemon=True)
        thread.start()
        try:
            printed = process.stdout.readline()
            if not printed.strip():
                thread.join(5)
                message = f"{contender.name}: {verb} failed\n{''.join(lines[-30:])}"
                raise RuntimeError(message)
            yield process, json.loads(printed)
        finally:
            process.kill()
