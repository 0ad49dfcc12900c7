"""Input: in some seeds people send in all ways, with priorities and times, interrupt, withdraw, and move what waits."""

import random

from holdfast.conversation import Interrupt, Reschedule, Send, When, Withdraw
from holdfast.conversation.records.events import MessageAccepted

INPUT = 0.2
"""In how many seeds there is such input; drawn apart, so that other seeds stay what they are."""
ACTS = 0.6
"""The share of what people do there that is such input."""
MORE = 5
"""How much more each client does there."""
MEANS = (
    *("queue",) * 4,
    *("steer",) * 6,
    *("at",) * 4,
    *("withdraw",) * 3,
    *("reschedule",) * 3,
    *("interrupt", "interrupt with a text", "reject"),
)
PRIORITIES = (0, 100, 128, 128, 128, 255)
LATER_S = (0.3, 1, 4, 12, 40)
"""How far ahead a message is delayed, at most."""
FITTING = 0.8
"""How often somebody waits until a message of its kind does something, and names one that waits."""
LOOKS = 40
SLOW = 0.4
"""In how many of these seeds models take their time, so that more arrives meanwhile."""


class Inputs:
    """Whether there is such input, and which."""

    def __init__(self, world, seed):
        self._world = world
        self._drawn = random.Random(f"input in {seed}")
        self.there = self._drawn.random() < INPUT
        self.healed_at = None  # in ms, when the last fault was over
        if self.there and self._drawn.random() < SLOW:
            world.model.slow()

    def acts(self):
        """Whether what somebody is about to do is such input."""
        return self.there and self._drawn.random() < ACTS

    async def command(self, conversation_id):
        """What somebody asks about messages: a new one, or one about a message that was accepted."""
        drawn = self._drawn
        means = drawn.choice(MEANS)
        if drawn.random() < FITTING:
            await self._until_it_does_something(conversation_id, means)
        if means in ("withdraw", "reschedule"):
            found = self._one_of(conversation_id)
            if found is not None:
                return self._about(means, found)
        priority, name = drawn.choice(PRIORITIES), self._world.new_id("m")
        if means in ("interrupt", "interrupt with a text"):
            return Interrupt(text=None if means == "interrupt" else f"text of {name}", request_id=name)
        message = Send(text=f"text of {name}", message_id=name, priority=priority)
        if means == "at":
            return message.model_copy(update={"at": self._later()})
        return message.model_copy(update={"when": When(means) if means in list(When) else When.QUEUE})

    async def _until_it_does_something(self, conversation_id, means):
        for _ in range(LOOKS):
            state = self._state(conversation_id)
            there = state is not None and (state.waiting if means in ("withdraw", "reschedule") else state.turn is not None)
            if there or means in ("queue", "at"):
                return
            await self._world.sleep(self._drawn.random() / 5)

    def _about(self, means, found):
        drawn = self._drawn
        seq, message = found
        named = {"message_id": message, "message_seq": seq, "request_id": self._world.new_id("i")}
        if means == "withdraw":
            return Withdraw(**named)
        at, priority = drawn.choice(((True, False), (False, True), (True, True)))
        return Reschedule(at=self._later() if at else None, priority=drawn.choice(PRIORITIES) if priority else None, **named)

    def _one_of(self, conversation_id):
        """A message, best one that waits; now and then the place of one with the name of another."""
        drawn = self._drawn
        events = self._world.ledger.log(conversation_id).events
        accepted = {seq: one.message_id for seq, one in enumerate(events, 1) if isinstance(one, MessageAccepted)}
        state = self._state(conversation_id)
        waiting = [] if state is None else [one.seq for one in state.waiting if one.seq in accepted]
        among = waiting if waiting and drawn.random() < FITTING else list(accepted)
        if not among:
            return None
        seq = drawn.choice(among)
        return seq, accepted[seq if drawn.random() < 0.95 else drawn.choice(list(accepted))]

    def _state(self, conversation_id):
        found = self._world.memory._conversations.get(conversation_id)
        return None if found is None else found.listed

    def _later(self):
        drawn = self._drawn
        return self._world.clock() + round(1000 * (0.3 + drawn.random() * drawn.choice(LATER_S)))
