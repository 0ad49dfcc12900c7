"""Judging a command: decide, append, adopt the state."""

import logging
import uuid
from collections.abc import Callable, Sequence

from holdfast.actors.steps import Reached, Step
from holdfast.conversation import AgentSpec, Command, Event, Judgement, Reply, decide
from holdfast.conversation.commands import TurnPrepared
from holdfast.conversation.idempotency import IdempotencyRecord
from holdfast.errors import CorruptStore, HoldfastError, NewerRecord
from holdfast.persistence import Append, Appended, KnownIds, Store

from .beginning import Beginning
from .lease import now_s
from .taking_over import Tenure
from .turn_trace import TurnTrace

logger = logging.getLogger("holdfast.actor")


class Judge:
    """The one writer of a conversation.

    Args:
        store: Where the conversation is kept.
        tenure: What the activation holds of the conversation.
        beginning: Says with what a turn begins.
        lease_ms: The length of a lease.
        adopted: Called with each write that has become durable, and what it came to.
        trace: The spans of the activation.
        reached: Called at each numbered step.
    """

    def __init__(
        self,
        store: Store,
        tenure: Tenure,
        beginning: Beginning,
        *,
        lease_ms: int,
        adopted: Callable[[Append, Appended], None],
        trace: TurnTrace,
        reached: Reached,
    ) -> None:
        self._store = store
        self._tenure = tenure
        self._beginning = beginning
        self._lease_ms = lease_ms
        self._adopted = adopted
        self._trace = trace
        self._reached = reached

    async def judge(self, command: Command) -> Reply:
        """Judge a command; its reply, once the events that it led to are durable.

        The idempotency records of accepted ids stand beside the log and in no state, so `decide` has none of them at first: it
        judges as if the command's ids were new, and the append is refused where one of them is known. The command is then
        judged again with the records of these ids, which make it a duplicate. New ids, which nearly all are, cost no read.

        A refusal is confirmed by an append of no events: a deposed activation must not say a final no.

        A turn that the command leads to begins in the same write, if it is known in a moment with what it begins.

        Raises:
            Fenced: Another activation owns the conversation.
            CipherMissing: The store is encrypted, and this process has no cipher; nothing was written.
            CipherFailed: Something cannot be encrypted or decrypted; nothing was written.
            StoreError: Whether the command was written is unknown.
            HoldfastError: The command was refused.
        """
        tenure = self._tenure
        spec = await tenure.spec_for(command)
        read = await self._read(command, spec)
        known: dict[str, IdempotencyRecord] = {}
        while True:
            now = tenure.time.now()
            trace = self._trace.of(tenure.state, command, now)
            stamped = command.stamped(now, spec, known, trace, read, salt=uuid.uuid4().hex)
            refusal: HoldfastError | None = None
            judgement = Judgement()
            try:
                judgement = decide(tenure.state, stamped)
            except HoldfastError as error:
                refusal = error
            judgement, begins = await self._with_beginning(judgement, now)
            self._reached(Step.ASK_2_JUDGED)
            ids = (*command.lookups(), *command.reasons()) if refusal is not None else command.lookups()
            asked_at_s = now_s()
            write = Append(
                token=tenure.token,
                append_id=uuid.uuid4().hex,
                before=tenure.state,
                after=judgement.state or tenure.state,
                lease_ms=self._lease_ms,
                events=judgement.events,
                absent=[key for key in ids if key not in known],
                tail_bytes=tenure.tail_bytes,
                unrecorded=tenure.unrecorded_in(judgement.state or tenure.state),
                passing=judgement.passing,
            )
            written = await self._store.append(tenure.conversation_id, write)
            tenure.time.heard(written.now)
            tenure.lease.granted(asked_at_s)
            if isinstance(written, KnownIds):
                known |= written.known
                continue
            self._reached(Step.ASK_3_WRITTEN)
            tenure.adopt(write, written)
            self._trace.written(write, command)
            self._adopted(write, written)
            if begins is not None:
                tenure.spec = begins.spec
            elif judgement.events and command.kind in ("start", "turn_prepared"):
                tenure.spec = spec  # no other command changes the spec of the turn
            if refusal is not None:
                raise refusal
            return judgement.reply

    async def _read(self, command: Command, spec: AgentSpec | None) -> dict[int, Event]:
        """The entries of the log that a command is judged by: none but for what the state leaves out and the spec has not."""
        places = command.reads(self._tenure.state, spec)
        if not places:
            return {}
        found = [await self._read_one(place) for place in places] if len(places) == 1 else await self._read_all(places)
        return {seq: event for seq, event in zip(places, found, strict=True) if event is not None}

    async def _read_all(self, places: Sequence[int]) -> Sequence[Event | None]:
        try:
            return await self._store.at(self._tenure.conversation_id, places)
        except (CorruptStore, NewerRecord):  # what can be read is; what cannot is missed only where it is needed
            return [await self._read_one(place) for place in places]

    async def _read_one(self, place: int) -> Event | None:
        try:
            (found,) = await self._store.at(self._tenure.conversation_id, [place])
        except (CorruptStore, NewerRecord) as error:
            logger.warning("conversation %s: entry %d cannot be read: %s", self._tenure.conversation_id, place, error)
            return None
        return found

    async def _with_beginning(self, judgement: Judgement, now: int) -> tuple[Judgement, TurnPrepared | None]:
        """The judgement with the beginning of the turn that it leads to, and that beginning, if it is known in a moment."""
        if judgement.state is None:
            return judgement, None
        begins = await self._beginning.at_once(self._tenure.state, judgement.state)
        if begins is None:
            return judgement, None
        try:
            stamped = begins.stamped(now, begins.spec, {}, self._trace.beginning(judgement.state), salt=uuid.uuid4().hex)
            return judgement.then(decide(judgement.state, stamped)), begins
        except Exception:  # it is found again where the beginning is carried out by itself, and costs this command nothing
            logger.exception("conversation %s: its turn cannot begin at once", self._tenure.conversation_id)
            return judgement, None
