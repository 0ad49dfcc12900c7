"""The gateway over the stack: commands go to the actors by Ray, and reads to the store."""

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from holdfast import errors, work_context
from holdfast.actors.answers import Replied
from holdfast.backoff import Backoff
from holdfast.conversation import AgentSpec, Cancelled, Command, Principal, Receipt, Reply, Start, State, decide
from holdfast.conversation.records.calls import PendingView
from holdfast.conversation.terms.budget import Per, Spent
from holdfast.conversation.terms.decisions import DecisionRecord
from holdfast.conversation.terms.overrides import Overrides, check_allowed
from holdfast.conversation.terms.parts import Content
from holdfast.machine_load import because, overload
from holdfast.persistence import EVERYWHERE, PAUSE_LAG_MS, Listing, Pause, Store
from holdfast.registry.registry import Delivery, DeliveryResult, Unknown, Unsent

from . import links, verbs
from .agents import AgentRow
from .audit import lines, report
from .batches import resolve_each
from .context_view import published_spec
from .filters import CALLS, filtered
from .gateway import Gateway
from .list_feed import ListFeed, list_events
from .operation import Verb, judged, taker_of, this_user
from .results import AsyncPendingCall, Event, Page, PendingCall, resolver
from .rule_check import RuleCheck, checked
from .stack import Stack
from .stack_events import events_of, resting
from .stack_presence import Attachments, reported
from .stack_state import abandoned_calls, call_of, settled, waiting
from .summary import check_declared
from .tree import Below
from .tree_events import events_below
from .turns import seq_of

if TYPE_CHECKING:
    from holdfast.agent import App

    from .access import Access
    from .transport import RayTransport

R = TypeVar("R")
T = TypeVar("T")
DEFAULT_TIMEOUT_S = 30.0
START_S = 60.0
"""How much longer a call may take that may have to start the embedded stack, if its deadline is at least the default."""
GRACE_S = 1.0
LAPSED_MS = PAUSE_LAG_MS + 100
"""Milliseconds after a pause in which workers may still use an older view; the work that it allowed has begun by then."""
SILENT_MS = 15_000
"""Milliseconds without a renewal after which a cluster counts as silent; its sweeper renews its binding all the time."""
MOST_BEGUN = 1000
"""How many conversations' states after a start or message are kept for a first `wait`."""

logger = logging.getLogger("holdfast.client")


class StackGateway:
    """The gateway over a stack, with a deadline for each call. Functions below do what an operation's row does not say.

    `proves`: this process has verified the principal of its commands.
    """

    def __init__(
        self,
        stack: Stack,
        *,
        timeout_s: float,
        principal: Principal | None = None,
        feed: ListFeed | None = None,
        attachments: Attachments | None = None,
        proves: bool = False,
    ) -> None:
        self.stack = stack
        self.feed = feed or ListFeed()
        self.attachments = attachments or Attachments()
        self.principal = principal
        self.resolve = resolver(self, verbs.RESOLVE_CALL)
        self._timeout_s = timeout_s
        self._proves = proves

    @property
    def access(self) -> "Access":
        """The API keys of the namespace."""
        from .access import Access  # noqa: PLC0415 - `holdfast pending` counts milliseconds

        return Access(self)

    def acting_as(self, principal: Principal, *, proves: bool = False) -> "StackGateway":
        """The same gateway, with this principal for all commands."""
        shared: dict[str, Any] = {"timeout_s": self._timeout_s, "feed": self.feed, "attachments": self.attachments}
        return StackGateway(self.stack, principal=principal, proves=proves, **shared)

    async def ask(self, verb: Verb[R], arguments: Mapping[str, Any]) -> R:
        """What an operation replies: by its own function here, the read that its row names, or the command."""
        answer, read = _ANSWERS.get(verb), verb.read
        found: R
        if answer is not None:
            found = await answer(self, **arguments)
        elif read is not None:
            found = await self.read(lambda store: read(store, **arguments))
        else:
            found = await self.commanded(verb, **arguments)
        return found

    def stream(self, verb: Verb[R], arguments: Mapping[str, Any]) -> AsyncGenerator[R, None]:
        """What an operation replies, one by one."""
        return _STREAMS[verb](self, **arguments)

    async def commanded(self, verb: Verb[R], conversation_id: str, **said: Any) -> R:
        """The reply to the command of an operation; errors are as in `reply_in`."""
        key = said[verb.key or ""]
        return verb.replied(await self.reply_to(conversation_id, verb.made(said), what=verb.what, retry_id=key))

    async def aclose(self) -> None:
        """Close the connections."""
        await self.feed.close()
        await self.attachments.close()
        await self.stack.close()

    @property
    def allowed_s(self) -> float:
        """How many seconds a call that begins now may take."""
        return self._timeout_s + (START_S if self._timeout_s >= DEFAULT_TIMEOUT_S and self.stack.may_start else 0.0)

    async def app(self) -> "App":
        """The client's app, loaded; `AppNotFound` also if its module was not imported in time."""
        try:
            async with asyncio.timeout(self.allowed_s):
                return await self.stack.loaded_app()
        except TimeoutError as error:
            problem = f"its module was not imported within {self._timeout_s:g} s"
            raise errors.AppNotFound("app", problem, "import it before, or give the client a longer timeout_s") from error

    async def read(self, work: Callable[[Store], Awaitable[T]], *, block_ms: int = 0) -> T:
        """See `Reads`; the deadline also covers opening the store."""
        async with self._timely(self.allowed_s + block_ms / 1000):
            return await work(await self.stack.store())

    async def store(self, within_s: float | None = None) -> Store:
        """The store, opened in time, else `StoreUnavailable`."""
        async with self._timely(self.allowed_s if within_s is None else within_s):
            return await self.stack.store()

    @asynccontextmanager
    async def _timely(self, within_s: float) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(within_s):
                yield
        except TimeoutError as error:
            raise errors.StoreUnavailable(f"no answer within {self._timeout_s:g} s") from error

    async def reply_to(
        self, conversation_id: str, command: Command, *, what: str, retry_id: str, create: bool = False
    ) -> Reply:
        """The reply to a command, once the events that it led to are durable. Errors are as in `reply_in`."""
        said = {"principal": self.principal, "traceparent": work_context.caller_traceparent()}
        command = command.model_copy(update={name: value for name, value in said.items() if value is not None})
        delivery = Delivery(conversation_id, command, timeout_s=self.allowed_s, create=create, proves=self._proves)
        reply = reply_in(await self._delivered(delivery), what=what, retry_id=retry_id)
        if delivery.began is not None:
            self.stack.begun[conversation_id] = delivery.began
            if len(self.stack.begun) > MOST_BEGUN:
                self.stack.begun.popitem(last=False)
        return reply

    async def _delivered(self, delivery: Delivery) -> DeliveryResult:
        """The result of a delivery. If Ray dies, the delivery goes on over the next Ray, with the same ids."""
        while True:
            try:
                transport = self.stack.ready or await self._joined(delivery)
            except errors.ConfigurationError:
                raise
            except errors.HoldfastError as error:
                return delivery.given_up(error)
            result: DeliveryResult
            try:
                async with self.stack.asking(delivery.until + GRACE_S):
                    result = await transport.deliver(delivery)
            except TimeoutError as error:
                result = delivery.given_up(error)
            match result:
                case Unknown() | Unsent(TimeoutError() | errors.ClusterError() | errors.LeaseHeld()):
                    if not await self.stack.lost(transport) or not delivery.left_s:
                        return result
                case _:
                    return result

    async def _joined(self, delivery: Delivery) -> "RayTransport":
        await self.store(delivery.left_s)
        try:
            async with asyncio.timeout_at(delivery.until):
                return await self.stack.transport()
        except TimeoutError as error:
            why = f"it was not joined within {self._timeout_s:g} s{because()}; that goes on: call again"
            raise errors.ClusterUnavailable(why) from error


def reply_in(result: DeliveryResult, *, what: str, retry_id: str) -> Reply:
    """The reply in the result of a delivery.

    Raises:
        OutcomeUnknown: No actor acknowledged the command in time; repeating it with `retry_id` is safe.
        HoldfastError: The command was refused, or reached no actor.
    """
    match result:
        case Replied(reply):
            return reply
        case Unknown(error) | Unsent(TimeoutError() | errors.LeaseHeld() as error):
            why = str(error) or overload()
            raise errors.OutcomeUnknown(f"{what} ({why})" if why else what, retry_id) from error
        case _:
            raise result.error


def at_stack(gateway: Gateway) -> StackGateway:
    """The gateway, if it is over the stack; `ConfigurationError` if it is over HTTP."""
    if isinstance(gateway, StackGateway):
        return gateway
    raise errors.ConfigurationError("url", "this cannot be done over HTTP, only at the stack itself", "connect without a url")


async def _start(
    gateway: StackGateway,
    *,
    conversation_id: str,
    message_id: str,
    agent: str,
    text: Content,
    context: str,
    attended: bool,
    overrides: Overrides | None,
) -> Receipt:
    app = await gateway.app()
    check_allowed(app.agent(agent).spec.overridable, overrides)
    command = Start(
        agent=agent,
        app=gateway.stack.app_path or "",
        text=text,
        message_id=message_id,
        context=context,
        attended=attended,
        overrides=overrides,
        spec=app.agent(agent).spec,
    )
    # a bad command is refused before it travels
    await judged(partial(decide, State(conversation_id=conversation_id), command), context)
    reply_to = partial(gateway.reply_to, what=verbs.STARTED.what, retry_id=message_id)
    return verbs.STARTED.replied(await reply_to(conversation_id, command, create=True))


async def _sent(verb: Verb[R], gateway: StackGateway, *, conversation_id: str, overrides: Overrides | None, **said: Any) -> R:
    """The reply to a message, whose overrides the published agent has to allow."""
    if overrides is not None:
        spec = await gateway.read(lambda store: _published(store, conversation_id))
        check_allowed(None if spec is None else spec.overridable, overrides)
    return await gateway.commanded(verb, conversation_id=conversation_id, overrides=overrides, **said)


async def _published(store: Store, conversation_id: str) -> AgentSpec | None:
    return await published_spec(store, await store.load(conversation_id))


async def _resolve(
    gateway: StackGateway, *, conversation_id: str, suspension_id: str, decision: DecisionRecord, **said: str
) -> Receipt:
    tool_call_id = await gateway.read(lambda store: call_of(store, suspension_id, conversation_id))
    ids = {"conversation_id": conversation_id, "tool_call_id": tool_call_id, "suspension_id": suspension_id}
    return await gateway.commanded(verbs.RESOLVE_CALL, **ids, decision=decision, **said)


async def _pending(gateway: StackGateway, *, root: str | None, **where: Any) -> Page[AsyncPendingCall]:
    below = None if root is None else await gateway.read(lambda store: Below.walked(store, root))

    async def read(**of_page: Any) -> Listing:  # each page has a deadline of its own
        page = await gateway.read(lambda store: store.pending(**of_page) if below is None else below.page(store, **of_page))
        who = gateway.principal
        return page if who is None else Listing(await _awake(gateway, page.items, who), page.next)

    page = await filtered(read, CALLS, **where)
    return Page(items=[PendingCall.of(view, gateway.resolve) for view in page.items], next=page.next)


async def _awake(gateway: StackGateway, rows: Sequence[PendingView], who: Principal) -> Sequence[PendingView]:
    """The rows without those that this person does not want to see yet."""
    if not any(who.mark in row.snoozed for row in rows):
        return rows
    now = await gateway.read(lambda store: store.now())
    return [row for row in rows if row.snoozed.get(who.mark, 0) <= now]


async def _pending_call(gateway: StackGateway, *, suspension_id: str, conversation_id: str | None) -> AsyncPendingCall:
    views = await gateway.read(lambda store: store.pending_of(conversation_id, suspension_id))
    if not views:
        raise await gateway.read(lambda store: settled(store, suspension_id, conversation_id))
    return PendingCall.of(views[0], gateway.resolve)


async def _pending_of(gateway: StackGateway, *, conversation_id: str) -> list[AsyncPendingCall]:
    views = await gateway.read(lambda store: store.pending_of(conversation_id))
    return [PendingCall.of(view, gateway.resolve) for view in views]


async def _latest(gateway: StackGateway, *, conversation_id: str, limit: int) -> list[Event]:
    state = await gateway.read(lambda store: store.load(conversation_id))
    found = await gateway.read(lambda store: store.read(conversation_id, before=state.seq + 1, limit=limit))
    return [Event.recorded(seq, event) for seq, event in found]


async def _of_queued(verb: Verb[R], gateway: StackGateway, *, conversation_id: str, message_id: str, **said: Any) -> R:
    """The reply to a request about a message that waits, which is looked up by its id."""
    seq = await gateway.read(lambda store: seq_of(store, conversation_id, message_id))
    return await gateway.commanded(verb, conversation_id, message_id=message_id, message_seq=seq, **said)


async def _compact(gateway: StackGateway, *, conversation_id: str, request_id: str) -> Receipt:
    """The receipt of a request for a summary, which the published agent has to allow while no turn goes on."""
    await gateway.read(lambda store: check_declared(store, conversation_id, request_id))
    return await gateway.commanded(verbs.COMPACT, conversation_id, request_id=request_id)


async def _cancel(
    gateway: StackGateway, *, conversation_id: str, request_id: str, turn_id: str | None, wait_s: float
) -> Cancelled:
    cancelled = await gateway.commanded(verbs.CANCEL, conversation_id, request_id=request_id, turn_id=turn_id)
    if not wait_s or not cancelled.calls:
        return cancelled
    try:
        running = await _going_on(gateway, conversation_id, cancelled.calls, wait_s)
    except errors.HoldfastError as error:  # the cancellation itself is acknowledged
        logger.warning("it is not known which tools of %s still run: %s", conversation_id, error)
        running = cancelled.calls
    return cancelled.model_copy(update={"running": running})


async def _going_on(gateway: StackGateway, conversation_id: str, calls: Sequence[str], within_s: float) -> tuple[str, ...]:
    """The calls whose bodies still run, once none does or the time is over."""
    loop, pauses = asyncio.get_running_loop(), Backoff(0.05, 1.0)
    give_up = loop.time() + within_s
    while True:
        running = await gateway.read(lambda store: abandoned_calls(store, conversation_id, calls))
        left_s = give_up - loop.time()
        if not running or left_s <= 0:
            return running
        await asyncio.sleep(min(pauses.next_s(), left_s))


async def _noted(
    gateway: StackGateway, verb: Verb[R], *, conversation_id: str, suspension_id: str, tool_call_id: str | None, **said: Any
) -> R:
    """The receipt of a note on a suspension, which may be settled by now."""
    if not tool_call_id:
        state = await gateway.read(lambda store: store.load(conversation_id))
        tool_call_id = waiting(state, suspension_id)
    if tool_call_id is None:
        tool_call_id = (await gateway.read(lambda store: settled(store, suspension_id, conversation_id))).tool_call_id
    ids = {"suspension_id": suspension_id, "tool_call_id": tool_call_id}
    return await gateway.commanded(verb, conversation_id, **ids, **said)


async def _ready(gateway: StackGateway) -> bool:
    if EVERYWHERE in await gateway.read(lambda store: store.withheld()):
        raise errors.ClusterStopped((await gateway.store()).namespace)
    binding = await gateway.read(lambda store: store.binding())
    if binding is None:
        raise errors.ClusterUnavailable("no cluster serves the store: run holdfast up")
    if binding.age_ms > SILENT_MS:
        silent = f"the sweeper of the cluster at {binding.address} has been silent for {binding.age_ms} ms"
        raise errors.ClusterUnavailable(silent)
    if (absent := gateway.stack.absent) is not None:
        raise errors.ClusterUnavailable(absent)
    return True


async def _agents(gateway: StackGateway) -> list[AgentRow]:
    return [AgentRow.of(agent.spec, await _used_today(gateway, agent.spec)) for agent in (await gateway.app()).agents]


async def _used_today(gateway: StackGateway, spec: AgentSpec) -> Spent | None:
    """What an agent has used today; None if it has no budget for each day."""
    if Per.DAY not in spec.budgeted:
        return None
    return (await gateway.read(lambda store: store.spent(spec.name))).spent


async def _check_rules(
    gateway: StackGateway, *, agent: str, tool: str, arguments: Mapping[str, Any], app: str | None
) -> RuleCheck:
    path = gateway.stack.app_path if app is None else app
    return await gateway.read(lambda store: checked(store, path, agent, tool, arguments))


async def _pause(gateway: StackGateway, *, agent: str | None, reason: str) -> Pause:
    principal = gateway.principal
    by = principal.id.replace("|", "?") if principal is not None else this_user()
    pause = await gateway.read(lambda store: store.pause(agent, by=by, reason=reason))
    now = await gateway.read(lambda store: store.now())
    await asyncio.sleep(min(max(pause.since + LAPSED_MS - now, 0), LAPSED_MS) / 1000)
    return pause


_ANSWERS: Mapping[Verb[Any], Callable[..., Awaitable[Any]]] = {
    verbs.STARTED: _start,
    verbs.SEND: partial(_sent, verbs.SEND),
    verbs.INTERRUPT: partial(_sent, verbs.INTERRUPT),
    verbs.RESOLVE: _resolve,
    verbs.RESOLVE_EACH: lambda gateway, decisions, decision_id: resolve_each(gateway.resolve, decisions, decision_id),
    verbs.LINK: links.made,
    verbs.REDEEM: links.redeemed,
    verbs.PENDING: _pending,
    verbs.PENDING_CALL: _pending_call,
    verbs.PENDING_OF: _pending_of,
    verbs.STATE: resting,
    verbs.LATEST: _latest,
    verbs.CANCEL: _cancel,
    verbs.WITHDRAW: partial(_of_queued, verbs.WITHDRAW),
    verbs.COMPACT: _compact,
    verbs.RESCHEDULE: partial(_of_queued, verbs.RESCHEDULE),
    verbs.AUDIT: lambda gateway, conversation_id, receipts: report(gateway.read, conversation_id, receipts),
    verbs.ASSIGN: lambda gateway, to, **said: _noted(gateway, verbs.ASSIGN, to=taker_of(to, gateway.principal), **said),
    verbs.COMMENT: lambda gateway, **said: _noted(gateway, verbs.COMMENT, **said),
    verbs.SNOOZE: lambda gateway, **said: _noted(gateway, verbs.SNOOZE, **said),
    verbs.ESCALATE: lambda gateway, to, **said: _noted(gateway, verbs.ESCALATE, to=to.terms, **said),
    verbs.CLAIM: lambda gateway, **said: _noted(gateway, verbs.CLAIM, **said),
    verbs.GIVE_BACK: lambda gateway, **said: _noted(gateway, verbs.GIVE_BACK, **said),
    verbs.REPORT_PROGRESS: reported,
    verbs.READY: _ready,
    verbs.AGENTS: _agents,
    verbs.CHECK_RULES: _check_rules,
    verbs.PAUSE: _pause,
}
_STREAMS: Mapping[Verb[Any], Callable[..., AsyncGenerator[Any, None]]] = {
    verbs.LIST_EVENTS: lambda gateway, **said: list_events(gateway, gateway.feed, **said),
    verbs.EVENTS: events_of,
    verbs.EVENTS_BELOW: events_below,
    verbs.ATTACH: lambda gateway, **said: gateway.attachments.attend(gateway, **said),
    verbs.AUDIT_LINES: lambda gateway, **said: lines(gateway.read, **said),
}
