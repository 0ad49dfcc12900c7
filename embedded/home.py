"""The home of the embedded stack: one private directory per person, and a short one beside it for sockets."""

import fcntl
import json
import os
import secrets
import shlex
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import metadata
from itertools import chain
from pathlib import Path
from typing import Self, TextIO

from pydantic import BaseModel, ConfigDict

from holdfast.errors import HomeUnusable

from .private import check_way, make_way

FORMAT = 1
"""The version of a home's layout; a home of another version is refused."""

SECRET_BYTES = 32

SOCKET_BYTES = 107
"""The longest path of a unix socket, in bytes (`sun_path` is 108 with its terminating zero)."""

_LONGEST_SOCKET = len("/ray/session_2026-01-01_00-00-00_000000_4194304/sockets/plasma_store")
_NAMES_TRIED = 16  # random names tried for a runtime directory; one is taken only if somebody guessed it


class HomeRecord(BaseModel):
    """The content of `home.json`: the id of the home's store, and the versions that wrote its data."""

    model_config = ConfigDict(frozen=True)

    format: int = FORMAT
    store_id: str
    server: str  # "redis" or "valkey"
    server_version: str
    holdfast_version: str
    ray_version: str
    python_version: str

    @classmethod
    def of(cls, store_id: str, server: str, server_version: str) -> Self:
        """The record of a store, with the versions that this process runs."""
        return cls(
            store_id=store_id,
            server=server,
            server_version=server_version,
            holdfast_version=installed_version("holdfast"),
            ray_version=installed_version("ray"),
            python_version=python_version(),
        )


@dataclass(frozen=True, slots=True)
class Home:
    """The directory of one person's embedded stack: `path`, resolved, holds data, logs, locks and records.

    `runtime` is a short directory for sockets, private to this user; it may vanish at a reboot or logout. Each method raises
    `HomeUnusable` if the disk refuses, or if Holdfast did not write a file.
    """

    path: Path
    runtime: Path

    @classmethod
    def open(cls, path: str | os.PathLike[str] | None = None) -> Self:
        """The home at a path, else in `$XDG_STATE_HOME` or `~/.local/state`; made, like its parents, with mode 0700.

        Raises:
            HomeUnusable: The home cannot be made or is another user's; others may read or write it, or replace it through a
                directory above; or no directory for sockets can be made.
        """
        given = _given(path)
        field = f"home {given}"
        with _refusing(given):
            check_way(given, field, _ELSEWHERE)
            home = given.resolve()
            make_way(home)
            for way in (given, home):  # a directory that was missing exists now, and somebody else may have made it
                check_way(way, field, _ELSEWHERE)
            status = home.lstat()
        if status.st_uid != os.getuid():
            raise HomeUnusable(field, f"it belongs to uid {status.st_uid}", _ELSEWHERE)
        if status.st_mode & (stat.S_IRWXG | stat.S_IRWXO):  # an access control list shows in the group's bits
            problem = f"other users may read it or write to it (its mode is {stat.S_IMODE(status.st_mode):o})"
            raise HomeUnusable(field, problem, f"run: chmod 700 {shlex.quote(str(home))}")
        return cls(home, _runtime(home))

    def socket(self, name: str) -> Path:
        """The path of a socket in the runtime directory; it is refused if it is too long, or no longer in this user's hands."""
        if not _is_ours(self.runtime) and os.path.lexists(self.runtime):
            raise HomeUnusable(
                f"runtime directory {self.runtime}",
                "it vanished, and somebody else has made it since",
                "start this process again: the home gets another",
            )
        path = self.runtime / name
        if (length := len(os.fsencode(path))) > SOCKET_BYTES:
            raise HomeUnusable(
                f"runtime directory {self.runtime}",
                f"the socket path {path} has {length} bytes, more than the {SOCKET_BYTES} a unix socket may have",
                f"remove {self.path / 'runtime'} and start again",
            )
        return path

    def record(self) -> HomeRecord | None:
        """The content of `home.json`; None if there is no such file yet."""
        path = self.path / "home.json"
        try:
            text = path.read_text("utf-8")
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as error:
            raise HomeUnusable(f"{path}", f"it cannot be read ({error})", _RESTORE) from error
        try:
            found = json.loads(text)
            if (form := found["format"]) == FORMAT:
                return HomeRecord.model_validate(found)
        except (ValueError, TypeError, KeyError) as error:  # pydantic's error is a ValueError
            raise HomeUnusable(f"{path}", "it is not a record that Holdfast wrote", _RESTORE) from error
        raise HomeUnusable(
            f"{path}",
            f"this home has format {form!r}, this Holdfast knows format {FORMAT}",
            "use the Holdfast that wrote it, or set HOLDFAST_HOME to another directory",
        )

    def write(self, record: HomeRecord) -> None:
        """Replace `home.json`; the whole file is on the disk when this returns."""
        self.write_file("home.json", record.model_dump_json(indent=2) + "\n")

    def write_file(self, name: str, text: str) -> None:
        """Replace a file of the home, mode 0600. Readers see the old text or the new one, even after a power failure."""
        with _refusing(self.path):
            _replace(self.path / name, text)

    def open_log(self, name: str) -> TextIO:
        """Open a file of the home for appending; a new one has mode 0600."""
        return os.fdopen(_opened(self.path / name, os.O_WRONLY | os.O_APPEND), "a", encoding="utf-8")

    def log_tail(self, name: str) -> str:
        """The last lines of a log of the home, on one line."""
        try:
            lines = (self.path / name).read_text("utf-8", "replace").splitlines()
        except OSError:
            lines = []
        return " / ".join([line.strip() for line in lines if line.strip()][-3:]) or "it left no log"

    def secret(self, name: str) -> str:
        """A secret of the home, in hexadecimal: 32 random bytes in a file of mode 0600, created at first use."""
        path = self.path / name
        with _refusing(self.path):
            if not path.exists():
                with tempfile.TemporaryDirectory(dir=self.path, prefix=f".{name}.") as folder:
                    made = Path(folder) / name
                    _replace(made, f"{secrets.token_hex(SECRET_BYTES)}\n")
                    with suppress(FileExistsError):  # another process was quicker, and its file is complete
                        os.link(made, path)
            try:
                secret = path.read_text("ascii").strip()
                if len(bytes.fromhex(secret)) >= SECRET_BYTES:
                    return secret
            except ValueError:
                pass
        raise HomeUnusable(f"{path}", "it holds no secret that Holdfast wrote", _RESTORE)

    @contextmanager
    def lock(self, name: str) -> Iterator[int | None]:
        """Try a lock of the home without waiting: the descriptor that holds it, or None if another process does.

        The lock lasts until this block ends and every process that inherited the descriptor has closed it.
        """
        with _refusing(self.path):
            descriptor = _opened(self.path / name, os.O_RDWR)
        try:
            with _refusing(self.path):
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    held = True
                except BlockingIOError:
                    held = False
            yield descriptor if held else None
        finally:
            os.close(descriptor)


def installed_version(distribution: str) -> str:
    """The version of an installed distribution without importing it, or "unknown"."""
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return "unknown"


def python_version() -> str:
    """The running Python's version, major and minor."""
    return f"{sys.version_info.major}.{sys.version_info.minor}"


_ELSEWHERE = "set HOLDFAST_HOME to a directory of your own on a local disk"
_RESTORE = "restore it from a backup, or set HOLDFAST_HOME to another directory"


@contextmanager
def _refusing(home: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise HomeUnusable(f"home {home}", f"{error}", _ELSEWHERE) from error


def _given(path: str | os.PathLike[str] | None) -> Path:
    """The absolute path of the home, its links unfollowed."""
    try:
        if path is not None:
            return Path(path).expanduser().absolute()
        state = os.environ.get("XDG_STATE_HOME", "")
        base = Path(state) if Path(state).is_absolute() else Path.home() / ".local" / "state"
    except (OSError, RuntimeError) as error:  # RuntimeError: no home directory
        raise HomeUnusable("home", f"its path cannot be resolved ({error})", _ELSEWHERE) from error
    return base / "holdfast"


def _opened(path: Path, flags: int) -> int:
    return os.open(path, flags | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)


def _runtime(home: Path) -> Path:
    """The runtime directory that the home remembers; otherwise a new one.

    It is remembered because processes of one person differ in XDG_RUNTIME_DIR (a shell and a cron job) and must find the same
    socket. Its name is random. After a reboot or logout it is made again under the same name, or under another if somebody else
    has taken that name.
    """
    note = home / "runtime"
    if (remembered := _remembered(note)) is not None and _is_ours(remembered):
        with _refusing(home):
            check_way(remembered, f"runtime directory {remembered}", "remove it")
        return remembered
    with _refusing(home):
        turn = _opened(home / "runtime.lock", os.O_RDWR)
    try:
        with _refusing(home):
            fcntl.flock(turn, fcntl.LOCK_EX)  # held only while a line is written
            remembered = _remembered(note)
            if remembered is not None and _is_ours(remembered):  # another process made it while this one waited
                return remembered
            for candidate in chain((remembered,), _candidates()):
                if candidate is not None and _made(candidate):
                    _replace(note, f"{candidate}\n")
                    return candidate
    finally:
        os.close(turn)
    raise HomeUnusable(
        f"home {home}",
        "no directory for its sockets can be made, in XDG_RUNTIME_DIR or in /tmp, that nobody else can replace",
        "run: chmod 1777 /tmp",
    )


def _candidates() -> Iterator[Path]:
    session = os.environ.get("XDG_RUNTIME_DIR", "")
    if Path(session).is_absolute():
        for _ in range(_NAMES_TRIED):
            candidate = Path(session) / f"holdfast-{secrets.token_hex(4)}"
            if len(os.fsencode(candidate)) + _LONGEST_SOCKET <= SOCKET_BYTES:
                yield candidate
    for _ in range(_NAMES_TRIED):
        yield Path("/tmp") / f"holdfast-{os.getuid()}-{secrets.token_hex(4)}"  # noqa: S108 -- made 0700 by this process, or not used


def _made(candidate: Path) -> bool:
    """Make a runtime directory; False if the name is taken, or others could replace the directory."""
    field = f"runtime directory {candidate}"
    try:
        check_way(candidate, field, _ELSEWHERE)
        candidate.mkdir(mode=0o700)
        check_way(candidate, field, _ELSEWHERE)  # somebody else may have made a missing parent meanwhile
    except (OSError, HomeUnusable):  # a parent that is gone, such as /run/user/1000 after the logout
        return False
    return True


def _remembered(note: Path) -> Path | None:
    try:
        text = note.read_text("utf-8").removesuffix("\n")
    except (OSError, UnicodeDecodeError):
        return None
    return Path(text) if Path(text).is_absolute() else None


def _is_ours(runtime: Path) -> bool:
    """Whether a runtime directory is this user's; False if it is gone, or somebody else has taken its name.

    One that others may enter is refused: running servers have their sockets there, so no other directory is made.
    """
    try:
        status = runtime.lstat()
    except OSError:
        return False
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
        return False
    if stat.S_IMODE(status.st_mode) != stat.S_IRWXU:
        fix = f"run: chmod 700 {shlex.quote(str(runtime))}"
        raise HomeUnusable(f"runtime directory {runtime}", "other users may enter it", fix)
    return True


def _replace(path: Path, text: str) -> None:
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
