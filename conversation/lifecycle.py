"""Judging the requests that concern a conversation as a whole: start, send, cancel, end."""

from holdfast.errors import ConversationExists, InvalidInput, InvalidMessage, QueueFull, TurnNotFound

from . import jsontext
from .calls import Call, SuspensionKind
from .commands import CancelPending, CancelTurn, End, Send, Start
from .envelope import failure
from .events import (
    ConversationStarted,
    Ended,
    MessageAccepted,
    SettledBy,
    TurnCancelled,
    TurnStarted,
)
from .idempotency import IdempotencyRecord, message_key, request_key
from .ids import check_conversation_id, check_request_id, is_turn_id, payload_digest, turn_id
from .judgement import Cancelled, Draft, Judgement, Receipt
from .progress import give_up
from .repeats import receipt_again
from .spec import Limits
from .state import State

CANCELLED = "cancelled before it was answered; it did not run"
CANCELLED_RUN = "cancelled while it ran; it may or may not have taken effect"
CANCELLED_CLIENT = "cancelled before the client reported a result; it may or may not have taken effect"


def start_digest(command: Start) -> str:
    """The digest by which two starts count as the same."""
    attended = None if command.attended else "no"
    return payload_digest("start", command.agent, command.text, command.context, attended=attended)


def send_digest(command: Send) -> str:
    """The digest by which two messages count as the same."""
    return payload_digest("send", command.text)


def duplicate_start(state: State, command: Start) -> Judgement | None:
    """The first receipt, if this very start was accepted before.

    Raises:
        ConversationExists: The conversation was started with something else under this message id.
    """
    known = command.known.get(message_key(command.message_id))
    if known is None:
        return None
    if known.digest != start_digest(command):
        raise ConversationExists(state.conversation_id)
    return Judgement(reply=receipt_again(state, known))


def duplicate_send(state: State, command: Send) -> Judgement | None:
    """The first receipt, if this very message was accepted before.

    Raises:
        InvalidMessage: The message id was used for another message.
    """
    known = command.known.get(message_key(command.message_id))
    if known is None:
        return None
    if known.digest != send_digest(command):
        problem = f"{command.message_id!r} was already used for another message"
        raise InvalidMessage("message_id", problem, "use a new message_id for a new message")
    return Judgement(reply=receipt_again(state, known))


def duplicate_request(state: State, command: CancelTurn | CancelPending | End) -> Judgement | None:
    """The first reply, if this very cancellation or end was accepted before.

    Raises:
        InvalidInput: The request id was used for another request.
    """
    known = command.known.get(request_key(command.request_id))
    if known is None:
        return None
    named = command.turn_id if isinstance(command, CancelTurn) else None
    # What found nothing to cancel cannot have named the turn that is there now: it would have cancelled it.
    other_turn = named is not None and named != known.turn_id and (known.turn_id is not None or named == _present(state))
    if known.digest != command.kind or other_turn:
        problem = f"{command.request_id!r} was already used for another request"
        raise InvalidInput("request_id", problem, "use a new id for each request")
    if isinstance(command, End):
        return Judgement(reply=receipt_again(state, known))
    before = Cancelled(
        conversation_id=state.conversation_id,
        turn_id=known.turn_id,
        calls=known.calls,
        duplicate=True,
        audit_head=known.head,
    )
    return Judgement(reply=before)


def start(state: State, command: Start) -> Judgement:
    """Start the conversation; the beginning of its first turn is then outstanding.

    Raises:
        InvalidConversationId: The conversation id has not the form of one.
        InvalidMessage: The text, its id, the agent's name or the context cannot be used, or is too large.
    """
    check_conversation_id(state.conversation_id)
    limits = command.spec.limits if command.spec is not None else Limits()
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
    draft = Draft(state, command.now, salt=command.salt)
    draft.emit(
        ConversationStarted(
            at=command.now,
            conversation_id=state.conversation_id,
            agent=command.agent,
            app=command.app,
            context=command.context,
            attended=command.attended,
        )
    )
    seq = draft.emit(_accepted(command, start_digest(command)))
    return draft.done(_receipt(draft, seq))


def send(state: State, command: Send) -> Judgement:
    """Accept a message; its turn begins when the turns of earlier messages are over.

    Raises:
        InvalidMessage: The text or its id cannot be used, or the text is too large.
        QueueFull: As many messages are queued as `Limits.queued` allows.
    """
    limits = command.spec.limits if command.spec is not None else Limits()
    _check_message(command.text, command.message_id, limits)
    if len(state.queue) >= limits.queued:
        raise QueueFull(state.conversation_id, len(state.queue))
    draft = Draft(state, command.now, salt=command.salt)
    seq = draft.emit(_accepted(command, send_digest(command)))
    return draft.done(_receipt(draft, seq))


def cancel(state: State, command: CancelTurn) -> Judgement:
    """Cancel the turn, if one is going on or about to begin; each open call ends with an error result.

    A turn that is named is cancelled only if it is this one: a cancellation that comes too late ends no later turn.

    Raises:
        InvalidInput: The request id has not the form of one.
        TurnNotFound: The conversation has had no turn of that id, nor is it the next.
    """
    check_request_id("request_id", command.request_id, InvalidInput)
    draft = Draft(state, command.now, salt=command.salt)
    if command.turn_id is None or command.turn_id == _present(state):
        cancelled = _cancel_turn(draft, command)
    elif is_turn_id(command.turn_id, last=state.turns):
        cancelled = Cancelled(conversation_id=state.conversation_id)
    else:
        raise TurnNotFound(state.conversation_id, command.turn_id)
    return nothing_cancelled(state, command) if cancelled.turn_id is None else draft.done(cancelled)


def nothing_cancelled(state: State, command: CancelTurn | CancelPending) -> Judgement:
    """The judgement of a cancellation that finds nothing to cancel; its repetition cancels nothing that came later."""
    known = IdempotencyRecord(seq=state.seq, at=command.now, digest=command.kind)
    reply = Cancelled(conversation_id=state.conversation_id)
    return Judgement(reply=reply, passing={request_key(command.request_id): known})


def end(state: State, command: End) -> Judgement:
    """End the conversation; open calls are cancelled, queued messages are dropped.

    Raises:
        InvalidInput: The request id has not the form of one.
    """
    check_request_id("request_id", command.request_id, InvalidInput)
    draft = Draft(state, command.now, salt=command.salt)
    if state.turn is not None:
        _cancel_turn(draft, command)
    seq = draft.emit(Ended(at=command.now, request_id=command.request_id, principal=command.principal))
    return draft.done(_receipt(draft, seq))


def _present(state: State) -> str | None:
    """The id of the turn that is going on, or is about to begin."""
    if state.turn is not None:
        return state.turn.turn_id
    return turn_id(state.turns + 1) if state.queue else None


def _cancel_turn(draft: Draft, command: CancelTurn | End) -> Cancelled:
    state = draft.state
    if state.turn is None and state.queue:  # the message is accepted, and its turn is still being prepared
        draft.emit(
            TurnStarted(
                at=draft.now,
                turn_id=turn_id(state.turns + 1),
                message_seq=state.queue[0],
                spec_digest="",
                code="",
                max_model_calls=1,
            )
        )
    turn = draft.state.turn
    if turn is None:
        return Cancelled(conversation_id=state.conversation_id)
    open_calls = turn.calls.open()
    for call in open_calls:
        give_up(draft, call, failure(why_cancelled(call)), by=SettledBy.CANCELLATION, principal=command.principal)
    calls = tuple(call.tool_call_id for call in open_calls)
    request_id = command.request_id if isinstance(command, CancelTurn) else None
    seq = draft.emit(
        TurnCancelled(at=draft.now, turn_id=turn.turn_id, calls=calls, request_id=request_id, principal=command.principal)
    )
    head = draft.head_at(seq)
    return Cancelled(conversation_id=state.conversation_id, turn_id=turn.turn_id, calls=calls, audit_head=head)


def why_cancelled(call: Call) -> str:
    """The error text that tells the model whether a cancelled call may have run.

    A call whose run was lost awaits a decision, and yet it ran; a client's call runs where Holdfast does not see it.
    """
    if call.attempt:
        return CANCELLED_RUN
    at_client = call.suspension is not None and call.suspension.kind is SuspensionKind.CLIENT_EXEC
    return CANCELLED_CLIENT if at_client else CANCELLED


def _accepted(command: Start | Send, payload_digest: str) -> MessageAccepted:
    return MessageAccepted(
        at=command.now,
        message_id=command.message_id,
        digest=payload_digest,
        text=command.text,
        principal=command.principal,
        traceparent=command.traceparent,
    )


def _check_message(text: object, message_id: object, limits: Limits) -> None:
    check_request_id("message_id", message_id, InvalidMessage)
    if not isinstance(text, str):
        raise InvalidMessage("text", f"{type(text).__name__} is not a string", "give a string")
    try:
        jsontext.check_text(text)
    except jsontext.NotJson as error:
        raise InvalidMessage("text", str(error), "give text that can be encoded as UTF-8") from error
    size = jsontext.size_bytes(text)
    if size > limits.message_bytes:
        problem = f"it has {size} bytes, {limits.message_bytes} are allowed"
        raise InvalidMessage("text", problem, "shorten it, or raise Limits.message_bytes of the agent")


def _receipt(draft: Draft, seq: int) -> Receipt:
    head = draft.head_at(seq)
    return Receipt(conversation_id=draft.state.conversation_id, seq=seq, accepted_at=draft.now, audit_head=head)
