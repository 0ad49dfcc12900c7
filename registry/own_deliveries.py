"""What conversations owe each other: commands that the courier sends through the registry, safe to repeat by their ids.

A parent starts its children and ends them, and a child tells its parent how it ended. The commands are made of what the log of
the conversation that owes them says. A child that cannot be started is told of as one that has failed.
"""

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from holdfast.actors.answers import Replied
from holdfast.actors.workers import DeliverAnswer, Delivered, Later, SetAside
from holdfast.conversation import Command, End, Receipt, Start, State, Tell
from holdfast.conversation.log.owed import END, START, TELL
from holdfast.conversation.log.transcript import reply_of
from holdfast.conversation.records import events as recorded
from holdfast.conversation.records.command_base import Request
from holdfast.conversation.records.events import Event
from holdfast.conversation.terms.delegation import Ancestor, Parent
from holdfast.conversation.terms.principal import Principal
from holdfast.conversation.terms.spec import NoticeKind
from holdfast.conversation.text import jsontext
from holdfast.errors import (
    ConfigurationError,
    ConversationEnded,
    ConversationExists,
    ConversationNotFound,
    CorruptStore,
    InvalidInput,
    NotPermitted,
    StaleCall,
)
from holdfast.persistence import TRIED_MS, Conversations, Leased
from holdfast.redaction import PLAIN
from holdfast.together import Together

from .courier import Own
from .registry import Delivery, DeliveryResult, Refused, Unknown, Unsent

DELIVERY_S = 30.0
START_MS = 30_000
"""How long (ms) after its parent was seen to wait a child may start. Its end is tried until then if it is not there."""
GIVEN_UP_MS = TRIED_MS - 3_600_000
"""After how long (ms) a start that nothing came of counts as failed: the parent is told before the start is set aside."""
TOGETHER = 64
"""How many starts of one parent read it together at most."""
_OVER = (ConversationEnded, ConversationNotFound, StaleCall)
"""Refusals that show that there is nothing (more) to do: the same command came before, or what it is about is gone."""
_FINAL = (InvalidInput, NotPermitted, ConversationExists)
"""Refusals that every repetition would meet (see `_final`)."""

R = TypeVar("R", bound=Request)


class Signs(Protocol):
    """Signs what a conversation is sent (see `Proofs.signed`)."""

    async def __call__(self, conversation_id: str, command: R, /) -> R:
        """The command with its signature."""
        ...


class Delivers(Protocol):
    """The part of a registry that this module uses."""

    async def deliver(self, delivery: Delivery) -> DeliveryResult:
        """See `Registry.deliver`."""
        ...


class Accepts(Protocol):
    """The part of `Messages` that this module uses."""

    async def accepted(self, delivery: Delivery) -> DeliveryResult | None:
        """See `Messages.accepted`."""
        ...


def own_deliveries(registry: Delivers, store: Conversations, sign: Signs, messages: Accepts | None = None) -> Mapping[str, Own]:
    """How each kind of what conversations owe each other is delivered; `messages` accepts what needs no actor."""

    async def parents(parent: str, asked: Sequence[None]) -> Sequence[tuple[State, int]]:
        state, now = await asyncio.gather(store.load(parent), store.now())
        return [(state, now)] * len(asked)

    own = _OwnDeliveries(registry, store, sign, messages, Together(parents, most=TOGETHER))
    return {START: own.start, TELL: own.tell, NoticeKind.QUARANTINED: own.tell, END: own.end}


@dataclass(frozen=True, slots=True)
class _OwnDeliveries:
    registry: Delivers
    store: Conversations
    sign: Signs
    messages: Accepts | None
    parents: Together[str, None, tuple[State, int]]

    async def end(self, child: str, leased: Leased) -> DeliverAnswer:
        """End a child whose parent waits for it no longer. Another conversation that has its id goes on."""
        with contextlib.suppress(ConversationNotFound):
            state = await self.store.load(child)
            if state.parent is None or state.parent.conversation_id != leased.conversation_id:
                return Delivered()
        result = await self._sent(child, End(request_id=leased.envelope.message_id(leased.conversation_id)))
        if isinstance(result, Unsent | Refused) and isinstance(result.error, ConversationNotFound):
            left_ms = leased.envelope.at + START_MS - await self.store.now()
            return Later("it may start yet", left_ms) if left_ms >= 0 else Delivered()
        return _answer(result)

    async def start(self, child: str, leased: Leased) -> DeliverAnswer:
        """Start the child of a call. If that is impossible, or if it was over before, its parent is told."""
        parent = leased.conversation_id
        try:
            command = await self._started_by(parent, child, leased.envelope.seq)
        except CorruptStore:
            return await self._failed(parent, child, "the agent could not be asked, since the task cannot be read")
        except ConversationNotFound:  # the store has lost the parent
            return Delivered()
        if command is None:
            return Delivered()
        result = await self._sent(child, command, create=True)
        match result:
            case Replied(Receipt(duplicate=True)):  # the parent may have been set back since it was told
                return await self._told(await self.store.load(child))
            case Replied():
                return Delivered()
            case _ if isinstance(result.error, StaleCall):
                return Later(PLAIN.said(result.error, 300))
            case _ if (
                _final(result) or isinstance(result.error, _OVER) or leased.envelope.at + GIVEN_UP_MS < await self.store.now()
            ):
                said = f"the agent {command.agent!r} could not be asked: {PLAIN.said(result.error, 300)}"
                return await self._failed(parent, child, said)
            case _:
                return Later(PLAIN.said(result.error, 300))

    async def tell(self, parent: str, leased: Leased) -> DeliverAnswer:
        """Tell a parent how its child ended."""
        try:
            state = await self.store.load(leased.conversation_id)
        except (CorruptStore, ConversationNotFound):
            return await self._failed(parent, leased.conversation_id, "the agent's conversation cannot be read")
        return await self._told(state)

    async def _failed(self, parent: str, child: str, said: str) -> DeliverAnswer:
        """Tell a parent why its child has no reply; the child may have to be ended."""
        try:
            state = await self.store.load(parent)
        except CorruptStore as error:
            return SetAside(PLAIN.said(error, 300))
        except ConversationNotFound:
            return Delivered()
        for call in state.calls:
            if call.suspension is not None and call.suspension.source == child:
                about = {"suspension_id": call.suspension.suspension_id, "source": child}
                return _answer(await self._sent(parent, Tell(ok=False, content=jsontext.dumps(said), ended=False, **about)))
        return Delivered()

    async def _told(self, state: State) -> DeliverAnswer:
        if state.parent is None:
            return Delivered()
        if not state.ended and await self.store.quarantine(state.conversation_id) is None:
            return Delivered()  # it was tried again since, or set back, and tells once it ends
        ok, said = await self._said_by(state)
        about = {"suspension_id": state.parent.suspension_id, "source": state.conversation_id, "ended": state.ended}
        tell = Tell(ok=ok, content=jsontext.dumps(said), **about)
        return _answer(await self._sent(state.parent.conversation_id, tell))

    async def _said_by(self, state: State) -> tuple[bool, str]:
        """Whether a child has a reply, and the reply or why it has none."""
        asked, last = f"the agent {state.agent!r}", state.last
        if not state.ended:
            return False, f"{asked} was set aside, since its work failed again and again (quarantined)"
        if last is None:
            return False, f"{asked} was ended before it began"
        if last.outcome == "cancelled":
            return False, f"{asked} was cancelled before it answered"
        try:
            (found,) = await self.store.at(state.conversation_id, [last.reply_seq or last.seq])
        except CorruptStore:
            found = None
        match found:
            case recorded.ModelAnswered() if (reply := reply_of(found)) or last.stopped is None:
                return True, reply or ""
            case recorded.TurnFailed():
                return False, f"{asked} failed: {found.error}"
            case recorded.ModelAnswered() | recorded.TurnCompleted():
                return False, f"{asked} was stopped before it said anything ({last.stopped})"
            case _:
                return False, f"{asked} has ended, and its answer cannot be read"

    async def _started_by(self, parent: str, child: str, seq: int) -> Start | None:
        """The command that starts a child; None if its parent waits no longer."""
        state, now = await self.parents.result(parent, None)
        wait, first, message, *joined = await self._read(parent, seq, 1, *((0,) if state.turn is None else state.turn.asked_at))
        if not isinstance(wait, recorded.CallSuspended) or wait.delegation is None or wait.source != child:
            raise CorruptStore(f"conversation {parent}: entry {seq} delegates nothing to {child}")
        if state.calls.open_suspension(wait.suspension_id) is None:
            return None
        answered, edit = await self._read(parent, wait.delegation.answered_at, wait.arguments_at)
        if not isinstance(first, recorded.ConversationStarted) or not isinstance(answered, recorded.ModelAnswered):
            raise CorruptStore(f"conversation {parent}: what call {wait.tool_call_id} asks cannot be read")
        call = next(one for one in answered.calls if one.tool_call_id == wait.tool_call_id)
        arguments, editors = call.arguments, () if state.parent is None else state.parent.editors
        requester, *others = [
            one.principal if isinstance(one, recorded.MessageAccepted) else None for one in (message, *joined)
        ]
        requester = None if None in others else requester  # nobody knows who has asked for this
        editors = (*editors, *(Principal(by.id, proof=by.proof) for by in others if by is not None))
        if isinstance(edit, recorded.SuspensionSettled):
            arguments, by = edit.body or "{}", edit.principal
            requester = requester if by is not None else None  # nobody knows who has asked for this
            editors = editors if by is None else (*editors, Principal(by.id, proof=by.proof))
        path = () if state.parent is None else state.parent.path
        return Start(
            agent=wait.delegation.agent,
            app=state.app,
            text=jsontext.loads(arguments or "{}").get("task", ""),
            message_id=wait.suspension_id,
            context=first.context if call.context is None else call.context,
            attended=state.attended,
            principal=requester,
            not_after=now + START_MS,
            parent=Parent(
                suspension_id=wait.suspension_id,
                path=(*path, Ancestor(conversation_id=parent, agent=state.agent)),
                depth=wait.delegation.depth,
                descendants=wait.delegation.descendants,
                must_end_by=wait.expires_at,
                editors=editors,
            ),
        )

    async def _read(self, conversation_id: str, *places: int) -> list[Event | None]:
        found = iter(await self.store.at(conversation_id, [place for place in places if place]))
        return [next(found) if place else None for place in places]

    async def _sent(self, conversation_id: str, command: Command, *, create: bool = False) -> DeliveryResult:
        delivery = Delivery(conversation_id, command, timeout_s=DELIVERY_S, create=create)
        if self.messages is not None and isinstance(command, Start | Tell):
            accepted = await self.messages.accepted(delivery)
            if accepted is not None:
                return accepted
        if isinstance(command, Request) and (command.of_machine or command.proven is not None):
            delivery.command = await self.sign(conversation_id, command)  # an actor takes nobody's word for it
        return await self.registry.deliver(delivery)


def _answer(result: DeliveryResult) -> DeliverAnswer:
    match result:
        case Replied():
            return Delivered()
        case _ if isinstance(result.error, _OVER):
            return Delivered()
        case _ if _final(result):
            return SetAside(PLAIN.said(result.error, 300))
        case _:
            return Later(PLAIN.said(result.error, 300))


def _final(result: Refused | Unsent | Unknown) -> bool:
    """Whether every repetition would be refused; what is wrong with a process's configuration may be mended."""
    error = result.error
    return isinstance(result, Refused) and isinstance(error, _FINAL) and not isinstance(error, ConfigurationError)
