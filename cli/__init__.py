"""The `holdfast` command: a client for people at a terminal and for jobs.

Exit codes: 0 done, 1 failed, 2 bad input, 3 stale, 4 unreachable, 5 awaiting (`submit`, `drain`), 130 interrupted.
"""

import gc
import sys

__all__ = ["main"]

INTERRUPTED = 130
NEW_OBJECTS = 50_000
"""New objects that lead to a garbage collection. Imported objects live for good: with Python's default of 700, collections take
a tenth of the time of `holdfast pending`."""


def main() -> int:
    """Run the command in the process's arguments; gives its exit code."""
    gc.set_threshold(NEW_OBJECTS)
    try:
        from .app import run  # noqa: PLC0415 - so that Ctrl-C is answered from the start

        return run(sys.argv[1:])
    except KeyboardInterrupt:
        return INTERRUPTED
