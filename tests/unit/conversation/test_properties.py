"""Any sequence of commands: the design's invariants hold at each step, and recovery is the fold."""

import functools
import itertools
import re
from collections import Counter
from decimal import Decimal

import pytest
import writer as steps
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from holdfast.conversation import (
    Answer,
    Approve,
    BeginTurn,
    Cancelled,
    Compact,
    CompactNow,
    Context,
    Deny,
    Executor,
    Fail,
    ModelFailed,
    ModelReplied,
    Receipt,
    Redispatch,
    Resolve,
    RunFinished,
    RunTool,
    State,
    Status,
    Stop,
    StopReason,
    decide,
    evolve,
    outstanding,
)
from holdfast.conversation.log.index import pending_entries
from holdfast.conversation.log.transcript import reply_of
from holdfast.conversation.records.commands import ProposedCall, RunLost, TurnPrepared
from holdfast.conversation.records.event_base import FailureReason, Reached, SummaryFailure
from holdfast.conversation.records.events import RequestedCall
from holdfast.conversation.terms.decisions import DecisionRecord, SuspensionKind
from holdfast.conversation.terms.reply import FINAL_ANSWER
from holdfast.conversation.terms.rule_verdict import RuleEffect
from holdfast.conversation.text import jsontext
from holdfast.errors import ConversationEnded, HoldfastError

TERMINAL = {"turn_completed", "turn_failed", "turn_cancelled"}
OF_A_TURN = {"model_answered", "run_scheduled", "call_suspended", "suspension_settled", "call_resolved", "compacted"}
CALL_ID = re.compile(r"[A-Za-z0-9_-]{1,40}")

TOOLS = st.sampled_from(
    ["lookup", "charge", "exact", "refund", "ship", "post", "ask", "age", "locate", "share", "search", "nope"]
)
RUNNING_TOOLS = st.sampled_from(["post", "post", "ship", "lookup", "charge"])
ENDS = st.sampled_from(["ok", "ok", "error", "lost"])
FRAGILE_ENDS = st.sampled_from(["lost", "lost", "lost", "ok"])
ARGUMENTS = st.sampled_from(['{"amount":5}', '{"amount":5}', "{}", "", '{"amount":"x"}', "[]", "{", "NaN", '{"a":1e999}'])
MODEL_IDS = st.sampled_from(["a", "b", "a", "", "x" * 50, "call 1"])
DECISIONS = st.sampled_from(
    [
        Approve(),
        Approve(arguments={"amount": 7}),
        Approve(arguments={"amount": "x"}),
        Deny(),
        Deny("no"),
        Deny("x" * 100),
        Answer({"years": 7}),
        Answer(None),
        Answer(False),
        Answer("x" * 400),
        Fail("no GPS"),
        Redispatch(),
    ]
)
FITTING = {
    "approval": st.sampled_from([Approve(), Approve(arguments={"amount": 7}), Deny("no")]),
    "elicitation": st.sampled_from([Answer({"years": 7}), Deny("no")]),
    "client_exec": st.sampled_from([Answer({"years": 7}), Fail("no GPS")]),
    "lost": st.sampled_from([Redispatch(), Redispatch(), Answer(None), Fail("never sent")]),
    "limit": st.sampled_from([Approve(), Approve(), Deny("no")]),
}
SETTLES = {
    "approval": {"approve", "deny"},
    "elicitation": {"answer", "deny"},
    "client_exec": {"answer", "fail"},
    "lost": {"redispatch", "answer", "fail"},
    "limit": {"approve", "deny"},
}
COSTS = st.sampled_from([None, 0.0, 0.01, 0.1, 0.1, 0.2, 0.000000001])
SOMETIMES = st.sampled_from([False] * 7 + [True])
CALLS_END = st.sampled_from([None, "tool_calls", "length"])
REQUEST_IDS = st.sampled_from(["i-1", "i-2", "i-3"])
SUMMARISED = Context(budget=8000, compact=Compact())


class Ledger:
    """An account of a log that is kept without the machine: it knows the rules and checks each event against them."""

    def __init__(self, spec):
        self.spec = spec
        self.at = 0
        self.started = self.ended = False
        self.messages = []
        self.turn = None
        self.turns = []
        self.terminals = Counter()
        self.calls = {}  # id -> (tool, state)
        self.round = []
        self.approved = set()
        self.attempts = Counter()
        self.ran_with = {}  # call id -> where the arguments of its runs stand
        self.running = set()
        self.again = set()  # calls of which somebody said that they are to run again
        self.suspensions = {}  # id -> call id
        self.kinds = {}  # suspension id -> what it waits for
        self.settled = Counter()
        self.open_suspensions = {}  # call id -> (suspension id, expires_at)
        self.results = Counter()
        self.model_effects = []
        self.cut = 0  # how many answers in a row were cut off inside their calls
        self.misfits, self.shaped = 0, False  # of the turn: the replies that did not fit, and whether the last answer did
        self.stops = ""  # of the turn that goes on: "asked" for its last words, or they are "said"; or its end is "decided"
        self.question = ""  # the call that asks whether it may go on
        self.by = None  # the bound about which it asks
        self.held = set()
        self.boundary, self.overflowed = 0, False  # of the last summary; whether a request of the turn was too long
        self.by_hand = 0  # where a summary is asked for that has not come yet
        self.ends_at = self.waits_since = 0  # its time, which stands still while people are waited for
        self.cost = Decimal(0)  # of its answers, in US dollars

    @property
    def due_at(self):
        """When the turn's time is over; None if that is not known, or a model call has to end before it asks."""
        if self.turn is not None and not self.open_calls and self.spec.stop is not None and self.spec.stop.then == "ask":
            return None
        return None if self.turn is None or self.waits_since or not self.ends_at else self.ends_at

    @property
    def spent(self):
        """Whether the turn has cost as much as it may."""
        most = None if self.spec.stop is None else self.spec.stop.cost_usd
        return most is not None and self.cost >= Decimal(str(most))

    def _timed(self, at):
        waits = bool(self.question) or (bool(self.open_suspensions) and not self.spec.stop.waits)
        if self.waits_since and not waits:
            self.ends_at, self.waits_since = self.ends_at + at - self.waits_since, 0
        elif waits and not self.waits_since:
            self.waits_since = at

    def _stop_reached(self, _seq, event):
        assert not self.open_calls
        assert not self.stops, "last words are asked for again"
        assert self.spec.stop.then == "last_words"
        assert event.turn_id == self.turn
        self.stops, self.ends_at = "asked", 0

    def add(self, seq, event):
        assert not self.ended, "nothing follows the end"
        assert event.at >= self.at
        self.at = event.at
        assert (event.kind == "conversation_started") == (seq == 1)
        if event.kind in OF_A_TURN:
            assert self.turn is not None, f"{event.kind} outside a turn"
        getattr(self, f"_{event.kind}", lambda _seq, _event: None)(seq, event)
        if self.turn is not None and self.ends_at:
            self._timed(event.at)

    @property
    def open_calls(self):
        return [call for call in self.round if self.results[call] == 0]

    @property
    def at_clients(self):
        return [
            call for call in self.round if (tool := self.spec.tool(self.calls[call].name)) and tool.executor is Executor.CLIENT
        ]

    def _message_accepted(self, seq, _event):
        self.messages.append(seq)

    def _turn_started(self, _seq, event):
        assert self.turn is None
        assert event.turn_id not in self.turns
        assert event.message_seq == self.messages.pop(0), "turns follow the order of the messages"
        self.turn = event.turn_id
        self.turns.append(event.turn_id)
        self.round = []
        self.cut, self.misfits, self.cost = 0, 0, Decimal(0)
        self.overflowed = False
        timeout_s = self.spec.stop.timeout_s if self.spec.stop is not None and event.spec_digest else None
        self.stops, self.waits_since, self.ends_at = "", 0, 0 if timeout_s is None else event.at + round(timeout_s * 1000)

    def _compaction_requested(self, seq, _event):
        self.by_hand = self.by_hand or seq

    def _compaction_started(self, _seq, event):
        assert self.turn is None
        assert event.requested_at == self.by_hand, "nobody has asked for this summary"
        self.turn, self.round, self.ends_at, self.waits_since, self.stops = event.turn_id, [], 0, 0, ""

    @property
    def compacts(self):
        """Whether a summary goes on in place of a turn."""
        return self.turn is not None and self.turn.startswith("c")

    @property
    def queue(self):
        """Where what waits for a turn stands in the log."""
        return [*([self.by_hand] if self.by_hand and not self.compacts else []), *self.messages]

    def _compacted(self, seq, event):
        assert self.boundary < event.boundary < seq, "a boundary moves back, or stands for what comes"
        self.boundary = event.boundary
        self._summary_failed(seq, event)

    def _summary_failed(self, _seq, event):
        assert not self.open_calls
        assert event.effect_id not in self.model_effects, "an outcome of a model call counts twice"
        self.model_effects.append(event.effect_id)
        if event.kind != "context_overflowed":
            self.by_hand, self.turn = 0, None if self.compacts else self.turn

    def _context_overflowed(self, seq, event):
        assert not self.compacts, "a summary by itself is made twice"
        assert not self.overflowed, "a second request of a turn is too long, and the turn goes on"
        self.overflowed = True
        self._summary_failed(seq, event)

    def _model_answered(self, _seq, event):
        assert not self.open_calls, "the model is called while a call is open"
        assert not self.compacts, "an answer belongs to no turn"
        assert event.effect_id not in self.model_effects
        assert self.stops not in ("said", "decided"), "the model is called after its turn has ended"
        assert not self.question, "the model is called while the turn asks whether it may go on"
        assert (event.effect_id.partition(".r")[0] == f"{self.turn}.last") == bool(self.stops)
        self.stops = self.stops and "said"
        self.model_effects.append(event.effect_id)
        self.cost += Decimal(str(event.cost_usd or 0))
        ids = [call.tool_call_id for call in event.calls]
        assert len(set(ids)) == len(ids)
        assert not set(ids) & set(self.calls), "a call id was used before"
        assert all(CALL_ID.fullmatch(call_id) for call_id in ids)
        self.calls |= {call.tool_call_id: call for call in event.calls}
        self.round = ids
        self.shaped = event.shaped
        self.misfits += event.misfit is not None
        assert self.misfits <= 3, "the turn goes on after the third reply that does not fit"
        assert self.spec.reply is not None or not (self.misfits or self.shaped)
        if event.shaped:
            assert not event.misfit
            assert jsontext.loads(reply_of(event)) == {"amount": 5}
        self.cut = self.cut + 1 if ids and event.finish_reason == "length" and not event.misfit else 0
        assert self.cut <= 3, "the turn goes on after the third answer in a row that is cut off inside its calls"

    def _call_held(self, _seq, event):
        assert event.tool_call_id in self.open_calls
        assert not self.stops
        self.held.add(event.tool_call_id)

    def _asks(self, seq, event):
        call = event.tool_call_id
        assert self.spec.stop.then == "ask"
        assert not self.question, "the turn asks twice"
        assert event.reached is not None
        assert not CALL_ID.fullmatch(call), "a model could have given the id"
        assert call not in self.calls, "a question has the id of another one"
        assert event.arguments_at == seq
        assert event.suspension_id not in self.suspensions
        self.calls[call] = RequestedCall(tool_call_id=call, name=event.tool, arguments=event.own_arguments)
        self.round = [*self.round, call]
        self.question, self.by = call, event.reached.reason
        self.kinds[event.suspension_id], self.suspensions[event.suspension_id] = event.suspension_kind, call
        self.open_suspensions[call] = (event.suspension_id, event.expires_at)

    def _answered(self, event):
        """Account for the end of a question: the turn goes on, and a time that was over begins anew; or the turn ends."""
        self.results[event.tool_call_id] += 1
        self.question = ""
        if event.by != "approve":
            self.stops = "decided"
        elif self.by == "timeout":
            self.ends_at = event.at + round(self.spec.stop.timeout_s * 1000)
            self.waits_since = self.waits_since and event.at

    def _run_scheduled(self, _seq, event):
        call = event.tool_call_id
        assert not self.question or self.attempts[call], "a call begins while its turn asks whether it may go on"
        self.held.discard(call)
        assert call in self.open_calls
        assert not self.cut, "a call that was cut off runs"
        assert not self.stops, "a call runs after its turn has reached a bound"
        assert not self.spent, "a call runs of a turn that has cost as much as it may"
        tool = self.spec.tool(self.calls[call].name)
        assert event.executor is tool.executor
        assert tool.executor in (Executor.SERVER, Executor.CLIENT)
        assert call not in self.open_suspensions
        assert self.calls[call].arguments not in ("[]", "{", "NaN")
        if tool.approval == "required":
            assert call in self.approved, "it runs without an approval"
        self.attempts[call] += 1
        assert event.attempt == self.attempts[call]
        if tool.executor is Executor.CLIENT:  # nothing runs: the rules are asked, as often as need be
            assert event.attempt - event.resumed == 1
        elif event.attempt > 1:
            assert tool.on_lost in ("redispatch", "ask")
            assert (call in self.again) == (tool.on_lost == "ask"), "it runs again, and nobody said so"
            assert (call in self.running) == (tool.on_lost == "redispatch")
            assert event.arguments_at == self.ran_with[call], "it runs again with other arguments"
        self.again.discard(call)
        self.running.add(call)
        self.ran_with[call] = event.arguments_at

    def _call_suspended(self, seq, event):
        if event.suspension_kind == "limit":
            self._asks(seq, event)
            return
        call = event.tool_call_id
        assert not self.question or self.attempts[call], "a call asks while its turn asks whether it may go on"
        self.held.discard(call)
        assert call in self.open_calls
        assert not self.cut, "a call that was cut off is asked about"
        assert not self.stops, "a call waits after its turn has reached a bound"
        assert not self.spent, "a call waits of a turn that has cost as much as it may"
        tool = self.spec.tool(self.calls[call].name)
        assert (call in self.running) == (self.attempts[call] > 0)
        if tool.executor is Executor.CLIENT:  # the rules in force let it go
            self.running.discard(call)
        assert event.suspension_id not in self.suspensions, "a suspension id was used before"
        assert call not in self.open_suspensions
        if call in self.running:  # its run is lost
            assert event.suspension_kind == "lost"
            assert tool.on_lost == "ask"
            assert event.arguments_at == self.ran_with[call], "other arguments are shown than ran"
            self.running.discard(call)
        else:
            gated = tool.approval == "required" and call not in self.approved
            kinds = {Executor.HUMAN: "elicitation", Executor.CLIENT: "client_exec"}
            assert event.suspension_kind == ("approval" if gated else kinds[tool.executor])
        assert event.expires_at > event.at
        self.kinds[event.suspension_id] = event.suspension_kind
        self.suspensions[event.suspension_id] = call
        self.open_suspensions[call] = (event.suspension_id, min(event.look_at or event.expires_at, event.expires_at))

    def _suspension_settled(self, _seq, event):
        assert self.open_suspensions.pop(event.tool_call_id)[0] == event.suspension_id
        self.settled[event.suspension_id] += 1
        assert self.settled[event.suspension_id] == 1
        assert event.by in SETTLES[self.kinds[event.suspension_id]] | {"expiry", "cancellation"}
        assert event.by == (event.decision or event.by)
        if event.tool_call_id == self.question:
            self._answered(event)
        elif event.by == "approve":
            self.approved.add(event.tool_call_id)
        if event.by == "redispatch":
            self.again.add(event.tool_call_id)

    def _call_resolved(self, _seq, event):
        assert event.tool_call_id in self.open_calls
        self.held.discard(event.tool_call_id)
        assert event.tool_call_id not in self.open_suspensions, "its suspension was never settled"
        assert event.tool_call_id not in self.again, "somebody said that it is to run again"
        if event.by in ("run", "loss"):
            assert event.tool_call_id in self.running
        if event.by == "loss":
            assert self.spec.tool(self.calls[event.tool_call_id].name).on_lost == "error"
        if event.by == "cancellation":
            waited_as = [self.kinds[one] for one, call in self.suspensions.items() if call == event.tool_call_id]
            out_of_sight = waited_as[-1:] == ["client_exec"]
            ran = self.attempts[event.tool_call_id] > 0 and event.tool_call_id not in self.at_clients
            assert ("did not run" in event.content) == (not ran and not out_of_sight)
        self.running.discard(event.tool_call_id)
        self.results[event.tool_call_id] += 1

    def _over(self, event):
        assert event.turn_id == self.turn
        assert not self.open_calls, "the turn ends with open calls"
        self.terminals[event.turn_id] += 1
        assert self.terminals[event.turn_id] == 1
        self.turn = None

    def _turn_completed(self, _seq, event):
        assert event.stopped is not None or not self.stops
        assert event.stopped != "cost" or self.spent
        assert event.stopped != "content" or self.spec.stop.content
        assert event.stopped is not None or self.shaped or self.spec.reply is None, "a reply without its shape ends the turn"
        over = not self.waits_since and 0 < self.ends_at <= event.at
        assert event.stopped != "timeout" or self.stops or over
        self._over(event)

    def _turn_failed(self, _seq, event):
        assert not self.stops, "a turn fails that has reached a bound"
        self._over(event)

    def _turn_cancelled(self, _seq, event):
        if self.compacts:
            assert event.turn_id == self.turn
            self.turn, self.by_hand = None, 0
        else:
            self._over(event)

    def _conversation_ended(self, _seq, _event):
        assert self.turn is None, "the end leaves a turn behind"
        self.ended = True
        self.messages, self.by_hand = [], 0


class Life(RuleBasedStateMachine):
    """One conversation under any sequence of commands, likely and unlikely ones."""

    def __init__(self, conversations, tools=TOOLS, ends=ENDS, stop=None, reply=None):
        super().__init__()
        self.tools, self.ends = tools, ends
        spec = conversations.desk.model_copy(update={"stop": stop, "reply": reply, "context": SUMMARISED})
        self.conversation = conversations(spec=spec)
        self.conversation.present = ()
        self.numbers = itertools.count(1)
        self.ledger = Ledger(spec)
        self.receipts = {}
        self.seen_calls = []
        self.seen_suspensions = ["s-never"]
        self.seen_effects = ["nothing", "t9.m9"]

    # The rules. What is likely comes first.

    @initialize(message_id=REQUEST_IDS, absent=st.sampled_from([False] * 9 + [True]))
    def most_are_started(self, message_id, absent):
        if not absent:
            self.start(message_id, "hello")
            self.begin(None)

    @rule(message_id=REQUEST_IDS, text=st.sampled_from(["hello", "hello", "other"]))
    def start(self, message_id, text):
        self._do(steps.start(text, message_id=message_id), key=("m", message_id))

    @rule(message_id=REQUEST_IDS | st.none(), text=st.sampled_from(["hello", "more"]))
    def send(self, message_id, text):
        message_id = message_id or self._fresh("m")
        self._do(steps.send(text, message_id=message_id), key=("m", message_id))

    @rule(data=st.data())
    def go_on(self, data):
        self._go_on(data, 3)

    @rule(data=st.data())
    def go_on_for_long(self, data):
        self._go_on(data, 12)

    @precondition(lambda self: self.conversation.state.due_at is not None)
    @rule(data=st.data())
    def go_on_while_others_wait(self, data):
        self._go_on(data, 2)

    @precondition(lambda self: self.ledger.running)
    @rule()
    def the_worker_of_all_runs_dies(self):
        for effect in outstanding(self.conversation.state):
            self._run_ends(effect.effect_id, "lost")

    @precondition(lambda self: self._waiting_for("lost"))
    @rule(data=st.data())
    def somebody_says_what_becomes_of_a_lost_run(self, data):
        self._settle(data, data.draw(st.sampled_from(self._waiting_for("lost")), label="call"))

    @precondition(lambda self: isinstance((*outstanding(self.conversation.state), None)[0], BeginTurn))
    @rule(problem=st.none())
    def begin(self, problem):
        self._do(steps.begin(problem=problem))

    @rule(data=st.data(), decision=DECISIONS, decision_id=REQUEST_IDS)
    def decide_anyhow(self, data, decision, decision_id):
        call_id = data.draw(st.sampled_from([*self.seen_calls[-6:], "never"]), label="call")
        its_own = [one for one, call in self.ledger.suspensions.items() if call == call_id]
        suspension_id = data.draw(
            st.none() | st.sampled_from(its_own or ["s-never"]) | st.sampled_from(self.seen_suspensions), label="suspension"
        )
        step = steps.resolve(decision, call_id, suspension_id=suspension_id, decision_id=decision_id)
        self._do(step, key=("d", decision_id))

    @rule(data=st.data(), kind=st.sampled_from(["prepared", "replied", "failed", "ok", "error", "lost"]))
    def any_outcome(self, data, kind):
        effect_id = data.draw(st.sampled_from(self.seen_effects), label="effect")
        live = effect_id in self.conversation.effect_ids
        match kind:
            case "prepared":
                judgement = self._do(TurnPrepared(effect_id=effect_id, code="code-2"))
            case "replied":
                judgement = self._do(ModelReplied(effect_id=effect_id, content="late?"))
            case "failed":
                judgement = self._do(ModelFailed(effect_id=effect_id, error="late?"))
            case _:
                judgement = self._run_ends(effect_id, kind)
        assert live or (judgement.ignored and not judgement.events), "a late outcome counted"

    @rule(data=st.data(), seconds=st.sampled_from([0, 1, 61, 250, 600, 2000]))
    def wake(self, data, seconds):
        due = self.conversation.state.due_at
        at = self.conversation.now + 1000 * seconds
        if due is not None and data.draw(st.booleans(), label="exactly when it is due"):
            at = max(due, self.conversation.now)
        self._do(steps.wake(), at=at)
        due = self.conversation.state.due_at
        assert due is None or due > at, "something is still due"

    @rule(request_id=REQUEST_IDS, turn_id=st.sampled_from([None, None, "t1", "t2", "t9"]))
    def cancel(self, request_id, turn_id):
        before = self.ledger.turn
        judgement = self._do(steps.cancel(request_id, turn_id=turn_id), key=("x", request_id))
        if judgement is not None and judgement.events and before is not None and turn_id not in (None, before):
            assert self.ledger.turn == before, "a cancellation of another turn ended this one"

    @rule(request_id=REQUEST_IDS)
    def compact(self, request_id):
        self._do(CompactNow(request_id=request_id), key=("x", request_id))

    @rule(request_id=REQUEST_IDS, kind=st.none() | st.sampled_from(SuspensionKind))
    def cancel_pending(self, request_id, kind):
        before = dict(self.ledger.open_suspensions)
        judgement = self._do(steps.cancel_pending(request_id, kind=kind), key=("x", request_id))
        if judgement is not None and judgement.events:
            left = [name for name, _ in self.ledger.open_suspensions.values()]
            kept = [name for name, _ in before.values() if kind not in (None, self.ledger.kinds[name])]
            ended = self.ledger.turn is None  # which a question does that is dropped
            assert left == ([] if ended else kept)

    @precondition(lambda self: len(self.conversation.log) > 25)
    @rule(request_id=REQUEST_IDS)
    def end(self, request_id):
        self._do(steps.end(request_id), key=("x", request_id))

    # The steps.

    def _waiting_for(self, kind):
        return [call for call in self.conversation.state.calls if call.suspension is not None and call.suspension.kind == kind]

    def _go_on(self, data, steps):
        """What is most likely to happen next, several times."""
        for _ in range(steps):
            state = self.conversation.state
            effects = outstanding(state)
            open_calls = [call for call in state.calls if call.open]
            if open_calls:
                self._settle(data, data.draw(st.sampled_from(open_calls), label="call"))
            elif effects and isinstance(effects[0], BeginTurn):
                self.begin(data.draw(st.sampled_from([None, None, None, None, "the app is gone"]), label="problem"))
            elif effects:
                self._model(data)
            else:
                return

    def _summarise(self, data):
        match data.draw(st.sampled_from(["notes", "notes", "fails", "too long"]), label="the summary"):
            case "notes":
                boundary = data.draw(st.integers(0, self.conversation.state.seq + 1), label="boundary")
                self._do(steps.summarize(boundary=boundary, messages=data.draw(st.integers(0, 3), label="messages")))
            case "fails":
                self._do(steps.summarize(failed=SummaryFailure.EMPTY))
            case _:
                self._do(steps.fail_model("too long", reason=FailureReason.CONTEXT_OVERFLOW, reducible=True))

    def _model(self, data):
        match data.draw(
            st.sampled_from(["calls", "calls", "calls", "calls", "ends", "fails", "summarises"]), label="the model"
        ):
            case "summarises":
                self._summarise(data)
            case "calls":
                fresh = data.draw(st.booleans(), label="fresh ids")
                calls = data.draw(st.lists(st.tuples(MODEL_IDS, self.tools, ARGUMENTS), min_size=1, max_size=4), label="calls")
                proposed = tuple(
                    ProposedCall(tool_call_id=self._fresh("call") if fresh else call_id, name=name, arguments=text)
                    for call_id, name, text in calls
                )
                said = {"finish_reason": data.draw(CALLS_END, label="how the answer ends"), "output_tokens": 5}
                self._do(steps.call(*proposed, **said, **self._cost(data)))
            case "ends" if self.conversation.spec.reply is None:
                self._do(steps.reply())
            case "ends":
                text = data.draw(ARGUMENTS, label="reply")
                given = ProposedCall(tool_call_id=self._fresh("call"), name=FINAL_ANSWER, arguments=text)
                how = data.draw(st.sampled_from([None, None, None, "length", "content_filter"]), label="how the answer ends")
                by_call = data.draw(st.booleans(), label="by a call")
                self._do(steps.call(given, finish_reason=how) if by_call else steps.reply(text, finish_reason=how))
            case "fails":
                self._do(steps.fail_model("no"))

    def _cost(self, data):
        """What an answer cost, and what its worker found, where that matters."""
        stop = self.conversation.spec.stop
        if stop is None or stop.cost_usd is None:
            return {}
        found = (
            Reached(reason=StopReason.CONTENT, detail="Stop(content='x')") if data.draw(SOMETIMES, label="it matches") else None
        )
        return {"cost_usd": data.draw(COSTS, label="cost"), "reached": found}

    def _settle(self, data, call):
        if call.suspension is None:
            self._run_ends(call.effect_id, data.draw(self.ends, label="the run"))
            return
        decision = data.draw(FITTING[call.suspension.kind], label="decision")
        named = data.draw(st.booleans(), label="suspension named") or call.suspensions > 1
        shown, decision_id = call.suspension.suspension_id if named else None, self._fresh("d")
        step = steps.resolve(decision, call.tool_call_id, suspension_id=shown, decision_id=decision_id)
        judgement = self._do(step, key=("d", decision_id))
        assert isinstance(judgement.reply, Receipt)
        assert not judgement.reply.duplicate

    def _run_ends(self, effect_id, how):
        if how == "lost":
            return self._do(RunLost(effect_id=effect_id))
        ok = how == "ok"
        if effect_id.rpartition("#")[0] in self.ledger.at_clients:
            return self._do(steps.rule(effect_id, RuleEffect.ALLOW if ok else RuleEffect.DENY))
        content = '{"ok":true,"result":1}' if ok else '{"ok":false,"error":"boom"}'
        return self._do(RunFinished(effect_id=effect_id, ok=ok, content=content))

    def _fresh(self, prefix):
        return f"{prefix}-{next(self.numbers)}"

    def _do(self, step, *, at=None, key=None):
        conversation = self.conversation
        before, logged = conversation.state, len(conversation.log)
        command = step(before) if callable(step) else step
        self._judged_the_same_without_knowledge(command)
        try:
            judgement = conversation.do(command, at=at)
        except HoldfastError:
            assert (conversation.state, len(conversation.log)) == (before, logged)
            return None
        if judgement.ignored is not None:
            assert not judgement.events
        for seq, event in enumerate(conversation.log[logged:], logged + 1):
            self.ledger.add(seq, event)
            if event.kind == "model_answered":
                self.seen_calls += [call.tool_call_id for call in event.calls]
            if event.kind == "call_suspended":
                self.seen_suspensions.append(event.suspension_id)
        self.seen_effects += [effect_id for effect_id in conversation.effect_ids if effect_id not in self.seen_effects]
        if key is not None:
            self._acknowledged(key, command, judgement)
        if isinstance(command, Resolve) and judgement.events:
            self._settled_as_asked(before, command, judgement)
        self._the_state_tells_what_the_log_says()
        self._what_waits_is_indexed()
        self._what_must_go_on_is_outstanding()
        self._the_transcript_is_in_order()
        return judgement

    def _judged_the_same_without_knowledge(self, command):
        """A shell judges first and asks the store after: where none of the lookups is known, nothing may differ."""
        conversation = self.conversation
        if any(key in conversation.known for key in command.lookups()):
            return
        assert self._outcome(lambda: conversation.judge(command)) == self._outcome(
            lambda: decide(conversation.state, self._stamped(command))
        )

    def _stamped(self, command):
        conversation = self.conversation
        return conversation.seeing(command).stamped(conversation.now, conversation.spec, {}, salt=conversation.salt)

    @staticmethod
    def _outcome(judge):
        try:
            return judge()
        except HoldfastError as error:
            return type(error)

    def _acknowledged(self, key, command, judgement):
        reply = judgement.reply
        if isinstance(reply, Cancelled):
            if reply.turn_id is not None:
                assert reply.duplicate == (key in self.receipts)
                assert self.receipts.setdefault(key, reply) == reply.model_copy(update={"duplicate": False})
            return
        assert isinstance(reply, Receipt), command
        assert reply.duplicate == (key in self.receipts)
        first = self.receipts.setdefault(key, reply)
        assert (reply.seq, reply.accepted_at) == (first.seq, first.accepted_at), "another receipt for the same id"
        assert bool(judgement.events) != reply.duplicate

    @staticmethod
    def _settled_as_asked(before, command, judgement):
        """The decision settled the suspension that was named, or the only one there was, and what it said is in force."""
        call = before.turn.call(command.tool_call_id)
        settled, follows = (*judgement.events, None)[:2]
        assert settled.suspension_id == call.suspension.suspension_id == (command.suspension_id or settled.suspension_id)
        assert command.suspension_id is not None or call.suspensions == 1
        assert settled.tool_call_id == call.tool_call_id
        if call.suspension.kind == "limit":
            return
        if follows.kind == "call_held":
            assert before.turn.question is not None
            return
        assert follows.tool_call_id == call.tool_call_id
        if command.ruling.kind == "approve":
            edited = command.ruling.body is not None
            assert follows.arguments_at == (judgement.reply.seq if edited else call.arguments_at)
        elif command.ruling.kind == "redispatch":
            assert (follows.kind, follows.attempt) == ("run_scheduled", call.attempt + 1)
            assert follows.arguments_at == call.arguments_at
        elif command.ruling.kind == "answer":
            assert follows.ok
            assert follows.untrusted == (call.executor is Executor.CLIENT)
        else:
            assert not follows.ok

    # The invariants.

    def _the_state_tells_what_the_log_says(self):
        state, ledger = self.conversation.state, self.ledger
        assert state.seq == len(self.conversation.log)
        assert state.ended == ledger.ended
        assert (state.turn.turn_id if state.turn else None) == ledger.turn
        assert [one.seq for one in state.queue] == ledger.queue
        assert state.turns == len(ledger.turns)
        assert [call.tool_call_id for call in state.calls] == (ledger.round if state.turn else [])
        assert [call.tool_call_id for call in state.calls if call.open] == (ledger.open_calls if state.turn else [])

    def _what_waits_is_indexed(self):
        state, ledger = self.conversation.state, self.ledger
        pending_ones = pending_entries(state)
        waiting = [call.suspension for call in state.calls if call.status == "awaiting"]
        in_the_order_of_the_log = sorted(waiting, key=lambda suspension: suspension.seq)
        assert [pending.suspension_id for pending in pending_ones] == [one.suspension_id for one in in_the_order_of_the_log]
        assert {pending.suspension_id for pending in pending_ones} == {open_[0] for open_ in ledger.open_suspensions.values()}
        for pending in pending_ones:
            event = self.conversation.log[pending.seq - 1]
            assert (event.kind, event.suspension_id, event.at) == ("call_suspended", pending.suspension_id, pending.created_at)
        due = [due_at for _, due_at in ledger.open_suspensions.values()]
        assert state.due_at == min(due if ledger.due_at is None else [*due, ledger.due_at], default=None)
        assert (state.status is Status.AWAITING_INPUT) == bool(pending_ones)
        assert state.busy == bool(outstanding(state))

    def _what_must_go_on_is_outstanding(self):
        state, ledger = self.conversation.state, self.ledger
        effects = outstanding(state)
        kinds = {effect.kind for effect in effects}
        assert len({effect.effect_id for effect in effects}) == len(effects)
        if "call_model" in kinds or "begin_turn" in kinds:
            assert len(effects) == 1
            assert state.turn is None or not any(call.open for call in state.calls)
            assert effects[0].effect_id not in ledger.model_effects
        assert {effect.tool_call_id for effect in effects if effect.kind == "run_tool"} == {
            call
            for call in (ledger.open_calls if state.turn else [])
            if call not in ledger.open_suspensions and call not in ledger.held
        }
        assert not ledger.held or ledger.question, "a call is held, and the turn does not ask"
        runs = {effect.effect_id for effect in effects if effect.kind == "run_tool"}
        assert runs == {f"{call}#{ledger.attempts[call]}" for call in ledger.running}
        # everything that waits ends: by an effect's outcome, by a deadline, or it waits for the user
        assert effects or state.resting or state.status is Status.ABSENT
        assert state.status is not Status.AWAITING_INPUT or state.due_at is not None

    def _the_transcript_is_in_order(self):
        messages = self.conversation.messages()
        open_ = self.ledger.open_calls if self.conversation.state.turn else []  # of the last round
        wanted, answered = [], []
        for message in [*messages, {"role": "user"}]:
            if message["role"] == "tool":
                answered.append(message["tool_call_id"])
                continue
            assert answered == [call for call in wanted if call not in open_]
            wanted, answered = [call["id"] for call in message.get("tool_calls", ())], []
        every = [call["id"] for message in messages for call in message.get("tool_calls", ())]
        assert len(set(every)) == len(every)

    # The end.

    def teardown(self):
        self._every_snapshot_and_its_tail_lead_to_the_same_state()
        self._left_alone_it_comes_to_rest()
        super().teardown()

    def _every_snapshot_and_its_tail_lead_to_the_same_state(self):
        log, final = self.conversation.log, self.conversation.state
        snapshot = State(conversation_id=final.conversation_id)
        for seq in range(len(log) + 1):
            revived = State.model_validate(snapshot.model_dump())
            assert revived == snapshot == State.model_validate_json(snapshot.model_dump_json())
            for event in log[seq:]:
                revived = evolve(revived, event)
            assert revived == final
            assert outstanding(revived) == outstanding(final)
            if seq < len(log):
                event = type(log[seq]).model_validate_json(log[seq].model_dump_json())
                snapshot = evolve(snapshot, event)

    def _left_alone_it_comes_to_rest(self):
        """If all work has an outcome and time passes, the conversation rests, with every call answered."""
        conversation = self.conversation
        for _ in range(200):
            effects = outstanding(conversation.state)
            due = conversation.state.due_at
            if effects and isinstance(effects[0], RunTool):
                self._run_ends(effects[0].effect_id, "ok")
            elif effects and isinstance(effects[0], BeginTurn):
                self._do(steps.begin())
            elif effects:
                self._do(steps.reply())
            elif due is not None:
                self._do(steps.wake(), at=max(due, conversation.now))
            else:
                break
        assert conversation.status in {Status.ABSENT, Status.IDLE, Status.FAILED, Status.ENDED}
        assert set(self.ledger.terminals) == set(self.ledger.turns)


def test_the_invariants_hold_under_any_sequence_of_commands(conversations):
    run_state_machine_as_test(
        lambda: Life(conversations), settings=settings(max_examples=250, stateful_step_count=30, deadline=None, database=None)
    )


def test_the_invariants_hold_where_workers_die_again_and_again(conversations):
    run_state_machine_as_test(
        lambda: Life(conversations, RUNNING_TOOLS, FRAGILE_ENDS),
        settings=settings(max_examples=150, stateful_step_count=20, deadline=None, database=None),
    )


@pytest.mark.parametrize(
    "stop",
    [
        Stop(rounds=2, errors=3, timeout_s=300, then="last_words"),
        Stop(loop=2, tool="lookup", timeout_s=100, waits=True),
        Stop(cost_usd=0.25, content="x", then="last_words"),
        Stop(rounds=1, loop=2, tokens=40, timeout_s=300, then="ask"),
        Stop(errors=1, tool="lookup", tokens=10, timeout_s=100, waits=True, then="ask"),
    ],
)
def test_the_invariants_hold_where_turns_stop(conversations, stop):
    run_state_machine_as_test(
        lambda: Life(conversations, stop=stop),
        settings=settings(max_examples=100, stateful_step_count=25, deadline=None, database=None),
    )


@pytest.mark.parametrize("stop", [None, Stop(rounds=2, errors=2, loop=2, timeout_s=300, then="last_words")])
def test_the_invariants_hold_where_replies_have_a_shape(conversations, stop):
    tools = st.sampled_from(["lookup", "charge", "refund", FINAL_ANSWER])
    shape = '{"type":"object","properties":{"amount":{"type":"integer"}},"required":["amount"]}'
    run_state_machine_as_test(
        lambda: Life(conversations, tools, stop=stop, reply=shape),
        settings=settings(max_examples=100, stateful_step_count=25, deadline=None, database=None),
    )


def test_folding_is_refused_where_an_event_has_no_turn(begun):
    # given a log that lacks the beginning of its turn
    begun.call("lookup")
    log = [event for event in begun.log if event.kind != "turn_started"]
    # when it is folded, then that is no state
    state = State(conversation_id="c-1")
    with pytest.raises(ValueError, match="belongs to a turn"):
        functools.reduce(evolve, log, state)


def _turns(conversation, count):
    """So many turns of the same shape; the sizes of the state when each waits, and when it is over."""
    sizes = []
    for _ in range(count):
        if conversation.status is Status.IDLE:
            conversation.send("x" * 500)
            conversation.begin()
        ask, run, refund = conversation.call(("ask", '{"q":"%s"}' % ("x" * 500)), "lookup", "refund")
        waiting = len(conversation.state.model_dump_json())
        conversation.finish(run)
        conversation.resolve(Answer("y" * 200), ask)
        conversation.resolve(Deny("no"), refund)
        conversation.reply("z" * 2000)
        sizes.append((waiting, len(conversation.state.model_dump_json())))
    return sizes


def test_a_state_does_not_grow_with_the_turns(begun):
    # given two hundred turns
    sizes = _turns(begun, 200)
    # then the last state is as large as the second, up to the digits of its numbers
    for second, last in zip(sizes[1], sizes[-1], strict=True):
        assert last <= second + 60
    assert sizes[-1][1] < 560


def test_bodies_stay_out_of_the_state(begun):
    begun.call(("ask", '{"q":"secret"}'), ("refund", '{"amount":5,"q":"secret"}'), content="secret")
    begun.send("secret")
    assert "secret" not in begun.state.model_dump_json()


def test_a_judgement_is_pure(begun):
    # given a command that leads to several events
    asked = begun.call("ask", "refund")[0]
    command = Resolve(tool_call_id=asked, ruling=DecisionRecord.of(Answer(1)), decision_id="d-1")
    # when it is judged twice, then nothing has happened, and the judgement is the same
    with begun.unchanged():
        assert begun.judge(command) == begun.judge(command)


def test_the_end_is_final_for_the_fold_too(begun):
    begun.end()
    assert begun.state.queue == ()
    assert outstanding(begun.state) == ()
    with pytest.raises(ConversationEnded):
        begun.send()
