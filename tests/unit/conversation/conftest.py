"""A shell without I/O around the pure core: it keeps state, log and what is known, and speaks in the words of the domain."""

import contextlib
import json

import pytest

from holdfast.conversation import (
    AgentSpec,
    Approval,
    Cancel,
    End,
    Executor,
    Limits,
    ModelFailed,
    ModelReplied,
    OnLost,
    Resolve,
    RunFinished,
    RunTool,
    Send,
    Start,
    State,
    SuspensionKind,
    ToolSpec,
    Wake,
    decide,
    evolve,
    outstanding,
)
from holdfast.conversation.commands import ProposedCall, RunLost, TurnPrepared
from holdfast.conversation.decisions import Ruling
from holdfast.conversation.idempotency import facts
from holdfast.conversation.transcript import Transcript

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
)
"""An agent with one tool of each sort."""

WAITING = {
    SuspensionKind.APPROVAL: "refund",
    SuspensionKind.ELICITATION: "ask",
    SuspensionKind.CLIENT_EXEC: "locate",
    SuspensionKind.LOST: "post",
}
"""Of each kind of suspension, a tool whose call has it first."""


class Conversation:
    """One conversation as a shell drives it, at a clock that only the test moves."""

    desk = DESK

    def __init__(self, conversation_id="c-1", spec=DESK):
        self.state = State(conversation_id=conversation_id)
        self.spec = spec
        self.log = []
        self.known = {}
        self.now = BEGAN_AT
        self._ids = 0

    @staticmethod
    def desk_with(limits=None, **tools):
        """The desk with other limits, or with tools that differ in some fields."""
        changed = tuple(ToolSpec(**(dict(tool) | tools.get(tool.name, {}))) for tool in DESK.tools)
        return AgentSpec(name="desk", model="test/model", tools=changed, limits=Limits(**(dict(DESK.limits) | (limits or {}))))

    # The shell.

    def judge(self, command, *, at=None):
        """What the core says to a command, without adopting it."""
        asked = (*command.lookups(), *command.reasons())
        known = {key: self.known[key] for key in asked if key in self.known}
        return decide(self.state, command.stamped(self.now if at is None else at, self.spec, known))

    def do(self, command, *, at=None):
        """Judge a command a second after the last one, or at a moment, and adopt what it led to."""
        self.now = self.now + 1000 if at is None else at
        judgement = self.judge(command)
        self.known |= facts(judgement.events, self.state.seq + 1)
        for event in judgement.events:
            self.state = evolve(self.state, event)
            self.log.append(event)
        return judgement

    def fresh(self, prefix):
        self._ids += 1
        return f"{prefix}-{self._ids}"

    # What people ask.

    def start(self, text="hello", *, message_id=None, **more):
        return self.do(Start(agent="desk", app="shop:app", text=text, message_id=message_id or self.fresh("m"), **more))

    def send(self, text="and then?", *, message_id=None):
        return self.do(Send(text=text, message_id=message_id or self.fresh("m")))

    def resolve(self, tool_call_id, decision, *, suspension_id=None, decision_id=None, at=None):
        ruling = decision if isinstance(decision, Ruling) else Ruling.of(decision)
        command = Resolve(
            tool_call_id=tool_call_id,
            ruling=ruling,
            suspension_id=suspension_id,
            decision_id=decision_id or self.fresh("d"),
        )
        return self.do(command, at=at)

    def cancel(self, request_id=None):
        return self.do(Cancel(request_id=request_id or self.fresh("x")))

    def end(self, request_id=None):
        return self.do(End(request_id=request_id or self.fresh("x")))

    def wake(self, *, at=None):
        return self.do(Wake(), at=at)

    # What comes of the work.

    @property
    def effect_ids(self):
        return [effect.effect_id for effect in outstanding(self.state)]

    def begin(self, *, problem=None):
        return self.do(TurnPrepared(effect_id=self.effect_ids[0], code="code-1", problem=problem))

    def begun(self, text="hello"):
        """Started, and its first turn is at its first model call."""
        self.start(text)
        self.begin()
        return self

    def reply(self, text="done"):
        return self.do(ModelReplied(effect_id=self.effect_ids[0], content=text))

    def call(self, *calls, content=None, effect_id=None):
        """The model asks for calls: names, or `(name, arguments)`, or whole `ProposedCall`s; the ids they have."""
        proposed = tuple(self._proposed(call) for call in calls)
        before = len(self.log)
        self.do(ModelReplied(effect_id=effect_id or self.effect_ids[0], content=content, calls=proposed))
        return [call.tool_call_id for call in self.log[before].calls]

    def _proposed(self, call):
        if isinstance(call, ProposedCall):
            return call
        name, arguments = (call, '{"amount":5}') if isinstance(call, str) else call
        return ProposedCall(tool_call_id=self.fresh("call"), name=name, arguments=arguments)

    def fail_model(self, error="the model is overloaded"):
        return self.do(ModelFailed(effect_id=self.effect_ids[0], error=error))

    def run(self, tool_call_id):
        """The run of a call that is outstanding."""
        runs = [effect for effect in outstanding(self.state) if isinstance(effect, RunTool)]
        return next(effect for effect in runs if effect.tool_call_id == tool_call_id)

    def finish(self, tool_call_id, content='{"ok":true,"result":1}', *, ok=True):
        return self.do(RunFinished(effect_id=self.run(tool_call_id).effect_id, ok=ok, content=content))

    def lose(self, tool_call_id):
        return self.do(RunLost(effect_id=self.run(tool_call_id).effect_id))

    def waiting_for(self, kind):
        """A call that waits, as its first suspension, for what suspensions of that kind wait for."""
        [call] = self.call(WAITING[kind])
        if kind is SuspensionKind.LOST:
            self.lose(call)
        assert self.suspension(call).kind is kind
        return call

    # What there is to see.

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
