"""`Client`: the blocking face of `AsyncClient`, for Flask, Django and scripts. Thread-safe."""

import asyncio
import functools
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import fields
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, Protocol, Self, TypeVar

from holdfast.conversation import OnDetach, Principal, Receipt
from holdfast.conversation.ids import check_conversation_id

from .async_client import AsyncClient
from .conversation import AsyncConversation
from .list_events import AsyncListEvent, BlockingListEvent, ListEvent
from .operation import stated_of
from .results import AsyncPendingCall, BlockingPendingCall, ConversationState, Page, PendingCall
from .stack import renewed

if TYPE_CHECKING:
    from .attached import AsyncAttached
    from .handlers import ClientHandler

P = ParamSpec("P")
A = TypeVar("A")
R = TypeVar("R")
T = TypeVar("T")


class Face(Protocol):
    """A blocking object with the methods of an async one."""

    def _async(self) -> Any: ...

    def _run(self, work: Coroutine[Any, Any, T]) -> T: ...


def _same(_: Any, found: R) -> R:
    return found


def blocking(method: Callable[Concatenate[A, P], Coroutine[Any, Any, R]]) -> Callable[Concatenate[Any, P], R]:
    """The blocking form of an async method, with its arguments and documentation."""
    return showing(method, _same)


def showing(
    method: Callable[Concatenate[A, P], Coroutine[Any, Any, R]], shown: Callable[[Any, R], T]
) -> Callable[Concatenate[Any, P], T]:
    """The blocking form of an async method whose result `shown` makes blocking, too."""

    @functools.wraps(method)
    def called(face: Face, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return shown(face, face._run(method(face._async(), *args, **kwargs)))  # noqa: SLF001 - what a face has

    return called


def iterating(
    method: Callable[Concatenate[A, P], AsyncGenerator[R, None]], shown: Callable[[Any, R], T]
) -> Callable[Concatenate[Any, P], Iterator[T]]:
    """The blocking form of an async generator method, each of whose results `shown` makes blocking, too."""

    @functools.wraps(method)
    def called(face: Face, /, *args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        source, reading = method(face._async(), *args, **kwargs), asyncio.Lock()  # noqa: SLF001 - as above
        try:
            while True:
                try:
                    found = face._run(_next(source, reading))  # noqa: SLF001 - as above
                except StopAsyncIteration:
                    return
                yield shown(face, found)
        finally:
            face._run(_close(source, reading))  # noqa: SLF001 - as above

    return called


def _call(client: "Client", call: AsyncPendingCall) -> BlockingPendingCall:
    def resolve(*args: Any, **kwargs: Any) -> Receipt:
        return client._run(client._async().gateway.resolve(*args, **kwargs))  # noqa: SLF001 - the same module's own

    return PendingCall.of(call, resolve)


def _page(client: "Client", page: Page[AsyncPendingCall]) -> Page[BlockingPendingCall]:
    return Page(items=[_call(client, call) for call in page.items], next=page.next)


def _event(client: "Client", event: AsyncListEvent) -> BlockingListEvent:
    told = {one.name: getattr(event, one.name) for one in fields(event)}
    return ListEvent(**told | {"call": None if event.call is None else _call(client, event.call)})


def _calls(conversation: "Conversation", calls: list[AsyncPendingCall]) -> list[BlockingPendingCall]:
    return [_call(conversation._client, call) for call in calls]  # noqa: SLF001 - the same module's own


def _state(conversation: "Conversation", state: ConversationState[Awaitable[Receipt]]) -> ConversationState[Receipt]:
    return ConversationState.model_construct(**dict(state) | {"pending": _calls(conversation, state.pending)})


class _Connect(Generic[P]):
    """The class method that makes a client of the arguments of `AsyncClient.connect`."""

    def __init__(self, connect: Callable[P, AsyncClient]) -> None:
        self._connect = connect

    def __get__(self, _: object, kind: Callable[..., R]) -> Callable[P, R]:
        @functools.wraps(self._connect)
        def connect(*args: P.args, **kwargs: P.kwargs) -> R:
            return kind(*args, **kwargs)

        return connect


class Client:
    """A client with the methods of `AsyncClient`, blocking. Make it with `connect`; it opens connections on first use.

    Each method takes the arguments of its namesake in `AsyncClient`, returns the same and raises the same errors. The calls and
    conversations that it returns block too. A call that another thread's `close` interrupts raises
    `concurrent.futures.CancelledError`, or `RuntimeError`.

    After a fork, the child may read over connections of its own. Its commands raise `ConfigurationError` if the parent had
    joined Ray.
    """

    def __init__(self, *app: Any, **settings: Any) -> None:
        self._connected = functools.partial(AsyncClient.connect, *app, **settings)
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._client: AsyncClient | None = None
        self._connected()  # bad settings are refused here and now
        renewed.add(self)

    connect = _Connect(AsyncClient.connect)

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
        """The same client, acting as this principal; see `AsyncClient.acting_as`."""
        return _Acting(self, stated_of(principal))

    def conversation(self, conversation_id: str) -> "Conversation":
        """The conversation of that id; see `AsyncClient.conversation`."""
        return Conversation(self, check_conversation_id(conversation_id))

    start = showing(AsyncClient.start, lambda client, one: Conversation(client, one.id, receipt=one.receipt))
    resolve = blocking(AsyncClient.resolve)
    resolve_each = blocking(AsyncClient.resolve_each)
    link = blocking(AsyncClient.link)
    redeem = blocking(AsyncClient.redeem)
    pending = showing(AsyncClient.pending, _page)
    pending_call = showing(AsyncClient.pending_call, _call)
    conversations = blocking(AsyncClient.conversations)
    given = blocking(AsyncClient.given)
    usage = blocking(AsyncClient.usage)
    events = iterating(AsyncClient.events, _event)
    audit = iterating(AsyncClient.audit, _same)
    ready = blocking(AsyncClient.ready)
    agents = blocking(AsyncClient.agents)
    check_rules = blocking(AsyncClient.check_rules)
    pause = blocking(AsyncClient.pause)
    unpause = blocking(AsyncClient.unpause)
    paused = blocking(AsyncClient.paused)
    outbox = blocking(AsyncClient.outbox)
    redeliver = blocking(AsyncClient.redeliver)
    drop = blocking(AsyncClient.drop)

    def _async(self) -> AsyncClient:
        with self._lock:
            if self._client is None:
                loop = asyncio.new_event_loop()
                threading.Thread(target=_serve, args=(loop,), name="holdfast-client", daemon=True).start()
                self._loop = loop
                self._client = self._connected()
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
    """A client on another client's connections that acts as a principal."""

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


class Conversation:
    """One conversation, blocking: the methods and attributes of `AsyncConversation`, which describes them."""

    def __init__(self, client: Client, conversation_id: str, *, receipt: Receipt | None = None) -> None:
        self._client = client
        self.id = conversation_id
        self.receipt = receipt

    def __repr__(self) -> str:
        return f"Conversation({self.id!r})"

    send = blocking(AsyncConversation.send)
    interrupt = blocking(AsyncConversation.interrupt)
    queue = blocking(AsyncConversation.queue)
    withdraw = blocking(AsyncConversation.withdraw)
    reschedule = blocking(AsyncConversation.reschedule)
    resolve = blocking(AsyncConversation.resolve)
    resolve_many = blocking(AsyncConversation.resolve_many)
    pending = showing(AsyncConversation.pending, _calls)
    wait = showing(AsyncConversation.wait, _state)
    state = showing(AsyncConversation.state, _state)
    tree = blocking(AsyncConversation.tree)
    context = blocking(AsyncConversation.context)
    compact = blocking(AsyncConversation.compact)
    summary = blocking(AsyncConversation.summary)
    usage = blocking(AsyncConversation.usage)
    messages = blocking(AsyncConversation.messages)
    messages_page = blocking(AsyncConversation.messages_page)
    latest = blocking(AsyncConversation.latest)
    turns = blocking(AsyncConversation.turns)
    turns_page = blocking(AsyncConversation.turns_page)
    turn = blocking(AsyncConversation.turn)
    message = blocking(AsyncConversation.message)
    events = iterating(AsyncConversation.events, _same)
    cancel = blocking(AsyncConversation.cancel)
    cancel_pending = blocking(AsyncConversation.cancel_pending)
    grants = blocking(AsyncConversation.grants)
    revoke = blocking(AsyncConversation.revoke)
    revoke_given = blocking(AsyncConversation.revoke_given)
    audit = blocking(AsyncConversation.audit)
    audit_lines = iterating(AsyncConversation.audit_lines, _same)
    claim = blocking(AsyncConversation.claim)
    give_back = blocking(AsyncConversation.give_back)
    report_progress = blocking(AsyncConversation.report_progress)
    assign = blocking(AsyncConversation.assign)
    comment = blocking(AsyncConversation.comment)
    snooze = blocking(AsyncConversation.snooze)
    escalate = blocking(AsyncConversation.escalate)
    end = blocking(AsyncConversation.end)
    retry = blocking(AsyncConversation.retry)

    def attach(
        self,
        handlers: "Mapping[str, ClientHandler]",
        *,
        client_id: str | None = None,
        on_detach: OnDetach | str = OnDetach.KEEP,
    ) -> "Attached":
        """A client that carries out calls of this conversation, for `with ... as attached`: see `AsyncConversation.attach`.

        An async handler runs on the client's own event loop.
        """
        return Attached(self._client, self._async().attach(handlers, client_id=client_id, on_detach=on_detach))

    def _async(self) -> AsyncConversation:
        return self._client._async().conversation(self.id)  # noqa: SLF001 - the same module's own

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._client._run(work)  # noqa: SLF001 - as above


class Attached:
    """A client attached to a conversation, blocking: a context manager with the methods of `AsyncAttached`."""

    def __init__(self, client: Client, attached: "AsyncAttached") -> None:
        self._client = client
        self._attached = attached
        self.client_id = attached.client_id

    def __repr__(self) -> str:
        return repr(self._attached)

    def __enter__(self) -> Self:
        self._run(self._attached.__aenter__())
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def serve(self) -> None:
        """Carry out the calls of the tools until the conversation has ended; see `AsyncAttached.serve`."""
        self._run(self._attached.serve())

    def close(self) -> None:
        """Detach; see `AsyncAttached.aclose`."""
        self._run(self._attached.aclose())

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._client._run(work)  # noqa: SLF001 - the same module's own


async def _wind_up(client: AsyncClient) -> None:
    """Cancel the calls that other threads still wait for, so that no thread waits for ever, and close the client."""
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await client.aclose()


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
