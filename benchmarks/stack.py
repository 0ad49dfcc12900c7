"""What a benchmark runs on: a Redis and a Ray of its own in a home that goes afterwards, and the stub model's process."""

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console

from holdfast.embedded.home import Home
from holdfast.embedded.local_ray import stop_ray
from holdfast.embedded.local_redis import stop_redis

ROOT = Path(__file__).parents[1]
OUT = Path(__file__).parent / "out"
APP = "benchmarks.bench_app:app"
console = Console()

# Where byte code is not kept, every process compiles what it imports, and a cold actor costs that each time.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


@contextlib.contextmanager
def home() -> Iterator[Path]:
    """A temporary home for the embedded stack, which is stopped and removed in the end."""
    folder = Path(tempfile.mkdtemp(prefix="hf-bench-", dir="/tmp"))
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    kept = os.environ.get("HOLDFAST_HOME")
    try:
        yield folder
    finally:
        os.environ.pop("HOLDFAST_HOME", None)  # a part may have named this one
        if kept is not None:
            os.environ["HOLDFAST_HOME"] = kept
        opened = Home.open(folder)
        stop_ray(opened)
        stop_redis(opened)
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def model() -> Iterator[str]:
    """The URL of the stub model server, in a process of its own; this process's environment names it."""
    command = [sys.executable, "-m", "benchmarks.stub"]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        url = process.stdout.readline().strip()
        use_model(url)
        try:
            yield url
        finally:
            process.terminate()


def use_model(url: str) -> None:
    """Have this process, and what it starts, call the stub model at this URL."""
    os.environ.update(OPENAI_API_BASE=url, OPENAI_API_KEY="x")
