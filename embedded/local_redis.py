"""The embedded Redis: one server per home, started by the first process that needs it, joined by all others.

The lock `redis.lock` is held by the process that starts the server and, through the inherited descriptor, by the server while
it lives. A process that gets the lock therefore knows that there is no server: it needs no pid to tell, and none starts a
second server.
"""

import os
import re
import signal
import subprocess
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from holdfast.errors import HomeUnusable, StoreUnavailable

from .home import Home, HomeRecord
from .processes import process
from .server_binary import Version, server_for

_LOCK, _CONFIGURED, _LOG = "redis.lock", "redis.conf", "redis.log"
_STORE_ID = "holdfast:store-id"  # the key of the store's id, written here once in the life of a home
_POLL_S = 0.02
_ANSWER_S = 2.0
_LOST_AFTER_S = 5.0
_GRACE_S = 10.0
_LOG_BYTES = 1 << 20

_CONFIG = """\
# Written by Holdfast at each start; changes are lost.
port 0
unixsocket {socket}
unixsocketperm 600
dir {data}
pidfile {pidfile}
logfile {log}
loglevel notice
appendonly yes
appendfsync always
aof-load-truncated yes
save ""
maxmemory-policy noeviction
daemonize no
set-proc-title no
"""


def ensure_redis(home: Home, *, deadline_s: float = 30, announce: Callable[[str], None] | None = None) -> str:
    """The URL of the home's Redis server, which answers and holds the home's data; starts it if none runs.

    The server outlives this process and listens only on a unix socket. Every write it acknowledges is on the disk. Blocking;
    safe to call from many processes and threads at once. `deadline_s` bounds the wait for a server that is starting or loading
    its data; `announce` is called with one line if this call started the server.

    Raises:
        HomeUnusable: The data is of another store than the home recorded, no server here can read it, or the server cannot
            start.
        UnsupportedServer: There is no server binary, or it is too old.
        ConfigurationError: HOLDFAST_REDIS_SERVER names no program.
        StoreUnavailable: The server did not answer in time, or refuses writes.
    """
    began = time.monotonic()
    started = False
    while not _join(home, started=started):
        with home.lock(_LOCK) as lock:
            if lock is not None and started:
                raise HomeUnusable(f"home {home.path}", f"its Redis server ended at once: {home.log_tail(_LOG)}", _LOOK)
            if lock is not None:
                _start(home, lock)
                started = True
        waited_s = time.monotonic() - began
        if waited_s > deadline_s:
            raise StoreUnavailable(
                f"the Redis server of the home {home.path} did not answer within {deadline_s:g} s (its log is "
                f"{home.path / _LOG}); if it runs on another machine or hangs, stop it there or run: holdfast down"
            )
        if waited_s > _LOST_AFTER_S and (lost := _lost_server(home)) is not None:
            _signal(lost, signal.SIGTERM)  # its data is on the disk; the next round starts another server
        time.sleep(_POLL_S)
    if started and announce is not None:
        announce(f"holdfast: started a Redis server for {home.path}")
    bound_log(home)
    return _url(home)


def bound_log(home: Home) -> None:
    """Begin a new log of the home's Redis once it exceeds 1 MiB, and keep the previous one.

    The server may be running: it reopens its log for each line.
    """
    log = home.path / _LOG
    with home.lock("logs.lock") as turn, suppress(FileNotFoundError):
        if turn is not None and log.stat().st_size > _LOG_BYTES:
            log.replace(log.with_suffix(".log.old"))


def running_redis(home: Home) -> str | None:
    """The URL of the home's Redis server if it answers, else None. Never starts one."""
    try:
        with _client(home) as client:
            client.ping()
    except redis.RedisError:
        return None
    return _url(home)


def redis_stopped(home: Home) -> bool:
    """Whether the home's Redis server was stopped rather than died, and no process is starting one.

    A server that is told to end removes its pidfile; a killed one leaves it behind.
    """
    if (home.path / "redis.pid").exists() or running_redis(home) is not None:
        return False
    with home.lock(_LOCK) as lock:  # another process that holds the lock is starting a server
        return lock is not None and not (home.path / "redis.pid").exists()


def revive_redis(home: Home, *, deadline_s: float = 30, announce: Callable[[str], None] | None = None) -> str:
    """The URL of the home's Redis server, started again if it died."""
    if home.record() is None:  # otherwise the new server's empty data would count as the home's first
        raise HomeUnusable(f"home {home.path}", "it has lost its record home.json while it was in use", _LOOK)
    return ensure_redis(home, deadline_s=deadline_s, announce=announce)


def stop_redis(home: Home, *, deadline_s: float = 30) -> bool:
    """Stop the home's Redis server; returns once it is gone, False if there was none. The data stays."""
    began = time.monotonic()
    target: int | None = None
    while True:
        with home.lock(_LOCK) as lock:
            if lock is not None:
                home.socket("redis.sock").unlink(missing_ok=True)
                (home.path / "redis.pid").unlink(missing_ok=True)
                return target is not None
        waited_s = time.monotonic() - began
        if target is None and (target := _server_pid(home)) is not None:
            _shut_down(home, target)
        elif target is not None and _server_pid(home) not in {None, target}:
            return True  # the server is gone, and another process has started a new one since
        elif target is not None and waited_s > _GRACE_S:
            _signal_server(home, target, signal.SIGKILL)
        if waited_s > deadline_s:
            raise StoreUnavailable(f"the lock {home.path / _LOCK} is still held after {deadline_s:g} s")
        time.sleep(_POLL_S)


_LOOK = "read the whole log, mend or restore the data, or set HOLDFAST_HOME to another directory"


def _join(home: Home, *, started: bool) -> bool:
    """Whether the server is ready; refuses a server whose store is not the one that the home recorded."""
    record = home.record()  # read before the key, since the key is written before the record
    try:
        with _client(home) as client:
            found = cast("bytes | None", client.get(_STORE_ID))
            if found is None and record is None:
                client.set(_STORE_ID, uuid.uuid4().hex, nx=True)
                found = cast("bytes | None", client.get(_STORE_ID))
            info = cast("dict[str, Any]", client.info("server"))
    except (redis.ConnectionError, redis.TimeoutError):  # it may be loading its data
        return False
    except redis.RedisError as error:
        raise StoreUnavailable(f"the Redis server of the home {home.path} refused: {error}") from error
    store_id = None if found is None else found.decode("utf-8", "replace")
    if store_id is None or (record is not None and record.store_id != store_id):
        if started:
            stop_redis(home)
        raise HomeUnusable(
            f"home {home.path}",
            f"its Redis server came up with the store id {store_id!r}, not with the recorded "
            f"{record.store_id if record else None!r}: the data was removed, replaced or not read",
            "run: holdfast down; then restore the directory 'redis' in it, or set HOLDFAST_HOME to another directory",
        )
    name = "valkey" if "valkey_version" in info else "redis"  # Valkey also reports a redis_version
    version = Version(name, str(info[f"{name}_version"]))
    if record is None or started or record.server_version != version.text:
        home.write(HomeRecord.of(store_id, version.name, version.text))
    return True


def _start(home: Home, lock: int) -> None:
    binary, _ = server_for(home)
    data, socket, log = home.path / "redis", home.socket("redis.sock"), home.path / _LOG
    try:
        data.mkdir(mode=0o700, exist_ok=True)
        socket.unlink(missing_ok=True)
        home.write_file(
            _CONFIGURED,
            _CONFIG.format(
                socket=_quoted(socket), data=_quoted(data), pidfile=_quoted(home.path / "redis.pid"), log=_quoted(log)
            ),
        )
        with home.open_log(_LOG) as output:
            # The shell ends at once, so the server is not a child of this process, which need not reap it.
            subprocess.run(  # noqa: S603 -- the binary is the one that was configured or installed
                ["/bin/sh", "-c", '"$0" "$@" &', binary, str(home.path / _CONFIGURED)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=home.path,
                env=_environment(),
                pass_fds=(lock,),
                start_new_session=True,
                umask=0o077,  # for its data, its log and its pidfile
                check=True,
            )
    except (OSError, subprocess.SubprocessError) as error:
        raise HomeUnusable(f"home {home.path}", f"its Redis server cannot be started ({error})", _LOOK) from error


def _environment() -> dict[str, str]:
    """The server's environment, without credentials: the server lives long and needs none."""
    kept = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH", "TZ") if name in os.environ}
    return {**kept, "LC_ALL": "C"}  # Redis 7 refuses to start under a locale that is not installed


def _client(home: Home) -> "redis.Redis":
    return redis.Redis(
        unix_socket_path=str(home.socket("redis.sock")),
        socket_timeout=_ANSWER_S,
        socket_connect_timeout=_ANSWER_S,
        retry=Retry(NoBackoff(), 0),
        protocol=2,
    )


def _url(home: Home) -> str:
    return f"unix://{quote(str(home.socket('redis.sock')))}"


def _quoted(path: Path) -> str:
    """Quote a path for the configuration file's parser, whatever bytes it has."""
    plain = re.compile(rb"[A-Za-z0-9._/-]")
    return '"' + "".join(chr(byte) if plain.match(bytes([byte])) else f"\\x{byte:02x}" for byte in os.fsencode(path)) + '"'


def _server_pid(home: Home) -> int | None:
    """The pid of the home's living server, from its pidfile or else from the server; None if neither tells."""
    with suppress(OSError, ValueError):
        pid = int((home.path / "redis.pid").read_text("ascii"))
        if _is_server(home, pid):
            return pid
    try:
        with _client(home) as client:
            return int(cast("dict[str, Any]", client.info("server"))["process_id"])
    except redis.RedisError:
        return None


def _is_server(home: Home, pid: int) -> bool:
    found = process(pid)
    return found is not None and str(home.path / _CONFIGURED) in found.arguments


def _shut_down(home: Home, pid: int) -> None:
    try:
        with _client(home) as client:
            client.shutdown()
    except redis.RedisError:
        _signal_server(home, pid, signal.SIGTERM)


def _signal_server(home: Home, pid: int, number: signal.Signals) -> None:
    if _is_server(home, pid):
        _signal(pid, number)


def _signal(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def _lost_server(home: Home) -> int | None:
    """The pid of a living server whose socket was removed, so that nobody can reach it any more.

    That happens when a logout removes XDG_RUNTIME_DIR. A server in another mount namespace counts as reachable.
    """
    with suppress(OSError, ValueError):
        pid = int((home.path / "redis.pid").read_text("ascii"))
        same_files = Path(f"/proc/{pid}/ns/mnt").readlink() == Path("/proc/self/ns/mnt").readlink()
        configured = _configured_socket(home)
        reached = configured == home.socket("redis.sock") and configured.exists()  # else the home has a new runtime directory
        if same_files and _is_server(home, pid) and not reached:
            return pid
    return None


def _configured_socket(home: Home) -> Path:
    text = (home.path / _CONFIGURED).read_text("utf-8")
    found = re.search(r'^unixsocket "(.*)"$', text, re.MULTILINE)
    raw = found[1] if found else ""
    return Path(os.fsdecode(re.sub(rb"\\x([0-9a-f]{2})", lambda byte: bytes([int(byte[1], 16)]), raw.encode("ascii"))))
