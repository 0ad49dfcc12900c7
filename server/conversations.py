"""The routes of conversations: start, list, show, send, follow, cancel, end, retry; and of the grants and events of all."""

import uuid
from collections.abc import Callable
from typing import Any, cast

from starlette.responses import Response

from holdfast.client import ConversationRow, ConversationState, Event, Page, Receipt, replies, verbs
from holdfast.client.access import AccessScope
from holdfast.client.gateway import asked as verb_asked
from holdfast.client.gateway import streamed
from holdfast.client.list_events import LIST_CURSOR
from holdfast.client.tree import Node
from holdfast.client.tree_cursor import CURSOR as TREE_CURSOR
from holdfast.conversation.ids import conversation_id_from
from holdfast.errors import AgentNotFound, HoldfastError, InvalidInput
from holdfast.events import TurnCancelled, TurnCompleted, TurnFailed, TurnStarted

from . import bodies, quotas
from .operation import Asked, of, of_message
from .reach import listed, seen

EVENT_STREAM = "text/event-stream"


async def start(asked: Asked) -> replies.MessageReceiptReply | Response:
    """Start a conversation; with `Accept: text/event-stream`, also stream the events of its first turn."""
    streams, body = EVENT_STREAM in asked.headers.get("accept", ""), asked.body
    if not asked.caller.touches(body.agent):
        raise AgentNotFound("agent", f"there is no agent {body.agent!r:.200}", "GET /v1/agents lists those that you may start")
    if streams:
        asked.caller.check_scope(AccessScope.READ)
        asked.serving.streams.check_room(asked.caller)
    if not body.attended:
        asked.caller.check_scope(AccessScope.UNATTENDED)
    key = asked.key or (uuid.uuid4().hex if body.conversation_id is None else f"start:{body.conversation_id}")  # as the client
    place = body.conversation_id or conversation_id_from(key)
    await asked.serving.reach.check_start(asked.caller, place)
    await quotas.use(asked.client, asked.caller, place, key, starts=True)
    conversation = await asked.client.start(
        body.agent,
        body.text,
        conversation_id=body.conversation_id,
        message_id=key,
        context=body.context,
        attended=body.attended,
        overrides=body.overrides,
    )
    await quotas.charge(asked.client.access, asked.caller, conversation.id)
    receipt = cast("Receipt", conversation.receipt)
    if streams:
        until = turn_over(receipt.seq)
        headers = {"Location": f"{asked.root}/v1/conversations/{conversation.id}", "Idempotency-Key": key}
        return asked.serving.streams.of(conversation.events(), after=0, until=until, status=201, headers=headers)
    return replies.MessageReceiptReply(**receipt.model_dump(), message_id=key)


async def conversations(asked: Asked) -> Page[ConversationRow]:
    """A page of conversations, oldest first."""
    return await listed(asked.caller, asked.client.conversations, **dict(asked.query))


async def state(asked: Asked) -> ConversationState[Any]:
    """The state of a conversation; with `wait_s`, as soon as it rests."""
    conversation, wait_s = asked.conversation, min(asked.query.wait_s, asked.serving.bounds.wait_s)
    found: ConversationState[Any] | None = None
    if wait_s:
        waiting = conversation.wait(after=asked.query.after, timeout_s=wait_s)
        found = await asked.serving.draining.unless(waiting)
    return found or await conversation.state()


async def tree(asked: Asked) -> Node:
    """The conversation, and those below it that its present or last turn has delegated to, level by level."""
    return seen(asked.caller, await asked.conversation.tree())


async def compact(asked: Asked) -> replies.RevokedReply:
    """Have the oldest messages summarised: at once, or before the turn's next model call. It counts as a message."""
    key = asked.key or uuid.uuid4().hex
    await quotas.use(asked.client, asked.caller, asked.path["conversation_id"], key, compacts=True)
    receipt = await asked.conversation.compact(request_id=key)
    return replies.RevokedReply(**receipt.model_dump(), request_id=key)


async def send(asked: Asked) -> replies.MessageReceiptReply:
    """Send the user's next message; during a turn it queues."""
    key = asked.key or uuid.uuid4().hex
    await quotas.use(asked.client, asked.caller, asked.path["conversation_id"], key, starts=False)
    receipt = await asked.conversation.send(**{**dict(asked.body), "message_id": key})
    return replies.MessageReceiptReply(**receipt.model_dump(), message_id=key)


async def interrupt(asked: Asked) -> replies.InterruptedReply:
    """Cancel the turn with what waits, supersede what is queued, and begin with the text; all in one append."""
    key = asked.key or uuid.uuid4().hex
    if asked.body.text is not None:
        await quotas.use(asked.client, asked.caller, asked.path["conversation_id"], key, starts=False)
    said = {"origin": asked.body.origin, "overrides": asked.body.overrides}
    done = await asked.conversation.interrupt(asked.body.text, **said, request_id=key)
    return replies.InterruptedReply.model_validate({**done.model_dump(), "request_id": key})


async def cancel(asked: Asked) -> replies.CancelledReply:
    """Cancel the current turn, or a certain one."""
    key, conversation = asked.key or uuid.uuid4().hex, asked.conversation
    cancelled = await conversation.cancel(asked.body.turn_id, request_id=key)
    wait_s = min(asked.body.wait_s, asked.serving.bounds.wait_s)
    if wait_s and cancelled.calls:  # tell what is recorded even if the server is drained meanwhile
        waiting = conversation.cancel(asked.body.turn_id, wait_s=wait_s, request_id=key)
        try:
            waited = await asked.serving.draining.unless(waiting)
        except HoldfastError:  # the cancellation is acknowledged; an error would make the caller repeat it
            waited = None
        running = waited.running if waited is not None else cancelled.calls
        cancelled = cancelled.model_copy(update={"running": running})
    return replies.CancelledReply.model_validate({**cancelled.model_dump(), "request_id": key})


async def events(asked: Asked) -> Response:
    """The events of a conversation as a stream, with `descendants` also of those below; `Last-Event-ID` resumes it."""
    if not asked.query.descendants:
        return await asked.follow(_resumed(asked), live=asked.query.live)
    last = asked.headers.get("last-event-id") or str(asked.query.after)
    if TREE_CURSOR.fullmatch(last) is None:
        raise _no_place(last, "cursor")
    caller = asked.caller
    alone = caller.is_page and not caller.tree
    given = {"after": last, "live": asked.query.live, "agents": frozenset() if alone else caller.agents}
    events = streamed(asked.client.gateway, verbs.EVENTS_BELOW, conversation_id=asked.conversation.id, **given)
    root = 0 if "," in last else int(last)  # with others in the cursor, something may follow after the root's end
    return await asked.follow(root, events=events, last=last)


async def list_events(asked: Asked) -> Response:
    """Changes of the lists as they happen: calls begin to wait, get votes or notes, are settled; statuses change.

    A caller whose key names agents gets only their conversations' events.
    """
    after, agents = asked.headers.get("last-event-id") or asked.query.after, asked.caller.agents
    if after is not None and LIST_CURSOR.fullmatch(after) is None:
        raise _no_place(after, "cursor")
    if asked.query.agent is not None:
        agents = frozenset({asked.query.agent}) & (agents if agents is not None else {asked.query.agent})
    events = asked.client.events(after=after, agent=agents, kind=asked.query.kind)
    asked.serving.streams.check_room(asked.caller)  # no await from here until the stream has its place
    return asked.serving.streams.of(events, after=after or "")


def turn_over(message_seq: int) -> Callable[[Event], bool]:
    """Whether an event ends the turn of the message at this `seq`; call it with the events in order."""
    turns: set[str] = set()

    def over(event: Event) -> bool:
        match event.body:
            case TurnStarted(turn_id=turn_id, message_seq=seq) if seq == message_seq:
                turns.add(turn_id)
            case TurnCompleted(turn_id=turn_id) | TurnFailed(turn_id=turn_id) | TurnCancelled(turn_id=turn_id):
                return turn_id in turns
            case _:
                pass
        return False

    return over


def _resumed(asked: Asked) -> int:
    last = asked.headers.get("last-event-id")
    if last is None or not last:
        after: int = asked.query.after
        return after
    if not (last.isascii() and last.isdigit() and len(last) < 20 and int(last) < 1 << 63):  # noqa: PLR2004 - the digits of 2^63
        raise _no_place(last, "place in a log")
    return int(last)


def _no_place(last: str, what: str) -> InvalidInput:
    return InvalidInput("Last-Event-ID", f"{last!a:.40} is no {what}", "send the last `id` that was received")


async def cancel_pending(asked: Asked) -> replies.CancelledReply:
    """Cancel the calls that wait; the turn goes on. This settles them as decisions do, and needs their scope, too."""
    key, said = asked.key or uuid.uuid4().hex, {**asked.path, **dict(asked.body)}
    given = said | {"request_id": key, "kinds": asked.caller.ends}
    cancelled = await verb_asked(asked.client.gateway, verbs.CANCEL_PENDING, **given)
    return replies.CancelledReply.model_validate({**cancelled.model_dump(), "request_id": key})


def _check_cancelling(asked: Asked) -> None:
    """Refuse a caller who may neither decide all that is cancelled nor is a client whose own calls end."""
    if asked.body.client_id is None or AccessScope.CLIENT not in asked.caller.scopes:
        for scope in (AccessScope.START, AccessScope.DECIDE):
            asked.caller.check_scope(scope)
        asked.caller.check_kind(asked.body.kind)


OPERATIONS = (
    of(
        verbs.STARTED,
        start,
        reply=replies.MessageReceiptReply,
        body=bodies.StartBody,
        room=lambda limits: 2 * limits.message_bytes,  # the text, and the context
        status=201,
        streams=True,
    ),
    of(verbs.CONVERSATIONS, conversations, query=bodies.ConversationsQuery),
    of(verbs.STATE, state, reply=ConversationState, query=bodies.StateQuery),
    of(verbs.TREE, tree),
    of(verbs.MESSAGES_PAGE, "A page of the messages, in the OpenAI chat format.", query=bodies.LogPageQuery),
    of(verbs.CONTEXT, "What the model would be sent, and what is left out of it."),
    of(
        verbs.USAGE,
        "What the models' answers of a page of conversations used; a page may be shorter than its limit although more follow.",
        check=lambda asked: asked.caller.check_agent(asked.query.agent),
        query=bodies.UsageQuery,
    ),
    of(verbs.USAGE_OF, "What the models' answers of a conversation used.", query=bodies.UsageOfQuery),
    of(verbs.SEND, send, reply=replies.MessageReceiptReply, body=bodies.MessageBody, room=of_message),
    of(verbs.MESSAGE, "What became of a message."),
    of(verbs.INTERRUPT, interrupt, reply=replies.InterruptedReply, body=bodies.InterruptBody, room=of_message),
    of(verbs.QUEUE, "The messages that no turn has taken up yet.", reply=replies.QueueReply),
    of(verbs.WITHDRAW, "Withdraw a message before its turn begins.", reply=replies.RevokedReply, body=bodies.RequestBody),
    of(
        verbs.RESCHEDULE,
        "Give a message that waits for its turn another time or priority.",
        reply=replies.RevokedReply,
        body=bodies.RescheduleBody,
    ),
    of(verbs.COMPACT, compact, reply=replies.RevokedReply, body=bodies.RequestBody),
    of(verbs.SUMMARY, "What came of a request for a summary."),
    of(verbs.TURNS_PAGE, "A page of the turns, oldest first.", query=bodies.LogPageQuery),
    of(verbs.TURN, "One turn: status, reply or error, and what it used."),
    of(verbs.CANCEL, cancel, reply=replies.CancelledReply, body=bodies.CancelBody),
    of(
        verbs.CANCEL_PENDING,
        cancel_pending,
        check=_check_cancelling,
        reply=replies.CancelledReply,
        body=bodies.CancelPendingBody,
    ),
    of(verbs.END, "End a conversation for good.", reply=replies.EndReply, body=bodies.RequestBody),
    of(verbs.RETRY, "Lift a conversation's quarantine.", reply=replies.LiftedReply, body=bodies.Nothing),
    of(verbs.EVENTS, events, reply=None, query=bodies.EventsQuery, streams=True, last=TREE_CURSOR.pattern),
    of(
        verbs.GRANTS,
        "The grants that stand in a conversation: what runs there without asking.",
        check=lambda asked: asked.caller.check_grants(),
        reply=replies.GrantsReply,
    ),
    of(
        verbs.REVOKE,
        "End a grant: nothing begins by it any more. The body is optional.",
        check=lambda asked: asked.caller.check_grants(),
        reply=replies.RevokedReply,
        body=bodies.RevokeBody,
    ),
    of(
        verbs.GIVEN,
        "A page of the grants and votes that stand, by conversation; it may be shorter than its limit although more follow.",
        check=lambda asked: asked.caller.check_agent(None),
        reply=Page[replies.ConversationGivenReply],
        query=bodies.GivenQuery,
    ),
    of(
        verbs.REVOKE_GIVEN,
        "End what a principal has given: its grants, and its votes in calls that wait.",
        reply=replies.RevokedReply,
        body=bodies.RevokeGivenBody,
    ),
    of(
        verbs.LIST_EVENTS,
        list_events,
        reply=None,
        query=bodies.ListEventsQuery,
        streams=True,
        last=LIST_CURSOR.pattern,
        endless=True,
    ),
)
