"""Links by which one principal decides one pending call: making, looking at and redeeming them, at the stack itself."""

import secrets
from collections.abc import Sequence
from typing import Any, Protocol, TypeVar

from holdfast.conversation import Principal, Receipt, State
from holdfast.conversation.log.linking import link_terms
from holdfast.conversation.terms.decisions import DecisionKind, DecisionRecord
from holdfast.conversation.terms.link import SHOWN_CHARS, LinkKeys, LinkTerms, link_url
from holdfast.errors import (
    ConversationEnded,
    ConversationNotFound,
    InvalidDecision,
    InvalidLink,
    LinkProblem,
    NotPermitted,
    StaleCall,
)

from . import verbs
from .operation import Verb
from .results import AsyncPendingCall, Link, PendingCall
from .stack import Reads
from .stack_state import settled

R = TypeVar("R")


class Stacked(Reads, Protocol):
    """A gateway over the stack, as `StackGateway`."""

    def acting_as(self, principal: Principal, *, proves: bool = False) -> "Stacked":
        """The same gateway, with this principal, which it `proves`."""

    async def commanded(self, verb: Verb[R], conversation_id: str, **said: Any) -> R:
        """The reply to the command of an operation."""


async def made(
    gateway: Stacked,
    *,
    suspension_id: str,
    conversation_id: str,
    to: Principal,
    decisions: Sequence[DecisionKind] | None,
    expires_s: float,
) -> Link:
    """A link for a call that waits. The errors are those of `AsyncClient.link`."""
    signing = await keys(gateway)
    state = await gateway.read(lambda store: store.load(conversation_id))
    views = await gateway.read(lambda store: store.pending_in(state, suspension_id))
    found = state.calls.open_suspension(suspension_id)
    if not views or found is None:
        raise await gateway.read(lambda store: settled(store, suspension_id, conversation_id))
    (view,), (_, suspension) = views, found
    expires_at = await gateway.read(lambda store: store.now()) + round(expires_s * 1000)
    nonce = secrets.token_urlsafe(16)
    token = signing.signed(link_terms(view, suspension.shown, to, decisions, expires_at=expires_at, nonce=nonce))
    return Link(url=link_url(gateway.stack.settings.public_url, token), token=token, expires_at=expires_at)


async def opened(gateway: Stacked, token: str) -> LinkTerms:
    """What a link says, once its signature and its time are checked; else `InvalidLink`."""
    terms = (await keys(gateway)).opened(token)
    return terms.check_time(await gateway.read(lambda store: store.now()))


async def looked_at(gateway: Stacked, terms: LinkTerms) -> AsyncPendingCall:
    """The call of a link, if it still waits as it was shown; else `InvalidLink`. Nothing is changed."""
    state, call = await _waiting(gateway, terms)
    if call is None:
        raise InvalidLink(LinkProblem.SETTLED)
    views = await gateway.read(lambda store: store.pending_in(state, terms.suspension_id))
    return PendingCall.of(views[0], gateway.resolve)


async def redeemed(gateway: Stacked, *, token: str, decision: DecisionRecord) -> Receipt:
    """Decide as the link's principal, by a decision whose id is the link's nonce."""
    terms = await opened(gateway, token)
    if decision.kind not in terms.decisions:
        raise InvalidLink(LinkProblem.NOT_PERMITTED, f"it decides by {', '.join(terms.decisions)}, not by {decision.kind}")
    if decision.kind is DecisionKind.APPROVE and (decision.body, decision.scope) != (None, None):
        fix = "approve the call as it is, or sign in for more"
        raise InvalidDecision("decision", "a link neither edits arguments nor gives grants", fix)
    _, call = await _waiting(gateway, terms)
    if call is None:  # perhaps by this link, whose receipt is then the answer
        call = (await gateway.read(lambda store: settled(store, terms.suspension_id, terms.conversation_id))).tool_call_id
    proven = gateway.acting_as(terms.principal, proves=True)  # by the signature, which only holders of the keys can make
    ids = {"conversation_id": terms.conversation_id, "suspension_id": terms.suspension_id, "tool_call_id": call}
    try:
        return await proven.commanded(verbs.RESOLVE_CALL, **ids, decision=decision, decision_id=terms.nonce)
    except (StaleCall, ConversationEnded) as error:
        raise InvalidLink(LinkProblem.SETTLED) from error
    except NotPermitted as error:
        raise InvalidLink(LinkProblem.NOT_PERMITTED, error.why) from error
    except InvalidDecision as error:
        if error.field != "decision_id":
            raise
        raise InvalidLink(LinkProblem.USED) from error


async def keys(gateway: Stacked) -> LinkKeys:
    """The keys of this namespace's links; `ConfigurationError` if there are none."""
    store = await gateway.store()
    return LinkKeys(gateway.stack.settings.link_keys, store.store_id or "", store.namespace)


async def _waiting(gateway: Stacked, terms: LinkTerms) -> tuple[State, str | None]:
    """The conversation, and the id of the link's call while it waits as it was shown; None if it does not wait."""
    try:
        state: State = await gateway.read(lambda store: store.load(terms.conversation_id))
    except ConversationNotFound:
        raise InvalidLink(LinkProblem.SETTLED) from None
    found = state.calls.open_suspension(terms.suspension_id)
    if found is not None and found[1].shown[:SHOWN_CHARS] != terms.shown:
        raise InvalidLink(LinkProblem.SETTLED, "another call waits under this id")
    return state, None if found is None else found[0].tool_call_id
