"""The state of one conversation, which `evolve` folds and snapshots hold: its turn, the turn's calls and their deadlines.

Bodies (messages, arguments, results) are left out and referred to by the `seq` of their events, so the size of a state does not
depend on the length of the conversation.
"""

from enum import StrEnum
from typing import Literal

from holdfast.conversation.ids import compaction_id, turn_id
from holdfast.conversation.record import Record
from holdfast.conversation.terms.budget import Per, Spent
from holdfast.conversation.terms.delegation import Parent
from holdfast.conversation.terms.grants import Grant
from holdfast.conversation.terms.money import NANOS
from holdfast.conversation.terms.spec import AgentSpec, Execution
from holdfast.conversation.terms.turn_stats import TurnStats

from .calls import Call
from .event_base import Reached, StopReason
from .rounds import NO_CALLS, Round, WaitsFor


class Status(StrEnum):
    """The status of a conversation."""

    ABSENT = "absent"  # it was never started
    IDLE = "idle"  # it waits for the user's next message
    GENERATING = "generating"  # a turn is about to begin, or a model call is outstanding
    EXECUTING_TOOLS = "executing_tools"  # calls run or are held, none awaits
    AWAITING_INPUT = "awaiting_input"  # at least one call awaits somebody, whatever else runs
    FAILED = "failed"  # the last turn failed; `send` starts a new one
    ENDED = "ended"  # for good
    QUARANTINED = "quarantined"  # set beside the log, not by the machine: the conversation's work killed process after process


RESTING = frozenset({Status.IDLE, Status.AWAITING_INPUT, Status.FAILED, Status.ENDED})
"""The statuses in which a conversation rests, unless it waits for machines alone: `wait` returns."""


DEFAULT_PRIORITY, LAST_PRIORITY = 128, 255
"""The priority of a message whose sender names none, and the last one; 0 comes first."""


class Queued(Record):
    """A message that waits; `seq` is the message's, `traceparent` its sender's trace context.

    It waits behind those of a lower `priority`, and apart from the queue until `due_at` (ms UTC; 0: in the queue).
    """

    seq: int
    priority: int = DEFAULT_PRIORITY
    due_at: int = 0
    traceparent: str | None = None


class Turn(Record):
    """The current turn; `answered_at` is the `seq` of the model's last message.

    `steered` are messages that join it at its next boundary, `joined` the `seq` of those that have.
    `delegated` counts the conversations that its calls were given: their children, and those that may stand below them.
    `traceparent` is the trace context of its first span, `latest` that of the last span in the log, if that is another.
    `cut` counts the last answers that were cut off inside their calls, in a row; `misfits` the replies that did not fit.
    `reduced` counts how often what its next model call sends was made smaller, or was to be; `overflowed` says whether a
    provider has refused a request of it for its length.
    `counted` says whether what its agent's `Stop` bounds is counted: `rounds`, `tokens`, the cost in billionths of a US dollar
    (`nano_usd`), `errors` in a row, digests of the calls that were `asked` for, and since when it goes on (`began_at`, ms UTC).
    Once it is `stopping`, its last model call is outstanding. Its time is over at `ends_at` (ms UTC; 0: never). That stands
    still while the turn waits for people, since `waiting_since` (0: it does not wait), unless such time counts, too (`waits`).
    Its answers count toward its agent's `budgets`. It `compacts` if it is no turn of a message, but the summary that the
    request at `message_seq` asks for.

    If it `asks`, a bound is a question to a person first: `asking` is the bound of the one that is open, or was answered by a
    no, and `questions` counts them. Its time is extended by `lasts_ms`. Rounds, tokens and cost count from `rounds_from`,
    `tokens_from` and `nano_usd_from`; the results of the answer at `extended_at` are no reason to ask again.
    """

    turn_id: str
    message_seq: int
    spec_digest: str
    code: str
    max_model_calls: int
    model_calls: int = 0
    answered_at: int = 0
    calls: Round = NO_CALLS
    traceparent: str | None = None
    latest: str | None = None
    delegated: int = 0
    steered: tuple[Queued, ...] = ()
    joined: tuple[int, ...] = ()
    counted: bool = False
    rounds: int = 0
    tokens: int = 0
    nano_usd: int = 0
    errors: int = 0
    asked: tuple[str, ...] = ()
    cut: int = 0
    misfits: int = 0
    stopping: Reached | None = None
    ends_at: int = 0
    waits: bool = False
    waiting_since: int = 0
    asks: bool = False
    lasts_ms: int = 0
    asking: Reached | None = None
    questions: int = 0
    rounds_from: int = 0
    tokens_from: int = 0
    extended_at: int = 0
    nano_usd_from: int = 0
    began_at: int = 0
    reduced: int = 0
    overflowed: bool = False
    budgets: tuple[Per, ...] = ()
    compacts: bool = False

    @property
    def stats(self) -> TurnStats | None:
        """What it has used so far, without what its last answer says; None if that is not counted."""
        if not self.counted:
            return None
        counts = {name: getattr(self, name) for name in ("rounds", "model_calls", "tokens", "errors")}
        return TurnStats(cost_usd=self.nano_usd / NANOS, started_at=self.began_at, **counts)

    @property
    def due_at(self) -> int | None:
        """When (ms UTC) it is stopped, as far as that is known; None if no time is."""
        return None if not self.ends_at or self.waiting_since else self.ends_at

    def is_overdue(self, now: int) -> bool:
        """Whether it is to be stopped at `now` (ms UTC), since it has gone on for so long."""
        return self.due_at is not None and self.due_at <= now

    @property
    def question_id(self) -> str:
        """The id of the call that asks about `asking`; no id of a model's call has a full stop. Empty if there is none."""
        return "" if self.asking is None else f"{self.turn_id}.{self.asking.reason}.{self.questions}"

    @property
    def question(self) -> Call | None:
        """The call that asks whether the turn may go on; None if none waits."""
        call = None if self.asking is None else self.calls.of(self.question_id)
        return None if call is None or call.suspension is None else call

    @property
    def asked_at(self) -> tuple[int, ...]:
        """The `seq` of the messages that it answers: its own, and those that have joined it."""
        return (self.message_seq, *self.joined)

    @property
    def model_effect_id(self) -> str:
        """The id of the next model call; the one for the last words is never an earlier one that was not answered.

        Each change of what it sends gives it another one, so that no late outcome is taken for that of another request.
        """
        called = f"{self.turn_id}.m{self.model_calls + 1}" if self.stopping is None else f"{self.turn_id}.last"
        return f"{called}.r{self.reduced}" if self.reduced else called

    @property
    def batch_id(self) -> str:
        """The batch id of the calls of the last answer: the id of its model call."""
        return f"{self.turn_id}.m{self.model_calls}"

    def call(self, tool_call_id: str) -> Call | None:
        """The call of that id; None if this turn's last answer did not ask for it."""
        return self.calls.of(tool_call_id)


class LastTurn(Record):
    """How the last turn ended; `seq` is that of the terminal event, `reply_seq` that of the model's final answer.

    `stopped` is what stopped it, or cut its reply off; None in snapshots of records before version 10, too.
    """

    turn_id: str
    outcome: Literal["completed", "failed", "cancelled"]
    seq: int
    reply_seq: int | None = None
    stopped: StopReason | None = None


class State(Record):
    """One conversation, without its bodies. Times in ms UTC; `queue` holds the queued messages in the order of their turns.

    `delayed` holds messages that are queued later, the earliest first; `epoch` counts interruptions. `grants_epoch`
    counts revoked grants: a run that a grant allowed is claimed only in the epoch of its scheduling. `audit_head` is the head
    of the audit chain, empty before its first link. `attended` says whether there is a person to ask. `parent` is the wait that
    it was started for, if any. The last summary is at `compacted_at` in the log, for all messages up to `boundary` (0: none).
    `spent` is what turns have used whose agent has a budget for each conversation. `compacting` is the `seq` of the request
    for a summary that waits or is under way (0: none): it stands in the queue until then, and the next model call serves all
    `compact_requests`.
    """

    conversation_id: str
    seq: int = 0
    created_at: int = 0
    updated_at: int = 0
    agent: str = ""
    app: str = ""
    turns: int = 0
    queue: tuple[Queued, ...] = ()
    delayed: tuple[Queued, ...] = ()
    turn: Turn | None = None
    last: LastTurn | None = None
    ended: bool = False
    grants: tuple[Grant, ...] = ()
    grants_epoch: int = 0
    audit_head: str = ""
    attended: bool = True
    parent: Parent | None = None
    epoch: int = 0
    boundary: int = 0
    compacted_at: int = 0
    spent: Spent = Spent()
    compacting: int = 0
    compact_requests: int = 0

    @property
    def status(self) -> Status:
        """The conversation's status, derived from everything else."""
        if self.seq == 0:
            return Status.ABSENT
        if self.ended:
            return Status.ENDED
        if self.turn is None:
            if self.queue:
                return Status.GENERATING
            return Status.FAILED if self.last is not None and self.last.outcome == "failed" else Status.IDLE
        if self.turn.calls.any_awaiting:
            return Status.AWAITING_INPUT
        return Status.EXECUTING_TOOLS if self.turn.calls.any_open else Status.GENERATING

    @property
    def present_turn_id(self) -> str | None:
        """The id of the current turn, or of the turn that is about to begin."""
        if self.turn is not None:
            return self.turn.turn_id
        return self.next_turn_id if self.queue else None

    @property
    def next_turn_id(self) -> str:
        """The id of the next turn; of a summary, if it is what the queue begins with."""
        return compaction_id(self.compacting) if self.compacts_next else turn_id(self.turns + 1)

    @property
    def compacts_next(self) -> bool:
        """Whether the queue begins with the request for a summary."""
        return bool(self.queue) and self.queue[0].seq == self.compacting

    @property
    def calls(self) -> Round:
        """The calls of the current turn's last answer."""
        return self.turn.calls if self.turn is not None else NO_CALLS

    @property
    def busy(self) -> bool:
        """Whether any effect is outstanding."""
        if self.ended or self.seq == 0:
            return False
        return bool(self.queue) if self.turn is None else self.calls.any_running or not self.calls.any_open

    @property
    def due_at(self) -> int | None:
        """When something is due for the turn, a call or a delayed message (ms UTC); None if nothing waits for a time."""
        times = (self.calls.due_at, self.delayed[0].due_at if self.delayed else None, self.turn_due_at)
        return None if self.ended else min((at for at in times if at is not None), default=None)

    @property
    def turn_due_at(self) -> int | None:
        """When the turn is stopped (ms UTC); None if no time is. One that asks first lets a model call end before it asks."""
        if self.turn is None or (self.turn.asks and self.model_called):
            return None
        return self.turn.due_at

    @property
    def waits_for(self) -> WaitsFor | None:
        """Whom its open suspensions wait for; None if none is open."""
        return None if self.ended else self.calls.waits_for

    @property
    def model_called(self) -> bool:
        """Whether a model call is outstanding."""
        return self.turn is not None and self.status is Status.GENERATING

    @property
    def waiting(self) -> tuple[Queued, ...]:
        """The messages that no turn has taken up yet: those that join the present one, the queue, and the delayed ones."""
        queue = self.queue if not self.compacting else tuple(one for one in self.queue if one.seq != self.compacting)
        return (*(() if self.turn is None else self.turn.steered), *queue, *self.delayed)

    @property
    def delegates(self) -> bool:
        """Whether it waits for other conversations, or one for it."""
        return self.parent is not None or self.calls.any_machine

    @property
    def resting(self) -> bool:
        """Whether the conversation rests (`RESTING`): nothing is outstanding, or a call awaits a person's decision."""
        return self.status in RESTING and self.waits_for is not WaitsFor.MACHINES

    def places_of_prompts(self, spec: AgentSpec | None, *, settles: int | None = 0) -> tuple[int, ...]:
        """The `seq` of the prompts of held calls that may be suspended next, once `settles` (None: any number) are settled.

        In an unattended conversation all of them may be, one after the other, and their questions are read as well.
        """
        held = self.calls.held()
        if not held:
            return ()
        if spec is not None and spec.execution is Execution.SEQUENTIAL:
            held = held[:1] if self.attended else held
        elif settles is not None and sum(call.undecided for call in self.calls.awaiting()) > settles:
            return ()
        shown = [call for call in held if not call.decided_at and call.is_shown]
        asked = [] if self.attended else [call.arguments_at for call in shown if call.asks_questions(spec)]
        return tuple(dict.fromkeys((*(call.held_at for call in shown), *asked)))
