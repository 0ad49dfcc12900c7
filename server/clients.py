"""The routes of clients that carry out calls: attach, claim, give back, report progress."""

import uuid
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from functools import partial

from starlette.responses import Response

from holdfast.client import AsyncConversation, SuspensionKind, verbs
from holdfast.client.gateway import streamed
from holdfast.client.list_events import AsyncListEvent
from holdfast.client.replies import ClaimReply, HeardReply, NotedReply
from holdfast.client.results import exactly
from holdfast.conversation.records.live import PROGRESS_BYTES
from holdfast.conversation.terms.presence import RENEW_MS

from . import page_view
from .bodies import AttachQuery, ClaimBody, GiveBackBody, ProgressBody
from .caller import Caller
from .operation import Asked, of
from .streams import frame_of


async def attach(asked: Asked) -> Response:
    """Be present as a client while the stream is open; it tells which calls wait for the client's tools.

    If the server drains, the client stays present for a while, and goes on at another server.
    """
    asked.caller.check_kind(SuspensionKind.CLIENT_EXEC)
    streams, draining = asked.serving.streams, asked.serving.draining
    streams.check_room(asked.caller)
    given = {**asked.path, **dict(asked.query), "moves": draining.is_set, "kinds": asked.caller.ends}
    events = streamed(asked.client.gateway, verbs.ATTACH, **given)
    try:
        first = await anext(events, None)
        if first is None:
            return Response(status_code=204)
        streams.check_room(asked.caller)  # no await from here until the stream has its place
    except BaseException:
        await events.aclose()
        raise
    framed = partial(_frame, asked.caller)
    return streams.of(_from(first, events), after="", framed=framed, caller=asked.caller, heartbeat_s=RENEW_MS / 1000)


async def _from(first: AsyncListEvent, events: AsyncGenerator[AsyncListEvent, None]) -> AsyncGenerator[AsyncListEvent, None]:
    async with aclosing(events):
        yield first
        async for event in events:
            yield event


def _frame(caller: Caller, event: AsyncListEvent) -> bytes:
    """An event as it is sent; of a call, a page is shown what it may see."""
    shown = event if event.call is None else replace(event, data=page_view.reply_of(caller, event.call))
    return frame_of(shown)


async def claim(asked: Asked) -> ClaimReply:
    """Claim a call that waits for a client, before it is carried out; 409 if another client has claimed it."""
    key, body, conversation = asked.key or uuid.uuid4().hex, asked.body, await _conversation(asked)
    said = {"on_detach": body.on_detach, "request_id": key}
    receipt = await conversation.claim(asked.path["suspension_id"], body.client_id, **said)
    return ClaimReply(**receipt.model_dump(), request_id=key)


async def give_back(asked: Asked) -> NotedReply:
    """Give a claimed call back; if its handler had begun, the tool says what follows."""
    key, body, conversation = asked.key or uuid.uuid4().hex, asked.body, await _conversation(asked)
    said = {"began": body.began, "reason": body.reason, "request_id": key}
    receipt = await conversation.give_back(asked.path["suspension_id"], body.client_id, **said)
    return NotedReply(**receipt.model_dump(), request_id=key)


async def report_progress(asked: Asked) -> HeardReply:
    """Report the progress of a claimed call, as a live event."""
    conversation, said = await _conversation(asked), dict(asked.body)
    for name in ("conversation_id", "client_id"):
        del said[name]
    heard = await conversation.report_progress(asked.path["suspension_id"], asked.body.client_id, said.pop("value"), **said)
    return HeardReply(heard=heard)


async def _conversation(asked: Asked) -> AsyncConversation:
    """The conversation of the suspension; the caller's access to it was checked before."""
    asked.caller.check_kind(SuspensionKind.CLIENT_EXEC)
    named = asked.body.conversation_id or asked.caller.conversation_id
    if named is None:
        call = await asked.client.pending_call(asked.path["suspension_id"])
        named = exactly(call, asked.path["suspension_id"]).conversation_id
    return asked.client.conversation(named)


OPERATIONS = (
    of(verbs.ATTACH, attach, reply=None, query=AttachQuery, streams=True, last=None),
    of(verbs.CLAIM, claim, reply=ClaimReply, body=ClaimBody),
    of(verbs.GIVE_BACK, give_back, reply=NotedReply, body=GiveBackBody),
    of(verbs.REPORT_PROGRESS, report_progress, reply=HeardReply, body=ProgressBody, room=lambda _: PROGRESS_BYTES),
)
