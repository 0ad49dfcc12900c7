"""Notification targets and couriers: in some seeds sweepers deliver what conversations owe, to targets that fail."""

import asyncio
import random
from collections import defaultdict
from functools import partial

from holdfast.actors.proofs import Proofs
from holdfast.actors.workers import Delivered, Later, NoWorker
from holdfast.conversation import Start
from holdfast.conversation.log.owed import addressed, notice_kind, notified
from holdfast.conversation.records.events import CallSuspended
from holdfast.registry.courier import Courier
from holdfast.registry.own_deliveries import own_deliveries

from .actors import SERVED, servers_key
from .loop import PROCESS
from .shop import TARGETS
from .store import SimStore
from .workers import messages

DELIVERED = 0.25
"""In how many seeds there are couriers, beside those with children; drawn apart, so that other seeds stay what they are."""


STALLED = 0.3
"""How often a courier stands still with a start."""
PROOFS = Proofs(SERVED, servers_key)


class Couriers:
    """The couriers of a world's sweepers, and what the targets were told."""

    def __init__(self, world, seed):
        self._world = world
        self._rng = random.Random(f"owed {seed}")
        self.there = self._rng.random() < DELIVERED or world.children.there
        self.told = defaultdict(list)
        self.deliveries = 0

    def begin(self, process, registry):
        """The courier of a sweeper's process."""
        if self._world.children.there:
            store = _News(self._world, process)
            guests = messages(self._world, process, store) if self._world.guests else None
            own = own_deliveries(registry, store, self._signed, guests)
            own = {kind: self._counted(kind, deliver) for kind, deliver in own.items()}
            reached = partial(self._world.nemesis.reached, process)
            process.start(Courier(store, self._tell, own, reached=reached).run())
        elif self.there:
            process.start(Courier(_Quiet(self._world, process), self._tell, {}).run())

    async def _signed(self, conversation_id, command):
        """The command, signed; now and then a courier stands still with a start in its hands, and somebody ends the wait."""
        draw, world = self._rng.random, self._world
        if isinstance(command, Start) and not world.calmed and draw() < STALLED:
            world.stop(PROCESS.get(), 4 + 4 * draw(), "stands still with a start that is not sent")
            living = [client for client in world.clients if not client.process.dead]
            if living:
                self._rng.choice(living).begin_meddling(command.parent.conversation_id)
            await asyncio.sleep(0)
        return await PROOFS.signed(conversation_id, command)

    def _counted(self, kind, deliver):
        async def counted(to, leased):
            answer = await deliver(to, leased)
            self._world.trace.note("brings %s the %s of %s: %s", to, kind, leased.conversation_id, answer)
            self.deliveries += 1
            return answer

        return counted

    async def _tell(self, app, request):
        draw = self._rng.random
        calm = self._world.calmed
        if not calm and draw() < 0.15:
            raise NoWorker("none is told to live")
        if not calm and draw() < 0.1:
            return Later("busy", round(draw() * 3000))
        await asyncio.sleep(draw() * (80 if not calm and draw() < 0.02 else 0.3))
        self.told[request.conversation_id, request.target].append(request.envelope)
        self.deliveries += 1
        if not calm and draw() < 0.05:
            raise NoWorker("the answer is told to be lost")
        if not calm and draw() < 0.1:  # whoever has told it says so after the end of its lease
            self._world.stop(PROCESS.get(), 2 + 4 * draw(), "stands still with a notice that was told")
            await asyncio.sleep(0)
        return Delivered()

    def restless(self):
        """Whether something is owed still, as what is at work in the world."""
        owed = self.there and any(notified(target) or addressed(target) for _, target in self._world.memory._owed.queues)
        return [("the outbox", self.deliveries)] if owed else []


class _Quiet(SimStore):
    """A process's store that brings no news: what is published may be lost, and a courier looks by itself."""

    async def owed_news(self):
        await asyncio.sleep(10**9)
        yield


class _News(SimStore):
    """A process's store that mostly says soon that something is owed."""

    async def owed_news(self):
        known = None
        while True:
            await asyncio.sleep(self._world.children.news_s)
            owed = [(name, queue.envelopes[0]) for name, queue in self._world.memory._owed.queues.items()]
            if owed != known:
                known = owed
                yield


def notices_were_told(world, history):
    """Each event's notice was told to each of its targets, at least once and in the order of the log."""
    ledger, couriers = world.ledger, world.couriers
    if not couriers.there:
        return
    who = history.conversation_id
    machines = {event.suspension_id for event in history.of(CallSuspended) if event.source}
    events = [(seq, one) for seq, one in enumerate(history.events, 1) if getattr(one, "suspension_id", "") not in machines]
    for target in TARGETS:
        due = [(seq, str(kind)) for seq, event in events if (kind := notice_kind(event)) in target.events]
        told = [(one.seq, one.kind) for one in couriers.told[who, target.name] if one.kind != "quarantined"]
        first = list(dict.fromkeys(told))
        missing = [one for one in due if one not in first]
        if missing:
            ledger.wrong("%s: %s was not told of %s", who, target.name, missing[0])
        elif not ledger.times_set_back and first != due:
            place = next((place for place, one in enumerate(due) if first[place] != one), len(due))
            ledger.wrong("%s: %s was told of %s, where the log has %s", who, target.name, first[place], due[place : place + 1])
