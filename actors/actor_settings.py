"""The settings with which actors and workers are made: plain values, pickled between processes of one build."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from holdfast import persistence
from holdfast.cipher import CipherAt
from holdfast.conversation.ids import digest
from holdfast.settings import LogSettings, ProcessLimits, Settings, Timing, TraceSettings

from . import wire
from .build import CIPHER, CIPHER_DIGITS, this_release
from .memory import trim

RAY_NAMESPACE = "holdfast"
CLUSTER_DIGITS = 16
"""How many digits of a cluster's id are part of its actors' names: enough to tell clusters apart."""


class _Sealed:
    """A value pickled with the mark of its build: a process of another build refuses it before reading the value."""

    __slots__ = ()

    def __reduce__(self) -> tuple[Any, ...]:
        values = {one.name: getattr(self, one.name) for one in fields(self)}  # type: ignore[arg-type]
        return _unsealed, (wire.pack((type(self), values)),)


def _unsealed(data: bytes) -> Any:
    kind, values = wire.unpack(data)
    return kind(**values)


def short_name(name: str) -> str:
    """The name of an actor, worker or sweeper within its store: `actor:3f2a...`, `worker:...:0`, `sweeper`."""
    for sort in (":worker:", ":actor:"):
        _, found, rest = name.partition(sort)
        if found:
            return f"{sort.strip(':')}:{rest}"
    return name.rpartition(":")[2]


def release_with(cipher: CipherAt | None) -> str:
    """The release of actors that run this Holdfast with this cipher; another cipher, or none, is another release.

    The cipher's digest follows the build in the local part (PEP 440), so that of two ciphers of one build neither is older.
    """
    return this_release() if cipher is None else f"{this_release()}{CIPHER}{digest(cipher.path, length=CIPHER_DIGITS)}"


@dataclass(frozen=True, slots=True)
class StoreAddress:
    """The address of a store, and the id that it must have; `home` is that of the embedded Redis, '' for any other Redis.

    `cipher` says where the code of the store's cipher is found; it comes over Ray, never from the store.
    """

    redis_url: str = field(repr=False)
    namespace: str
    store_id: str
    home: str = ""
    cipher: CipherAt | None = None

    def opened(self, **more: Any) -> persistence.Store:
        """The store at this address; `more` are further arguments of `persistence.opened`."""
        store = persistence.opened(self.redis_url, namespace=self.namespace, store_id=self.store_id, cipher=self.cipher, **more)
        trim()  # its library was imported only now
        return store


@dataclass(frozen=True, slots=True)
class ActorSettings(_Sealed):
    """The settings with which every actor of a namespace is made.

    `release` is the release of Holdfast that they run, `cluster` the id of their Ray cluster, `gone` those of clusters that are
    proven to be gone, with all their processes. `sweeper` makes the store's sweeper if the cluster has none, given these
    settings and `avoid`, the nodes to avoid; it is passed in, since this package does not import the sweeper.
    """

    store: StoreAddress
    timing: Timing = field(default_factory=Timing)
    process_limits: ProcessLimits = field(default_factory=ProcessLimits)
    release: str = field(default_factory=this_release)
    cluster: str = ""
    gone: tuple[str, ...] = ()
    sweeper: Callable[..., object] | None = field(default=None, compare=False)
    log: LogSettings = field(default_factory=LogSettings)
    traces: TraceSettings = field(default_factory=TraceSettings)

    @classmethod
    def of(cls, settings: Settings, store: StoreAddress, cluster: str, **more: Any) -> "ActorSettings":
        """The settings of actors of this process's release, for a store and on a Ray cluster; `more` are further fields."""
        told = (settings.timing, settings.process_limits, release_with(store.cipher), cluster)
        return cls(store, *told, log=settings.log, traces=settings.tracing, **more)

    @property
    def family(self) -> str:
        """Name prefix of this store's actors of every release and cluster."""
        return f"holdfast:{self.store.namespace}:{self.store.store_id}:"

    @property
    def prefix(self) -> str:
        """Name prefix of this store's actors of this release: releases do not talk to each other."""
        return f"{self._of_cluster(self.cluster)}{self.release}:"

    @property
    def sweeper_name(self) -> str:
        """The name of the store's sweeper of this release."""
        return f"{self.prefix}sweeper"

    def judges(self, name: str) -> bool:
        """Whether this cluster knows every living actor of that name: it made the name, or a cluster proven to be gone did."""
        return name.startswith(tuple(map(self._of_cluster, (self.cluster, *self.gone))))

    def _of_cluster(self, cluster: str) -> str:
        return f"{self.family}{cluster[:CLUSTER_DIGITS]}:"


@dataclass(frozen=True, slots=True)
class LinkSettings(_Sealed):
    """What the sweeper makes links with: the keys that sign them, and the URL under which people reach the server.

    Processes that have the keys lend them. They are in the sweeper's memory alone: neither Ray, which restarts it, nor a
    process that runs tools has them.
    """

    keys: Mapping[str, bytes] = field(repr=False)
    public_url: str


@dataclass(frozen=True, slots=True)
class WorkerSettings(_Sealed):
    """The settings with which a worker is made; `needed` names the variables that the app must find in its environment."""

    actors: ActorSettings
    name: str
    app: str
    code: str
    python_path: tuple[str, ...] = ()
    main_file: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    needed: tuple[str, ...] = ()
    alone: bool = False
    base: str = ""
    generation: int = 0
