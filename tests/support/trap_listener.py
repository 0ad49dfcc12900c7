"""Traps that end or freeze a process at one of its numbered steps.

`trap_listener-1.dist-info` beside it registers `trapped` as the step listener of processes that have this folder on their
import path and a folder of traps in `HOLDFAST_TRAPS`.
"""

import logging
import os
import signal
import threading
from pathlib import Path

from holdfast.actors.steps import Reached, Step, logged

SIGNALS = frozenset({signal.SIGKILL, signal.SIGSTOP})
"""What a trap may do to the process that it catches."""

logger = logging.getLogger("holdfast.actor")


def trapped(folder: Path) -> Reached:
    """The step listener that springs the traps in a folder on this process.

    A trap is a file that is named after a step and holds a signal's number. It springs once, in the first process that reaches
    the step, and is then renamed after that process. A folder into which others could put traps counts as empty.
    """
    if not folder.is_dir() or folder.stat().st_uid != os.getuid() or folder.stat().st_mode & 0o022:
        logger.error("%s is no folder, or others may write to it: its traps are ignored", folder)
        return logged

    def reached(step: Step) -> None:
        trap = folder / step
        sprung = trap.with_name(f"{step}.{os.getpid()}")
        try:
            trap.rename(sprung)  # only one process succeeds
        except FileNotFoundError:
            return
        wanted = signal.Signals(int(sprung.read_text()))
        if wanted in SIGNALS:
            # To this thread: another thread could take a signal for the process, while this one ran on.
            signal.pthread_kill(threading.get_ident(), wanted)

    return reached
