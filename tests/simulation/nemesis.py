"""Who crashes, freezes and cuts off processes, when the seed says so: by the clock, at a named step, or at an await."""

from .store import Copied

MOST_TURNS = 25
STEPS_MS = (-3_600_000, -120_000, 120_000, 3_600_000)


class Nemesis:
    """Does harm until it is told to rest. What it does, and how often, differs from seed to seed."""

    def __init__(self, world):
        self._world = world
        self._active = True
        rng = world.rng
        self._every_s = rng.choice((0.5, 1.5, 4, 1000))
        self._at_a_step = rng.choice((0, 0, 0.002, 0.01, 0.03))
        kinds = (self._crash, self._stop, self._light_a_fuse, self._cut_off, self._part, self._take_the_store_away)
        self._kinds = [kind for kind in kinds if rng.random() < 0.6] or [self._crash]
        self._kinds += [self._step_a_clock] * (2 * (rng.random() < 0.3))
        self._kinds += [self._set_the_store_back] * (rng.random() < 0.2)
        self._kinds += [world.publisher.deploy] * (rng.random() < 0.2)
        self._kinds += [self._hang] * (2 * world.watched)
        self._copied = None
        self._victims = [pick for pick in (self._actor, self._actor, self._worker, self._sweeper) if rng.random() < 0.6]
        if rng.random() < 0.1:
            self._victims.append(self._client)
        self._longest_stop_s = rng.choice((1, 6, 12))

    async def live(self):
        rng = self._world.rng
        while True:
            await self._world.sleep(rng.expovariate(1 / self._every_s))
            if not self._active:
                return
            rng.choice(self._kinds)()

    def rest(self):
        self._active = False

    def reached(self, process, step):
        """A process stands at a named step: it may be its last."""
        if not self._active or self._world.rng.random() >= self._at_a_step or process.dead:
            return
        self._world.rng.choice((self._die, self._freeze, self._vanish))(process, f"at {step}")

    def _crash(self):
        process = self._victim()
        if process is not None:
            self._world.crash(process, "is killed")

    def _stop(self):
        process = self._victim()
        if process is not None:
            self._world.stop(process, self._stop_s(), "freezes")

    def _light_a_fuse(self):
        """It dies or freezes after a number of turns of its loop, so at one await or another."""
        process = self._victim()
        if process is None:
            return
        rng = self._world.rng
        process.fuse = [rng.randint(1, MOST_TURNS), rng.choice((self._die, self._freeze, self._vanish))]

    def _die(self, process, where="at an await"):
        if self._active:
            self._world.crash(process, f"dies {where}")

    def _freeze(self, process, where="at an await"):
        if self._active:
            self._world.stop(process, self._stop_s(), f"freezes {where}")

    def _vanish(self, process, where="at an await"):
        """As the processes of a node that freezes: taken for dead, they go on beside their successors."""
        if self._active and process not in [client.process for client in self._world.clients]:
            self._world.stop(process, self._stop_s(), f"freezes {where}")
            self._world.cut_off(process)

    def _cut_off(self):
        """The cluster takes an actor or worker for dead; it lives on, and reaches the store."""
        process = self._worker() if self._world.rng.random() < 0.3 else self._actor()
        if process is not None:
            self._world.cut_off(process)

    def _part(self):
        """For a while nothing gets through between two processes that both live."""
        world = self._world
        caller = world.rng.choice((self._client, self._sweeper, self._actor))()
        callee = self._worker() if world.rng.random() < 0.3 else self._actor()
        if caller is not None and callee is not None and caller is not callee:
            world.part(caller, callee, world.rng.choice((2, 7, 15)))

    def _take_the_store_away(self):
        self._world.take_the_store_away(self._world.rng.choice((0.2, 1, 6)))

    def _step_a_clock(self):
        """Somebody sets the time of a machine, or it synchronises after a long while."""
        process = self._actor()
        if process is not None:
            self._world.step_the_clock(process, self._world.rng.choice(STEPS_MS))

    def _set_the_store_back(self):
        """A replica that lags takes over: what was written since is gone."""
        if self._copied is None:
            self._copied = Copied(self._world)
            lags_s = self._world.rng.random() * self._world.rng.choice((0.2, 1, 6))
            self._world._later(lags_s, self._fail_over)

    def _fail_over(self):
        copied, self._copied = self._copied, None
        if self._active:
            self._world.set_the_store_back(copied)

    def _hang(self):
        """Native code never gives the interpreter back: only who ends the process ends that."""
        process = self._worker() if self._world.rng.random() < 0.3 else self._actor()
        if process is not None and not process.hangs:
            self._world.hang(process)

    def _stop_s(self):
        return self._world.rng.random() * self._longest_stop_s

    def _victim(self):
        return self._world.rng.choice(self._victims)() if self._victims else None

    def _actor(self):
        """One that owns a conversation, if any does."""
        world = self._world
        owners = [log.holder for log in world.ledger.written.values() if log.holder is not None and not log.holder.dead]
        return self._one(owners or list(world.actors.values()))

    def _worker(self):
        return self._one(list(self._world.workers.values()))

    def _sweeper(self):
        return self._one(self._world.sweepers)

    def _client(self):
        return self._one([client.process for client in self._world.clients])

    def _one(self, processes):
        living = [process for process in processes if not process.dead]
        return self._world.rng.choice(living) if living else None
