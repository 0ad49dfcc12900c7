"""The gateway over the stack: commands go to the actors by Ray, and reads to the store."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from functools import partial
from types import EllipsisType
from typing import TYPE_CHECKING, Any, TypeVar

from holdfast.backoff import Backoff
from holdfast.conversation import (
    Cancelled,
    Principal,
    Receipt,
    Start,
    State,
    SuspensionKind,
    decide,
)
from holdfast.conversation.terms.decisions import DecisionRecord
from holdfast.errors import ClusterStopped, ClusterUnavailable, ConfigurationError, HoldfastError
from holdfast.persistence import EVERYWHERE, PAUSE_LAG_MS, Listing, Pause

from . import verbs
from .agents import AgentRow
from .arguments import this_user
from .audit import lines, report
from .batches import resolve_each
from .connection import Connection
from .deciders import MOST_PAGES, decides
from .gateway import Gateway, resolver
from .large import judged
from .list_feed import list_events
from .noting import taker_of
from .results import AsyncPendingCall, Event, Page, PendingCall
from .rule_check import RuleCheck, checked
from .running import abandoned_calls, call_of, settled, waiting
from .stack import Stack
from .stack_events import events_of
from .stack_state import resting
from .verb import Verb

if TYPE_CHECKING:
    from .access import Access

R = TypeVar("R")
LAPSED_MS = PAUSE_LAG_MS + 100
"""Milliseconds after a pause in which workers may still use an older view; the work that it allowed has begun by then."""
SILENT_MS = 15_000
"""Milliseconds without a renewal after which a cluster counts as silent; its sweeper renews its binding all the time."""

logger = logging.getLogger("holdfast.client")


class StackGateway:
    """The gateway over a connection to the stack. Functions of this module do what an operation's row does not say."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.resolve = resolver(self)

    @classmethod
    def over(cls, stack: Stack, *, timeout_s: float) -> "StackGateway":
        """The gateway over a stack; each call has this deadline."""
        return cls(Connection(stack, timeout_s=timeout_s))

    @property
    def access(self) -> "Access":
        """The API keys of the namespace."""
        from .access import Access  # noqa: PLC0415 - `holdfast pending` counts milliseconds

        return Access(self.connection)

    def acting_as(self, principal: Principal, *, proves: bool = False) -> "StackGateway":
        """The same gateway, with this principal for all commands."""
        return StackGateway(self.connection.acting_as(principal, proves=proves))

    async def ask(self, verb: Verb[R], arguments: Mapping[str, Any]) -> R:
        """What an operation replies: by its own function here, the read that its row names, or the command."""
        answer, read = _ANSWERS.get(verb), verb.read
        found: R
        if answer is not None:
            found = await answer(self, **arguments)
        elif read is not None:
            found = await self.connection.read(lambda store: read(store, **arguments))
        else:
            found = await self.commanded(verb, **arguments)
        return found

    def stream(self, verb: Verb[R], arguments: Mapping[str, Any]) -> AsyncGenerator[R, None]:
        """What an operation replies, one by one."""
        return _STREAMS[verb](self, **arguments)

    async def commanded(self, verb: Verb[R], conversation_id: str, **said: Any) -> R:
        """The reply to the command of an operation; errors are as in `reply_in`."""
        return verb.replied(
            await self.connection.reply_to(conversation_id, verb.made(said), what=verb.what, retry_id=said[verb.key or ""])
        )

    async def aclose(self) -> None:
        """Close the connections."""
        await self.connection.feed.close()
        await self.connection.stack.close()


def connection_of(gateway: Gateway) -> Connection:
    """The connection of a gateway over the stack; `ConfigurationError` if the gateway is over HTTP."""
    if isinstance(gateway, StackGateway):
        return gateway.connection
    raise ConfigurationError("url", "only who is at the stack itself can do that, and not over HTTP", "connect without a url")


async def _start(
    gateway: StackGateway, *, conversation_id: str, message_id: str, agent: str, text: str, context: str, attended: bool
) -> Receipt:
    app = await gateway.connection.app()
    command = Start(
        agent=agent,
        app=gateway.connection.stack.app_path or "",
        text=text,
        message_id=message_id,
        context=context,
        attended=attended,
        spec=app.agent(agent).spec,
    )
    # a bad command is refused before it travels
    await judged(partial(decide, State(conversation_id=conversation_id), command), context)
    reply_to = partial(gateway.connection.reply_to, what=verbs.STARTED.what, retry_id=message_id)
    return verbs.STARTED.replied(await reply_to(conversation_id, command, create=True))


async def _resolve(
    gateway: StackGateway, *, conversation_id: str, suspension_id: str, decision: DecisionRecord, decision_id: str
) -> Receipt:
    tool_call_id = await gateway.connection.read(lambda store: call_of(store, suspension_id, conversation_id))
    ids = {"conversation_id": conversation_id, "tool_call_id": tool_call_id, "suspension_id": suspension_id}
    return await gateway.commanded(verbs.RESOLVE_CALL, **ids, decision=decision, decision_id=decision_id)


async def _pending(
    gateway: StackGateway,
    *,
    agent: str | None,
    kind: SuspensionKind | None,
    approver: Principal | None,
    limit: int,
    after: str | None,
) -> Page[AsyncPendingCall]:
    async def page_after(place: str | None) -> Listing:
        return await gateway.connection.read(lambda store: store.pending(limit=limit, after=place, agent=agent, kind=kind))

    for _ in range(MOST_PAGES):
        page = await page_after(after)
        found = [view for view in page.items if approver is None or decides(view, approver)]
        after = page.next
        if found or after is None:
            break
    return Page(items=[PendingCall.of(view, gateway.resolve) for view in found], next=after)


async def _pending_call(gateway: StackGateway, *, suspension_id: str, conversation_id: str | None) -> AsyncPendingCall:
    views = await gateway.connection.read(lambda store: store.pending_of(conversation_id, suspension_id))
    if not views:
        raise await gateway.connection.read(lambda store: settled(store, suspension_id, conversation_id))
    return PendingCall.of(views[0], gateway.resolve)


async def _pending_of(gateway: StackGateway, *, conversation_id: str) -> list[AsyncPendingCall]:
    views = await gateway.connection.read(lambda store: store.pending_of(conversation_id))
    return [PendingCall.of(view, gateway.resolve) for view in views]


async def _latest(gateway: StackGateway, *, conversation_id: str, limit: int) -> list[Event]:
    state = await gateway.connection.read(lambda store: store.load(conversation_id))
    found = await gateway.connection.read(lambda store: store.read(conversation_id, before=state.seq + 1, limit=limit))
    return [Event.recorded(seq, event) for seq, event in found]


async def _cancel(
    gateway: StackGateway, *, conversation_id: str, request_id: str, turn_id: str | None, wait_s: float
) -> Cancelled:
    cancelled = await gateway.commanded(verbs.CANCEL, conversation_id, request_id=request_id, turn_id=turn_id)
    if not wait_s or not cancelled.calls:
        return cancelled
    try:
        running = await _going_on(gateway.connection, conversation_id, cancelled.calls, wait_s)
    except HoldfastError as error:  # the cancellation itself is acknowledged
        logger.warning("which bodies of %s go on is not known: %s", conversation_id, error)
        running = cancelled.calls
    return cancelled.model_copy(update={"running": running})


async def _going_on(connection: Connection, conversation_id: str, calls: Sequence[str], within_s: float) -> tuple[str, ...]:
    """The calls whose bodies still run, once none does or the time is over."""
    loop, pauses = asyncio.get_running_loop(), Backoff(0.05, 1.0)
    give_up = loop.time() + within_s
    while True:
        running = await connection.read(lambda store: abandoned_calls(store, conversation_id, calls))
        left_s = give_up - loop.time()
        if not running or left_s <= 0:
            return running
        await asyncio.sleep(min(pauses.next_s(), left_s))


async def _assign(
    gateway: StackGateway, *, conversation_id: str, to: Principal | str | EllipsisType | None, **said: Any
) -> Receipt:
    taker = taker_of(to, gateway.connection.principal)
    said["tool_call_id"] = await _noted(gateway, conversation_id=conversation_id, **said)
    return await gateway.commanded(verbs.ASSIGN, conversation_id, to=taker, **said)


async def _comment(gateway: StackGateway, *, conversation_id: str, **said: Any) -> Receipt:
    said["tool_call_id"] = await _noted(gateway, conversation_id=conversation_id, **said)
    return await gateway.commanded(verbs.COMMENT, conversation_id, **said)


async def _noted(
    gateway: StackGateway, *, conversation_id: str, suspension_id: str, tool_call_id: str | None, **_: object
) -> str:
    """The id of a suspension's call, settled ones included; empty if there was none."""
    if tool_call_id:
        return tool_call_id
    state = await gateway.connection.read(lambda store: store.load(conversation_id))
    found = waiting(state, suspension_id)
    if found is not None:
        return found
    return (await gateway.connection.read(lambda store: settled(store, suspension_id, conversation_id))).tool_call_id


async def _ready(gateway: StackGateway) -> bool:
    connection = gateway.connection
    if EVERYWHERE in await connection.read(lambda store: store.withheld()):
        raise ClusterStopped((await connection.store()).namespace)
    binding = await connection.read(lambda store: store.binding())
    if binding is None:
        raise ClusterUnavailable("no cluster serves the store: run holdfast up")
    if binding.age_ms > SILENT_MS:
        raise ClusterUnavailable(f"the sweeper of the cluster at {binding.address} has been silent for {binding.age_ms} ms")
    if (absent := connection.stack.absent) is not None:
        raise ClusterUnavailable(absent)
    return True


async def _agents(gateway: StackGateway) -> list[AgentRow]:
    return [AgentRow.of(agent.spec) for agent in (await gateway.connection.app()).agents]


async def _check_rules(
    gateway: StackGateway, *, agent: str, tool: str, arguments: Mapping[str, Any], app: str | None
) -> RuleCheck:
    path = gateway.connection.stack.app_path if app is None else app
    return await gateway.connection.read(lambda store: checked(store, path, agent, tool, arguments))


async def _pause(gateway: StackGateway, *, agent: str | None, reason: str) -> Pause:
    principal = gateway.connection.principal
    by = principal.id.replace("|", "?") if principal is not None else this_user()
    pause = await gateway.connection.read(lambda store: store.pause(agent, by=by, reason=reason))
    now = await gateway.connection.read(lambda store: store.now())
    await asyncio.sleep(min(max(pause.since + LAPSED_MS - now, 0), LAPSED_MS) / 1000)
    return pause


_ANSWERS: Mapping[Verb[Any], Callable[..., Awaitable[Any]]] = {
    verbs.STARTED: _start,
    verbs.RESOLVE: _resolve,
    verbs.RESOLVE_EACH: lambda gateway, decisions, decision_id: resolve_each(gateway.resolve, decisions, decision_id),
    verbs.PENDING: _pending,
    verbs.PENDING_CALL: _pending_call,
    verbs.PENDING_OF: _pending_of,
    verbs.STATE: lambda gateway, **said: resting(gateway.connection, gateway.resolve, **said),
    verbs.LATEST: _latest,
    verbs.CANCEL: _cancel,
    verbs.AUDIT: lambda gateway, conversation_id, receipts: report(gateway.connection.read, conversation_id, receipts),
    verbs.ASSIGN: _assign,
    verbs.COMMENT: _comment,
    verbs.READY: _ready,
    verbs.AGENTS: _agents,
    verbs.CHECK_RULES: _check_rules,
    verbs.PAUSE: _pause,
}
_STREAMS: Mapping[Verb[Any], Callable[..., AsyncGenerator[Any, None]]] = {
    verbs.LIST_EVENTS: lambda gateway, **said: list_events(
        gateway.connection.feed, gateway.connection.read, gateway.resolve, **said
    ),
    verbs.EVENTS: lambda gateway, **said: events_of(gateway.connection, **said),
    verbs.AUDIT_LINES: lambda gateway, **said: lines(gateway.connection.read, **said),
}
