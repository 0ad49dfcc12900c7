"""What an actor or worker is told when it is made. Plain values: they travel by pickle between Ray processes of one build."""

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from holdfast.cipher import CipherAt
from holdfast.conversation.ids import digest
from holdfast.settings import ProcessLimits, Timing

from . import wire
from .build import CIPHER, CIPHER_DIGITS, this_release

RAY_NAMESPACE = "holdfast"
CLUSTER_DIGITS = 16
"""How much of a cluster's id stands in the names of its actors: enough to tell it from any other."""


class _Sealed:
    """What is pickled in a seal that tells the build: an actor of another build refuses it before it reads anything."""

    __slots__ = ()

    def __reduce__(self) -> tuple[Any, ...]:
        values = {one.name: getattr(self, one.name) for one in fields(self)}  # type: ignore[arg-type]
        return _unsealed, (wire.pack((type(self), values)),)


def _unsealed(data: bytes) -> Any:
    kind, values = wire.unpack(data)
    return kind(**values)


def release_with(cipher: CipherAt | None) -> str:
    """What actors of this Holdfast that have this cipher count as: those that have another one, or none, are others.

    It goes on in the local part (PEP 440), which this build begins: of one release, neither is older.
    """
    return this_release() if cipher is None else f"{this_release()}{CIPHER}{digest(cipher.path, length=CIPHER_DIGITS)}"


@dataclass(frozen=True, slots=True)
class StoreAddress:
    """Where the store is, and which store it must be; `home` is that of the embedded Redis, '' for another one.

    `cipher` is where the cipher of its payloads is found. It comes over Ray, never from the store: it is code.
    """

    redis_url: str = field(repr=False)
    namespace: str
    store_id: str
    home: str = ""
    cipher: CipherAt | None = None


@dataclass(frozen=True, slots=True)
class ActorSettings(_Sealed):
    """What every actor of a namespace is told.

    Attributes:
        store: Whose actors these are.
        timing: How long things take.
        process_limits: How many processes there are.
        release: Which Holdfast they run.
        cluster: The id of the Ray cluster that they are made in.
        gone: The ids of clusters that are proven to be gone, with all their processes.
        sweeper: What makes the store's sweeper where the cluster has none: called with these settings, and with the nodes
            to avoid as `avoid`. It is handed in: this package does not know how.
    """

    store: StoreAddress
    timing: Timing = field(default_factory=Timing)
    process_limits: ProcessLimits = field(default_factory=ProcessLimits)
    release: str = field(default_factory=this_release)
    cluster: str = ""
    gone: tuple[str, ...] = ()
    sweeper: Callable[..., object] | None = field(default=None, compare=False)

    @property
    def family(self) -> str:
        """What the names of this store's actors begin with, whatever release of Holdfast they run."""
        return f"holdfast:{self.store.namespace}:{self.store.store_id}:"

    @property
    def prefix(self) -> str:
        """What the names of this store's actors of this release begin with: releases do not talk to each other."""
        return f"{self._of_cluster(self.cluster)}{self.release}:"

    @property
    def sweeper_name(self) -> str:
        """The name of the store's sweeper of this release."""
        return f"{self.prefix}sweeper"

    def judges(self, name: str) -> bool:
        """Whether an actor of that name lives only if this cluster knows it.

        That holds for names made in this very cluster, and in one that is proven to be gone. Of another cluster's, nothing
        can be known here.
        """
        return name.startswith(tuple(map(self._of_cluster, (self.cluster, *self.gone))))

    def _of_cluster(self, cluster: str) -> str:
        return f"{self.family}{cluster[:CLUSTER_DIGITS]}:"


@dataclass(frozen=True, slots=True)
class SweeperToKeep:
    """The sweeper that workers see to: what makes it where it is not there, and the release whose it is."""

    ensure: Callable[..., object]
    release: str

    @classmethod
    def of(cls, settings: ActorSettings) -> "SweeperToKeep | None":
        """That of a store, None where it was not handed in how it is made."""
        return None if settings.sweeper is None else cls(functools.partial(settings.sweeper, settings), settings.release)


@dataclass(frozen=True, slots=True)
class WorkerSettings(_Sealed):
    """What a worker is told: whose store it serves, and which code in which environment it runs.

    `needed` names the variables without which the app was not published.
    """

    store: StoreAddress
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
    effects: int = 100_000
    memory_mb: int = 2048
    idle_s: int = 0
    sweeper: SweeperToKeep | None = None
