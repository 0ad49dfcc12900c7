"""The client of a rehearsal: it is present by the store's word, and carries calls out by handlers, as an attached one does."""

from collections.abc import Collection, Mapping
from typing import TypeAlias

from holdfast.agent import Agent, Executor
from holdfast.client.client_work import Claimant, Work
from holdfast.client.gateway import Gateway
from holdfast.client.handlers import ClientHandler, handlers_of
from holdfast.client.results import AsyncPendingCall
from holdfast.conversation import OnDetach, Present
from holdfast.conversation.terms.presence import GONE_MS
from holdfast.errors import ConfigurationError
from holdfast.persistence import MemoryStore

from .decider import Decider
from .moved_clock import MovedClock

CLIENT = "rehearsal"
Clients: TypeAlias = Mapping[str, ClientHandler]
"""The handlers of a client, by tool."""


class RehearsedClient:
    """The handlers of a rehearsal's client; None: somebody is there for every client's call, and `decide` answers it."""

    def __init__(self, agents: Collection[Agent], clients: Clients | None, decider: Decider) -> None:
        tools = [tool for agent in agents for tool in agent.tools if tool.spec.executor is Executor.CLIENT]
        names = list(dict.fromkeys(tool.name for tool in tools))
        self._handlers = {} if clients is None else handlers_of(clients)
        for name in self._handlers.keys() - set(names):
            problem = f"agent {' or '.join(repr(agent.name) for agent in agents)} has no client's tool {name!r:.60}"
            raise ConfigurationError("clients", problem, f"name one of its client tools: {', '.join(names) or 'none'}")
        self.tools = tuple(name for name in names if clients is None or name in self._handlers or decider.decides(name))

    def handles(self, call: AsyncPendingCall) -> bool:
        """Whether there is a handler for a pending call."""
        return call.tool in self._handlers and call.kind == "client_exec" and call.claimed is None

    async def carry_out(self, gateway: Gateway, call: AsyncPendingCall) -> None:
        """Claim a call, and answer it by its handler."""
        claimant = Claimant(gateway, call.conversation_id, CLIENT, OnDetach.KEEP)
        await Work(claimant, call, self._handlers[call.tool], lambda *_: None).done()


class StoreWithClient(MemoryStore):
    """A store in memory in which a client is present for these tools at every time."""

    def __init__(self, clock: MovedClock, tools: Collection[str]) -> None:
        super().__init__(clock=clock)
        self._tools = tuple(tools)

    async def present(self, conversation_id: str) -> tuple[Present, ...]:
        """The client; and those that attached."""
        others = await super().present(conversation_id)
        if not self._tools:
            return others
        return (Present(client_id=CLIENT, tools=self._tools, until=await self.now() + GONE_MS), *others)
