"""Workers as named actors: named by what code they run, made when there is none, told apart by their incarnation."""

import asyncio
import binascii
import logging
from collections.abc import Awaitable, Mapping
from typing import Protocol, TypeVar

from holdfast.conversation import RunFinished
from holdfast.conversation.ids import digest
from holdfast.errors import ClusterStopped, HoldfastError
from holdfast.persistence import EVERYWHERE, AppRecord, Directory, Runs, RunStatus

from . import wire
from .actor_settings import ActorSettings, SweeperToKeep, WorkerSettings
from .published import Published, Standing
from .work_requests import ModelRequest, RunRequest
from .worker.attestation import EVERY_S
from .worker.worker import AppBroken, Dropped, Restarted, Succeeded
from .worker_cluster import Cluster, WorkerDied, WorkerHandle, WorkerUnavailable
from .workers import ModelOutcome, NoOutcome, NoWorker, WorkerLost

logger = logging.getLogger("holdfast.workers")

_T = TypeVar("_T")
ALONE = "alone-"
"""What the slots of workers begin with that do one thing at a time."""
PREPARED_S = 20.0
"""How long a call waits for a worker that imports its app; it goes on importing, and the call comes back."""
DIED_S = 20.0
"""How long a worker that may have died is given to say which process it is."""
LOOK_AGAIN_S = 0.2
LOOK_ABROAD_S = 1.0
SILENT_S = 2 * EVERY_S
"""For how long a worker of another cluster must not have attested its claims, as seen from here, to be taken for gone."""


class RunsAndDirectory(Runs, Directory, Protocol):
    """What the workers ask of a store."""


class RayWorkers:
    """The workers of one store, in a cluster that behaves as Ray's does."""

    def __init__(self, store: RunsAndDirectory, settings: ActorSettings, cluster: Cluster) -> None:
        self._store = store
        self._settings = settings
        self._cluster = cluster
        self._published = Published(store, settings.store, cluster.key)
        self._handles: dict[str, WorkerHandle] = {}
        self._processes: dict[str, str] = {}
        self._generations: dict[str, int] = {}
        self._broken: set[str] = set()
        self._called: tuple[str, str, str] | None = None  # the conversation whose model was called last, its app and its code
        self._dropping: set[asyncio.Task[None]] = set()

    async def standing(self, app: str, agent: str) -> Standing | None:
        """See `Workers.standing`."""
        return await self._published.standing(app, agent)

    async def call_model(self, app: str, code: str, request: ModelRequest) -> ModelOutcome:
        """See `Workers.call_model`."""
        self._called = request.conversation_id, app, code
        name, worker = await self._worker(app, code, self._slot(request.conversation_id, alone=request.alone))
        if request.alone:  # who waits in the line is at nothing yet: a process that dies meanwhile has not died of this
            await self._asked(name, worker, worker.turn(request.conversation_id, request.effect_id))
        # Ray starts a process anew under the same handle: the call is for the process that would be blamed, or for none.
        process = self._processes[name]
        try:
            answer = await self._asked(name, worker, worker.call_model(wire.pack(request), process))
            outcome: ModelOutcome = wire.unpack(answer)
        except NoWorker as error:
            cause = error.__cause__
            left = isinstance(cause, WorkerDied)  # by itself, or ended on purpose: one that dies of its work is started again
            if isinstance(cause, WorkerUnavailable) and not left and await self._died(name, process):
                message = f"the model call's worker died ({error})"
                raise WorkerLost(message, process) from error
            raise
        return outcome

    async def run_tool(self, app: str, code: str, request: RunRequest) -> RunFinished | NoOutcome:
        """See `Workers.run_tool`."""
        name, worker = await self._worker(app, code, self._slot(request.conversation_id, alone=request.alone))
        answer = await self._asked(name, worker, worker.run_tool(wire.pack(request)))
        outcome: RunFinished | NoOutcome = wire.unpack(answer)
        return outcome

    async def join(self, worker: str, incarnation: str, conversation_id: str, effect_id: str) -> RunFinished | NoOutcome:
        """See `Workers.join`."""
        handle = await self._cluster.find(worker)
        if handle is None and not self._settings.judges(worker):
            return await self._abroad(incarnation, conversation_id, effect_id)
        if handle is None:
            return NoOutcome.GONE
        try:
            if not worker.startswith(self._settings.prefix):
                return await self._elsewhere(worker, handle, incarnation)
            answer = await self._asked(worker, handle, handle.join(incarnation, conversation_id, effect_id))
        except NoWorker as error:
            if isinstance(error.__cause__, WorkerDied):
                return NoOutcome.GONE
            raise
        outcome: RunFinished | NoOutcome = wire.unpack(answer)
        return outcome

    async def _elsewhere(self, name: str, handle: WorkerHandle, incarnation: str) -> NoOutcome:
        """What is known of a run that a worker of another release has: as long as its process lives, its record will say."""
        process = await self._asked(name, handle, handle.process())
        if not incarnation.startswith(f"{process}."):
            return NoOutcome.GONE
        message = "a worker of another release runs it"
        raise NoWorker(message)

    async def _abroad(self, incarnation: str, conversation_id: str, effect_id: str) -> NoOutcome:
        """Follow a run that a worker of another cluster has: nobody here can ask it, but it attests its claims in the store.

        Its silence counts once it was seen for a while: a store that was away, or went back, knows of nothing at first.
        """
        loop = asyncio.get_running_loop()
        heard_at = loop.time()
        while True:
            if await self._store.attested(incarnation.partition(".")[0]):
                heard_at = loop.time()
            elif loop.time() - heard_at >= SILENT_S:
                return NoOutcome.GONE
            run = await self._store.run(conversation_id, effect_id)
            if run is None or run.status is not RunStatus.CLAIMED or run.incarnation != incarnation:
                return NoOutcome.NOT_MINE
            await asyncio.sleep(LOOK_ABROAD_S)

    def drop(self, conversation_id: str, effect_id: str) -> None:
        """See `Workers.drop`."""
        dropping = asyncio.create_task(self._drop(conversation_id, effect_id))
        self._dropping.add(dropping)
        dropping.add_done_callback(self._dropping.discard)

    async def _drop(self, conversation_id: str, effect_id: str) -> None:
        try:
            for handle in await self._handles_of(conversation_id):
                handle.drop(conversation_id, effect_id)
        except Exception as error:  # noqa: BLE001 - nobody waits for it
            logger.warning("%s of %s is not dropped: %s", effect_id, conversation_id, error)

    async def _handles_of(self, conversation_id: str) -> list[WorkerHandle]:
        """The workers that may be at a conversation's work, also at what an actor before this one has asked for."""
        slots = [self._slot(conversation_id, alone=alone) for alone in (False, True)]
        handles = {name: handle for name, handle in self._handles.items() if name.rpartition(":")[2].split(".")[0] in slots}
        if self._called is None or self._called[0] != conversation_id:
            return list(handles.values())
        _, app, code = self._called  # one is enough: an actor hosts one conversation at a time
        for slot in slots:
            base = worker_name(self._settings, app, code, slot)
            generation = await self._store.generation(base)
            for name in dict.fromkeys(successor_name(base, number) for number in (max(0, generation - 1), generation)):
                handle = handles.get(name) or await self._cluster.find(name)
                handles |= {name: handle} if handle is not None else {}
        return list(handles.values())

    async def _worker(self, app: str, code: str, slot: str) -> tuple[str, WorkerHandle]:
        base = worker_name(self._settings, app, code, slot)
        name = successor_name(base, self._generations.get(base, 0))
        handle = None if name in self._broken else self._handles.get(name)
        if handle is not None:
            return name, handle
        generation = self._generations[base] = await self._store.generation(base)
        name = successor_name(base, generation)
        handle = await self._cluster.find(name) if name not in self._broken else None
        if handle is None:  # what stands now is what can run
            record = await self._published.record(app)
            if record is None:
                message = f"no app {app!r} is known to the store"
                raise NoWorker(message)
            base, generation, handle = await ensure_worker(self._store, self._settings, self._cluster, record, slot)
            name, self._generations[base] = successor_name(base, generation), generation
        try:
            async with asyncio.timeout(PREPARED_S):
                process = await self._asked(name, handle, handle.prepare())
        except TimeoutError as error:
            raise NoWorker(f"{name} is still opening the app") from error
        self._processes[name] = process
        self._handles[name] = handle
        self._broken.discard(name)  # what was missing there has been added
        return name, handle

    async def _died(self, name: str, process: str) -> bool:
        """Whether the worker's process is another than the one that was asked; false if it does not say, or has left."""
        try:
            async with asyncio.timeout(DIED_S):
                while True:
                    handle = await self._cluster.find(name)
                    if handle is None:
                        return False
                    try:
                        return bool(await handle.process() != process)
                    except WorkerUnavailable:  # Ray says so at once while it starts another
                        await asyncio.sleep(LOOK_AGAIN_S)
        except TimeoutError:
            return False

    def _slot(self, conversation_id: str, *, alone: bool) -> str:
        process_limits, number = self._settings.process_limits, binascii.crc32(conversation_id.encode())
        return f"{ALONE}{number % process_limits.alone}" if alone else str(number % process_limits.workers)

    async def _asked(self, name: str, handle: WorkerHandle, answer: Awaitable[_T]) -> _T:
        try:
            return await answer
        except WorkerUnavailable as error:
            self._forget(handle)
            raise NoWorker(f"the worker does not answer: {error}") from error
        except (Succeeded, Dropped, AppBroken, Restarted, HoldfastError) as error:
            self._learn(name, handle, error)
            raise NoWorker(str(error)) from error

    def _learn(self, name: str, handle: WorkerHandle, error: BaseException) -> None:
        match error:
            case Succeeded():
                self._forget(handle)
                self._generations.clear()
            case AppBroken():
                self._broken.add(name)
                self._forget(handle)
            case Restarted():
                self._forget(handle)  # its process is asked which one it is before it is asked for anything else

    def _forget(self, handle: WorkerHandle) -> None:
        self._handles = {name: kept for name, kept in self._handles.items() if kept is not handle}


def worker_name(settings: ActorSettings, app: str, code: str, slot: str) -> str:
    """The name of a worker: of this store, for this code of this app. Its successors' names are made from it."""
    return f"{settings.prefix}worker:{digest(app, code)}:{slot}"


def successor_name(base: str, generation: int) -> str:
    """The name of a worker's successor; of the first, its own."""
    return base if generation == 0 else f"{base}.{generation}"


async def ensure_worker(
    store: Directory, settings: ActorSettings, cluster: Cluster, record: AppRecord, slot: str
) -> tuple[str, int, WorkerHandle]:
    """The worker in this slot for what a publisher has signed, made if there is none: its base name, its generation, itself.

    Raises:
        ClusterStopped: Holdfast was stopped on this cluster.
        StoreError: The store does not answer.
    """
    base = worker_name(settings, record.app, record.code, slot)
    generation = await store.generation(base)
    handle = await cluster.find(successor_name(base, generation))
    if handle is None:
        withheld = await store.withheld()
        if EVERYWHERE in withheld:
            raise ClusterStopped(settings.store.namespace)
        environment = await cluster.environment(record.app, record.code)
        spawned = worker_settings(settings, record, slot, environment, generation=generation)
        handle = await cluster.spawn(spawned, avoid=withheld)
    return base, generation, handle


def worker_settings(
    settings: ActorSettings, record: AppRecord, slot: str, environment: Mapping[str, str], *, generation: int
) -> WorkerSettings:
    """What the worker in this slot for an app's code is told."""
    base = worker_name(settings, record.app, record.code, slot)
    return WorkerSettings(
        store=settings.store,
        name=successor_name(base, generation),
        app=record.app,
        code=record.code,
        python_path=record.python_path,
        main_file=record.main_file,
        environment=dict(environment),
        needed=record.environment,
        alone=slot.startswith(ALONE),
        base=base,
        generation=generation,
        effects=settings.process_limits.effects,
        memory_mb=settings.process_limits.worker_mb,
        idle_s=settings.process_limits.worker_idle_s,
        sweeper=SweeperToKeep.of(settings),
    )
