"""One simulated system: the shared store, actors, workers, a sweeper, clients, and what goes wrong between them."""

import asyncio
import dataclasses
import random

from holdfast.actors.actor_settings import ActorSettings
from holdfast.errors import StoreError
from holdfast.persistence import MemoryStore
from holdfast.registry.sweep import Sweep
from holdfast.registry.watchdog import Watchdog
from holdfast.settings import ProcessLimits, Timing

from . import shop
from .actors import SimActors, SimProcesses
from .children import Children
from .clients import Client
from .couriers import Couriers
from .devices import Devices
from .faults import Faults
from .granter import Approver, Granter, Revoker
from .inputs import Inputs
from .ledger import Ledger
from .loop import Process, SimLoop
from .nemesis import Nemesis
from .network import Network
from .publisher import Publisher
from .stops import Stops
from .store import SimStore
from .summaries import Summaries, Summarizer
from .trace import Trace
from .voters import ANAS_KEY, Voters
from .windows import Windows
from .workers import ADDRESS, Seat, SimWorker, messages

EPOCH_MS = 1_700_000_000_000
PAUSED = 0.25
"""In how many seeds somebody pauses new work and resumes it."""
PAUSES_LAST_S = (0.3, 3, 20)
STUCK_AFTER_S = 120
"""How long something may stand still after the last fault: the bound of lost work with its grace, or a pause of the sweeper."""
WATCHED = 0.1
"""In how many seeds processes may hang for ever, and the real watch ends them. It takes its time, and so does what waits."""
WATCHED_STUCK_AFTER_S = 400
GUESTS = 0.8
"""The share of seeds whose clients accept starts and messages as guests."""
SWEPT = 0.4
"""In how many of these sweepers do what is due as guests. In the others actors do all of it."""
CHATS = 0.3
"""In how many seeds people chat: the model calls few tools, conversations come to rest soon, and further messages come."""
PARKED = 0.25
"""In how many seeds many conversations with a slow model share one or two actors, which leave them as soon as they can."""
SCATTERED = 0.2
"""In how many seeds the actors are of several clusters, and in how many of several releases: no worker is known in all."""
DELAYED = 0.6
"""How likely a worker freezes when what it is about to do is forbidden, so that it comes to it later than that."""
SUCCEEDED = 0.5
"""How likely a worker that freezes then is taken for dead, too: another runs the call. The faults' end is no end of that."""
REST_WITHIN_S = 3600
"""How long after the last fault everything must rest, however much is left to do."""


class World:
    """Everything that one seed makes."""

    def __init__(self, seed):
        self.rng = rng = random.Random(seed)
        self.loop = SimLoop(random.Random(rng.random()))
        self.trace = Trace(self.loop)
        self.ledger = Ledger(self.loop, self.trace, shop.AGENT.spec)
        self.faults = Faults(rng)
        self.network = Network(self.loop, self.faults, self.trace, rng)
        self.memory = MemoryStore(clock=self.clock)
        self.store_process = Process("store", self.loop)
        self.store_process.world = self
        self.timing = Timing(lease_ms=rng.choice((2000, 4000)), linger_ms=rng.choice((500, 3000, 15_000, 15_000)), tick_ms=1000)
        self.process_limits = ProcessLimits(
            standby=rng.choice((0, 1, 2)),
            workers=rng.choice((1, 1, 2)),
            alone=rng.choice((1, 2)),
            max_actors=rng.choice((1, 2, 64, 64)),
            strikes=rng.choice((1, 2, 3)),
            adoptions=rng.choice((2, 1000)),
            effects=rng.choice((2, 10, 1000)),
        )
        self.spawned = 0
        self.conversations = [f"c-{number + 1}" for number in range(rng.choice((1, 1, 2, 3)))]
        self.faults_s = rng.choice((5, 10, 15, 20))
        self.actors = {}
        self.seats = {}
        self.incarnations = {}
        self.sweepers = []
        self.clients = []
        self.said = []
        self.shown = {}
        self._ids = 0
        self._begun = 0
        self._calm = False
        self.model = shop.Model(seed, rng)
        self.watched = random.Random(f"watched {seed}").random() < WATCHED  # drawn apart: other seeds stay what they are
        self.clusters = "ab" if rng.random() < SCATTERED else "a"
        self.releases = "12" if rng.random() < SCATTERED else "1"
        self._operator = random.Random(f"paused {seed}")
        self.paused = self._operator.random() < PAUSED
        parked = random.Random(f"parked {seed}")
        if parked.random() < PARKED:
            self.conversations = [f"c-{number + 1}" for number in range(parked.choice((4, 8)))]
            self.timing = dataclasses.replace(self.timing, linger_ms=500)
            self.process_limits = dataclasses.replace(self.process_limits, max_actors=parked.choice((1, 2)))
            self.model.slow()
        self.guests = random.Random(f"guests {seed}").random() < GUESTS
        self.swept = self.guests and random.Random(f"sweepers {seed}").random() < SWEPT
        self.chats = random.Random(f"chats {seed}").random() < CHATS
        if self.chats:
            self.timing = dataclasses.replace(self.timing, linger_ms=500)
            self.model.brief()
        self.stops = Stops(self, seed)
        self.windows = Windows(self, seed)
        self.summaries = Summaries(self, seed)
        self._cast(seed)
        self.nemesis = Nemesis(self)

    def _cast(self, seed):
        """Who is there in this seed, and what models do for their sake."""
        self.publisher = Publisher(self, seed)
        self.granter = Granter(self, seed)
        self.voters = Voters(seed)
        self.children = Children(self, seed)
        self.couriers = Couriers(self, seed)
        self.inputs = Inputs(self, seed)
        self.devices = Devices(self, seed)
        if self.publisher.ruled or self.granter.granted:
            self.model.busy()
        if self.granter.granted:
            self.model.careful()
        if self.children.there:
            self.model.delegating()

    @property
    def calmed(self):
        """Whether all faults are over."""
        return self._calm

    # -- what processes are given -------------------------------------------------------------------------------------

    def clock(self, at=None):
        return EPOCH_MS + int((self.loop.time() if at is None else at) * 1000)

    def process(self, name):
        process = Process(name, self.loop)
        process.world = self
        process.seat = None
        process.left = False
        process.skew_ms = self.rng.choice((0, 0, -1500, 40_000))
        process.up_ms = self.rng.randrange(10**9)
        return process

    def new_id(self, prefix):
        self._ids += 1
        return f"{prefix}-{self._ids}"

    def settings(self):
        """What an actor is told, of whichever cluster and release."""
        cluster, release = self.rng.choice(self.clusters), self.rng.choice(self.releases)
        return ActorSettings(
            ADDRESS, timing=self.timing, process_limits=self.process_limits, release=release, cluster=cluster * 56
        )

    @property
    def workers(self):
        """The process that has each worker's name by now."""
        return {name: seat.process for name, seat in self.seats.items()}

    async def sleep(self, seconds):
        await asyncio.sleep(seconds)

    async def pause(self, seconds=0.02):
        await asyncio.sleep(self.rng.random() * seconds)

    # -- what befalls processes ---------------------------------------------------------------------------------------

    def crash(self, process, why):
        if process.dead:
            return
        self.trace.note(why, who=process.name)
        self.loop.kill(process)
        self._later(self.rng.random() / 2, self._buried, process)

    def stop(self, process, seconds, why):
        if process.dead or process.stopped:
            return
        self.trace.note("%s for %.2f s", why, seconds, who=process.name)
        self.loop.stop(process)
        self._later(seconds, self._go_on, process)

    def delay_work(self, drawn, why):
        """What is about to run comes to run later; or another worker runs it, and this one looks later."""
        for process in list(self.workers.values()):
            if drawn.random() < DELAYED and not process.hangs:
                self.stop(process, drawn.random() * 4, why)
                if drawn.random() < SUCCEEDED:
                    self.cut_off(process)

    def hang(self, process):
        self.trace.note("hangs for ever", who=process.name)
        process.hangs = True
        self.loop.stop(process)

    def cut_off(self, process):
        if process.gone:
            return
        self.trace.note("is taken for dead, and lives on", who=process.name)
        self._buried(process)

    def take_the_store_away(self, seconds):
        self.trace.note("is away for %.1f s", seconds, who="store")
        self.faults.away_until = self.loop.time() + seconds

    def step_the_clock(self, process, step_ms):
        self.trace.note("has its wall clock set by %+d s", step_ms // 1000, who=process.name)
        process.skew_ms += step_ms

    def set_the_store_back(self, copied):
        """As after a failover to a replica that lacks the tail: all of it, at once, and nobody is told."""
        self.trace.note("is what it was at t=%.3f", copied.at, who="store")
        copied.restore(self.memory)
        self.ledger.set_back(copied)
        self.ledger.pauses(self.memory._pauses)

    def leave(self, process):
        """A worker ends by itself: no other is started in its place."""
        process.left = not process.gone
        process.seat.left |= process.left
        self.crash(process, "leaves")

    def part(self, caller, callee, seconds):
        self.trace.note("does not reach %s for %d s", callee.name, seconds, who=caller.name)
        self.faults.parted[caller.name, callee.name] = self.loop.time() + seconds

    def calm(self):
        self.trace.note("all faults end")
        self.inputs.healed_at = self.clock()
        self._calm = True
        self.faults.calm()
        self.nemesis.rest()
        everybody = [
            *self.actors.values(),
            *self.workers.values(),
            *self.sweepers,
            *(client.process for client in self.clients),
        ]
        for process in everybody:
            process.fuse = None
            self._go_on(process)
        if len(self.releases) > 1:  # the change from one release to another has an end: workers end once they are idle
            for process in self.workers.values():
                if not process.dead:
                    process.start(process.worker.retire())
        self.loop.judge.start(self._retrying())

    async def _retrying(self):
        """Once the cause is gone, somebody looks after what is in quarantine."""
        while True:
            for conversation_id in list(self.memory._conversations):
                if await self.memory.retry(conversation_id):
                    self.trace.note("is told to go on", who=conversation_id)
            await asyncio.sleep(1)

    async def _pausing(self):
        """Somebody stops new work and starts it again, of all or of the one agent; once the faults are over, for good."""
        drawn = self._operator
        while not (self._calm and not self.memory._pauses):
            await asyncio.sleep(drawn.random() * drawn.choice(PAUSES_LAST_S))
            agent = drawn.choice((None, shop.AGENT.name))
            if self._calm or drawn.random() < 0.5:
                for one in (None, shop.AGENT.name) if self._calm else (agent,):
                    if await self.memory.unpause(one) is not None:
                        self.trace.note("resumes %s", one or "everything", who="operator")
            elif not (await self.memory.pause(agent, by="operator", reason="")).duplicate:
                self.trace.note("pauses %s", agent or "everything", who="operator")
            self.ledger.pauses(self.memory._pauses)

    def _go_on(self, process):
        if process.stopped and not process.dead and not process.hangs:
            self.trace.note("goes on", who=process.name)
            process.thawed_at = self.loop.time()
            self.loop.go_on(process)

    def _buried(self, process):
        if process.gone:
            return
        self.network.bury(process)
        seat = process.seat
        self.ledger.worker_ends += seat is not None
        if seat is not None and seat.process is process:
            if seat.left:
                del self.seats[seat.settings.name]
            else:
                self._later(self.rng.random() * 2, self._seat, seat)
        elif process in self.sweepers:
            self.sweepers.remove(process)
            self._later(self.rng.random() * 2, self._sweep)

    def _later(self, delay_s, callback, *args):
        self.loop.call_later(delay_s, callback, *args, context=self.loop.judge.context)

    # -- who there is -------------------------------------------------------------------------------------------------

    def employ(self, settings, cluster):
        """The seat of a worker that there was none of."""
        self.ledger.ensure_worker(settings)
        seat = self.seats[settings.name] = Seat(settings, cluster)
        self._seat(seat)
        return seat

    def _seat(self, seat):
        self._begun += 1
        process = self.process(f"{seat.label}/{self._begun}")
        process.seat = seat
        self.trace.note("begins", who=process.name)
        seat.process = process
        process.worker = process.context.copy().run(SimWorker, self, process, seat.settings)
        self.incarnations[process.worker.incarnation] = process

    def _sweep(self):
        self._begun += 1
        process = self.process(f"sweeper.{self._begun}")
        self.sweepers.append(process)
        self.trace.note("begins", who=process.name)
        process.start(self._sweeping(process))

    async def _sweeping(self, process):
        store, actors = SimStore(self, process), SimActors(self)
        guests = messages(self, process, store) if self.swept else None
        sweep = Sweep(store, actors, timing=self.timing, process_limits=self.process_limits, messages=guests)
        if self.watched:
            process.start(Watchdog(store, SimProcesses(self), timing=self.timing, process_limits=self.process_limits).run())
        self.couriers.begin(process, sweep.registry)
        while True:
            try:
                await sweep.tick()
            except StoreError:
                sweep.store_away()
            await asyncio.sleep(self.timing.tick_ms / 1000)

    # -- one life -----------------------------------------------------------------------------------------------------

    async def live(self):
        """The whole life: faults for a while, then none; it ends once everything rests, or when that takes too long."""
        await self.publisher.begin()
        for _ in range(self.rng.choice((1, 1, 2))):
            self._sweep()
        for number in range(self.rng.choice((1, 2, 3, 3))):
            client = Client(self, self.process(f"client-{number + 1}"))
            self.clients.append(client)
            client.process.start(client.live())
        await self.memory.put_api_key(ANAS_KEY)
        if self.granter.granted:
            for client in (Approver(self, self.process("approver")), Revoker(self, self.process("revoker"))):
                self.clients.append(client)
                client.process.start(client.live())
        if self.summaries.there:
            self.clients.append(summarizer := Summarizer(self, self.process("summarizer")))
            summarizer.process.start(summarizer.live())
        self.devices.begin()
        self.loop.judge.start(self.nemesis.live())
        if self.paused:
            self.loop.judge.start(self._pausing())
        if self.publisher.ruled:
            self.loop.judge.start(self.publisher.live())
        await asyncio.sleep(self.faults_s)
        self.calm()
        await self._rest()

    async def _rest(self):
        """Wait until everything rests; what stands still before it does is stuck."""
        moved_at = {}
        stuck_after_s = WATCHED_STUCK_AFTER_S if self.watched else STUCK_AFTER_S
        give_up = self.loop.time() + REST_WITHIN_S
        while restless := self._restless():
            now = self.loop.time()
            moved_at = {moved: moved_at.get(moved, now) for moved in restless}
            stuck = [name for (name, _), since in moved_at.items() if now - since > stuck_after_s or now > give_up]
            if stuck:
                self.ledger.wrong("without any fault, %s does not come to rest", ", ".join(stuck))
                return
            await asyncio.sleep(0.5)
        self.trace.note("everything rests")
        await asyncio.sleep(2)  # what comes late must not change that

    def _restless(self):
        """Who is at work, with a number that changes as it goes on."""
        working = [(client.process.name, client.told) for client in self.clients if not client.done]
        for name, found in self.memory._conversations.items():
            if found.listed is not None and (found.busy or found.pending or found.listed.delayed):
                working.append((name, len(found.log)))
        return [*working, *self.couriers.restless()]
