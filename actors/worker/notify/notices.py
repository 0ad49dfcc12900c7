"""Reading a notice from the log: an envelope names the entry, and the entry says what happened."""

from typing import Any

from holdfast.actors.workers import DeliverRequest
from holdfast.agent.notice import Notice
from holdfast.conversation import Event
from holdfast.conversation.log.owed import notice_kind
from holdfast.conversation.log.transcript import reply_of
from holdfast.conversation.records import events as recorded
from holdfast.conversation.records.calls import PendingView
from holdfast.conversation.terms.decisions import DecisionRecord
from holdfast.conversation.terms.spec import NoticeKind
from holdfast.conversation.text.jsontext import NotJson
from holdfast.persistence import Conversations
from holdfast.persistence.pages import PendingPlace
from holdfast.persistence.views import pending_view

from .addresses import Refused

MOST_BACK, AT_ONCE = 4096, 64
"""How many entries before a decision are searched for the suspension that it settled, and how many are read at once."""


async def notice_of(store: Conversations, request: DeliverRequest) -> Notice:
    """The notice that an envelope is about, as the log has it, with the request's links.

    Raises:
        Refused: The log has no such entry any more, or another one.
        StoreError: The log cannot be read.
    """
    envelope = request.envelope
    started, event = await store.at(request.conversation_id, [1, envelope.seq])
    if not isinstance(started, recorded.ConversationStarted):
        raise Refused("the log of the conversation is gone")
    if envelope.kind not in frozenset(NoticeKind):
        raise Refused(f"this release does not know {envelope.kind!r:.60}")
    common: dict[str, Any] = {
        "id": request.message_id,
        "kind": NoticeKind(envelope.kind),
        "conversation_id": request.conversation_id,
        "agent": started.agent,
        "seq": envelope.seq,
        "links": request.links,
    }
    if envelope.kind == NoticeKind.QUARANTINED:
        quarantine = await store.quarantine(request.conversation_id)  # it may be over by now
        return Notice(**common, at=envelope.at, reason="" if quarantine is None else quarantine.reason)
    if event is None or notice_kind(event) != envelope.kind:
        found = "gone" if event is None else event.kind
        raise Refused(f"the log's entry {envelope.seq} is {found}, and not what the message is about")
    said = await _Reading(store, request.conversation_id, started.agent, envelope.seq).said(event)
    return Notice(**common, at=event.at, **said)


class _Reading:
    """The entries of one log that a notice needs."""

    def __init__(self, store: Conversations, conversation_id: str, agent: str, seq: int) -> None:
        self._store, self._conversation_id = store, conversation_id
        self._agent, self._seq = agent, seq

    async def said(self, event: Event) -> dict[str, Any]:
        """The attributes of a notice that depend on its event."""
        match event:
            case recorded.CallSuspended():
                return {"call": await self._view(self._seq, event)}
            case recorded.SuspensionSettled():
                settled = {"by": event.by, "decision": event.decision, "principal": event.principal, "reason": _reason(event)}
                return {"call": await self._call(event.suspension_id), **settled}
            case recorded.TurnCompleted():
                (answer,) = await self._store.at(self._conversation_id, [event.reply_seq or self._seq])
                return {"reply": reply_of(answer) if isinstance(answer, recorded.ModelAnswered) else None}
            case recorded.TurnFailed():
                return {"error": event.error}
            case recorded.Ended():
                return {"principal": event.principal}
            case recorded.CallReminded():
                return {"call": await self._now(event.suspension_id)}
            case recorded.CallEscalated():
                asked = {"principal": event.principal, "reason": event.reason}
                return {"call": await self._now(event.suspension_id), **asked}
            case _:
                return {}

    async def _now(self, suspension_id: str) -> PendingView | None:
        """A call that waits, as it is now; as it was suspended, if it waits no longer."""
        waiting = await self._store.pending_of(self._conversation_id, suspension_id)
        return waiting[0] if waiting else await self._call(suspension_id)

    async def _call(self, suspension_id: str) -> PendingView | None:
        """The call of a suspension that is over, or goes on: its entry stands somewhere before, and nothing leads to it."""
        first = max(1, self._seq - MOST_BACK)
        for end in range(self._seq, first, -AT_ONCE):
            seqs = list(range(end - 1, max(first, end - AT_ONCE) - 1, -1))
            for seq, event in zip(seqs, await self._store.at(self._conversation_id, seqs), strict=True):
                if isinstance(event, recorded.CallSuspended) and event.suspension_id == suspension_id:
                    return await self._view(seq, event)
        return None

    async def _view(self, seq: int, suspended: recorded.CallSuspended) -> PendingView:
        source, message = await self._store.at(self._conversation_id, [suspended.arguments_at, suspended.message_at])
        place = PendingPlace(self._conversation_id, seq, suspended.suspension_id, suspended.at)
        return pending_view(place, self._agent, suspended, source, message=message)


def _reason(settled: recorded.SuspensionSettled) -> str:
    """The reason of a decision: a denial has it in its body, and a review's notes are one."""
    if settled.decision is None or settled.body is None:
        return settled.reason
    try:
        decision = DecisionRecord(kind=settled.decision, body=settled.body, reason=settled.reason).decision
    except (NotJson, ValueError, LookupError):
        return settled.reason
    return str(getattr(decision, "reason", None) or getattr(decision, "notes", None) or settled.reason)
