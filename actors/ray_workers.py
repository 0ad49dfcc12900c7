"""Workers as named actors: named by the code that they run, made if missing, told apart by their incarnation."""

import asyncio
import binascii
import contextlib
import logging
from collections.abc import Awaitable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Protocol, TypeVar

from holdfast.background import Background
from holdfast.backoff import now_s
from holdfast.conversation.ids import digest
from holdfast.errors import ClusterStopped, HoldfastError
from holdfast.persistence import EVERYWHERE, AppRecord, Directory, DirectoryAndRuns, RunStatus
from holdfast.together import Together

from . import wire
from .actor_settings import ActorSettings, WorkerSettings
from .published import Published
from .worker.attestation import EVERY_S
from .worker.refusals import AppBroken, Dropped, Succeeded
from .workers import (
    Claimed,
    DeliverAnswer,
    DeliverRequest,
    ModelRequest,
    NoApp,
    NoOutcome,
    NoWorker,
    PublishedAgent,
    RunRequest,
    WorkAnswer,
    WorkerLost,
)

logger = logging.getLogger("holdfast.workers")

_T = TypeVar("_T")
ALONE = "alone-"
"""Slot-name prefix of workers that run few claims at once, usually one."""
PREPARED_S = 20.0
"""Seconds that a call waits for a worker that imports its app; the import goes on, and the call is repeated."""
TOLD_TOGETHER = 4
"""How many deliveries one call to a worker asks for at most: fewer than a target has at once, so that calls overlap."""
CODE_S = 1.0
"""Seconds for which the published code of an app is known without another look."""
LOOK_ABROAD_S = 1.0
SILENT_S = 2 * EVERY_S
"""Seconds without an attestation of its claims after which a worker of another cluster counts as gone."""


class WorkerUnavailable(Exception):
    """The worker does not answer now; it may live, or be restarted under the same name. The message says why."""


class WorkerDied(WorkerUnavailable):
    """The cluster knows that the worker is dead and will not be restarted."""


class WorkerHandle(Protocol):
    """The methods of one named `Worker`, in whichever process it runs now. Each may also raise `WorkerUnavailable`."""

    async def prepare(self) -> str: ...
    async def process(self) -> str: ...
    async def do(self, asked: bytes) -> bytes: ...
    async def keeps(self, incarnations: Sequence[str]) -> Sequence[bool]: ...
    async def deliver(self, asked: bytes) -> bytes: ...
    def drop(self, incarnation: str) -> None:
        """See `Worker.drop`; the answer is not awaited."""


class Launcher(Protocol):
    """Finds and launches the workers of a cluster, and knows what its `Vault` has: the key, and each app's environment."""

    async def key(self) -> bytes | None: ...
    async def environment(self, app: str, code: str) -> Mapping[str, str]: ...
    async def find(self, name: str) -> WorkerHandle | None:
        """The worker of that name; None if there is none."""

    async def spawn(self, settings: WorkerSettings, *, avoid: Collection[str]) -> WorkerHandle:
        """The worker that the settings name, made if missing, off `avoid` if possible; the cluster restarts it if it dies."""


class RayWorkers:
    """The workers of one store, found and made by a launcher."""

    def __init__(self, store: DirectoryAndRuns, settings: ActorSettings, launcher: Launcher) -> None:
        self._store = store
        self._settings = settings
        self._launcher = launcher
        self._published = Published(store, settings.store, launcher.key)
        self._handles: dict[str, WorkerHandle] = {}
        self._generations: dict[str, int] = {}
        self._broken: set[str] = set()
        self._codes: dict[str, tuple[str, float]] = {}
        self._background = Background()
        self._told = Together(_told, most=TOLD_TOGETHER)

    async def published(self, app: str, agent: str) -> PublishedAgent | None:
        return await self._published.agent(app, agent)

    async def do(self, app: str, request: ModelRequest | RunRequest) -> WorkAnswer:
        """The answer of the first worker with room for the work; if none has, it waits at the conversation's own worker.

        The conversation's own is asked first: it knows the transcript, and which work it has begun.
        """
        own, *others = self._slots(request.conversation_id, request.max_claims)
        answer = await self._answer(app, own, replace(request, waits=not others))
        for slot in others:
            if answer is not NoOutcome.FULL:
                return answer
            base = worker_name(self._settings, app, request.code, slot)
            is_open = successor_name(base, self._generations.get(base, 0)) in self._handles
            if not is_open:  # opening may take long, so this work does not wait
                self._background.start(self._opened(app, request.code, slot))
                continue
            with contextlib.suppress(NoWorker, HoldfastError):
                answer = await self._answer(app, slot, replace(request, waits=False))
        return answer if answer is not NoOutcome.FULL else await self._answer(app, own, request)

    async def _opened(self, app: str, code: str, slot: str) -> None:
        with contextlib.suppress(NoWorker, HoldfastError):
            await self._worker(app, code, slot)

    async def _answer(self, app: str, slot: str, request: ModelRequest | RunRequest) -> WorkAnswer:
        name, worker = await self._worker(app, request.code, slot)
        answer: WorkAnswer = wire.unpack(await self._asked(name, worker, worker.do(wire.pack(request))))
        return answer

    async def deliver(self, app: str, request: DeliverRequest) -> DeliverAnswer:
        """Have a worker of the app's published code tell one of the app's notification targets.

        Raises:
            NoWorker: No worker can do that now; it may be that the target was told.
            WorkerLost: The worker's process was gone before it answered.
        """
        code = await self._code_of(app)
        name, worker = await self._worker(app, code, self._slots(request.target, 0)[0])
        alone: DeliverRequest | None = None
        try:
            while (answer := await self._asked(name, worker, self._told.result((worker, alone), request))) is None:
                alone = request
        except NoWorker as error:
            if isinstance(error.__cause__, WorkerUnavailable):
                raise WorkerLost(str(error)) from error
            raise
        return answer

    async def _code_of(self, app: str) -> str:
        """The code of an app that is published, as of `CODE_S` ago at most."""
        code, until_s = self._codes.get(app, ("", 0.0))
        if now_s() >= until_s:
            record = await self._published.record(app)
            if record is None:
                raise NoApp(f"no app {app!r} is known to the store")
            code = record.code
            self._codes[app] = code, now_s() + CODE_S
        return code

    async def join(self, worker: str, incarnation: str, conversation_id: str, effect_id: str) -> Claimed | NoOutcome:
        handle = await self._launcher.find(worker)  # by name: a kept handle may belong to a worker that has left
        if handle is None:
            gone = self._settings.judges(worker)
            return NoOutcome.GONE if gone else await self._abroad(incarnation, conversation_id, effect_id)
        ours = worker.startswith(self._settings.prefix)
        try:
            if ours and (await self._asked(worker, handle, handle.keeps([incarnation])))[0]:
                return Claimed.BEGUN
            process = await self._asked(worker, handle, handle.process())  # the only method that every release answers
        except NoWorker as error:
            if isinstance(error.__cause__, WorkerDied):
                return NoOutcome.GONE
            raise
        if not incarnation.startswith(f"{process}."):
            return NoOutcome.GONE
        return NoOutcome.FORGOTTEN if ours else Claimed.BEGUN

    async def _abroad(self, incarnation: str, conversation_id: str, effect_id: str) -> Claimed | NoOutcome:
        """What became of a claim of a worker in another cluster, which attests its claims in the store.

        Silence counts only after `SILENT_S`: a store that was away, or was restored, has no attestation at first.
        """
        silent_at_s = now_s() + SILENT_S
        while not await self._store.attested(incarnation.partition(".")[0]):
            if now_s() >= silent_at_s:
                return NoOutcome.GONE
            run = await self._store.run(conversation_id, effect_id)
            if run is None or run.status is not RunStatus.CLAIMED or run.incarnation != incarnation:
                return NoOutcome.NOT_MINE
            await asyncio.sleep(LOOK_ABROAD_S)
        return Claimed.BEGUN

    def drop(self, worker: str, incarnation: str) -> None:
        # If the message is lost, the worker finds out itself: it looks which of its claims stand.
        self._background.start(self._drop(worker, incarnation))

    async def _drop(self, worker: str, incarnation: str) -> None:
        try:
            handle = self._handles.get(worker) or await self._launcher.find(worker)
            if handle is not None and worker.startswith(self._settings.prefix):
                handle.drop(incarnation)
        except Exception as error:  # noqa: BLE001 - nobody waits for the result
            logger.warning("%s of %s is not dropped: %s", incarnation, worker, error)

    async def _worker(self, app: str, code: str, slot: str) -> tuple[str, WorkerHandle]:
        base = worker_name(self._settings, app, code, slot)
        name = successor_name(base, self._generations.get(base, 0))
        handle = None if name in self._broken else self._handles.get(name)
        if handle is not None:
            return name, handle
        generation = self._generations[base] = await self._store.generation(base)
        name = successor_name(base, generation)
        handle = await self._launcher.find(name) if name not in self._broken else None
        if handle is None:  # a new worker can only run the code that is published now
            record = await self._published.record(app)
            if record is None:
                raise NoApp(f"no app {app!r} is known to the store")
            base, generation, handle = await ensure_worker(self._store, self._settings, self._launcher, record, slot)
            name, self._generations[base] = successor_name(base, generation), generation
        try:
            async with asyncio.timeout(PREPARED_S):
                await self._asked(name, handle, handle.prepare())
        except TimeoutError as error:
            raise NoApp(f"{name} is still opening the app") from error
        self._handles[name] = handle
        self._broken.discard(name)  # the app opens there by now
        return name, handle

    def _slots(self, whose: str, max_claims: int) -> Sequence[str]:
        """The slots of the workers that may work for a conversation or target, its own first; one if its claims are limited."""
        process_limits, number = self._settings.process_limits, binascii.crc32(whose.encode())
        if max_claims:
            return (f"{ALONE}{number % process_limits.alone}",)
        return [str((number + further) % process_limits.workers) for further in range(process_limits.workers)]

    async def _asked(self, name: str, handle: WorkerHandle, answer: Awaitable[_T]) -> _T:
        try:
            return await answer
        except WorkerUnavailable as error:
            self._forget(handle)
            raise NoWorker(f"the worker does not answer: {error}") from error
        except AppBroken as error:
            self._broken.add(name)
            self._forget(handle)
            raise NoApp(str(error)) from error
        except (Succeeded, Dropped, HoldfastError) as error:
            if isinstance(error, Succeeded):
                self._forget(handle)
                self._generations.clear()
            raise NoWorker(str(error)) from error

    def _forget(self, handle: WorkerHandle) -> None:
        self._handles = {name: kept for name, kept in self._handles.items() if kept is not handle}


async def _told(
    to: tuple[WorkerHandle, DeliverRequest | None], requests: Sequence[DeliverRequest]
) -> Sequence[DeliverAnswer | Exception | None]:
    """The answers of a worker; with a request that was late, it is asked for that one alone."""
    answers: Sequence[DeliverAnswer | Exception | None] = wire.unpack(await to[0].deliver(wire.pack(tuple(requests))))
    return answers


def worker_name(settings: ActorSettings, app: str, code: str, slot: str) -> str:
    """The name of the worker in a slot for this code of an app; its successors' names derive from it."""
    return f"{settings.prefix}worker:{digest(app, code)}:{slot}"


def successor_name(base: str, generation: int) -> str:
    """The name of a worker's successor in this generation; in generation 0, the worker's own name."""
    return base if generation == 0 else f"{base}.{generation}"


async def ensure_worker(
    store: Directory, settings: ActorSettings, launcher: Launcher, record: AppRecord, slot: str
) -> tuple[str, int, WorkerHandle]:
    """The base name, generation and handle of the worker in this slot for a signed record, made if it is missing."""
    base = worker_name(settings, record.app, record.code, slot)
    generation = await store.generation(base)
    handle = await launcher.find(successor_name(base, generation))
    if handle is None:
        withheld = await store.withheld()
        if EVERYWHERE in withheld:
            raise ClusterStopped(settings.store.namespace)
        environment = await launcher.environment(record.app, record.code)
        spawned = worker_settings(settings, record, slot, environment, generation=generation)
        handle = await launcher.spawn(spawned, avoid=withheld)
    return base, generation, handle


def worker_settings(
    settings: ActorSettings, record: AppRecord, slot: str, environment: Mapping[str, str], *, generation: int
) -> WorkerSettings:
    """The settings of the worker in this slot for an app's code."""
    base = worker_name(settings, record.app, record.code, slot)
    return WorkerSettings(
        actors=settings,
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
    )
