"""Conversation actors as simulated processes, each with a real `Host`."""

from holdfast.actors.actor_settings import StoreAddress
from holdfast.actors.host import Host
from holdfast.actors.proofs import Proofs
from holdfast.actors.ray_workers import RayWorkers
from holdfast.registry.pool import ActorDied, ActorUnavailable
from holdfast.registry.watchdog import Gone
from holdfast.store_clock import steady_ms

from .network import Died, Unavailable
from .store import SimStore
from .workers import SimCluster

SERVED, SERVERS_KEY = StoreAddress("", "simulated", "store"), b"known to those who have verified somebody"


async def servers_key():
    return SERVERS_KEY


class SimHandle:
    """See `Handle`."""

    __slots__ = ("_process", "_world")

    def __init__(self, world, process):
        self._world = world
        self._process = process

    async def activate(self, conversation_id, seen_token, because, *, create, first=None):
        return await self._call(
            "activate", lambda: self._process.host.activate(conversation_id, seen_token, because, create=create, first=first)
        )

    async def ask(self, conversation_id, command):
        return await self._call(f"ask {command.kind}", lambda: self._process.host.ask(conversation_id, command))

    async def _call(self, what, serve):
        try:
            return await self._world.network.call(self._process, what, serve)
        except Died as error:
            raise ActorDied(str(error)) from error
        except Unavailable as error:
            raise ActorUnavailable(str(error)) from error


class SimProcesses:
    """See `holdfast.registry.watchdog.Processes`."""

    def __init__(self, world):
        self._world = world

    def _living(self):
        return {process.name: process for process in self._everybody() if not process.gone}

    def _everybody(self):
        return (*self._world.actors.values(), *self._world.workers.values())

    async def names(self):
        await self._world.pause()
        return list(self._living())

    def hosts(self, name):
        return name in self._world.actors

    async def answer(self, name):
        process = self._living().get(name)
        if process is None:
            raise Gone(name)

        async def pong():
            pass

        try:
            await self._world.network.call(process, "ping", pong)
        except (Died, Unavailable) as error:
            raise Gone(name) from error

    async def end(self, name):
        process = self._living().get(name)
        if process is not None:
            self._world.crash(process, "is ended, since it answers nothing")


class SimActors:
    """See `Actors`."""

    def __init__(self, world):
        self._world = world

    async def find(self, name):
        await self._world.pause()
        process = self._world.actors.get(name)
        return None if process is None or process.gone else SimHandle(self._world, process)

    def ours(self, name):
        return True

    def judges(self, name):
        return True

    async def keeps(self, worker, incarnations):
        await self._world.pause()
        seat = self._world.seats.get(worker)
        if seat is None:
            return [False] * len(incarnations)
        process = seat.process
        try:
            return await self._world.network.call(process, "keeps", lambda: process.worker.keeps(incarnations))
        except Died:
            return [False] * len(incarnations) if seat.left else None
        except Unavailable:
            return None

    def new_name(self):
        self._world.spawned += 1
        return f"actor-{self._world.spawned}"

    async def spawn(self, name, *, offer):
        world = self._world
        process = world.process(name)
        settings = world.settings()
        world.actors[process.name] = process

        async def warm():
            store = SimStore(world, process)
            process.host = Host(
                store,
                RayWorkers(store, settings, SimCluster(world, settings.cluster)),
                name=process.name,
                timing=world.timing,
                process_limits=world.process_limits,
                clock=steady_ms,
                leave=lambda: world.crash(process, "leaves"),
                reached=lambda step: world.nemesis.reached(process, step),
                check_proof=Proofs(SERVED, servers_key).check,
            )
            if offer:
                await process.host.offer_blank()

        world.trace.note("spawns %s", process.name)
        await world.pause(1)  # a cold one takes its time
        try:
            await world.network.call(process, "warm", warm)
        except (Died, Unavailable) as error:
            world.crash(process, "does not get ready")
            raise ActorUnavailable(str(error)) from error
        return SimHandle(world, process)
