"""A worker without Ray, whose store and app are given; the app's code runs on the worker's own loop."""

import asyncio
import contextlib

from writer import DESK, Writer, begin, call, start

from holdfast.actors.actor_settings import ActorSettings, StoreAddress, WorkerSettings
from holdfast.actors.worker import asking
from holdfast.actors.worker.bench import Bench
from holdfast.actors.worker.gate import FixedRules
from holdfast.actors.worker.refusals import shared
from holdfast.actors.worker.worker import Worker
from holdfast.actors.workers import Claimed, NoOutcome, RunRequest
from holdfast.agent import App, Rules
from holdfast.persistence import AppRecord, MemoryStore, RunStatus

ACTORS = ActorSettings(StoreAddress("redis://x", "holdfast", "store-1"))
SETTINGS = WorkerSettings(ACTORS, "worker-0", "shop:app", "k", base="worker-0")


class OwnLoop:
    """The app's runtime, and the loop that it gives."""

    resources = None
    left = 0
    worn = False
    in_thread = staticmethod(asyncio.to_thread)
    used = staticmethod(contextlib.nullcontext)

    def __init__(self, app):
        self.app = app
        self.latest = self

    async def loop(self):
        return self

    async def run(self, work):
        return await work

    async def asked(self, agent, what, function, otherwise):
        try:
            async with asyncio.timeout(asking.FUNCTION_S):
                return await asyncio.to_thread(function)
        except TimeoutError:
            return otherwise

    async def judged(self, agent, judge):
        return await asyncio.to_thread(judge, asking.here)


def bench_at(store, **more):
    """The bench of a worker without rules, whose bodies run on the caller's own loop."""
    return Bench(**{"store": store, "worker": "w-1", "rules": FixedRules(Rules()), "room": OwnLoop(None)} | more)


class GivenWorker(Worker):
    """The real one, but for what leaves the process."""

    def __init__(self, store, *agents):
        super().__init__(SETTINGS)
        self._given = store
        self._runtime = OwnLoop(App(agents=list(agents)))

    async def _open(self):
        return self._given, self._runtime


async def carried_out(worker, request):
    """What comes of work that a worker is asked for, however long it takes."""
    answer = await worker._done(request)
    return await finished(worker, claim_of(worker, request)) if isinstance(answer, Claimed) else answer


def claim_of(worker, request):
    """The newest claim of the work that a worker was asked for."""
    work = (request.conversation_id, request.effect_id)
    return [incarnation for incarnation, claim in worker._claims._claims.items() if claim.work == work][-1]


async def finished(worker, incarnation):
    """What comes of a claim in the end."""
    task = worker._claims.task(incarnation)
    return NoOutcome.FORGOTTEN if task is None else await shared(task)


async def runnable():
    """A store with a run that nobody has claimed, and the request for it."""
    store = MemoryStore()
    await store.put_app(AppRecord(app="shop:app", code="k", agents={"desk": DESK.digest}), (DESK,))
    writer = await Writer.of(store, "c-1")
    await writer.do(start("hello"), begin(), call("lookup"))
    (called,) = writer.state.turn.calls
    source = next(seq for seq, event in await store.read("c-1", after=0) if event.kind == "model_answered")
    request = RunRequest(
        code="k",
        conversation_id="c-1",
        agent="desk",
        spec_digest=DESK.digest,
        effect_id=f"{called.tool_call_id}#1",
        turn_id=writer.state.turn.turn_id,
        tool_call_id=called.tool_call_id,
        tool="lookup",
        attempt=1,
        arguments_at=source,
    )
    assert (await store.run("c-1", request.effect_id)).status is RunStatus.RUNNABLE
    return store, request
