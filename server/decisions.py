"""The routes of pending calls: list, show, resolve, assign, comment."""

import uuid
from typing import Any

from holdfast.client import Answer, Approve, AsyncConversation, Decision, Fail, Receipt, SuspensionKind, verbs
from holdfast.client.access import AccessScope
from holdfast.client.filters import asked_of
from holdfast.client.gateway import asked as verb_asked
from holdfast.client.replies import DecisionReceiptReply, NotedReply
from holdfast.client.results import AsyncPendingCall, Page, PendingCall, exactly
from holdfast.conversation.terms.presence import client_name
from holdfast.errors import StaleCall, StaleReason

from .bodies import AssignBody, CommentBody, EscalateBody, PendingQuery, PlaceQuery, SnoozeBody
from .decision_bodies import ResolveBody, ResolveCallBody
from .operation import Asked, Checked, of, of_decision
from .reach import listed
from .refusal import invalid


async def pending(asked: Asked) -> Page[AsyncPendingCall]:
    """A page of the pending calls of all conversations, oldest first."""
    where = dict(asked.query)
    where["approver"] = asked_of(where["approver"], where.pop("roles"))
    if where["root"] is not None:
        await asked.serving.reach.check(asked.caller, where["root"])
    return await listed(asked.caller, asked.client.pending, **where)


async def resolve(asked: Asked) -> DecisionReceiptReply:
    """Decide a pending call; 409 says what settled it before."""
    key, body = asked.key or uuid.uuid4().hex, asked.body.root
    ids = {**dict(body), **asked.path}
    receipt = await decide(asked, ids.get("suspension_id"), ids.get("conversation_id"), body, key)
    return DecisionReceiptReply(**receipt.model_dump(), decision_id=key)


async def decide(asked: Asked, suspension_id: str | None, conversation_id: str | None, body: Any, key: str) -> Receipt:
    """Decide as a body says; the caller's access to the conversation was checked before."""
    decision, client = body.decided(), asked.client
    client_id = getattr(body, "client_id", None)
    said = {"decision_id": key} | ({} if client_id is None else {"client_id": client_id})
    page = page_of(asked, conversation_id)
    if AccessScope.DECIDE not in asked.caller.scopes:
        await check_own_result(asked, suspension_id, conversation_id, decision, client_id)
    elif page is not None:
        if suspension_id is None:
            raise invalid("suspension_id: a page has to name the suspension that it was shown")
        await check_page(asked, page, suspension_id, decision)
    if conversation_id is not None and body.tool_call_id is not None:
        place = conversation_id, body.tool_call_id, decision
        return await client.gateway.resolve(*place, suspension_id=suspension_id, **said)
    named = conversation_id or page
    return await client.resolve(suspension_id or "", decision, conversation_id=named, **said)


async def check_own_result(
    asked: Asked, suspension_id: str | None, conversation_id: str | None, decision: Decision, client_id: str | None
) -> None:
    """Refuse a caller without the scope `decide`, unless it is a client with the result of a call that it has claimed."""
    caller = asked.caller
    if client_id is None or not isinstance(decision, Answer | Fail):
        caller.check_scope(AccessScope.DECIDE)
    caller.check_kind(SuspensionKind.CLIENT_EXEC)
    if suspension_id is None:
        raise invalid("suspension_id: a client has to name the suspension that it has claimed")
    try:
        call = await asked.client.pending_call(suspension_id, conversation_id=conversation_id or caller.conversation_id)
    except StaleCall as stale:
        if stale.settled_at is None:
            raise
        return  # a repetition gets its first answer again
    by = call.claimed
    if by is None or client_name(by.client_id, by.by) != client_name(client_id or "", caller.principal):
        raise StaleCall(call.conversation_id, call.tool_call_id, StaleReason.CLAIMED)


def page_of(asked: Asked, named: str | None) -> str | None:
    """The conversation in which a page decides: the one that it names and may touch, else its own. None: it is no page."""
    return None if asked.caller.kinds is None else named or asked.caller.conversation_id


async def check_page(
    asked: Asked, page: str, suspension_id: str, decision: Decision, shown: AsyncPendingCall | None = None
) -> None:
    """Refuse a decision on a call that the page may not decide, or could not be shown whole. `shown` is the call, if known.

    A suspension never changes its kind, and a settled one never opens again. An unknown one is refused as stale: it may open
    before the decision arrives, and be of any kind.
    """
    if isinstance(decision, Approve) and decision.scope is not None:
        asked.caller.check_grants()
    call = await _of_page(asked, page, suspension_id, shown)
    if call is not None:
        call.check_shown(decision)


async def _of_page(
    asked: Asked, page: str, suspension_id: str, shown: AsyncPendingCall | None = None
) -> AsyncPendingCall | None:
    """The pending call; None if it was settled. An unknown one, and a kind that the page may not decide, are refused."""
    try:
        call = shown or await asked.client.pending_call(suspension_id, conversation_id=page)
    except StaleCall as stale:
        if stale.settled_at is None:
            raise
        return None  # a repetition gets its first answer again
    asked.caller.check_kind(call.kind)
    return call


async def assign(asked: Asked) -> NotedReply:
    """Note who takes a pending call on; it decides nothing. The body is optional: by default it is you."""
    key, body = asked.key or uuid.uuid4().hex, asked.body
    to: Any = asked.caller.principal if body.to is None else body.to
    conversation = await _conversation(asked)
    receipt = await conversation.assign(asked.path["suspension_id"], to, request_id=key)
    return NotedReply(**receipt.model_dump(), request_id=key)


async def comment(asked: Asked) -> NotedReply:
    """Write to the others who may decide a pending call; the model does not read it."""
    key, conversation = asked.key or uuid.uuid4().hex, await _conversation(asked)
    receipt = await conversation.comment(asked.path["suspension_id"], asked.body.text, request_id=key)
    return NotedReply(**receipt.model_dump(), request_id=key)


async def snooze(asked: Asked) -> NotedReply:
    """Hide a pending call from your lists for a while; its deadline stays, and others see it."""
    key, body, conversation = asked.key or uuid.uuid4().hex, asked.body, await _conversation(asked)
    receipt = await conversation.snooze(asked.path["suspension_id"], body.for_s, reason=body.reason, request_id=key)
    return NotedReply(**receipt.model_dump(), request_id=key)


async def escalate(asked: Asked) -> NotedReply:
    """Let others decide a pending call, in the place of those who may now; the scope `admin` may do so with any call."""
    key, body, conversation = asked.key or uuid.uuid4().hex, asked.body, await _conversation(asked)
    receipt = await escalated(asked, conversation.id, body.to, reason=body.reason, request_id=key)
    return NotedReply(**receipt.model_dump(), request_id=key)


async def escalated(checked: Checked, conversation_id: str, to: Any, **said: Any) -> Receipt:
    """Let others decide the call of a request, as its caller may; `said` has the reason and the key."""
    named = {"suspension_id": checked.path["suspension_id"], "tool_call_id": None, "conversation_id": conversation_id}
    administrator = AccessScope.ADMIN in checked.caller.scopes
    return await verb_asked(checked.client.gateway, verbs.ESCALATE, **named, to=to, administrator=administrator, **said)


async def _conversation(asked: Asked) -> AsyncConversation:
    """The conversation of the suspension; the caller's access to it was checked before."""
    suspension_id, named = asked.path["suspension_id"], asked.body.conversation_id
    if (page := page_of(asked, named)) is not None:
        await _of_page(asked, page, suspension_id)
        named = page
    elif named is None:
        named = exactly(await asked.client.pending_call(suspension_id), suspension_id).conversation_id
    return asked.client.conversation(named)


OPERATIONS = (
    of(verbs.PENDING, pending, reply=Page[PendingCall[Any]], query=PendingQuery),
    of(verbs.PENDING_CALL, "One pending call; 409 says what settled it.", reply=PendingCall, query=PlaceQuery),
    of(verbs.RESOLVE, resolve, reply=DecisionReceiptReply, body=ResolveBody, room=of_decision),
    of(
        verbs.RESOLVE_CALL,
        resolve,
        summary="Decide a pending call of a conversation by the call's id; 409 says what settled it before.",
        reply=DecisionReceiptReply,
        body=ResolveCallBody,
        room=of_decision,
    ),
    of(verbs.ASSIGN, assign, reply=NotedReply, body=AssignBody),
    of(verbs.COMMENT, comment, reply=NotedReply, body=CommentBody),
    of(verbs.SNOOZE, snooze, reply=NotedReply, body=SnoozeBody),
    of(verbs.ESCALATE, escalate, reply=NotedReply, body=EscalateBody),
)
