"""Ray's logs: a directory in the home for each of its sessions, which outlives the session; together they are bounded."""

import contextlib
import os
import shutil
import socket
from collections.abc import Callable, Collection
from pathlib import Path

FORMER_SESSIONS = 4
"""How many ended sessions keep their logs."""
KEPT_BYTES = 64 << 20
"""The most that all logs take up together; beyond it the oldest logs that no process writes to are deleted."""
ROTATE_BYTES = 4 << 20
"""The size at which Ray begins a log anew; it keeps one former file of each."""

ENVIRONMENT = {
    "RAY_ROTATION_MAX_BYTES": str(ROTATE_BYTES),
    "RAY_ROTATION_BACKUP_COUNT": "1",
    # Each minute each process would write statistics of its event loops, and the raylet all its state: 100 MB a day at rest.
    "RAY_event_stats": "0",
    "RAY_event_stats_print_interval_ms": "86400000",  # the GCS always writes them: a lower number is more often
    "RAY_debug_dump_period_milliseconds": "0",
}
"""Variables that keep Ray's logs small, for all processes of a cluster; one that is set otherwise keeps its value."""


def settle(root: Path) -> None:
    """Delete all but the logs of the last ended sessions, and the oldest of all logs beyond `KEPT_BYTES`.

    Args:
        root: Ray's temporary directory, by a path that is short enough for sockets. This process sees no Ray that uses it;
            one in another container, which shares the home, is left alone.
    """
    ended = []
    for entry in _entries(root):
        if entry.is_symlink() or not entry.is_dir():
            entry.unlink(missing_ok=True)
        elif not _answers(entry / "sockets" / "raylet"):
            ended.append(entry)
            for part in _entries(entry):
                if part.name != "logs":
                    _remove(part)
    ended.sort(key=lambda session: session.name)  # the name says when it began
    for session in ended[:-FORMER_SESSIONS]:
        _remove(session)
    bound(root, tuple)


def bound(root: Path, written: Callable[[], Collection[str]]) -> None:
    """Delete the oldest logs where all of them together exceed `KEPT_BYTES`.

    `root` is resolved, and its Ray may live. `written` finds the paths of files that a process has open, where a log must go.
    """
    found: list[tuple[float, int, Path]] = []
    for session in _entries(root):
        if session.is_symlink():  # `session_latest`: its target is there under its own name, which open files have
            continue
        for folder, _, names in os.walk(session / "logs"):
            for path in (Path(folder) / name for name in names):
                with contextlib.suppress(OSError):
                    status = path.lstat()
                    found.append((status.st_mtime, status.st_size, path))
    excess = sum(size for _, size, _ in found) - KEPT_BYTES
    if excess <= 0:
        return
    kept = written()
    for _, size, path in sorted(found):
        if excess <= 0:
            return
        if str(path) not in kept:
            path.unlink(missing_ok=True)
            excess -= size


def _answers(path: Path) -> bool:
    try:
        with socket.socket(socket.AF_UNIX) as tried:
            tried.settimeout(1)
            tried.connect(str(path))
    except OSError:
        return False
    return True


def _entries(directory: Path) -> list[Path]:
    try:
        return list(directory.iterdir())
    except OSError:
        return []


def _remove(path: Path) -> None:
    if path.is_symlink() or not path.is_dir():
        path.unlink(missing_ok=True)
    else:
        shutil.rmtree(path, ignore_errors=True)
