"""The judgement of users' messages: the first one, which starts the conversation, and every later one."""

from holdfast.conversation.ids import check_conversation_id, check_request_id
from holdfast.conversation.records.commands import Send, Start
from holdfast.conversation.records.events import ConversationStarted, MessageAccepted
from holdfast.conversation.records.state import State
from holdfast.conversation.terms.parts import check_size, content_of
from holdfast.conversation.terms.spec import Limits
from holdfast.conversation.text import jsontext
from holdfast.errors import InvalidMessage, QueueFull, StaleCall, StaleReason

from .judgement import Judgement
from .progress import Draft


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
    """Accept a message; its turn begins when the turns of earlier messages are over."""
    _check_message(command.text, command.message_id, command.limits)
    if len(state.queue) >= command.limits.queued:
        raise QueueFull(state.conversation_id, len(state.queue))
    draft = Draft(state, command)
    seq = draft.emit(_accepted(command))
    return draft.done(draft.receipt(seq))


def _accepted(command: Start | Send) -> MessageAccepted:
    return MessageAccepted(
        at=command.now,
        message_id=command.message_id,
        digest=command.digest,
        text=command.text,
        principal=command.principal,
        traceparent=command.traceparent,
    )


def _check_message(text: object, message_id: object, limits: Limits) -> None:
    check_request_id("message_id", message_id, InvalidMessage)
    check_size(content_of(text), limits.message_bytes, "text", "shorten it, or raise Limits.message_bytes of the agent")
