"""Bugs to plant, one at a time: each is a mistake that this design rules out, made on purpose in the product or in the store.

A simulation that does not find them would prove nothing.
"""

import contextlib
import dataclasses
import importlib
from unittest import mock

from holdfast.actors import admission
from holdfast.actors import ray_workers as ray_crew
from holdfast.actors.activation import judge
from holdfast.actors.activation.activation import Activation
from holdfast.actors.activation.ownership import Ownership
from holdfast.actors.ray_workers import RayWorkers, WorkerUnavailable
from holdfast.actors.worker import tool_run
from holdfast.actors.worker.claims import Claim, Claims
from holdfast.actors.workers import NoOutcome, NoWorker
from holdfast.conversation import CancelTurn, Execution, OnLost, Resolve, ResolveMany, decide
from holdfast.conversation.judging import deciding, machine, outcomes, progress
from holdfast.conversation.records.idempotency import IdempotencyRecord
from holdfast.errors import BatchRefused, HoldfastError, StoreUnavailable
from holdfast.persistence import Appended, Due, KnownIds, MemoryStore, Run, RunStatus, codec, memory_conversations
from holdfast.registry.pool import ActorDied
from holdfast.registry.watchdog import Watchdog
from holdfast.store_clock import StoreClock

from . import actors, shop
from .actors import SimHandle
from .loop import PROCESS
from .network import Died, Unavailable


def reply_before_the_append():
    """The caller is answered as soon as the command is judged; a crash or a failed append then loses what was acknowledged."""
    answer = Activation._answer

    async def hasty(self, asked):
        with contextlib.suppress(HoldfastError):
            owned = self._owned
            stamped = asked.command.stamped(owned.time.now(), await owned.spec_for(asked.command), {})
            judged = decide(owned.state, stamped)
            if judged.reply is not None and not asked.reply.done():
                asked.reply.set_result(judged.reply)
        await answer(self, asked)

    return mock.patch.object(Activation, "_answer", hasty)


def no_fencing():
    """The store writes for whoever asks: an activation that was deposed goes on writing."""
    append = MemoryStore.append

    async def unfenced(self, conversation_id, write):
        found = self._conversations.get(conversation_id)
        token = found.token if found is not None else ""
        return await append(self, conversation_id, dataclasses.replace(write, token=token or write.token))

    return mock.patch.object(MemoryStore, "append", unfenced)


def an_unfenced_refusal():
    """A refusal is not confirmed as the owner's: a deposed actor looks the ids up and says a final "no"."""
    append = MemoryStore.append

    async def unfenced(self, conversation_id, write):
        if write.events:
            return await append(self, conversation_id, write)
        known = self._conversations[conversation_id].known
        found = {key: codec.decode(IdempotencyRecord, known[key]) for key in write.absent if key in known}
        return KnownIds(self._clock(), found) if found else Appended(self._clock())

    return mock.patch.object(MemoryStore, "append", unfenced)


def a_dispatch_without_a_claim():
    """A worker runs the body without having moved its record: nobody else knows that it runs."""
    run = tool_run.run

    async def unclaimed(bench, *args, **kwargs):
        return await run(dataclasses.replace(bench, store=_Unclaiming(bench.store)), *args, **kwargs)

    return mock.patch.object(tool_run, "run", unclaimed)


class _Unclaiming:
    def __init__(self, store):
        self._store = store

    def __getattr__(self, verb):
        return getattr(self._store, verb)

    async def claim(self, *_args, **_kwargs):
        return True


def a_resolve_that_ignores_the_suspension_id():
    """A decision settles whatever the call waits for now, not what was shown."""
    find = deciding._named

    def careless(state, command):
        return find(state, command.model_copy(update={"suspension_id": None}) if _suspended_once(state, command) else command)

    def _suspended_once(state, command):
        call = state.turn.call(command.tool_call_id) if state.turn is not None else None
        return call is not None and call.suspensions == 1

    return mock.patch.object(deciding, "_named", careless)


def a_popped_deadline():
    """What needs attention is taken out of its index when it is read: a crash before it is woken loses it."""
    attention, popped = MemoryStore.attention, "_popped"

    async def pop(self, limit):
        due = await attention(self, limit)
        taken = self.__dict__.setdefault(popped, set())
        fresh = [name for name in due.conversation_ids if (name, self._conversations[name].attention) not in taken]
        taken |= {(name, self._conversations[name].attention) for name in fresh}
        return Due(due.now, fresh)

    return mock.patch.object(MemoryStore, "attention", pop)


# -- more of them, beyond the six -----------------------------------------------------------------------------------------


def receipts_forgotten():
    """Ids are not kept beside the log: what is repeated is done twice."""
    return mock.patch.object(memory_conversations, "facts", return_value={})


def a_state_kept_after_an_unknown_write():
    """An actor goes on with the state it had, although its write may have happened."""

    async def stay(self):
        pass

    return mock.patch.object(Activation, "_begin_anew", stay)


def a_run_lost_while_it_runs():
    """A worker that does not answer is taken for dead: its run is started again beside it."""

    async def impatient(self, worker, incarnation, conversation_id, effect_id):
        return NoOutcome.GONE

    return mock.patch.object(RayWorkers, "join", impatient)


def a_loss_that_runs_everything_again():
    """What is lost is run again, whatever its tool says of that."""
    lost = outcomes._lost

    def eager(draft, call):
        lost(draft, call.model_copy(update={"on_lost": OnLost.REDISPATCH}))

    return mock.patch.object(outcomes, "_lost", eager)


def an_outcome_that_is_not_recorded():
    """A worker does not keep its outcome in the store: with the actor that waited for it, it is lost."""

    async def forget(bench, request, incarnation, outcome, *, keeps_late=True):
        return True

    return mock.patch.object(tool_run, "deposit", forget)


def a_claim_that_anybody_may_repeat():
    """The claim is no compare-and-set: two workers that are told to run a call both run it."""

    async def claim(self, conversation_id, effect_id, *, incarnation, worker, bound_ms=0, **_):
        runs = self._runs(conversation_id)
        if effect_id in runs and runs[effect_id].status is not RunStatus.DONE:
            runs[effect_id] = Run(RunStatus.CLAIMED, incarnation=incarnation, worker=worker, until=self._clock() + bound_ms)
            return True
        return False

    return mock.patch.object(MemoryStore, "claim", claim)


def an_expiry_by_the_actors_own_clock():
    """An actor judges deadlines by its machine's clock, which may be fast."""
    return mock.patch.object(StoreClock, "now", lambda self: self._clock())


def an_actor_that_keeps_time_by_its_wall_clock():
    """An actor counts from what the store said last by a clock that anybody may set."""

    def wall_clock():
        return judge.time.time_ns() // 1_000_000

    return mock.patch.object(actors, "steady_ms", wall_clock)


def a_head_that_is_not_checked():
    """The store appends to whatever the log is by now: with a tail lost, to another one than the writer knows."""
    append = MemoryStore.append

    async def blind(self, conversation_id, write):
        found = self._conversations.get(conversation_id)
        head = len(found.log) if found is not None else 0
        before = write.before.model_copy(update={"seq": head})
        after = write.after.model_copy(update={"seq": head + len(write.events)})
        return await append(self, conversation_id, dataclasses.replace(write, before=before, after=after))

    return mock.patch.object(MemoryStore, "append", blind)


def a_transcript_that_is_trusted_by_its_length():
    """A worker keeps what it has read, and takes another log that is no longer for the same one."""
    answer = shop.Model.answer

    def trusting(self, request, messages):
        kept = self.__dict__.setdefault("kept", {}).setdefault(request.conversation_id, [])
        kept.extend(messages[len(kept) :])
        return answer(self, request, kept[: len(messages)])

    return mock.patch.object(shop.Model, "answer", trusting)


def a_model_call_that_is_known_by_its_name():
    """What the model said to an effect of a lost end of the log is taken for what it says to its namesake."""
    answer = shop.Model.answer

    def remembering(self, request, messages):
        kept = self.__dict__.setdefault("kept", {})
        key = request.conversation_id, request.effect_id
        if key not in kept:
            kept[key] = answer(self, request, messages)
        return kept[key]

    return mock.patch.object(shop.Model, "answer", remembering)


def an_actor_that_does_not_answer_taken_for_dead():
    """Whoever gets no answer takes the actor for dead, and has another depose it within its lease."""

    async def call(self, what, serve):
        try:
            return await self._world.network.call(self._process, what, serve)
        except (Died, Unavailable) as error:
            raise ActorDied(str(error)) from error

    return mock.patch.object(SimHandle, "_call", call)


def a_body_that_runs_whatever_came_of_its_claim():
    """A claim whose outcome is unknown is taken for won."""
    run = tool_run.run

    async def hopeful(bench, *args, **kwargs):
        return await run(dataclasses.replace(bench, store=_Hopeful(bench.store)), *args, **kwargs)

    return mock.patch.object(tool_run, "run", hopeful)


class _Hopeful(_Unclaiming):
    async def claim(self, *args, **kwargs):
        with contextlib.suppress(StoreUnavailable):
            return await self._store.claim(*args, **kwargs)
        return True


def a_process_that_hangs_and_that_nobody_ends():
    """The watch counts in how many looks a process has been silent, and leaves it at that."""

    async def look_away(self, name):
        pass

    return mock.patch.object(Watchdog, "_end", look_away)


# -- in the workers ----------------------------------------------------------------------------------------------------------


def a_worker_that_does_not_answer_taken_for_gone():
    """A worker that is started again, or is not heard, counts as one that has left: its runs are given up while it lives."""
    return mock.patch.object(ray_crew, "WorkerDied", WorkerUnavailable)


def a_worker_that_left_and_is_asked_for_ever():
    """A handle is kept, whatever became of its worker."""
    return mock.patch.object(RayWorkers, "_forget")


def a_generation_that_is_never_read_again():
    """Who is in office is read once: a worker is made again and again where its successor's successor has long begun."""
    begin = RayWorkers.__init__

    def knowing(self, store, settings, cluster):
        begin(self, _Knowing(store), settings, cluster)

    return mock.patch.object(RayWorkers, "__init__", knowing)


class _Knowing:
    def __init__(self, store):
        self._store = store
        self._known = {}

    def __getattr__(self, verb):
        return getattr(self._store, verb)

    async def generation(self, worker):
        if worker not in self._known:
            self._known[worker] = await self._store.generation(worker)
        return self._known[worker]


def a_run_abroad_that_is_given_up():
    """What cannot be asked, since it is another cluster's, is gone."""

    async def nowhere(self, incarnation, conversation_id, effect_id):
        return NoOutcome.GONE

    return mock.patch.object(RayWorkers, "_abroad", nowhere)


def a_run_of_another_release_that_is_given_up():
    """What must not be asked, since it is another release's, is gone."""

    join = RayWorkers.join

    async def joined(self, worker, incarnation, conversation_id, effect_id):
        if await self._launcher.find(worker) is not None and not worker.startswith(self._settings.prefix):
            return NoOutcome.GONE
        return await join(self, worker, incarnation, conversation_id, effect_id)

    return mock.patch.object(RayWorkers, "join", joined)


# -- in what is paused ----------------------------------------------------------------------------------------------------


def a_pause_that_is_looked_for_once():
    """A process reads the pauses when it begins, and takes it that nobody pauses anything after that."""
    return mock.patch.object(admission, "FRESH_S", 3600.0)


def a_resume_that_forgets_who_was_left():
    """Who was left since its work is paused needs no attention, and nobody looks whether that is over."""

    async def look_away(self, limit):
        return 0

    return mock.patch.object(MemoryStore, "readmit", look_away)


# -- in what is parked ----------------------------------------------------------------------------------------------------


def a_call_that_is_dropped_when_its_conversation_is_parked():
    """Who leaves a conversation has its model calls ended, as if nobody waited for them any more."""
    release = MemoryStore.release

    async def drop(self, conversation_id, token, **kwargs):
        await release(self, conversation_id, token, **kwargs)
        for run in list(self._runs(conversation_id).values()):
            world = getattr(PROCESS.get(), "world", None)  # who looks from outside is no process of the world
            process = None if world is None else world.incarnations.get(run.process)
            if process is not None and not process.dead:
                process.worker._claims.drop(run.incarnation)

    return mock.patch.object(MemoryStore, "release", drop)


def a_claim_that_is_known_by_its_effect():
    """Every claim of an effect has one name in a process: what was claimed in a log that is no more counts in the next one."""

    def known(self, work, *, ends=False, process=None):
        return Claim(f"{process or self._process}.{'-'.join(work)}", work, ends)

    return mock.patch.object(Claims, "new", known)


def a_record_that_model_calls_do_not_have():
    """The write that makes a model call outstanding forgets its record."""
    return mock.patch.object(importlib.import_module("holdfast.conversation.log.index"), "_model_call", return_value=None)


def a_late_model_outcome_that_is_kept():
    """What nobody waits for any more stays beside the log."""
    finish = MemoryStore.finish

    async def keep(self, *args, keeps_late=True, **kwargs):
        return await finish(self, *args, keeps_late=True, **kwargs)

    return mock.patch.object(MemoryStore, "finish", keep)


def a_parked_conversation_that_nobody_looks_at():
    """Who parks a conversation counts on the outcome: that the worker may die before it does not come to mind."""
    release = MemoryStore.release

    async def trust(self, conversation_id, token, **kwargs):
        await release(self, conversation_id, token, **kwargs | {"look_ms": 10**12})

    return mock.patch.object(MemoryStore, "release", trust)


def a_claim_that_gives_way_while_its_worker_lives():
    """Who does not hear of a claim's worker takes the claim for himself."""
    join = RayWorkers.join

    async def impatient(self, worker, incarnation, conversation_id, effect_id):
        try:
            return await join(self, worker, incarnation, conversation_id, effect_id)
        except NoWorker:
            return NoOutcome.GONE

    return mock.patch.object(RayWorkers, "join", impatient)


def a_cancellation_of_whichever_turn():
    """A cancellation that names a turn ends the one that goes on by then, too."""
    cancel = machine.JUDGES[CancelTurn]
    heedless = {CancelTurn: lambda state, command: cancel(state, command.model_copy(update={"turn_id": None}))}
    return mock.patch.dict(machine.JUDGES, heedless)


def a_held_call_that_nobody_lets_go():
    """What waits for its turn waits for ever."""
    return mock.patch.object(progress, "_ready", return_value=())


def calls_that_all_begin_at_once():
    """Calls do not wait for one another, whatever their agent says."""
    return mock.patch.object(progress, "_execution", return_value=Execution.PARALLEL)


def a_batch_that_is_taken_in_part():
    """Of several decisions those that can be taken are, and the rest is left out."""
    judge = machine.JUDGES[ResolveMany]

    def partly(state, command):
        try:
            return judge(state, command)
        except BatchRefused as refused:
            left = tuple(one for one in command.decisions if one.suspension_id not in refused.errors)
            if not left:
                raise
            return judge(state, command.model_copy(update={"decisions": left}))

    return mock.patch.dict(machine.JUDGES, {ResolveMany: partly})


def a_resumed_run_that_keeps_its_number():
    """A body that goes on after a review has the run of the one before: it is never claimed again."""
    schedule = progress.schedule

    def same(draft, call):
        schedule(draft, call.model_copy(update={"attempt": call.attempt - (call.resumed > 0)}))

    return mock.patch.object(progress, "schedule", same)


def a_chain_that_begins_anew_with_each_activation():
    """The head stays in memory: an activation that takes over starts its links from nothing."""
    adopted = Ownership.take_over

    async def forgetful(self, *args, **more):
        moved = await adopted(self, *args, **more)
        if moved is None:
            self.state = self.state.model_copy(update={"audit_head": ""})
        return moved

    return mock.patch.object(Ownership, "take_over", forgetful)


def a_duplicate_with_the_head_of_now():
    """A repeated decision is told the head that the chain has by then."""
    known = machine.repeated

    def latest(state, command):
        found = known(state, command)
        if found is None or not isinstance(command, Resolve):
            return found
        return dataclasses.replace(found, reply=found.reply.model_copy(update={"audit_head": state.audit_head}))

    return mock.patch.object(machine, "repeated", latest)


REQUIRED = (
    reply_before_the_append,
    no_fencing,
    an_unfenced_refusal,
    a_dispatch_without_a_claim,
    a_resolve_that_ignores_the_suspension_id,
    a_popped_deadline,
)
MORE = (
    receipts_forgotten,
    a_state_kept_after_an_unknown_write,
    a_run_lost_while_it_runs,
    a_loss_that_runs_everything_again,
    an_outcome_that_is_not_recorded,
    a_claim_that_anybody_may_repeat,
    an_expiry_by_the_actors_own_clock,
    an_actor_that_keeps_time_by_its_wall_clock,
    a_head_that_is_not_checked,
    a_transcript_that_is_trusted_by_its_length,
    a_model_call_that_is_known_by_its_name,
    an_actor_that_does_not_answer_taken_for_dead,
    a_body_that_runs_whatever_came_of_its_claim,
    a_process_that_hangs_and_that_nobody_ends,
    a_cancellation_of_whichever_turn,
    a_pause_that_is_looked_for_once,
    a_resume_that_forgets_who_was_left,
)
DECIDING = (
    a_held_call_that_nobody_lets_go,
    calls_that_all_begin_at_once,
    a_batch_that_is_taken_in_part,
    a_resumed_run_that_keeps_its_number,
    a_chain_that_begins_anew_with_each_activation,
    a_duplicate_with_the_head_of_now,
)
PARKED = (
    a_call_that_is_dropped_when_its_conversation_is_parked,
    a_claim_that_is_known_by_its_effect,
    a_record_that_model_calls_do_not_have,
    a_late_model_outcome_that_is_kept,
    a_parked_conversation_that_nobody_looks_at,
    a_claim_that_gives_way_while_its_worker_lives,
)
WORKERS = (
    a_worker_that_does_not_answer_taken_for_gone,
    a_worker_that_left_and_is_asked_for_ever,
    a_generation_that_is_never_read_again,
    a_run_abroad_that_is_given_up,
    a_run_of_another_release_that_is_given_up,
)
