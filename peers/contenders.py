"""Who takes part, each over a fresh store."""

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks import stack
from peers import postgres
from peers.process import Contender

HOLDFAST = "Holdfast"
LANGGRAPH_SQLITE = "LangGraph, SQLite"
NAMES = (HOLDFAST, LANGGRAPH_SQLITE, "LangGraph, Postgres", "DBOS, SQLite", "DBOS, Postgres")


@contextlib.contextmanager
def contender(name: str) -> Iterator[Contender]:
    """A contender whose store is there until the end."""
    system, _, saver = name.partition(", ")
    if system == HOLDFAST:
        with stack.home() as home:
            yield Contender(name, "holdfast_peer.py", peer=False, store=str(home))
        return
    script = f"{system.lower()}_peer.py"
    if saver == "Postgres":
        with postgres.server() as database:
            url = database("bench")
            if system == "DBOS":
                url = url.replace("postgresql://", "postgresql+psycopg://")
            yield Contender(name, script, peer=True, store=url)
        return
    with tempfile.TemporaryDirectory(prefix="hf-bench-", dir="/tmp") as folder:
        file = Path(folder) / "bench.db"
        yield Contender(name, script, peer=True, store=f"sqlite:///{file}" if system == "DBOS" else str(file))


def present() -> tuple[str, ...]:
    """Those that can take part here; says who cannot."""
    why = postgres.missing()
    if why is not None:
        stack.console.print(f"[bold red]Left out, all rows on Postgres: {why}[/]")
    return tuple(name for name in NAMES if why is None or "Postgres" not in name)
