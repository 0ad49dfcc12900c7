"""One conversation, as a client over HTTP sees it."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from types import EllipsisType
from typing import TYPE_CHECKING, Any, TypeVar, cast

from holdfast.backoff import Backoff
from holdfast.conversation import Cancelled, Decision, Grant, Principal, Proof, Receipt, SuspensionKind
from holdfast.conversation.chain import absences
from holdfast.conversation.ids import check_request_id
from holdfast.errors import HoldfastError, InvalidInput, InvalidMessage, ServerRefused, StaleCall, StaleReason, TurnNotFound
from holdfast.persistence.pages import check_limit

from . import http_replies as replies
from .arguments import (
    check_cancelling,
    check_place,
    giver_of,
    grant_id_of,
    is_time,
    member_of,
    reason_of,
    request_id_of,
    text_of,
)
from .audit import AuditReport, Kept, kept_of
from .batches import batch_key, batch_of
from .conversation import Conversation
from .http_decisions import said
from .http_events import follow
from .http_exchange import key_or
from .http_paths import fits, part
from .log_pages import MessagePage
from .noting import comment_of, suspension_of, taker_of
from .results import AsyncPendingCall, ConversationState, Event, Page, PendingCall
from .turns import Message, Turn

if TYPE_CHECKING:
    from .http_client import HttpClient

_T = TypeVar("_T")

logger = logging.getLogger("holdfast.client")
POLL_S = 50.0
"""How long one poll waits; the server bounds it by 60 s, and what stands before it often closes what is silent that long."""
PAGE = 1000
_WORDS = {"assign": "assignment", "comment": "comment"}
AGAIN_S, AGAIN_AT_MOST_S = 0.1, 2.0
"""Pauses between polls that a server answers before their time, as one does that is stopped."""


class HttpConversation(Conversation):
    """A conversation over HTTP; `Conversation` describes its methods."""

    def __init__(self, client: "HttpClient", conversation_id: str, *, receipt: Receipt | None = None) -> None:
        self._client = client
        self._exchange = client.exchange
        self._path = f"/v1/conversations/{part(conversation_id)}"
        self.id = conversation_id
        self.receipt = receipt

    async def send(self, text: str, *, message_id: str | None = None) -> Receipt:
        """Send the user's next message; see `Conversation.send`."""
        if message_id is not None:
            check_request_id("message_id", message_id, InvalidMessage)
        return await self._post("messages", "the message", {"text": text_of(text)}, replies.receipt, key=key_or(message_id))

    async def resolve(
        self, tool_call_id: str, decision: Decision, *, suspension_id: str | None = None, decision_id: str | None = None
    ) -> Receipt:
        """Decide a pending call; see `Conversation.resolve`."""
        return await self._client.resolve(self.id, tool_call_id, decision, suspension_id=suspension_id, decision_id=decision_id)

    async def resolve_many(self, decisions: Mapping[str, Decision], *, decision_id: str | None = None) -> list[Receipt]:
        """Decide several pending calls, all of them or none; see `Conversation.resolve_many`."""
        key = batch_key(decision_id)
        batch_of(decisions, key)
        items = [{"suspension_id": name, **said(decision)} for name, decision in decisions.items()]
        read = partial(replies.receipts, count=len(items))
        return await self._post("resolve-many", "the decisions", {"decisions": items}, read, key=key)

    async def pending(self) -> list[AsyncPendingCall]:
        """The pending calls; see `Conversation.pending`."""
        return (await self.state()).pending

    async def wait(self, *, after: int | None = None, timeout_s: float | None = None) -> ConversationState[Awaitable[Receipt]]:
        """The state as soon as the conversation rests; see `Conversation.wait`."""
        if after is not None:
            check_place(after)
        if timeout_s is not None and not is_time(timeout_s):
            raise InvalidInput("timeout_s", f"{timeout_s!r:.40} is no time", "give seconds, or None to wait without end")
        now = asyncio.get_running_loop().time
        give_up, pauses = None if timeout_s is None else now() + timeout_s, Backoff(AGAIN_S, AGAIN_AT_MOST_S)
        while True:
            left_s = POLL_S if give_up is None else min(max(give_up - now(), 0), POLL_S)
            began = now()
            polled = {"wait_s": round(left_s, 3), "after": after} if left_s else {}
            reply = await self._exchange.get(self._path, "the state", longer_s=left_s, **polled)
            found = replies.state(reply, self._client.resolve)
            if replies.rests(found, after) or (give_up is not None and now() >= give_up):
                return found
            if now() - began < left_s / 2:
                pause_s = pauses.next_s()
                await asyncio.sleep(pause_s if give_up is None else min(pause_s, max(give_up - now(), 0)))
            else:
                pauses.reset()

    async def state(self) -> ConversationState[Awaitable[Receipt]]:
        """The state as it is now; see `Conversation.state`."""
        return await self.wait(timeout_s=0)

    async def messages(self) -> list[dict[str, Any]]:
        """The messages; see `Conversation.messages`."""
        return await self._all("messages", "the messages")

    async def messages_page(self, *, limit: int = 50, after: str | None = None) -> MessagePage:
        """A page of the messages; see `Conversation.messages_page`."""
        return replies.messages(await self._get("messages", "the messages", limit=limit, after=after))

    async def turns_page(self, *, limit: int = 50, after: str | None = None) -> Page[Turn]:
        """A page of the turns; see `Conversation.turns_page`."""
        found = replies.page(await self._get("turns", "the turns", limit=limit, after=after))
        return Page(items=[replies.turn(one) for one in found.items], next=found.next)

    async def turns(self) -> list[Turn]:
        """The turns; see `Conversation.turns`."""
        return [replies.turn(one) for one in await self._all("turns", "the turns")]

    async def turn(self, turn_id: str) -> Turn:
        """The turn of that id; see `Conversation.turn`."""
        if not fits(turn_id):  # it cannot stand in a path, and no turn has such an id
            await self.state()
            raise TurnNotFound(self.id, turn_id)
        return replies.turn(await self._get(f"turns/{part(turn_id)}", "the turn"))

    async def message(self, message_id: str) -> Message:
        """What became of a message; see `Conversation.message`."""
        check_request_id("message_id", message_id, InvalidMessage)
        return replies.message(await self._get(f"messages/{part(message_id)}", "the message"))

    def events(self, *, after: int = 0, live: bool = True) -> AsyncGenerator[Event, None]:
        """The events after `after`; see `Conversation.events`. A stream that is cut goes on where it was."""
        return follow(self._exchange, f"{self._path}/events", after=after, live=bool(live))

    async def latest(self, limit: int = 400) -> list[Event]:
        """The latest recorded events; see `Conversation.latest`."""
        seq, found = (await self.state()).seq, list[Event]()
        async with aclosing(self.events(after=max(seq - check_limit(limit), 0), live=False)) as events:
            async for event in events:
                found.append(Event.recorded(event.seq or 0, cast("Any", event.body)))
                if found[-1].seq == seq:
                    break
        return found

    async def cancel(self, turn_id: str | None = None, *, wait_s: float = 0, request_id: str | None = None) -> Cancelled:
        """Cancel the turn; see `Conversation.cancel`. A long wait is several requests with one key."""
        key = request_id_of(request_id)
        check_cancelling(turn_id, wait_s)
        now = asyncio.get_running_loop().time
        give_up, pauses, cancelled = now() + wait_s, Backoff(AGAIN_S, AGAIN_AT_MOST_S), None
        while True:
            left_s = min(max(give_up - now(), 0), POLL_S)
            body = {"turn_id": turn_id, "wait_s": round(left_s, 3)}
            try:
                found = await self._post("cancel", "the cancellation", body, replies.cancelled, key=key, longer_s=left_s)
            except HoldfastError as error:
                if cancelled is None:
                    raise
                logger.warning("which bodies of %s go on is not known: %s", self.id, error)
                return cancelled  # it is acknowledged, and that is what counts
            cancelled = found if cancelled is None else cancelled.model_copy(update={"running": found.running})
            if not found.running or now() >= give_up:
                return cancelled
            await asyncio.sleep(min(pauses.next_s(), max(give_up - now(), 0)))

    async def cancel_pending(
        self, kind: SuspensionKind | str | None = None, reason: str = "", *, request_id: str | None = None
    ) -> Cancelled:
        """Cancel the calls that wait; see `Conversation.cancel_pending`."""
        key = request_id_of(request_id)
        body = {"kind": member_of(SuspensionKind, "kind", kind), "reason": reason_of(reason)}
        return await self._post("cancel-pending", "the cancellation", body, replies.cancelled, key=key)

    async def grants(self) -> list[Grant]:
        """The grants that stand; see `Conversation.grants`."""
        return [replies.grant(one) for one in replies.page(await self._get("grants", "the grants")).items]

    async def revoke(self, grant_id: str, reason: str = "", *, request_id: str | None = None) -> Receipt:
        """End a grant; see `Conversation.revoke`."""
        key = request_id_of(request_id)
        path = f"{self._path}/grants/{grant_id_of(grant_id)}"
        body = {"reason": reason} if reason_of(reason) else None  # some proxies refuse a body here: none where none is needed
        return await self._exchange.delete(path, "the revocation", replies.receipt, key=key, body=body)

    async def revoke_given(
        self, by: str, reason: str = "", *, proof: Proof | str | None = None, request_id: str | None = None
    ) -> Receipt:
        """End what a principal has given; see `Conversation.revoke_given`."""
        key = request_id_of(request_id)
        body = {"by": giver_of(by), "proof": member_of(Proof, "proof", proof), "reason": reason_of(reason)}
        return await self._post("revoke-given", "the revocation", body, replies.receipt, key=key)

    async def audit(self, *, receipts: Sequence[Kept] | Kept = ()) -> AuditReport:
        """Check the chain of decisions; see `Conversation.audit`. The server computes the links."""
        kept, entries, after = kept_of(receipts, self.id), [], 0
        while True:
            found, more = replies.audit(await self._get("audit", "the audit", limit=PAGE, after=after))
            entries += found.entries
            if more is None:
                break
            after = more
        places = {entry.head: entry.seq for entry in entries if entry.head}
        absent = {head: seq for head, seq in kept.items() if head not in places or seq not in (None, places[head])}
        return replace(found, entries=entries, breaks=[*found.breaks, *absences(absent)])

    async def audit_lines(
        self, *, after: int = 0, receipts: Sequence[Kept] | Kept = ()
    ) -> AsyncGenerator[dict[str, Any], None]:
        """The audit as lines for an archive; see `Conversation.audit_lines`."""
        check_place(after)
        found = await self.audit(receipts=receipts)
        for entry in found.entries:
            if entry.seq > after:
                yield entry.to_dict()
        yield found.verdict()

    async def assign(
        self,
        call: PendingCall[Any] | str,
        to: Principal | str | EllipsisType | None = ...,
        *,
        request_id: str | None = None,
    ) -> Receipt:
        """Note who takes a pending call on, by default the token's principal; see `Conversation.assign`."""
        key, suspension_id = request_id_of(request_id), suspension_of(call, self.id)
        body = {} if isinstance(to, EllipsisType) else {"to": taker_of(to, None)}
        return await self._noted("assign", suspension_id, body, key)

    async def comment(self, call: PendingCall[Any] | str, text: str, *, request_id: str | None = None) -> Receipt:
        """Write to the others who may decide a pending call; see `Conversation.comment`."""
        key, suspension_id = request_id_of(request_id), suspension_of(call, self.id)
        return await self._noted("comment", suspension_id, {"text": comment_of(text)}, key)

    async def _noted(self, what: str, suspension_id: str, body: Mapping[str, Any], key: str) -> Receipt:
        if not fits(suspension_id):  # it cannot stand in a path, and no suspension has such an id
            await self.state()
            raise StaleCall(self.id, suspension_id, StaleReason.UNKNOWN)
        path, whole = f"/v1/pending/{part(suspension_id)}/{what}", {**body, "conversation_id": self.id}
        return await self._exchange.post(path, f"the {_WORDS[what]}", whole, replies.receipt, key=key)

    async def end(self, *, request_id: str | None = None) -> Receipt:
        """End the conversation for good; see `Conversation.end`."""
        return await self._post("end", "the end", {}, replies.receipt, key=request_id_of(request_id))

    async def retry(self) -> bool:
        """Lift the quarantine; see `Conversation.retry`."""
        return await self._post("retry", "the retry", {}, replies.lifted)

    async def _get(self, what: str, words: str, **query: Any) -> Any:
        return await self._exchange.get(f"{self._path}/{what}", words, **query)

    async def _post(
        self,
        what: str,
        words: str,
        body: Mapping[str, Any],
        read: Callable[[Any], _T],
        *,
        key: str | None = None,
        longer_s: float = 0.0,
    ) -> _T:
        return await self._exchange.post(f"{self._path}/{what}", words, body, read, key=key, longer_s=longer_s)

    async def _all(self, what: str, words: str) -> list[Any]:
        """All items of a list; where a page is too large for one answer, the next try asks for fewer."""
        found: list[Any] = []
        after, limit = None, PAGE
        while True:
            try:
                page = replies.page(await self._get(what, words, limit=limit, after=after))
            except ServerRefused as error:
                if error.reason != "too_large" or limit == 1:
                    raise
                limit = max(limit // 8, 1)
                continue
            found += page.items
            if page.next is None:
                return found
            after = page.next
