"""A Postgres server of the benchmark's own: a temporary cluster on a unix socket, its settings the defaults."""

import contextlib
import os
import pwd
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

START_WITHIN_S = 30
DEBIAN = Path("/usr/lib/postgresql")
UNPRIVILEGED = ("postgres", "nobody")


def binary(name: str) -> str | None:
    """A program of Postgres, from the path or from where Debian puts it."""
    return shutil.which(name) or next((str(one) for one in sorted(DEBIAN.glob(f"*/bin/{name}"), reverse=True)), None)


def missing() -> str | None:
    """Why there is no Postgres here; None if there is."""
    absent = [name for name in ("initdb", "postgres", "createdb") if binary(name) is None]
    return f"{' and '.join(absent)} not found: install Postgres for the rows that need it" if absent else None


def version() -> str:
    """What the server calls itself."""
    return subprocess.run([binary("postgres"), "--version"], check=True, capture_output=True, text=True).stdout.strip()


@contextlib.contextmanager
def server() -> Iterator[Callable[[str], str]]:
    """A running server: a function that makes a database and returns its URL."""
    folder = Path(tempfile.mkdtemp(prefix="hf-pg-", dir="/tmp"))
    as_user: list[str] = []
    if os.getuid() == 0:  # it refuses root
        owner = next(pwd.getpwnam(name) for name in UNPRIVILEGED if _has(name))
        os.chown(folder, owner.pw_uid, owner.pw_gid)
        as_user = ["setpriv", f"--reuid={owner.pw_uid}", f"--regid={owner.pw_gid}", "--clear-groups"]
    data = folder / "data"
    initdb = [*as_user, binary("initdb"), "-D", data, "-U", "bench", "-A", "trust", "--no-instructions"]
    subprocess.run(initdb, check=True, stdout=subprocess.DEVNULL, cwd=folder)
    command = [
        *as_user,
        binary("postgres"),
        "-D",
        data,
        "-k",
        folder,
        "-c",
        "listen_addresses=",
        "-c",
        "log_min_messages=fatal",
    ]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            give_up = time.monotonic() + START_WITHIN_S
            while not (folder / ".s.PGSQL.5432").exists() or not _ready(data):
                if time.monotonic() > give_up or process.poll() is not None:
                    message = "Postgres did not start"
                    raise RuntimeError(message)
                time.sleep(0.05)

            def database(name: str) -> str:
                subprocess.run([binary("createdb"), "-h", folder, "-U", "bench", name], check=True)
                return f"postgresql://bench@/{name}?host={folder}"

            yield database
        finally:
            process.terminate()
            process.wait()
            shutil.rmtree(folder, ignore_errors=True)


def _ready(data: Path) -> bool:
    with contextlib.suppress(OSError):
        return "ready" in (data / "postmaster.pid").read_text()
    return False


def _has(user: str) -> bool:
    try:
        pwd.getpwnam(user)
    except KeyError:
        return False
    return True
