"""Devices: in some seeds clients attach, claim the calls of their tools, and carry them out; some leave in the midst."""

import random
from dataclasses import dataclass

from holdfast.conversation import Answer, Claim, Fail, GiveBack, Principal, Receipt, Resolve
from holdfast.conversation.terms.decisions import DecisionRecord, SuspensionKind
from holdfast.conversation.terms.presence import RENEW_MS, OnDetach, Present
from holdfast.errors import HoldfastError

from .clients import Client

DEVICES = 0.2
"""In how many seeds there are devices; drawn apart, so that other seeds stay what they are."""
MEANS = (*("answer",) * 3, "fail", "give back", "put back", *("vanish",) * 4, "freeze", "freeze", "answer for another")
"""How a device may end what it has claimed."""
BACK_S = (0.5, 4, 12, 40)
"""After how many seconds, at most, a device that is gone comes back."""
LASTS_S = (0.05, 0.5, 3, 20)
"""How long a handler works, at most."""
LEAVES = 0.1
"""How often a device leaves instead of renewing."""
FROZEN_S = 60
"""How long a device stands still, at most."""


@dataclass
class Handled:
    """A handler that a device has begun: its claim's place in the log and its attempt."""

    client: str
    seq: int
    attempt: int


class Devices:
    """Whether there are devices, which, and what the store knew of their presence."""

    def __init__(self, world, seed):
        self._world = world
        self._drawn = random.Random(f"devices in {seed}")
        self.there = self._drawn.random() < DEVICES
        self._errors = self._drawn.choice((4, 10, 25))
        self.handled = {}  # by suspension and attempt
        self._until = {}  # (conversation, client) -> [(when it was said, until when it is there)]
        self._tools = {}
        if self.there:
            world.model.busy()
            world.model.at_clients()

    def errs(self):
        """Whether a device may do anything but answer: often, and not for ever."""
        self._errors -= 1
        return self._errors >= 0

    def begin(self):
        """Have all devices begin."""
        if self.there:
            for number in range(self._drawn.choice((1, 2, 3))):
                self._come(f"device-{number + 1}", self._drawn.choice((None, Principal("ana"), Principal("bo"))))

    def gone(self, client_id, principal, left_s):
        """A device is gone; it comes back under its name."""
        self._world._later(left_s, self._come, client_id, principal)

    def saw(self, conversation_id, name, until, tools=()):
        """The store has noted until when a client is there, and of one that attaches its tools."""
        self._until.setdefault((conversation_id, name), []).append((self._world.clock(), until))
        self._tools.setdefault(name, tools)

    def until(self, conversation_id, name, at):
        """Until when a client was there, as the store knew at a moment (both in ms); 0 if it never was."""
        return next((until for said, until in reversed(self._until.get((conversation_id, name), ())) if said <= at), 0)

    def away_ms(self, conversation_id, name, since, to):
        """How long a client was away at a stretch, at most, between two moments."""
        away, until = 0, since
        for said, there in self._until.get((conversation_id, name), ()):
            if said > to:
                break
            away, until = max(away, said - until), max(there, since)
        return max(away, to - until)

    def anyone(self, conversation_id, tool, at):
        """Until when the last client with a tool was there, as the store knew at a moment."""
        suited = [name for where, name in self._until if where == conversation_id and tool in self._tools[name]]
        return max((self.until(conversation_id, name, at) for name in suited), default=0)

    def _come(self, client_id, principal):
        world = self._world
        device = Device(world, world.process(f"{client_id}/{len(world.clients)}"), client_id, principal, self._drawn)
        world.clients.append(device)
        device.process.start(device.live())


class Device(Client):
    """A client that carries calls out."""

    def __init__(self, world, process, client_id, principal, drawn):
        super().__init__(world, process)
        self._drawn = random.Random(drawn.random())
        as_ever = random.Random(client_id)
        on_detach = as_ever.choice((OnDetach.KEEP, OnDetach.KEEP, OnDetach.CANCEL))
        tools = as_ever.choice((("locate", "share"), ("locate",), ("share", "locate")))
        self._present = Present(client_id=client_id, principal=principal, tools=tools, on_detach=on_detach)
        self._mine = set()

    @property
    def done(self):
        """Devices serve as long as anybody asks for something; what they have asked is to be answered."""
        return self.process.dead or not self._open

    async def _ask(self, conversation_id, command, create=False):  # noqa: FBT002 - as in clients
        self._open += 1
        try:
            return await super()._ask(conversation_id, command, create)
        finally:
            self._open -= 1

    async def live(self):
        """Attach to all conversations, and serve them."""
        for conversation_id in self._world.conversations:
            self.process.start(self._attached(conversation_id))
            self.process.start(self._serving(conversation_id))

    async def _attached(self, conversation_id):
        drawn, store = self._drawn, self._store
        while True:
            try:
                until = await store.attach(conversation_id, self._present)
                while until:
                    await self._world.sleep(RENEW_MS / 1000 * (0.5 + drawn.random() / 2))
                    if not self._world.calmed and drawn.random() < LEAVES:
                        await store.detach(conversation_id, self._present.name)
                        await self._world.sleep(drawn.random() * drawn.choice(BACK_S))
                        break
                    (until,) = await store.renew_clients([(conversation_id, self._present)])
            except HoldfastError as error:
                self._world.trace.note("is not attached: %s", error)
            await self._world.sleep(0.2 + drawn.random())

    async def _serving(self, conversation_id):
        while True:
            await self._world.sleep(0.1 + self._drawn.random())
            try:
                views = await self._store.pending_of(conversation_id)
            except HoldfastError:
                continue
            for view in views:
                if view.kind is SuspensionKind.CLIENT_EXEC and view.tool in self._present.tools:
                    await self._looked_at(conversation_id, view)

    async def _looked_at(self, conversation_id, view):
        """Carry a call out that is free; give back one that this device has claimed before it went."""
        key = view.suspension_id, view.attempt
        if key in self._mine:
            return
        if view.claimed is None:
            self._mine.add(key)
            self.process.start(self._carry_out(conversation_id, view))
            return
        own = (view.claimed.client_id, view.claimed.by) == (self._present.client_id, self._present.principal)
        if own and (view.suspension_id, view.attempt - 1) not in self._mine:
            await self._ask(conversation_id, self._about(GiveBack, view, began=True))

    def _about(self, command, view, **said):
        named = {"tool_call_id": view.tool_call_id, "suspension_id": view.suspension_id, "client_id": self._present.client_id}
        return command(request_id=self._world.new_id("k"), principal=self._present.principal, **named, **said)

    async def _carry_out(self, conversation_id, view):
        world, drawn = self._world, self._drawn
        claimed = await self._ask(conversation_id, self._about(Claim, view, on_detach=self._present.on_detach))
        if not isinstance(claimed, Receipt):
            return
        self._mine.add((view.suspension_id, claimed.attempt - 1))
        begun = (conversation_id, view.suspension_id, claimed.attempt)
        if begun in world.devices.handled and not world.ledger.times_set_back:
            world.ledger.wrong(
                "%s: %s begins attempt %d of %s again", conversation_id, self._present.name, *begun[2:], begun[1]
            )
        world.devices.handled[begun] = Handled(self._present.name, claimed.seq, claimed.attempt)
        await world.sleep(drawn.random() * drawn.choice(LASTS_S))
        means = drawn.choice(MEANS) if world.devices.errs() else "answer"
        match means:
            case "vanish":
                world.crash(self.process, "vanishes")
                world.devices.gone(self._present.client_id, self._present.principal, drawn.random() * drawn.choice(BACK_S))
                return
            case "freeze":
                world.stop(self.process, drawn.random() * FROZEN_S, "stands still")
            case "give back" | "put back":
                await self._ask(conversation_id, self._about(GiveBack, view, began=means == "give back"))
                return
            case _:
                pass
        ruling = DecisionRecord.of(Fail("no signal") if means == "fail" else Answer({"at": view.attempt}))
        named = {"tool_call_id": view.tool_call_id, "suspension_id": view.suspension_id, "decision_id": world.new_id("d")}
        who = Principal("eve") if means == "answer for another" else self._present.principal
        await self._ask(conversation_id, Resolve(ruling=ruling, client_id=self._present.client_id, principal=who, **named))
