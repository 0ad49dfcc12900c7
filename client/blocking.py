"""`Client`: the blocking face of `AsyncClient`, for Flask, Django and scripts. Thread-safe."""

import asyncio
import os
import threading
import weakref
from collections.abc import AsyncGenerator, Collection, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import fields
from pathlib import Path
from types import EllipsisType, TracebackType
from typing import Any, Self, TypeVar, cast

from holdfast.agent import App
from holdfast.conversation import Cancelled, Decision, Grant, Principal, Proof, Receipt, Status, SuspensionKind
from holdfast.conversation.ids import check_conversation_id
from holdfast.errors import HoldfastError
from holdfast.persistence import ConversationRow, Pause

from .agents import AgentRow
from .arguments import stated_of
from .async_client import AsyncClient
from .audit import AuditReport, Kept
from .batches import pairs_of
from .conversation import Conversation as AsyncConversation
from .given import Given
from .list_events import BlockingListEvent, ListEvent
from .log_pages import MessagePage
from .results import AsyncPendingCall, BlockingPendingCall, ConversationState, Event, Page, PendingCall
from .rule_check import RuleCheck
from .turns import Message, Turn

T = TypeVar("T")


class Client:
    """A client with the methods of `AsyncClient`, blocking. Make it with `connect`; it opens connections on first use.

    Each method takes the arguments of the method of that name in `AsyncClient`, returns the same and raises the same errors;
    the calls and conversations that it returns block too. A call that another thread's `close` interrupts raises
    `concurrent.futures.CancelledError`, or `RuntimeError`.

    A process that is forked from one that has used the client may read with it, on connections of its own. Its commands raise
    `ConfigurationError` if the parent had joined Ray before.
    """

    def __init__(self, **settings: Any) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._client: AsyncClient | None = None
        AsyncClient.connect(**settings)  # bad settings are refused here and now
        _clients.add(self)

    @classmethod
    def connect(
        cls,
        app: App | str | None = None,
        *,
        url: str | None = None,
        token: str | None = None,
        plain_http: bool | None = None,
        redis_url: str | None = None,
        ray_address: str | None = None,
        namespace: str | None = None,
        embedded: bool | None = None,
        timeout_s: float = 30,
        home: str | Path | None = None,
        publish: bool | None = None,
    ) -> Self:
        """A client; nothing is connected yet. `AsyncClient.connect` describes the arguments and the errors."""
        return cls(
            app=app,
            url=url,
            token=token,
            plain_http=plain_http,
            redis_url=redis_url,
            ray_address=ray_address,
            namespace=namespace,
            embedded=embedded,
            timeout_s=timeout_s,
            home=home,
            publish=publish,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def after_fork(self) -> Any:
        """Begin anew in a forked process, where the parent's loop has no thread; returns that loop, which must be kept."""
        inherited = self._loop, self._client, self._lock
        self._lock, self._loop, self._client = threading.Lock(), None, None
        return inherited

    def close(self) -> None:
        """Give up the connections and the thread behind them."""
        with self._lock:
            loop, client, self._loop, self._client = self._loop, self._client, None, None
        if loop is None or client is None:
            return
        try:
            asyncio.run_coroutine_threadsafe(_wind_up(client), loop).result()
        finally:
            loop.call_soon_threadsafe(loop.stop)

    def acting_as(self, principal: Principal) -> "Client":
        """The same client, acting as this principal. `AsyncClient.acting_as` describes it and the errors."""
        return _Acting(self, stated_of(principal))

    def start(
        self,
        agent: str,
        text: str,
        *,
        conversation_id: str | None = None,
        message_id: str | None = None,
        context: Any = None,
        attended: bool = True,
    ) -> "BlockingConversation":
        """Start a conversation; returns once it is durable. `AsyncClient.start` describes the arguments and the errors."""
        ids = {"conversation_id": conversation_id, "message_id": message_id}
        started = self._run(self._async().start(agent, text, context=context, attended=attended, **ids))
        return BlockingConversation(self, started.id, receipt=started.receipt)

    def conversation(self, conversation_id: str) -> "BlockingConversation":
        """The conversation of that id; a bad id raises `InvalidConversationId`, as in `AsyncClient.conversation`."""
        return BlockingConversation(self, check_conversation_id(conversation_id))

    def resolve(
        self,
        conversation_id: str,
        tool_call_id: str,
        decision: Decision,
        *,
        suspension_id: str | None = None,
        decision_id: str | None = None,
    ) -> Receipt:
        """Decide a pending call. `AsyncClient.resolve` describes the arguments and the errors."""
        return self._run(
            self._async().resolve(conversation_id, tool_call_id, decision, suspension_id=suspension_id, decision_id=decision_id)
        )

    def resolve_each(
        self, decisions: Sequence[tuple[BlockingPendingCall, Decision]], *, decision_id: str | None = None
    ) -> list[Receipt | HoldfastError]:
        """Decide several pending calls, each by itself. `AsyncClient.resolve_each` describes the arguments and the errors."""
        client = self._async()
        bound: list[tuple[AsyncPendingCall, Decision]] = [
            (PendingCall.of(call, client.resolve), decision) for call, decision in pairs_of(decisions)
        ]
        return self._run(client.resolve_each(bound, decision_id=decision_id))

    def pending(
        self,
        *,
        limit: int = 50,
        after: str | None = None,
        agent: str | None = None,
        kind: SuspensionKind | str | None = None,
        approver: Principal | None = None,
    ) -> Page[BlockingPendingCall]:
        """A page of the pending calls. `AsyncClient.pending` describes the arguments and the errors."""
        page = self._run(self._async().pending(limit=limit, after=after, agent=agent, kind=kind, approver=approver))
        return Page(items=[self._bound(call) for call in page.items], next=page.next)

    def conversations(
        self,
        *,
        status: Status | str | None = None,
        agent: str | None = None,
        limit: int = 50,
        after: str | None = None,
    ) -> Page[ConversationRow]:
        """A page of all conversations. `AsyncClient.conversations` describes the arguments and the errors."""
        return self._run(self._async().conversations(status=status, agent=agent, limit=limit, after=after))

    def given(
        self,
        by: str | None = None,
        *,
        proof: Proof | str | None = None,
        limit: int = 50,
        after: str | None = None,
    ) -> Page[Given]:
        """A page of grants and votes that stand. `AsyncClient.given` describes the arguments and the errors."""
        return self._run(self._async().given(by, proof=proof, limit=limit, after=after))

    def pending_call(self, suspension_id: str, *, conversation_id: str | None = None) -> BlockingPendingCall:
        """The pending call of a suspension. `AsyncClient.pending_call` describes the arguments and the errors."""
        return self._bound(self._run(self._async().pending_call(suspension_id, conversation_id=conversation_id)))

    def settle(
        self,
        suspension_id: str,
        decision: Decision,
        *,
        conversation_id: str | None = None,
        decision_id: str | None = None,
    ) -> Receipt:
        """Decide what a suspension asks. `AsyncClient.settle` describes the arguments and the errors."""
        return self._run(
            self._async().settle(suspension_id, decision, conversation_id=conversation_id, decision_id=decision_id)
        )

    def events(
        self,
        *,
        after: str | None = None,
        agent: str | Collection[str] | None = None,
        kind: SuspensionKind | str | None = None,
    ) -> Iterator[BlockingListEvent]:
        """What changes in the lists, one by one. `AsyncClient.events` describes the arguments and the errors."""
        source = self._async().events(after=after, agent=agent, kind=kind)
        for event in _iterated(self, source):
            told = {one.name: getattr(event, one.name) for one in fields(event)}
            yield ListEvent(**told | {"call": None if event.call is None else self._bound(event.call)})

    def audit(self, *, agent: str | None = None, status: Status | str | None = None) -> Iterator[AuditReport]:
        """The audits of all conversations, one by one. `AsyncClient.audit` describes the arguments and the errors."""
        yield from _iterated(self, self._async().audit(agent=agent, status=status))

    def ready(self) -> None:
        """Return if commands can be carried out. `AsyncClient.ready` describes the errors."""
        self._run(self._async().ready())

    def agents(self) -> list[AgentRow]:
        """The agents of the client's app. `AsyncClient.agents` describes the errors."""
        return self._run(self._async().agents())

    def check_rules(self, agent: str, tool: str, arguments: Mapping[str, Any], *, app: str | None = None) -> RuleCheck:
        """What would become of a call. `AsyncClient.check_rules` describes the arguments, the result and the errors."""
        return self._run(self._async().check_rules(agent, tool, arguments, app=app))

    def pause(self, agent: str | None = None, reason: str = "") -> Pause:
        """Stop new work. `AsyncClient.pause` describes the arguments, the result and the errors."""
        return self._run(self._async().pause(agent, reason))

    def resume(self, agent: str | None = None) -> Pause | None:
        """Lift a pause. `AsyncClient.resume` describes the arguments, the result and the errors."""
        return self._run(self._async().resume(agent))

    def paused(self) -> list[Pause]:
        """The pauses that stand. `AsyncClient.paused` describes the errors."""
        return self._run(self._async().paused())

    def _bound(self, call: PendingCall[Any]) -> BlockingPendingCall:
        return PendingCall.of(call, self.resolve)

    def _async(self) -> AsyncClient:
        with self._lock:
            if self._client is None:
                loop = asyncio.new_event_loop()
                threading.Thread(target=_serve, args=(loop,), name="holdfast-client", daemon=True).start()
                self._loop = loop
                self._client = AsyncClient.connect(**self._settings)
            return self._client

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        loop = self._loop
        if loop is None:
            work.close()
            message = "the client is closed"
            raise RuntimeError(message)
        future: Future[T] = asyncio.run_coroutine_threadsafe(work, loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise


class _Acting(Client):
    """A client on the connections of another one, which acts as a principal."""

    def __init__(self, client: Client, principal: Principal) -> None:
        self._of = client
        self._principal = principal

    def acting_as(self, principal: Principal) -> Client:
        return self._of.acting_as(principal)

    def close(self) -> None:
        self._of.close()

    def _async(self) -> AsyncClient:
        return self._of._async().acting_as(self._principal)  # noqa: SLF001 - the base class's own

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._of._run(work)  # noqa: SLF001 - as above


class BlockingConversation:
    """One conversation, blocking: the methods of `Conversation`, which describes their arguments, results and errors.

    Attributes:
        id: The conversation's id.
        receipt: The receipt of the `start` that made this object, else None.
    """

    def __init__(self, client: Client, conversation_id: str, *, receipt: Receipt | None = None) -> None:
        self._client = client
        self.id = conversation_id
        self.receipt = receipt

    def __repr__(self) -> str:
        return f"Conversation({self.id!r})"

    @property
    def _conversation(self) -> AsyncConversation:
        """The conversation on the `AsyncClient` that this process has now, which is another one after a fork."""
        return self._client._async().conversation(self.id)  # noqa: SLF001 - the same module's own

    def send(self, text: str, *, message_id: str | None = None) -> Receipt:
        """Send the user's next message. `Conversation.send` describes the arguments and the errors."""
        return self._client._run(self._conversation.send(text, message_id=message_id))  # noqa: SLF001 - the same module's own

    def resolve(
        self, tool_call_id: str, decision: Decision, *, suspension_id: str | None = None, decision_id: str | None = None
    ) -> Receipt:
        """Decide a pending call of this conversation. `AsyncClient.resolve` describes the arguments and the errors."""
        return self._client.resolve(self.id, tool_call_id, decision, suspension_id=suspension_id, decision_id=decision_id)

    def resolve_many(self, decisions: Mapping[str, Decision], *, decision_id: str | None = None) -> list[Receipt]:
        """Decide several pending calls of this conversation, or none. `Conversation.resolve_many` describes the errors."""
        return self._client._run(self._conversation.resolve_many(decisions, decision_id=decision_id))  # noqa: SLF001 - as above

    def pending(self) -> list[BlockingPendingCall]:
        """The pending calls of this conversation. `Conversation.pending` describes the errors."""
        calls = self._client._run(self._conversation.pending())  # noqa: SLF001 - as above
        return [self._client._bound(call) for call in calls]  # noqa: SLF001 - as above

    def wait(self, *, after: int | None = None, timeout_s: float | None = None) -> ConversationState[Receipt]:
        """The state as soon as the conversation rests. `Conversation.wait` describes the arguments and the errors."""
        state = self._client._run(self._conversation.wait(after=after, timeout_s=timeout_s))  # noqa: SLF001 - as above
        pending = [self._client._bound(call) for call in state.pending]  # noqa: SLF001 - as above
        return cast("ConversationState[Receipt]", state.model_copy(update={"pending": pending}))

    def state(self) -> ConversationState[Receipt]:
        """The state as it is now. `Conversation.state` describes the errors."""
        return self.wait(timeout_s=0)

    def messages(self) -> list[dict[str, Any]]:
        """The messages in the OpenAI chat format. `Conversation.messages` describes the errors."""
        return self._client._run(self._conversation.messages())  # noqa: SLF001 - as above

    def messages_page(self, *, limit: int = 50, after: str | None = None) -> MessagePage:
        """A page of the messages. `Conversation.messages_page` describes the arguments and the errors."""
        return self._client._run(self._conversation.messages_page(limit=limit, after=after))  # noqa: SLF001 - as above

    def latest(self, limit: int = 400) -> list[Event]:
        """The latest recorded events. `Conversation.latest` describes the argument and the errors."""
        return self._client._run(self._conversation.latest(limit))  # noqa: SLF001 - as above

    def turns_page(self, *, limit: int = 50, after: str | None = None) -> Page[Turn]:
        """A page of the turns. `Conversation.turns_page` describes the arguments and the errors."""
        return self._client._run(self._conversation.turns_page(limit=limit, after=after))  # noqa: SLF001 - as above

    def turns(self) -> list[Turn]:
        """The turns that have begun. `Conversation.turns` describes the errors."""
        return self._client._run(self._conversation.turns())  # noqa: SLF001 - as above

    def turn(self, turn_id: str) -> Turn:
        """The turn of that id. `Conversation.turn` describes the errors."""
        return self._client._run(self._conversation.turn(turn_id))  # noqa: SLF001 - as above

    def message(self, message_id: str) -> Message:
        """What became of a message. `Conversation.message` describes the errors."""
        return self._client._run(self._conversation.message(message_id))  # noqa: SLF001 - as above

    def events(self, *, after: int = 0, live: bool = True) -> Iterator[Event]:
        """The conversation's events, one by one. `Conversation.events` describes the arguments and the errors."""
        yield from _iterated(self._client, self._conversation.events(after=after, live=live))

    def cancel(self, turn_id: str | None = None, *, wait_s: float = 0, request_id: str | None = None) -> Cancelled:
        """Cancel the turn. `Conversation.cancel` describes the arguments, the result and the errors."""
        cancelling = self._conversation.cancel(turn_id, wait_s=wait_s, request_id=request_id)
        return self._client._run(cancelling)  # noqa: SLF001 - as above

    def cancel_pending(
        self, kind: SuspensionKind | str | None = None, reason: str = "", *, request_id: str | None = None
    ) -> Cancelled:
        """Cancel the calls that wait. `Conversation.cancel_pending` describes the arguments, the result and the errors."""
        cancelling = self._conversation.cancel_pending(kind, reason, request_id=request_id)
        return self._client._run(cancelling)  # noqa: SLF001 - as above

    def grants(self) -> list[Grant]:
        """The grants that stand. `Conversation.grants` describes the result and the errors."""
        return self._client._run(self._conversation.grants())  # noqa: SLF001 - as above

    def revoke(self, grant_id: str, reason: str = "", *, request_id: str | None = None) -> Receipt:
        """End a grant. `Conversation.revoke` describes the arguments and the errors."""
        return self._client._run(self._conversation.revoke(grant_id, reason, request_id=request_id))  # noqa: SLF001 - as above

    def revoke_given(
        self, by: str, reason: str = "", *, proof: Proof | str | None = None, request_id: str | None = None
    ) -> Receipt:
        """End what a principal has given. `Conversation.revoke_given` describes the arguments and the errors."""
        work = self._conversation.revoke_given(by, reason, proof=proof, request_id=request_id)
        return self._client._run(work)  # noqa: SLF001 - as above

    def audit(self, *, receipts: Sequence[Kept] | Kept = ()) -> AuditReport:
        """Check the chain of decisions. `Conversation.audit` describes the arguments, the result and the errors."""
        return self._client._run(self._conversation.audit(receipts=receipts))  # noqa: SLF001 - as above

    def audit_lines(self, *, after: int = 0, receipts: Sequence[Kept] | Kept = ()) -> Iterator[dict[str, Any]]:
        """The audit as lines for an archive. `Conversation.audit_lines` describes the arguments and the errors."""
        yield from _iterated(self._client, self._conversation.audit_lines(after=after, receipts=receipts))

    def assign(
        self,
        call: PendingCall[Any] | str,
        to: Principal | str | EllipsisType | None = ...,
        *,
        request_id: str | None = None,
    ) -> Receipt:
        """Note who takes a pending call on. `Conversation.assign` describes the arguments and the errors."""
        return self._client._run(self._conversation.assign(call, to, request_id=request_id))  # noqa: SLF001 - as above

    def comment(self, call: PendingCall[Any] | str, text: str, *, request_id: str | None = None) -> Receipt:
        """Write to the others who may decide a pending call. `Conversation.comment` describes the arguments and the errors."""
        return self._client._run(self._conversation.comment(call, text, request_id=request_id))  # noqa: SLF001 - as above

    def retry(self) -> bool:
        """Lift the quarantine. `Conversation.retry` describes the result and the errors."""
        return self._client._run(self._conversation.retry())  # noqa: SLF001 - as above

    def end(self, *, request_id: str | None = None) -> Receipt:
        """End the conversation for good. `Conversation.end` describes the arguments and the errors."""
        return self._client._run(self._conversation.end(request_id=request_id))  # noqa: SLF001 - as above


async def _wind_up(client: AsyncClient) -> None:
    """Cancel the calls that other threads still wait for, so that none waits for ever, and close the client."""
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await client.aclose()


def _iterated(client: Client, source: AsyncGenerator[T, None]) -> Iterator[T]:
    reading = asyncio.Lock()
    try:
        while True:
            try:
                yield client._run(_next(source, reading))  # noqa: SLF001 - as above
            except StopAsyncIteration:
                return
    finally:
        client._run(_close(source, reading))  # noqa: SLF001 - as above


async def _next(source: AsyncGenerator[T, None], reading: asyncio.Lock) -> T:
    async with reading:
        return await anext(source)


async def _close(source: AsyncGenerator[T, None], reading: asyncio.Lock) -> None:
    async with reading:  # a read that was interrupted is still being cancelled
        await source.aclose()


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        loop.close()


_clients: "weakref.WeakSet[Client]" = weakref.WeakSet()
_inherited: list[Any] = []
"""A forked process's copies of its parent's loops. To close one would take its files from the parent's loop."""


def _after_fork() -> None:
    _inherited.extend(client.after_fork() for client in list(_clients))


os.register_at_fork(after_in_child=_after_fork)
