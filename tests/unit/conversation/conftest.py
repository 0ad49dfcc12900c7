"""A shell without I/O around the pure core: it keeps state, log and what is known, and is driven by the steps of a writer."""

import contextlib
import json

import pytest
from claiming import claim, give_back
from writer import (
    begin,
    call,
    cancel,
    cancel_pending,
    end,
    fail_model,
    finish,
    interrupt,
    lose,
    reply,
    reschedule,
    resolve,
    resolve_many,
    rule,
    send,
    start,
    suspend,
    wake,
    withdraw,
)

from holdfast.conversation import (
    AgentSpec,
    Approval,
    Approve,
    Executor,
    Limits,
    OnLost,
    RunTool,
    State,
    Stop,
    SuspensionKind,
    ToolSpec,
    decide,
    evolve,
    outstanding,
)
from holdfast.conversation.log.index import facts
from holdfast.conversation.log.transcript import Transcript
from holdfast.conversation.records.command_base import Looking
from holdfast.conversation.terms.rule_verdict import RuleEffect

MANY = 1_000_000_000
"""So many tokens that a turn uses them only on purpose."""
BEGAN_AT = 1_700_000_000_000
AMOUNT = '{"type":"object","properties":{"amount":{"type":"integer","maximum":100}},"required":["amount"]}'
YEARS = '{"type":"object","properties":{"years":{"type":"integer"}},"required":["years"]}'

DESK = AgentSpec(
    name="desk",
    model="test/model",
    tools=(
        ToolSpec(name="lookup"),
        ToolSpec(name="charge", on_lost=OnLost.ERROR),
        ToolSpec(name="exact", parameters=AMOUNT, strict=True),
        ToolSpec(name="refund", parameters=AMOUNT, approval=Approval.REQUIRED, on_lost=OnLost.ERROR, approval_timeout_s=300),
        ToolSpec(name="ship", parameters=AMOUNT, approval=Approval.REQUIRED, on_lost=OnLost.ASK, approval_timeout_s=400),
        ToolSpec(name="post", on_lost=OnLost.ASK),
        ToolSpec(name="ask", executor=Executor.HUMAN, answer_timeout_s=200),
        ToolSpec(name="age", executor=Executor.HUMAN, response_schema=YEARS),
        ToolSpec(name="locate", executor=Executor.CLIENT),
        ToolSpec(name="share", executor=Executor.CLIENT, approval=Approval.REQUIRED, parameters=AMOUNT, response_schema=YEARS),
        ToolSpec(name="search", executor=Executor.PROVIDER, definition='{"type":"web_search"}'),
        ToolSpec(name="consult", executor=Executor.AGENT, agent="clerk"),
    ),
    limits=Limits(
        max_model_calls=4,
        approval_timeout_s=1000,
        answer_timeout_s=500,
        client_timeout_s=60,
        message_bytes=2000,
        result_bytes=300,
        note_bytes=80,
    ),
    stop=Stop(tokens=MANY, then="ask"),
)
"""An agent with one tool of each sort."""

WAITING = {
    SuspensionKind.APPROVAL: "refund",
    SuspensionKind.ELICITATION: "ask",
    SuspensionKind.CLIENT_EXEC: "locate",
    SuspensionKind.LOST: "post",
    SuspensionKind.REVIEW: "lookup",
    SuspensionKind.DELEGATE: "consult",
    SuspensionKind.LIMIT: "lookup",
}
"""Of each kind of suspension, a tool whose call has it first."""


def said(step):
    """A step as a method: it is done a second after the last one, or at a moment."""

    def method(self, *args, at=None, **more):
        return self.do(step(*args, **more), at=at)

    return method


class Conversation:
    """One conversation as a shell drives it, at a clock that only the test moves."""

    desk = DESK
    salt = "pepper"

    def __init__(self, conversation_id="c-1", spec=DESK):
        self.state = State(conversation_id=conversation_id)
        self.spec = spec
        self.log = []
        self.known = {}
        self.now = BEGAN_AT
        self.present = None

    @staticmethod
    def desk_with(limits=None, **tools):
        """The desk with other limits, or with tools that differ in some fields."""
        changed = tuple(ToolSpec(**(dict(tool) | tools.get(tool.name, {}))) for tool in DESK.tools)
        limits = Limits(**(dict(DESK.limits) | (limits or {})))
        return AgentSpec(name="desk", model="test/model", tools=changed, limits=limits, stop=DESK.stop)

    # The shell.

    def judge(self, command):
        """What the core says to a command, without adopting it."""
        asked = (*command.lookups(), *command.reasons())
        known = {key: self.known[key] for key in asked if key in self.known}
        read = {seq: self.log[seq - 1] for seq in command.reads(self.state, self.spec)}
        return decide(self.state, self.seeing(command).stamped(self.now, self.spec, known, read=read, salt=self.salt))

    def seeing(self, command):
        """The command with the attached clients, if they are known and it looks at them."""
        sees = self.present is not None and isinstance(command, Looking)
        return command.seeing(self.present) if sees else command

    def do(self, step, *, at=None):
        """Judge a step, or a command as it is, a second after the last one, or at a moment, and adopt what it led to."""
        self.now = self.now + 1000 if at is None else at
        return self.adopt(self.judge(step(self.state) if callable(step) else step))

    def adopt(self, judgement):
        """Adopt what a step led to."""
        self.known |= facts(judgement.events, self.state.seq + 1) | judgement.passing
        for event in judgement.events:
            self.state = evolve(self.state, event)
            self.log.append(event)
        return judgement

    # The steps of `tests/support/writer.py`, as methods.

    start, send, resolve, end, wake = map(said, (start, send, resolve, end, wake))
    cancel, cancel_pending, claim, give_back = map(said, (cancel, cancel_pending, claim, give_back))
    begin, reply, fail_model, finish, lose, suspend = map(said, (begin, reply, fail_model, finish, lose, suspend))
    resolve_many, rule = said(resolve_many), said(rule)
    interrupt, withdraw, reschedule = map(said, (interrupt, withdraw, reschedule))

    def call(self, *calls, at=None, **answer):
        """As the step, with arguments that the desk's tools accept for a name alone; the ids that the calls have."""
        usual = {"consult": '{"task":"look into it"}'}
        given = [(one, usual.get(one, '{"amount":5}')) if isinstance(one, str) else one for one in calls]
        [answered, *_] = self.do(call(*given, **answer), at=at).events
        return [called.tool_call_id for called in answered.calls]

    def begun(self, text="hello"):
        """Started, and its first turn is at its first model call."""
        self.start(text)
        self.begin()
        return self

    def waiting_for(self, kind):
        """A call that waits, as its first suspension, for what suspensions of that kind wait for."""
        [waiting] = self.call(WAITING[kind], input_tokens=MANY if kind is SuspensionKind.LIMIT else None)
        if kind is SuspensionKind.LIMIT:
            waiting = self.state.turn.question_id
        if kind is SuspensionKind.LOST:
            self.lose(waiting)
        if kind is SuspensionKind.REVIEW:
            self.suspend(waiting, response_schema="{}")
        assert self.suspension(waiting).kind is kind
        return waiting

    def approve(self, tool_call_id, decision=None):
        """Approve a client's call, and hand it over: the rules in force let it."""
        judgement = self.resolve(decision or Approve(), tool_call_id, suspension_id=self.suspension(tool_call_id).suspension_id)
        self.rule(tool_call_id, RuleEffect.ALLOW)
        return judgement

    def run(self, tool_call_id):
        """The run of a call that is outstanding."""
        runs = [effect for effect in outstanding(self.state) if isinstance(effect, RunTool)]
        return next(effect for effect in runs if effect.tool_call_id == tool_call_id)

    # What there is to see.

    @property
    def effect_ids(self):
        return [effect.effect_id for effect in outstanding(self.state)]

    @property
    def status(self):
        return self.state.status

    def kinds(self, since=0):
        return [event.kind for event in self.log[since:]]

    def suspension(self, tool_call_id):
        return self.state.turn.call(tool_call_id).suspension

    def transcript(self):
        transcript = Transcript()
        for seq, event in enumerate(self.log, 1):
            transcript.add(seq, event)
        return transcript

    def messages(self):
        return self.transcript().messages()

    def result(self, tool_call_id):
        """The envelope that the model reads as a call's result."""
        results = [event for event in self.log if event.kind == "call_resolved" and event.tool_call_id == tool_call_id]
        assert len(results) == 1, f"{tool_call_id} has {len(results)} results"
        return json.loads(results[0].content)

    @contextlib.contextmanager
    def unchanged(self):
        """What happens inside leaves no trace."""
        state, log, known = self.state, list(self.log), dict(self.known)
        yield
        assert (self.state, self.log, self.known) == (state, log, known)


@pytest.fixture(scope="session")
def conversations():
    """The class, for tests that need several conversations or make them by the example."""
    return Conversation


@pytest.fixture
def conversation():
    return Conversation()


@pytest.fixture
def begun():
    """A conversation whose first model call is outstanding."""
    return Conversation().begun()


@pytest.fixture
def waits(begun):
    """A conversation whose only call waits for a client; nobody is attached."""
    begun.call("locate")
    begun.present = ()
    return begun
