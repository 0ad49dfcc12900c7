"""Many seeds, over two processes; of each that fails, what is broken, its trace and the command that runs it again."""

import contextlib
import gc
import multiprocessing
import os
import threading
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from .seed import simulate

CHUNK = 50
WORKERS = 2
SHOWN = 3
NICE = 10
LOCALLY, IN_CI = 300, 800


def how_many():
    """The number of seeds: `HOLDFAST_SIM_SEEDS`, else thousands in CI and a taste of that elsewhere."""
    return int(os.environ.get("HOLDFAST_SIM_SEEDS") or (IN_CI if os.environ.get("CI") == "true" else LOCALLY))


def failures(first, number):
    """The outcomes of the seeds that fail, of `number` seeds from `first`, in order."""
    chunks = [range(start, min(start + CHUNK, first + number)) for start in range(first, first + number, CHUNK)]
    with ProcessPoolExecutor(WORKERS, mp_context=multiprocessing.get_context("spawn"), initializer=_begin) as pool:
        return [outcome for failed in pool.map(failing, chunks) for outcome in failed]


def _begin():
    """Leave the processors to other tests where these want them, and have the collector pass over what is imported."""
    os.nice(NICE)
    with contextlib.suppress(OSError):  # where Linux shares time between sessions, niceness counts within one alone
        os.setsid()
        Path("/proc/self/autogroup").write_text(str(NICE), encoding="ascii")
    threading.Thread(target=_end_with, args=(multiprocessing.parent_process(),), daemon=True).start()
    gc.freeze()


def _end_with(parent):
    """What ends a session's processes does not reach one that has a session of its own."""
    parent.join()
    os._exit(1)


def failing(seeds):
    """The outcomes of those seeds that fail."""
    outcomes = [outcome for seed in seeds if (outcome := simulate(seed)).problems]
    gc.collect()  # simulations run without the collector
    return outcomes


def report(outcome):
    """A failed seed for a reader: its trace, what is broken, how to run it again."""
    broken = "\n".join(f"  {problem}" for problem in outcome.problems)
    again = f"python -m pytest tests/simulation --seed {outcome.seed}"
    return "\n".join(
        [*outcome.trace, f"seed {outcome.seed}: {len(outcome.problems)} broken promises", broken, f"again: {again}"]
    )
