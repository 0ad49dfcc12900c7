"""Bugs to plant in what is owed, as those in `bugs.py`: notices that are lost, or come out of order."""

from unittest import mock

from holdfast.persistence import MemoryStore, Verdict
from holdfast.registry.courier import Courier

acknowledge = MemoryStore.acknowledge
lease = MemoryStore.lease


def a_cursor_that_goes_back():
    """What a courier has tried in vain comes last in its queue."""

    async def rewinding(self, leased, verdict, **more):
        done = await acknowledge(self, leased, verdict, **more)
        queue = self._owed.queues.get((leased.conversation_id, leased.envelope.target))
        if done is Verdict.LATER and queue is not None:
            queue.envelopes.append(queue.envelopes.pop(0))
        return done

    return mock.patch.object(MemoryStore, "acknowledge", rewinding)


def a_lease_that_is_an_acknowledgement():
    """What a courier has leased is owed no more."""

    async def forgetful(self, lane, **more):
        leased = await lease(self, lane, **more)
        for one in leased.leased:
            self._next(one.conversation_id, one.envelope)
        return leased

    return mock.patch.object(MemoryStore, "lease", forgetful)


def a_courier_that_acknowledges_first():
    """What is owed is acknowledged before its target has it."""
    answered = Courier._answered

    async def hasty(self, leased):
        await self._store.acknowledge(leased, Verdict.DELIVERED)
        return await answered(self, leased)

    return mock.patch.object(Courier, "_answered", hasty)


def events_that_owe_the_last_one_alone():
    """Of several events of one append, the last one's notice is owed."""
    append = MemoryStore.append

    async def stingy(self, conversation_id, write):
        if len(write.owed) > len({one.target for one in write.owed}):
            last = {one.target: one for one in write.owed}
            write = type(write)(
                **{**{name: getattr(write, name) for name in write.__dataclass_fields__}, "owed": [*last.values()]}
            )
        return await append(self, conversation_id, write)

    return mock.patch.object(MemoryStore, "append", stingy)


COURIERS = (
    a_cursor_that_goes_back,
    a_lease_that_is_an_acknowledgement,
    a_courier_that_acknowledges_first,
    events_that_owe_the_last_one_alone,
)
