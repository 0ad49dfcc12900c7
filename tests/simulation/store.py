"""The one store as each process reaches it: requests travel, fail, come late, and are served even when their sender is dead."""

import copy
import dataclasses

from holdfast.conversation import BeginTurn, outstanding
from holdfast.errors import StoreUnavailable
from holdfast.persistence import Acquired, Appended, RunStatus

from . import shop
from .faults import Fate

ITS_OWN = ("namespace", "store_id", "_clock", "_changed", "_changes", "_listeners")
"""What a store in memory has that is no data."""
LONGEST_S = 10.0
"""How long a request may take before its sender gives up on it, as the driver's socket timeout has it."""


class Copied:
    """All that the store holds at one moment, and how far each log is by then."""

    def __init__(self, world):
        self.at = world.loop.time()
        self._held = copy.deepcopy({name: held for name, held in vars(world.memory).items() if name not in ITS_OWN})
        self.logs = {
            name: dataclasses.replace(log, events=list(log.events), places=list(log.places))
            for name, log in world.ledger.written.items()
        }
        self.bodies = {
            key: body
            for key, body in world.ledger.bodies.items()
            if body.over and not body.forgotten and _knows(world.memory, *key)
        }

    def restore(self, memory):
        """Have the store hold it again. Once only: it is not copied anew."""
        vars(memory).update(self._held)


class SimStore:
    """A `Store` for one process, around the `MemoryStore` that all share."""

    def __init__(self, world, process):
        self.namespace = world.memory.namespace
        self._world = world
        self._process = process

    def __getattr__(self, verb):
        if verb.startswith("_"):
            raise AttributeError(verb)

        def ask(*args, **kwargs):
            return self._ask(verb, args, kwargs)

        self.__dict__[verb] = ask
        return ask

    async def _ask(self, verb, args, kwargs):
        world, process = self._world, self._process
        loop, faults = world.loop, world.faults
        if process.dead:
            await loop.create_future()
        reply = loop.create_future()
        give_up = loop.time() + LONGEST_S
        hop_s = faults.store_hop_s()
        fate = faults.request()
        if fate is not Fate.FINE:
            world.trace.note("asks the store to %s: %s", verb, fate.name)
        if fate in (Fate.LOST, Fate.LATE):
            loop.call_later(hop_s, self._refuse, reply, verb, context=process.context)
        if fate is not Fate.LOST:
            hop_s += world.rng.random() * 8 if fate is Fate.LATE else 0
            lost = fate is not Fate.FINE
            loop.call_later(hop_s, self._serve, verb, args, kwargs, reply, lost, give_up, context=world.store_process.context)
        return await reply

    def _serve(self, verb, args, kwargs, reply, lost, give_up):
        world, process = self._world, self._process
        if world.loop.time() < world.faults.away_until:
            lost = True
            answer = error = None
        else:
            try:
                answer, error = at_once(getattr(world.memory, verb)(*args, **kwargs)), None
            except Exception as raised:
                answer, error = None, raised
            watch = _WATCHED.get(verb)  # tells ledger and trace what the store did, at the moment it did it
            if watch is not None:
                watch(world, process, args, kwargs, answer, error)
        arrives = world.loop.time() + world.faults.store_hop_s()
        if lost or arrives > give_up:
            world.loop.call_at(min(arrives, give_up), self._refuse, reply, verb, context=process.context)
        else:
            world.loop.call_at(arrives, _settle, reply, answer, error, context=process.context)

    def _refuse(self, reply, verb):
        _settle(reply, None, StoreUnavailable(f"{verb} is told to be without an answer"))


def _knows(memory, conversation_id, call, attempt):
    """Whether the store holds the outcome of a body that is over: one recorded later goes with the end of the log."""
    run = memory._runs(conversation_id).get(f"{call}#{attempt}")
    return run is None or run.status is RunStatus.DONE


def at_once(work):
    """The result of a coroutine that never waits."""
    try:
        work.send(None)
    except StopIteration as done:
        return done.value
    work.close()
    message = "the store in memory waited: its work is not atomic any more"
    raise AssertionError(message)


def _settle(reply, answer, error):
    if reply.done():
        return
    if error is not None:
        reply.set_exception(error)
    else:
        reply.set_result(answer)


def _acquire(world, process, args, kwargs, answer, error):
    if isinstance(answer, Acquired):
        expires = world.memory._conversations[args[0]].expires
        world.ledger.acquired(process, args[0], args[1].new_token, answer.epoch, args[1].because, expires)
        world.trace.note(
            "acquires %s as epoch %d at %d (%s)", args[0], answer.epoch, answer.state.seq, args[1].because, who=process.name
        )
    else:
        world.trace.note("does not acquire %s: %s", args[0], error or "moved", who=process.name)


def _append(world, process, args, _kwargs, answer, error):
    conversation_id, write = args
    if isinstance(answer, Appended):
        before = world.ledger.length(conversation_id)
        if write.events and write.before.seq == before:  # not a repetition
            world.ledger.appended(process, conversation_id, write, answer.now)
            effects = [one.effect_id for one in outstanding(write.after) if not isinstance(one, BeginTurn)]
            world.ledger.recorded(conversation_id, effects, world.memory._runs(conversation_id))
            if before == 0 and write.events[0].parent is not None:
                world.children.started(conversation_id, write.events[0].parent)
            begun = any(event.kind in ("turn_started", "compaction_started") for event in write.events)
            if begun and write.after.turn is not None:  # not only to be cancelled
                world.ledger.begins(_agent(world, conversation_id), f"a turn of {conversation_id}")
            world.publisher.saw(write.events)
            world.granter.saw(conversation_id, write.events)
            kinds = " ".join(event.kind for event in write.events)
            world.trace.note("appends %s %d->%d %s", conversation_id, before, write.after.seq, kinds, who=process.name)
        elif not write.events:
            world.trace.note("confirms %s at %d", conversation_id, write.before.seq, who=process.name)
    elif error is not None:
        world.trace.note("cannot append to %s: %s", conversation_id, error, who=process.name)


def _agent(world, conversation_id):
    return shop.agent_of(conversation_id, world.ledger.log(conversation_id).events).name


def _acknowledge(world, _process, args, _kwargs, answer, error):
    if error is None:
        world.children.acknowledged(args[0], answer)


def _look(world, process, args, _kwargs, answer, _error):
    if answer is not None:
        world.trace.note("looks at %s: %s", args[0], "parked" if answer else "wake", who=process.name)


def _release(world, process, args, _kwargs, _answer, error):
    if error is None:
        world.ledger.released(args[0], args[1])
        world.trace.note("releases %s", args[0], who=process.name)


def _strike(world, process, args, kwargs, answer, error):
    if error is None:
        world.ledger.blamed(args[0], world.incarnations.get(kwargs["process"]), world.memory._runs(args[0]))
        world.trace.note(
            "counts that %s died of %s: %s", kwargs["process"][:6], args[0], answer or "quarantine", who=process.name
        )
    if error is None and answer is None:
        world.ledger.quarantined.add(args[0])
        world.ledger.released(args[0], args[1])


def _succeed(world, process, args, _kwargs, _answer, error):
    if error is None:
        world.ledger.succeeded(*args)
        world.trace.note("puts successor %d in office", args[1], who=process.name)


def _attested(world, _process, args, _kwargs, answer, _error):
    if answer is False:
        world.ledger.silent.add(args[0])


def _claim(world, process, args, kwargs, answer, _error):
    instead_of = kwargs.get("instead_of")
    if answer and instead_of:
        gone = world.incarnations.get(instead_of.partition(".")[0])
        world.ledger.claims_instead(args[0], args[1], instead_of, gone)
    if answer:
        world.ledger.claimed(process, args[0], args[1])
        world.ledger.begins(_agent(world, args[0]), f"the work {args[1]} of {args[0]}")
    world.trace.note("claims %s of %s: %s", args[1], args[0], answer, who=process.name)


def _finish(world, process, args, _kwargs, answer, _error):
    world.trace.note("records the outcome of %s of %s: %s", args[1], args[0], answer, who=process.name)


def _attention(world, process, _args, _kwargs, answer, _error):
    if answer is not None and answer.conversation_ids:
        world.trace.note("finds due: %s", " ".join(answer.conversation_ids), who=process.name)


def _remove_api_key(world, _process, _args, _kwargs, answer, _error):
    if answer:
        world.ledger.key_gone_at = world.clock()


def _attach(world, process, args, _kwargs, answer, _error):
    if answer is not None:
        conversation_id, present = args[:2]
        world.devices.saw(conversation_id, present.name, answer, present.tools)
        world.trace.note("is attached to %s", conversation_id, who=process.name)


def _renew_clients(world, _process, args, _kwargs, answer, _error):
    for (conversation_id, present), until in zip(args[0], answer or [], strict=False):
        if until:
            world.devices.saw(conversation_id, present.name, until)


def _detach(world, _process, args, _kwargs, _answer, error):
    if error is None:
        world.devices.saw(*args[:2], world.clock())


_WATCHED = {
    "attach": _attach,
    "renew_clients": _renew_clients,
    "detach": _detach,
    "acquire": _acquire,
    "append": _append,
    "acknowledge": _acknowledge,
    "release": _release,
    "claim": _claim,
    "finish": _finish,
    "attention": _attention,
    "look": _look,
    "strike": _strike,
    "attested": _attested,
    "succeed": _succeed,
    "remove_api_key": _remove_api_key,
}
