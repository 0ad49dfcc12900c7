"""Judging commands about one conversation and writing what follows, as its owner or as a guest."""

import asyncio
import logging
import uuid
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from holdfast.actors.published import SpecCache
from holdfast.actors.steps import Reached, Step, logged
from holdfast.actors.workers import NoWorker, WorkPaused
from holdfast.conversation import AgentSpec, BeginTurn, Command, Event, Judgement, Reply, State, Wake, decide, outstanding
from holdfast.conversation.judging.machine import effect_of
from holdfast.conversation.log.owed import owed_by, quarantine_owes
from holdfast.conversation.records.command_base import Looking
from holdfast.conversation.records.commands import RunRuled, TurnPrepared
from holdfast.conversation.records.idempotency import IdempotencyRecord
from holdfast.conversation.records.input_commands import Start
from holdfast.errors import CorruptStore, HoldfastError, NewerRecord, StoreError
from holdfast.persistence import Append, Appended, KnownIds, Store, Visited
from holdfast.store_clock import StoreClock

from .turn_trace import TurnTrace

logger = logging.getLogger("holdfast.actor")

AT_ONCE_S = 0.25
"""Seconds that a command waits at most for the turn that it begins; the turn can also begin with a later write."""
LOOK_AGAIN_MS = 5_000
"""How long (ms) a conversation whose clients cannot be read is left before it is looked at again."""


class Held:
    """A conversation as a writer holds it between its writes.

    Attributes:
        spec: The spec that commands are judged with; None while it is unknown.
        tail_bytes: The size of the log after the last snapshot.
        token: The token by which the store knows the owner; '' for a guest.
        seen: The id of the conversation's last write, as a guest has read it; None for an owner.
        claim: The effect and the incarnation whose claim a guest's write needs.
        unrecorded: Model calls found without a record; the next write makes one.
    """

    def __init__(self, store: Store, specs: SpecCache, clock: StoreClock, conversation_id: str, *, lease_ms: int) -> None:
        self.conversation_id = conversation_id
        self.state = State(conversation_id=conversation_id)
        self.spec: AgentSpec | None = None
        self.tail_bytes = 0
        self.token = ""
        self.seen: str | None = None
        self.claim: tuple[str, str] | None = None
        self.unrecorded: set[str] = set()
        self.time = clock
        self.lease_ms = lease_ms
        self.store = store
        self._specs = specs
        self._unseen = False  # the clients could not be read for the command that is judged

    def visit(self, visited: Visited) -> None:
        """Hold what a guest has read, for its next write."""
        self.state, self.tail_bytes, self.seen = visited.state, visited.tail_bytes, visited.append_id

    def adopt(self, write: Append, written: Appended) -> None:
        """Adopt the state of a durable write."""
        self.state, self.tail_bytes = write.after, written.tail_bytes
        self.unrecorded.clear()
        if self.seen is not None:
            self.seen = write.append_id

    def owes(self, events: Sequence[Event], after: State, spec: AgentSpec | None) -> dict[str, Any]:
        """The fields of a write that say what it owes, given the spec that its events were judged with."""
        if (spec is None or not spec.notify) and not self.state.delegates and not after.delegates:
            return {}
        targets = [one.target for one in quarantine_owes(after, spec)]
        return {"owed": owed_by(events, self.state, after, spec), "quarantine_owes": targets}

    async def spec_for(self, command: Command) -> AgentSpec | None:
        """The spec that a command is judged with: its own if it brings one, else the turn's."""
        if command.kind == "turn_prepared" or (command.kind == "start" and command.spec is not None):
            return command.spec
        if self.spec is None and self.state.seq:
            self.spec = await self._spec()
        return self.spec

    async def _spec(self) -> AgentSpec | None:
        """The stored spec of the current turn, else of the next one; None if none is stored."""
        state, turn = self.state, self.state.turn
        if turn is None or not turn.spec_digest:
            record = await self.store.app(state.app) if state.app else None
            digest = record.agents.get(state.agent) if record is not None else None
        else:
            digest = turn.spec_digest
        return await self._specs.find(self.store, digest) if digest else None

    async def read(self, command: Command, spec: AgentSpec | None) -> dict[int, Event]:
        """The log entries that a command is judged by: those with facts that neither the state nor the spec has."""
        places = command.reads(self.state, spec)
        if not places:
            return {}
        try:
            found: Sequence[Event | None] = await self.store.at(self.conversation_id, places)
        except (CorruptStore, NewerRecord):  # an unreadable entry fails only a command that needs it
            found = [await self._read_one(place) for place in places]
        return {seq: event for seq, event in zip(places, found, strict=True) if event is not None}

    async def seeing(self, command: Command) -> Command:
        """The command with the attached clients, if it is judged by them; without them if they cannot be read.

        A `Wake` is also judged by them if nothing else is due: then a client may have left.
        """
        self._unseen = False
        now, due_at = self.time.now(), self.state.due_at
        left = isinstance(command, Wake) and (due_at is None or due_at > now)
        if not isinstance(command, Looking) or not (left or command.looks(self.state, now)):
            return command
        try:
            return command.seeing(await self.store.present(self.conversation_id))
        except StoreError as error:
            logger.warning("conversation %s: its clients cannot be read: %s", self.conversation_id, error)
            self._unseen = True
            return command

    async def looked(self, command: Wake) -> None:
        """Forget the clients whose departure was judged by a durable write; what could not be done is done later."""
        left = [one.name for one in command.present or () if one.has_left(command.now)]
        try:
            if self._unseen:
                await self.store.postpone(self.conversation_id, LOOK_AGAIN_MS)
            elif left:
                await self.store.forget_clients(self.conversation_id, left)
        except StoreError as error:  # it stays due
            logger.warning("conversation %s: its clients are looked at again: %s", self.conversation_id, error)

    async def _read_one(self, place: int) -> Event | None:
        try:
            (found,) = await self.store.at(self.conversation_id, [place])
        except (CorruptStore, NewerRecord) as error:
            logger.warning("conversation %s: entry %d cannot be read: %s", self.conversation_id, place, error)
            return None
        return found


class Judge:
    """Judges commands about what a writer holds, and writes their events.

    `begin` prepares the turn that a command makes due. `wrote` is told of each durable write at once, before anything else
    happens in this process.
    """

    def __init__(
        self,
        held: Held,
        trace: TurnTrace,
        *,
        begin: Callable[[BeginTurn, State], Awaitable[TurnPrepared]],
        wrote: Callable[[Append, Appended, Command], None],
        reached: Reached = logged,
    ) -> None:
        self._held = held
        self._trace = trace
        self._begin = begin
        self._wrote = wrote
        self._reached = reached

    async def judged(self, command: Command, *, anew: bool = True) -> Reply:
        """Judge a command, and return its reply once its events are durable.

        The idempotency records of accepted ids are kept beside the log, not in the state. `decide` first judges as if the
        command's ids were new; if one is known, the append is refused, and the command is judged again with the known records,
        which make it a duplicate. New ids, which nearly all are, cost no read. A refusal is confirmed by an append without
        events: a deposed activation must not refuse for good. If the command begins a turn whose code and spec are known at
        once, the same write begins it, unless it comes too late. A prepared turn that comes too late is prepared `anew`.

        Raises:
            Fenced: Another writer came first; nothing was written.
            WorkPaused: A prepared turn came too late to begin, and cannot be prepared anew at once; nothing was written.
            HoldfastError: The command was refused; after a `StoreError` it is unknown whether it was written.
        """
        held = self._held
        spec = await held.spec_for(command)
        read = await held.read(command, spec)
        command = await held.seeing(command)
        known: dict[str, IdempotencyRecord] = {}
        late = False
        while True:
            now = held.time.now()
            trace = self._trace.of(held.state, command, now)
            stamped = command.stamped(now, spec, known, trace, read, salt=uuid.uuid4().hex)
            refusal: HoldfastError | None = None
            judgement = Judgement()
            try:
                judgement = decide(held.state, stamped)
            except HoldfastError as error:
                refusal = error
            judgement, begins = (judgement, None) if late else await self._with_beginning(judgement, now)
            prepared = command if isinstance(command, TurnPrepared) else begins
            self._reached(Step.ASK_2_JUDGED)
            ids = (*command.lookups(), *command.reasons()) if refusal is not None else command.lookups()
            after = judgement.state or held.state
            unbegun = held.seen is not None and after.busy and after.turn is None  # an actor begins the turn
            write = Append(
                token=held.token,
                append_id=uuid.uuid4().hex,
                before=held.state,
                after=after,
                lease_ms=0 if unbegun else held.lease_ms,
                events=judgement.events,
                absent=[key for key in ids if key not in known],
                tail_bytes=held.tail_bytes,
                unrecorded=[name for name in held.unrecorded if effect_of(after, name) is not None],
                passing=judgement.passing,
                seen=held.seen,
                claim=held.claim,
                until_ms=_until_ms(prepared, stamped) if judgement.events else None,
                due_at=judgement.due_at,
                **held.owes(judgement.events, after, begins.spec if begins is not None else spec),
            )
            written = await held.store.append(held.conversation_id, write)
            held.time.heard(written.now)
            if isinstance(written, KnownIds):
                known |= written.known
                late = not written.known
                if late and isinstance(command, TurnPrepared):
                    if not anew:
                        raise WorkPaused(f"{command.kind} comes too late: new work may be paused by now")
                    return await self.judged(await self._prepared_anew(command), anew=False)
                continue
            self._reached(Step.ASK_3_WRITTEN)
            held.adopt(write, written)
            self._wrote(write, written, command)
            if isinstance(stamped, Wake):
                await held.looked(stamped)
            if begins is not None:
                held.spec = begins.spec
            elif judgement.events and command.kind in ("start", "turn_prepared"):
                held.spec = spec  # no other command changes the spec of the turn
            if refusal is not None:
                raise refusal
            return judgement.reply

    async def _prepared_anew(self, command: TurnPrepared) -> TurnPrepared:
        state = self._held.state
        effect = effect_of(state, command.effect_id)
        try:
            async with asyncio.timeout(AT_ONCE_S):
                return await self._begin(effect, state) if isinstance(effect, BeginTurn) else command
        except (NoWorker, HoldfastError, TimeoutError) as error:
            raise WorkPaused(f"{command.kind} came too late, and the turn cannot begin now: {error}") from None

    async def _with_beginning(self, judgement: Judgement, now: int) -> tuple[Judgement, TurnPrepared | None]:
        """The judgement with the beginning of the turn that it makes due, and that outcome; without both after `AT_ONCE_S`."""
        before, after = self._held.state, judgement.state
        if after is None or after.turn is not None:  # otherwise each end of a run would list all other runs
            return judgement, None
        effect = next((effect for effect in outstanding(after) if isinstance(effect, BeginTurn)), None)
        if effect is None or effect_of(before, effect.effect_id) is not None:
            return judgement, None
        try:
            async with asyncio.timeout(AT_ONCE_S):
                begins = await self._begin(effect, after)
        except (WorkPaused, NoWorker, HoldfastError, TimeoutError):
            return judgement, None
        try:
            stamped = begins.stamped(now, begins.spec, {}, self._trace.beginning(after), salt=uuid.uuid4().hex)
            return judgement.then(decide(after, stamped)), begins
        except Exception:  # this command does not fail: the separate `BeginTurn` will meet the error, too
            logger.exception("conversation %s: its turn cannot begin at once", self._held.conversation_id)
            return judgement, None


def _until_ms(prepared: TurnPrepared | None, command: Command) -> int | None:
    """The time (ms UTC by the store's clock) from which on a write comes too late; None: it never does."""
    times = [None if prepared is None else prepared.until_ms]
    if isinstance(command, Start) and command.parent is not None:
        times += (command.parent.must_end_by, command.not_after)
    if isinstance(command, RunRuled) and not command.is_late(command.now):
        times.append(command.until_ms)
    return min((at for at in times if at is not None), default=None)
