"""Judging a command: decide, append, adopt the state, and begin the turn that follows from it."""

import asyncio
import logging
import uuid
from collections.abc import Callable
from dataclasses import dataclass

from holdfast.actors.steps import Step
from holdfast.actors.workers import NoWorker, WorkPaused
from holdfast.backoff import now_s
from holdfast.conversation import AgentSpec, BeginTurn, Command, Event, Judgement, Reply, State, decide, outstanding
from holdfast.conversation.judging.machine import effect_of
from holdfast.conversation.records.commands import TurnPrepared
from holdfast.conversation.records.idempotency import IdempotencyRecord
from holdfast.errors import CorruptStore, HoldfastError, NewerRecord
from holdfast.persistence import Append, Appended, KnownIds

from .context import ActivationContext
from .ownership import Ownership
from .turn_trace import TurnTrace

logger = logging.getLogger("holdfast.actor")

AT_ONCE_S = 0.25
"""Seconds that a command waits at most for the turn that it begins; the turn can also begin with a later write."""


async def begun(context: ActivationContext, effect: BeginTurn, state: State) -> TurnPrepared:
    """The outcome of `BeginTurn`: a turn keeps to its end the code and spec that are published when it begins."""
    app, agent = state.app, state.agent
    await context.admission.admit(agent)  # else a paused turn would begin with the code from before the pause
    published = await context.workers.published(app, agent)
    if published is None:
        return TurnPrepared(effect_id=effect.effect_id, problem=f"no app {app!r} is known to the store")
    if published.spec is None:
        return TurnPrepared(effect_id=effect.effect_id, problem=f"app {app!r} has no agent {agent!r} any more")
    return TurnPrepared(effect_id=effect.effect_id, code=published.code, spec=published.spec)


@dataclass(eq=False)
class Judge:
    """The only writer of a conversation."""

    _context: ActivationContext
    _owned: Ownership
    _trace: TurnTrace
    _adopted: Callable[[Command, Append, Appended], None]

    async def judge(self, command: Command) -> Reply:
        """Judge a command, and return its reply once its events are durable.

        The idempotency records of accepted ids stand beside the log and not in the state. `decide` first judges as if the
        command's ids were new; if one is known, the append is refused, and the command is judged again with the known records,
        which make it a duplicate. New ids, which nearly all are, cost no read. A refusal is confirmed by an append without
        events: a deposed activation must not give a final no. If the command begins a turn whose code and spec are known at
        once, the same write begins it.
        """
        owned = self._owned
        spec = await owned.spec_for(command)
        read = await self._read(command, spec)
        known: dict[str, IdempotencyRecord] = {}
        while True:
            now = owned.time.now()
            trace = self._trace.of(owned.state, command, now)
            stamped = command.stamped(now, spec, known, trace, read, salt=uuid.uuid4().hex)
            refusal: HoldfastError | None = None
            judgement = Judgement()
            try:
                judgement = decide(owned.state, stamped)
            except HoldfastError as error:
                refusal = error
            judgement, begins = await self._with_beginning(judgement, now)
            self._context.reached(Step.ASK_2_JUDGED)
            ids = (*command.lookups(), *command.reasons()) if refusal is not None else command.lookups()
            asked_at_s = now_s()
            write = Append(
                token=owned.token,
                append_id=uuid.uuid4().hex,
                before=owned.state,
                after=judgement.state or owned.state,
                lease_ms=self._context.timing.lease_ms,
                events=judgement.events,
                absent=[key for key in ids if key not in known],
                tail_bytes=owned.tail_bytes,
                unrecorded=owned.unrecorded_in(judgement.state or owned.state),
                passing=judgement.passing,
            )
            written = await self._context.store.append(owned.conversation_id, write)
            owned.time.heard(written.now)
            owned.lease.granted(asked_at_s)
            if isinstance(written, KnownIds):
                known |= written.known
                continue
            self._context.reached(Step.ASK_3_WRITTEN)
            owned.adopt(write, written)
            self._adopted(command, write, written)
            if begins is not None:
                owned.spec = begins.spec
            elif judgement.events and command.kind in ("start", "turn_prepared"):
                owned.spec = spec  # no other command changes the spec of the turn
            if refusal is not None:
                raise refusal
            return judgement.reply

    async def _read(self, command: Command, spec: AgentSpec | None) -> dict[int, Event]:
        """The log entries that a command is judged by: those with facts that neither the state nor the spec has."""
        places = command.reads(self._owned.state, spec)
        if not places:
            return {}
        try:
            found = await self._context.store.at(self._owned.conversation_id, places)
        except (CorruptStore, NewerRecord):  # an unreadable entry fails only a command that needs it
            found = [await self._read_one(place) for place in places]
        return {seq: event for seq, event in zip(places, found, strict=True) if event is not None}

    async def _read_one(self, place: int) -> Event | None:
        try:
            (found,) = await self._context.store.at(self._owned.conversation_id, [place])
        except (CorruptStore, NewerRecord) as error:
            logger.warning("conversation %s: entry %d cannot be read: %s", self._owned.conversation_id, place, error)
            return None
        return found

    async def _with_beginning(self, judgement: Judgement, now: int) -> tuple[Judgement, TurnPrepared | None]:
        if judgement.state is None:
            return judgement, None
        begins = await self._at_once(self._owned.state, judgement.state)
        if begins is None:
            return judgement, None
        try:
            stamped = begins.stamped(now, begins.spec, {}, self._trace.beginning(judgement.state), salt=uuid.uuid4().hex)
            return judgement.then(decide(judgement.state, stamped)), begins
        except Exception:  # the separate `BeginTurn` meets it again; this command does not fail
            logger.exception("conversation %s: its turn cannot begin at once", self._owned.conversation_id)
            return judgement, None

    async def _at_once(self, before: State, after: State) -> TurnPrepared | None:
        """The outcome of a `BeginTurn` that this command makes outstanding; None without one, or after `AT_ONCE_S`."""
        if after.turn is not None:  # otherwise the end of each run would list all other runs
            return None
        effect = next((effect for effect in outstanding(after) if isinstance(effect, BeginTurn)), None)
        if effect is None or effect_of(before, effect.effect_id) is not None:
            return None
        try:
            async with asyncio.timeout(AT_ONCE_S):
                return await begun(self._context, effect, after)
        except (WorkPaused, NoWorker, HoldfastError, TimeoutError):
            return None
