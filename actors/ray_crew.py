"""Workers as Ray actors: named by what code they run, made when there is none, told apart by their incarnation."""

import asyncio
import binascii
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Collection, Mapping
from typing import Any, TypeVar

import ray
from ray.exceptions import GetTimeoutError, RayActorError, RayError
from ray.util import list_named_actors

from holdfast.conversation import ClusterStopped, ClusterUnavailable, HoldfastError, RunFinished
from holdfast.conversation.ids import digest
from holdfast.persistence import EVERYWHERE, AppRecord, RunStatus, Store

from . import wire
from .attestation import EVERY_S
from .crew import CrewUnavailable, ModelOutcome, NoOutcome, WorkerLost
from .placement import beside
from .requests import ModelRequest, RunRequest
from .settings import RAY_NAMESPACE, ActorSettings, SweeperToKeep, WorkerSettings
from .worker import AppBroken, Dropped, Restarted, Succeeded, Worker

logger = logging.getLogger("holdfast.crew")

_RemoteWorker = ray.remote(Worker)
_T = TypeVar("_T")
ALONE = "alone-"
"""What the slots of workers begin with that do one thing at a time."""
ENVIRONMENT_S = 20.0
PREPARED_S = 20.0
"""How long a call waits for a worker that imports its app; it goes on importing, and the call comes back."""
DIED_S = 20.0
"""How long a worker that may have died is given to say which process it is."""
LOOK_AGAIN_S = 0.2
LOOK_ABROAD_S = 1.0
SILENT_S = 2 * EVERY_S
"""For how long a worker of another cluster must not have attested its claims, as seen from here, to be taken for gone."""
CONVERSATIONS = 16
"""Of how many conversations is kept where their model calls were asked for."""


class RayCrew:
    """The workers of one store."""

    def __init__(self, store: Store, settings: ActorSettings) -> None:
        self._store = store
        self._settings = settings
        self._handles: dict[str, Any] = {}
        self._processes: dict[str, str] = {}
        self._generations: dict[str, int] = {}
        self._broken: set[str] = set()
        self._calling: OrderedDict[str, tuple[str, str]] = OrderedDict()
        self._dropping: set[asyncio.Task[None]] = set()

    async def call_model(self, app: str, code: str, request: ModelRequest) -> ModelOutcome:
        """See `Crew.call_model`."""
        self._note(request.conversation_id, app, code)
        name, worker = await self._worker(app, code, self._slot(request.conversation_id, alone=request.alone))
        if request.alone:  # who waits in the line is at nothing yet: a process that dies meanwhile has not died of this
            await self._asked(name, worker, worker.turn.remote(request.conversation_id, request.effect_id))
        # Ray starts a process anew under the same handle: the call is for the process that would be blamed, or for none.
        process = self._processes[name]
        try:
            answer = await self._asked(name, worker, worker.call_model.remote(wire.pack(request), process))
            outcome: ModelOutcome = wire.unpack(answer)
        except CrewUnavailable as error:
            if isinstance(error.__cause__, RayActorError) and await self._died(name, process):
                message = f"the model call's worker died ({error})"
                raise WorkerLost(message, process) from error
            raise
        return outcome

    async def run_tool(self, app: str, code: str, request: RunRequest) -> RunFinished | NoOutcome:
        """See `Crew.run_tool`."""
        name, worker = await self._worker(app, code, self._slot(request.conversation_id, alone=request.alone))
        answer = await self._asked(name, worker, worker.run_tool.remote(wire.pack(request)))
        outcome: RunFinished | NoOutcome = wire.unpack(answer)
        return outcome

    async def join(self, worker: str, incarnation: str, conversation_id: str, effect_id: str) -> RunFinished | NoOutcome:
        """See `Crew.join`."""
        handle = await asyncio.to_thread(find, worker)
        if handle is None and not self._settings.judges(worker):
            return await self._abroad(incarnation, conversation_id, effect_id)
        if handle is None:
            return NoOutcome.GONE
        try:
            if not worker.startswith(self._settings.prefix):
                return await self._elsewhere(worker, handle, incarnation)
            answer = await self._asked(worker, handle, handle.join.remote(incarnation, conversation_id, effect_id))
        except CrewUnavailable as error:
            if isinstance(error.__cause__, ray.exceptions.ActorDiedError):
                return NoOutcome.GONE
            raise
        outcome: RunFinished | NoOutcome = wire.unpack(answer)
        return outcome

    async def _elsewhere(self, name: str, handle: Any, incarnation: str) -> NoOutcome:
        """What is known of a run that a worker of another release has: as long as its process lives, its record will say."""
        process = await self._asked(name, handle, handle.process.remote())
        if not incarnation.startswith(f"{process}."):
            return NoOutcome.GONE
        message = "a worker of another release runs it"
        raise CrewUnavailable(message)

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
        """See `Crew.drop`."""
        dropping = asyncio.create_task(self._drop(conversation_id, effect_id))
        self._dropping.add(dropping)
        dropping.add_done_callback(self._dropping.discard)

    async def _drop(self, conversation_id: str, effect_id: str) -> None:
        try:
            for handle in await self._handles_of(conversation_id):
                handle.drop.remote(conversation_id, effect_id)
        except (HoldfastError, RayError) as error:
            logger.warning("%s of %s is not dropped: %s", effect_id, conversation_id, error)

    async def _handles_of(self, conversation_id: str) -> list[Any]:
        """The workers that may be at a conversation's work, also at what an actor before this one has asked for."""
        slots = [self._slot(conversation_id, alone=alone) for alone in (False, True)]
        handles = {name: handle for name, handle in self._handles.items() if name.rpartition(":")[2].split(".")[0] in slots}
        for slot in slots if conversation_id in self._calling else ():
            base = worker_name(self._settings, *self._calling[conversation_id], slot)
            generation = await self._store.generation(base)
            for name in {successor_name(base, max(0, generation - 1)), successor_name(base, generation)}:
                handle = handles.get(name) or await asyncio.to_thread(find, name)
                handles |= {name: handle} if handle is not None else {}
        return list(handles.values())

    def _note(self, conversation_id: str, app: str, code: str) -> None:
        self._calling[conversation_id] = (app, code)
        self._calling.move_to_end(conversation_id)
        while len(self._calling) > CONVERSATIONS:
            self._calling.popitem(last=False)

    async def _worker(self, app: str, code: str, slot: str) -> tuple[str, Any]:
        handle: Any
        base = worker_name(self._settings, app, code, slot)
        name = successor_name(base, self._generations.get(base, 0))
        handle = None if name in self._broken else self._handles.get(name)
        if handle is not None:
            return name, handle
        generation = self._generations[base] = await self._store.generation(base)
        name = successor_name(base, generation)
        handle = await asyncio.to_thread(find, name) if name not in self._broken else None
        if handle is None:  # what stands now is what can run
            record = await self._store.app(app)
            if record is None:
                message = f"no app {app!r} is known to the store"
                raise CrewUnavailable(message)
            base = worker_name(self._settings, app, record.code, slot)
            generation = self._generations[base] = await self._store.generation(base)
            name = successor_name(base, generation)
            handle = await asyncio.to_thread(find, name)
            if handle is None:
                withheld = await self._store.withheld()
                if EVERYWHERE in withheld:
                    raise ClusterStopped(self._settings.store.namespace)
                environment = await self._environment(app, record.code)
                handle = await asyncio.to_thread(
                    hire, self._settings, record, slot, environment, generation=generation, avoid=withheld
                )
        try:
            async with asyncio.timeout(PREPARED_S):
                process = await self._asked(name, handle, handle.prepare.remote())
        except TimeoutError as error:
            raise CrewUnavailable(f"{name} is still opening the app") from error
        self._processes[name] = process
        self._handles[name] = handle
        self._broken.discard(name)  # what was missing there has been added
        return name, handle

    async def _environment(self, app: str, code: str) -> Mapping[str, str]:
        """The values that clients handed to the app's workers, from one that lives: a new one has only its node's own."""
        base = worker_name(self._settings, app, code, "")
        slots = [f"{base}{slot}" for slot in range(self._settings.fleet.workers)]
        names = [successor_name(slot, await self._store.generation(slot)) for slot in slots]
        same = base.removeprefix(self._settings.prefix)  # of another release, too: it has been handed the same
        names += [name for name in await asyncio.to_thread(named, self._settings.family) if f":{same}" in name]
        for name in dict.fromkeys(names):
            handle = await asyncio.to_thread(find, name)
            if handle is None:
                continue
            try:
                async with asyncio.timeout(ENVIRONMENT_S):
                    found: Mapping[str, str] = await handle.environment.remote()
            except (RayError, AppBroken, TimeoutError):
                continue
            return found
        return {}

    async def _died(self, name: str, process: str) -> bool:
        """Whether the worker's process is another than the one that was asked, or there is none; false if it does not say."""
        try:
            async with asyncio.timeout(DIED_S):
                while True:
                    handle = await asyncio.to_thread(find, name)
                    if handle is None:
                        return True
                    try:
                        return bool(await handle.process.remote() != process)
                    except RayActorError:  # Ray says so at once while it starts another
                        await asyncio.sleep(LOOK_AGAIN_S)
        except TimeoutError:
            return False

    def _slot(self, conversation_id: str, *, alone: bool) -> str:
        fleet, number = self._settings.fleet, binascii.crc32(conversation_id.encode())
        return f"{ALONE}{number % fleet.alone}" if alone else str(number % fleet.workers)

    async def _asked(self, name: str, handle: Any, answer: Awaitable[_T]) -> _T:
        try:
            return await answer
        except (RayActorError, GetTimeoutError) as error:
            self._forget(handle)
            raise CrewUnavailable(f"the worker does not answer: {type(error).__name__}") from error
        except (Succeeded, Dropped, AppBroken, Restarted) as error:
            self._learn(name, handle, error)
            raise CrewUnavailable(str(error)) from error
        except RayError as error:
            cause = getattr(error, "cause", None)
            if isinstance(cause, AppBroken | Dropped | Succeeded | Restarted | HoldfastError):
                self._learn(name, handle, cause)
                raise CrewUnavailable(str(cause)) from error
            raise

    def _learn(self, name: str, handle: Any, error: BaseException) -> None:
        match error:
            case Succeeded():
                self._forget(handle)
                self._generations.clear()
            case AppBroken():
                self._broken.add(name)
                self._forget(handle)
            case Restarted():
                self._forget(handle)  # its process is asked which one it is before it is asked for anything else

    def _forget(self, handle: Any) -> None:
        self._handles = {name: kept for name, kept in self._handles.items() if kept is not handle}


def worker_name(settings: ActorSettings, app: str, code: str, slot: str) -> str:
    """The name of a worker: of this store, for this code of this app. Its successors' names are made from it."""
    return f"{settings.prefix}worker:{digest(app, code)}:{slot}"


def successor_name(base: str, generation: int) -> str:
    """The name of a worker's successor; of the first, its own."""
    return base if generation == 0 else f"{base}.{generation}"


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


def named(prefix: str) -> list[str]:
    """The names of all actors whose name begins so.

    Raises:
        ClusterUnavailable: This process is in no cluster (any more).
    """
    in_cluster()
    actors = list_named_actors(all_namespaces=True)
    return sorted(actor["name"] for actor in actors if actor["namespace"] == RAY_NAMESPACE and actor["name"].startswith(prefix))


def in_cluster() -> None:
    """Make sure that this process is in a cluster: Ray would silently start one of its own.

    Raises:
        ClusterUnavailable: It is in none (any more).
    """
    if not ray.is_initialized():
        raise ClusterUnavailable("this process is in no Ray cluster (any more)")


def hire(
    settings: ActorSettings,
    record: AppRecord,
    slot: str,
    environment: Mapping[str, str] | None = None,
    *,
    generation: int = 0,
    avoid: Collection[str] = (),
) -> Any:
    """The handle of the worker for an app's code, made if there is none, if need be beside these nodes.

    Ray restarts a worker that dies, with the same environment and as a new incarnation.
    """
    in_cluster()
    base = worker_name(settings, record.app, record.code, slot)
    name = successor_name(base, generation)
    worker = WorkerSettings(
        store=settings.store,
        name=name,
        app=record.app,
        code=record.code,
        python_path=record.python_path,
        main_file=record.main_file,
        environment=dict(environment or {}),
        alone=slot.startswith(ALONE),
        base=base,
        generation=generation,
        effects=settings.fleet.effects,
        memory_mb=settings.fleet.worker_mb,
        idle_s=settings.fleet.worker_idle_s,
        sweeper=SweeperToKeep.of(settings),
    )
    return _RemoteWorker.options(
        name=name,
        namespace=RAY_NAMESPACE,
        lifetime="detached",
        get_if_exists=True,
        num_cpus=0,
        max_restarts=-1,
        max_concurrency=10_000,  # beyond what it does at once, so that it can always be asked how it is
        **beside(avoid),
    ).remote(worker)
