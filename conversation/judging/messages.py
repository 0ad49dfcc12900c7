"""The judgement of messages: the first one, which starts the conversation, later ones, and requests about those that wait."""

from typing import Any

from holdfast.conversation.ids import check_conversation_id, check_request_id
from holdfast.conversation.records.commands import Command
from holdfast.conversation.records.events import (
    ConversationStarted,
    InputRescheduled,
    InputSuperseded,
    InputWithdrawn,
    MessageAccepted,
)
from holdfast.conversation.records.idempotency import IdempotencyRecord, request_digest, request_key
from holdfast.conversation.records.input_commands import Interrupt, Reschedule, Send, Start, When, Withdraw
from holdfast.conversation.records.state import DEFAULT_PRIORITY, LAST_PRIORITY, Queued, State
from holdfast.conversation.terms.parts import check_size, content_of
from holdfast.conversation.terms.spec import Limits
from holdfast.conversation.text import jsontext
from holdfast.errors import ConversationBusy, InvalidInput, InvalidMessage, NotQueued, QueueFull, StaleCall, StaleReason

from .cancelling import cancel_turn
from .judgement import Draft, Interrupted, Judgement

LATEST_MS = 366 * 86_400_000
"""How far ahead (ms) a message may be delayed."""


def start(state: State, command: Start) -> Judgement:
    """Start the conversation; the beginning of its first turn is then outstanding."""
    check_conversation_id(state.conversation_id)
    limits = command.limits
    _check_message(command.text, command.message_id, limits)
    if jsontext.clean(command.agent) != command.agent:
        raise InvalidMessage("agent", "it holds a lone surrogate", "name an agent of the app")
    if jsontext.size_bytes(command.context) > limits.message_bytes:
        problem = f"its JSON has more than {limits.message_bytes} bytes"
        raise InvalidMessage("context", problem, "pass a reference instead, or raise Limits.message_bytes")
    try:
        jsontext.loads(command.context)
    except jsontext.NotJson as error:
        raise InvalidMessage("context", str(error), "give a JSON value") from error
    parent = command.parent
    if parent is not None and command.now >= min(parent.must_end_by, command.not_after or parent.must_end_by):
        raise StaleCall(parent.conversation_id, parent.suspension_id, StaleReason.EXPIRED)
    draft = Draft(state, command)
    draft.emit(
        ConversationStarted(
            at=command.now,
            conversation_id=state.conversation_id,
            agent=command.agent,
            app=command.app,
            context=command.context,
            attended=command.attended,
            parent=command.parent,
        )
    )
    seq = draft.emit(_accepted(command))
    return draft.done(draft.receipt(seq))


def send(state: State, command: Send) -> Judgement:
    """Accept a message; its turn begins when those before it are over, or it joins the turn that goes on."""
    _check_message(command.text, command.message_id, command.limits)
    _check_time(command, command.at)
    _check_priority(command.priority)
    if command.at is not None and command.when is not When.QUEUE:
        raise InvalidMessage("at", f'it does not go with when="{command.when}"', "leave one of them out")
    if command.overrides is not None and command.when is When.STEER:
        raise InvalidMessage(
            "overrides", 'they do not go with when="steer"', "leave one of them out: they are for a turn of its own"
        )
    if command.when is When.REJECT and (state.turn is not None or state.queue):
        raise ConversationBusy(state.conversation_id, state.status)
    _check_room(state, command.limits)
    draft = Draft(state, command)
    seq = draft.emit(
        _accepted(command, steers=command.when is When.STEER and state.turn is not None and not state.turn.compacts)
    )
    return draft.done(draft.receipt(seq))


def interrupt(state: State, command: Interrupt) -> Judgement:
    """Cancel the turn with what waits, supersede what is queued, and begin with the text, if there is one."""
    about: dict[str, Any] = {"conversation_id": state.conversation_id}
    if command.text is not None:
        _check_message(command.text, command.request_id, command.limits)
    elif command.overrides is not None:
        raise InvalidMessage("overrides", "there is no text whose turn they are for", "give a text, or leave them out")
    elif state.turn is None and not state.queue:
        known = IdempotencyRecord(seq=state.seq, at=command.now, digest=command.digest, epoch=state.epoch)
        reply = Interrupted(seq=state.seq, accepted_at=command.now, epoch=state.epoch, **about)
        return Judgement(reply=reply, passing={request_key(command.request_id): known})
    draft = Draft(state, command.model_copy(update={"trace": None}))
    cancelled = cancel_turn(draft, None) if state.turn is not None else None
    about |= {"turn_id": None, "calls": ()} if cancelled is None else {"turn_id": cancelled.turn_id, "calls": cancelled.calls}
    seqs = tuple(one.seq for one in draft.state.queue if one.seq != draft.state.compacting)
    read = [command.read.get(seq) for seq in seqs]
    ids = tuple(one.message_id if isinstance(one, MessageAccepted) else "" for one in read)
    of_event = {name: about[name] for name in ("turn_id", "calls")}
    seq = at = draft.emit(
        InputSuperseded(
            at=command.now,
            message_seqs=seqs,
            message_ids=ids,
            by_seq=0 if command.text is None else draft.state.seq + 2,
            epoch=state.epoch + 1,
            request_id=command.request_id,
            digest=command.digest,
            principal=command.principal,
            **of_event,
        )
    )
    if command.text is not None:
        seq = draft.emit(_accepted(command))
    calls = about.pop("calls")
    head = draft.head_at(at)
    said = {"cancelled": calls, "superseded": ids, "epoch": state.epoch + 1, "audit_head": head}
    return draft.done(Interrupted(seq=seq, accepted_at=command.now, **about, **said))


def withdraw(state: State, command: Withdraw) -> Judgement:
    """Withdraw a message that no turn has taken up yet."""
    _waiting(state, command)
    draft = Draft(state, command)
    about = {name: getattr(command, name) for name in ("message_seq", "request_id", "principal")}
    return draft.done(draft.receipt(draft.emit(InputWithdrawn(at=command.now, **about))))


def reschedule(state: State, command: Reschedule) -> Judgement:
    """Give a message that waits for its turn another time or priority."""
    message = _waiting(state, command)
    if command.at is None and command.priority is None:
        raise InvalidInput("at", "neither a time nor a priority is given", "give one of them")
    if message not in (*state.queue, *state.delayed):
        raise InvalidInput("message_id", "it joins the turn that goes on", "withdraw it, and send it again")
    _check_time(command, command.at)
    _check_priority(DEFAULT_PRIORITY if command.priority is None else command.priority)
    draft = Draft(state, command)
    seq = draft.emit(
        InputRescheduled(
            at=command.now,
            message_seq=message.seq,
            due_at=message.due_at if command.at is None else command.at,
            priority=message.priority if command.priority is None else command.priority,
            request_id=command.request_id,
            digest=request_digest(command.kind, command),
            principal=command.principal,
        )
    )
    return draft.done(draft.receipt(seq))


def _waiting(state: State, command: Withdraw | Reschedule) -> Queued:
    """The message that a request is about, as it waits."""
    found = command.read.get(command.message_seq)
    for message in state.waiting:
        if message.seq == command.message_seq and isinstance(found, MessageAccepted) and found.message_id == command.message_id:
            return message
    raise NotQueued(state.conversation_id, command.message_id)


def _accepted(command: Start | Send | Interrupt, *, steers: bool = False) -> MessageAccepted:
    said = {name: getattr(command, name) for name in ("digest", "text", "principal", "traceparent", "overrides")}
    if isinstance(command, Send):
        said |= {"priority": command.priority, "due_at": command.at or 0, "steers": steers}
    if not isinstance(command, Start):
        said["origin"] = command.origin
    message_id = command.request_id if isinstance(command, Interrupt) else command.message_id
    return MessageAccepted(at=command.now, message_id=message_id, **said)


def _check_room(state: State, limits: Limits) -> None:
    count = len(state.waiting) + (0 if state.turn is None else len(state.turn.joined))
    if count >= limits.queued:
        raise QueueFull(state.conversation_id, count)


def _check_time(command: Command, at: int | None) -> None:
    """Refuse a time at which nothing can be queued."""
    if at is not None and at <= command.now:
        raise InvalidMessage("at", "it is in the past", "give a time in the future, or leave it out")
    if at is not None and at > command.now + LATEST_MS:
        raise InvalidMessage("at", "it is more than a year ahead", "give an earlier time")


def _check_priority(priority: object) -> None:
    if not isinstance(priority, int) or isinstance(priority, bool) or not 0 <= priority <= LAST_PRIORITY:
        raise InvalidMessage("priority", f"{priority!r:.40} is none", f"give a whole number from 0 (first) to {LAST_PRIORITY}")


def _check_message(text: object, message_id: object, limits: Limits) -> None:
    check_request_id("message_id", message_id, InvalidMessage)
    check_size(content_of(text), limits.message_bytes, "text", "shorten it, or raise Limits.message_bytes of the agent")
