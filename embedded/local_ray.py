"""The embedded Ray: one local head per home, reachable only from this machine and only with its token.

Ray's own tools tell clusters apart badly (`ray stop` ends every Ray on the machine), so this module keeps its own account: `ray
start` runs in its own session with the home's temporary directory, and these two identify the home's processes. Ray is never
imported here. A process that starts or stops it holds the lock `ray.lock`.

The temporary directory is `ray` in the home, so its logs are kept. Ray is given a link to it in the runtime directory, since
the path of a socket must be short and Ray's may not contain spaces.
"""

import contextlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from holdfast.errors import ClusterUnavailable, HomeUnusable
from holdfast.machine_load import because
from holdfast.settings import UNSHARED

from . import ray_logs
from .home import Home, installed_version, python_version
from .processes import Process, opened_files, process, processes

_LOCK = "ray.lock"
_FOLDER = "ray"
_KEEP = "ray.keep"
_GONE = "ray-gone.json"
_GONE_KEPT = 16  # enough: so many clusters do not start and end while a binding to the first is fresh
_POLL_S = 0.1
_GRACE_S = 5.0
_OBJECT_STORE_BYTES = 100_000_000  # Ray takes no less than 75 MiB
_DAEMONS = ("gcs_server", "raylet")

# Where `ray[default]` is installed, `ray start` opens more ports than a plain one and a Ray Client server on port 10001,
# which no option turns off. It does so where it can import grpc, so that import fails here; the daemons can import it.
# Without a dashboard it starts the dashboard's process all the same, for usage statistics, which are off; that takes 80 MB.
_RAY = """
import sys
sys.modules["grpc"] = None
from ray._private import services
services.start_api_server = lambda *given, **named: (None, None)
from ray.scripts.scripts import main
sys.exit(main())
"""

# Variables that would lead the new head, or a process that joins it, to another cluster.
_MISLEADING = ("RAY_ADDRESS", "RAY_REDIS_ADDRESS", "RAY_AUTH_TOKEN", "RAY_JOB_ID", "RAY_RAYLET_PID", "RAY_CLIENT_MODE")


@dataclass(frozen=True, slots=True)
class RayAddress:
    """The host and port of the embedded Ray, and the file, mode 0600, with the token that opens it.

    `cluster_id` is empty if Ray did not say it. `gone` has the ids of the home's former clusters, whose processes have all been
    seen to be gone.
    """

    address: str
    token_path: Path
    cluster_id: str = ""
    gone: tuple[str, ...] = ()

    @property
    def env(self) -> dict[str, str]:
        """The variables that must be in `os.environ` *before* ray is imported, to join the embedded Ray.

        Without them the process is refused, or listens on all network interfaces.
        """
        return {
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": "",  # another cluster's token would win over the path; an empty one counts as none
            "RAY_AUTH_TOKEN_PATH": str(self.token_path),
            "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # on Linux, this makes Ray listen on the given address alone
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_enable_metrics_collection": "0",  # otherwise a Ray agent would serve metrics to anybody without the token
            **{name: os.environ.get(name, value) for name, value in ray_logs.ENVIRONMENT.items()},
        }


def ensure_ray(home: Home, *, deadline_s: float = 60, announce: Callable[[str], None] | None = None) -> RayAddress:
    """The address of the home's live Ray; starts one if there is none.

    The Ray outlives this process, and inherits its environment and working directory. Blocking; safe to call from many
    processes and threads at once. `deadline_s` bounds the wait for this start, or for another process's; `announce` is called
    with one line if this call started the Ray.

    Raises:
        HomeUnusable: The running Ray has another Ray or Python version than this process, or the home's files are unusable.
        ClusterUnavailable: No Ray came up in time.
    """
    began = time.monotonic()
    while (running := _living(home)) is None:
        with home.lock(_LOCK) as lock:
            if lock is not None and (running := _living(home)) is None:
                address = _start(home, deadline_s - (time.monotonic() - began))
                if announce is not None:
                    announce(f"holdfast: started a local Ray for {home.path}")
                return address
        if time.monotonic() - began > deadline_s:
            raise ClusterUnavailable(f"another process holds {home.path / _LOCK}, and no Ray came up within {deadline_s:g} s")
        time.sleep(_POLL_S)
    _check_versions(home, running)
    bound_logs(home)
    return _address(home, running)


def bound_logs(home: Home) -> None:
    """Delete the oldest logs of the home's Ray beyond `ray_logs.KEPT_BYTES`; the Ray may be running."""
    root = home.path / _FOLDER
    ray_logs.bound(
        root, lambda: {str(path) for one in processes() for path in opened_files(one.pid) if path.is_relative_to(root)}
    )


def running_ray(home: Home) -> RayAddress | None:
    """The address of the home's Ray if it lives, of any version, else None. Never starts one."""
    running = _living(home)
    return None if running is None else _address(home, running)


def gone_rays(home: Home) -> tuple[str, ...]:
    """The cluster ids of the home's last Rays that were ended and seen to be gone."""
    try:
        return tuple(_Gone.model_validate_json((home.path / _GONE).read_bytes()).cluster_ids)
    except (OSError, ValidationError):
        return ()


def ray_lives(home: Home, cluster_id: str | None = None) -> bool:
    """Whether the processes of the home's Ray live, of the cluster `cluster_id` if given; Ray itself is not asked."""
    record = _recorded(home)
    return record is not None and (cluster_id is None or record.cluster_id in ("", cluster_id)) and _has_daemons(record)


def ray_died(home: Home) -> bool:
    """Whether the home's Ray is gone although nobody stopped it."""
    record = _recorded(home)
    return record is not None and not _has_daemons(record)


def stop_ray(home: Home, *, deadline_s: float = 60) -> bool:
    """Stop the home's Ray and all its workers, and nothing else; returns once they are gone, with whether there were any."""
    began = time.monotonic()
    while True:
        with home.lock(_LOCK) as lock:
            if lock is not None:
                return _end(home, gently=True)
        if time.monotonic() - began > deadline_s:
            raise ClusterUnavailable(f"another process still holds {home.path / _LOCK} after {deadline_s:g} s")
        time.sleep(_POLL_S)


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True)

    address: str
    temp_dir: str
    session: int  # the session of `ray start` and all its child processes
    pids: dict[str, int]
    ray_version: str
    python_version: str
    cluster_id: str = ""
    seen_from: str = ""  # see `_seen_from`


class _Gone(BaseModel):
    """The content of `ray-gone.json`: the last clusters that were ended and seen to be gone."""

    model_config = ConfigDict(frozen=True)

    cluster_ids: list[str]


def _start(home: Home, deadline_s: float) -> RayAddress:
    _end(home, gently=False)
    temp_dir = _linked(home)
    token_path = home.path / "ray-token"
    if not token_path.exists():
        home.write_file(token_path.name, secrets.token_hex(32))
    try:
        _run_ray_start(home, temp_dir, _environment(home, token_path), deadline_s)
        record = _observed(temp_dir)
    except BaseException:
        _end(home, gently=False)
        raise
    if record is None:
        _end(home, gently=False)
        raise ClusterUnavailable(f"Ray did not stay up: {home.log_tail('ray.log')}")
    home.write_file("ray.json", record.model_dump_json(indent=2) + "\n")
    return _address(home, record)


def _environment(home: Home, token_path: Path) -> dict[str, str]:
    env = {name: value for name, value in os.environ.items() if name not in UNSHARED.union(_MISLEADING)}
    env |= RayAddress("", token_path).env | {
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "RAY_worker_niceness": "0",  # otherwise Ray gives its workers the lowest priority on the machine
    }
    del env["RAY_AUTH_TOKEN"]
    around = env.get("VIRTUAL_ENV")
    if around and home.path.is_relative_to(Path(around).resolve()):
        del env["VIRTUAL_ENV"]  # Ray refuses a temporary directory inside it, since copying the environment would copy that too
    return env


def _run_ray_start(home: Home, temp_dir: Path, env: dict[str, str], deadline_s: float) -> None:
    command = [
        sys.executable,
        "-P",  # otherwise a module of the working directory would be found first
        *("-c", _RAY, "start", "--head"),
        f"--temp-dir={temp_dir}",
        "--node-ip-address=127.0.0.1",
        *("--port=0", "--dashboard-port=0", "--dashboard-agent-listen-port=0"),
        "--include-dashboard=false",
        "--include-log-monitor=false",  # it repeats workers' output at drivers; the logs are in the home
        "--no-monitor",  # no autoscaler monitor: there is nothing to scale
        "--disable-usage-stats",
        f"--num-cpus={max(4, os.cpu_count() or 1)}",
        f"--object-store-memory={_OBJECT_STORE_BYTES}",
    ]
    try:
        with home.open_log("ray.log") as output:
            output.truncate(0)
            subprocess.run(  # noqa: S603 -- this interpreter, with arguments made here
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=env,
                start_new_session=True,
                timeout=max(0.0, deadline_s),
                check=True,
            )
    except subprocess.TimeoutExpired as error:
        raise ClusterUnavailable(f"Ray did not start within its deadline{because()}: {home.log_tail('ray.log')}") from error
    except subprocess.CalledProcessError as error:
        raise ClusterUnavailable(f"Ray did not start{because()}: {home.log_tail('ray.log')}") from error
    except OSError as error:
        raise ClusterUnavailable(f"Ray cannot be started ({error})") from error


def _observed(temp_dir: Path) -> _Record | None:
    daemons = {found.program: found for found in _heads([temp_dir]) if found.program in _DAEMONS}
    try:
        address = (temp_dir / "ray_current_cluster").read_text("ascii").strip()
    except OSError:
        return None
    if daemons.keys() != set(_DAEMONS):
        return None
    words, option = " ".join(daemons["raylet"].arguments).split(), "--cluster-id="
    return _Record(
        address=address,
        temp_dir=str(temp_dir),
        session=daemons["raylet"].session,
        pids={name: found.pid for name, found in daemons.items()},
        ray_version=installed_version("ray"),
        python_version=python_version(),
        cluster_id=next((word.removeprefix(option) for word in words if word.startswith(option)), ""),
        seen_from=_seen_from(),
    )


def _seen_from() -> str:
    """This process's view of other processes, as text: the machine's boot, the pid namespace and the user.

    Another container on the same machine has other processes under the same pids. Empty if the system does not tell.
    """
    try:
        boot_id = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
        return f"{boot_id} {Path('/proc/self/ns/pid').readlink()} {os.getuid()}"
    except OSError:
        return ""


def _living(home: Home) -> _Record | None:
    """The record of the home's Ray if its daemons run, its files are in place, and it takes connections; else None."""
    record = _recorded(home)
    if record is None or not _has_daemons(record) or not _has_files(home, record):
        return None
    host, _, port = record.address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=2).close()
    except (OSError, ValueError):
        return None
    return record


def _has_files(home: Home, record: _Record) -> bool:
    """Whether Ray's files are where it looks for them.

    A program that cleans /tmp may have removed an old link: it is made again. A former runtime directory of the home is gone,
    or belongs to somebody else by now.
    """
    temp_dir = Path(record.temp_dir)
    if temp_dir != home.runtime / _FOLDER:
        return False
    if not temp_dir.exists() and (home.path / _FOLDER).is_dir():
        _linked(home)
    return temp_dir.exists()


def _has_daemons(record: _Record) -> bool:
    for name in _DAEMONS:
        found = process(record.pids.get(name, -1))
        if found is None or not _is_head(found, [Path(record.temp_dir)]) or found.session != record.session:
            return False
    return True


def _recorded(home: Home) -> _Record | None:
    try:
        return _Record.model_validate_json((home.path / "ray.json").read_bytes())
    except (OSError, ValidationError):
        return None  # a Ray that still runs is found among the processes


def _check_versions(home: Home, running: _Record) -> None:
    mine = (installed_version("ray"), python_version())
    theirs = (running.ray_version, running.python_version)
    if mine != theirs:
        raise HomeUnusable(
            f"home {home.path}",
            f"its Ray is {theirs[0]} on Python {theirs[1]}, this process has {mine[0]} on Python {mine[1]}",
            "run: holdfast down; or use the environment that started it",
        )


def _end(home: Home, *, gently: bool) -> bool:
    """End all processes of the home's Ray, forget it and remove its files. The caller holds the lock."""
    record = _recorded(home)
    temp_dirs = [home.runtime / _FOLDER] + ([Path(record.temp_dir)] if record else [])
    (home.path / "ray.json").unlink(missing_ok=True)
    found = bool(_members(temp_dirs))
    if gently:  # the raylet first: it ends its workers, and the rest then has nothing left to do
        _signal_until_gone(lambda: [one for one in _heads(temp_dirs) if one.program == "raylet"], signal.SIGTERM)
        _signal_until_gone(lambda: _members(temp_dirs), signal.SIGTERM)
    if left := _signal_until_gone(lambda: _members(temp_dirs), signal.SIGKILL):
        raise ClusterUnavailable(f"the processes {sorted(one.pid for one in left)} of {home.path} cannot be killed")
    if record is not None and record.cluster_id and record.seen_from and record.seen_from == _seen_from():
        # If two containers share a home, this is no proof: each sees only its own processes.
        gone = [*(one for one in gone_rays(home) if one != record.cluster_id), record.cluster_id][-_GONE_KEPT:]
        with contextlib.suppress(HomeUnusable):  # without the proof, the store's binding must run out first
            home.write_file(_GONE, _Gone(cluster_ids=gone).model_dump_json() + "\n")
    for temp_dir in temp_dirs:
        if not temp_dir.is_symlink():  # version 0.1 made it
            shutil.rmtree(temp_dir, ignore_errors=True)
    if (home.path / _FOLDER).is_dir():
        ray_logs.settle(_linked(home))
    for temp_dir in temp_dirs:
        for path in (temp_dir, temp_dir.with_name(_KEEP)):
            with contextlib.suppress(OSError):
                path.unlink()
    return found


def _signal_until_gone(find: Callable[[], list[Process]], number: signal.Signals) -> list[Process]:
    """Signal each process once; those that still live after the grace period."""
    signalled: set[int] = set()
    began = time.monotonic()
    while (left := find()) and time.monotonic() - began < _GRACE_S:
        for one in left:
            if one.pid not in signalled:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(one.pid, number)
                signalled.add(one.pid)
        time.sleep(_POLL_S / 2)
    return left


def _members(temp_dirs: list[Path]) -> list[Process]:
    """All processes of the home's Ray.

    Workers and agents rename themselves (`ray::...`). They are known by the session they share with a daemon or, if no daemon
    is left, by the log files they hold open.
    """
    everyone = list(processes())
    sessions = {one.session for one in everyone if _is_head(one, temp_dirs)}
    return [
        one
        for one in everyone
        if one.pid != os.getpid()
        and (one.session in sessions or (one.arguments[0].startswith("ray::") and _holds(one.pid, temp_dirs)))
    ]


def _heads(temp_dirs: list[Path]) -> list[Process]:
    return [one for one in processes() if _is_head(one, temp_dirs)]


def _is_head(one: Process, temp_dirs: list[Path]) -> bool:
    """Whether a process is `ray start` or one of its daemons: its arguments name the home's temporary directory."""
    for temp_dir in temp_dirs:
        if f"--temp-dir={temp_dir}" in one.arguments:
            return True
        if one.program in _DAEMONS and any(f"={temp_dir}/" in argument for argument in one.arguments):
            return True
    return False


def _holds(pid: int, temp_dirs: list[Path]) -> bool:
    folders = [temp_dir.resolve() for temp_dir in temp_dirs]
    return any(opened.is_relative_to(folder) for opened in opened_files(pid) for folder in folders)


def _address(home: Home, record: _Record) -> RayAddress:
    return RayAddress(record.address, home.path / "ray-token", record.cluster_id, gone_rays(home))


def _linked(home: Home) -> Path:
    """The short path of Ray's temporary directory; the link is made if missing."""
    link = home.socket(_FOLDER)  # this refuses a runtime directory that is not this user's
    try:
        (home.path / _FOLDER).mkdir(mode=0o700, exist_ok=True)
        fresh = link.with_name(f"{_FOLDER}.{secrets.token_hex(4)}")
        fresh.symlink_to(home.path / _FOLDER)
        fresh.replace(link)  # atomic, since several processes may find the link gone
        keep = link.with_name(_KEEP)
        keep.touch(mode=0o600)
        keep.chmod(0o1600)  # programs that clean /tmp keep a file with this bit, and so its directory
    except OSError as error:
        problem = f"Ray's directory in it cannot be made ({error})"
        raise HomeUnusable(f"home {home.path}", problem, f"correct the cause, or remove {home.path / _FOLDER}") from error
    return link
