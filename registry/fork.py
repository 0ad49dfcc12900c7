"""A process forked from one in a Ray cluster: it looks joined to Ray, but lacks the threads that do the work.

Ray cannot be reset there: `ray.shutdown` hangs on the missing threads, and the interpreter's end runs destructors that break
the parent's connections. So commands are refused at once, and the process ends without Ray's exit code.
"""

import atexit
import os
import sys
from pathlib import Path
from typing import Any, NoReturn

from holdfast.errors import ConfigurationError

RAY_THREAD = "worker.io"
"""The name of a thread in every process that has joined a cluster."""

_FIX = (
    "send commands in the parent only after it has forked, or from a process of its own: with `gunicorn --preload`, use "
    "the client in requests or in the post_fork hook; with multiprocessing, use the start method 'spawn'"
)


def refuse_inherited_ray() -> None:
    """Refuse a process whose Ray is only a copy of its parent's."""
    ray = sys.modules.get("ray")
    if ray is None or not ray.is_initialized() or _has_thread():
        return
    problem = "this process was forked from one that had joined Ray, which does not work in a forked process"
    raise ConfigurationError("ray_address", problem, _FIX)


def _has_thread() -> bool:
    try:
        return any((task / "comm").read_text().strip() == RAY_THREAD for task in Path("/proc/self/task").iterdir())
    except OSError:  # no /proc, or a thread that just ended
        return not _Inherited.found


class _Inherited:
    found = False
    status = 0


def _after_fork() -> None:
    """Replace Ray's exit handler in this child, so that it can end without harm to the parent's connections."""
    ray: Any = sys.modules.get("ray")
    if ray is None or not ray.is_initialized() or _Inherited.found:
        return
    _Inherited.found = True
    atexit.unregister(ray._private.worker.shutdown)  # noqa: SLF001 - it would wait for threads that only the parent has
    atexit.register(_end)
    leave = sys.exit

    def leave_with(status: str | int | None = None, /) -> NoReturn:
        _Inherited.status = status if isinstance(status, int) else int(status is not None)
        leave(status)

    sys.exit = leave_with  # the only way to learn the process's exit status


def _end() -> None:
    """End the process after all other exit handlers, but before its copy of Ray is destroyed."""
    if _Inherited.found:
        _Inherited.found = False
        atexit._run_exitfuncs()  # noqa: SLF001 - the other exit handlers; this one was called first
        for stream in (sys.stdout, sys.stderr):
            if stream is not None and not stream.closed:
                stream.flush()
        os._exit(1 if getattr(sys, "last_value", None) is not None else _Inherited.status & 0xFF)


os.register_at_fork(after_in_child=_after_fork)
