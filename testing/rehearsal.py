"""A conversation without a stack: the real machine, activation and codec in the process of a unit test."""

import asyncio
import contextlib
import copy
import functools
import math
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import AsyncExitStack
from typing import Any, Concatenate, NoReturn, ParamSpec, Required, Self, TypedDict, TypeVar, Unpack

from holdfast.actors.worker.breakers import Breakers
from holdfast.agent import Agent, App, Rules
from holdfast.client import verbs
from holdfast.client.audit import report
from holdfast.client.conversation import AsyncConversation
from holdfast.client.operation import Verb, attended_of, context_of, is_time, principal_of
from holdfast.client.results import AsyncPendingCall, PendingCall, resolver
from holdfast.client.stack_state import call_of, shown
from holdfast.client.summary import check_declared
from holdfast.client.turns import seq_of
from holdfast.conversation import Command, Decision, Grant, Principal, Receipt, Reply, Start, State, Wake, outstanding
from holdfast.conversation.ids import check_conversation_id
from holdfast.conversation.terms.overrides import Overrides, check_allowed
from holdfast.conversation.terms.parts import Content, GivenContent
from holdfast.counting import Counts
from holdfast.errors import ConfigurationError, ConversationNotFound, InvalidInput

from .decider import Decide, Decider
from .in_process_actors import APP, Hosted, InProcessActors, agents_of
from .in_process_workers import InProcessWorkers
from .moved_clock import MovedClock
from .rehearsal_result import RehearsalResult, log_of, notices_of
from .rehearsed_client import Clients, RehearsedClient, StoreWithClient
from .scripted_model import Model, scripts_of

P = ParamSpec("P")
T = TypeVar("T")
CONVERSATION = "rehearsal"
WITHIN_S = 10.0
LOOK_S = 0.05
"""Seconds between two looks at whether the activation is over, which sets no event."""


class RunArguments(TypedDict, total=False):
    """The arguments of `run` beside the agent and the texts."""

    model: Required[Model]
    decide: Decide | None
    clients: Clients | None
    context: Any
    app: App | None
    resources: Any
    lose: Mapping[str, int] | None
    within_s: float
    attended: bool


class RehearsalArguments(RunArguments, total=False):
    """The arguments of `Rehearsal` beside the agent."""

    conversation_id: str


class NeverRested(TimeoutError):
    """The conversation did not come to rest in time. The message names the effects under way."""


def then_rests(
    method: Callable[Concatenate[AsyncConversation, P], Coroutine[Any, Any, Any]],
) -> Callable[Concatenate["Rehearsal", P], Coroutine[Any, Any, RehearsalResult[Awaitable[Receipt]]]]:
    """A conversation's method as a rehearsal has it: it returns the result once the conversation rests."""

    @functools.wraps(method)
    async def called(rehearsal: "Rehearsal", /, *args: P.args, **kwargs: P.kwargs) -> RehearsalResult[Awaitable[Receipt]]:
        await method(rehearsal._conversation, *args, **kwargs)  # noqa: SLF001 - the same module's own
        return await rehearsal.rest()

    return called


def as_it_is(
    method: Callable[Concatenate[AsyncConversation, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate["Rehearsal", P], Coroutine[Any, Any, T]]:
    """A conversation's method as a rehearsal has it, which does not wait for anything."""

    @functools.wraps(method)
    async def called(rehearsal: "Rehearsal", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await method(rehearsal._conversation, *args, **kwargs)  # noqa: SLF001 - the same module's own

    return called


class Rehearsal:
    """One conversation with one agent, in this process: an async context manager.

    If the agent delegates calls to other agents of `app`, their conversations are rehearsed too: what waits in them is shown
    and decided like what waits in the first one.

    It runs the code that production runs: the machine judges, the activation appends and starts outstanding effects, the
    store keeps every event in its codec, and tools' bodies are claimed, bounded and recorded. Only the model is a script,
    the workers are this event loop, and the store is memory. It opens no connection, and uses threads for blocking bodies
    alone. The clock stands still until `advance` moves it.

    Args:
        agent: The agent.
        model: The model: a list of replies (`say`, `call`, `calls`, plain text; an exception, such as `ProviderError`, is the
            error of a model after its retries), a function from the messages to one (async or not), or a `Replay`. All agents
            share it, each conversation taking the next reply; or a mapping has one for each agent, by its name.
        decide: The decisions on pending calls: a function of the pending call (async or not), or a mapping from tools to
            decisions or such functions. A call whose decision is None waits. Asked whenever the conversation rests.
        clients: The handlers of an attached client, by tool: it claims the calls that wait for it and answers them; `decide` is
            not asked then. A call for a client fails after the agent's `client_grace_s` if neither has its tool.
            None: somebody is attached for every tool.
        context: The JSON value that tools find in `ToolContext.context`.
        app: An app whose lifespan lasts as long as the rehearsal is open; it yields the resources. It has the agents to which
            calls are delegated.
        resources: The value that tools find in `ToolContext.resources`, if no app is given.
        lose: By tool, how many of its first runs are lost: their worker dies after the body and before the record.
        conversation_id: The conversation's id.
        within_s: How many seconds of real time the conversation may take to come to rest.
        attended: Whether a person can be asked, as in `AsyncClient.start`.

    Raises:
        ConfigurationError: An argument cannot be used; the error names the argument, the problem and the fix.
        InvalidConversationId: The id is empty, too long or ill-formed.
        InvalidMessage: The context is no JSON value.
    """

    def __init__(
        self,
        agent: Agent,
        *,
        model: Model,
        decide: Decide | None = None,
        clients: Clients | None = None,
        context: Any = None,
        app: App | None = None,
        resources: Any = None,
        lose: Mapping[str, int] | None = None,
        conversation_id: str = CONVERSATION,
        within_s: float = WITHIN_S,
        attended: bool = True,
    ) -> None:
        self._agents = agents_of(agent, app, lose or {})
        self._agent = agent
        self._scripts = scripts_of(model, self._agents)
        self._decider = Decider(self._agents.values(), decide)
        self._client = RehearsedClient(self._agents.values(), clients, self._decider)
        self._context = context_of(context)
        self._attended = attended_of(attended)
        if app is not None and resources is not None:
            raise ConfigurationError("resources", "the app's lifespan yields them already", "give app= or resources=")
        self._app = app
        self._resources = resources
        self._lose = dict(lose or {})
        self.id = check_conversation_id(conversation_id)
        if not is_time(within_s) or within_s <= 0:
            raise ConfigurationError("within_s", f"{within_s!r:.40} is no time", "give a number of seconds above 0")
        self._within_s = within_s
        self._news = asyncio.Event()
        self._clock = MovedClock(self._news.set)
        self._breakers = Breakers(Counts(), lambda: self._clock() / 1000)
        self._store = StoreWithClient(self._clock, self._client.tools)
        self._actors = InProcessActors(self._store, self._clock, self._agents, self._workers, self._news.set)
        self._opened = AsyncExitStack()
        self._principal: Principal | None = None

    def acting_as(self, principal: Principal) -> Self:
        """The same conversation; everything sent and decided in it, also by `decide`, is this principal's.

        The proof is the one that you state: `Principal("ana", roles=["finance"], proof=Proof.KEY)` decides like a caller who
        shows the server a key; without a proof, like code in the cluster. Use it while the rehearsal is open.

        Raises:
            InvalidInput: `principal` is no `Principal`.
            RuntimeError: The rehearsal is not open.
        """
        self._open()
        acting = copy.copy(self)
        acting._principal = principal_of(principal)  # noqa: SLF001 - this class's own
        return acting

    def child(self, conversation_id: str) -> Self:
        """A conversation of this rehearsal that another one has started, or the same one: to send to it, or to end it.

        Raises:
            ConversationNotFound: There is none with this id.
            RuntimeError: The rehearsal is not open.
        """
        self._open()
        if conversation_id not in self._actors.hosted:
            raise ConversationNotFound(conversation_id)
        child = copy.copy(self)
        child.id = conversation_id
        return child

    async def __aenter__(self) -> Self:
        if self._app is not None:
            self._resources = await self._opened.enter_async_context(self._app.resources())
        await self._actors.open(self.id, self._agent)
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    @property
    def now(self) -> int:
        """The time of this conversation, in integer milliseconds UTC; it begins with the year 2026."""
        return self._clock()

    send = then_rests(AsyncConversation.send)
    revoke = then_rests(AsyncConversation.revoke)
    revoke_given = then_rests(AsyncConversation.revoke_given)
    end = then_rests(AsyncConversation.end)
    interrupt = then_rests(AsyncConversation.interrupt)
    withdraw = then_rests(AsyncConversation.withdraw)
    give_back = then_rests(AsyncConversation.give_back)
    cancel_pending = then_rests(AsyncConversation.cancel_pending)
    reschedule = then_rests(AsyncConversation.reschedule)
    compact = then_rests(AsyncConversation.compact)
    summary = as_it_is(AsyncConversation.summary)
    post = as_it_is(AsyncConversation.send)
    """Send the user's next message without waiting for the conversation to rest: for bodies that only `advance` ends."""
    queue = as_it_is(AsyncConversation.queue)
    context = as_it_is(AsyncConversation.context)
    usage = as_it_is(AsyncConversation.usage)
    claim = as_it_is(AsyncConversation.claim)
    audit = as_it_is(AsyncConversation.audit)

    async def resolve(
        self, call: PendingCall[Any] | str, decision: Decision, *, decision_id: str | None = None
    ) -> RehearsalResult[Awaitable[Receipt]]:
        """Decide a call of this conversation or of one below it, as it was shown; or of this one, by its suspension.

        The errors are those of `AsyncConversation.resolve`; the result is that of this conversation, once it rests.
        """
        of = self
        if isinstance(call, PendingCall) and call.conversation_id in self._actors.hosted:
            of = self.child(call.conversation_id)
        await of._conversation.resolve(call, decision, decision_id=decision_id)  # noqa: SLF001 - this class's own
        return await self.rest()

    async def advance(self, seconds: float) -> RehearsalResult[Awaitable[Receipt]]:
        """Move the clock forward; each deadline on the way passes at its moment, with its consequences.

        Deadlines are those of turns, approvals, answers and client calls, and the bounds of runs and model calls. A body's
        sleep takes real time. The result is that of the new moment; a body within its bound keeps running.

        Raises:
            InvalidInput: `seconds` is no number, or negative.
            NoAnswer, NeverRested, Quarantined, Exception: See `rest`.
        """
        if not is_time(seconds) or seconds < 0:
            raise InvalidInput("seconds", f"{seconds!r:.40} is no length of time", "give a number of seconds, 0 or more")
        until = self._clock() + round(seconds * 1000)
        while True:
            await self._settled(self._under_way)
            waiting = await self._actors.due_at()
            due = min((at for at in (self._clock.due_at, waiting) if at is not None), default=math.inf)
            if due > until:
                break
            self._clock.move(int(due))
            await self._actors.wake()
        self._clock.move(until)
        return await self.result()

    async def rest(self) -> RehearsalResult[Awaitable[Receipt]]:
        """The result once the conversation and those below it rest: nothing runs, and `decide` has no more decisions.

        Raises:
            NoAnswer: The model has no more replies.
            NeverRested: The conversation did not come to rest in time.
            Quarantined: The conversation is in quarantine.
            Exception: An error of the model's function or of `decide`.
        """
        await self._settled(self._actors.rest)
        return await self.result()

    async def cancel(self) -> RehearsalResult[Awaitable[Receipt]]:
        """Cancel the turn; the result once the conversation rests."""
        await self._conversation.cancel()
        return await self.rest()

    async def grants(self) -> list[Grant]:
        """The grants that stand now, in the order in which they were given; none once the conversation has ended."""
        state = await self._log()
        return [] if state.ended else [grant for grant in state.grants if grant.is_active(self.now)]

    async def result(self) -> RehearsalResult[Awaitable[Receipt]]:
        """The state of the conversation now, with its log and its runs."""
        hosted = self._open()
        state = await self._log()
        events, messages = await log_of(self._store, state)
        children = [name for name, one in self._actors.hosted.items() if one.parent == self.id]
        return RehearsalResult(
            state=await shown(self._store, state, RehearsalGateway(self).resolve),
            messages=messages,
            events=events,
            receipts=list(hosted.receipts),
            runs=list(hosted.workers.runs),
            prompts=list(hosted.workers.prompts),
            replies_left=sum(script.left for script in set(self._scripts.values())),
            notices=await notices_of(self._store, state, self._app),
            children=[await self.child(name).result() for name in children],
        )

    async def close(self) -> None:
        """Leave the conversation and the app's lifespan; effects still under way are cancelled."""
        await self._actors.close()
        await self._opened.aclose()

    @property
    def _conversation(self) -> AsyncConversation:
        return AsyncConversation(RehearsalGateway(self), self.id)

    def _open(self) -> Hosted:
        if self.id not in self._actors.hosted:
            message = "this rehearsal is not open: use it inside of `async with Rehearsal(...) as conversation:`"
            raise RuntimeError(message)
        return self._actors.hosted[self.id]

    def _workers(self, agent: Agent) -> InProcessWorkers:
        return InProcessWorkers(
            self._store,
            agent,
            model=self._scripts[agent.name],
            clock=self._clock,
            resources=self._resources,
            lose=self._lose,
            breakers=self._breakers,
            rules=Rules.together(None if self._app is None else self._app.rules, agent.rules),
        )

    async def _log(self) -> State:
        return await self._actors.log(self.id)

    async def _ask(self, command: Command) -> Reply:
        self._open()
        if self._principal is not None and "principal" in type(command).model_fields:
            command = command.model_copy(update={"principal": self._principal})
        return await self._actors.ask(self.id, command)

    async def _start(self, text: Content, message_id: str, overrides: Overrides | None) -> Start | None:
        """The command that starts the conversation with its first message; None for those that follow."""
        if (await self._log()).seq:
            return None
        return Start(
            agent=self._agent.name,
            app=APP,
            text=text,
            message_id=message_id,
            context=self._context,
            attended=self._attended,
            overrides=overrides,
            spec=self._agent.spec,
        )

    async def _settled(self, condition: Callable[[], Awaitable[bool]]) -> None:
        """Wait until the condition holds and `decide` has no more decisions."""
        try:
            async with asyncio.timeout(self._within_s) as bound:
                await self._until(condition)
                while await self._decided():
                    await self._until(condition)
        except TimeoutError:
            if not bound.expired():
                raise
            raise NeverRested(await self._unrested()) from None

    async def _until(self, condition: Callable[[], Awaitable[bool]]) -> None:
        self._open()
        while await self._actors.carry() or not await condition():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_S):
                    await self._news.wait()
            self._news.clear()
        if self._open().activation.over:
            await self._actors.ask(self.id, Wake())  # it raises the reason
        for one in reversed(self._actors.hosted.values()):  # a mistake below may lead to one above
            mistake, one.workers.mistake = one.workers.mistake, None
            if mistake is not None:
                raise mistake

    async def _under_way(self) -> bool:
        """Whether the conversations rest, or each outstanding effect is within a bound, which the clock can end."""
        return await self._actors.rest(self._clock.bounded_effects)

    async def _decided(self) -> bool:
        """Decide the pending calls; whether one was decided."""
        decided = False
        for name in list(self._actors.hosted):
            of = self.child(name)
            for call in await of._conversation.pending() if (await of._log()).seq else []:  # noqa: SLF001 - this class's own
                if not await of._waits(call):  # noqa: SLF001 - as above
                    continue  # a grant that was given with the one before covers it
                if self._client.handles(call):
                    await self._client.carry_out(RehearsalGateway(of), call)
                    decided = True
                elif (decision := await self._decider.decision(call)) is not None:
                    await call.resolve(decision)
                    decided = True
        return decided

    async def _waits(self, call: AsyncPendingCall) -> bool:
        state = await self._log()
        return any(one.suspension is not None and one.suspension.suspension_id == call.suspension_id for one in state.calls)

    async def _unrested(self) -> str:
        running = [effect for name in self._actors.hosted for effect in outstanding(await self._actors.log(name))]
        effects = [" ".join((effect.kind, getattr(effect, "tool", ""))).strip() for effect in running]
        within = f"the conversation did not come to rest within {self._within_s:g} s (within_s)"
        return f"{within}: it is {(await self._log()).status}, and these still run: {', '.join(effects) or 'none'}"


async def run(agent: Agent, *texts: GivenContent, **arguments: Unpack[RunArguments]) -> RehearsalResult[Awaitable[Receipt]]:
    """Run a conversation with an agent in this process, without Ray and Redis; the result once it rests.

    The texts are the user's messages; each is sent when the conversation rests after the one before. The other arguments are
    those of `Rehearsal`, which also moves time and decides step by step. It is async, since tools and resources of an async
    test belong to that test's event loop; `run_sync` is its blocking form.

    Raises:
        ConfigurationError: An argument cannot be used; the error names the argument, the problem and the fix.
        InvalidMessage: A text or the context cannot be used.
        Exception: As `Rehearsal.rest`.
    """
    if not texts:
        raise ConfigurationError("texts", "there is no message", 'give the user\'s messages: run(agent, "Hello", model=...)')
    async with Rehearsal(agent, **arguments) as rehearsal:
        for text in texts:
            await rehearsal.send(text)
        return await rehearsal.result()


class RehearsalGateway:
    """The gateway to the conversation of a rehearsal: commands go to its activation, and reads to its store."""

    def __init__(self, rehearsal: Rehearsal) -> None:
        self._of = rehearsal
        self.resolve = resolver(self, verbs.RESOLVE_CALL)

    @property
    def access(self) -> NoReturn:
        """Refused: a rehearsal has no keys."""
        raise NotImplementedError

    def acting_as(self, principal: Principal) -> "RehearsalGateway":
        """The same gateway, with this principal for all commands."""
        return RehearsalGateway(self._of.acting_as(principal))

    async def ask(self, verb: Verb[T], arguments: Mapping[str, Any]) -> T:
        """What an operation replies."""
        of = self._of.child(arguments["conversation_id"])
        found: Any
        store = of._store  # noqa: SLF001 - the same module's own
        if verb is verbs.AUDIT:
            found = await report(lambda work: work(store), of.id, arguments["receipts"])
        elif verb is verbs.REPORT_PROGRESS:
            found = False  # nobody listens
        elif verb is verbs.PENDING_OF:
            found = [PendingCall.of(view, self.resolve) for view in await store.pending_of(of.id)]
        elif verb.read is not None:
            found = await verb.read(store, **arguments)
        else:
            found = verb.replied(await of._ask(await _command(of, verb, dict(arguments))))  # noqa: SLF001 - as above
        reply: T = found
        return reply

    def stream(self, verb: Verb[T], arguments: Mapping[str, Any]) -> NoReturn:
        """Refused: a rehearsal's result has all its events."""
        raise NotImplementedError

    async def aclose(self) -> None:
        """Nothing was opened."""


async def _command(of: Rehearsal, verb: Verb[Any], said: dict[str, Any]) -> Command:
    del said["conversation_id"]
    overrides = said.get("overrides")
    check_allowed(of._agent.spec.overridable, overrides)  # noqa: SLF001 - the same module's own
    if verb is verbs.SEND and (start := await of._start(said["text"], said["message_id"], overrides)) is not None:  # noqa: SLF001 - as above
        return start
    if verb is verbs.RESOLVE:
        call = await call_of(of._store, said["suspension_id"], of.id)  # noqa: SLF001 - as above
        return verbs.RESOLVE_CALL.made(said | {"tool_call_id": call})
    if verb in (verbs.WITHDRAW, verbs.RESCHEDULE):
        said["message_seq"] = await seq_of(of._store, of.id, said["message_id"])  # noqa: SLF001 - as above
    if verb is verbs.COMPACT:
        await check_declared(of._store, of.id, said["request_id"])  # noqa: SLF001 - as above
    if verb is verbs.CANCEL:
        del said["wait_s"]
    return verb.made(said)
