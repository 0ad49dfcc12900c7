"""A client that is attached to a conversation: it is present, and carries out the calls of its tools, each in a `Work`.

Which client may act, the conversation alone decides. A call that cannot be claimed, answered or given back ends no other one.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Mapping
from types import TracebackType
from typing import Self, TypeAlias

from holdfast.background import Background
from holdfast.conversation import OnDetach
from holdfast.conversation.terms.presence import client_name
from holdfast.errors import HoldfastError

from . import verbs
from .client_work import Claimant, Work, again, passes
from .gateway import Gateway
from .handlers import ClientHandler
from .list_events import AsyncListEvent, ListEventKind
from .results import AsyncPendingCall

AT_ONCE = 16
"""How many calls a client carries out at once; further ones wait, unclaimed, for it or for another client."""
LEAVE_S = 5.0
"""How many seconds an exit waits for requests on their way, and then for what is given back."""
Told: TypeAlias = Callable[[str, AsyncPendingCall, str], None]
"""A function of what happens to a call at a client (`claimed`, `answered`, `failed`, `stale`, `refused`, `cancelled`,
`given_back`), of the call, and of further words."""

logger = logging.getLogger("holdfast.client")


class AsyncAttached:
    """A client attached to a conversation: an async context manager that `AsyncConversation.attach` makes.

    It is present from its beginning to its end, also while `serve` does not run.

    Attributes:
        client_id: The client's id, in the name space of its principal.
        told: A function that is told what happens to each call here; None by default.
    """

    def __init__(
        self,
        gateway: Gateway,
        conversation_id: str,
        handlers: Mapping[str, ClientHandler],
        *,
        client_id: str,
        on_detach: OnDetach,
    ) -> None:
        self.client_id = client_id
        self.told: Told | None = None
        self._claimant = Claimant(gateway, conversation_id, client_id, on_detach)
        self._handlers = handlers
        self._name = ""
        self._free: dict[str, AsyncPendingCall] = {}
        self._works: dict[str, Work] = {}
        self._answered: set[str] = set()
        self._news = asyncio.Event()
        self._background = Background()
        self._presence: asyncio.Task[None] | None = None
        self._over = self._leaving = False
        self._error: BaseException | None = None

    def __repr__(self) -> str:
        return f"Attached({self._claimant.conversation_id!r}, client_id={self.client_id!r})"

    async def __aenter__(self) -> Self:
        self._events = self._attended()
        try:
            first = await anext(self._events, None)
        except BaseException:
            await self._events.aclose()
            raise
        self._presence = asyncio.create_task(self._present(first))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def serve(self) -> None:
        """Carry out the calls of the tools, up to 16 at once, until the conversation has ended.

        Each call is claimed before its handler is called, and left alone if another client has claimed it. While the store or
        the server is away, this waits. A call that this client had claimed before it was attached is given back first, as one
        whose handler had begun.

        Raises:
            ConversationNotFound: The conversation was erased.
            ServerRefused: The token is not valid any more, or lacks the scope `client`.
        """
        while not self._over or self._works:
            self._news.clear()
            if self._error is not None:
                raise self._error
            for call in list(self._free.values()):
                if len(self._works) < AT_ONCE and call.suspension_id not in self._works:
                    self._begin(self._free.pop(call.suspension_id))
            if not self._over or self._works:
                await self._news.wait()

    async def aclose(self) -> None:
        """Detach. Handlers are cancelled, and what is claimed is given back; with `on_detach="cancel"` it is cancelled later.

        A handler in a thread sees `ClientContext.cancelled`, and ends by itself.
        """
        self._leaving = True
        self._free.clear()
        works = list(self._works.values())
        await asyncio.gather(*(work.leave(LEAVE_S) for work in works))
        if self._claimant.on_detach is OnDetach.KEEP:
            for work in works:
                self._background.start(work.give_back())
        await self._background.close(wait_s=LEAVE_S)
        if self._presence is not None:
            self._presence.cancel()
            await asyncio.gather(self._presence, return_exceptions=True)
            await self._events.aclose()

    def _attended(self) -> AsyncGenerator[AsyncListEvent, None]:
        who = self._claimant
        given = {"conversation_id": who.conversation_id, "client_id": who.client_id, "on_detach": who.on_detach}
        return who.gateway.stream(verbs.ATTACH, verbs.ATTACH.checked({**given, "tools": list(self._handlers)}))

    async def _present(self, event: AsyncListEvent | None) -> None:
        """Stay present and take events in, until the conversation has ended or an error is final."""
        try:
            while event is not None:
                self._take(event)
                event = await self._next()
            self._over = True
        except Exception as error:
            if not isinstance(error, HoldfastError):
                logger.exception("%r is not present any more", self)
            self._error = error
        finally:
            self._news.set()

    async def _next(self) -> AsyncListEvent | None:
        """The next event, of another stream if this one fails; None once the conversation has ended."""
        pauses = again()
        while True:
            try:
                return await anext(self._events, None)
            except HoldfastError as error:
                if not passes(error):
                    raise
                logger.info("%r is not present for now: %s", self, error)
            await self._events.aclose()
            await pauses.sleep()
            self._events = self._attended()

    def _take(self, event: AsyncListEvent) -> None:
        match event.kind:
            case ListEventKind.FOLLOWING:
                self._name = str(event.data.get("name", ""))
                waiting = {str(one) for one in event.data.get("suspension_ids", ())}
                for name in {*self._free, *self._works} - waiting:
                    self._settled(name)
            case ListEventKind.SETTLED:
                self._settled(str(event.data.get("suspension_id")))
            case _ if event.call is not None:
                self._show(event.call)
        self._news.set()

    def _settled(self, suspension_id: str) -> None:
        self._free.pop(suspension_id, None)
        self._answered.discard(suspension_id)
        if (work := self._works.get(suspension_id)) is not None:
            work.lost()

    def _show(self, call: AsyncPendingCall) -> None:
        """Note how a call stands that waits for this client's tools."""
        name, claimed = call.suspension_id, call.claimed
        work = self._works.get(name)
        mine = claimed is not None and client_name(claimed.client_id, claimed.by) == self._name
        if work is not None and not mine and 0 < work.attempt <= call.attempt:
            work.lost()
        if self._leaving:
            return
        if claimed is None:
            self._free[name] = call
        else:
            self._free.pop(name, None)
        if mine and work is None and name not in self._answered:  # it was claimed before this client was attached
            self._background.start(self._claimant.give_back(call, call.attempt, began=True))

    def _begin(self, call: AsyncPendingCall) -> None:
        name = call.suspension_id
        work = Work(self._claimant, call, self._handlers[call.tool], lambda what, words: self._say(what, call, words))
        self._works[name] = work
        work.when_done(lambda: self._done(name, work))

    def _say(self, what: str, call: AsyncPendingCall, words: str) -> None:
        if self.told is not None:
            self.told(what, call, words)

    def _done(self, name: str, work: Work) -> None:
        del self._works[name]
        if work.answered:
            self._free.pop(name, None)
            self._answered.add(name)
        self._news.set()
