"""The `holdfast` command: the client, for a person at a terminal and for jobs.

Exit codes: 0 done, 1 failed, 2 bad input, 3 stale, 4 unreachable, 5 awaiting (`submit`, `drain`), 130 interrupted.
"""

import gc
import sys

__all__ = ["main"]

INTERRUPTED = 130
NEW_OBJECTS = 50_000
"""How many new objects lead to a garbage collection. Imported objects live for good: with Python's own 700 the collector looks
through them again and again, for a tenth of the time that `holdfast pending` takes."""


def main() -> int:
    """The exit code of the command that the process's arguments name, run here."""
    gc.set_threshold(NEW_OBJECTS)
    try:
        from .app import run  # noqa: PLC0415 - so that Ctrl-C is answered from the start

        return run(sys.argv[1:])
    except KeyboardInterrupt:
        return INTERRUPTED
