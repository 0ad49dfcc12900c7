"""The gateway over HTTP, without Ray and Redis in the process: each operation is a request, made as its row says."""

import asyncio
import logging
import re
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from types import EllipsisType
from typing import Any, NoReturn, TypeVar
from urllib.parse import quote

import httpx

from holdfast import errors
from holdfast.backoff import Backoff
from holdfast.conversation import Approvers, Cancelled, Decision, Principal, Receipt, Receipts
from holdfast.conversation.ids import check_conversation_id
from holdfast.conversation.log.chain import absences
from holdfast.conversation.terms.decisions import DecisionRecord
from holdfast.conversation.terms.parts import in_chat_format
from holdfast.conversation.text import jsontext

from . import batches, verbs
from . import http_replies as replies
from .audit import AuditReport
from .batches import key_of, said
from .filters import asked_for
from .http_address import Address
from .http_events import follow, follow_attached, follow_below, follow_lists
from .http_exchange import FAILED, Exchange
from .list_events import AsyncListEvent
from .operation import Verb, encodes, taker_of
from .results import AsyncPendingCall, ConversationState, Event, Link, PendingCall, resolver, rests
from .tree_cursor import cursor_of
from .turns import Turn

R = TypeVar("R")
POLL_S = 50.0
"""Seconds that one poll waits; the server allows 60 s, but proxies often close a connection that is silent that long."""
PAGE = 1000
AGAIN_S, AGAIN_AT_MOST_S = 0.1, 2.0
"""Pauses between polls, in seconds, if a server answers them early, for example because it is stopping."""

TOGETHER, TOGETHER_BYTES = 100, 1 << 20
"""How many decisions, and about how many bytes of them, one request carries: fewer than a server takes."""
_FITS = re.compile(r"[A-Za-z0-9_~:-][A-Za-z0-9._~:-]{0,127}")

logger = logging.getLogger("holdfast.client")


class HttpGateway:
    """The gateway to a server. A request whose answer is lost is sent again with its key, until the deadline of the call."""

    def __init__(self, address: Address, *, timeout_s: float, transport: httpx.AsyncBaseTransport | None = None) -> None:
        self.exchange = Exchange(address, timeout_s=timeout_s, transport=transport)
        self.resolve = resolver(self, verbs.RESOLVE_CALL)

    @property
    def access(self) -> NoReturn:
        """Refused with `ConfigurationError`: keys are made and revoked where Redis is."""
        problem = "keys are made and revoked where Redis is, and not over HTTP"
        raise errors.ConfigurationError("url", problem, "connect there without a url, or use `holdfast keys`")

    def acting_as(self, principal: Principal) -> NoReturn:
        """Refused with `ConfigurationError`: the server knows the caller by its token."""
        problem = f"over HTTP nobody acts as {principal.id!r:.60}: the server knows the caller by its token"
        raise errors.ConfigurationError("principal", problem, "connect with a token of that principal's")

    async def ask(self, verb: Verb[R], arguments: Mapping[str, Any]) -> R:
        """What an operation replies: by its own function here, or the request that its row describes."""
        answer = _ANSWERS.get(verb)
        return await (self.requested(verb, arguments) if answer is None else answer(self, **arguments))

    def stream(self, verb: Verb[R], arguments: Mapping[str, Any]) -> AsyncGenerator[R, None]:
        """What an operation replies, one by one."""
        return _STREAMS[verb](self, **arguments)

    async def requested(
        self, verb: Verb[R], arguments: Mapping[str, Any], *, longer_s: float = 0.0, read: Callable[[Any], R] | None = None
    ) -> R:
        """The reply to one request, converted by `read` (None: as the row says).

        The arguments stand in the path where it names them, else in the query or the body; those that are None are left out.
        The call may take `longer_s` seconds longer than others, since the server waits for news.
        """
        read = read or partial(replies.read_as, verb, self.resolve)
        path = verb.path.format_map({name: part(str(one)) for name, one in arguments.items() if f"{{{name}}}" in verb.path})
        key = None if verb.key is None else arguments[verb.key]
        apart = {name for name in arguments if name == verb.key or f"{{{name}}}" in verb.path}
        fields = {name: one for name, one in arguments.items() if one is not None and name not in apart}
        if verb.method == "GET":
            return read(await self.exchange.get(path, verb.what, longer_s=longer_s, **fields))
        if "overrides" in fields:
            fields["overrides"] = fields["overrides"].given
        body: Mapping[str, Any] | None = fields | ({"text": in_chat_format(fields["text"])} if "text" in fields else {})
        if verb.method == "DELETE":  # some proxies refuse a body here, so an empty one is left out
            body = {name: one for name, one in fields.items() if one != ""} or None
        return await self.exchange.post(path, verb.what, body, read, key=key, longer_s=longer_s, method=verb.method)

    async def aclose(self) -> None:
        """Close the connections."""
        await self.exchange.aclose()


def part(name: str) -> str:
    """An id as one part of a path. `.` and `..` are quoted, since they would lead elsewhere."""
    return name.replace(".", "%2E") if name in (".", "..") else quote(name, safe=":")


def fits(name: object) -> bool:
    """Whether an id of a turn or a suspension can stand in a path; Holdfast makes no others."""
    return isinstance(name, str) and _FITS.fullmatch(name) is not None


async def _start(gateway: HttpGateway, *, context: str, attended: bool, **given: Any) -> Receipt:
    unattended = None if attended else False
    given |= {"context": jsontext.loads(context), "attended": unattended}
    return await gateway.requested(verbs.STARTED, given)


async def _about(gateway: HttpGateway, verb: Verb[R], *, suspension_id: str, conversation_id: str | None, **asked: Any) -> R:
    """What an operation on a suspension replies.

    An id that cannot stand in a path is refused with `StaleCall`: Holdfast makes none such, so no suspension has it.
    """
    ids = {"suspension_id": suspension_id, "conversation_id": conversation_id}
    if fits(suspension_id):
        return await gateway.requested(verb, ids | asked)
    if conversation_id is not None:
        await gateway.requested(verbs.STATE, {"conversation_id": conversation_id})
    raise errors.StaleCall(conversation_id or "", suspension_id, errors.StaleReason.UNKNOWN)


async def _resolve_many(
    gateway: HttpGateway, *, conversation_id: str, decisions: Mapping[str, DecisionRecord], decision_id: str
) -> Receipts:
    items = [{"suspension_id": name, **said(ruling)} for name, ruling in decisions.items()]
    read = partial(replies.receipts, count=len(items))
    asked = {"conversation_id": conversation_id, "decision_id": decision_id, "decisions": items}
    return await gateway.requested(verbs.RESOLVE_MANY, asked, read=read)


async def _resolve_each(
    gateway: HttpGateway, *, decisions: Sequence[tuple[PendingCall[Any], Decision]], decision_id: str
) -> list[Receipt | errors.HoldfastError]:
    """See `AsyncClient.resolve_each`. Many decisions go in several requests, one after the other."""
    by_id = {call.suspension_id: (call, decision) for call, decision in decisions}
    found: dict[str, Receipt | errors.HoldfastError] = {}
    items: dict[str, dict[str, Any]] = {}
    for call, decision in decisions:
        try:
            call.check_shown(decision)
            items[call.suspension_id] = _item(call, decision)
        except errors.HoldfastError as error:
            found[call.suspension_id] = error
    for chunk in _chunks(items):
        found |= await _resolve_together(gateway, [by_id[name] for name in chunk], list(chunk.values()), decision_id)
    return [found[call.suspension_id] for call, _ in decisions]


async def _resolve_together(
    gateway: HttpGateway, pairs: Sequence[tuple[PendingCall[Any], Decision]], items: Sequence[Mapping[str, Any]], key: str
) -> dict[str, Receipt | errors.HoldfastError]:
    """The outcomes of decisions sent in one request, or one by one if the server does not take them together."""
    names = [call.suspension_id for call, _ in pairs]
    path, what, read = verbs.RESOLVE_EACH.path, verbs.RESOLVE_EACH.what, partial(replies.decided, count=len(items))
    rounds = -(-len(items) // batches.SIDE_BY_SIDE)  # the server makes so many at a time, and each may take its whole time
    longer_s = gateway.exchange.timeout_s * (rounds - 1)
    try:
        outcomes = await gateway.exchange.post(path, what, {"decisions": items}, read, key=key, longer_s=longer_s)
    except errors.OutcomeUnknown as error:
        return {name: errors.OutcomeUnknown(error.what, key_of(key, name)) for name in names}
    except (errors.InvalidInput, errors.ServerRefused):  # one is too large or too deep, and nothing was done
        outcomes = await batches.resolve_each(gateway.resolve, pairs, key)
    except errors.HoldfastError as error:
        return dict.fromkeys(names, error)
    return {name: _sure(outcome, key_of(key, name)) for name, outcome in zip(names, outcomes, strict=True)}


def _sure(outcome: Receipt | errors.HoldfastError, retry_id: str) -> Receipt | errors.HoldfastError:
    """The outcome as a single decision would have it: if the server failed, the decision may be recorded."""
    if isinstance(outcome, errors.ServerRefused) and outcome.http_status in FAILED:
        return errors.OutcomeUnknown(f"the decision ({outcome})", retry_id)
    return outcome


def _item(call: PendingCall[Any], decision: Decision) -> dict[str, Any]:
    """One of several decisions as the body of a request; `StaleCall` if no call of Holdfast can have its ids."""
    if not (encodes(call.suspension_id) and encodes(call.tool_call_id)):
        raise errors.StaleCall(call.conversation_id, ascii(call.tool_call_id), errors.StaleReason.UNKNOWN)
    place = {"suspension_id": call.suspension_id, "tool_call_id": call.tool_call_id}
    return said(DecisionRecord.of(decision)) | place | {"conversation_id": check_conversation_id(call.conversation_id)}


def _chunks(items: Mapping[str, Mapping[str, Any]]) -> Iterator[dict[str, Mapping[str, Any]]]:
    """The items in their order, as many together as fit in one request; a large one goes alone."""
    chunk: dict[str, Mapping[str, Any]] = {}
    size = 0
    for name, item in items.items():
        length = jsontext.size_bytes(jsontext.dumps(item))
        if chunk and (len(chunk) == TOGETHER or size + length > TOGETHER_BYTES):
            yield chunk
            chunk, size = {}, 0
        chunk[name] = item
        size += length
    if chunk:
        yield chunk


async def _pending_of(gateway: HttpGateway, *, conversation_id: str) -> list[AsyncPendingCall]:
    return (await gateway.requested(verbs.STATE, {"conversation_id": conversation_id})).pending


async def _state(
    gateway: HttpGateway, *, conversation_id: str, after: int | None, timeout_s: float | None
) -> ConversationState[Awaitable[Receipt]]:
    now = asyncio.get_running_loop().time
    give_up, pauses = None if timeout_s is None else now() + timeout_s, Backoff(AGAIN_S, AGAIN_AT_MOST_S)
    while True:
        left_s = POLL_S if give_up is None else min(max(give_up - now(), 0), POLL_S)
        began = now()
        polled = {"wait_s": round(left_s, 3), "after": after} if left_s else {}
        found = await gateway.requested(verbs.STATE, {"conversation_id": conversation_id, **polled}, longer_s=left_s)
        if rests(found, after) or (give_up is not None and now() >= give_up):
            return found
        if now() - began < left_s / 2:
            pause_s = pauses.next_s()
            await asyncio.sleep(pause_s if give_up is None else min(pause_s, max(give_up - now(), 0)))
        else:
            pauses.pause_s = AGAIN_S


async def _turn(gateway: HttpGateway, *, conversation_id: str, turn_id: str) -> Turn:
    if not fits(turn_id):  # it cannot stand in a path, and no turn has such an id
        await gateway.requested(verbs.STATE, {"conversation_id": conversation_id})
        raise errors.TurnNotFound(conversation_id, turn_id)
    return await gateway.requested(verbs.TURN, {"conversation_id": conversation_id, "turn_id": turn_id})


async def _latest(gateway: HttpGateway, *, conversation_id: str, limit: int) -> list[Event]:
    seq, found = (await gateway.requested(verbs.STATE, {"conversation_id": conversation_id})).seq, list[Event]()
    async with aclosing(_events(gateway, conversation_id=conversation_id, after=max(seq - limit, 0), live=False)) as events:
        async for event in events:
            body: Any = event.body
            found.append(Event.recorded(event.seq or 0, body))
            if found[-1].seq == seq:
                break
    return found


async def _cancel(gateway: HttpGateway, *, wait_s: float, **ids: str | None) -> Cancelled:
    """Cancel the turn; a long wait takes several requests with one key."""
    now = asyncio.get_running_loop().time
    give_up, pauses, cancelled = now() + wait_s, Backoff(AGAIN_S, AGAIN_AT_MOST_S), None
    while True:
        left_s = min(max(give_up - now(), 0), POLL_S)
        try:
            found = await gateway.requested(verbs.CANCEL, {**ids, "wait_s": round(left_s, 3)}, longer_s=left_s)
        except errors.HoldfastError as error:
            if cancelled is None:
                raise
            logger.warning("it is not known which tools of %s still run: %s", ids["conversation_id"], error)
            return cancelled  # the cancellation itself is acknowledged
        cancelled = found if cancelled is None else cancelled.model_copy(update={"running": found.running})
        if not found.running or now() >= give_up:
            return cancelled
        await asyncio.sleep(min(pauses.next_s(), max(give_up - now(), 0)))


async def _audit(gateway: HttpGateway, *, conversation_id: str, receipts: Mapping[str, int | None]) -> AuditReport:
    """The whole audit; the server computes the links."""
    entries, after, path = [], 0, verbs.AUDIT.path.format(conversation_id=part(conversation_id))
    while True:
        found, more = replies.audit(await gateway.exchange.get(path, verbs.AUDIT.what, limit=PAGE, after=after))
        entries += found.entries
        if more is None:
            break
        after = more
    places = {entry.head: entry.seq for entry in entries if entry.head}
    absent = {head: seq for head, seq in receipts.items() if head not in places or seq not in (None, places[head])}
    return replace(found, entries=entries, breaks=[*found.breaks, *absences(absent)])


async def _audit_lines(
    gateway: HttpGateway, *, conversation_id: str, receipts: Mapping[str, int | None], after: int
) -> AsyncGenerator[dict[str, Any], None]:
    found = await _audit(gateway, conversation_id=conversation_id, receipts=receipts)
    for entry in found.entries:
        if entry.seq > after:
            yield entry.to_dict()
    yield found.verdict()


async def _assign(
    gateway: HttpGateway, *, to: Principal | str | EllipsisType | None, tool_call_id: str | None, **ids: Any
) -> Receipt:
    del tool_call_id  # the server finds it by the suspension
    taker = None if isinstance(to, EllipsisType) else taker_of(to, None)  # None: the holder of the token
    return await _about(gateway, verbs.ASSIGN, to=taker, **ids)


async def _link(gateway: HttpGateway, *, to: Principal, **asked: Any) -> Link:
    return await _about(gateway, verbs.LINK, to={"id": to.id, "roles": list(to.roles)}, **asked)


async def _redeem(gateway: HttpGateway, *, token: str, decision: DecisionRecord) -> Receipt:
    """See `AsyncClient.redeem`. The link makes it safe to repeat, so a request whose answer is lost is sent again."""
    read = partial(replies.read_as, verbs.REDEEM, gateway.resolve)
    path, what = verbs.REDEEM.path.format(token=token), verbs.REDEEM.what
    return await gateway.exchange.post(path, what, said(decision), read, key=uuid.uuid4().hex)


async def _noted(verb: Verb[R], gateway: HttpGateway, *, tool_call_id: str | None, **asked: Any) -> R:
    del tool_call_id  # as above
    to = {name: one.to_data() for name, one in asked.items() if isinstance(one, Approvers)}
    return await _about(gateway, verb, **asked | to)


def _events(gateway: HttpGateway, *, conversation_id: str, after: int, live: bool) -> AsyncGenerator[Event, None]:
    path = verbs.EVENTS.path.format(conversation_id=part(conversation_id))
    return follow(gateway.exchange, path, after=after, live=live)


def _events_below(
    gateway: HttpGateway, *, conversation_id: str, after: Mapping[str, int], live: bool
) -> AsyncGenerator[Event, None]:
    path, last = verbs.EVENTS.path.format(conversation_id=part(conversation_id)), cursor_of(after)
    return follow_below(gateway.exchange, path, after=last, live=live)


def _attached(gateway: HttpGateway, *, conversation_id: str, **said: Any) -> AsyncGenerator[AsyncListEvent, None]:
    path = verbs.ATTACH.path.format(conversation_id=part(conversation_id))
    return follow_attached(gateway.exchange, gateway.resolve, path, **said)


_ANSWERS: Mapping[Verb[Any], Callable[..., Awaitable[Any]]] = {
    verbs.STARTED: _start,
    verbs.RESOLVE: lambda gateway, decision, **ids: _about(gateway, verbs.RESOLVE, **ids, **said(decision)),
    verbs.RESOLVE_CALL: lambda gateway, decision, **ids: gateway.requested(verbs.RESOLVE_CALL, ids | said(decision)),
    verbs.RESOLVE_EACH: _resolve_each,
    verbs.RESOLVE_MANY: _resolve_many,
    verbs.LINK: _link,
    verbs.REDEEM: _redeem,
    verbs.PENDING: lambda gateway, approver, **where: gateway.requested(verbs.PENDING, where | asked_for(approver)),
    verbs.PENDING_CALL: lambda gateway, **ids: _about(gateway, verbs.PENDING_CALL, **ids),
    verbs.PENDING_OF: _pending_of,
    verbs.STATE: _state,
    verbs.TURN: _turn,
    verbs.LATEST: _latest,
    verbs.CANCEL: _cancel,
    verbs.AUDIT: _audit,
    verbs.ASSIGN: _assign,
    verbs.COMMENT: partial(_noted, verbs.COMMENT),
    verbs.SNOOZE: partial(_noted, verbs.SNOOZE),
    verbs.ESCALATE: partial(_noted, verbs.ESCALATE),
    verbs.CLAIM: partial(_noted, verbs.CLAIM),
    verbs.GIVE_BACK: partial(_noted, verbs.GIVE_BACK),
    verbs.REPORT_PROGRESS: partial(_noted, verbs.REPORT_PROGRESS),
    verbs.READY: lambda gateway: gateway.requested(verbs.READY, {}, read=lambda _: True),
}
_STREAMS: Mapping[Verb[Any], Callable[..., AsyncGenerator[Any, None]]] = {
    verbs.LIST_EVENTS: lambda gateway, **said: follow_lists(gateway.exchange, gateway.resolve, **said),
    verbs.EVENTS: _events,
    verbs.EVENTS_BELOW: _events_below,
    verbs.ATTACH: _attached,
    verbs.AUDIT_LINES: _audit_lines,
}
