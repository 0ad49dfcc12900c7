"""Attached clients over the stack: their presence, the calls that wait for them, and the progress that they report.

The presence of all clients of a process is renewed together, and one reader of the changes of the lists wakes those whose
conversation has changed; what waits there is then read anew.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Protocol
from uuid import uuid4

from holdfast.backoff import Backoff
from holdfast.conversation import OnDetach, Present, Principal, State, Status, SuspensionKind
from holdfast.conversation.records.calls import Suspension, run_effect_id
from holdfast.conversation.terms.presence import RENEW_MS, client_name
from holdfast.conversation.text import jsontext
from holdfast.errors import HoldfastError, StaleCall, StaleReason, StoreUnavailable
from holdfast.persistence import Change, Place

from .list_events import AsyncListEvent, ListEvent, ListEventKind
from .results import PendingCall
from .stack import Reads
from .stack_state import settled

BLOCK_MS = 10_000
"""How long one read of the changes waits for some."""
FIRST_S, LONGEST_S, JITTER = 0.1, 5.0, 0.5
DETACH_S = 2.0
"""How many seconds the end of a stream may take to end the presence; after that it lapses by itself."""
AT_ONCE = 1_000
"""How many clients are renewed in one pipeline."""

logger = logging.getLogger("holdfast.client")


class ReadsAs(Reads, Protocol):
    """What reads a stack for a principal (None: nobody said who)."""

    principal: Principal | None


@dataclass(eq=False)
class _Stream:
    """An open stream of an attached client; an `error` ends it."""

    woken: asyncio.Event = field(default_factory=asyncio.Event)
    error: HoldfastError | None = None


@dataclass(eq=False)
class _Held:
    """A client that is present by this process, in the session of its latest stream, until its last one is closed."""

    conversation_id: str
    present: Present
    session: str
    until: int
    streams: set[_Stream] = field(default_factory=set)


class Attachments:
    """The clients that are attached through one stack, by conversation and name."""

    def __init__(self) -> None:
        self._held: dict[tuple[str, str], _Held] = {}
        self._renewing: asyncio.Task[None] | None = None
        self._reading: asyncio.Task[None] | None = None
        self._beginning = asyncio.Lock()

    async def attend(
        self,
        on: ReadsAs,
        *,
        conversation_id: str,
        client_id: str,
        tools: Sequence[str],
        on_detach: OnDetach = OnDetach.KEEP,
        moves: Callable[[], bool] = lambda: False,
        kinds: tuple[SuspensionKind, ...] | None = None,
    ) -> AsyncGenerator[AsyncListEvent, None]:
        """Be present as a client until the stream is closed or the conversation ends; the events say what waits for its tools.

        `following` comes first: the client is present under this `name`, and these calls wait (`suspension_ids`). `pending`: a
        call that nobody has claimed, or this client before. `noted`: its claim has changed. `settled`: it waits no more.
        `moves` says, once the stream is closed, whether the client goes on elsewhere: then its presence is left to it. `kinds`
        are those of `Present`.
        """
        if (await on.read(lambda store: store.load(conversation_id))).ended:
            return
        await self._begin(on)
        said = {"client_id": client_id, "tools": tuple(tools), "on_detach": on_detach, "kinds": kinds}
        present = Present(principal=on.principal, **said)
        stream, held = await self._joined(on, conversation_id, present)
        try:
            following = {"client_id": client_id, "name": present.name, "until": held.until}
            calls = _Calls(conversation_id, present, following)
            while True:
                stream.woken.clear()
                if stream.error is not None:
                    raise stream.error
                state = await _loaded(on, conversation_id)
                for event in await calls.told(on, state):
                    yield event
                if state.ended:
                    return
                await stream.woken.wait()
        finally:
            await self._left(on, held, stream, stays=moves())

    async def close(self) -> None:
        """Renew and read no more."""
        for task in (self._renewing, self._reading):
            if task is not None and task.get_loop() is asyncio.get_running_loop():
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    async def _begin(self, on: Reads) -> None:
        """Begin to renew and to read, unless that goes on: before anything is listed, so that no change is missed."""
        async with self._beginning:
            reading = self._reading
            if reading is not None and reading.get_loop() is not asyncio.get_running_loop():
                self._held = {}  # those of the parent of a fork, or of a loop that is over
            elif reading is not None and not reading.done():
                return
            place = (await on.read(lambda store: store.changes())).place
            self._reading = asyncio.create_task(self._read(on, place))
            self._renewing = asyncio.create_task(self._renew(on))

    async def _joined(self, on: Reads, conversation_id: str, present: Present) -> tuple[_Stream, _Held]:
        session, key, stream = uuid4().hex, (conversation_id, present.name), _Stream()
        held = self._held.setdefault(key, _Held(conversation_id, present, session, until=0))
        held.streams.add(stream)  # at once: the last stream that is left ends renewing and reading
        try:
            held.until = await on.read(lambda store: store.attach(conversation_id, present, session))
        except BaseException:
            await self._left(on, held, stream, stays=True)
            raise
        held.present, held.session = present, session
        return stream, held

    async def _left(self, on: Reads, held: _Held, stream: _Stream, *, stays: bool) -> None:
        held.streams.discard(stream)
        key = held.conversation_id, held.present.name
        if held.streams or self._held.get(key) is not held:
            return
        del self._held[key]
        if not self._held:
            for task in (self._renewing, self._reading):
                if task is not None:
                    task.cancel()
            self._reading = self._renewing = None
        if not stays:
            with suppress(HoldfastError, TimeoutError):
                async with asyncio.timeout(DETACH_S):
                    await on.read(lambda store: store.detach(*key, held.session))

    async def _renew(self, on: Reads) -> None:
        while True:
            await asyncio.sleep(RENEW_MS / 1000)
            every = list(self._held.values())
            for start in range(0, len(every), AT_ONCE):
                some = every[start : start + AT_ONCE]
                try:
                    await self._renewed(on, some)
                except HoldfastError as error:
                    logger.info("%d clients are not renewed: %s", len(some), error)
                except Exception:  # the others go on, and so do these at the next time
                    logger.exception("%d clients are not renewed", len(some))

    async def _renewed(self, on: Reads, some: Sequence[_Held]) -> None:
        """Renew some clients; those that the store does not know attach again."""
        clients = [(one.conversation_id, one.present) for one in some]
        until = await on.read(lambda store: store.renew_clients(clients))
        for one, at in zip(some, until, strict=True):
            one.until = at or one.until
            if not at and one.streams:
                await self._attach_again(on, one)

    async def _attach_again(self, on: Reads, held: _Held) -> None:
        try:
            held.until = await on.read(lambda store: store.attach(held.conversation_id, held.present, held.session))
        except StoreUnavailable as error:
            logger.info("client %s is not attached again: %s", held.present.name, error)
        except HoldfastError as error:
            for stream in held.streams:
                stream.error = error
                stream.woken.set()

    async def _read(self, on: Reads, place: Place) -> None:
        """Wake the streams whose conversations change."""
        pauses = Backoff(FIRST_S, LONGEST_S, jitter=JITTER)
        while True:
            try:
                page = await on.read(lambda store, at=place: store.changes(at, block_ms=BLOCK_MS), block_ms=BLOCK_MS)  # type: ignore[misc]
            except Exception as error:
                unforeseen = not isinstance(error, HoldfastError)
                logger.info("attached clients are not told of changes for now: %s", error, exc_info=unforeseen)
                await pauses.sleep()
                continue
            pauses.pause_s = FIRST_S
            place = page.place
            changed = {one.conversation_id for one in page.items if _is_about_clients(one)}
            for held in self._held.values():
                if page.missed or held.conversation_id in changed:
                    for stream in held.streams:
                        stream.woken.set()


class _Calls:
    """The calls that wait for an attached client, as its stream has told of them."""

    def __init__(self, conversation_id: str, present: Present, following: Mapping[str, Any]) -> None:
        self._id = conversation_id
        self._present = present
        self._following: Mapping[str, Any] | None = following
        self._told: dict[str, int] = {}

    async def told(self, on: Reads, state: State) -> list[AsyncListEvent]:
        """The events that bring the stream to this state."""
        waiting = {one.suspension_id: one for call, one in _at_clients(state) if call in self._present.tools}
        common: dict[str, Any] = {"conversation_id": self._id, "agent": state.agent, "seq": state.seq}
        found = []
        if self._following is not None:
            data = {**self._following, "suspension_ids": list(waiting)}
            found.append(ListEvent(ListEventKind.FOLLOWING, at=None, data=data, **common))
            self._following = None
        for name in self._told.keys() - waiting.keys():
            data = {"suspension_id": name, "suspension_kind": SuspensionKind.CLIENT_EXEC.value}
            found.append(ListEvent(ListEventKind.SETTLED, at=state.updated_at, data=data, **common))
        changed = {name: one for name, one in waiting.items() if self._told.get(name) != one.claimed_at}
        if changed:
            only = next(iter(changed)) if len(changed) == 1 else None
            for view in await on.read(lambda store: store.pending_in(state, only)):
                if (one := changed.get(view.suspension_id)) is not None:
                    mine = one.claim is not None and one.claim.name == self._present.name
                    free = one.claim is None or (mine and view.suspension_id not in self._told)
                    kind = ListEventKind.PENDING if free else ListEventKind.NOTED
                    call = PendingCall.of(view, on.resolve)
                    found.append(ListEvent(kind, at=state.updated_at, data=view.model_dump(mode="json"), call=call, **common))
        self._told = {name: one.claimed_at for name, one in waiting.items()}
        return found


def _at_clients(state: State) -> list[tuple[str, Suspension]]:
    """The suspensions that wait for clients, each with its tool."""
    found = [(call.tool, call.suspension) for call in state.calls if call.suspension is not None]
    return [(tool, one) for tool, one in found if one.kind is SuspensionKind.CLIENT_EXEC]


def _is_about_clients(change: Change) -> bool:
    suspensions = (*change.opened, *change.closed, *change.noted)
    return change.status is Status.ENDED or any(one.kind is SuspensionKind.CLIENT_EXEC for one in suspensions)


async def _loaded(on: Reads, conversation_id: str) -> State:
    """The state, once the store answers."""
    pauses = Backoff(FIRST_S, LONGEST_S, jitter=JITTER)
    while True:
        try:
            return await on.read(lambda store: store.load(conversation_id))
        except StoreUnavailable as error:
            logger.info("what waits for clients in %s cannot be read for now: %s", conversation_id, error)
        await pauses.sleep()


async def reported(
    on: ReadsAs, *, conversation_id: str, suspension_id: str, tool_call_id: str | None, client_id: str, **said: Any
) -> bool:
    """See `AsyncConversation.report_progress`."""
    from holdfast.actors.worker.live import progress_message  # noqa: PLC0415 - few clients report

    del tool_call_id  # the state says
    state = await on.read(lambda store: store.load(conversation_id))
    call, suspension = state.calls.open_suspension(suspension_id) or (None, None)
    if call is None or suspension is None:
        raise await on.read(lambda store: settled(store, suspension_id, conversation_id))
    if suspension.claim is None or suspension.claim.name != client_name(client_id, on.principal):
        raise StaleCall(conversation_id, call.tool_call_id, StaleReason.CLAIMED)
    text = jsontext.dumps({name: one for name, one in said.items() if one is not None or name in ("value", "message")})
    payload = progress_message(run_effect_id(call.tool_call_id, call.claims), call.claims, text)
    return await on.read(lambda store: store.publish(conversation_id, payload))
