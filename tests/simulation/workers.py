"""The cluster under the real `RayWorkers`: workers as simulated processes, each a real `Worker` that serves the shop."""

import asyncio
import contextlib
from functools import partial

from holdfast.actors.actor_settings import StoreAddress
from holdfast.actors.ray_workers import RayWorkers, WorkerDied, WorkerUnavailable
from holdfast.actors.worker import model_outcome
from holdfast.actors.worker.app_runtime import agent_of
from holdfast.actors.worker.model_answer import AnswerCall
from holdfast.actors.worker.worker import Worker
from holdfast.conversation import ModelFailed, Summarized
from holdfast.redaction import PLAIN
from holdfast.registry.messages import Messages

from . import shop
from .loop import PROCESS
from .network import Died, Unavailable
from .store import SimStore

ADDRESS = StoreAddress(redis_url="simulated", namespace="holdfast", store_id="simulated")


class SimWorker(Worker):
    """The real one, but for what leaves the process: its store and its model are given, and the world ends it."""

    def __init__(self, world, process, settings):
        super().__init__(settings)
        self._world = world
        self._process = process
        self._given = SimStore(world, process)
        self._reached = lambda step: world.nemesis.reached(process, step)

    @property
    def incarnation(self):
        return self._incarnation

    async def _connected(self):
        return self._given

    async def _model(self, store, app, request, spec, reading, *, rules):
        if isinstance(found := model_outcome.asked(request, spec, reading), ModelFailed | Summarized):
            return found
        asking, messages = model_outcome.to_send(*found)
        self._world.ledger.requested(request, asking, messages)
        await self._world.pause(self._world.model.seconds())
        answer = self._world.model.answer(request, messages, asking)
        if isinstance(answer, ModelFailed) or not answer.calls or found[1].due is not None:
            return model_outcome.concluded(answer, *found, reading, request.stopped)
        calls = [AnswerCall(call.tool_call_id, [call.name], [call.arguments]) for call in answer.calls]
        agent, in_force, turn = agent_of(app.app, request.agent), await rules.now(), await rules.turn()
        judged = model_outcome.judged(agent, spec, calls, PLAIN, rules=in_force, turn=turn)
        return answer.model_copy(update={"calls": judged})

    def _end(self):
        self._world.leave(self._process)


class SimRuntime:
    """An app whose code runs on the worker's own loop. Stands for `AppRuntime` in every worker."""

    app = shop.APP
    resources = None
    left = 0
    worn = False
    in_thread = staticmethod(asyncio.to_thread)
    used = staticmethod(contextlib.nullcontext)

    @classmethod
    async def open(cls, _settings):
        """Import the app, which does not always work out."""
        world = PROCESS.get().world
        await world.pause()
        problem = world.faults.import_problem()
        if problem is not None:
            raise problem
        return cls()

    async def loop(self):
        return self

    @property
    def latest(self):
        return self

    async def run(self, work):
        return await work

    async def asked(self, agent, what, function, otherwise):
        del agent, what, otherwise
        return function()

    async def tidy(self):
        pass

    async def close(self):
        pass


class Seat:
    """A worker's name in a cluster, and the process that has it: if that dies another is started, unless it has left."""

    def __init__(self, settings, cluster):
        self.settings = settings
        self.cluster = cluster
        self.label = settings.name.rpartition(":")[2] if settings.alone else f"worker-{settings.name.rpartition(':')[2]}"
        self.left = False
        self.process = None


class SimWorkerHandle:
    """See `WorkerHandle`: what is asked of it goes to whichever process has the seat by now."""

    def __init__(self, world, seat):
        self._world = world
        self._seat = seat

    def __getattr__(self, verb):
        if verb.startswith("_"):
            raise AttributeError(verb)
        return lambda *args, **kwargs: self._call(verb, *args, **kwargs)

    def drop(self, incarnation):
        PROCESS.get().start(self._dropped(incarnation))

    async def _dropped(self, incarnation):
        with contextlib.suppress(WorkerUnavailable):
            await self._call("drop", incarnation)

    async def _call(self, verb, *args, **kwargs):
        process = self._seat.process
        try:
            return await self._world.network.call(process, verb, lambda: getattr(process.worker, verb)(*args, **kwargs))
        except Died as error:
            raise (WorkerDied if self._seat.left else WorkerUnavailable)("Died") from error
        except Unavailable as error:
            raise WorkerUnavailable("Unavailable") from error


class SimCluster:
    """See `Cluster`."""

    def __init__(self, world, cluster):
        self._world = world
        self._cluster = cluster

    async def find(self, name):
        await self._world.pause()
        seat = self._world.seats.get(name)
        return SimWorkerHandle(self._world, seat) if seat is not None and seat.cluster == self._cluster else None

    async def key(self):
        await self._world.pause()
        return shop.KEY

    async def environment(self, app, code):
        await self._world.pause()
        return {}

    async def spawn(self, settings, *, avoid):
        await self._world.pause()
        seat = self._world.seats.get(settings.name) or self._world.employ(settings, self._cluster)
        return SimWorkerHandle(self._world, seat)


def messages(world, process, store):
    """How a process accepts messages as a guest, for workers of whichever cluster and release."""
    settings = world.settings()
    workers = RayWorkers(store, settings, SimCluster(world, settings.cluster))
    reached = partial(world.nemesis.reached, process)
    return Messages(store, workers, settings.release, settings.traces, reached=reached)
