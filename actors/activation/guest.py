"""Guests: one command is judged and written about a conversation that nobody owns.

A process with a start, a message or an outcome judges it on the state that it has read, and writes without becoming the owner.
If another writer comes first, the write is `Fenced`, and nothing was written.
"""

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any
from weakref import WeakValueDictionary

from holdfast.actors.published import SpecCache
from holdfast.actors.workers import ModelRequest, PublishedAgent, RunRequest
from holdfast.conversation import BeginTurn, Command, Reply, State, outstanding
from holdfast.conversation.records.commands import TurnPrepared
from holdfast.counting import Counts
from holdfast.errors import StoreError
from holdfast.persistence import Append, Appended, Store, Visited
from holdfast.settings import TraceSettings
from holdfast.store_clock import StoreClock, steady_ms

from .counted import Counted
from .effect_runner import begun, request_of
from .judge import Held, Judge
from .notices import tell
from .turn_trace import TurnTrace

logger = logging.getLogger("holdfast.actor")

LOOK_MS = 10_000
"""How long (ms) a conversation is left to a guest, and to the workers for the work that it has made outstanding."""
TRIES = 3
"""How often a guest judges a command anew because another writer came first; then an actor does."""
GUESTS = "HOLDFAST_GUESTS"
"""The variable whose value 0 turns guests off, for tests of what actors do."""


@dataclass(frozen=True, slots=True)
class Wrote:
    """What a guest has written, and the trace context for the work that follows."""

    reply: Reply
    write: Append
    written: Appended
    traceparent: str | None

    def requests(self) -> Iterator[ModelRequest | RunRequest]:
        """The requests for the work that the write has made outstanding; its records exist, and nobody has claimed them."""
        write, state = self.write, self.write.after
        scheduled = set(write.delta.scheduled)
        effects = outstanding(state) if scheduled else ()
        visited = Visited(self.written.now, state, write.append_id, self.written.tail_bytes) if len(effects) == 1 else None
        said: dict[str, Any] = {"attempt": 1, "log_tail": tuple(write.events)}
        for effect in effects:
            if effect.effect_id in scheduled and not isinstance(effect, BeginTurn):
                yield replace(request_of(effect, state, self.traceparent, **said), visited=visited)


@dataclass(frozen=True)
class Guest:
    """The means by which one process judges as a guest.

    `admit` raises if an agent's new work is paused; `published` finds the code and spec of a turn that begins; a `retired`
    process writes nothing.
    """

    store: Store
    _: KW_ONLY
    admit: Callable[[str], Awaitable[int | None]]
    published: Callable[[str, str], Awaitable[PublishedAgent | None]]
    specs: SpecCache = field(default_factory=SpecCache)
    counts: Counts = field(default_factory=Counts)
    traces: TraceSettings = field(default_factory=TraceSettings)
    clock: StoreClock = field(default_factory=lambda: StoreClock(steady_ms))
    retired: Callable[[], bool] = lambda: False
    turns: WeakValueDictionary[str, asyncio.Lock] = field(default_factory=WeakValueDictionary)

    def turn(self, conversation_id: str) -> asyncio.Lock:
        """The lock by which this process judges the outcomes of one conversation one after the other."""
        return self.turns.setdefault(conversation_id, asyncio.Lock())

    @property
    def allowed(self) -> bool:
        """Whether this process may write as a guest."""
        return os.environ.get(GUESTS) != "0" and not self.retired()

    def known(self, request: ModelRequest | RunRequest) -> Visited | None:
        """The conversation as its last writer told of it, if that was a guest and no turn can begin after this one."""
        visited = request.visited
        if visited is None or visited.state.waiting or visited.state.queue or not self.clock.fresh:
            return None
        return replace(visited, now=self.clock.now())

    async def judged(
        self,
        conversation_id: str,
        visited: Visited,
        command: Command,
        *,
        claim: tuple[str, str] | None = None,
        begins: PublishedAgent | None = None,
    ) -> Wrote:
        """Judge a command and write its events, with `claim` only if that claim stands (`Append.claim`).

        `begins` is the code and spec of the turn that the command begins, if they are known.

        Raises:
            Fenced: Another writer came first; nothing was written.
            HoldfastError: The command was refused; after a `StoreError` it is unknown whether it was written.
        """
        clock = StoreClock(steady_ms)
        clock.heard(visited.now)
        held = Held(self.store, self.specs, clock, conversation_id, lease_ms=LOOK_MS)
        held.visit(visited)
        held.claim, held.spec = claim, None if begins is None else begins.spec
        trace = TurnTrace(conversation_id, self.traces, visited=visited.state)
        counted, writes = Counted(self.counts), list[tuple[Append, Appended]]()

        def wrote(write: Append, written: Appended, command: Command) -> None:
            self.clock.heard(written.now)
            writes.append((write, written))
            tell((trace, counted), write, command)
            trace.written(write)
            counted.written(write)

        async def begin(effect: BeginTurn, state: State) -> TurnPrepared:
            return await begun(self.admit, self.published, effect, state, begins, spent=self.store.spent)

        try:
            reply = await Judge(held, trace, begin=begin, wrote=wrote).judged(command)
            ((write, written),) = writes
            return Wrote(reply, write, written, trace.for_work(write.after) if write.after.busy else None)
        finally:
            trace.left()

    async def leave(self, request: ModelRequest | RunRequest, why: object) -> None:
        """Leave work that no worker has begun to an actor."""
        logger.info("%s of %s is left to an actor: %s", request.effect_id, request.conversation_id, why)
        try:
            await self.store.give_back(request.conversation_id, request.effect_id, incarnation="guest")
        except StoreError as error:  # it is looked at after `LOOK_MS`
            logger.debug("%s of %s waits: %s", request.effect_id, request.conversation_id, error)
