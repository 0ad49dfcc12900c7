"""The actors of a rehearsal: activations on the caller's own event loop, and what conversations owe each other."""

import asyncio
import contextlib
import uuid
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from holdfast.actors.activation.activation import Activation
from holdfast.actors.activation.context import ActivationContext
from holdfast.actors.admission import Admission
from holdfast.actors.answers import Replied
from holdfast.actors.workers import Delivered, SetAside
from holdfast.agent import Agent, App
from holdfast.conversation import Command, Receipt, Reply, Start, State, Wake, outstanding
from holdfast.conversation.log.owed import OWN, addressed
from holdfast.conversation.records.command_base import Request
from holdfast.errors import ConfigurationError, ConversationNotFound, Fenced, HoldfastError, Quarantined
from holdfast.persistence import AppRecord, Lane, MemoryStore, Takeover, TakeoverReason, Verdict
from holdfast.registry.courier import LONGEST_MS
from holdfast.registry.own_deliveries import own_deliveries
from holdfast.registry.registry import Delivery, DeliveryResult, Refused
from holdfast.settings import ProcessLimits, Timing

from .in_process_workers import InProcessWorkers
from .moved_clock import MovedClock

R = TypeVar("R", bound=Request)
APP = "rehearsal:app"
LEASE_MS = 3_600_000
"""The lease of activations, by the loop's clock, and of deliveries: longer than any test."""
AT_ONCE = 1_000
"""How many deliveries are leased at once."""


@dataclass(slots=True)
class Hosted:
    """A conversation with its activation and its workers; `parent` is the id of its parent, None if it was not delegated."""

    agent: Agent
    parent: str | None
    workers: InProcessWorkers
    activation: Activation
    receipts: list[Receipt] = field(default_factory=list)


class InProcessActors:
    """The actors, registry and courier of a rehearsal: `hosted` has the conversations by id, in the order of their starts.

    `workers` makes the workers of a conversation with an agent; `news` is called when something may have changed.
    """

    def __init__(
        self,
        store: MemoryStore,
        clock: MovedClock,
        agents: Mapping[str, Agent],
        workers: Callable[[Agent], InProcessWorkers],
        news: Callable[[], None],
    ) -> None:
        self.hosted: dict[str, Hosted] = {}
        self._store = store
        self._clock = clock
        self._agents = agents
        self._workers = workers
        self._news = news
        self._own = own_deliveries(self, store, _unsigned)

    async def open(self, conversation_id: str, agent: Agent) -> None:
        """Publish the agents, and host the first conversation."""
        specs = [one.spec for one in self._agents.values()]
        digests = {spec.name: spec.digest for spec in specs}
        await self._store.put_app(AppRecord(app=APP, code="rehearsal", agents=digests), specs)
        await self._host(conversation_id, agent, None)

    async def ask(self, conversation_id: str, command: Command) -> Reply:
        """The reply to a command; its receipt is kept."""
        one = self.hosted[conversation_id]
        if one.activation.over:
            quarantine = await self._store.quarantine(conversation_id)
            raise (
                Fenced(conversation_id)
                if quarantine is None
                else Quarantined(conversation_id, quarantine.reason, quarantine.at)
            )
        reply = await one.activation.ask(command)
        one.receipts += [reply] if isinstance(reply, Receipt) else []
        return reply

    async def deliver(self, delivery: Delivery) -> DeliveryResult:
        """Send what one conversation owes another; see `Registry.deliver`."""
        name, command = delivery.conversation_id, delivery.command
        try:
            if name not in self.hosted and isinstance(command, Start) and command.parent is not None:
                await self._host(name, self._agents[command.agent], command.parent.conversation_id)
            return Replied(await self.ask(name, command)) if name in self.hosted else Refused(ConversationNotFound(name))
        except HoldfastError as error:
            return Refused(error)

    async def carry(self) -> bool:
        """Deliver what the conversations owe each other; whether there was anything to deliver now."""
        due = [await self._store.lease(lane, most=AT_ONCE, lease_ms=LEASE_MS) for lane in await self._due()]
        places = {name: place for place, name in enumerate(self.hosted)}
        leased = [one for lane in due for one in lane.leased]
        for one in sorted(leased, key=lambda one: (places[one.conversation_id], one.envelope.seq, one.envelope.n)):
            answer = await self._own[one.envelope.kind](addressed(one.envelope.target) or "", one)
            match answer:
                case Delivered():
                    await self._store.acknowledge(one, Verdict.DELIVERED)
                case SetAside(reason):
                    await self._store.acknowledge(one, Verdict.ASIDE, reason=reason)
                case _:
                    await self._store.acknowledge(one, Verdict.LATER, reason=answer.reason, after_ms=LONGEST_MS)
        return bool(leased)

    async def rest(self, within: Container[str] = ()) -> bool:
        """Whether all conversations rest, but for effects with these ids, and owe each other nothing now."""
        for name, one in self.hosted.items():
            if one.activation.over or one.activation.rest.since is not None:
                continue
            effects = [effect.effect_id for effect in outstanding(await self.log(name))]
            if not effects or any(effect not in within for effect in effects):
                return False
        return not await self._due()

    async def due_at(self) -> int | None:
        """When the first of the conversations has something to do, by the clock; None if none has."""
        due = self._store.due
        return min((due[name] for name in self.hosted if name in due), default=None)

    async def wake(self) -> None:
        """Tell the conversations that have something to do by now."""
        for name, one in list(self.hosted.items()):
            due = self._store.due.get(name)
            if due is not None and due <= self._clock() and not one.activation.over:
                await self.ask(name, Wake())
                while await self.carry():  # what is below may end by it
                    pass

    async def log(self, conversation_id: str) -> State:
        """The state of a conversation by its log; an empty one before its start."""
        owner = await self._store.owner(conversation_id)
        started = owner is not None and owner.started
        return await self._store.load(conversation_id) if started else State(conversation_id=conversation_id)

    async def close(self) -> None:
        """Leave the conversations; effects still under way are cancelled."""
        hosted, self.hosted = self.hosted, {}
        for name, one in hosted.items():
            one.workers.close()
            if await one.activation.passivate():
                continue
            owner = await self._store.owner(name)  # it is busy, and ends like one that learns of its successor
            token = owner.token if owner is not None else ""
            takeover = Takeover(
                seen_token=token, new_token=uuid.uuid4().hex, because=TakeoverReason.DIED, actor="nobody", lease_ms=1
            )
            await self._store.acquire(name, takeover)
            with contextlib.suppress(Fenced):
                await one.activation.ask(Wake())
        await asyncio.sleep(0)  # cancelled tasks end now

    async def _host(self, conversation_id: str, agent: Agent, parent: str | None) -> None:
        workers = self._workers(agent)
        context = ActivationContext(
            self._store,
            workers,
            Admission(self._store),
            actor="rehearsal",
            timing=Timing(lease_ms=LEASE_MS),
            clock=self._clock,
            rested=asyncio.Event(),
            strikes=ProcessLimits().strikes,
            reached=lambda _: self._news(),
        )
        activation = Activation(context, conversation_id)
        await activation.activate(seen_token="", because=TakeoverReason.ASKED, create=True)
        self.hosted[conversation_id] = Hosted(agent, parent, workers, activation)

    async def _due(self) -> list[Lane]:
        """The lanes in which a conversation owes another one something now."""
        now, lanes = await self._store.lanes()
        return [lane for lane in lanes if lane.name == OWN and lane.due_at <= now]


async def _unsigned(conversation_id: str, command: R) -> R:
    """The command as it is: an activation in the same process asks for no signature."""
    del conversation_id
    return command


def agents_of(agent: Agent, app: App | None, lose: Mapping[str, int]) -> dict[str, Agent]:
    """The agents that may be rehearsed, by name, the first conversation's first."""
    if not isinstance(agent, Agent):
        raise ConfigurationError("agent", f"{type(agent).__name__} is no Agent", "give an Agent(...)")
    agents = {agent.name: agent} | {one.name: one for one in (() if app is None else app.agents) if one.name != agent.name}
    for tool in agent.tools:
        if tool.spec.agent and tool.spec.agent not in agents:
            problem = f"tool {tool.name!r} of agent {agent.name!r} asks the agent {tool.spec.agent!r}, and no app has it"
            raise ConfigurationError("app", problem, "give app=App(agents=[...]) with both")
    for name, number in lose.items():
        if not any(one.tool(name) for one in agents.values()) or not isinstance(number, int):
            problem = f"agent {' or '.join(map(repr, agents))} has no tool {name!r}, or {number!r:.40} is no number of its runs"
            raise ConfigurationError("lose", problem, 'give tools and numbers: {"charge": 1}')
    return agents
