"""Workers as Ray actors: named by what code they run, made when there is none, told apart by their incarnation."""

import asyncio
import binascii
import logging
from collections.abc import Awaitable, Mapping
from typing import Any

import ray
from ray.exceptions import GetTimeoutError, RayActorError, RayError

from holdfast.conversation import ClusterUnavailable, HoldfastError, RunFinished
from holdfast.conversation.ids import digest
from holdfast.persistence import AppRecord, Store

from . import wire
from .crew import CrewUnavailable, ModelOutcome, NoOutcome
from .requests import ModelRequest, RunRequest
from .settings import RAY_NAMESPACE, ActorSettings, WorkerSettings
from .worker import AppBroken, Worker

logger = logging.getLogger("holdfast.crew")

_RemoteWorker = ray.remote(Worker)


class RayCrew:
    """The workers of one store."""

    def __init__(self, store: Store, settings: ActorSettings) -> None:
        self._store = store
        self._settings = settings
        self._handles: dict[str, Any] = {}
        self._broken: set[str] = set()

    async def call_model(self, app: str, code: str, request: ModelRequest) -> ModelOutcome:
        """See `Crew.call_model`."""
        worker = await self._worker(app, code, request.conversation_id)
        outcome: ModelOutcome = await self._asked(worker, worker.call_model.remote(wire.pack(request)))
        return outcome

    async def run_tool(self, app: str, code: str, request: RunRequest) -> RunFinished | NoOutcome:
        """See `Crew.run_tool`."""
        worker = await self._worker(app, code, request.conversation_id)
        outcome: RunFinished | NoOutcome = await self._asked(worker, worker.run_tool.remote(wire.pack(request)))
        return outcome

    async def join(self, worker: str, incarnation: str, conversation_id: str, effect_id: str) -> RunFinished | NoOutcome:
        """See `Crew.join`."""
        handle = await asyncio.to_thread(find, worker)
        if handle is None:
            return NoOutcome.GONE
        try:
            outcome: RunFinished | NoOutcome = await self._asked(
                handle, handle.join.remote(incarnation, conversation_id, effect_id)
            )
        except CrewUnavailable as error:
            if isinstance(error.__cause__, ray.exceptions.ActorDiedError):
                return NoOutcome.GONE
            raise
        return outcome

    def drop(self, conversation_id: str, effect_id: str) -> None:
        """See `Crew.drop`."""
        for name, handle in self._handles.items():
            if name.endswith(f":{self._slot(conversation_id)}"):
                handle.drop.remote(conversation_id, effect_id)

    async def _worker(self, app: str, code: str, conversation_id: str) -> Any:
        slot = self._slot(conversation_id)
        name = worker_name(self._settings, app, code, slot)
        handle = None if name in self._broken else self._handles.get(name) or await asyncio.to_thread(find, name)
        if handle is None:  # what stands now is what can run
            record = await self._store.app(app)
            if record is None:
                message = f"no app {app!r} is known to the store"
                raise CrewUnavailable(message)
            handle = await asyncio.to_thread(hire, self._settings, record, slot)
            name = worker_name(self._settings, app, record.code, slot)
        self._handles[name] = handle
        return handle

    def _slot(self, conversation_id: str) -> int:
        return binascii.crc32(conversation_id.encode()) % self._settings.fleet.workers

    async def _asked(self, handle: Any, answer: Awaitable[bytes]) -> Any:
        try:
            return wire.unpack(await answer)
        except AppBroken as error:
            self._broken |= {name for name, kept in self._handles.items() if kept is handle}
            self._forget(handle)
            raise CrewUnavailable(str(error)) from error
        except (RayActorError, GetTimeoutError) as error:
            self._forget(handle)
            raise CrewUnavailable(f"the worker does not answer: {type(error).__name__}") from error
        except RayError as error:
            cause = getattr(error, "cause", None)
            if isinstance(cause, AppBroken | HoldfastError):
                raise CrewUnavailable(str(cause)) from error
            raise

    def _forget(self, handle: Any) -> None:
        self._handles = {name: kept for name, kept in self._handles.items() if kept is not handle}


def worker_name(settings: ActorSettings, app: str, code: str, slot: int) -> str:
    """The name of a worker: of this store, for this code of this app."""
    return f"{settings.prefix}worker:{digest(app, code)}:{slot}"


def find(name: str) -> Any | None:
    """The handle of a named actor, None if there is none.

    Raises:
        ClusterUnavailable: This process is in no cluster (any more), so nothing is known of its actors.
    """
    in_cluster()
    try:
        return ray.get_actor(name, namespace=RAY_NAMESPACE)
    except ValueError:
        return None


def in_cluster() -> None:
    """Make sure that this process is in a cluster: Ray would silently start one of its own.

    Raises:
        ClusterUnavailable: It is in none (any more).
    """
    if not ray.is_initialized():
        raise ClusterUnavailable("this process is in no Ray cluster (any more)")


def hire(settings: ActorSettings, record: AppRecord, slot: int, environment: Mapping[str, str] | None = None) -> Any:
    """The handle of the worker for an app's code, made if there is none.

    Ray restarts a worker that dies, with the same environment and as a new incarnation.
    """
    in_cluster()
    name = worker_name(settings, record.app, record.code, slot)
    worker = WorkerSettings(
        store=settings.store,
        name=name,
        app=record.app,
        code=record.code,
        python_path=record.python_path,
        main_file=record.main_file,
        environment=dict(environment or {}),
    )
    return _RemoteWorker.options(
        name=name,
        namespace=RAY_NAMESPACE,
        lifetime="detached",
        get_if_exists=True,
        num_cpus=0,
        max_restarts=-1,
        max_concurrency=1000,
    ).remote(worker)
