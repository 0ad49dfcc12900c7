"""Joining a Ray cluster, and binding the store to it."""

import asyncio
import atexit
import logging
import math
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

from holdfast.actors.actor_settings import RAY_NAMESPACE
from holdfast.errors import ClusterUnavailable, ConfigurationError, WrongCluster
from holdfast.persistence import Binding, Directory
from holdfast.redaction import PLAIN

logger = logging.getLogger("holdfast.ray")

BINDING_STALE_MS = 15_000
"""How long (ms) the bound cluster's sweeper must be silent before another cluster may take the store."""
CONNECT_TIMEOUT_S = 5.0
RENEW_EVERY_S = 1.0
"""Seconds between two renewals of a cluster's binding."""
LOOK_AT_BINDING_S = 1.0
"""Seconds between two looks while a process waits for another cluster's binding to end."""
ANSWER_S = 2.0
"""How long a joined cluster's GCS may take to answer."""
OTHER_CLUSTER = "WrongClusterID"
"""The answer of a GCS to a process that has joined another cluster at its address."""
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
"""The bytes with which an HTTP/2 client begins."""
_SETTINGS = bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))
"""An empty HTTP/2 settings frame; a server, such as Ray's processes, answers the preface with its own."""

_memberships: dict[str, int] = {}  # clients per cluster; module state, since a process joins one Ray cluster as a whole
_one_at_a_time = threading.RLock()
"""Held while this process joins, leaves or asks a cluster: Ray expects that from one thread."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """A Ray cluster that this process has joined.

    `cluster_id` was drawn at random by the cluster's GCS: two clusters may have equal addresses, machines and boot ids.
    `joined_here` says that a Holdfast client in this process joined the cluster, so `leave` leaves it.
    """

    cluster_id: str
    address: str
    joined_here: bool


class Presence(StrEnum):
    """The state of a joined cluster, as this process sees it."""

    HERE = "here"  # it answers
    SILENT = "silent"  # it does not answer for now: its GCS may be restarted
    GONE = "gone"  # another cluster is at its address, or the node through which this process joined has ended


def join(address: str, *, embedded: bool = False) -> Cluster:
    """Join the cluster at an address (`host:port` or `auto`).

    The embedded Ray listens on loopback only. Its processes agree on that by an environment variable that must be set before
    ray is imported; if the program has imported ray already, this function corrects the setting.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_DISABLE_IMPORT_WARNING", "1")
    if address != "auto":
        _greet(address)
    import ray  # noqa: PLC0415 - the environment is set first

    if embedded:
        _observe_environment(ray)
    with _one_at_a_time:
        joined_here = not ray.is_initialized()
        if joined_here:
            _init(ray, address)
        found = current(joined_here=joined_here)
        if not joined_here and address not in ("auto", found.address):
            problem = f"this process has already joined the cluster at {found.address}"
            raise ConfigurationError("ray_address", problem, f"use that one, or call ray.shutdown() before joining {address}")
        if not joined_here and presence(found) is not Presence.HERE:
            raise ClusterUnavailable(f"this process has not left the cluster at {found.address} yet, which does not answer")
        if joined_here or _memberships.get(found.cluster_id):
            _memberships[found.cluster_id] = _memberships.get(found.cluster_id, 0) + 1
            found = replace(found, joined_here=True)
        return found


def current(*, joined_here: bool = False) -> Cluster:
    """The cluster that this process has joined."""
    import ray  # noqa: PLC0415 - the environment is set first
    from ray._private.worker import global_worker  # noqa: PLC0415 - Ray says a cluster's id nowhere else

    cluster_id = global_worker.gcs_client.cluster_id.hex()
    return Cluster(cluster_id, str(ray.get_runtime_context().gcs_address), joined_here)


def leave(cluster: Cluster) -> None:
    """Leave a cluster for one client; after the last client, the process leaves it, if a Holdfast client had joined it."""
    import ray  # noqa: PLC0415 - the environment is set first

    with _one_at_a_time:
        left = _memberships.get(cluster.cluster_id, 0) - 1
        if not cluster.joined_here or left < 0:
            return
        _memberships[cluster.cluster_id] = left
        if left == 0:
            del _memberships[cluster.cluster_id]
            if _is_in(cluster):  # otherwise the program itself has left it, perhaps for another cluster
                ray.shutdown()


def presence(cluster: Cluster) -> Presence:
    """The state of a joined cluster, within `ANSWER_S`; a cluster that was left meanwhile is not asked, and is `HERE`.

    Ray ends a process whose cluster has been silent for a minute, so the process must leave before that.
    """
    import ray  # noqa: PLC0415 - the environment is set first
    from ray._private.worker import global_worker  # noqa: PLC0415 - the environment is set first

    with _one_at_a_time:
        if not _is_in(cluster):
            return Presence.HERE
        try:
            global_worker.gcs_client.internal_kv_get(b"holdfast", b"holdfast", timeout=ANSWER_S)
        except ray.exceptions.RayError as error:
            logger.debug("%s does not answer: %s", cluster.address, error)
            gone = OTHER_CLUSTER in str(error) or not _listens(global_worker.node.raylet_socket_name)
            return Presence.GONE if gone else Presence.SILENT
        return Presence.HERE


def _is_in(cluster: Cluster) -> bool:
    import ray  # noqa: PLC0415 - the environment is set first
    from ray._private.worker import global_worker  # noqa: PLC0415 - the environment is set first

    return bool(ray.is_initialized() and global_worker.gcs_client.cluster_id.hex() == cluster.cluster_id)


def _listens(path: str) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(CONNECT_TIMEOUT_S)
        try:
            connection.connect(path)
        except (ConnectionRefusedError, FileNotFoundError):
            return False
        except OSError:
            return True
    return True


def _observe_environment(ray: Any) -> None:
    """Make a Ray imported earlier read the loopback setting and the token again."""
    _raylet: Any = import_module("ray._raylet")  # Ray offers no public way

    ray._private.ray_constants.ENABLE_RAY_CLUSTER = False  # noqa: SLF001 - Ray offers no public way
    _raylet.Config.initialize("")
    _raylet.AuthenticationTokenLoader.instance().reset_cache()


def _init(ray: Any, address: str) -> None:
    logging.getLogger("ray").setLevel(logging.ERROR)  # errors that matter are raised, in our words
    # Ray prints other processes' deaths on stdout, whatever `log_to_driver` says: they do not belong in a program's output.
    ray._private.worker.print_to_stdstream = _to_log  # noqa: SLF001 - Ray offers no public way
    ray._private.ray_constants.NUM_REDIS_GET_RETRIES = 1  # noqa: SLF001 - of 40 s each; Ray's default of 20 is no deadline
    job = ray.job_config.JobConfig()
    job._py_driver_sys_path = _Ahead()  # noqa: SLF001 - Ray offers no public way
    try:
        ray.init(
            address=address,
            namespace=RAY_NAMESPACE,
            job_config=job,
            log_to_driver=False,
            configure_logging=False,
            logging_level="ERROR",
        )
    except (ConnectionError, TimeoutError, ray.exceptions.RayError) as error:
        raise ClusterUnavailable(f"{address}: {PLAIN.said(error, 300)}") from error
    except RuntimeError as error:
        if "ersion mismatch" in str(error):
            said = " ".join(str(error).split())
            raise ConfigurationError(
                "ray_address",
                f"{address} runs other versions ({PLAIN.redacted(said, 500)})",
                "use the same Ray and Python versions here",
            ) from error
        raise ClusterUnavailable(f"{address}: {PLAIN.redacted(str(error), 300)}") from error


def keep_sigterm() -> None:
    """Restore this program's SIGTERM handler, which joining Ray replaces; does nothing outside the main thread."""
    handler = signal.getsignal(signal.SIGTERM)
    if threading.current_thread() is threading.main_thread() and handler is not None:
        signal.signal(signal.SIGTERM, handler)


class _Ahead(list[str]):
    """The directories that Ray's workers search before installed packages: only those that this process searches first, too.

    By itself Ray would add the current directory, even if it is not on this process's path.
    """

    def extend(self, directories: Iterable[str]) -> None:
        installed = str(Path(os.__file__).parent)
        ahead = sys.path[: sys.path.index(installed)] if installed in sys.path else sys.path
        mine = {str(Path(entry).resolve()) for entry in ahead}
        super().extend(directory for directory in directories if str(Path(directory).resolve()) in mine)


def _to_log(data: Mapping[str, Any], **_: Any) -> None:
    for line in data.get("lines", ()):
        logger.info("%s: %s", data.get("pid"), line)


def split(address: str) -> tuple[str, int]:
    """The host and port of an address; `ConfigurationError` if the text is no `host:port`."""
    host, _, port = address.rpartition(":")
    if not host or not (port.isascii() and port.isdigit()) or not 0 < int(port) <= 65535:  # noqa: PLR2004 - the last port
        raise ConfigurationError(
            "ray_address", f"{PLAIN.redacted(repr(address), 80)} is no address", "use host:port, or 'auto'"
        )
    return host, int(port)


def _greet(address: str) -> None:
    """Refuse an address where nothing answers, or a server that is not Ray: an attempt to join it would hang for minutes."""
    try:
        connection = socket.create_connection(split(address), CONNECT_TIMEOUT_S)
    except (OSError, UnicodeError) as error:  # UnicodeError: the host's name is ill-formed
        raise ClusterUnavailable(f"nothing answers at {address} ({error})") from error
    try:
        with connection:
            if os.environ.get("RAY_USE_TLS", "0") != "0":
                return
            connection.settimeout(CONNECT_TIMEOUT_S)
            connection.sendall(PREFACE + _SETTINGS)
            answer = connection.recv(len(_SETTINGS), socket.MSG_WAITALL)
    except OSError as error:
        raise ClusterUnavailable(f"the server at {address} does not answer as Ray does ({error})") from error
    if answer[3:4] != _SETTINGS[3:4]:
        raise ClusterUnavailable(f"the server at {address} is not Ray: give the address that `ray start --head` printed")


async def bind(
    store: Directory, cluster: Cluster, *, gone: Sequence[str] = (), say: Callable[[str], None] = logger.warning
) -> None:
    """Bind the store to this cluster.

    If another cluster has the binding, this call waits until it has not been renewed for `BINDING_STALE_MS`, and says so in one
    line (`say`). Only renewals show whether that cluster lives: its address may lead nowhere, or to another server. The sweeper
    of a living cluster renews the binding every `RENEW_EVERY_S`; at the first renewal seen, this call raises `WrongCluster`. A
    binding to a cluster known to be `gone` is replaced at once.
    """
    before: Binding | None = None
    told = False
    while (binding := await store.bind(cluster.cluster_id, cluster.address, BINDING_STALE_MS, gone=gone)) is not None:
        # Looks are at least `LOOK_AT_BINDING_S` apart: a binding that aged by less than half of that was renewed.
        if before is not None and (
            binding.cluster != before.cluster or binding.age_ms < before.age_ms + LOOK_AT_BINDING_S * 500
        ):
            raise wrong(binding, cluster)
        if before is not None and not told:
            left_s = math.ceil((BINDING_STALE_MS - binding.age_ms) / 1000)
            say(f"holdfast: the store is bound to the Ray cluster at {binding.address}, silent now: waiting up to {left_s} s")
            told = True
        before = binding
        await asyncio.sleep(LOOK_AT_BINDING_S)


async def hold(store: Directory, here: Callable[[], Cluster], *, gone: Sequence[str] = ()) -> None:
    """Renew the binding of the cluster that `here` returns, every `RENEW_EVERY_S` for ever; leave another cluster's alone."""
    while True:
        await asyncio.sleep(RENEW_EVERY_S)
        try:
            cluster = here()
            await store.bind(cluster.cluster_id, cluster.address, BINDING_STALE_MS, gone=gone)
        except Exception as error:  # noqa: BLE001 - the next renewal may succeed, whatever the error
            logger.warning("the binding could not be renewed: %s", error)


def wrong(binding: Binding, cluster: Cluster) -> WrongCluster:
    """The error for a store that is bound to another cluster; it names the ids if both addresses are equal."""
    if binding.address != cluster.address:
        return WrongCluster(binding.address, cluster.address)
    bound, found = (
        f"{address} ({cluster_id[:12]})"
        for address, cluster_id in ((binding.address, binding.cluster), (cluster.address, cluster.cluster_id))
    )
    return WrongCluster(bound, found)


RAY_THREAD = "worker.io"
"""The name of a thread in every process that has joined a cluster."""

_FIX = (
    "send commands in the parent only after it has forked, or from a process of its own: with `gunicorn --preload`, use "
    "the client in requests or in the post_fork hook; with multiprocessing, use the start method 'spawn'"
)


def refuse_inherited_ray() -> None:
    """Refuse a process whose Ray is only a copy of its parent's."""
    ray = sys.modules.get("ray")
    if ray is None or not ray.is_initialized() or _has_thread():
        return
    problem = "this process was forked from one that had joined Ray, which does not work in a forked process"
    raise ConfigurationError("ray_address", problem, _FIX)


def _has_thread() -> bool:
    try:
        return any((task / "comm").read_text().strip() == RAY_THREAD for task in Path("/proc/self/task").iterdir())
    except OSError:  # no /proc, or a thread that just ended
        return not _Inherited.found


class _Inherited:
    found = False
    status = 0


def _after_fork() -> None:
    """Replace Ray's exit handler in this child, so that it can end without harm to the parent's connections."""
    ray: Any = sys.modules.get("ray")
    if ray is None or not ray.is_initialized() or _Inherited.found:
        return
    _Inherited.found = True
    atexit.unregister(ray._private.worker.shutdown)  # noqa: SLF001 - it would wait for threads that only the parent has
    atexit.register(_end)
    leave = sys.exit

    def leave_with(status: str | int | None = None, /) -> NoReturn:
        _Inherited.status = status if isinstance(status, int) else int(status is not None)
        leave(status)

    sys.exit = leave_with  # the only way to learn the process's exit status


def _end() -> None:
    """End the process after all other exit handlers, but before its copy of Ray is destroyed."""
    if _Inherited.found:
        _Inherited.found = False
        atexit._run_exitfuncs()  # noqa: SLF001 - the other exit handlers; this one was called first
        for stream in (sys.stdout, sys.stderr):
            if stream is not None and not stream.closed:
                stream.flush()
        os._exit(1 if getattr(sys, "last_value", None) is not None else _Inherited.status & 0xFF)


os.register_at_fork(after_in_child=_after_fork)
