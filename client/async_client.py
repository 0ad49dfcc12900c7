"""The client: starts conversations, sends, resolves, lists what waits. `Client` is its blocking face."""

import asyncio
import logging
import math
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar, cast

from holdfast.conversation import (
    Cancel,
    Cancelled,
    Command,
    ConversationNotFound,
    Decision,
    End,
    InvalidDecision,
    InvalidInput,
    InvalidMessage,
    Receipt,
    Reply,
    Resolve,
    Ruling,
    Send,
    StaleCall,
    StaleReason,
    Start,
    State,
    Status,
    StoreUnavailable,
    SuspensionKind,
    Transcript,
    decide,
    evolve,
    jsontext,
)
from holdfast.conversation.events import ConversationEnded as EndedEvent
from holdfast.conversation.events import ModelAnswered, TurnFailed
from holdfast.conversation.ids import check_conversation_id, check_request_id, conversation_id_from
from holdfast.persistence import RedisStore, codec
from holdfast.registry import Settings

from .records import AsyncPendingCall, ConversationRow, ConversationState, Event, Page, PendingCall
from .stack import Stack

if TYPE_CHECKING:
    from holdfast.agent import App

BLOCK_MS = 5_000
READ_AT_ONCE = 500
LAST_PLACE = 1 << 63
LISTEN_AGAIN_S = 0.5

logger = logging.getLogger("holdfast.client")

_T = TypeVar("_T")


class AsyncClient:
    """A client of the conversations in one namespace of one store. Make it with `connect`; it does no I/O until used.

    One client belongs to one event loop; make another for another.
    """

    def __init__(self, stack: Stack, *, timeout_s: float) -> None:
        self._stack = stack
        self._timeout_s = timeout_s

    @classmethod
    def connect(
        cls,
        app: "App | str | None" = None,
        *,
        redis_url: str | None = None,
        ray_address: str | None = None,
        namespace: str | None = None,
        embedded: bool | None = None,
        timeout_s: float = 30,
        home: str | Path | None = None,
    ) -> Self:
        """A client; nothing is connected yet, so it is safe before a fork.

        Args:
            app: The `App` or its import path (`package.module:app`); only `start` needs it.
            redis_url: Where the conversations are; without it, the embedded server of the home.
            ray_address: Where the actors run; without it, the embedded Ray of the home.
            namespace: Which conversations of the store (`[a-z0-9][a-z0-9_-]{0,62}`).
            embedded: Whether the embedded default may be used; False in production.
            timeout_s: The deadline of each call.
            home: The home of the embedded stack.

        Raises:
            ConfigurationError: A setting has the wrong type, or does not go with another.
        """
        if app is not None and not isinstance(app, str) and not _is_app(app):
            raise InvalidInput("app", f"{type(app).__name__} is no app", "give an App or its import path")
        if not _is_time(timeout_s) or timeout_s <= 0:
            raise InvalidInput("timeout_s", f"{timeout_s!r:.40} is no time", "give seconds, more than 0")
        settings = Settings.of(redis_url=redis_url, ray_address=ray_address, namespace=namespace, embedded=embedded, home=home)
        return cls(Stack(settings, app), timeout_s=timeout_s)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Give up the connections. The embedded stack goes on; conversations do too."""
        await self._stack.close()

    async def start(
        self,
        agent: str,
        text: str,
        *,
        conversation_id: str | None = None,
        message_id: str | None = None,
        context: Any = None,
    ) -> "Conversation":
        """Start a conversation with an agent of the app; returns once that is durable.

        Args:
            agent: The agent's name.
            text: The user's first message.
            conversation_id: Its id; without one, it is derived from `message_id`, so that one id is enough to retry.
            message_id: The idempotency key of the first message.
            context: Any JSON value, given to tools as `ToolContext.context`; the model does not see it.

        Raises:
            AgentNotFound: The app has no such agent.
            ConversationExists: The id was started with something else.
            InvalidMessage: The text, the message id or the context cannot be used.
            OutcomeUnknown: No acknowledgement in time; retry with the same `message_id`.
        """
        if conversation_id is not None:
            check_conversation_id(conversation_id)
        if message_id is not None:
            check_request_id("message_id", message_id, InvalidMessage)
        message_id = message_id or (f"start:{conversation_id}" if conversation_id is not None else uuid.uuid4().hex)
        conversation_id = conversation_id or conversation_id_from(message_id)
        app = self._stack.app()
        command = Start(
            agent=agent,
            app=cast("str", self._stack.app_path),
            text=_text(text),
            message_id=message_id,
            context=_context(context),
            spec=app.agent(agent).spec,
        )
        decide(State(conversation_id=conversation_id), command)  # what is wrong with it by itself is refused before it travels
        receipt = await self._ask(conversation_id, command, what="the start", retry_id=message_id, create=True)
        return Conversation(self, conversation_id, receipt=cast("Receipt", receipt))

    def conversation(self, conversation_id: str) -> "Conversation":
        """The conversation of that id; whether it exists is found out when it is used."""
        return Conversation(self, check_conversation_id(conversation_id))

    async def resolve(
        self,
        conversation_id: str,
        tool_call_id: str,
        decision: Decision,
        *,
        suspension_id: str | None = None,
        decision_id: str | None = None,
    ) -> Receipt:
        """Decide a pending call; returns once the decision is durable, before the next turn is scheduled.

        Args:
            conversation_id: The conversation.
            tool_call_id: The call.
            decision: `Approve`, `Deny`, `Answer`, `Fail` or `Redispatch`, as the suspension's kind takes.
            suspension_id: Binds the decision to what was shown; needed once the call has been suspended twice.
            decision_id: The idempotency key; the same again returns the same receipt.

        Raises:
            StaleCall: The call does not wait for this; the reason says why.
            InvalidDecision: The decision does not fit; the call still waits.
            ConversationNotFound: It was never started.
            ConversationEnded: It has ended.
            OutcomeUnknown: No acknowledgement in time; retry with the same `decision_id`.
        """
        check_conversation_id(conversation_id)
        ruling = Ruling.of(decision)
        if decision_id is not None:
            check_request_id("decision_id", decision_id, InvalidDecision)
        if suspension_id is not None and not isinstance(suspension_id, str):
            raise InvalidDecision("suspension_id", f"{suspension_id!r:.40} is not a string", "pass PendingCall.suspension_id")
        if not isinstance(tool_call_id, str):
            raise InvalidDecision("tool_call_id", f"{tool_call_id!r:.40} is not a string", "pass PendingCall.tool_call_id")
        if not (_encodes(tool_call_id) and _encodes(suspension_id or "")):
            raise StaleCall(conversation_id, ascii(tool_call_id), StaleReason.UNKNOWN)
        decision_id = decision_id or uuid.uuid4().hex
        command = Resolve(tool_call_id=tool_call_id, ruling=ruling, decision_id=decision_id, suspension_id=suspension_id)
        receipt = await self._ask(conversation_id, command, what="the decision", retry_id=decision_id)
        return cast("Receipt", receipt)

    async def pending(
        self,
        *,
        limit: int = 50,
        after: str | None = None,
        agent: str | None = None,
        kind: SuspensionKind | str | None = None,
    ) -> Page[AsyncPendingCall]:
        """A page of what waits over all conversations, oldest first.

        Raises:
            InvalidInput: The limit, the cursor, the agent or the kind is none.
        """
        of_agent, of_kind = _agent(agent), _member(SuspensionKind, "kind", kind)
        store = await self._store()
        page = await self._timely(store.pending(limit=limit, after=after, agent=of_agent, kind=of_kind))
        return Page([PendingCall.of(view, self.resolve) for view in page.items], page.next)

    async def conversations(
        self,
        *,
        status: Status | str | None = None,
        agent: str | None = None,
        limit: int = 50,
        after: str | None = None,
    ) -> Page[ConversationRow]:
        """A page of all conversations, oldest first.

        Raises:
            InvalidInput: The limit, the cursor, the agent or the status is none.
        """
        of_agent, of_status = _agent(agent), _member(Status, "status", status)
        store = await self._store()
        page = await self._timely(store.conversations(limit=limit, after=after, agent=of_agent, status=of_status))
        rows = [
            ConversationRow(row.conversation_id, row.agent, row.status, row.created_at, row.updated_at, row.pending)
            for row in page.items
        ]
        return Page(rows, page.next)

    async def _store(self) -> RedisStore:
        if self._stack.settings.redis_url is None:
            return await self._stack.store()  # to start the home's server may take longer than any call
        return await self._timely(self._stack.store())

    async def _timely(self, work: Awaitable[_T], *, longer_s: float = 0) -> _T:
        """What the store answers within the deadline of a call."""
        try:
            async with asyncio.timeout(self._timeout_s + longer_s):
                return await work
        except TimeoutError as error:
            raise StoreUnavailable(f"no answer within {self._timeout_s:g} s") from error

    async def _ask(self, conversation_id: str, command: Command, *, what: str, retry_id: str, create: bool = False) -> Reply:
        transport = await self._stack.transport()
        return await transport.ask(
            conversation_id, command, what=what, retry_id=retry_id, timeout_s=self._timeout_s, create=create
        )


class Conversation:
    """One conversation. `receipt` is that of the `start` that made this object, else None."""

    def __init__(self, client: AsyncClient, conversation_id: str, *, receipt: Receipt | None = None) -> None:
        self._client = client
        self.id = conversation_id
        self.receipt = receipt

    def __repr__(self) -> str:
        return f"Conversation({self.id!r})"

    async def send(self, text: str, *, message_id: str | None = None) -> Receipt:
        """Send the user's next message; during a turn it queues, durably and in order.

        Raises:
            InvalidMessage: The text or the id cannot be used.
            ConversationNotFound: It was never started.
            ConversationEnded: It has ended.
            OutcomeUnknown: No acknowledgement in time; retry with the same `message_id`.
        """
        if message_id is not None:
            check_request_id("message_id", message_id, InvalidMessage)
        message_id = message_id or uuid.uuid4().hex
        command = Send(text=_text(text), message_id=message_id)
        return cast("Receipt", await self._ask(command, "the message", message_id))

    async def resolve(
        self, tool_call_id: str, decision: Decision, *, suspension_id: str | None = None, decision_id: str | None = None
    ) -> Receipt:
        """See `AsyncClient.resolve`."""
        return await self._client.resolve(self.id, tool_call_id, decision, suspension_id=suspension_id, decision_id=decision_id)

    async def pending(self) -> list[AsyncPendingCall]:
        """What waits in this conversation, in the model's order of calls."""
        store = await self._client._store()  # noqa: SLF001 - the same module's own
        views = await self._client._timely(store.pending_of(self.id))  # noqa: SLF001 - as above
        return [PendingCall.of(view, self._client.resolve) for view in views]

    async def wait(self, *, after: int | None = None, timeout_s: float | None = None) -> ConversationState[Awaitable[Receipt]]:
        """The state as soon as the conversation rests (anything but generating and executing tools), or is in quarantine.

        Args:
            after: Only a state whose `seq` is greater counts; pass `receipt.seq` to wait for what a command led to. Of a
                conversation that has ended, the last state comes at once.
            timeout_s: After which the state is returned as it is; None waits without end.

        Raises:
            InvalidInput: `after` is no place in a log, or `timeout_s` is no time.
            ConversationNotFound: It was never started.
        """
        if after is not None:
            _check_place(after)
        if timeout_s is not None and not _is_time(timeout_s):
            raise InvalidInput("timeout_s", f"{timeout_s!r:.40} is no time", "give seconds, or None to wait without end")
        store, timely = await self._client._store(), self._client._timely  # noqa: SLF001 - as above
        loop = asyncio.get_running_loop()
        give_up = None if timeout_s is None else loop.time() + timeout_s
        state = await timely(store.load(self.id))
        while not (state.resting and (after is None or state.seq > after or state.ended)):
            if await timely(store.quarantine(self.id)) is not None:
                break
            left_ms = BLOCK_MS if give_up is None else min(BLOCK_MS, int((give_up - loop.time()) * 1000))
            if left_ms <= 0:
                break
            entries = await timely(store.read(self.id, after=state.seq, block_ms=left_ms), longer_s=left_ms / 1000)
            for _, event in entries:
                state = evolve(state, event)
        return await self._shown(state)

    async def state(self) -> ConversationState[Awaitable[Receipt]]:
        """The state as it is now."""
        return await self.wait(timeout_s=0)

    async def messages(self) -> list[dict[str, Any]]:
        """The messages in the OpenAI chat format, without the system message."""
        store, timely = await self._client._store(), self._client._timely  # noqa: SLF001 - as above
        transcript = Transcript()
        while True:
            entries = await timely(store.read(self.id, after=transcript.seq, limit=READ_AT_ONCE))
            for seq, event in entries:
                transcript.add(seq, event)
            if len(entries) < READ_AT_ONCE:
                break
        if transcript.seq == 0:
            raise ConversationNotFound(self.id)
        return transcript.messages()

    async def events(self, *, after: int = 0, live: bool = True) -> AsyncGenerator[Event, None]:
        """What happens from `after` on: durable events in order and without gaps, live ones as they come.

        Ends with the conversation's end; leave the loop to stop earlier.

        Raises:
            InvalidInput: `after` is no place in a log.
            ConversationNotFound: It was never started.
        """
        _check_place(after)
        store, timely = await self._client._store(), self._client._timely  # noqa: SLF001 - as above
        state = await timely(store.load(self.id))
        if state.ended and after >= state.seq:
            return
        queue: asyncio.Queue[Event | BaseException] = asyncio.Queue(maxsize=1000)
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

    async def cancel(self, *, request_id: str | None = None) -> Cancelled:
        """Cancel the turn; what was really cancelled."""
        request_id = _request_id(request_id)
        return cast("Cancelled", await self._ask(Cancel(request_id=request_id), "the cancellation", request_id))

    async def end(self, *, request_id: str | None = None) -> Receipt:
        """End the conversation for good; what is pending is cancelled."""
        request_id = _request_id(request_id)
        return cast("Receipt", await self._ask(End(request_id=request_id), "the end", request_id))

    async def retry(self) -> bool:
        """Lift the quarantine, so that the conversation is taken up again; whether it was in one."""
        store = await self._client._store()  # noqa: SLF001 - as above
        return await self._client._timely(store.retry(self.id))  # noqa: SLF001 - as above

    async def _ask(self, command: Command, what: str, retry_id: str) -> Reply:
        return await self._client._ask(self.id, command, what=what, retry_id=retry_id)  # noqa: SLF001 - as above

    async def _shown(self, state: State) -> ConversationState[Awaitable[Receipt]]:
        store, timely = await self._client._store(), self._client._timely  # noqa: SLF001 - as above
        last, reply, error = state.last, None, None
        quarantine = await timely(store.quarantine(self.id))
        if last is not None:
            (event,) = await timely(store.at(self.id, [last.reply_seq or last.seq]))
            reply = event.content if isinstance(event, ModelAnswered) else None
            error = event.error if isinstance(event, TurnFailed) else None
        turn_id = state.turn.turn_id if state.turn is not None else (last.turn_id if last is not None else None)
        return ConversationState(
            status=state.status if quarantine is None else Status.QUARANTINED,
            turn_id=turn_id,
            reply=reply,
            error=error if quarantine is None else quarantine.reason,
            pending=await self.pending() if any(call.suspension is not None for call in state.calls) else [],
            running=[call.tool_call_id for call in state.calls if call.status == "running"],
            seq=state.seq,
        )

    async def _durable(self, after: int) -> AsyncIterator[Event]:
        store, timely = await self._client._store(), self._client._timely  # noqa: SLF001 - as above
        while True:
            for seq, event in await timely(store.read(self.id, after=after, block_ms=BLOCK_MS), longer_s=BLOCK_MS / 1000):
                after = seq
                data = event.model_dump(mode="json", exclude={"kind", "at"})
                yield Event(event.kind, seq, event.at, data)
                if isinstance(event, EndedEvent):
                    return

    async def _live(self) -> AsyncIterator[Event]:
        store = await self._client._store()  # noqa: SLF001 - as above
        while True:
            try:
                async for payload in store.listen(self.id):
                    kind, effect_id, attempt, at, value = codec.unpack(payload)
                    data = {"effect_id": effect_id, "attempt": attempt}
                    data |= {"text": value} if kind == "text_delta" else jsontext.loads(value)
                    yield Event(kind, None, at, data)
            except StoreUnavailable as error:  # what is live is lossy; the durable stream says whether the store is gone
                logger.debug("live events of %s are interrupted: %s", self.id, error)
                await asyncio.sleep(LISTEN_AGAIN_S)


async def _relayed(queue: "asyncio.Queue[Event | BaseException]", source: AsyncIterator[Event]) -> None:
    try:
        async for event in source:
            await queue.put(event)
    except asyncio.CancelledError:
        raise
    except BaseException as error:  # noqa: BLE001 - it is raised again where the events are read
        await queue.put(error)


def _is_app(app: object) -> bool:
    from holdfast.agent import App  # noqa: PLC0415 - who reads names none, and `holdfast pending` counts milliseconds

    return isinstance(app, App)


def _text(text: object) -> str:
    if not isinstance(text, str):
        raise InvalidMessage("text", f"{type(text).__name__} is not a string", "give a string")
    try:
        return jsontext.check_text(text)
    except jsontext.NotJson as error:
        raise InvalidMessage("text", str(error), "give text that can be encoded as UTF-8") from error


def _context(context: Any) -> str:
    try:
        return jsontext.dumps(context)
    except jsontext.NotJson as error:
        raise InvalidMessage("context", str(error), "give a JSON value") from error


def _request_id(request_id: object) -> str:
    return uuid.uuid4().hex if request_id is None else check_request_id("request_id", request_id, InvalidInput)


def _check_place(after: object) -> None:
    """Refuse what is no place in a log."""
    if isinstance(after, bool) or not isinstance(after, int) or not 0 <= after < LAST_PLACE:
        raise InvalidInput("after", f"{after!r:.40} is no place in a log", "give a seq: Receipt.seq, Event.seq, or 0")


def _is_time(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _agent(agent: object) -> str | None:
    if agent is None or (isinstance(agent, str) and _encodes(agent)):
        return agent
    raise InvalidInput("agent", f"{agent!a:.40} is no name", "give an agent's name, or leave it out")


def _encodes(text: str) -> bool:
    """Whether the text can be encoded as UTF-8."""
    try:
        jsontext.check_text(text)
    except jsontext.NotJson:
        return False
    return True


def _member(kinds: Any, field: str, value: str | None) -> Any:
    if value is None:
        return None
    try:
        return kinds(value)
    except ValueError as error:
        allowed = ", ".join(kinds)
        raise InvalidInput(field, f"{value!r:.40} is none", f"use one of {allowed}") from error
