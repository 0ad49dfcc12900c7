"""The `holdfast` command: the client, for a person at a terminal and for jobs.

Exit codes: 0 done, 1 failed, 2 bad input, 3 stale, 4 unreachable, 5 awaiting (`submit`), 130 interrupted.
"""

import sys

__all__ = ["main"]

INTERRUPTED = 130


def main() -> int:
    """Run the command that the process's arguments name; its exit code."""
    try:
        from .app import run  # noqa: PLC0415 - so that Ctrl-C is answered from the start

        return run(sys.argv[1:])
    except KeyboardInterrupt:
        return INTERRUPTED
