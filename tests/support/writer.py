"""A conversation as an actor drives it, without an actor: take it over, judge, append, adopt.

    writer = await Writer.of(store, "c-1")
    await writer.do(start("hello"), begin(), call("ask"))     # one append
    await writer.do(resolve(Answer("blue")))

Steps are functions from the state to the command, since ids of effects and calls follow from the state. Every driver of a
conversation takes them: a `Writer` appends what a step leads to, the core's tests judge it without a store, and the fake
workers of the actors' tests answer with it.
"""

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self, TypeAlias

from holdfast.conversation import (
    AgentSpec,
    Approval,
    ApproverTerms,
    Assign,
    CancelPending,
    CancelTurn,
    Command,
    Comment,
    CompactNow,
    Decided,
    Decision,
    End,
    EscalateCall,
    Event,
    Executor,
    Interrupt,
    Limits,
    ModelFailed,
    ModelReplied,
    OnLost,
    Reply,
    Reschedule,
    Resolve,
    ResolveMany,
    Revoke,
    RevokeGiven,
    RunFinished,
    RunRuled,
    RunSuspended,
    RunTool,
    Send,
    Snooze,
    Start,
    State,
    Summarized,
    SuspensionKind,
    ToolSpec,
    Wake,
    Withdraw,
    decide,
    evolve,
    outstanding,
)
from holdfast.conversation.records.commands import ProposedCall, RunLost, TurnPrepared
from holdfast.conversation.records.event_base import FailureReason
from holdfast.conversation.records.idempotency import IdempotencyRecord
from holdfast.conversation.terms.budget import DaySpent
from holdfast.conversation.terms.decisions import DecisionRecord
from holdfast.conversation.terms.parts import Content
from holdfast.conversation.terms.principal import Principal, Proof
from holdfast.conversation.terms.rule_verdict import RuleEffect, RuleVerdict
from holdfast.errors import HoldfastError
from holdfast.persistence import (
    Acquired,
    Append,
    AppRecord,
    Conversations,
    KnownIds,
    Moved,
    Run,
    Takeover,
    TakeoverReason,
    Visited,
)

NextCommand: TypeAlias = Callable[[State], Command]

LEASE_MS = 60_000
"""A lease that is longer than any test."""

DESK = AgentSpec(
    name="desk",
    model="test/model",
    tools=(
        ToolSpec(name="lookup"),
        ToolSpec(name="charge", on_lost=OnLost.ERROR),
        ToolSpec(name="refund", approval=Approval.REQUIRED, on_lost=OnLost.ERROR),
        ToolSpec(name="ship", approval=Approval.REQUIRED, on_lost=OnLost.ASK),
        ToolSpec(name="ask", executor=Executor.HUMAN, response_schema='{"type":["string","boolean","null"]}'),
        ToolSpec(name="locate", executor=Executor.CLIENT),
        ToolSpec(name="share", executor=Executor.CLIENT, approval=Approval.REQUIRED),
        ToolSpec(name="consult", executor=Executor.AGENT, agent="clerk"),
    ),
    limits=Limits(max_model_calls=1000, approval_timeout_s=3600, answer_timeout_s=3600, client_timeout_s=60),
)
"""An agent with one tool of each sort."""

APP = AppRecord(
    app="shop.app:app",
    code="code-1",
    python_path=("/srv/shop", "/srv/lib"),
    main_file="/srv/shop/main.py",
    environment=("OPENAI_API_KEY",),
    agents={"desk": DESK.digest},
)
"""The record of the app that the desk belongs to."""


@dataclass(slots=True)
class Writer:
    """One writer of one conversation. `state` and `events` are its own view; the store may be ahead of it."""

    store: Conversations
    conversation_id: str
    token: str
    epoch: int
    state: State
    runs: Mapping[str, Run]
    lease_ms: int = LEASE_MS
    tail_bytes: int = 0
    spec: AgentSpec = DESK
    events: list[Event] = field(default_factory=list)
    salt: Callable[[], str] = lambda: uuid.uuid4().hex
    seen: str | None = None

    @classmethod
    def visiting(cls, store: Conversations, conversation_id: str, visited: Visited | None = None) -> Self:
        """A guest, which writes once as no owner; without what it read, of a conversation that has not begun."""
        found = Visited(0, State(conversation_id=conversation_id), "") if visited is None else visited
        read = found.state, {}, LEASE_MS, found.tail_bytes
        return cls(store, conversation_id, "", 0, *read, seen=found.append_id)

    @classmethod
    async def of(
        cls,
        store: Conversations,
        conversation_id: str,
        *,
        seen: str = "",
        because: TakeoverReason = TakeoverReason.ASKED,
        holder: str = "actor-1",
        lease_ms: int = LEASE_MS,
        create: bool = True,
    ) -> Self:
        """Take a conversation over.

        Raises:
            LookupError: The conversation has another owner than the one seen.
        """
        token = uuid.uuid4().hex
        acquired = await store.acquire(
            conversation_id,
            Takeover(seen_token=seen, new_token=token, because=because, actor=holder, lease_ms=lease_ms, create=create),
        )
        match acquired:
            case Moved():
                raise LookupError(acquired)
            case Acquired():
                return cls(
                    store, conversation_id, token, acquired.epoch, acquired.state, acquired.runs, lease_ms, acquired.tail_bytes
                )

    async def succeeded(
        self, *, because: TakeoverReason = TakeoverReason.DIED, holder: str = "actor-2", lease_ms: int = LEASE_MS
    ) -> Self:
        """Another writer that takes the conversation over from this one."""
        return await type(self).of(
            self.store, self.conversation_id, seen=self.token, because=because, holder=holder, lease_ms=lease_ms
        )

    async def do(self, *steps: NextCommand, now: int | None = None) -> Reply:
        """Judge the steps, each on the state after the one before, and write all events in one append; the last step's reply.

        Raises:
            HoldfastError: A step was refused, as confirmed by the store; the steps before it were not written either.
        """
        moment = await self.store.now() if now is None else now
        known: dict[str, IdempotencyRecord] = {}
        while True:
            state, events, lookups, reply, refusal = self.state, list[Event](), list[str](), None, None
            passing: dict[str, IdempotencyRecord] = {}
            for step in steps:
                command = step(state)
                read = await self._read(command, state, events)
                try:
                    judgement = decide(state, command.stamped(moment, self.spec, known, command.trace, read, salt=self.salt()))
                except HoldfastError as error:
                    state, events, passing, refusal = self.state, [], {}, error
                    lookups += (*command.lookups(), *command.reasons())
                    break
                lookups += command.lookups()
                reply = judgement.reply
                events += judgement.events
                passing |= judgement.passing
                for event in judgement.events:
                    state = evolve(state, event)
            absent = [key for key in lookups if key not in known]
            written = await self.store.append(self.conversation_id, self.write(events, state, absent, passing))
            if isinstance(written, KnownIds):
                known |= written.known
                continue
            self.adopt(events, state)
            self.tail_bytes = written.tail_bytes
            if refusal is not None:
                raise refusal
            return reply

    async def _read(self, command: Command, state: State, events: Sequence[Event]) -> dict[int, Event]:
        """The entries that a command is judged by: those that are to be written with it, and those of the log."""
        places = command.reads(state, self.spec)
        fresh = dict(enumerate(events, self.state.seq + 1))
        older = [seq for seq in places if seq not in fresh]
        found = dict(zip(older, await self.store.at(self.conversation_id, older), strict=True)) if older else {}
        return {seq: event for seq in places if (event := fresh.get(seq) or found.get(seq)) is not None}

    def judged(self, *steps: NextCommand, now: int) -> Append:
        """The write that steps lead to, for a caller that appends it itself."""
        state, events = self.state, list[Event]()
        for step in steps:
            judgement = decide(state, step(state).stamped(now, self.spec, {}, salt=self.salt()))
            events += judgement.events
            for event in judgement.events:
                state = evolve(state, event)
        return self.write(events, state)

    def write(
        self,
        events: Sequence[Event] = (),
        after: State | None = None,
        absent: Sequence[str] = (),
        passing: Mapping[str, IdempotencyRecord] | None = None,
    ) -> Append:
        """A write by this writer, with an append id of its own."""
        return Append(
            token=self.token,
            append_id=uuid.uuid4().hex,
            before=self.state,
            after=self.state if after is None else after,
            lease_ms=self.lease_ms,
            events=tuple(events),
            absent=tuple(absent),
            tail_bytes=self.tail_bytes,
            passing=passing or {},
            seen=self.seen,
        )

    def adopt(self, events: Sequence[Event], state: State) -> None:
        """Take over events that were written, and the state after them."""
        self.events += events
        self.state = state

    async def release(self) -> None:
        """Give the conversation up."""
        await self.store.release(self.conversation_id, self.token)

    @property
    def effect_ids(self) -> tuple[str, ...]:
        """The ids of the outstanding effects."""
        return tuple(effect.effect_id for effect in outstanding(self.state))

    @property
    def suspension_ids(self) -> tuple[str, ...]:
        """The ids of the open suspensions."""
        return tuple(call.suspension.suspension_id for call in self.state.calls if call.suspension is not None)


def start(
    text: Content = "hello",
    *,
    agent: str = "desk",
    app: str = "shop:app",
    message_id: str = "m-1",
    context: str = "null",
    spec: AgentSpec | None = None,
    principal: Principal | None = None,
    attended: bool = True,
) -> NextCommand:
    """The step that starts the conversation."""
    return lambda _: Start(
        agent=agent,
        app=app,
        text=text,
        message_id=message_id,
        context=context,
        spec=spec,
        principal=principal,
        attended=attended,
    )


def send(text: Content = "and then?", *, message_id: str | None = None, due: int | None = None, **more: Any) -> NextCommand:
    """A message; `due` is its `at`, and `more` are further fields of `Send`."""
    return lambda _: Send(text=text, message_id=message_id or uuid.uuid4().hex, at=due, **more)


def interrupt(text: Content | None = None, request_id: str | None = None, **more: Any) -> NextCommand:
    """An interruption, with a message or without one."""
    return lambda _: Interrupt(text=text, request_id=request_id or uuid.uuid4().hex, **more)


def withdraw(message_id: str, message_seq: int, request_id: str | None = None) -> NextCommand:
    """A withdrawal of a message that waits."""
    return lambda _: Withdraw(message_id=message_id, message_seq=message_seq, request_id=request_id or uuid.uuid4().hex)


def reschedule(
    message_id: str, message_seq: int, request_id: str | None = None, *, due: int | None = None, **more: Any
) -> NextCommand:
    """Another time (`due`) or `priority` for a message that waits."""
    about = {"message_id": message_id, "message_seq": message_seq, "request_id": request_id or uuid.uuid4().hex}
    return lambda _: Reschedule(**about, at=due, **more)


def begin(*, problem: str | None = None, today: DaySpent | None = None) -> NextCommand:
    """The step that begins the turn of the oldest queued message, or fails it with the app's problem, or by its budget."""
    said = {"code": "code-1", "problem": problem, "today": today}
    return lambda state: TurnPrepared(effect_id=outstanding(state)[0].effect_id, **said)


def call(*calls: str | tuple[str, str] | ProposedCall, prompt: str | None = None, **answer: Any) -> NextCommand:
    """The step in which the model asks for calls: by tool name, by name and arguments (JSON text), or as whole proposed calls.

    `answer` holds further fields of the model's answer, `content` for example.
    """

    def proposed(state: State, number: int, one: str | tuple[str, str] | ProposedCall) -> ProposedCall:
        if isinstance(one, ProposedCall):
            return one
        name, arguments = (one, "{}") if isinstance(one, str) else one
        return ProposedCall(tool_call_id=f"call_{state.seq + 1}_{number}", name=name, arguments=arguments, prompt=prompt)

    def step(state: State) -> Command:
        asked = tuple(proposed(state, number, one) for number, one in enumerate(calls, 1))
        return ModelReplied(effect_id=outstanding(state)[0].effect_id, calls=asked, **answer)

    return step


def reply(text: str | None = "done", **answer: Any) -> NextCommand:
    """The step in which the model gives its final answer; `answer` holds further fields of it."""
    return lambda state: ModelReplied(effect_id=outstanding(state)[0].effect_id, content=text, **answer)


def fail_model(error: str = "the model is overloaded", *, reason: FailureReason | None = None, **more: Any) -> NextCommand:
    """The step in which the model call fails for good, unless less can be sent."""
    return lambda state: ModelFailed(effect_id=outstanding(state)[0].effect_id, error=error, reason=reason, **more)


def compact(request_id: str | None = None) -> NextCommand:
    """A request for a summary."""
    return lambda _: CompactNow(request_id=request_id or uuid.uuid4().hex)


def summarize(summary: str = "notes", **more: Any) -> NextCommand:
    """The step in which the model call brings a summary of all up to the message before; `more` may say that it failed."""
    return lambda state: Summarized(
        effect_id=outstanding(state)[0].effect_id, **{"summary": summary, "boundary": state.seq - 1, "messages": 1, **more}
    )


def resolve(
    decision: Decision | DecisionRecord,
    tool_call_id: str | None = None,
    *,
    decision_id: str | None = None,
    suspension_id: str | None = None,
    principal: Principal | None = None,
    client_id: str = "",
) -> NextCommand:
    """The step that settles a suspension of the named call; its command names the suspension only where one is given.

    Without a call, it settles the given suspension, else the first open one, and its command names that.
    """

    def step(state: State) -> Command:
        named, shown = (tool_call_id, None) if tool_call_id is not None else _waiting(state, suspension_id)
        return Resolve(
            tool_call_id=named,
            ruling=decision if isinstance(decision, DecisionRecord) else DecisionRecord.of(decision),
            suspension_id=suspension_id or shown,
            decision_id=decision_id or uuid.uuid4().hex,
            principal=principal,
            client_id=client_id,
        )

    return step


def finish(run: str | None = None, content: str = '{"ok":true,"result":1}', *, ok: bool = True, **more: Any) -> NextCommand:
    """The step in which a run ends: the run of that effect id or call id, else the first outstanding one."""
    return lambda state: RunFinished(effect_id=_run(state, run), ok=ok, content=content, **more)


def suspend(run: str | None = None, title: str = "Look at this", **asked: Any) -> NextCommand:
    """The step in which a run's body asks for a review; `run` is as in `finish`, `asked` holds further fields."""
    return lambda state: RunSuspended(effect_id=_run(state, run), title=title, **asked)


def rule(
    run: str | None = None, effect: RuleEffect = RuleEffect.DENY, *, name: str = "no", reason: str = "", **more: Any
) -> NextCommand:
    """The step in which the rules in force say this of a run; `run` is as in `finish`, `more` are fields of the verdict."""
    ruled = RuleVerdict(effect=effect, rule=name, reason=reason, **more)
    return lambda state: RunRuled(effect_id=_run(state, run), ruled=ruled)


def resolve_many(
    decisions: Mapping[str, Decision], *, decision_id: str | None = None, principal: Principal | None = None
) -> NextCommand:
    """The step that settles several suspensions, named by their ids or their calls' ids, or none."""

    def step(state: State) -> Command:
        prefix = decision_id or uuid.uuid4().hex
        waiting = {one.tool_call_id: one.suspension.suspension_id for one in state.calls if one.suspension is not None}
        named = {waiting.get(name, name): decision for name, decision in decisions.items()}
        return ResolveMany(
            decisions=tuple(
                Decided(suspension_id=name, ruling=DecisionRecord.of(decision), decision_id=f"{prefix}.{number}")
                for number, (name, decision) in enumerate(named.items(), 1)
            ),
            principal=principal,
        )

    return step


def lose(run: str | None = None) -> NextCommand:
    """The step in which a run's worker is gone without an outcome; `run` is as in `finish`."""
    return lambda state: RunLost(effect_id=_run(state, run))


def cancel(request_id: str | None = None, *, turn_id: str | None = None) -> NextCommand:
    """The step that cancels the turn, or a certain one."""
    return lambda _: CancelTurn(request_id=request_id or uuid.uuid4().hex, turn_id=turn_id)


def cancel_pending(
    request_id: str | None = None,
    *,
    kind: SuspensionKind | None = None,
    reason: str = "",
    client_id: str | None = None,
    principal: Principal | None = None,
    kinds: tuple[SuspensionKind, ...] | None = None,
) -> NextCommand:
    """The step that cancels the calls that wait, or those of a kind or of a client."""
    about = {"suspension_kind": kind, "reason": reason, "client_id": client_id, "principal": principal, "kinds": kinds}
    return lambda _: CancelPending(request_id=request_id or uuid.uuid4().hex, **about)


def revoke_given(by: str, proof: Proof | None = None, request_id: str | None = None, *, reason: str = "") -> NextCommand:
    """The step that ends what a principal has given."""
    return lambda _: RevokeGiven(request_id=request_id or uuid.uuid4().hex, by=by, proof=proof, reason=reason)


def revoke(grant_id: str, request_id: str | None = None, *, reason: str = "") -> NextCommand:
    """The step that ends a grant."""
    return lambda _: Revoke(request_id=request_id or uuid.uuid4().hex, grant_id=grant_id, reason=reason)


def assign(to: str, request_id: str | None = None, *, principal: Principal | None = None) -> NextCommand:
    """The step that notes who takes the first call on that waits."""

    def step(state: State) -> Command:
        named, shown = _waiting(state, None)
        request = request_id or uuid.uuid4().hex
        return Assign(tool_call_id=named, suspension_id=shown or "", to=to, request_id=request, principal=principal)

    return step


def escalate(
    approvers: ApproverTerms, request_id: str | None = None, *, reason: str = "", principal: Principal | None = None
) -> NextCommand:
    """The step that lets others decide the first call that waits."""

    def step(state: State) -> Command:
        named, shown = _waiting(state, None)
        about = {"tool_call_id": named, "suspension_id": shown or "", "request_id": request_id or uuid.uuid4().hex}
        return EscalateCall(approvers=approvers, principal=principal, reason=reason, **about)

    return step


def snooze(for_s: float, request_id: str | None = None, *, reason: str = "", principal: Principal | None = None) -> NextCommand:
    """The step that hides the first call that waits from somebody's lists."""

    def step(state: State) -> Command:
        named, shown = _waiting(state, None)
        about = {"tool_call_id": named, "suspension_id": shown or "", "request_id": request_id or uuid.uuid4().hex}
        return Snooze(for_s=for_s, principal=principal, reason=reason, **about)

    return step


def comment(text: str, request_id: str | None = None, *, principal: Principal | None = None) -> NextCommand:
    """The step that comments on the first call that waits."""

    def step(state: State) -> Command:
        named, shown = _waiting(state, None)
        request = request_id or uuid.uuid4().hex
        return Comment(tool_call_id=named, suspension_id=shown or "", text=text, request_id=request, principal=principal)

    return step


def end(request_id: str | None = None) -> NextCommand:
    """The step that ends the conversation for good."""
    return lambda _: End(request_id=request_id or uuid.uuid4().hex)


def wake() -> NextCommand:
    """The step that settles deadlines that have passed."""
    return lambda _: Wake()


def _waiting(state: State, suspension_id: str | None) -> tuple[str, str | None]:
    """The call that waits with that suspension, else the first that waits, and its suspension."""
    waiting = [(one.tool_call_id, one.suspension.suspension_id) for one in state.calls if one.suspension is not None]
    named = [(name, found) for name, found in waiting if suspension_id in (None, found)]
    return [*named, *waiting, ("call_0", None)][0]


def _run(state: State, named: str | None) -> str:
    """The effect id of a run; a call's id never has a `#` in it, and its run's always does."""
    if named is not None and "#" in named:
        return named
    runs = [effect for effect in outstanding(state) if isinstance(effect, RunTool)]
    return next(run.effect_id for run in runs if named in (None, run.tool_call_id))
