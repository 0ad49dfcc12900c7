"""What an actor or worker is told when it is made. Plain values: they travel by pickle between Ray processes."""

from collections.abc import Mapping
from dataclasses import dataclass, field

RAY_NAMESPACE = "holdfast"


@dataclass(frozen=True, slots=True)
class StoreAddress:
    """Where the store is, and which store it must be."""

    redis_url: str
    namespace: str
    store_id: str


@dataclass(frozen=True, slots=True)
class Timing:
    """How long things take, in milliseconds.

    `lease_ms`: after which silence others may take a busy conversation over. `linger_ms`: how long an actor keeps a
    conversation that rests. `tick_ms`: how often actors and the sweeper look around.
    """

    lease_ms: int = 10_000
    linger_ms: int = 30_000
    tick_ms: int = 500


@dataclass(frozen=True, slots=True)
class Fleet:
    """How many processes there are: blank actors kept warm, and workers for each app."""

    standby: int = 2
    workers: int = 1


@dataclass(frozen=True, slots=True)
class ActorSettings:
    """What every actor of a namespace is told."""

    store: StoreAddress
    timing: Timing = Timing()
    fleet: Fleet = Fleet()

    @property
    def prefix(self) -> str:
        """What the names of this store's actors begin with."""
        return f"holdfast:{self.store.namespace}:{self.store.store_id}:"


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """What a worker is told: whose store it serves, and which code in which environment it runs."""

    store: StoreAddress
    name: str
    app: str
    code: str
    python_path: tuple[str, ...] = ()
    main_file: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
