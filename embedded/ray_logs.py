"""Ray's logs: one directory in the home for each Ray session, kept after the session ends; their total size is bounded."""

import contextlib
import os
import shutil
import socket
from collections.abc import Callable, Collection
from pathlib import Path

FORMER_SESSIONS = 4
KEPT_BYTES = 64 << 20
"""The total size of all logs, in bytes; beyond it the oldest logs without a writer are deleted."""
ROTATE_BYTES = 4 << 20
"""The size at which Ray rotates a log, in bytes; it keeps one former file of each."""

ENVIRONMENT = {
    "RAY_ROTATION_MAX_BYTES": str(ROTATE_BYTES),
    "RAY_ROTATION_BACKUP_COUNT": "1",
    # Otherwise each process writes event loop statistics every minute, and the raylet its whole state: 100 MB a day at rest.
    "RAY_event_stats": "0",
    "RAY_event_stats_print_interval_ms": "86400000",  # the GCS writes them in any case, this often
    "RAY_debug_dump_period_milliseconds": "0",
}
"""Variables that keep the logs of all processes of a cluster small; an existing value takes precedence."""


def settle(root: Path) -> None:
    """Delete the logs of all but the last ended sessions, and the oldest of all logs beyond `KEPT_BYTES`.

    `root` is Ray's temporary directory, by a path short enough for sockets. No Ray that this process sees uses it; one in
    another container that shares the home is left alone.
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
    """Delete the oldest logs if all of them together exceed `KEPT_BYTES`.

    `root` is resolved, and its Ray may be running. `written` finds the files that a process has open; it is called only if a
    log must go.
    """
    found: list[tuple[float, int, Path]] = []
    for session in _entries(root):
        if session.is_symlink():  # `session_latest`: its target is listed under its own name, as open files are
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
