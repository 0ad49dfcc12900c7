"""Bugs to plant in delegation, as those in `bugs.py`: children that begin too late, or go on too long."""

import asyncio
import contextlib
from unittest import mock

from holdfast.actors.workers import Delivered
from holdfast.conversation import End
from holdfast.conversation.judging import deciding, delegating, machine
from holdfast.conversation.log import owed
from holdfast.conversation.records.events import SuspensionSettled
from holdfast.errors import HoldfastError
from holdfast.persistence import MemoryStore
from holdfast.registry.own_deliveries import _answer, _OwnDeliveries


def a_child_of_a_settled_wait():
    """What a parent waits for no longer is not ended."""
    owes = owed.owes

    def nothing(event, *states):
        return () if isinstance(event, SuspensionSettled) and owed._source(event, states[0]) else owes(event, *states)

    return mock.patch.object(owed, "owes", nothing)


def a_decision_after_the_parents_deadline():
    """A child's calls are decided though its parent waits no longer."""
    return mock.patch.object(deciding, "check_time")


def a_deadline_beyond_the_parents():
    """A child's calls wait as long as its own agent lets them."""
    return mock.patch.object(delegating.Draft, "capped", lambda _draft, at: at)


def a_start_that_overtakes_its_end():
    """A start counts as delivered once it is on its way, and its end may arrive before it."""
    start = _OwnDeliveries.start

    async def late(self, child, leased):
        with contextlib.suppress(HoldfastError):
            await start(self, child, leased)

    async def hasty(self, child, leased):
        asyncio.get_running_loop().create_task(late(self, child, leased))
        return Delivered()

    return mock.patch.object(_OwnDeliveries, "start", hasty)


def an_end_of_whoever_has_the_id():
    """Where a person's conversation has a child's id, it is ended with the wait."""

    async def rude(self, child, leased):
        return _answer(await self._sent(child, End(request_id=leased.envelope.message_id(leased.conversation_id))))

    return mock.patch.object(_OwnDeliveries, "end", rude)


def a_child_that_goes_on():
    """A child that has answered waits for more."""
    return mock.patch.object(machine.delegating, "ended", lambda _command, judgement: judgement)


def a_start_that_is_told_of_at_once():
    """The parent of a child that was started twice is told of it as if it had ended."""
    load = MemoryStore.load

    async def ended(self, conversation_id):
        state = await load(self, conversation_id)
        return state if state.parent is None else state.model_copy(update={"ended": True})

    return mock.patch.object(MemoryStore, "load", ended)


CHILDREN = (
    a_child_of_a_settled_wait,
    a_decision_after_the_parents_deadline,
    a_deadline_beyond_the_parents,
    a_start_that_overtakes_its_end,
    an_end_of_whoever_has_the_id,
    a_child_that_goes_on,
    a_start_that_is_told_of_at_once,
)
