"""Workers as simulated processes: real `Worker`s whose app is the shop and whose model is a function."""

import asyncio
import contextlib

from holdfast.actors import CrewUnavailable, NoOutcome, StoreAddress, Worker, WorkerLost, WorkerSettings
from holdfast.actors.worker import AppBroken, Dropped
from holdfast.conversation import HoldfastError

from . import shop
from .network import Died, Unavailable
from .store import SimStore

ADDRESS = StoreAddress(redis_url="simulated", namespace="holdfast", store_id="simulated")


class SimWorker(Worker):
    """The real one, but for what leaves the process: its store, its app and its model are given."""

    def __init__(self, world, process, name):
        super().__init__(
            WorkerSettings(store=ADDRESS, name=name, app=shop.PATH, code=shop.CODE, alone=name.startswith("alone"))
        )
        self._world = world
        self._given = SimStore(world, process)
        self._reached = lambda step: world.nemesis.reached(process, step)

    async def _open(self):
        return self._given, SimRuntime()

    async def _model(self, store, app, request, messages):
        await self._spec(store, request.spec_digest)
        await self._admitted(store, request.agent)
        self._world.ledger.begins(request.agent, f"the model call {request.effect_id} of {request.conversation_id}")
        await self._world.pause(self._world.model.seconds())
        return self._world.model.answer(request, messages)


class SimRuntime:
    """An app whose code runs on the worker's own loop."""

    app = shop.APP
    resources = None
    left = 0
    worn = False
    in_thread = staticmethod(asyncio.to_thread)
    used = staticmethod(contextlib.nullcontext)

    async def loop(self):
        return self

    async def run(self, work):
        return await work


class SimCrew:
    """See `Crew`; it does what `RayCrew` does, with simulated processes."""

    def __init__(self, world, process):
        self._world = world
        self._process = process

    async def call_model(self, app, code, request):
        worker = self._worker(request.conversation_id, alone=request.alone)
        if request.alone:
            ticket = request.conversation_id, request.effect_id
            await self._call(worker, "turn", lambda: worker.worker._turn_of(ticket))
        incarnation = worker.worker._incarnation
        try:
            return await self._call(worker, "call_model", lambda: worker.worker._model_called(request))
        except CrewUnavailable as error:
            if isinstance(error.__cause__, Died):
                raise WorkerLost(str(error), incarnation) from error
            raise

    async def run_tool(self, app, code, request):
        worker = self._worker(request.conversation_id, alone=request.alone)
        return await self._call(worker, "run_tool", lambda: worker.worker._tool_run(request))

    async def join(self, worker, incarnation, conversation_id, effect_id):
        await self._world.pause()
        process = self._world.workers.get(worker)
        if process is None:
            return NoOutcome.GONE
        try:
            return await self._call(process, "join", lambda: process.worker._joined(incarnation, conversation_id, effect_id))
        except CrewUnavailable as error:
            if isinstance(error.__cause__, Died):
                return NoOutcome.GONE
            raise

    def drop(self, conversation_id, effect_id):
        for alone in (False, True):
            worker = self._worker(conversation_id, alone=alone)
            if not worker.gone:
                self._process.start(self._drop(worker, conversation_id, effect_id))

    async def _drop(self, worker, conversation_id, effect_id):
        with contextlib.suppress(CrewUnavailable):
            await self._call(worker, "drop", lambda: worker.worker.drop(conversation_id, effect_id))

    def _worker(self, conversation_id, *, alone):
        return self._world.workers[self._world.slot(conversation_id, alone=alone)]

    async def _call(self, worker, what, serve):
        try:
            return await self._world.network.call(worker, what, serve)
        except (Died, Unavailable) as error:
            raise CrewUnavailable(f"the worker does not answer: {type(error).__name__}") from error
        except (AppBroken, Dropped, HoldfastError) as error:
            raise CrewUnavailable(str(error)) from error
