"""The interface of a cluster for workers, which are found, spawned and asked by name."""

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from .actor_settings import WorkerSettings


class WorkerUnavailable(Exception):
    """The worker does not answer now; it may live on, or be started again under the same name. The message says why."""


class WorkerDied(WorkerUnavailable):
    """The cluster knows that the worker is dead, and starts none in its place."""


class WorkerHandle(Protocol):
    """One named worker, whichever process it is by now; see `Worker`, whose methods these are.

    Each method may raise, besides the errors of the worker's own method:
        WorkerDied: The worker has ended for good.
        WorkerUnavailable: The worker does not answer now.
    """

    async def prepare(self) -> str:
        """See `Worker.prepare`."""
        ...

    async def process(self) -> str:
        """See `Worker.process`."""
        ...

    async def call_model(self, asked: bytes) -> bytes:
        """See `Worker.call_model`."""
        ...

    async def run_tool(self, asked: bytes) -> bytes:
        """See `Worker.run_tool`."""
        ...

    async def join(self, incarnation: str, *, briefly: bool) -> bytes:
        """See `Worker.join`."""
        ...

    async def keeps(self, incarnations: Sequence[str]) -> Sequence[bool]:
        """See `Worker.keeps`."""
        ...

    def drop(self, incarnation: str) -> None:
        """See `Worker.drop`; nobody waits for the answer."""
        ...


class Cluster(Protocol):
    """The cluster that workers are in.

    Each method may raise:
        ClusterUnavailable: This process is in no cluster (any more), so nothing is known of its actors.
    """

    async def find(self, name: str) -> WorkerHandle | None:
        """The worker of that name; None if there is none."""
        ...

    async def key(self) -> bytes | None:
        """See `Vault.key`."""
        ...

    async def environment(self, app: str, code: str) -> Mapping[str, str]:
        """See `Vault.environment`."""
        ...

    async def spawn(self, settings: WorkerSettings, *, avoid: Collection[str]) -> WorkerHandle:
        """The worker that the settings name; if there is none, one is made, if possible on another node than `avoid`.

        The cluster restarts a worker that dies.
        """
        ...
