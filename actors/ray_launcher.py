"""The cluster on Ray: named actors, and Ray's errors for actors that do not answer."""

import asyncio
from collections.abc import Awaitable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import ray
from ray.exceptions import ActorDiedError, GetTimeoutError, RayActorError, RayError
from ray.util import list_named_actors

from holdfast.errors import ClusterUnavailable, HoldfastError

from .actor_settings import RAY_NAMESPACE, WorkerSettings
from .placement import in_turn, turn_of
from .ray_workers import WorkerDied, WorkerUnavailable
from .vault import Vault
from .worker.refusals import AppBroken, Dropped, Succeeded
from .worker.worker import Worker
from .workers import WorkPaused

_RemoteWorker = ray.remote(Worker)
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class RayWorker:
    """See `WorkerHandle`."""

    _actor: Any

    async def prepare(self) -> str:
        return await _answered(self._actor.prepare.remote())

    async def process(self) -> str:
        return await _answered(self._actor.process.remote())

    async def pid(self) -> int:
        """The id of the worker's process, on its node."""
        return await _answered(self._actor.pid.remote())

    async def do(self, asked: bytes) -> bytes:
        return await _answered(self._actor.do.remote(asked))

    async def keeps(self, incarnations: Sequence[str]) -> Sequence[bool]:
        return await _answered(self._actor.keeps.remote(list(incarnations)))

    async def deliver(self, asked: bytes) -> bytes:
        return await _answered(self._actor.deliver.remote(asked))

    def drop(self, incarnation: str) -> None:
        self._actor.drop.remote(incarnation)


@dataclass(frozen=True, slots=True)
class RayLauncher:
    """See `Launcher`."""

    _vault: Vault

    async def find(self, name: str) -> RayWorker | None:
        actor = await asyncio.to_thread(find, name)
        return None if actor is None else RayWorker(actor)

    async def key(self) -> bytes | None:
        return self._vault.known or await asyncio.to_thread(self._vault.key)

    async def environment(self, app: str, code: str) -> Mapping[str, str]:
        return await asyncio.to_thread(self._vault.environment, app, code)

    async def spawn(self, settings: WorkerSettings, *, avoid: Collection[str]) -> RayWorker:
        return RayWorker(await asyncio.to_thread(spawn, settings, avoid))


async def _answered(answer: Awaitable[_T]) -> _T:
    try:
        return await answer
    except ActorDiedError as error:
        raise WorkerDied(type(error).__name__) from error
    except (RayActorError, GetTimeoutError) as error:
        raise WorkerUnavailable(type(error).__name__) from error
    except RayError as error:
        cause = getattr(error, "cause", None)
        if isinstance(cause, AppBroken | Dropped | Succeeded | WorkPaused | HoldfastError):
            raise cause from error
        raise


def find(name: str) -> Any | None:
    """The handle of a named actor; None if there is none."""
    in_cluster()
    try:
        return ray.get_actor(name, namespace=RAY_NAMESPACE)
    except ValueError:
        return None


def named(prefix: str) -> list[str]:
    """The sorted names of all actors with this name prefix."""
    in_cluster()
    actors = list_named_actors(all_namespaces=True)
    return sorted(actor["name"] for actor in actors if actor["namespace"] == RAY_NAMESPACE and actor["name"].startswith(prefix))


def in_cluster() -> None:
    """Raise `ClusterUnavailable` if this process is in no cluster: Ray would silently start one of its own."""
    if not ray.is_initialized():
        raise ClusterUnavailable("this process is in no Ray cluster (any more)")


def spawn(settings: WorkerSettings, avoid: Collection[str]) -> Any:
    """The handle of the worker that the settings name, made if missing, off `avoid` if possible; Ray restarts it if it dies."""
    in_cluster()
    return _RemoteWorker.options(
        name=settings.name,
        namespace=RAY_NAMESPACE,
        lifetime="detached",
        get_if_exists=True,
        num_cpus=0,
        max_restarts=-1,
        max_concurrency=10_000,  # more calls than a worker carries out, so that it always answers
        **in_turn(turn_of(settings.base), avoid),
    ).remote(settings)
