"""Bugs to plant in guests, as those in `bugs.py`: guests that write where they may not, or leave work that nobody does."""

import contextlib
import dataclasses
from unittest import mock

from holdfast.actors.activation import effect_runner, guest
from holdfast.actors.activation.judge import Held
from holdfast.actors.answers import Replied
from holdfast.actors.worker.bench import at_any_time
from holdfast.conversation import Wake, evolve
from holdfast.persistence import MemoryStore
from holdfast.registry.messages import Messages

append = MemoryStore.append


def a_guest_that_writes_though_owned():
    """The store does not look whether a conversation has an owner when a guest writes."""

    async def careless(self, conversation_id, write):
        found = self._conversations.get(conversation_id)
        if write.seen is None or found is None:
            return await append(self, conversation_id, write)
        token, found.token = found.token, ""
        try:
            return await append(self, conversation_id, write)
        finally:
            found.token = token

    return mock.patch.object(MemoryStore, "append", careless)


def a_guest_that_judges_an_old_state():
    """What a guest decided by what it read is written after whatever others have written since."""

    async def belated(self, conversation_id, write):
        found = self._conversations.get(conversation_id)
        if write.seen is not None and found is not None and found.append_id not in (write.seen, write.append_id):
            before = after = self._state(conversation_id, found)
            events = [event for event in write.events if event.kind != "turn_started"]  # no log has a turn begun twice
            with contextlib.suppress(ValueError):
                for event in events:
                    after = evolve(after, event)
                write = dataclasses.replace(write, seen=found.append_id, before=before, after=after, events=events)
        return await append(self, conversation_id, write)

    return mock.patch.object(MemoryStore, "append", belated)


def a_guest_that_refuses_a_run_of_another():
    """A guest writes that rules do not let a run begin, although another worker has claimed it meanwhile."""

    async def careless(self, conversation_id, write):
        unclaimed = write.claim is not None and not write.claim[1]
        return await append(self, conversation_id, dataclasses.replace(write, claim=None) if unclaimed else write)

    return mock.patch.object(MemoryStore, "append", careless)


@contextlib.contextmanager
def work_of_a_guest_that_nobody_is_told_of():
    """What a guest makes outstanding is told to no worker, and needs no attention."""

    async def silent(self, app, request):
        del self, app, request

    with mock.patch.object(guest, "LOOK_MS", 10**12), mock.patch.object(Messages, "_worked", silent):
        yield


def a_guest_that_skips_the_pause():
    """A guest begins turns whether or not their agent is paused."""

    async def begun(admit, *args):
        del admit
        return await effect_runner.begun(at_any_time, *args)

    return mock.patch.object(guest, "begun", begun)


def a_sweep_that_leaves_actors_out():
    """What a sweeper may not do as a guest counts as done."""
    accepted = Messages.accepted

    async def content(self, delivery):
        result = await accepted(self, delivery)
        return Replied(None) if result is None and isinstance(delivery.command, Wake) else result

    return mock.patch.object(Messages, "accepted", content)


def a_guest_that_sees_no_clients():
    """A wake that a guest judges is not told which clients are there: nobody is missed, unless an actor looks."""
    seeing = Held.seeing

    async def blind(self, command):
        return command if not self.token and isinstance(command, Wake) else await seeing(self, command)

    return mock.patch.object(Held, "seeing", blind)


GUESTS = (
    a_guest_that_writes_though_owned,
    a_guest_that_judges_an_old_state,
    a_guest_that_refuses_a_run_of_another,
    work_of_a_guest_that_nobody_is_told_of,
    a_guest_that_skips_the_pause,
    a_sweep_that_leaves_actors_out,
    a_guest_that_sees_no_clients,
)
