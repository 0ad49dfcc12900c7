"""Directories that nobody else can read, write or replace."""

import grp
import os
import pwd
import shlex
import stat
from pathlib import Path

from holdfast.errors import HomeUnusable

_LINKS = 40
"""How many symbolic links a path may go through, as on Linux."""


def make_way(directory: Path) -> None:
    """Make a directory and its missing parents, each with mode 0700 whatever the umask."""
    missing = [directory]
    while not missing[-1].parent.exists():
        missing.append(missing[-1].parent)
    for one in reversed(missing):
        one.mkdir(mode=0o700, exist_ok=True)


def check_way(path: Path, field: str, fix: str) -> None:
    """Refuse a path that others could redirect, through a directory on the way or a symbolic link.

    Each directory on the way must be the user's or root's; others may write to it only if its sticky bit keeps them from
    renaming foreign files. The path must be absolute. It is checked as far as it exists, without the file at its end. `field`
    and `fix` are the error's.
    """
    ahead = list(reversed(path.parts[1:]))
    at = Path(path.anchor)
    links = 0
    while ahead:
        part = ahead.pop()
        if part == "..":
            at = at.parent
            continue
        _check_directory(at, field, fix)
        step = at / part
        try:
            status = step.lstat()
        except FileNotFoundError:
            return
        if not stat.S_ISLNK(status.st_mode):
            at = step
            continue
        links += 1
        if not _is_trusted(status.st_uid):
            raise HomeUnusable(field, f"the symbolic link {step} on its way belongs to uid {status.st_uid}", fix)
        if links > _LINKS:
            raise HomeUnusable(field, f"its path has too many symbolic links, such as {step}", fix)
        target = step.readlink()
        ahead.extend(reversed(target.parts[1:] if target.is_absolute() else target.parts))
        at = Path(target.anchor) if target.is_absolute() else at


def _check_directory(directory: Path, field: str, fix: str) -> None:
    status = directory.stat()
    if not _is_trusted(status.st_uid):
        raise HomeUnusable(field, f"the directory {directory} above it belongs to uid {status.st_uid}", fix)
    shared = status.st_mode & stat.S_IWOTH or (status.st_mode & stat.S_IWGRP and _has_others(status.st_gid))
    if shared and not status.st_mode & stat.S_ISVTX:
        problem = f"others may write to {directory} above it, and so put another directory in its place"
        quoted = shlex.quote(str(directory))
        raise HomeUnusable(field, problem, f"run: chmod go-w {quoted} (chmod +t if it is meant for everybody); or {fix}")


def _is_trusted(uid: int) -> bool:
    """Whether an owner is trusted: this user, or the machine's root (which has another number in a user namespace)."""
    return uid in (0, os.getuid(), Path("/").stat().st_uid)


def _has_others(gid: int) -> bool:
    """Whether a group has members besides this user and root; many systems give each user a group of their own."""
    members = {entry.pw_uid for entry in pwd.getpwall() if entry.pw_gid == gid}
    try:
        names = grp.getgrgid(gid).gr_mem
    except KeyError:  # a number in no database, such as a container's: its members are this process's
        return gid not in (os.getgid(), *os.getgroups()) or bool(members - {0, os.getuid()})
    for name in names:
        try:
            members.add(pwd.getpwnam(name).pw_uid)
        except KeyError:
            continue
    return bool(members - {0, os.getuid()})
