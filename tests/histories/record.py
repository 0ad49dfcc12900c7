"""Record the history of the record version that this code writes: `python tests/histories/record.py`.

A history is recorded once, with the last code of its version, and kept for ever: later code replays it. So when
`codec.VERSION` grows:

1. Teach `life` below to say everything that is new: every field, every member of an enumeration. The tests name what lacks.
2. Run this; it writes `v<VERSION>.jsonl` beside it and never overwrites one. Until the version is released, delete its file
   and record it anew after each further change of a record; after that, a change is another version. Version 6 was released
   with 0.2.0.
3. Leave the older histories alone. If their tests fail, `codec.UPGRADES` lacks a function.

It drives one conversation through a Redis server of its own and notes after each step what that has changed there; only who
owned the conversation, and until when, is left out. Its times and ids are fixed: recorded again, a history is the same.
"""

import asyncio
import json
import sys
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

import writer as steps
from claiming import claim, give_back
from history import CONVERSATION, Kept, path_of, stands, text_of, vocabulary
from redis_server import RedisServer
from writer import NextCommand as Asking
from writer import Writer

from holdfast.conversation import (
    AgentSpec,
    Answer,
    Approval,
    Approve,
    ApproverTerms,
    Assign,
    Cancel,
    Cancelled,
    Choice,
    Command,
    Comment,
    Compact,
    CompactNow,
    Context,
    Deny,
    EscalateCall,
    Event,
    Execution,
    Executor,
    Fail,
    Interrupted,
    Limits,
    OnDetach,
    OnLost,
    Origin,
    Principal,
    Proof,
    Receipt,
    Redispatch,
    Resume,
    Retain,
    Review,
    RunFinished,
    RunRuled,
    RunSuspended,
    Snooze,
    State,
    Stop,
    Summarized,
    SummaryFailure,
    SuspensionKind,
    Tell,
    ToolSpec,
    Wake,
    When,
    evolve,
    outstanding,
)
from holdfast.conversation.log.transcript import Transcript
from holdfast.conversation.records.calls import Suspension
from holdfast.conversation.records.commands import ProposedCall
from holdfast.conversation.records.event_base import FailureReason, Reached, StopReason
from holdfast.conversation.records.events import CallHeld
from holdfast.conversation.terms.budget import Budget, DaySpent, Per, Spent
from holdfast.conversation.terms.decisions import DecisionRecord
from holdfast.conversation.terms.grants import CallTarget, Level, Scope
from holdfast.conversation.terms.models import Breaker, ModelChain, ModelSpec
from holdfast.conversation.terms.overrides import Overridable, Overrides
from holdfast.conversation.terms.parts import FilePart, ImagePart, TextPart
from holdfast.conversation.terms.reply import FINAL_ANSWER
from holdfast.conversation.terms.rule_verdict import RuleEffect, RuleVerdict
from holdfast.conversation.terms.spec import NoticeKind, NotifySpec, UnattendedApprovals, UnattendedQuestions, UnattendedSpec
from holdfast.conversation.terms.stages import Default, OnTimeout, Stage
from holdfast.conversation.terms.stopping import Then
from holdfast.conversation.terms.turn_stats import TurnFunction
from holdfast.persistence import Appended, AppRecord, RedisStore, codec

BEGAN_AT = 1_700_000_000_000
OWNERSHIP = {b"token", b"epoch", b"holder", b"lease", b"append_id", b"at"}
"""What the head says of the writer, not of the conversation; `at` is the server's clock."""

YEARS = '{"type":"object","properties":{"years":{"type":"integer"}},"required":["years"]}'
AMOUNT = '{"type":"object","properties":{"amount":{"type":"integer"}}}'
DESK = AgentSpec(
    name="desk",
    model="test/model",
    instructions="Be kind. Größe? 🙂",
    model_options='{"temperature":0.1}',
    tools=(
        ToolSpec(name="lookup", description="Look up an order.", streaming=True),
        ToolSpec(name="charge", parameters=AMOUNT, on_lost=OnLost.ERROR, strict=True, run_timeout_s=30),
        ToolSpec(name="refund", parameters=AMOUNT, approval=Approval.REQUIRED, prompt="Really?", approval_timeout_s=7200),
        ToolSpec(name="ship", parameters=AMOUNT, approval=Approval.REQUIRED, on_lost=OnLost.ASK),
        ToolSpec(name="age", executor=Executor.HUMAN, response_schema=YEARS, answer_timeout_s=7200),
        ToolSpec(name="locate", executor=Executor.CLIENT),
        ToolSpec(name="share", executor=Executor.CLIENT, approval=Approval.REQUIRED),
        ToolSpec(name="search", executor=Executor.PROVIDER, definition='{"type":"web_search"}'),
    ),
    limits=Limits(
        max_model_calls=20,
        approval_timeout_s=3600,
        answer_timeout_s=3600,
        client_timeout_s=50,
        run_timeout_s=500,
        model_timeout_s=400,
        message_bytes=10_000,
        result_bytes=5_000,
        note_bytes=1_000,
        max_calls=30,
        reply_bytes=20_000,
        queued=10,
        descendants=40,
    ),
)
CLERK = DESK.model_copy(
    update={
        "execution": Execution.SEQUENTIAL,
        "context": Context(
            budget=50_000,
            keep=4,
            retain={"lookup": Retain(age=2, count=3, tokens=500), "*": Retain(never=True)},
            preview=4096,
        ),
        "tools": (
            ToolSpec(name="lookup"),
            ToolSpec(
                name="pay",
                parameters=AMOUNT,
                approval=Approval.REQUIRED,
                on_lost=OnLost.ASK,
                decisions=tuple(Choice),
                resume=Resume.PASS_TO_TOOL,
            ),
            ToolSpec(name="share", executor=Executor.CLIENT, approval=Approval.REQUIRED),
            ToolSpec(name="age", executor=Executor.HUMAN, response_schema=YEARS, answer_timeout_s=7200),
            ToolSpec(name="consult", executor=Executor.AGENT, agent="clerk", max_depth=2),
        ),
    }
)
"""The agent after its app was published anew."""
BOARD = CLERK.model_copy(update={"execution": Execution.BATCH})
PACE = '{"questions":[{"id":"pace","text":"How fast?","options":["slow","fast"],"default":"slow"}]}'
QUIZ = ToolSpec(name="quiz", executor=Executor.HUMAN, questions=True)
CALM = CLERK.model_copy(
    update={
        "tools": (*CLERK.tools, QUIZ),
        "unattended": UnattendedSpec(approvals=UnattendedApprovals.DENY, questions=UnattendedQuestions.DEFAULTS),
    }
)
"""The agent that decides by itself where nobody attends."""
NIGHT = CALM.model_copy(
    update={
        "unattended": UnattendedSpec(questions=UnattendedQuestions.CANCEL),
        "notify": (NotifySpec(name="channel", events=tuple(NoticeKind), decider=Principal("ops", roles=["finance"])),),
    }
)
FINANCE = ApproverTerms(who=(("role:finance",),))
STAGED = OnTimeout(
    stages=(Stage(approvers=FINANCE, for_s=30), Stage(approvers=ApproverTerms(minimum=2), for_s=20.5)),
    default=Default(kind="answer", value='{"years":9}'),
    reminders_s=(10, 5),
)
LATE = DESK.model_copy(
    update={
        "tools": (
            ToolSpec(name="lookup"),
            ToolSpec(name="refund", parameters=AMOUNT, approval=Approval.REQUIRED, decisions=tuple(Choice)),
            ToolSpec(
                name="slow",
                parameters=AMOUNT,
                approval=Approval.REQUIRED,
                approval_timeout_s=50,
                on_timeout=OnTimeout(default=Default(kind="deny", value='"nobody was there"'), reminders_s=(20,)),
            ),
            ToolSpec(name="age", executor=Executor.HUMAN, response_schema=YEARS, answer_timeout_s=7200, on_timeout=STAGED),
        )
    }
)
"""The agent whose deadlines act."""
AT_CLIENTS = DESK.model_copy(
    update={
        "client_grace_s": 3,
        "tools": (
            ToolSpec(name="locate", executor=Executor.CLIENT),
            ToolSpec(name="share", executor=Executor.CLIENT, on_lost=OnLost.ASK),
        ),
    }
)
"""The agent whose clients are not there."""
STOPPED = {
    reason: DESK.model_copy(update={"tools": DESK.tools[:3], "stop": Stop(**bound)})
    for reason, bound in (
        (StopReason.ROUNDS, {"rounds": 1}),
        (StopReason.TOKENS, {"tokens": 20}),
        (StopReason.COST, {"cost_usd": 0.5}),
        (StopReason.ERRORS, {"errors": 2}),
        (StopReason.TOOL, {"tool": "lookup"}),
        (StopReason.CONTENT, {"content": "no idea"}),
        (StopReason.WHEN, {"when": TurnFunction("enough")}),
        (StopReason.LOOP, {"loop": 2}),
    )
}
"""The agent as its turns stop, by why."""
TIMED = [DESK.model_copy(update={"tools": DESK.tools[:3], "stop": Stop(timeout_s=90, waits=waits)}) for waits in (False, True)]
"""The agent as its turns have so much time; in the second one, time counts in which they wait for people."""
TALKS = DESK.model_copy(update={"tools": DESK.tools[:3], "stop": Stop(errors=1, then=Then.LAST_WORDS)})
"""The agent as the model has the last word of turns that stop."""
EACH, DAY, LARGE = (*(Budget(tokens=20, cost_usd=1, per=per) for per in Per), Budget(tokens=10_000))
FRUGAL, DAILY, BOTH = (
    DESK.model_copy(update={"tools": DESK.tools[:3], "budgets": budgets}) for budgets in ((EACH,), (DAY,), (LARGE, DAY))
)
"""The agent with a budget for each conversation, for each day, and for both."""
ASKS = DESK.model_copy(
    update={
        "tools": DESK.tools[:3],
        "stop": Stop(rounds=1, tokens=20, cost_usd=0.5, tool="lookup", timeout_s=90, then=Then.ASK),
    }
)
"""The agent as its turns ask whether they may go on."""
LATE_IN_TURN = LATE.model_copy(update={"execution": Execution.SEQUENTIAL})
FALLING_BACK = DESK.model_copy(
    update={
        "tools": DESK.tools[:3],
        "retries": 2,
        "breaker": Breaker(failures=3, cooldown_s=20, probes=2),
        "fallbacks": (
            ModelSpec(
                model="test/other", options='{"top_p":0.5}', retries=1, breaker=Breaker(failures=4, cooldown_s=10, probes=3)
            ),
        ),
        "overridable": Overridable(
            models=(ModelSpec(model="test/large", options='{"top_p":0.25}', retries=3),),
            temperature=(0.25, 0.5),
            top_p=(0.5, 0.75),
            max_tokens=1000,
            reasoning_effort=("low",),
        ),
    }
)
"""The agent whose model gives way to another, and whose messages may choose one."""
OVERRIDES = Overrides(model="test/large", temperature=0.5, max_tokens=100, top_p=0.75, reasoning_effort="low")
SHAPED = DESK.model_copy(update={"reply": '{"type":"object","properties":{"order":{"type":"integer"}},"required":["order"]}'})
"""The agent whose replies have a shape."""
SUMMARISED = DESK.model_copy(
    update={
        "limits": DESK.limits.model_copy(update={"reply_bytes": 100_000}),
        "context": Context(
            budget=9_000,
            compact=Compact(at=0.5, model="test/large", prompt="Be brief.", max_tokens=300, keep=4, timeout_s=30),
        ),
    }
)
"""The agent whose conversations are summarised."""
_NOTES = ModelChain(
    model="test/notes",
    options='{"seed":1}',
    retries=1,
    breaker=Breaker(failures=2, cooldown_s=5, probes=2),
    fallbacks=(ModelSpec(model="test/other", options='{"seed":2}', retries=0, breaker=Breaker()),),
)
SUMMARISED_ELSEWHERE = DESK.model_copy(update={"context": Context(budget=9_000, compact=Compact(model=_NOTES))})
"""The agent whose summaries are made by models that are declared for them."""
FITTING = '{"order":7}'
LONG = f'{{"sealed":"{"x" * 70_000}"}}'
"""A text that is long enough for a snapshot."""
LATER = (
    SUMMARISED,
    SUMMARISED_ELSEWHERE,
    SHAPED,
    FALLING_BACK,
    CLERK,
    BOARD,
    CALM,
    NIGHT,
    LATE,
    LATE_IN_TURN,
    AT_CLIENTS,
    *STOPPED.values(),
    *TIMED,
    TALKS,
    FRUGAL,
    DAILY,
    BOTH,
    ASKS,
)
"""The specs that its turns have besides the first one."""
SHOP = AppRecord(
    app="shop.app:app",
    code="code-1",
    python_path=("/srv/shop",),
    main_file="/srv/shop/main.py",
    environment=("OPENAI_API_KEY",),
    agents={"desk": DESK.digest},
    source="source-1",
    prints={"OPENAI_API_KEY": "print-1"},
    rules={"desk": "rules-1"},
    primaries={"desk/lookup": "amount"},
    approving=("desk/refund",),
    signature="signature-1",
)


class Recorder:
    """Drives the conversation and notes what each step has written."""

    def __init__(self, store: RedisStore, writer: Writer) -> None:
        self.store = store
        self.writer = writer
        self.lines: list[dict[str, Any]] = []
        self.now = BEGAN_AT
        self.kept = Kept()
        self.shown: set[str] = set()
        self.answers = 0

    @property
    def state(self) -> State:
        """Where the conversation stands."""
        return self.writer.state

    async def does(self, step: str, asking: Asking, *, after_s: int = 1) -> None:
        """A step that is a command."""
        asked: list[Command] = []

        def told(state: State) -> Command:
            asked[:] = [asking(state)]
            return asked[0]

        self.now += 1000 * after_s
        reply = await self.writer.do(told, now=self.now)
        line: dict[str, Any] = {}
        if isinstance(reply, Receipt | Cancelled | Interrupted) and not isinstance(asked[0], Tell):
            plain = asked[0].model_dump(mode="json", exclude_defaults=True)
            line = {"asked": {"kind": asked[0].kind, **plain}, "reply": reply.model_dump(mode="json")}
        await self.notes(step, **line)

    async def together(self, step: str, *askings: Asking) -> None:
        """Commands that are written in one append."""
        self.now += 1000
        await self.writer.do(*askings, now=self.now)
        await self.notes(step)

    async def writes(self, step: str, event: Event) -> None:
        """An event that no command leads to yet."""
        after = evolve(self.state, event)
        written = await self.store.append(CONVERSATION, self.writer.write([event], after))
        assert isinstance(written, Appended)
        self.writer.adopt([event], after)
        self.writer.tail_bytes = written.tail_bytes
        await self.notes(step)

    async def notes(self, step: str, **line: Any) -> None:
        """Note what a step has changed in Redis, and where that leads."""
        redis: Any = self.store._redis
        keys: Any = self.store._keys
        head = await redis.hgetall(keys.head(CONVERSATION))
        kept = Kept(
            [fields[b"e"] for _, fields in await redis.xrange(keys.log(CONVERSATION))],
            {name.decode(): value for name, value in head.items() if name not in OWNERSHIP},
            {name.decode(): value for name, value in (await redis.hgetall(keys.known(CONVERSATION))).items()},
            {name.decode(): value for name, value in (await redis.hgetall(keys.runs(CONVERSATION))).items()},
        )
        views = [view.model_dump(mode="json") for view in await self.store.pending_of(CONVERSATION)]
        shown = [view for view in views if view["suspension_id"] not in self.shown]
        self.shown |= {view["suspension_id"] for view in shown}
        self.lines.append({"step": step, **line, **kept.since(self.kept), "stands": stands(self.state), "shown": shown})
        self.kept = kept

    async def model(self, step: str, *calls: tuple[str, str], **more: Any) -> None:
        """The model asks for calls, each by its id and its tool's name."""
        proposed = (
            ProposedCall(
                tool_call_id=call_id,
                name=name,
                arguments='{"amount":5}',
                prompt="Really?" if name in ("refund", "share") else None,
            )
            for call_id, name in calls
        )
        await self.does(step, steps.call(*proposed, **more))

    async def decides(self, step: str, call_id: str, decision: Any) -> None:
        """Somebody decides about a call that waits."""
        self.answers += 1
        (shown,) = (call.suspension for call in self.state.calls if call.tool_call_id == call_id)
        assert shown is not None
        named = {"suspension_id": shown.suspension_id, "decision_id": f"d-{self.answers}"}
        await self.does(step, steps.resolve(decision, call_id, **named))

    async def runs(self, call_id: str, tool: str, attempt: int = 1, *, ok: bool = True, **more: Any) -> None:
        """A worker claims a run, records its outcome, and the conversation hears of it."""
        content = '{"ok":true,"result":0.10}' if ok else '{"ok":false,"error":"no"}'
        outcome = RunFinished(effect_id=f"{call_id}#{attempt}", ok=ok, content=content, **more)
        await self.claims(call_id, tool, attempt)
        await self.store.finish(CONVERSATION, outcome.effect_id, incarnation="i-1", outcome=codec.encode(outcome))
        await self.notes(f"the worker records the outcome of {tool}")
        await self.does(f"{tool} is over", lambda _: outcome)

    async def suspends(self, call_id: str, tool: str, attempt: int, **asked: Any) -> None:
        """A worker claims a run, whose body asks for a review, and the conversation hears of it."""
        outcome = RunSuspended(effect_id=f"{call_id}#{attempt}", **asked)
        await self.claims(call_id, tool, attempt)
        await self.store.finish(CONVERSATION, outcome.effect_id, incarnation="i-1", outcome=codec.encode(outcome))
        await self.notes(f"the worker records that {tool} asks for a review")
        await self.does(f"{tool} waits for a review", lambda _: outcome)

    async def due(self) -> None:
        """What is due next is done."""
        self.now = max(self.state.due_at or 0, self.now)
        await self.does("something is due", steps.wake(), after_s=0)

    async def ruled(
        self,
        call_id: str,
        attempt: int,
        effect: RuleEffect,
        ruling: DecisionRecord | None = None,
        *,
        approvers: ApproverTerms | None = None,
        lapsed: tuple[str, ...] = (),
        on_timeout: OnTimeout | None = None,
    ) -> None:
        """A worker finds that the rules in force do not let a run begin, and the conversation hears of it."""
        said = {"rule": "late", "reason": "It is late.", "approvers": approvers, "lapsed": lapsed, "on_timeout": on_timeout}
        ruled = RuleVerdict(effect=effect, **said)
        outcome = RunRuled(effect_id=f"{call_id}#{attempt}", ruled=ruled, ruling=ruling)
        recorded = await self.store.refuse(CONVERSATION, outcome.effect_id, incarnation="i-1", outcome=codec.encode(outcome))
        assert recorded
        await self.notes(f"a worker records what the rules say of {call_id}: {effect}")
        await self.does(f"the rules say of {call_id}: {effect}", lambda _: outcome)

    async def hands_over(self, call_id: str, attempt: int = 1) -> None:
        """A worker finds that the rules in force let a client have the call, and the conversation hears of it."""
        ruled = RuleVerdict(effect=RuleEffect.ALLOW)
        outcome = RunRuled(effect_id=f"{call_id}#{attempt}", ruled=ruled, until_ms=self.now + 10_000)
        assert await self.store.refuse(CONVERSATION, outcome.effect_id, incarnation="i-1", outcome=codec.encode(outcome))
        await self.notes(f"a worker records that the rules let {call_id} go")
        await self.does(f"{call_id} waits for a client", lambda _: outcome)

    async def claims(self, call_id: str, tool: str, attempt: int = 1) -> None:
        """A worker claims a run; the first claim of all has no bound, and those with one are dated by the recorder."""
        await self.store.claim(CONVERSATION, f"{call_id}#{attempt}", incarnation="i-1", worker="worker:shop|1")
        await self.notes(f"a worker claims {tool}")

    async def loses(self, call_id: str, tool: str, attempt: int = 1) -> None:
        """A worker claims a run and is gone."""
        await self.claims(call_id, tool, attempt)
        await self.does(f"{tool} is lost", steps.lose(f"{call_id}#{attempt}"))


async def troubles(tells: Recorder) -> None:
    """Turns that fail or are cut off, for every reason there is."""
    for number, reason in enumerate(FailureReason, 1):
        await tells.does("one more message comes", steps.send("and now?", message_id=f"m-f{number}"))
        await tells.does("its turn begins", steps.begin())
        await tells.does(f"the turn fails: {reason}", steps.fail_model(f"it is {reason}", reason=reason))
    for number, stopped in enumerate((StopReason.LENGTH, StopReason.CONTENT_FILTER), 1):
        await tells.does("one more message comes", steps.send("go on", message_id=f"m-s{number}"))
        await tells.does("its turn begins", steps.begin())
        await tells.model(f"the answer is cut off: {stopped}", content="I was about to", finish_reason=stopped.value)


ANA = Principal("ana@shop.example", roles=("finance", "on call"), proof=Proof.OIDC)


def said_by(principal: Principal, asking: Asking) -> Asking:
    """The same step, by somebody."""
    return lambda state: asking(state).model_copy(update={"principal": principal})


async def somebody(tells: Recorder) -> None:
    """Messages, decisions and cancellations, and who it was, by every proof there is."""
    await tells.does("Ana cancels the question", said_by(ANA, steps.cancel_pending("x-4", kind=SuspensionKind.ELICITATION)))
    await tells.does("no question is left to cancel", steps.cancel_pending("x-5", kind=SuspensionKind.ELICITATION))
    shown = next(call.suspension for call in tells.state.calls if call.tool_call_id == "refund_5")
    assert shown is not None
    named = {"suspension_id": shown.suspension_id, "decision_id": "d-ana"}
    await tells.does("Ana denies the refund", said_by(ANA, steps.resolve(Deny("no"), "refund_5", **named)))
    await tells.does("Ana cancels this turn", said_by(ANA, steps.cancel("x-6", turn_id=tells.state.turn.turn_id)))  # type: ignore[union-attr]
    for proof in Proof:
        principal = Principal(f"somebody, {proof}", proof=proof)
        await tells.does(f"a message comes: {proof}", said_by(principal, steps.send("hi", message_id=f"m-{proof}")))
        await tells.does("its turn begins", steps.begin())
        await tells.does("its turn is cancelled", said_by(principal, steps.cancel(f"x-{proof}")))
    await tells.does("one more message comes", steps.send("and now?", message_id="m-last"))
    await tells.does("its turn begins", steps.begin())


def traced(number: int) -> str:
    """A trace context."""
    return f"00-{number:032x}-{number:016x}-01"


def traced_by(number: int, asking: Asking) -> Asking:
    """The same step, in the turn's span of this trace context; a request comes with that context, too."""

    def asked(state: State) -> Command:
        command = asking(state)
        fields = {"trace", "traceparent"} & type(command).model_fields.keys()
        return command.model_copy(update=dict.fromkeys(fields, traced(number)))

    return asked


async def traces(tells: Recorder) -> None:
    """A turn in a trace, with waits and messages that came with traces of their own."""
    await tells.does("a message comes with a trace", traced_by(1, steps.send("trace me", message_id="m-t1")))
    await tells.does("its turn begins, traced", traced_by(2, steps.begin()))
    await tells.does("another comes with its own", traced_by(3, steps.send("me too", message_id="m-t2")))
    calls = (("refund_t1", "refund"), ("refund_t2", "refund"), ("refund_t3", "refund"))
    proposed = (ProposedCall(tool_call_id=call_id, name=name, arguments='{"amount":5}') for call_id, name in calls)
    await tells.does("the model asks in the turn's span", traced_by(2, steps.call(*proposed)))
    for number, (call_id, _) in enumerate(calls[:2], 4):
        shown = next(call.suspension for call in tells.state.calls if call.tool_call_id == call_id)
        assert shown is not None
        named = {"suspension_id": shown.suspension_id, "decision_id": f"d-t{number}"}
        await tells.does("a refund is approved in a trace", traced_by(number, steps.resolve(Approve(), call_id, **named)))
        await tells.runs(call_id, "refund")
    await tells.does("nobody decides the third", traced_by(6, steps.wake()), after_s=7200)
    ships = [ProposedCall(tool_call_id=f"ship_t{number}", name="ship", arguments='{"amount":5}') for number in range(12)]
    await tells.does("the model asks to ship a lot, in the last span", traced_by(6, steps.call(*ships)))
    await tells.does("the turn is cancelled", steps.cancel("x-t1"))
    await tells.does("the turn of the other message begins", traced_by(7, steps.begin()))
    await tells.does("its model is done", traced_by(7, steps.reply("traced")))


async def reviews(tells: Recorder) -> None:
    """Calls that wait for their turn, bodies that ask for a review, and decisions with reasons."""
    asked = {
        "title": "Pay 5?",
        "message": "May it?",
        "report_md": "# Why",
        "payload": '{"amount":5}',
        "action": "confirm",
        "response_schema": "true",
        "expires_s": 90.5,
    }
    for spec in (CLERK, BOARD):
        name = str(spec.execution)
        tells.writer.spec = spec
        await tells.does("one more message comes", steps.send("pay", message_id=f"m-{name}"))
        await tells.does(f"its turn begins, {name}", steps.begin())
        calls = (("pay", "pay"), ("lookup", "lookup"), ("share", "share"), ("age", "age"))
        await tells.model("the model asks for four calls", *((f"{call_id}_{name}", tool) for call_id, tool in calls))
        await tells.decides("paying is approved", f"pay_{name}", Approve(reason="it is due"))
        if spec is BOARD:
            await tells.decides("the age is answered", f"age_{name}", Answer({"years": 7}, reason="she said so"))
            await tells.decides("sharing is cancelled", f"share_{name}", Cancel("no need"))
        await tells.suspends(f"pay_{name}", "pay", 1, **asked, resume=Resume.PASS_TO_TOOL)
        await tells.decides("the review is passed on", f"pay_{name}", Review("allow", "fine"))
        await tells.loses(f"pay_{name}", "pay", 2)
        await tells.decides("it is to run again", f"pay_{name}", Redispatch(reason="nothing was booked"))
        await tells.suspends(f"pay_{name}", "pay", 3, title="Pay 5 after all?")
        await tells.decides("the agent is to revise it", f"pay_{name}", Review("review", "less of it"))
        await tells.runs(f"lookup_{name}", "lookup")
        await tells.does("the turn is cancelled", steps.cancel(f"x-{name}"))
    tells.writer.spec = DESK


async def rules(tells: Recorder) -> None:
    """Calls that permission rules let run, ask about and deny: when they are proposed, and before they run."""
    for spec in (BOARD, CLERK):
        name = f"r-{spec.execution}"
        tells.writer.spec = spec
        await tells.does("one more message comes", steps.send("by the rules", message_id=f"m-{name}"))
        await tells.does(f"its turn begins, {name}", steps.begin())
        effects = (RuleEffect.ALLOW, RuleEffect.ALLOW, RuleEffect.DENY) if spec is BOARD else (RuleEffect.ALLOW, RuleEffect.ASK)
        proposed = (
            ProposedCall(
                tool_call_id=f"lookup_{name}_{number}",
                name="lookup",
                arguments='{"amount":5}',
                ruled=RuleVerdict(effect=effect, rule=f"to {effect}", reason="The house says so."),
            )
            for number, effect in enumerate(effects)
        )
        await tells.does("the model asks for what rules are about", steps.call(*proposed))
        if spec is BOARD:
            await tells.ruled(f"lookup_{name}_0", 1, RuleEffect.ASK)
            await tells.ruled(f"lookup_{name}_1", 1, RuleEffect.ASK)
            await tells.decides("one is approved", f"lookup_{name}_0", Approve())
            await tells.decides("one is not", f"lookup_{name}_1", Deny())
            await tells.ruled(f"lookup_{name}_0", 2, RuleEffect.ALLOW)
            await tells.ruled(f"lookup_{name}_0", 3, RuleEffect.DENY)
        else:
            await tells.runs(f"lookup_{name}_0", "lookup")
        await tells.does("the turn is cancelled", steps.cancel(f"x-{name}"))
    tells.writer.spec = DESK


async def grants(tells: Recorder) -> None:
    """Grants that are given with approvals; what they let run, what they let go, what is held; and their revocations."""
    for spec, tool in ((DESK, "refund"), (BOARD, "pay")):
        name = f"g-{spec.execution}"
        tells.writer.spec = spec
        await tells.does("one more message comes", steps.send("edit the files", message_id=f"m-{name}"))
        await tells.does(f"its turn begins, {name}", steps.begin())
        calls = {f"a_{name}": "src/a", f"b_{name}": "src/b", f"c_{name}": "lib/c"}
        await tells.does("the model asks for what touches files", touching(tool, calls))
        await tells.does("Ana approves it, and more", granting(tells, f"a_{name}", "src/**", Level.EXECUTE, ends_s=10**7))
        await tells.does("she approves another, and more", granting(tells, f"c_{name}", "lib/**", Level.ADMIN))
        for call_id in calls:
            await tells.runs(call_id, tool)
        sources, libraries = (grant.grant_id for grant in tells.state.grants)
        await tells.does("the model asks for more of it", touching(tool, {f"d_{name}": "src/d", f"e_{name}": "etc/e"}))
        if spec is DESK:
            await tells.runs(f"d_{name}", tool)
        await tells.decides("what no grant covers is denied", f"e_{name}", Deny("not there"))
        if spec is BOARD:
            await tells.runs(f"d_{name}", tool)
        if spec is DESK:
            await tells.does("the model asks the client, who need not ask", touching("share", {f"i_{name}": "src/i"}))
            await tells.hands_over(f"i_{name}")
            await tells.decides("the client has shared it", f"i_{name}", Answer(value=True))
        await tells.does("Ana revokes a grant", said_by(ANA, steps.revoke(libraries, f"x-{name}-1", reason="enough")))
        await tells.does("the model asks again", touching(tool, {f"f_{name}": "src/f", f"h_{name}": "lib/h"}))
        await tells.does("a grant is revoked", steps.revoke(sources, f"x-{name}-2"))
        if spec is DESK:
            await tells.ruled(f"f_{name}", 1, RuleEffect.ASK)
            await tells.decides("a person is asked, and approves", f"f_{name}", Approve())
            await tells.runs(f"f_{name}", tool, 2)
        await tells.does("the turn is cancelled", steps.cancel(f"x-{name}"))
    tells.writer.spec = DESK


def touching(tool: str, calls: dict[str, str]) -> Asking:
    """The step in which the model asks for calls of a tool, each by its id and the path that it reads and writes."""
    levels = (Level.READ, Level.WRITE)
    return steps.call(
        *(
            ProposedCall(
                tool_call_id=call_id,
                name=tool,
                arguments='{"amount":5}',
                targets=tuple(CallTarget(kind="path", value=path, level=level) for level in levels),
            )
            for call_id, path in calls.items()
        )
    )


def granting(tells: Recorder, call_id: str, pattern: str, level: Level, ends_s: float | None = None) -> Asking:
    """The step in which Ana approves a call and gives a grant with it."""
    tells.answers += 1
    shown = next(call.suspension for call in tells.state.calls if call.tool_call_id == call_id)
    assert shown is not None
    scope = Scope("path", pattern, level=level, ends_s=ends_s)
    named = {"suspension_id": shown.suspension_id, "decision_id": f"d-{tells.answers}"}
    return said_by(ANA, steps.resolve(Approve(scope=scope), call_id, **named))


async def alone(tells: Recorder) -> None:
    """Calls that would ask, and that are decided at once, since nobody attends the conversation."""
    for spec in (CALM, NIGHT):
        name = "calm" if spec is CALM else "night"
        tells.writer.spec = spec
        await tells.does("one more message comes", steps.send("by yourself", message_id=f"m-{name}"))
        await tells.does(f"its turn begins, {name}", steps.begin())
        scope = Scope("tool", "*", level=Level.ADMIN, ends_s=60, everything=True)
        rulings = {"pay_a": Approve({"amount": 4}, reason="little"), "pay_b": Approve(scope=scope)} if spec is NIGHT else {}
        calls = {"lookup_a": "lookup", "pay_a": "pay", "quiz_a": "quiz", "pay_b": "pay"}
        proposed = (
            ProposedCall(
                tool_call_id=f"{call_id}_{name}",
                name=tool,
                arguments=PACE if tool == "quiz" else '{"amount":5}',
                ruling=DecisionRecord.of(rulings[call_id]) if call_id in rulings else None,
            )
            for call_id, tool in calls.items()
        )
        await tells.does("the model asks for what asks", steps.call(*proposed))
        if spec is CALM:
            await tells.ruled(f"lookup_a_{name}", 1, RuleEffect.ASK, DecisionRecord.of(Deny("not at night")))
        else:
            await tells.runs(f"lookup_a_{name}", "lookup")
            await tells.runs(f"pay_a_{name}", "pay")
        await tells.does("the turn is cancelled", steps.cancel(f"x-{name}"))
    tells.writer.spec = DESK


async def votes(tells: Recorder) -> None:
    """Calls that several people have to agree to, that their sender does not decide, and notes of those who may."""
    who = (("role:finance", "id:bo"), ("role:on call",))
    terms = ApproverTerms(who=who, minimum=2, not_requester=True, stated=True, each=True)
    for spec in (DESK, CLERK):
        name, tool = f"v-{spec.execution}", "refund" if spec is DESK else "pay"
        tells.writer.spec = spec
        await tells.does("Bo sends a message", said_by(BO, steps.send("pay it", message_id=f"m-{name}")))
        await tells.does(f"its turn begins, {name}", steps.begin())
        proposed = (
            ProposedCall(tool_call_id=f"{letter}_{name}", name=tool, arguments='{"amount":5}', approvers=terms)
            for letter in "ab"
        )
        await tells.does("the model asks for what two people decide", steps.call(*proposed))
        await tells.does("Ana takes one on", noting(tells, f"a_{name}", Assign, to="ana@shop.example"))
        await tells.does("Ana gives it back", noting(tells, f"a_{name}", Assign, to=""))
        await tells.does("Ana writes to the others", noting(tells, f"a_{name}", Comment, text="Größe? 🙂"))
        await tells.does("Ana agrees", voting(tells, f"a_{name}", ANA, Approve(reason="it is due")))
        await tells.does("Cy changes it, and all are asked anew", voting(tells, f"a_{name}", CY, Approve({"amount": 4})))
        await tells.does("Ana agrees to that, too", voting(tells, f"a_{name}", ANA, Approve()))
        if spec is CLERK:
            await tells.suspends(f"a_{name}", tool, 1, title="Pay 4?", response_schema="true", approvers=terms)
            await tells.does("Ana answers the review", voting(tells, f"a_{name}", ANA, Answer({"paid": True}, reason="seen")))
            await tells.does("Cy answers the same", voting(tells, f"a_{name}", CY, Answer({"paid": True})))
        else:
            await tells.runs(f"a_{name}", tool)
            await tells.does("Cy denies the other", voting(tells, f"b_{name}", CY, Deny("no")))
        await tells.does("the turn is cancelled", steps.cancel(f"x-{name}"))
    tells.writer.spec = DESK
    finance = ApproverTerms(who=(("role:finance",),))
    await tells.does("Bo sends another message", said_by(BO, steps.send("refund it", message_id="m-v")))
    await tells.does("its turn begins", steps.begin())
    asked = ProposedCall(tool_call_id="a_v", name="refund", arguments='{"amount":5}', approvers=finance)
    await tells.does("the model asks for what finance decides", steps.call(asked))
    scope = Scope("tool", "refund", level="execute")
    await tells.does("Cy approves it, and more", voting(tells, "a_v", CY, Approve(scope=scope)))
    await tells.ruled("a_v", 1, RuleEffect.ASK, approvers=terms)
    await tells.does("Ana denies what a rule asks about now", voting(tells, "a_v", ANA, Deny("not now")))
    await tells.does("Cy's grant is revoked", steps.revoke(tells.state.grants[0].grant_id, "x-v-1"))
    await tells.does("the turn is cancelled", steps.cancel("x-v"))


async def given(tells: Recorder) -> None:
    """What Cy has given by an API key, a grant and a vote, and its end: where a run was to begin by it, and by Ana's word."""
    await tells.does("one more message comes", steps.send("refund all", message_id="m-given"))
    await tells.does("its turn begins", steps.begin())
    two = ApproverTerms(minimum=2)
    asked = (
        ProposedCall(
            tool_call_id=f"{name}_given", name="refund", arguments='{"amount":5}', approvers=two if name == "c" else None
        )
        for name in "abc"
    )
    await tells.does("the model asks for refunds", steps.call(*asked))
    scope = Scope("tool", "refund", level="execute")
    await tells.does("Cy approves one, and more", voting(tells, "a_given", CY, Approve(scope=scope)))
    await tells.does("Ana writes to the others", noting(tells, "c_given", Comment, text="me too?"))
    await tells.does("Cy agrees to the last", voting(tells, "c_given", CY, Approve()))
    await tells.ruled("b_given", 1, RuleEffect.ASK, lapsed=(tells.state.grants[0].grant_id,))
    await tells.does("Cy approves the next, and more", voting(tells, "b_given", CY, Approve(scope=scope)))
    ending = steps.revoke_given("cy", Proof.KEY, "x-given-1", reason="she has left")
    await tells.does("Ana ends what Cy has given", said_by(ANA, ending))
    await tells.does("the turn is cancelled", steps.cancel("x-given"))


BO = Principal("bo", roles=("on call",), proof=Proof.LINK)
CY = Principal("cy", roles=("finance", "on call"), proof=Proof.KEY)


def voting(tells: Recorder, call_id: str, who: Principal, decision: Any) -> Asking:
    """The step in which somebody decides about a call that waits."""
    tells.answers += 1
    named = {"suspension_id": suspended(tells, call_id), "decision_id": f"d-{tells.answers}"}
    return said_by(who, steps.resolve(decision, call_id, **named))


def noting(tells: Recorder, call_id: str, kind: type[Assign | Comment | EscalateCall | Snooze], **said: Any) -> Asking:
    """The step in which Ana notes something on a call that waits."""
    tells.answers += 1
    named = {"tool_call_id": call_id, "suspension_id": suspended(tells, call_id), "request_id": f"n-{tells.answers}"}
    return said_by(ANA, lambda _: kind(**named, **said))


def suspended(tells: Recorder, call_id: str) -> str:
    """The suspension of a call that waits."""
    return next(call.suspension.suspension_id for call in tells.state.calls if call.tool_call_id == call_id and call.suspension)


async def deadlines(tells: Recorder) -> None:
    """Calls whose deadlines act: reminders, escalations by hand and in time, defaults; and people who say "not now"."""
    for spec in (LATE, LATE_IN_TURN):
        name = f"late-{spec.execution}"
        tells.writer.spec = spec
        await tells.does("one more message comes", steps.send("nobody is there", message_id=f"m-{name}"))
        await tells.does(f"its turn begins, {name}", steps.begin())
        ruled = RuleVerdict(effect=RuleEffect.ASK, rule="late", on_timeout=STAGED)
        asked = {"slow": "slow", "ruled": "refund", "age": "age"}
        proposed = (
            ProposedCall(
                tool_call_id=f"{call_id}_{name}",
                name=tool,
                arguments='{"amount":5}',
                ruled=ruled if call_id == "ruled" else None,
                approvers=FINANCE if call_id == "age" else None,
            )
            for call_id, tool in asked.items()
        )
        await tells.does("the model asks", steps.call(*proposed))
        await tells.does("Ana does not want to see it now", said_by(ANA, steps.snooze(60, f"z-{name}", reason="at lunch")))
        await tells.does("Bo neither", said_by(BO, steps.snooze(60, f"z2-{name}")))
        await tells.does("Ana wants to see it again", said_by(ANA, steps.snooze(0, f"z3-{name}")))
        for _ in range(3):
            await tells.due()
        await tells.does("Ana lets others decide", said_by(ANA, steps.escalate(FINANCE, f"e-{name}", reason="on holiday")))
        if spec is LATE:  # the next suspension brings a snapshot, which has all of it
            age = f"age_{name}"
            await tells.does("Ana lets others decide the age", noting(tells, age, EscalateCall, approvers=FINANCE))
            await tells.does("Ana lets them decide it again", noting(tells, age, EscalateCall, approvers=FINANCE))
            await tells.does("Ana does not want to see it any more", noting(tells, age, Snooze, for_s=10**7))
        while tells.state.due_at is not None:
            await tells.due()
            call = tells.state.calls.of(f"ruled_{name}")
            if call is not None and call.suspension is not None and call.suspension.stage == 2 and call.suspensions == 1:
                await tells.does("Ana changes it", voting(tells, f"ruled_{name}", ANA, Approve({"amount": 4})))
        await tells.does("the turn is cancelled", steps.cancel(f"x-{name}"))
        await tells.does("one more message comes", steps.send("by the rules", message_id=f"m2-{name}"))
        await tells.does("its turn begins", steps.begin())
        await tells.model("the model looks something up", (f"look_{name}", "lookup"))
        await tells.ruled(f"look_{name}", 1, RuleEffect.ASK, on_timeout=STAGED)
        await tells.does("the turn is cancelled", steps.cancel(f"x2-{name}"))
    tells.writer.spec = LATE
    await tells.does("one more message comes", steps.send("review it", message_id="m-late-review"))
    await tells.does("its turn begins", steps.begin())
    await tells.model("the model looks something up", ("late_review", "lookup"), ("late_too", "lookup"))
    asked = {"response_schema": "true", "expires_s": 9, "on_timeout": STAGED, "approvers": FINANCE}
    await tells.suspends("late_review", "lookup", 1, title="Fine?", **asked)
    await tells.does("Ana lets others decide", noting(tells, "late_review", EscalateCall, approvers=FINANCE))
    asked["report_md"] = "- a line\n" * 50  # long enough for a snapshot, which has those who were replaced
    await tells.suspends("late_too", "lookup", 1, title="This, too?", **asked)
    while tells.state.due_at is not None:
        await tells.due()
    await tells.does("the turn is cancelled", steps.cancel("x-late-review"))
    tells.writer.spec = DESK


TASK = '{"task":"look into it"}'


async def machines(tells: Recorder) -> None:
    """Calls that wait for other conversations."""
    tells.writer.spec = CLERK
    await tells.does("one more message comes", steps.send("ask the others", message_id="m-machines"))
    await tells.does("its turn begins", steps.begin())
    asked = {name: ProposedCall(tool_call_id=name, name="consult", arguments=TASK) for name in ("ask_a", "ask_b")}
    asked["ask_b"] = asked["ask_b"].model_copy(update={"context": '{"order":7}'})
    await tells.does("the model asks others", steps.call(*asked.values()))
    for name, ended in (("ask_a", True), ("ask_b", False)):
        waits = tells.state.calls.of(name)
        assert waits is not None
        assert waits.suspension is not None
        said = {"suspension_id": waits.suspension.suspension_id, "source": waits.suspension.source, "ended": ended}
        word = Tell(**said, ok=ended, content='"all is well"')
        await tells.does(f"{name} has an answer", lambda _, word=word: word)
    await tells.does("the turn is cancelled", steps.cancel("x-machines"))
    tells.writer.spec = DESK


PICTURE = b"\x89PNG\r\n\x1a\n"


async def parts(tells: Recorder) -> None:
    """A message of parts, and a result with an image and a file."""
    paper = FilePart.of(b"%PDF-1.7", filename="a.pdf")
    said = (TextPart.of("What is it? 🙂"), *(ImagePart.of(PICTURE, detail=one) for one in ("auto", "low", "high")), paper)  # type: ignore[arg-type]
    await tells.does("a message of parts comes", steps.send(said, message_id="m-parts"))
    await tells.does("its turn begins", steps.begin())
    await tells.model("the model looks something up", ("look_parts", "lookup"))
    elsewhere = ImagePart.of("https://shop.example/a.png"), FilePart.of("https://shop.example/a.pdf")
    await tells.runs("look_parts", "lookup", attached=(ImagePart.of(PICTURE), paper, *elsewhere))
    await tells.does("the model is done", steps.reply("a dot"))


HELD = {"executor": Executor.SERVER, "approval": Approval.AUTO, "batch_id": "t1.m1"}


async def inputs(tells: Recorder) -> None:
    """Messages that wait by priority, until a time, to join a turn; moved, withdrawn, superseded ones; a call with a time."""
    later = lambda s: tells.now + 1000 * s  # noqa: E731 - a moment
    await tells.does(
        "a message comes for later", steps.send("later", message_id="m-i1", due=later(500), origin=Origin.SCHEDULE)
    )
    await tells.does(
        "another, before it", steps.send("x" * 200, message_id="m-i2", due=later(90), priority=9, origin=Origin.A2A)
    )
    late, soon = tells.state.delayed[1].seq, tells.state.delayed[0].seq
    await tells.does("the first is to come sooner", said_by(ANA, steps.reschedule("m-i1", late, "y-1", due=later(60))))
    await tells.does("the other to be less urgent", steps.reschedule("m-i2", soon, "y-2", priority=200))
    await tells.due()
    await tells.does("its turn begins", steps.begin())
    await tells.model("the model looks twice", ("look_i1", "lookup"), ("look_i2", "lookup"))
    steer = {"when": When.STEER}
    await tells.does("a message steers it", steps.send("in Bonn", message_id="m-i3", origin=Origin.AGENT, **steer))
    await tells.runs("look_i1", "lookup")
    await tells.runs("look_i2", "lookup")
    await tells.does(
        "one more steers it", traced_by(1, steps.send("or Köln", message_id="m-i4", origin=Origin.WEBHOOK, **steer))
    )
    await tells.model("the model looks again", ("look_i3", "lookup"), ("look_i4", "lookup"))
    await tells.does("a message comes for much later", steps.send("much later", message_id="m-i8", due=later(900)))
    await tells.does("one more steers it", steps.send("or Aachen", message_id="m-i9", priority=7, **steer))
    run = tells.state.calls.of("look_i3")
    assert run is not None
    await tells.writes("it is held until a time", run.carried(CallHeld, at=tells.now, held_until=later(20), **HELD))
    await tells.suspends("look_i4", "lookup", 1, title="Really?")  # which brings a snapshot
    await tells.due()
    await tells.does("a message is to be refused while it goes on", steps.send("no", message_id="m-i6", priority=255))
    await tells.does("Ana withdraws it", said_by(ANA, steps.withdraw("m-i6", tells.state.queue[-1].seq, "y-3")))
    await tells.does("Ana interrupts", said_by(ANA, steps.interrupt("stop, do this", "m-i7", origin=Origin.USER)))
    await tells.does("its turn begins", steps.begin())
    await tells.does("somebody stops it", steps.interrupt(request_id="y-4"))
    await tells.does("nothing is left to stop", steps.interrupt(request_id="y-5"))
    await tells.due()
    await tells.does("its turn begins", steps.begin())
    await tells.does("the turn is cancelled", steps.cancel("x-input"))


async def clients(tells: Recorder) -> None:
    """Calls that clients claim, answer and give back; clients that are gone, and calls for which none comes."""
    tells.writer.spec = AT_CLIENTS

    def looks(at: int) -> Asking:
        tells.now = max(tells.now, at)
        return lambda _: Wake().seeing(())

    def waits(call_id: str) -> Suspension:
        return next(call.suspension for call in tells.state.calls if call.tool_call_id == call_id and call.suspension)

    await tells.does("a message comes", steps.send("where are they?", message_id="m-clients"))
    await tells.does("its turn begins", steps.begin())
    calls = (("loc_1", "locate"), ("loc_2", "locate"), ("loc_3", "locate"), ("share_c", "share"))
    await tells.model("the model asks the clients", *calls)
    await tells.does("Ana's tab claims a call", claim("tab-1", "loc_1", request_id="y-c1", principal=ANA))
    leaving = claim("tab-2", "loc_2", request_id="y-c2", principal=CY, on_detach=OnDetach.CANCEL)
    await tells.does("Cy's tab claims another", leaving)
    await tells.does("Ana writes to the others", noting(tells, "loc_1", Comment, text="on it " * 100))
    await tells.does("a tab claims what may not be done twice", claim("tab-3", "share_c", request_id="y-c6"))
    lost = give_back("tab-3", "share_c", request_id="y-c7")
    await tells.does("it began, and is given back", lost)  # which brings a snapshot
    not_begun = give_back("tab-1", "loc_1", began=False, reason="no permission", request_id="y-c3", principal=ANA)
    await tells.does("Ana's tab gives it back", not_begun)
    await tells.does("another tab claims it", claim("tab-3", "loc_1", request_id="y-c4"))
    await tells.does("nobody comes for the third", looks(waits("loc_3").look_at), after_s=0)
    await tells.does("the tabs are gone", looks(waits("loc_1").look_at), after_s=0)
    await tells.does("Ana's tab claims it again", claim("tab-1", "loc_1", request_id="y-c5", principal=ANA))
    here = steps.resolve(Answer("Bonn"), "loc_1", decision_id="d-c1", principal=ANA, client_id="tab-1")
    await tells.does("and answers it", here)
    await tells.decides("the other is to be done again", "share_c", Redispatch())
    await tells.hands_over("share_c")
    await tells.does("the tab claims it again", claim("tab-3", "share_c", request_id="y-c8"))
    await tells.does("what waits for the tab is cancelled", steps.cancel_pending("x-c", client_id="tab-3"))
    await tells.does("the turn is cancelled", steps.cancel("x-clients"))
    tells.writer.spec = DESK


async def stops(tells: Recorder) -> None:
    """Turns that reach a bound of their agent."""
    for reason, spec in STOPPED.items():
        tells.writer.spec = spec
        await tells.does("a message comes", steps.send("how is it?", message_id=f"m-{reason}"))
        await tells.does("its turn begins", steps.begin())
        await tells.model("the model looks it up", (f"{reason}_1", "lookup"), input_tokens=15, output_tokens=10)
        if reason is StopReason.TOKENS:
            continue
        await tells.runs(f"{reason}_1", "lookup", ok=reason is not StopReason.ERRORS)
        if reason is StopReason.TOOL:
            continue
        calls = [(f"{reason}_2", "lookup"), (f"{reason}_3", "refund")]  # the latter's wait brings a snapshot
        if reason is StopReason.COST:
            await tells.model("the model asks for a refund, too", *calls, cost_usd=0.25)
            await tells.runs(f"{reason}_2", "lookup", ok=True)
            await tells.decides("no refund", f"{reason}_3", Deny())
            await tells.model("the model looks it up once more", (f"{reason}_4", "lookup"), cost_usd=0.25)
            continue
        by_worker = reason in (StopReason.CONTENT, StopReason.WHEN)
        found = Reached(reason=reason, detail=f"Stop({reason})") if by_worker else None
        await tells.model("the model looks it up again", *calls, reached=found)
        if reason is StopReason.ERRORS:
            await tells.runs(f"{reason}_2", "lookup", ok=False)
            await tells.decides("no refund", f"{reason}_3", Deny())
    for number, spec in enumerate(TIMED):
        tells.writer.spec = spec
        await tells.does("a message comes", steps.send("how long?", message_id=f"m-timed-{number}"))
        await tells.does("its turn begins", steps.begin())
        await tells.model("the model asks for a refund", (f"timed_{number}", "refund"))
        if number == 0:
            await tells.decides("no refund", f"timed_{number}", Deny())
        await tells.does("its time is over", steps.wake(), after_s=200)
    tells.writer.spec = TALKS
    await tells.does("a message comes", steps.send("in short?", message_id="m-short"))
    await tells.does("its turn begins", steps.begin())
    asked = ProposedCall(tool_call_id="words_1", name="refund", arguments='{"amount":5}')
    denied = steps.resolve(Deny(), "words_1", decision_id="d-words")
    await tells.together("the model asks for a refund, and gets none", steps.call(asked), denied)  # which brings a snapshot
    await tells.model("the model says its last words, and asks for more", ("words_2", "lookup"), content="All is well.")
    tells.writer.spec = DESK


async def uses_up_its_budget(tells: Recorder) -> None:
    """Turns of agents with budgets: of the conversation, which is used up, of the day, which was, and of both."""
    used = {"input_tokens": 15, "output_tokens": 10, "cost_usd": 0.25}
    day, spent = DaySpent(20_000, Spent()), DaySpent(20_000, Spent(tokens=10**6, nano_usd=10**9))
    for number, (spec, before) in enumerate(((FRUGAL, None), (FRUGAL, None), (DAILY, day), (DAILY, spent), (BOTH, day))):
        tells.writer.spec = spec
        await tells.does("a message comes", steps.send("what does it cost?", message_id=f"m-budget-{number}"))
        await tells.does("its turn begins, or does not", steps.begin(today=before))
        if number % 2 == 0:
            asked = ProposedCall(tool_call_id=f"budget_{number}", name="refund", arguments='{"amount":5}')
            denied = steps.resolve(Deny(), f"budget_{number}", decision_id=f"d-budget-{number}")
            await tells.does("the model asks for a refund", steps.call(asked, provider=LONG))  # which brings a snapshot
            await tells.does("and gets none", denied)
            await tells.does("the model answers", steps.reply("Little.", **used))


async def asks_first(tells: Recorder) -> None:
    """A turn that asks at each bound whether it may go on, until somebody says no."""
    tells.writer.spec = ASKS

    async def answers(decision: Approve | Deny) -> None:
        question = tells.state.turn.question if tells.state.turn is not None else None
        assert question is not None
        await tells.decides(f"of {question.tool_call_id} somebody says: {decision}", question.tool_call_id, decision)

    await tells.does("a message comes", steps.send("all of them?", message_id="m-asks"))
    await tells.does("its turn begins", steps.begin())
    used = {"input_tokens": 15, "output_tokens": 10, "cost_usd": 0.75}
    await tells.model("the model looks it up", ("asks_1", "lookup"), provider=LONG, **used)
    await answers(Approve(reason="as you like"))
    await answers(Approve())
    await tells.runs("asks_1", "lookup")
    await answers(Approve())
    await tells.model("the model asks for a refund", ("asks_2", "lookup"), ("asks_3", "refund"), provider=LONG)
    await answers(Approve())
    await tells.runs("asks_2", "lookup")
    await tells.decides("no refund", "asks_3", Deny())
    await answers(Deny("that will do"))
    tells.writer.spec = DESK


async def is_cut_off(tells: Recorder) -> None:
    """A turn of a model that its message chose; it fails after the third answer that is cut off inside its calls."""
    tells.writer.spec = FALLING_BACK
    await tells.does("a message comes", steps.send("write it all", message_id="m-cut", overrides=OVERRIDES))
    await tells.does("its turn begins", steps.begin())
    for number in (1, 2, 3):
        sealed = LONG if number == 2 else None
        said = {"provider": sealed, "finish_reason": "length", "model": "test/large"}
        await tells.model("a call is cut off", (f"cut_{number}", "lookup"), **said)
    tells.writer.spec = DESK


async def is_summarised(tells: Recorder) -> None:
    """A turn before whose model call summaries fail in every way, until one stands."""
    tells.writer.spec = SUMMARISED_ELSEWHERE
    await tells.does("a message comes", steps.send("hello again", message_id="m-noted"))
    await tells.does("its turn begins", steps.begin())
    await tells.does("the model replies", steps.reply("hello"))
    tells.writer.spec = SUMMARISED
    await tells.does("a message comes", steps.send("where were we?", message_id="m-summed"))
    await tells.does("its turn begins", steps.begin())
    used = {"model": "test/large", "input_tokens": 900, "output_tokens": 70, "cached_tokens": 20, "reasoning_tokens": 10}
    used |= {"cost_usd": 0.001, "duration_ms": 800, "first_token_ms": 90}
    await tells.does("a request is too long", steps.fail_model(reason=FailureReason.CONTEXT_OVERFLOW, reducible=True))
    for reason in SummaryFailure:
        failed = partial(Summarized, failed=reason, error=f"it is {reason}", **used)
        await tells.does("a summary fails", lambda state, failed=failed: failed(effect_id=outstanding(state)[0].effect_id))
    placed = {"messages": 9, "asked_at": tells.state.turn.message_seq, "tokens_before": 5000, "tokens_after": 800}
    stands = partial(Summarized, summary=LONG, boundary=tells.state.seq - 20, **placed, **used)
    await tells.does("a summary stands", lambda state: stands(effect_id=outstanding(state)[0].effect_id))
    await tells.does("the model replies", steps.reply("at the beginning"))
    await tells.does("Ana asks for a summary", said_by(ANA, lambda _: CompactNow(request_id="y-6")))
    tells.writer.spec = DAILY
    await tells.does("it begins, traced", traced_by(4, steps.begin()))
    by_hand = partial(stands, boundary=tells.state.seq - 3)
    for number in range(7):  # which brings a snapshot
        await tells.does("a long message comes", steps.send("x" * 9_900, message_id=f"m-long{number}"))
        await tells.does("it is withdrawn", steps.withdraw(f"m-long{number}", tells.state.queue[-1].seq, f"y-long{number}"))
    await tells.does("it stands", lambda state: by_hand(effect_id=outstanding(state)[0].effect_id))
    tells.writer.spec = DESK


async def has_a_shape(tells: Recorder) -> None:
    """Replies that do not fit what their agent declares, and one that does, as texts and as calls."""
    tells.writer.spec = SHAPED
    for number, last in enumerate((FITTING, None), 1):
        await tells.does("a message comes", steps.send("which order?", message_id=f"m-shaped-{number}"))
        await tells.does("its turn begins", steps.begin())
        await tells.does("the reply does not fit", steps.reply("Seven."))
        await tells.model("the call of the reply does not fit", (f"shaped_{number}", FINAL_ANSWER), provider=LONG)
        if last is not None:
            await tells.does("the reply fits", steps.reply(last))
        else:
            await tells.does("the third reply does not fit", steps.reply("7"))
    await tells.does("a message comes", steps.send("which order?", message_id="m-shaped-3"))
    await tells.does("its turn begins", steps.begin())
    await tells.does(
        "the call of the reply fits", steps.call(ProposedCall(tool_call_id="shaped_3", name=FINAL_ANSWER, arguments=FITTING))
    )
    tells.writer.spec = DESK


async def life(tells: Recorder) -> None:  # noqa: PLR0915 - a life is long
    """One conversation that says everything."""
    first = steps.start("Hello? 🙂", app="shop.app:app", context='{"order":12345678901234567890}', attended=False)
    await tells.does("it is started", first)
    await tells.does("its turn begins", steps.begin())

    await tells.model(
        "the model asks for everything",
        ("lookup_1", "lookup"),
        ("charge_1", "charge"),
        ("refund_1", "refund"),
        ("age_1", "age"),
        ("locate_1", "locate"),
        ("share_1", "share"),
        ("nonsense_1", "nonsense"),
        ("search_1", "search"),
        ("", "age"),
        content="let me see",
        finish_reason="tool_calls",
        input_tokens=7,
        output_tokens=11,
        cached_tokens=3,
        reasoning_tokens=5,
        cost_usd=0.000012,
        duration_ms=1500,
        first_token_ms=250,
        reasoning="they want everything",
        provider='{"thinking_blocks":[{"type":"thinking","thinking":"hm","signature":"s-1"}]}',
    )
    await tells.does("a second message comes", steps.send("and this?", message_id="m-2"))
    await tells.runs("lookup_1", "lookup")
    await tells.loses("charge_1", "charge")
    await tells.decides("the age is answered", "age_1", Answer({"years": 7}))
    await tells.decides("the refund is approved with other arguments", "refund_1", Approve({"amount": 2**70}))
    await tells.decides("sharing is approved", "share_1", Approve())
    await tells.hands_over("share_1")
    await tells.runs("refund_1", "refund", ok=False)
    await tells.decides("the client cannot locate", "locate_1", Fail("no GPS"))
    await tells.decides("the client has shared", "share_1", Answer(value=False))
    (rewritten,) = (call.tool_call_id for call in tells.state.calls if call.suspension is not None)
    await tells.decides("nobody will say the other age", rewritten, Deny("rather not"))

    calls = (("lookup_2", "lookup"), ("refund_2", "refund"), ("locate_2", "locate"), ("share_2", "share"))
    await tells.model("the model asks again", *calls)
    await tells.loses("lookup_2", "lookup")
    await tells.decides("the refund is denied", "refund_2", Deny())
    await tells.does("the client has not answered in time", steps.wake(), after_s=60)
    await tells.runs("lookup_2", "lookup", 2)
    await tells.decides("sharing is approved with other arguments", "share_2", Approve({"amount": 1}))
    await tells.hands_over("share_2")
    await tells.decides("the client has shared nothing", "share_2", Answer(None))
    await tells.does("the model is done", steps.reply("done"))

    await tells.does("the turn of the second message begins", steps.begin())
    await tells.model("the model asks once more", ("lookup_3", "lookup"), ("refund_3", "refund"))
    await tells.does("the turn is cancelled", steps.cancel("x-1"))
    await tells.does("nothing is left to cancel", steps.cancel("x-2"))
    await tells.does("a third message comes", steps.send("again", message_id="m-3"))
    await tells.does("its turn begins", steps.begin())
    await tells.does("the model fails", steps.fail_model())
    await troubles(tells)
    await traces(tells)
    await reviews(tells)
    await rules(tells)
    await grants(tells)
    await votes(tells)
    await given(tells)
    await alone(tells)
    await machines(tells)
    await parts(tells)
    await deadlines(tells)
    await inputs(tells)
    await clients(tells)
    await stops(tells)
    await uses_up_its_budget(tells)
    await asks_first(tells)
    await is_cut_off(tells)
    await has_a_shape(tells)
    await is_summarised(tells)

    await tells.does("a fourth message comes", steps.send("ship it", message_id="m-4"))
    await tells.does("its turn begins", steps.begin())
    await tells.model("the model asks to ship", ("ship_1", "ship"), ("ship_2", "ship"), ("ship_3", "ship"), ("ship_4", "ship"))
    for number in (1, 2, 3, 4):
        await tells.decides(f"ship {number} is approved", f"ship_{number}", Approve({"amount": number}))
        await tells.loses(f"ship_{number}", f"ship {number}")
    await tells.decides("ship 1 is to run again", "ship_1", Redispatch())
    await tells.loses("ship_1", "ship 1", 2)
    await tells.decides("ship 1 is to run a third time", "ship_1", Redispatch())
    await tells.runs("ship_1", "ship 1", 3)
    await tells.decides("ship 2 has arrived", "ship_2", Answer({"arrived": True}))
    await tells.decides("ship 3 has sunk", "ship_3", Fail("it sank"))
    await tells.does("nobody knows of ship 4", steps.wake(), after_s=3600)

    calls = (("refund_5", "refund"), ("age_5", "age"), ("lookup_5", "lookup"), ("ship_5", "ship"))
    await tells.model("the model asks for the last time", *calls)
    await tells.decides("ship 5 is approved", "ship_5", Approve())
    await tells.loses("ship_5", "ship 5")
    await somebody(tells)
    await tells.does("it is ended", said_by(ANA, steps.end("x-3")))


async def record() -> list[dict[str, Any]]:
    """The lines of the history that this code writes."""
    with RedisServer() as server:
        store = RedisStore(server.url)
        await store.open()
        await store.put_app(SHOP, [DESK, *LATER])
        writer = await Writer.of(store, CONVERSATION)
        writer.salt = lambda: "pepper"
        writer.spec = DESK
        recorder = Recorder(store, writer)
        await life(recorder)
        await store.close()
    transcript = Transcript()
    for seq, event in enumerate(writer.events, 1):
        transcript.add(seq, event)
    recorder.lines[-1]["messages"] = transcript.messages()
    header = {
        "version": codec.VERSION,
        "app": text_of(codec.encode(SHOP)),
        "spec": text_of(codec.encode(DESK)),
        "later_specs": [text_of(codec.encode(spec)) for spec in LATER],
        "vocabulary": vocabulary(),
    }
    return [header, *recorder.lines]


def main() -> None:
    """Write the history of this version, if there is none yet."""
    path = path_of(codec.VERSION)
    if path.exists():
        sys.exit(f"{path} is there: a history is recorded once (the head of this file says when it may be deleted)")
    lines = asyncio.run(record())
    path.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines), encoding="utf-8")
    print(f"{path}: {len(lines) - 1} steps")  # noqa: T201 - a script says what it did


if __name__ == "__main__":
    main()
