"""One conversation, as a client sees it."""

import asyncio
import logging
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from types import EllipsisType
from typing import Annotated, Any, cast

from pydantic import Field, TypeAdapter

from holdfast.backoff import Backoff
from holdfast.conversation import (
    Assign,
    Cancelled,
    CancelPending,
    CancelTurn,
    Command,
    Comment,
    Decision,
    End,
    Grant,
    Principal,
    Proof,
    Receipt,
    Receipts,
    Reply,
    ResolveMany,
    Revoke,
    RevokeGiven,
    Send,
    State,
    Status,
    SuspensionKind,
    evolve,
    jsontext,
)
from holdfast.conversation import Event as LogEvent
from holdfast.conversation.events import CallSuspended, Ended, ModelAnswered, TurnCompleted, TurnFailed
from holdfast.conversation.ids import check_request_id
from holdfast.conversation.live import LiveEvent
from holdfast.conversation.transcript import Transcript
from holdfast.errors import ConversationNotFound, HoldfastError, InvalidInput, InvalidMessage, StoreUnavailable
from holdfast.persistence import Conversations, Quarantine, Store, codec
from holdfast.persistence.pages import check_limit

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
from .audit import AuditReport, Kept, kept_of, lines, report
from .batches import batch_key, batch_of
from .connection import Connection
from .large import bodies_of, judged
from .log_pages import MessagePage, message_page, turn_page
from .noting import comment_of, suspension_of, taker_of
from .results import AsyncPendingCall, ConversationState, Event, Page, PendingCall
from .running import abandoned_calls, late_results, problem_of, running_calls, shown_arguments
from .turns import Message, Turn, turn_log, what_became

BLOCK_MS = 5_000
READ_AT_ONCE = 500
AHEAD = 16
"""How many events are read ahead of whoever takes them one by one: each may be as large as a message."""
LISTEN_AGAIN_S = 0.5

logger = logging.getLogger("holdfast.client")
_LIVE: TypeAdapter[LiveEvent] = TypeAdapter(Annotated[LiveEvent, Field(discriminator="kind")])


class Conversation:
    """One conversation. `receipt` is the receipt of the `start` that made this object, else None."""

    def __init__(self, connection: Connection, conversation_id: str, *, receipt: Receipt | None = None) -> None:
        self._connection = connection
        self.id = conversation_id
        self.receipt = receipt

    def __repr__(self) -> str:
        return f"Conversation({self.id!r})"

    async def send(self, text: str, *, message_id: str | None = None) -> Receipt:
        """Send the user's next message; during a turn it queues, durably and in order.

        Args:
            text: What the user says, at most `Limits.message_bytes` bytes of UTF-8 (1 MiB).
            message_id: The idempotency key; the same key again returns the same receipt. None draws a random key.

        Raises:
            InvalidMessage: The text or the id cannot be used.
            ConversationNotFound: The conversation was never started.
            ConversationEnded: The conversation has ended.
            QueueFull: As many messages wait as the agent's `Limits.queued` allows.
            OutcomeUnknown: No acknowledgement came in time; retry with the same `message_id`.
            Overloaded: No actor came free in time, or too many commands wait for the conversation; nothing was done.
                Retry after `retry_after_ms`, with the same `message_id`.
            Quarantined: The conversation's own work took processes down; see `Conversation.retry`.
            StoreUnavailable: Redis does not answer in time, or refuses; nothing was done.
            ClusterUnavailable: Ray does not answer in time, or cannot be joined.
            ClusterStopped: Holdfast was stopped on its cluster, until `holdfast up`.
            WrongCluster: The store is bound to another Ray cluster, which lives.
            CipherMissing: Payloads are encrypted, and this client names no cipher.
            CipherFailed: The cipher cannot encrypt the new events, or decrypt the conversation; nothing was written.
            WrongStore: The Redis there is not the store that this client has known.
            CorruptStore: A key holds what Holdfast never wrote there, or the conversation cannot be taken up.
            NewerRecord: A newer Holdfast has written a record that is to be read.
            OlderRelease: A newer Holdfast serves the store.
            OtherBuild: Another build of Holdfast serves the store, or runs in the cluster.
            ConfigurationError: The store or Ray cannot be joined as configured, or the process was forked from one that had
                joined Ray.
        """
        if message_id is not None:
            check_request_id("message_id", message_id, InvalidMessage)
        message_id = message_id or uuid.uuid4().hex
        command = Send(text=text_of(text), message_id=message_id)
        return cast("Receipt", await self._reply_to(command, "the message", message_id))

    async def resolve(
        self, tool_call_id: str, decision: Decision, *, suspension_id: str | None = None, decision_id: str | None = None
    ) -> Receipt:
        """Decide a pending call of this conversation: `AsyncClient.resolve`, which raises the same errors."""
        return await self._connection.resolve(
            self.id, tool_call_id, decision, suspension_id=suspension_id, decision_id=decision_id
        )

    async def resolve_many(self, decisions: Mapping[str, Decision], *, decision_id: str | None = None) -> list[Receipt]:
        """Decide several pending calls of this conversation: all of them, or none.

        Args:
            decisions: The decisions by the `suspension_id` of the calls that were shown; at most 1,000.
            decision_id: The idempotency key; the same key and decisions again return the same receipts. None draws a key.

        Returns:
            A receipt for each decision, in the order given; that of a vote which leaves its call waiting says `settled=False`.

        Raises:
            BatchRefused: At least one cannot be taken; `errors` says which and why (`NotPermitted` and `AlreadyVoted`
                among the reasons). Nothing was decided.
            InvalidDecision: The decisions are no batch, or the id was used for others.
            ConversationNotFound: The conversation was never started.
            ConversationEnded: The conversation has ended.
            OutcomeUnknown: No acknowledgement came in time; retry with the same `decision_id`.
            Overloaded: No actor came free in time, or too many commands wait for the conversation; nothing was done.
                Retry after `retry_after_ms`, with the same `decision_id`.
            Quarantined: The conversation's own work took processes down; see `Conversation.retry`.
            StoreUnavailable: Redis does not answer in time, or refuses; nothing was done.
            ClusterUnavailable: Ray does not answer in time, or cannot be joined.
            ClusterStopped: Holdfast was stopped on its cluster, until `holdfast up`.
            WrongCluster: The store is bound to another Ray cluster, which lives.
            CipherMissing: Payloads are encrypted, and this client names no cipher.
            CipherFailed: The cipher cannot encrypt the new events, or decrypt the conversation; nothing was written.
            WrongStore: The Redis there is not the store that this client has known.
            CorruptStore: A key holds what Holdfast never wrote there, or the conversation cannot be taken up.
            NewerRecord: A newer Holdfast has written a record that is to be read.
            OlderRelease: A newer Holdfast serves the store.
            OtherBuild: Another build of Holdfast serves the store, or runs in the cluster.
            ConfigurationError: The store or Ray cannot be joined as configured, or the process was forked from one that had
                joined Ray.
        """
        key = batch_key(decision_id)
        bodies = bodies_of(*decisions.values()) if isinstance(decisions, Mapping) else []
        command = ResolveMany(decisions=await judged(partial(batch_of, decisions, key), *bodies))
        reply = cast("Receipts", await self._reply_to(command, "the decisions", key))
        return list(reply.receipts)

    async def pending(self) -> list[AsyncPendingCall]:
        """The pending calls of this conversation, in the model's order.

        Raises:
            ConversationNotFound: The conversation was never started.
            StoreUnavailable: Redis does not answer in time, or refuses.
            CipherMissing: The conversation is encrypted, and this client names no cipher.
            CipherFailed: The cipher cannot decrypt the conversation.
            WrongStore: The Redis there is not the store that this client has known.
            CorruptStore: A key holds what Holdfast never wrote there.
            NewerRecord: A newer Holdfast has written a record that is to be read.
            ConfigurationError: The store cannot be opened: there is no URL, the home is unusable, or its server is unsupported.
        """
        views = await self._connection.read(lambda store: store.pending_of(self.id))
        return [PendingCall.of(view, self._connection.resolve) for view in views]

    async def wait(self, *, after: int | None = None, timeout_s: float | None = None) -> ConversationState[Awaitable[Receipt]]:
        """The state as soon as the conversation rests (anything but generating and executing tools), or is in quarantine.

        While its new work is paused (`AsyncClient.paused`), a conversation with work to do does not rest: this call
        returns after `timeout_s`, with the state as it is, or once the conversation rests after the pause.

        Args:
            after: Only a state whose `seq` is greater counts; pass `receipt.seq` to wait for the results of a command. The last
                state of a conversation that has ended is returned at once.
            timeout_s: After how many seconds the state is returned as it is; None waits without end.

        Raises:
            InvalidInput: `after` is no place in a log, or `timeout_s` is no time.
            ConversationNotFound: The conversation was never started.
            StoreUnavailable: Redis does not answer within the client's deadline, which each read has, or refuses.
            CipherMissing: The conversation is encrypted, and this client names no cipher.
            CipherFailed: The cipher cannot decrypt the conversation.
            WrongStore: The Redis there is not the store that this client has known.
            CorruptStore: A key holds what Holdfast never wrote there.
            NewerRecord: A newer Holdfast has written a record that is to be read.
            ConfigurationError: The store cannot be opened: there is no URL, the home is unusable, or its server is unsupported.
        """
        if after is not None:
            check_place(after)
        if timeout_s is not None and not is_time(timeout_s):
            raise InvalidInput("timeout_s", f"{timeout_s!r:.40} is no time", "give seconds, or None to wait without end")
        read, loop = self._connection.read, asyncio.get_running_loop()
        give_up = None if timeout_s is None else loop.time() + timeout_s

        async def found(store: Conversations) -> tuple[State, Quarantine | None]:
            return await asyncio.gather(store.load(self.id), store.quarantine(self.id))  # in one round trip

        state, quarantine = await read(found)
        while quarantine is None and not _rests(state, after):
            left_ms = BLOCK_MS if give_up is None else min(BLOCK_MS, int((give_up - loop.time()) * 1000))
            if left_ms <= 0:
                break
            for _, event in await self._news(state.seq, left_ms):
                state = evolve(state, event)
            if not _rests(state, after):
                quarantine = await read(lambda store: store.quarantine(self.id))
        return await read(lambda store: self._shown(store, state))

    async def state(self) -> ConversationState[Awaitable[Receipt]]:
        """The state as it is now.

        Raises:
            ConversationNotFound: The conversation was never started.
            StoreUnavailable: Redis does not answer in time, or refuses.
            CipherMissing: The conversation is encrypted, and this client names no cipher.
            CipherFailed: The cipher cannot decrypt the conversation.
            WrongStore: The Redis there is not the store that this client has known.
            CorruptStore: A key holds what Holdfast never wrote there.
            NewerRecord: A newer Holdfast has written a record that is to be read.
            ConfigurationError: The store cannot be opened: there is no URL, the home is unusable, or its server is unsupported.
        """
        return await self.wait(timeout_s=0)

    async def messages(self) -> list[dict[str, Any]]:
        """The messages in the OpenAI chat format, as dicts with `role` and `content`, without the system message.

        Raises:
            ConversationNotFound: The conversation was never started.
            StoreUnavailable: Redis does not answer in time, or refuses.
            CipherMissing: The conversation is encrypted, and this client names no cipher.
            CipherFailed: The cipher cannot decrypt the conversation.
            WrongStore: The Redis there is not the store that this client has known.
            CorruptStore: A key holds what Holdfast never wrote there.
            NewerRecord: A newer Holdfast has written a record that is to be read.
            ConfigurationError: The store cannot be opened: there is no URL, the home is unusable, or its server is unsupported.
        """
        transcript = await self._connection.read(self._transcript)
        if transcript.seq == 0:
            raise ConversationNotFound(self.id)
        return transcript.messages()

    async def messages_page(self, *, limit: int = 50, after: str | None = None) -> MessagePage:
        """A page of the messages, oldest first, read from its place in the log.

        Args:
            limit: How many messages the page may have, 1 to 1000. It has fewer, and a `next`, where they fill 8 MiB.
            after: The `next` of the page before.

        Raises:
            InvalidInput: The limit or the cursor is not valid.
            ConversationNotFound: The conversation was never started.
            StoreUnavailable: Redis does not answer in time, or refuses.
            CipherMissing: The conversation is encrypted, and this client names no cipher.
            CipherFailed: The cipher cannot decrypt the conversation.
            WrongStore: The Redis there is not the store that this client has known.
            CorruptStore: A key holds what Holdfast never wrote there.
            NewerRecord: A newer Holdfast has written a record that is to be read.
            ConfigurationError: The store cannot be opened: there is no URL, the home is unusable, or its server is unsupported.
        """
        return await self._connection.read(lambda store: message_page(store, self.id, limit, after))

    async def turns_page(self, *, limit: int = 50, after: str | None = None) -> Page[Turn]:
        """A page of the turns that have begun, oldest first, read from its place in the log.

        Args:
            limit: How many turns the page may have, 1 to 1000. It may have fewer, and a `next`, where they are long.
            after: The `next` of the page before.

        Raises:
            InvalidInput: The limit or the cursor is not valid.
            ConversationNotFound: The conversation was never started.
            StoreUnavailable: Redis does not answer in time, or refuses.
            CipherMissing: The conversation is encrypted, and this client names no cipher.
            CipherFailed: The cipher cannot decrypt the conversation.
            WrongStore: The Redis there is not the store that this client has known.
            CorruptStore: A key holds what Holdfast never wrote there.
            NewerRecord: A newer Holdfast has written a record that is to be read.
            ConfigurationError: The store cannot be opened: there is no URL, the home is unusable, or its server is unsupported.
        """
        return await self._connection.read(lambda store: turn_page(store, self.id, limit, after))

    async def turns(self) -> list[Turn]:
        """The turns that have begun, oldest first; the log is read as a whole.

        Raises:
            ConversationNotFound: The conversation was never started.
            StoreUnavailable: Redis does not answer in time, or refuses.
            CipherMissing: The conversation is encrypted, and this client names no cipher.
            CipherFailed: The cipher cannot decrypt the conversation.
            WrongStore: The Redis there is not the store that this client has known.
            CorruptStore: A key holds what Holdfast never wrote there.
            NewerRecord: A newer Holdfast has written a record that is to be read.
            ConfigurationError: The store cannot be opened: there is no URL, the home is unusable, or its server is unsupported.
        """
        return (await self._connection.read(lambda store: turn_log(store, self.id))).turns()

    async def turn(self, turn_id: str) -> Turn:
        """The turn of that id: where it stands, its reply or error, and what it used.

        Raises:
            TurnNotFound: The conversation has had no turn of that id.
            ConversationNotFound: The conversation was never started.
            StoreUnavailable: Redis does not answer in time, or refuses.
            CipherMissing: The conversation is encrypted, and this client names no cipher.
            CipherFailed: The cipher cannot decrypt the conversation.
            WrongStore: The Redis there is not the store that this client has known.
            CorruptStore: A key holds what Holdfast never wrote there.
            NewerRecord: A newer Holdfast has written a record that is to be read.
            ConfigurationError: The store cannot be opened: there is no URL, the home is unusable, or its server is unsupported.
        """
        return (await self._connection.read(lambda store: turn_log(store, self.id))).turn(turn_id)

    async def message(self, message_id: str) -> Message:
        """What became of the message that was sent, or started with, under that id.

        Raises:
            InvalidMessage: The id cannot be used.
            MessageNotFound: The conversation was never sent a message of that id.
            ConversationNotFound: The conversation was never started.
            StoreUnavailable: Redis does not answer in time, or refuses.
            CipherMissing: The conversation is encrypted, and this client names no cipher.
            CipherFailed: The cipher cannot decrypt the conversation.
            WrongStore: The Redis there is not the store that this client has known.
            CorruptStore: A key holds what Holdfast never wrote there.
            NewerRecord: A newer Holdfast has written a record that is to be read.
            ConfigurationError: The store cannot be opened: there is no URL, the home is unusable, or its server is unsupported.
        """
        checked = check_request_id("message_id", message_id, InvalidMessage)
        return await self._connection.read(lambda store: what_became(store, self.id, checked))

    async def _transcript(self, store: Conversations) -> Transcript:
        transcript = Transcript()
        while True:
            entries = await store.read(self.id, after=transcript.seq, limit=READ_AT_ONCE)
            for seq, event in entries:
                transcript.add(seq, event)
            if not entries:
                return transcript

    async def events(self, *, after: int = 0, live: bool = True) -> AsyncGenerator[Event, None]:
        """The events after `after`: recorded events in order and without gaps, live events as they come.

        The stream ends with the conversation; leave the loop to stop earlier. `docs/events.md` lists all kinds of events.

        Args:
            after: The `seq` of the last event that is known already; 0 begins with the conversation.
            live: Whether live events are wanted too.

        Raises:
            InvalidInput: `after` is no place in a log.
            ConversationNotFound: The conversation was never started.
            StoreUnavailable: Redis does not answer within the client's deadline, which each read has, or refuses.
            CipherMissing: The conversation is encrypted, and this client names no cipher.
            CipherFailed: The cipher cannot decrypt the conversation.
            WrongStore: The Redis there is not the store that this client has known.
            CorruptStore: A key holds what Holdfast never wrote there.
            NewerRecord: A newer Holdfast has written a record that is to be read.
            ConfigurationError: The store cannot be opened: there is no URL, the home is unusable, or its server is unsupported.
        """
        check_place(after)
        state = await self._connection.read(lambda store: store.load(self.id))
        if state.ended and after >= state.seq:
            return
        queue: asyncio.Queue[Event | BaseException] = asyncio.Queue(maxsize=AHEAD)
        tasks = [asyncio.create_task(_relayed(queue, self._durable(after)))]
        if live:
            tasks.append(asyncio.create_task(_relayed(queue, self._live())))
        try:
            while True:
                event = await queue.get()
                if isinstance(event, BaseException):
                    raise event
                yield event
                if event.kind == "conversation_ended":
                    return
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def latest(self, limit: int = 400) -> list[Event]:
        """The latest recorded events, oldest first, without the arguments of suspended calls.

        Args:
            limit: How many events are wanted, 1 to 1000. They are fewer where they have more than 8 MiB.

        Raises:
            InvalidInput: The limit is not valid.
            ConversationNotFound: The conversation was never started.
            StoreUnavailable: Redis does not answer in time, or refuses.
            CipherMissing: The conversation is encrypted, and this client names no cipher.
            CipherFailed: The cipher cannot decrypt the conversation.
            WrongStore: The Redis there is not the store that this client has known.
            CorruptStore: A key holds what Holdfast never wrote there.
            NewerRecord: A newer Holdfast has written a record that is to be read.
            ConfigurationError: The store cannot be opened: there is no URL, the home is unusable, or its server is unsupported.
        """
        check_limit(limit)
        state = await self._connection.read(lambda store: store.load(self.id))
        found = await self._connection.read(lambda store: store.read(self.id, before=state.seq + 1, limit=limit))
        return [Event.recorded(seq, event) for seq, event in found]

    async def cancel(self, turn_id: str | None = None, *, wait_s: float = 0, request_id: str | None = None) -> Cancelled:
        """Cancel the turn; returns what was cancelled: the turn's id (None if no turn was open) and the ids of its open calls.

        Bodies that run are not interrupted; they see it as `ToolContext.cancelled`.

        Args:
            turn_id: The only turn that is meant; once that is over, nothing is cancelled. None cancels whichever goes on.
            wait_s: For how many seconds to wait, at most, until no body of the cancelled calls goes on any more. The calls of
                those that still do are `Cancelled.running` then; a thread that goes on beyond `run_timeout_s` is not seen. How
                long the answer itself may take is another matter.
            request_id: The idempotency key; the same key again returns what was cancelled then. None draws a random key.

        Raises:
            InvalidInput: The id or `wait_s` cannot be used, or the id was used for another request.
            TurnNotFound: The conversation has had no turn of the id `turn_id`.
            ConversationNotFound: The conversation was never started.
            ConversationEnded: The conversation has ended.
            OutcomeUnknown: No acknowledgement came in time; retry with the same `request_id`.
            Overloaded: No actor came free in time, or too many commands wait for the conversation; nothing was done.
                Retry after `retry_after_ms`, with the same `request_id`.
            Quarantined: The conversation's own work took processes down; see `Conversation.retry`.
            StoreUnavailable: Redis does not answer in time, or refuses; nothing was done.
            ClusterUnavailable: Ray does not answer in time, or cannot be joined.
            ClusterStopped: Holdfast was stopped on its cluster, until `holdfast up`.
            WrongCluster: The store is bound to another Ray cluster, which lives.
            CipherMissing: Payloads are encrypted, and this client names no cipher.
            CipherFailed: The cipher cannot encrypt the new events, or decrypt the conversation; nothing was written.
            WrongStore: The Redis there is not the store that this client has known.
            CorruptStore: A key holds what Holdfast never wrote there, or the conversation cannot be taken up.
            NewerRecord: A newer Holdfast has written a record that is to be read.
            OlderRelease: A newer Holdfast serves the store.
            OtherBuild: Another build of Holdfast serves the store, or runs in the cluster.
            ConfigurationError: The store or Ray cannot be joined as configured, or the process was forked from one that had
                joined Ray.
        """
        request_id = request_id_of(request_id)
        check_cancelling(turn_id, wait_s)
        command = CancelTurn(request_id=request_id, turn_id=turn_id)
        cancelled = cast("Cancelled", await self._reply_to(command, "the cancellation", request_id))
        if not wait_s or not cancelled.calls:
            return cancelled
        try:
            running = await self._going_on(cancelled.calls, wait_s)
        except HoldfastError as error:  # the cancellation itself is acknowledged
            logger.warning("which bodies of %s go on is not known: %s", self.id, error)
            running = cancelled.calls
        return cancelled.model_copy(update={"running": running})

    async def cancel_pending(
        self, kind: SuspensionKind | str | None = None, reason: str = "", *, request_id: str | None = None
    ) -> Cancelled:
        """Cancel the calls that wait, each with an error result that the model reads; the turn goes on without them.

        Args:
            kind: The only kind of suspension that is meant (`approval`, `elicitation`, `client_exec`, `lost`, `review`); None
                for all.
            reason: Why, for the model, at most 1 KiB.
            request_id: The idempotency key; the same key again returns what was cancelled then. None draws a random key.

        Returns:
            The turn and the calls; no turn where nothing waited.

        Raises:
            InvalidInput: The id, the kind or the reason cannot be used, or the id was used for another request.
            ConversationNotFound: The conversation was never started.
            ConversationEnded: The conversation has ended.
            OutcomeUnknown: No acknowledgement came in time; retry with the same `request_id`.
            Overloaded: No actor came free in time, or too many commands wait for the conversation; nothing was done.
                Retry after `retry_after_ms`, with the same `request_id`.
            Quarantined: The conversation's own work took processes down; see `Conversation.retry`.
            StoreUnavailable: Redis does not answer in time, or refuses; nothing was done.
            ClusterUnavailable: Ray does not answer in time, or cannot be joined.
            ClusterStopped: Holdfast was stopped on its cluster, until `holdfast up`.
            WrongCluster: The store is bound to another Ray cluster, which lives.
            CipherMissing: Payloads are encrypted, and this client names no cipher.
            CipherFailed: The cipher cannot encrypt the new events, or decrypt the conversation; nothing was written.
            WrongStore: The Redis there is not the store that this client has known.
            CorruptStore: A key holds what Holdfast never wrote there, or the conversation cannot be taken up.
            NewerRecord: A newer Holdfast has written a record that is to be read.
            OlderRelease: A newer Holdfast serves the store.
            OtherBuild: Another build of Holdfast serves the store, or runs in the cluster.
            ConfigurationError: The store or Ray cannot be joined as configured, or the process was forked from one that had
                joined Ray.
        """
        request_id = request_id_of(request_id)
        kind = member_of(SuspensionKind, "kind", kind)
        command = CancelPending(request_id=request_id, suspension_kind=kind, reason=reason_of(reason))
        return cast("Cancelled", await self._reply_to(command, "the cancellation", request_id))

    async def grants(self) -> list[Grant]:
        """The grants that stand, by the store's clock, in the order in which they were given; none once it has ended.

        Raises:
            ConversationNotFound: The conversation was never started.
            StoreUnavailable: Redis does not answer in time, or refuses.
            CipherMissing: The conversation is encrypted, and this client names no cipher.
            CipherFailed: The cipher cannot decrypt the conversation.
            WrongStore: The Redis there is not the store that this client has known.
            CorruptStore: A key holds what Holdfast never wrote there.
            NewerRecord: A newer Holdfast has written a record that is to be read.
            ConfigurationError: The store cannot be opened: there is no URL, the home is unusable, or its server is unsupported.
        """

        async def found(store: Store) -> tuple[State, int]:
            return await asyncio.gather(store.load(self.id), store.now())  # in one round trip

        state, now = await self._connection.read(found)
        return [] if state.ended else [grant for grant in state.grants if grant.stands(now)]

    async def revoke(self, grant_id: str, reason: str = "", *, request_id: str | None = None) -> Receipt:
        """End a grant: nothing begins by it once this has returned. What it let run and had not begun is asked about.

        Args:
            grant_id: The grant, as `grants` lists it.
            reason: Why, for the log, at most 1 KiB.
            request_id: The idempotency key; the same key again returns the same receipt. None draws a random key.

        Raises:
            InvalidInput: The conversation has no such grant, the id or the reason cannot be used, or the `request_id` was used
                for another request.
            ConversationNotFound: The conversation was never started.
            ConversationEnded: The conversation has ended.
            OutcomeUnknown: No acknowledgement came in time; retry with the same `request_id`.
            Overloaded: No actor came free in time, or too many commands wait for the conversation; nothing was done.
                Retry after `retry_after_ms`, with the same `request_id`.
            Quarantined: The conversation's own work took processes down; see `Conversation.retry`.
            StoreUnavailable: Redis does not answer in time, or refuses; nothing was done.
            ClusterUnavailable: Ray does not answer in time, or cannot be joined.
            ClusterStopped: Holdfast was stopped on its cluster, until `holdfast up`.
            WrongCluster: The store is bound to another Ray cluster, which lives.
            CipherMissing: Payloads are encrypted, and this client names no cipher.
            CipherFailed: The cipher cannot encrypt the new events, or decrypt the conversation; nothing was written.
            WrongStore: The Redis there is not the store that this client has known.
            CorruptStore: A key holds what Holdfast never wrote there, or the conversation cannot be taken up.
            NewerRecord: A newer Holdfast has written a record that is to be read.
            OlderRelease: A newer Holdfast serves the store.
            OtherBuild: Another build of Holdfast serves the store, or runs in the cluster.
            ConfigurationError: The store or Ray cannot be joined as configured, or the process was forked from one that had
                joined Ray.
        """
        request_id = request_id_of(request_id)
        command = Revoke(request_id=request_id, grant_id=grant_id_of(grant_id), reason=reason_of(reason))
        return cast("Receipt", await self._reply_to(command, "the revocation", request_id))

    async def revoke_given(
        self, by: str, reason: str = "", *, proof: Proof | str | None = None, request_id: str | None = None
    ) -> Receipt:
        """End what a principal has given here: its grants, as `revoke` does, and its votes in calls that still wait.

        Args:
            by: The principal's id, however it is spelled.
            reason: Why, for the log, at most 1 KiB.
            proof: Only what was given by somebody who was proven in this way; None: in whatever way.
            request_id: The idempotency key; the same key again returns the same receipt. None draws a random key.

        Raises:
            InvalidInput: It has given nothing that stands here, the id, the proof or the reason cannot be used, or the
                `request_id` was used for another request.
            HoldfastError: As `revoke`.
        """
        request_id = request_id_of(request_id)
        command = RevokeGiven(
            request_id=request_id, by=giver_of(by), proof=member_of(Proof, "proof", proof), reason=reason_of(reason)
        )
        return cast("Receipt", await self._reply_to(command, "the revocation", request_id))

    async def audit(self, *, receipts: Sequence[Kept] | Kept = ()) -> AuditReport:
        """Check the chain of this conversation, and list it: who asked or decided, when, what was shown, what was decided, why.

        Every link is computed anew from the log, and held against the heads that stand there and in the conversation's state.
        What is wrong or cannot be read makes a report that is not `intact`, and hides nothing of the rest.

        Args:
            receipts: Receipts that somebody has kept, or their `audit_head`, at most 1,000: each has to be in the chain. One
                that is not shows that the log was cut off, or written anew as a whole.

        Raises:
            InvalidInput: `receipts` has something else than receipts of this conversation, or too many.
            ConversationNotFound: The conversation was never started.
            StoreUnavailable: Redis does not answer in time, or refuses.
            CipherMissing: The conversation is encrypted, and this client names no cipher.
            CipherFailed: The cipher can decrypt nothing of the conversation.
            WrongStore: The Redis there is not the store that this client has known.
            ConfigurationError: The store cannot be opened: there is no URL, the home is unusable, or its server is unsupported.
        """
        return await report(self._connection.read, self.id, kept_of(receipts, self.id))

    async def audit_lines(
        self, *, after: int = 0, receipts: Sequence[Kept] | Kept = ()
    ) -> AsyncGenerator[dict[str, Any], None]:
        """The audit as lines for an archive, one by one: the entries, and as the last line the verdict on the whole chain.

        An entry has the fields of `AuditEntry`; the last line has the `kind` `audit_report`. An export that goes on after the
        one before (`after`) overlaps it by one head: its first entry's `previous` is the `head` of the last one there.

        Args:
            after: Only entries whose `seq` is greater; all are checked.
            receipts: As in `audit`.

        Raises:
            InvalidInput: `after` is no place in a log, or `receipts` as in `audit`.
            ConversationNotFound: The conversation was never started.
            StoreUnavailable: Redis does not answer in time, or refuses.
            CipherMissing: The conversation is encrypted, and this client names no cipher.
            CipherFailed: The cipher can decrypt nothing of the conversation.
            WrongStore: The Redis there is not the store that this client has known.
            ConfigurationError: The store cannot be opened: there is no URL, the home is unusable, or its server is unsupported.
        """
        check_place(after)
        async with aclosing(lines(self._connection.read, self.id, kept_of(receipts, self.id), after)) as found:
            async for line in found:
                yield line

    async def assign(
        self,
        call: PendingCall[Any] | str,
        to: Principal | str | EllipsisType | None = ...,
        *,
        request_id: str | None = None,
    ) -> Receipt:
        """Note who takes a pending call on: whoever may decide it sees that (`PendingCall.assigned`). It decides nothing.

        Args:
            call: The pending call, or the id of its suspension.
            to: Who takes it on: a principal, or its id; by default whoever this client acts as. None or "" gives it back.
            request_id: The idempotency key; the same key again returns the same receipt. None draws a random key.

        Raises:
            StaleCall: The suspension is not open; `reason` says why.
            NotPermitted: Whoever this client acts as is none of those who may decide the call. Nothing was changed.
            InvalidInput: The call, the name or the id cannot be used, nobody is named and the client acts as nobody, the call
                has 64 votes and notes already, or the `request_id` was used for another request.
            ConversationNotFound: The conversation was never started.
            ConversationEnded: The conversation has ended.
            OutcomeUnknown: No acknowledgement came in time; retry with the same `request_id`.
            Overloaded: No actor came free in time, or too many commands wait for the conversation; nothing was done.
                Retry after `retry_after_ms`, with the same `request_id`.
            Quarantined: The conversation's own work took processes down; see `Conversation.retry`.
            StoreUnavailable: Redis does not answer in time, or refuses; nothing was done.
            ClusterUnavailable: Ray does not answer in time, or cannot be joined.
            ClusterStopped: Holdfast was stopped on its cluster, until `holdfast up`.
            WrongCluster: The store is bound to another Ray cluster, which lives.
            CipherMissing: Payloads are encrypted, and this client names no cipher.
            CipherFailed: The cipher cannot encrypt the new events, or decrypt the conversation; nothing was written.
            WrongStore: The Redis there is not the store that this client has known.
            CorruptStore: A key holds what Holdfast never wrote there, or the conversation cannot be taken up.
            NewerRecord: A newer Holdfast has written a record that is to be read.
            OlderRelease: A newer Holdfast serves the store.
            OtherBuild: Another build of Holdfast serves the store, or runs in the cluster.
            ConfigurationError: The store or Ray cannot be joined as configured, or the process was forked from one that had
                joined Ray.
        """
        request_id = request_id_of(request_id)
        suspension_id, taker = suspension_of(call, self.id), taker_of(to, self._connection.principal)
        tool_call_id = await self._noted_call(call, suspension_id)
        command = Assign(tool_call_id=tool_call_id, suspension_id=suspension_id, to=taker, request_id=request_id)
        return cast("Receipt", await self._reply_to(command, "the assignment", request_id))

    async def comment(self, call: PendingCall[Any] | str, text: str, *, request_id: str | None = None) -> Receipt:
        """Write to the others who may decide a pending call (`PendingCall.comments`). The model does not read it.

        Args:
            call: The pending call, or the id of its suspension.
            text: The comment, 1 byte to the agent's `Limits.note_bytes` of UTF-8 (4 KiB).
            request_id: The idempotency key; the same key again returns the same receipt. None draws a random key.

        Raises:
            StaleCall: The suspension is not open; `reason` says why.
            NotPermitted: Whoever this client acts as is none of those who may decide the call. Nothing was changed.
            InvalidInput: The call, the text or the id cannot be used, the call has 64 votes and notes already, or the
                `request_id` was used for another request.
            ConversationNotFound: The conversation was never started.
            ConversationEnded: The conversation has ended.
            OutcomeUnknown: No acknowledgement came in time; retry with the same `request_id`.
            Overloaded: No actor came free in time, or too many commands wait for the conversation; nothing was done.
                Retry after `retry_after_ms`, with the same `request_id`.
            Quarantined: The conversation's own work took processes down; see `Conversation.retry`.
            StoreUnavailable: Redis does not answer in time, or refuses; nothing was done.
            ClusterUnavailable: Ray does not answer in time, or cannot be joined.
            ClusterStopped: Holdfast was stopped on its cluster, until `holdfast up`.
            WrongCluster: The store is bound to another Ray cluster, which lives.
            CipherMissing: Payloads are encrypted, and this client names no cipher.
            CipherFailed: The cipher cannot encrypt the new events, or decrypt the conversation; nothing was written.
            WrongStore: The Redis there is not the store that this client has known.
            CorruptStore: A key holds what Holdfast never wrote there, or the conversation cannot be taken up.
            NewerRecord: A newer Holdfast has written a record that is to be read.
            OlderRelease: A newer Holdfast serves the store.
            OtherBuild: Another build of Holdfast serves the store, or runs in the cluster.
            ConfigurationError: The store or Ray cannot be joined as configured, or the process was forked from one that had
                joined Ray.
        """
        request_id = request_id_of(request_id)
        suspension_id, said = suspension_of(call, self.id), comment_of(text)
        tool_call_id = await self._noted_call(call, suspension_id)
        command = Comment(tool_call_id=tool_call_id, suspension_id=suspension_id, text=said, request_id=request_id)
        return cast("Receipt", await self._reply_to(command, "the comment", request_id))

    async def _noted_call(self, call: PendingCall[Any] | str, suspension_id: str) -> str:
        """The id of the call that a suspension is of, also of one that was settled; empty where there was none."""
        if isinstance(call, PendingCall) and call.tool_call_id:
            return call.tool_call_id
        state = await self._connection.read(lambda store: store.load(self.id))
        for one in state.calls:
            if one.suspension is not None and one.suspension.suspension_id == suspension_id:
                return one.tool_call_id
        return (await self._connection.settled(suspension_id, self.id)).tool_call_id

    async def end(self, *, request_id: str | None = None) -> Receipt:
        """End the conversation for good: its pending calls are cancelled, its queued messages are dropped.

        Args:
            request_id: The idempotency key; the same key again returns the same receipt. None draws a random key.

        Raises:
            InvalidInput: The id cannot be used, or was used for another request.
            ConversationNotFound: The conversation was never started.
            ConversationEnded: The conversation has ended, by another request.
            OutcomeUnknown: No acknowledgement came in time; retry with the same `request_id`.
            Overloaded: No actor came free in time, or too many commands wait for the conversation; nothing was done.
                Retry after `retry_after_ms`, with the same `request_id`.
            Quarantined: The conversation's own work took processes down; see `Conversation.retry`.
            StoreUnavailable: Redis does not answer in time, or refuses; nothing was done.
            ClusterUnavailable: Ray does not answer in time, or cannot be joined.
            ClusterStopped: Holdfast was stopped on its cluster, until `holdfast up`.
            WrongCluster: The store is bound to another Ray cluster, which lives.
            CipherMissing: Payloads are encrypted, and this client names no cipher.
            CipherFailed: The cipher cannot encrypt the new events, or decrypt the conversation; nothing was written.
            WrongStore: The Redis there is not the store that this client has known.
            CorruptStore: A key holds what Holdfast never wrote there, or the conversation cannot be taken up.
            NewerRecord: A newer Holdfast has written a record that is to be read.
            OlderRelease: A newer Holdfast serves the store.
            OtherBuild: Another build of Holdfast serves the store, or runs in the cluster.
            ConfigurationError: The store or Ray cannot be joined as configured, or the process was forked from one that had
                joined Ray.
        """
        request_id = request_id_of(request_id)
        return cast("Receipt", await self._reply_to(End(request_id=request_id), "the end", request_id))

    async def retry(self) -> bool:
        """Lift the quarantine, so that the conversation is taken up again; false if it was in none.

        Raises:
            StoreUnavailable: Redis does not answer in time, or refuses; the call may be repeated.
            WrongStore: The Redis there is not the store that this client has known.
            CorruptStore: A key holds what Holdfast never wrote there.
            NewerRecord: A newer Holdfast has written a record that is to be read.
            ConfigurationError: The store cannot be opened: there is no URL, the home is unusable, or its server is unsupported.
        """
        return await self._connection.read(lambda store: store.retry(self.id))

    async def _going_on(self, calls: Sequence[str], within_s: float) -> tuple[str, ...]:
        """Those of the calls whose bodies still go on, once none does or the time is over."""
        loop, pauses = asyncio.get_running_loop(), Backoff(0.05, 1.0)
        give_up = loop.time() + within_s
        while True:
            running = await self._connection.read(lambda store: abandoned_calls(store, self.id, calls))
            left_s = give_up - loop.time()
            if not running or left_s <= 0:
                return running
            await asyncio.sleep(min(pauses.next_s(), left_s))

    async def _reply_to(self, command: Command, what: str, retry_id: str) -> Reply:
        return await self._connection.reply_to(self.id, command, what=what, retry_id=retry_id)

    async def _shown(self, store: Store, state: State) -> ConversationState[Awaitable[Receipt]]:
        last, reply, end = state.last, None, None
        seqs = [] if last is None else [last.reply_seq or last.seq, last.seq]
        quarantine, entries, late, problem = await asyncio.gather(  # in one round trip
            store.quarantine(self.id), store.at(self.id, seqs), late_results(store, self.id), problem_of(store, state.app)
        )
        if entries:
            answer, end = entries
            reply = answer.content if isinstance(answer, ModelAnswered) else None
        error = end.error if isinstance(end, TurnFailed) else None
        views = await store.pending_of(self.id) if any(call.suspension is not None for call in state.calls) else []
        turn_id = state.turn.turn_id if state.turn is not None else (last.turn_id if last is not None else None)
        return ConversationState(
            conversation_id=self.id,
            status=state.status if quarantine is None else Status.QUARANTINED,
            turn_id=turn_id,
            reply=reply,
            error=error if quarantine is None else quarantine.reason,
            pending=[PendingCall.of(view, self._connection.resolve) for view in views],
            running=await running_calls(store, state),
            seq=state.seq,
            stopped=end.stopped if isinstance(end, TurnCompleted) else None,
            failed=end.reason if isinstance(end, TurnFailed) else None,
            agent=state.agent,
            app=state.app,
            created_at=state.created_at,
            updated_at=state.updated_at,
            problem=problem,
            late=late,
            attended=state.attended,
        )

    async def _durable(self, after: int) -> AsyncIterator[Event]:
        while True:
            for seq, event in await self._news(after, BLOCK_MS, limit=AHEAD):
                after = seq
                arguments = None
                if isinstance(event, CallSuspended):
                    arguments = await self._arguments(event)
                yield Event.recorded(seq, event, arguments=arguments)
                if isinstance(event, Ended):
                    return

    async def _arguments(self, event: CallSuspended) -> dict[str, Any] | None:
        return await self._connection.read(lambda store: shown_arguments(store, self.id, event))

    async def _news(self, after: int, block_ms: int, *, limit: int = READ_AT_ONCE) -> Sequence[tuple[int, LogEvent]]:
        """The events after a place in the log, awaited for `block_ms`; if none comes, a dead embedded Ray is restarted."""
        entries = await self._connection.read(
            lambda store: store.read(self.id, after=after, limit=limit, block_ms=block_ms), block_ms=block_ms
        )
        if not entries:
            await self._connection.stack.see_to_ray()
        return entries

    async def _live(self) -> AsyncIterator[Event]:
        store = await self._connection.store()
        while True:
            try:
                async for payload in store.listen(self.id):
                    event = _live_event(payload)
                    if event is not None:
                        yield event
            except StoreUnavailable as error:  # live events are lossy; the durable stream says whether the store is gone
                logger.debug("live events of %s are interrupted: %s", self.id, error)
                await asyncio.sleep(LISTEN_AGAIN_S)


def _rests(state: State, after: int | None) -> bool:
    """Whether the conversation rests, beyond the place `after` in its log."""
    return state.resting and (after is None or state.seq > after or state.ended)


def _live_event(payload: bytes) -> Event | None:
    """The live event in a payload; None if this release cannot read what another one wrote: live events are lossy."""
    try:
        kind, effect_id, attempt, at, value = codec.unpack(payload)
        told = {"text": value} if kind in {"text_delta", "reasoning_delta"} else jsontext.loads(value)
        fields = {**told, "kind": kind, "effect_id": effect_id, "attempt": attempt, "at": at}
        return Event.live(_LIVE.validate_python(fields))
    except (ValueError, TypeError) as error:
        logger.debug("a live event cannot be read: %s", error)
        return None


async def _relayed(queue: "asyncio.Queue[Event | BaseException]", source: AsyncIterator[Event]) -> None:
    try:
        async for event in source:
            await queue.put(event)
    except asyncio.CancelledError:
        raise
    except BaseException as error:  # noqa: BLE001 - it is raised again where the events are read
        await queue.put(error)
