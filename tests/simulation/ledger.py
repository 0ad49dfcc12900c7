"""What the simulation knows of the truth: who owns what, which bodies ran, what callers were told.

Nothing of it is visible to the code under test. What is wrong at the moment it happens is noted here at once.
"""

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any

from holdfast.agent import Rules
from holdfast.conversation import Approval, OnLost, SuspensionKind
from holdfast.conversation.records.events import (
    CallClaimed,
    CallHeld,
    CallSuspended,
    Compacted,
    CompactionStarted,
    InputDue,
    InputRescheduled,
    RunScheduled,
    SettledBy,
    StopReached,
    SuspensionSettled,
    TurnStarted,
)
from holdfast.conversation.terms.rule_verdict import RuleEffect
from holdfast.persistence import PAUSE_LAG_MS, RunStatus, TakeoverReason
from holdfast.persistence.views import arguments_in

from .grant_oracles import a_claim_by_grants, covered_in
from .shop import agent_of
from .summary_oracles import problem_of_call
from .window_oracles import problem_of_request, problem_of_summary

CLOCK_S = 0.001
"""How fine the store's clock is."""
LATEST_MS = 60_000
"""How far from the store's clock an event may be dated: it may be frozen, late and long on its way, all in one."""
SUCCESSION_S = 30
"""How long after a worker's successor has taken office somebody may still not know of it."""
NONE = Rules()


@dataclass(slots=True)
class Asked:
    """One command of one caller, and what it was told. `from_seq` and `to_seq` are the log's length before and after."""

    client: Any
    conversation_id: str
    command: Any
    at: float
    give_up: float
    from_seq: int
    answer: Any = None
    error: Exception | None = None
    answered_at: float | None = None
    to_seq: int = 0
    lost: bool = False  # what it led to, or what it was told, may be gone with the end of a log


@dataclass(slots=True)
class Body:
    """One execution of a tool's body."""

    process: Any
    over: bool = False
    forgotten: bool = False  # the store knows less of it than is true, since it was set back


@dataclass(slots=True)
class Written:
    """The shared log of one conversation as the simulation saw it grow."""

    events: list = field(default_factory=list)
    places: list = field(default_factory=lambda: [0])  # its lengths after each append
    owner: str = ""
    holder: Any = None
    epoch: int = 0
    expires: int | None = None  # when an owner that started nothing is forgotten


class Ledger:
    """Watches the store and the tools' bodies."""

    def __init__(self, loop, trace, spec):
        self._loop = loop
        self._trace = trace
        self._spec = spec
        self.written = {}
        self.asked = []
        self.bodies = {}
        self.problems = []
        self.quarantined = set()
        self.times_set_back = 0
        self.forgotten = {}
        self.offices = {}  # by worker: which successor is in office, and since when
        self.silent = set()  # the incarnations of which somebody was told that they have not attested their claims
        self.paused_at = {}
        self.requests = Counter()  # to the model, by conversation and effect
        self.read = defaultdict(set)  # what models have read of people, by conversation
        self.worker_ends = 0
        self.published = [{}]  # all rules that ever were, by agent
        self._acted_on = ({},)  # of these, what a worker may act on now; None where nobody can say
        self._publications = 0
        self._claims = {}
        self.key_gone_at = None  # when Ana's API key was revoked

    def wrong(self, text, *args):
        """Note that a promise is broken."""
        self.problems.append(text % args)
        self._trace.note("BROKEN: " + text, *args)

    def log(self, conversation_id):
        return self.written.setdefault(conversation_id, Written())

    def length(self, conversation_id):
        return len(self.log(conversation_id).events)

    # -- what the store did -------------------------------------------------------------------------------------------

    def acquired(self, process, conversation_id, token, epoch, because, expires):
        log = self.log(conversation_id)
        if (
            because is TakeoverReason.DIED
            and log.owner
            and log.holder is not None
            and not log.holder.gone
            and token != log.owner
        ):
            self.wrong("%s: %s is taken for dead, and nobody has found it so", conversation_id, log.holder)
        if epoch < log.epoch:
            self.wrong("%s: epoch %d follows epoch %d", conversation_id, epoch, log.epoch)
        log.owner, log.holder, log.epoch, log.expires = token, process, epoch, expires

    def released(self, conversation_id, token):
        log = self.log(conversation_id)
        if log.owner == token:
            log.owner = ""
            log.epoch *= bool(log.events)  # an id under which nothing was started is forgotten whole

    def appended(self, process, conversation_id, write, now):
        log = self.log(conversation_id)
        if not log.events and log.expires is not None and log.expires <= now:
            log.owner, log.epoch = "", 0  # the owner started nothing, and is forgotten
        if write.token != log.owner:
            self.wrong("%s: %s, deposed, wrote %s", conversation_id, process, _kinds(write.events))
        log.events.extend(write.events)
        if any(abs(event.at - now) > LATEST_MS for event in write.events):
            at = write.events[-1].at
            self.wrong("%s: %s is dated %+d s from now", conversation_id, _kinds(write.events), (at - now) // 1000)
        for event in write.events:
            match event:
                case SuspensionSettled(by=SettledBy.EXPIRY):
                    self._expired(conversation_id, event, now)
                case InputDue():
                    self._queued(conversation_id, event, now)
                case RunScheduled(attempt=attempt) if attempt > 1:
                    self._again(conversation_id, event)
                case CallSuspended(suspension_kind=SuspensionKind.CLIENT_EXEC):
                    self._handed_over(conversation_id, event, now)
        log.places.append(len(log.events))

    def _expired(self, conversation_id, event, now):
        log = self.log(conversation_id).events
        of_it = [one for one in log if getattr(one, "suspension_id", None) == event.suspension_id and hasattr(one, "look_at")]
        said = of_it[-1]  # it waits for any client, or for one
        early = (said.expires_at if isinstance(said, CallClaimed) else said.look_at or said.expires_at) - now
        if early > 0:
            self.wrong("%s: %s expired %d ms too early", conversation_id, event.tool_call_id, early)

    def _queued(self, conversation_id, event, now):
        said = self.log(conversation_id).events
        for seq in event.message_seqs:
            moved = [one.due_at for one in said if isinstance(one, InputRescheduled) and one.message_seq == seq]
            early = [said[seq - 1].due_at, *moved][-1] - now
            if early > 0:
                self.wrong("%s: message %d is queued %d ms too early", conversation_id, seq, early)

    def _again(self, conversation_id, event):
        told = any(
            isinstance(found, SuspensionSettled)
            and found.tool_call_id == event.tool_call_id
            and found.by is SettledBy.REDISPATCH
            for found in self.log(conversation_id).events
        )
        runs = [one for one in self.log(conversation_id).events if isinstance(one, RunScheduled)]
        before = [one for one in runs if one.tool_call_id == event.tool_call_id and one.attempt == event.attempt - 1]
        if before and event.resumed > before[0].resumed:
            return  # the run before has suspended itself, and a person has decided
        if self._spec.tool(event.tool).on_lost is not OnLost.REDISPATCH and not told:
            self.wrong("%s: %s is to run again, though %s is not to", conversation_id, event.tool_call_id, event.tool)
        before = self.bodies.get((conversation_id, event.tool_call_id, event.attempt - 1))
        if before is not None and not self._given_up(before.process) and not before.forgotten:
            when = "after it ran" if before.over else "while it runs"
            self.wrong(
                "%s: %s is to run again %s on %s, which lives", conversation_id, event.tool_call_id, when, before.process
            )

    def succeeded(self, worker, generation):
        """A worker's successor is in office."""
        self.offices[worker] = generation, self._loop.time()

    def ensure_worker(self, settings):
        """A worker is made; nobody makes one whose successor has long been in office."""
        generation, since = self.offices.get(settings.base, (0, 0.0))
        if settings.generation < generation and self._loop.time() - since > SUCCESSION_S and not self.times_set_back:
            self.wrong("%s is made, and successor %d has long been in office", settings.name, generation)

    def blamed(self, conversation_id, process, runs):
        """A process is held to have died of a conversation's work; None for one that is no worker's.

        A worker that left with a claim, since the answer to that was lost, has died of it for all that anybody can know.
        """
        if process is None:
            return
        if process.left and not any(run.incarnation.startswith(process.worker.incarnation) for run in runs.values()):
            self.wrong("%s: it is blamed for the end of %s, which left by itself", conversation_id, process)
        elif not self._given_up(process):
            self.wrong("%s: it is blamed for the end of %s, which lives", conversation_id, process)

    def _given_up(self, worker):
        """Whether the cluster knows it to be dead, or the store says so to another cluster, which cannot know."""
        return worker.gone or worker.worker.incarnation in self.silent

    # -- what is paused -----------------------------------------------------------------------------------------------

    def pauses(self, standing):
        """These pauses stand from now on, and no other."""
        self.paused_at = {whose: self.paused_at.get(whose, self._loop.time()) for whose in standing}

    def begins(self, agent, what):
        """A turn or model call begins, or a run is claimed: not later than it may, once that is paused."""
        for whose, at in self.paused_at.items():
            if whose in ("", agent) and self._loop.time() - at > PAUSE_LAG_MS / 1000 + CLOCK_S:
                self.wrong("%s begins %.3f s after %s was paused", what, self._loop.time() - at, whose or "everything")

    # -- what rules say ---------------------------------------------------------------------------------------------------

    def rules_published(self, rules):
        """A publication begins: until it returns, workers may act on these rules or on those before; its number."""
        self.published.append(rules)
        self._publications += 1
        if self._acted_on is not None:
            self._acted_on = (*self._acted_on, rules)
        return self._publications

    def rules_stand(self, number):
        """A publication returns: nobody acts on other rules any more, if the store has not been set back meanwhile."""
        if number == self._publications:
            self._acted_on = (self.published[-1],)

    def _let_begin(self, conversation_id, effect_id, now):
        """A run is claimed: rules that may be acted on now let it begin, or ask, and a person has approved that call.

        Or a grant that stands covers it; one that is claimed as a log said that is no more is held against none.
        """
        scheduled = self._scheduling(conversation_id, effect_id)
        events = self.log(conversation_id).events
        if scheduled is not None and scheduled.grants and not self.times_set_back:
            a_claim_by_grants(self, conversation_id, events, scheduled, now)
        if scheduled is None or self._acted_on is None:
            return
        arguments = arguments_in(events[scheduled.arguments_at - 1], scheduled.tool_call_id)
        agent = agent_of(conversation_id, events)
        effects = {self.verdict(rules, agent, scheduled.tool, arguments).effect for rules in self._acted_on}
        if effects == {RuleEffect.DENY}:
            self.wrong("%s: %s begins, and rules deny it", conversation_id, effect_id)
        elif RuleEffect.ALLOW not in effects and not (
            self._approved(conversation_id, scheduled.tool_call_id)
            or (scheduled.grants and self.times_set_back)
            or covered_in(events, scheduled.tool_call_id, scheduled, now)
        ):
            self.wrong("%s: %s begins without an approval", conversation_id, effect_id)

    @staticmethod
    def verdict(rules, agent, tool, arguments):
        """What rules say of a call."""
        spec = agent.spec.tool(tool)
        required = spec.approval is Approval.REQUIRED
        return rules.get(agent.name, NONE).verdict(tool, arguments, required=required, executor=spec.executor)

    def _approved(self, conversation_id, call):
        """Whether somebody has approved a call, or decided on what its body asked for."""
        return any(
            isinstance(event, SuspensionSettled)
            and event.tool_call_id == call
            and event.by in (SettledBy.APPROVE, SettledBy.REVIEW, SettledBy.REDISPATCH)
            for event in self.log(conversation_id).events
        )

    def _handed_over(self, conversation_id, event, now):
        """A call that has waited is handed over to a client: rules were asked about it once more, as before a run's claim."""
        taken_up = [one for one in self.log(conversation_id).events if isinstance(one, CallHeld | CallSuspended | RunScheduled)]
        before = [one for one in taken_up if one.tool_call_id == event.tool_call_id and one is not event]
        judged = before[-1] if before else None
        if isinstance(judged, CallHeld | CallSuspended):
            self.wrong("%s: %s is handed over, and rules were not asked again", conversation_id, event.tool_call_id)
        elif judged is not None:
            effect_id = f"{judged.tool_call_id}#{judged.attempt}"
            self.begins(agent_of(conversation_id, self.log(conversation_id).events).name, f"{effect_id} of {conversation_id}")
            self._let_begin(conversation_id, effect_id, now)

    # -- what the model was asked ------------------------------------------------------------------------------------

    def requested(self, request, spec, messages):
        """The model is called: once for each effect, and once more for each worker that ended or time the store went back."""
        conversation_id, effect_id = request.conversation_id, request.effect_id
        due = _reached_in(self.log(conversation_id).events[: request.upto_seq])
        if request.stopped != due and not self.times_set_back:  # it is what keeps tools from a request
            self.wrong(
                "%s: %s is asked for as %r, and the turn has reached %r", conversation_id, effect_id, request.stopped, due
            )
        events = self.log(conversation_id).events[: request.upto_seq]
        problem = problem_of_request(spec, messages)
        if spec.tools and not self.times_set_back:
            problem = problem or problem_of_summary(events, messages)
        if not self.times_set_back:
            problem = problem or problem_of_call(request, events, spec)
        if problem:
            self.wrong("%s: the request of %s is no whole one: %s", conversation_id, effect_id, problem)
        made = any(isinstance(one, Compacted) and one.effect_id == effect_id for one in self.log(conversation_id).events)
        if made and not (self.worker_ends or self.times_set_back):
            self.wrong("%s: %s asks the model, and its summary stands", conversation_id, effect_id)
        self.requests[conversation_id, effect_id] += 1
        self.read[conversation_id].update(message["content"] for message in messages if message["role"] == "user")
        if self.requests[conversation_id, effect_id] > 1 + self.worker_ends + self.times_set_back:
            times = self.requests[conversation_id, effect_id]
            self.wrong("%s: %s asks the model for the %d. time", conversation_id, effect_id, times)

    def claims_instead(self, conversation_id, effect_id, incarnation, process):
        """A claim gives way to another: its process is gone, or has ended that work."""
        if process is not None and not self._given_up(process) and process.worker._claims.task(incarnation) is not None:
            self.wrong("%s: %s is claimed once more, while %s is at it", conversation_id, effect_id, process)

    def recorded(self, conversation_id, effects, runs):
        """After an append, there is a record for each outstanding effect of a worker's, and no other."""
        if set(effects) != set(runs):
            self.wrong("%s: outstanding are %s, and the records are of %s", conversation_id, sorted(effects), sorted(runs))

    # -- what the bodies did ------------------------------------------------------------------------------------------

    def claimed(self, process, conversation_id, effect_id):
        """A run is claimed, in the log as it is now."""
        self._claims[process, conversation_id, effect_id] = self.times_set_back
        if "#" in effect_id:
            self._let_begin(conversation_id, effect_id, process.world.clock())

    def begun(self, process, conversation_id, call, attempt, tool):
        """A body begins to run; one that was claimed in a log which the store has forgotten since is held against no other."""
        if self._claims.get((process, conversation_id, f"{call}#{attempt}"), self.times_set_back) < self.times_set_back:
            self._trace.note("runs %s of %s, attempt %d, as a log said that is no more", call, conversation_id, attempt)
            body = self.forgotten[conversation_id, call, attempt] = Body(process, forgotten=True)
            return body
        run = process.world.memory._runs(conversation_id).get(f"{call}#{attempt}")
        if run is not None and run.status is RunStatus.RUNNABLE and not self.times_set_back:
            self.wrong("%s: attempt %d of %s runs, and nobody has claimed it", conversation_id, attempt, call)
        key = (conversation_id, call, attempt)
        self._trace.note("runs %s of %s, attempt %d", call, conversation_id, attempt)
        if key in self.bodies and not self.bodies[key].forgotten:
            self.wrong("%s: attempt %d of %s ran a second time", conversation_id, attempt, call)
        body = self.bodies[key] = Body(process)
        events = self.log(conversation_id).events
        scheduled = [event for event in events if isinstance(event, RunScheduled) and event.tool_call_id == call]
        if attempt not in [event.attempt for event in scheduled]:
            self.wrong("%s: attempt %d of %s ran, though the log does not say so", conversation_id, attempt, call)
        return body

    def over(self, body):
        """A body ends."""
        body.over = True

    # -- when the store goes back -------------------------------------------------------------------------------------

    def set_back(self, copied):
        """The logs are what they were: what came after is no part of the truth any more, and nobody can be held to it."""
        self.times_set_back += 1
        self._publications += 1
        if any(self.published):  # which of them the store holds by now, and what workers have read, is not followed
            self._acted_on = None
        self.written = copied.logs
        kept = {}
        for key, body in self.bodies.items():
            conversation_id, call, attempt = key
            if self._scheduled(conversation_id, call, attempt):
                body.forgotten = copied.bodies.get(key) is not body
                kept[key] = body
        self.bodies = kept
        for asked in self.asked:
            asked.lost = asked.lost or asked.answered_at is None or asked.answered_at >= copied.at

    def _scheduled(self, conversation_id, call, attempt):
        return self._scheduling(conversation_id, f"{call}#{attempt}") is not None

    def _scheduling(self, conversation_id, effect_id):
        call, _, attempt = effect_id.rpartition("#")
        for event in reversed(self.log(conversation_id).events):
            if isinstance(event, RunScheduled) and event.tool_call_id == call and event.attempt == int(attempt):
                return event
        return None

    # -- what callers asked -------------------------------------------------------------------------------------------

    def asks(self, client, conversation_id, command, timeout_s):
        at = self._loop.time()
        asked = Asked(client, conversation_id, command, at, at + timeout_s, self.length(conversation_id))
        self.asked.append(asked)
        return asked

    def answered(self, asked, answer, error):
        asked.answer, asked.error = answer, error
        asked.answered_at, asked.to_seq = self._loop.time(), self.length(asked.conversation_id)


def _reached_in(events):
    """The bound that the turn has reached which goes on at the end of these events; empty if none."""
    for event in reversed(events):
        if isinstance(event, StopReached):
            return event.detail
        if isinstance(event, TurnStarted | CompactionStarted):
            break
    return ""


def _kinds(events):
    return " ".join(event.kind for event in events)
