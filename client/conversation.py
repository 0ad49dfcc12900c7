"""One conversation, as a client sees it."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from types import EllipsisType
from typing import Any

from holdfast.conversation import (
    Approvers,
    Cancelled,
    Decision,
    Grant,
    Interrupted,
    Origin,
    Principal,
    Proof,
    Receipt,
    SuspensionKind,
    When,
)
from holdfast.conversation.ids import check_conversation_id
from holdfast.conversation.records.state import DEFAULT_PRIORITY
from holdfast.conversation.terms.overrides import Overrides
from holdfast.conversation.terms.parts import GivenContent
from holdfast.errors import InvalidMessage, ServerRefused

from . import verbs
from .audit import AuditReport, Kept, kept_of
from .context_view import ContextView
from .executing import Executing, suspension_of
from .gateway import Gateway, asked, streamed
from .log_pages import MessagePage, TurnPage
from .operation import check_suspension
from .results import AsyncPendingCall, ConversationState, Event, Page, PendingCall
from .summary import Summary
from .tree import Node
from .turns import Message, QueuedMessage, Turn
from .usage import UsageBy, UsageReport

PAGE = 1000


class AsyncConversation(Executing):
    """One conversation. `receipt` is the receipt of the `start` that made this object, else None.

    `message_id`, `decision_id` and `request_id` are idempotency keys: the same key again returns the first result, and None
    draws a random key. Of a page, `limit` is the most items, 1 to 1000, and `after` is the `next` of the page before.
    """

    async def send(
        self,
        text: GivenContent,
        *,
        message_id: str | None = None,
        when: When | str = When.QUEUE,
        at: datetime | str | int | None = None,
        priority: int = DEFAULT_PRIORITY,
        origin: Origin | str = Origin.USER,
        overrides: Overrides | Mapping[str, Any] | None = None,
    ) -> Receipt:
        """Send the user's next message; during a turn it queues, durably and in order.

        Args:
            text: A text, or a list of up to 64 parts: `TextPart`, `ImagePart`, `FilePart`, or dictionaries in OpenAI's chat
                format; at most `Limits.message_bytes` bytes (1 MiB).
            message_id: The idempotency key.
            when: What it does while a turn goes on or waits. `queue`: its turn comes after those before it. `reject`:
                `ConversationBusy`. `steer`: it joins the turn that goes on, before its next model call, once no call of it is
                open; nothing that waits is decided or dropped by it. `interrupt`: as `interrupt` does.
            at: An aware datetime, its text (RFC 3339) or integer milliseconds UTC, up to 366 days ahead: it is queued then, by
                the store's clock.
            priority: Its place in the queue: from 0 (first) to 255 (last); in order within a priority.
            origin: Where it comes from: `user`, `agent`, `schedule`, `webhook` or `a2a`. It is shown and logged, nothing else.
            overrides: What the model calls of its turn have in place of what the agent says, as far as its `overridable`
                allows; not with `steer`.

        Raises:
            InvalidMessage: The text, the id, the time, the priority or the overrides cannot be used, or the agent does not
                allow these.
            ConversationBusy: A turn goes on or waits, and `when` is `reject`.
            QueueFull: As many messages wait as the agent's `Limits.queued` allows.
        """
        if when != When.INTERRUPT:
            given = {"when": when, "at": at, "priority": priority, "origin": origin, "overrides": overrides}
            return await self._asked(verbs.SEND, text=text, message_id=message_id, **given)
        if at is not None or priority != DEFAULT_PRIORITY:
            raise InvalidMessage("when", "an interruption begins at once", "leave at and priority out")
        done = await self.interrupt(text, origin=origin, overrides=overrides, request_id=message_id)
        about = {name: getattr(done, name) for name in ("conversation_id", "seq", "accepted_at", "duplicate")}
        return Receipt(**about)

    async def interrupt(
        self,
        text: GivenContent | None = None,
        *,
        origin: Origin | str = Origin.USER,
        overrides: Overrides | Mapping[str, Any] | None = None,
        request_id: str | None = None,
    ) -> Interrupted:
        """Cancel the turn with what waits in it, supersede the queued messages, and begin with `text`: one append.

        Returns what it cancelled and superseded. Messages that wait for a time still do. Without a `text` the conversation
        rests then. `request_id` is the message's id, too; `overrides` are as in `send`.

        Raises:
            InvalidMessage: The text or the overrides cannot be used, or the agent does not allow these.
        """
        return await self._asked(verbs.INTERRUPT, text=text, origin=origin, overrides=overrides, request_id=request_id)

    async def queue(self) -> list[QueuedMessage]:
        """The messages that no turn has taken up yet: those that join the present turn, the queue, and those for later."""
        return await self._asked(verbs.QUEUE)

    async def withdraw(self, message_id: str, *, request_id: str | None = None) -> Receipt:
        """Withdraw a message before its turn begins, or before it joins one; its own receipt stays.

        Raises:
            NotQueued: It waits no longer; `message` says what became of it.
            MessageNotFound: The conversation was never sent a message of that id.
        """
        return await self._asked(verbs.WITHDRAW, message_id=message_id, request_id=request_id)

    async def reschedule(
        self,
        message_id: str,
        *,
        at: datetime | str | int | None = None,
        priority: int | None = None,
        request_id: str | None = None,
    ) -> Receipt:
        """Give a message that waits for its turn another time or priority, as in `send`; None leaves it as it is.

        Raises:
            InvalidMessage: The time or the priority cannot be used.
            InvalidInput: Neither is given, or the message joins the present turn.
            NotQueued: It waits no longer; `message` says what became of it.
            MessageNotFound: The conversation was never sent a message of that id.
        """
        return await self._asked(verbs.RESCHEDULE, message_id=message_id, at=at, priority=priority, request_id=request_id)

    async def resolve(
        self,
        call: PendingCall[Any] | str,
        decision: Decision,
        *,
        decision_id: str | None = None,
        client_id: str | None = None,
    ) -> Receipt:
        """Decide a pending call of this conversation, given as it was shown or by its suspension's id: `AsyncClient.resolve`.

        Raises:
            StaleCall, InvalidDecision, NotPermitted, AlreadyVoted: See `AsyncClient.resolve`.
            InvalidInput: `call` is neither, or a call of another conversation.
        """
        suspension_of(call, self.id)
        ids = {"conversation_id": self.id, "decision_id": decision_id, "client_id": client_id}
        return await resolved(self._gateway, call, decision, **ids)

    async def resolve_many(self, decisions: Mapping[str, Decision], *, decision_id: str | None = None) -> list[Receipt]:
        """Decide several pending calls of this conversation: all of them, or none.

        `decisions` has at most 1,000, by the `suspension_id` of the calls that were shown. There is a receipt for each, in the
        order given; a vote whose call still waits has `settled=False`.

        Raises:
            BatchRefused: At least one decision is refused; `errors` says which and why (`NotPermitted` and `AlreadyVoted`
                among the reasons). Nothing was decided.
            InvalidDecision: The decisions are no batch, or the id was used for others.
        """
        found = await self._asked(verbs.RESOLVE_MANY, decisions=decisions, decision_id=decision_id)
        return list(found.receipts)

    async def pending(self) -> list[AsyncPendingCall]:
        """The pending calls of this conversation, in the model's order."""
        return await self._asked(verbs.PENDING_OF)

    async def wait(self, *, after: int | None = None, timeout_s: float | None = None) -> ConversationState[Awaitable[Receipt]]:
        """The state as soon as the conversation rests (any status but generating and executing tools) or is in quarantine.

        While its new work is paused (`AsyncClient.paused`), a conversation with work to do does not rest: this call returns
        once `timeout_s` is over, or once the conversation rests after the pause.

        Args:
            after: Only a state whose `seq` is greater counts; pass `receipt.seq` to wait for the results of a command. The last
                state of a conversation that has ended is returned at once.
            timeout_s: After how many seconds the state is returned as it is; None waits without end.
        """
        return await self._asked(verbs.STATE, after=after, timeout_s=timeout_s)

    async def state(self) -> ConversationState[Awaitable[Receipt]]:
        """The state as it is now."""
        return await self.wait(timeout_s=0)

    async def tree(self) -> Node:
        """This conversation, and below it those that its present turn, or its last one, has delegated to, with theirs.

        It is walked as it is read, 1,000 conversations at most. A child that has not started yet, is gone or cannot be read
        says so in its `problem`, and hides no other.
        """
        return await self._asked(verbs.TREE)

    async def messages(self) -> list[dict[str, Any]]:
        """The messages in the OpenAI chat format, as dicts with `role` and `content`, without the system message."""
        return await self._all(self.messages_page)

    async def messages_page(self, *, limit: int = 50, after: str | None = None, before: str | None = None) -> MessagePage:
        """A page of the messages, oldest first, read from its place in the log; it has at most 8 MiB, or one message.

        Pages are read forwards (pass `next` as `after`) or backwards (pass `previous` as `before`, first `"end"`).
        """
        return await self._asked(verbs.MESSAGES_PAGE, limit=limit, after=after, before=before)

    async def context(self) -> ContextView:
        """What the model would be sent at present, and what is left out by which rule of the agent's `Context`.

        During a turn these are the terms of its agent as it began, else those of the published one.
        """
        return await self._asked(verbs.CONTEXT)

    async def compact(self, *, request_id: str | None = None) -> Receipt:
        """Ask that the oldest messages be summarised, whatever `Compact.at` says: at once, or before the next model call.

        `wait(after=receipt.seq)` waits until that is done, and `summary(request_id)` says what came of it.

        Raises:
            InvalidInput: The agent has no `Compact`, or the id was used for another request.
        """
        return await self._asked(verbs.COMPACT, request_id=request_id)

    async def summary(self, request_id: str) -> Summary:
        """What came of a request for a summary.

        Raises:
            InvalidInput: No summary was asked for under that id.
        """
        return await self._asked(verbs.SUMMARY, request_id=request_id)

    async def usage(self, by: UsageBy | str = UsageBy.MODEL) -> UsageReport:
        """What the models' answers used: tokens, cost and time, by model, tool or agent; this reads the whole log.

        Each answer in the log is counted once. A call that failed has no answer: what it cost is not known here, nor is what
        conversations below this one used.
        """
        return await self._asked(verbs.USAGE_OF, by=by)

    async def turns(self) -> list[Turn]:
        """The turns that have begun, oldest first; this reads the whole log."""
        return await self._all(self.turns_page)

    async def turns_page(self, *, limit: int = 50, after: str | None = None, before: str | None = None) -> TurnPage:
        """A page of the turns that have begun, oldest first, in either direction like messages. Long turns make it shorter."""
        return await self._asked(verbs.TURNS_PAGE, limit=limit, after=after, before=before)

    async def turn(self, turn_id: str) -> Turn:
        """The turn of that id: where it stands, its reply or error, and what it used.

        Raises:
            TurnNotFound: The conversation has had no turn of that id.
        """
        return await self._asked(verbs.TURN, turn_id=turn_id)

    async def message(self, message_id: str) -> Message:
        """What became of a message, by the id under which it was sent or the conversation was started.

        Raises:
            InvalidMessage: The id cannot be used.
            MessageNotFound: The conversation was never sent a message of that id.
        """
        return await self._asked(verbs.MESSAGE, message_id=message_id)

    def events(self, *, after: int | str = 0, live: bool = True, descendants: bool = False) -> AsyncGenerator[Event, None]:
        """The events after a `seq`: recorded ones in order and without gaps, live ones (unless `live` is False) as they come.

        The stream ends with the conversation; leave the loop to stop earlier. `docs/events.md` lists all kinds of events.

        With `descendants`, the events of the conversations below it come in the same stream, at most 64 at a time; each
        event then has the `conversation_id` of its own, and `after` takes an event's `cursor`. Of further conversations,
        and of those that cannot be read, nothing is told.
        """
        verb = verbs.EVENTS_BELOW if descendants else verbs.EVENTS
        return streamed(self._gateway, verb, conversation_id=self.id, after=after, live=live)

    async def latest(self, limit: int = 400) -> list[Event]:
        """The latest `limit` (1 to 1000) recorded events within 8 MiB, oldest first, without arguments of suspended calls."""
        return await self._asked(verbs.LATEST, limit=limit)

    async def cancel(self, turn_id: str | None = None, *, wait_s: float = 0, request_id: str | None = None) -> Cancelled:
        """Cancel the turn; returns what was cancelled: the turn's id (None if no turn was open) and the ids of its open calls.

        Running tools are not interrupted; they see the cancellation as `ToolContext.cancelled`.

        Args:
            turn_id: Cancel only if this turn is still the current one; None cancels the current turn.
            wait_s: Seconds to wait at most until the tools of the cancelled calls have stopped. `Cancelled.running` then has
                the calls whose tools still run; a thread that runs beyond `run_timeout_s` is not seen. The time for the answer
                itself comes on top.
            request_id: The idempotency key.

        Raises:
            TurnNotFound: The conversation has had no turn of the id `turn_id`.
        """
        return await self._asked(verbs.CANCEL, turn_id=turn_id, wait_s=wait_s, request_id=request_id)

    async def cancel_pending(
        self,
        kind: SuspensionKind | str | None = None,
        reason: str = "",
        *,
        client_id: str | None = None,
        request_id: str | None = None,
    ) -> Cancelled:
        """Cancel the calls that wait, each with an error result that the model reads; the turn goes on without them.

        Returns the turn and the calls; no turn if no call waited. `kind` limits this to calls that wait for it (`approval`,
        `elicitation`, `client_exec`, `lost`, `review`; None: all), `client_id` to what waits for this client of the client's
        principal: calls that it has claimed, and, unless another client of the principal is attached, what the principal alone
        may decide. The model reads `reason`, at most 1 KiB.
        """
        given = {"kind": kind, "reason": reason, "client_id": client_id, "request_id": request_id}
        return await self._asked(verbs.CANCEL_PENDING, **given)

    async def grants(self) -> list[Grant]:
        """The grants that stand by the store's clock, in the order of their giving; none once the conversation has ended."""
        return await self._asked(verbs.GRANTS)

    async def revoke(self, grant_id: str, reason: str = "", *, request_id: str | None = None) -> Receipt:
        """End a grant: nothing begins by it once this has returned. Calls it let run that have not begun are asked about.

        `grant_id` is as in `grants`; `reason` is for the log, at most 1 KiB.

        Raises:
            InvalidInput: The conversation has no such grant.
        """
        return await self._asked(verbs.REVOKE, grant_id=grant_id, reason=reason, request_id=request_id)

    async def revoke_given(
        self, by: str, reason: str = "", *, proof: Proof | str | None = None, request_id: str | None = None
    ) -> Receipt:
        """End what a principal has given here: its grants, as `revoke` does, and its votes on calls that still wait.

        `by` is the principal's id, in any spelling; `proof` selects what was given by somebody proven in this way (None: in any
        way); `reason` is for the log, at most 1 KiB.

        Raises:
            InvalidInput: Nothing that it has given stands here.
        """
        return await self._asked(verbs.REVOKE_GIVEN, by=by, proof=proof, reason=reason, request_id=request_id)

    async def audit(self, *, receipts: Sequence[Kept] | Kept = ()) -> AuditReport:
        """Check the chain of this conversation, and list it: who asked or decided, when, what was shown, what was decided, why.

        Every link is computed anew from the log, and compared with the heads in the log and in the conversation's state. A
        wrong or unreadable entry makes the report not `intact`, and hides no other. `receipts` are receipts that somebody has
        kept, or their `audit_head`, at most 1,000: each has to be in the chain. A missing one shows that the log was cut off or
        rewritten as a whole.
        """
        return await self._asked(verbs.AUDIT, receipts=kept_of(receipts, self.id))

    def audit_lines(self, *, after: int = 0, receipts: Sequence[Kept] | Kept = ()) -> AsyncGenerator[dict[str, Any], None]:
        """The audit as lines for an archive: the entries after a `seq`, and as the last line the verdict on the whole chain.

        An entry has the fields of `AuditEntry`; the last line has the `kind` `audit_report`. An export that continues an
        earlier one (`after`) overlaps it by one head: its first entry's `previous` is the `head` of the earlier one's last
        entry. All entries are checked, against `receipts` as in `audit`.
        """
        kept = kept_of(receipts, self.id)
        return streamed(self._gateway, verbs.AUDIT_LINES, conversation_id=self.id, after=after, receipts=kept)

    async def assign(
        self, call: PendingCall[Any] | str, to: Principal | str | EllipsisType | None = ..., *, request_id: str | None = None
    ) -> Receipt:
        """Note who takes a pending call on, for all who may decide it (`PendingCall.assigned`). It decides nothing.

        `call` may be the id of the call's suspension. `to` is a principal or its id, by default the client's own principal;
        None or "" gives the call back.

        Raises:
            StaleCall: The suspension is not open; `reason` says why.
            NotPermitted: The client's principal may not decide the call. Nothing was changed.
            InvalidInput: `to` is left out and the client has no principal, or the call has 64 votes and notes already.
        """
        return await self._asked(verbs.ASSIGN, **self._noted(call), to=to, request_id=request_id)

    async def comment(self, call: PendingCall[Any] | str, text: str, *, request_id: str | None = None) -> Receipt:
        """Write to the others who may decide a pending call (`PendingCall.comments`). The model does not read it.

        `call` may be the id of the call's suspension. `text` has 1 byte to the agent's `Limits.note_bytes` of UTF-8 (4 KiB).

        Raises:
            StaleCall: The suspension is not open; `reason` says why.
            NotPermitted: The client's principal may not decide the call. Nothing was changed.
            InvalidInput: The call has 64 votes and notes already.
        """
        return await self._asked(verbs.COMMENT, **self._noted(call), text=text, request_id=request_id)

    async def snooze(
        self, call: PendingCall[Any] | str, for_s: float, *, reason: str = "", request_id: str | None = None
    ) -> Receipt:
        """Hide a pending call from the lists of the client's principal for `for_s` seconds; 0 shows it again.

        Others still see it, and its deadline stays. `call` may be the id of the call's suspension.

        Raises:
            StaleCall: The suspension is not open; `reason` says why.
            NotPermitted: The client's principal may not decide the call. Nothing was changed.
            InvalidInput: `for_s` is no time, the client has no principal, or 64 people have it hidden already.
        """
        return await self._asked(verbs.SNOOZE, **self._noted(call), for_s=for_s, reason=reason, request_id=request_id)

    async def escalate(
        self,
        call: PendingCall[Any] | str,
        to: Approvers | Sequence[str],
        *,
        reason: str = "",
        request_id: str | None = None,
    ) -> Receipt:
        """Let others decide a pending call, in the place of those who may now, for as long as its present stage lasts.

        `to` is `Approvers`, or a list of roles and ids (`role:cfo`). Votes so far are void, the suspension keeps its id, and
        what its `on_timeout` says still follows. `call` may be the id of the call's suspension.

        Raises:
            StaleCall: The suspension is not open; `reason` says why.
            NotPermitted: The client's principal may not decide the call. Nothing was changed.
            InvalidInput: `to` cannot be used, a client is to execute the call, or it has 64 votes and notes already.
        """
        return await self._asked(verbs.ESCALATE, **self._noted(call), to=to, reason=reason, request_id=request_id)

    async def end(self, *, request_id: str | None = None) -> Receipt:
        """End the conversation for good: its pending calls are cancelled, its queued messages are dropped."""
        return await self._asked(verbs.END, request_id=request_id)

    async def retry(self) -> bool:
        """Lift the quarantine, so that work on the conversation begins again; false if it was in none."""
        return await self._asked(verbs.RETRY)

    async def _all(self, page_of: Callable[..., Awaitable[Page[Any]]]) -> list[Any]:
        """All items of a list; a page too large for a server's answer is asked for again with fewer items."""
        found: list[Any] = []
        after, limit = None, PAGE
        while True:
            try:
                page = await page_of(limit=limit, after=after)
            except ServerRefused as error:
                if error.reason != "too_large" or limit == 1:
                    raise
                limit = max(limit // 8, 1)
                continue
            found += page.items
            if page.next is None:
                return found
            after = page.next


async def resolved(
    gateway: Gateway,
    call: PendingCall[Any] | str,
    decision: Decision,
    *,
    conversation_id: str | None,
    decision_id: str | None,
    client_id: str | None,
) -> Receipt:
    """The receipt of a decision on a call as it was shown, or on a suspension of this conversation."""
    if isinstance(call, PendingCall):
        return await PendingCall.of(call, gateway.resolve).resolve(decision, decision_id=decision_id, client_id=client_id)
    check_suspension(call, conversation_id)
    ids = {"conversation_id": check_conversation_id(conversation_id), "suspension_id": call, "decision_id": decision_id}
    ids |= {} if client_id is None else {"client_id": client_id}
    return await asked(gateway, verbs.RESOLVE, **ids, decision=decision)
