"""The routes of pending calls: list, show, resolve."""

import uuid
from dataclasses import dataclass
from typing import Any

from holdfast.client import Approve, Decision, Receipt, verbs
from holdfast.client.deciders import asked_of
from holdfast.client.gateway import resolver
from holdfast.client.replies import DecisionReceiptReply
from holdfast.client.results import AsyncPendingCall, Page, PendingCall
from holdfast.errors import StaleCall

from .bodies import PendingQuery, PlaceQuery
from .decision_bodies import ResolveBody, ResolveCallBody
from .operation import Asked, of, of_decision
from .reach import listed
from .refusal import Refusal


async def pending(asked: Asked) -> Page[AsyncPendingCall]:
    """A page of the pending calls of all conversations."""
    kind, client = asked.query.kind, asked.client
    who = asked_of(asked.query.approver, asked.query.roles)
    return await listed(asked.caller, asked.query, lambda where: client.pending(kind=kind, approver=who, **where))


async def resolve(asked: Asked) -> DecisionReceiptReply:
    """Decide a pending call."""
    key = asked.key or uuid.uuid4().hex
    receipt = await decide(asked, asked.path["suspension_id"], asked.body.root, key)
    return DecisionReceiptReply(**receipt.model_dump(), decision_id=key)


async def resolve_call(asked: Asked) -> DecisionReceiptReply:
    """Decide a pending call by its own id."""
    key, body = asked.key or uuid.uuid4().hex, asked.body.root
    place = asked.path["conversation_id"], body.tool_call_id
    await _check_page(asked, body.suspension_id, body.decided())
    resolve = resolver(asked.client.gateway)
    receipt = await resolve(*place, body.decided(), suspension_id=body.suspension_id, decision_id=key)
    return DecisionReceiptReply(**receipt.model_dump(), decision_id=key)


async def decide(asked: Asked, suspension_id: str, body: Any, key: str) -> Receipt:
    """Decide a suspension as a body says; the caller's access to its conversation was checked before.

    Raises:
        HoldfastError: The decision is not accepted.
    """
    decision, client = body.decided(), asked.client
    await _check_page(asked, suspension_id, decision)
    if body.conversation_id is not None and body.tool_call_id is not None:
        place = body.conversation_id, body.tool_call_id
        return await resolver(client.gateway)(*place, decision, suspension_id=suspension_id, decision_id=key)
    return await client.resolve(suspension_id, decision, conversation_id=body.conversation_id, decision_id=key)


@dataclass(frozen=True, slots=True)
class Paged:
    """A page that sends a request; it may decide some kinds of calls of one conversation."""

    asked: Asked
    conversation_id: str

    async def check(self, suspension_id: str, decision: Decision, shown: AsyncPendingCall | None = None) -> None:
        """Refuse a decision on a call that the page may not decide, or could not be shown whole. `shown` is the call, if known.

        A suspension never changes its kind, and a settled one never opens again. An unknown one is refused: it may open before
        the decision arrives, and be of any kind.

        Raises:
            Refusal: The page may not decide this kind of call, or a scope would reach beyond what it may decide.
            StaleCall: The conversation has had no such suspension.
            InvalidDecision: The call would run, and could not be shown whole.
        """
        if isinstance(decision, Approve) and decision.scope is not None:
            self.asked.caller.check_grants()
        call = await self.check_kind(suspension_id, shown)
        if call is not None:
            call.check_shown(decision)

    async def check_kind(self, suspension_id: str, shown: AsyncPendingCall | None = None) -> AsyncPendingCall | None:
        """The pending call; None if it was settled. A kind that the page may not decide is refused.

        Raises:
            StaleCall: The conversation has had no such suspension.
        """
        try:
            call = shown or await self.asked.client.pending_call(suspension_id, conversation_id=self.conversation_id)
        except StaleCall as stale:
            if stale.settled_at is None:
                raise
            return None  # a repetition gets its first answer again
        self.asked.caller.check_kind(call.kind)
        return call


def page_of(asked: Asked) -> Paged | None:
    """The page that sends a request; None if the caller is no page."""
    caller = asked.caller
    return None if caller.kinds is None or caller.conversation_id is None else Paged(asked, caller.conversation_id)


async def _check_page(asked: Asked, suspension_id: str | None, decision: Decision) -> None:
    if (page := page_of(asked)) is None:
        return
    if suspension_id is None:
        raise Refusal(422, "invalid_request", "suspension_id: a page names what it was shown", {"errors": []})
    await page.check(suspension_id, decision)


OPERATIONS = (
    of(
        verbs.PENDING,
        "A page of the pending calls of all conversations, oldest first.",
        pending,
        reply=Page[PendingCall[Any]],
        query=PendingQuery,
    ),
    of(verbs.PENDING_CALL, "One pending call; 409 says what settled it.", reply=PendingCall, query=PlaceQuery),
    of(
        verbs.RESOLVE,
        "Decide a pending call; 409 says what settled it before.",
        resolve,
        reply=DecisionReceiptReply,
        body=ResolveBody,
        room=of_decision,
    ),
    of(
        verbs.RESOLVE_CALL,
        "Decide a pending call of a conversation by the call's id; 409 says what settled it before.",
        resolve_call,
        reply=DecisionReceiptReply,
        body=ResolveCallBody,
        room=of_decision,
    ),
)
