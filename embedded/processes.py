"""The processes of this user, as the system reports them."""

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil


@dataclass(frozen=True, slots=True)
class Process:
    """A living process: `session` is the pid of its session's leader, `arguments` has at least one word."""

    pid: int
    session: int
    arguments: tuple[str, ...]

    @property
    def program(self) -> str:
        """The name of its program."""
        return Path(self.arguments[0]).name


def processes() -> Iterator[Process]:
    """All living processes of this user."""
    return filter(None, map(process, psutil.pids()))


def process(pid: int) -> Process | None:
    """The living process with a pid; None if there is none, it is another user's, or it is a zombie."""
    with contextlib.suppress(psutil.Error, OSError, ValueError):
        one = psutil.Process(pid)
        with one.oneshot():
            arguments = tuple(one.cmdline())
            if (
                one.uids().effective == os.getuid()
                and one.status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
                and arguments
            ):
                return Process(pid, os.getsid(pid), arguments)
    return None


def opened_files(pid: int) -> Iterator[Path]:
    """The regular files that a process has open; none if it has ended."""
    with contextlib.suppress(psutil.Error, OSError):
        for file in psutil.Process(pid).open_files():
            yield Path(file.path)
