"""Children: in some seeds models ask other agents, and people meddle with the conversations that answer for these."""

import random

from holdfast.conversation.log.owed import END, addressed
from holdfast.conversation.records.events import CallSuspended, SuspensionSettled
from holdfast.persistence import Verdict

from . import shop

DELEGATED = 0.2
"""In how many seeds models ask other agents; drawn apart, so that other seeds stay what they are."""
AMONG_CHILDREN = 0.7
"""The share of what people do there that is done to children."""
MEDDLING = 0.15
"""How often somebody meddles with a call that waits for a child."""
MEANS = ("cancel the turn", "end", "cancel what waits", "cancel", "cancel", "answer", "take its id", "take its id")
MORE = 8
"""How much more each client does there."""
NEWS_S = (0.05, 0.5, 3)
"""After how long couriers hear of what is owed, by seed."""
LATE = 0.6
"""How often a decision about a child's call comes as the parent's deadline passes."""
LONGEST_S = 12
"""How long somebody waits for that."""


class Children:
    """Whether there are children, what is done to them, and what was delivered to them and to their parents."""

    def __init__(self, world, seed):
        self._world = world
        self._drawn = random.Random(f"nested {seed}")
        self.there = self._drawn.random() < DELEGATED
        self.news_s = self._drawn.choice(NEWS_S)
        self.delivered = set()

    # -- what people do -----------------------------------------------------------------------------------------------

    def or_child(self, conversation_id):
        """The conversation, or a child in its place."""
        if not self.there:
            return conversation_id
        draw = self._drawn.random()
        begun = {name: log.events[-1] for name, log in self._world.ledger.written.items() if log.events and shop.is_child(name)}
        going_on = [name for name, last in begun.items() if last.kind != "conversation_ended"]
        among = going_on if draw < AMONG_CHILDREN * 0.9 else list(begun)
        return self._drawn.choice(among) if among and draw < AMONG_CHILDREN else conversation_id

    def meddles(self):
        """Whether somebody is about to meddle with a call that waits for a child."""
        return self.there and self._drawn.random() < MEDDLING

    def waits(self, conversation_id):
        """The open waits of a conversation for its children."""
        waits = {}
        for event in self._world.ledger.log(conversation_id).events:
            if isinstance(event, CallSuspended) and event.source:
                waits[event.suspension_id] = event
            elif isinstance(event, SuspensionSettled):
                waits.pop(event.suspension_id, None)
        return list(waits.values())

    async def meddling(self, conversation_id):
        """A wait that began just now, and by what means somebody ends it, or wants to do what only the child may; or None."""
        drawn = self._drawn
        for _ in range(120):
            if waits := self.waits(conversation_id):
                break
            await self._world.sleep(0.05)
        else:
            return None
        await self._world.sleep(drawn.random() * drawn.choice((0.05, 0.5, 0.5, 3)))
        return drawn.choice(waits), drawn.choice(MEANS)

    async def until_late(self, conversation_id):
        """Wait until the deadline of a child's parent passes, now and then."""
        if not self.there or self._drawn.random() >= LATE:
            return
        events = self._world.ledger.log(conversation_id).events
        if events and events[0].parent is not None:
            left_s = (events[0].parent.must_end_by - self._world.clock()) / 1000 + self._drawn.random() * 1.3 - 1
            await self._world.sleep(max(0, left_s) if left_s < LONGEST_S else 0)

    # -- what the store did -------------------------------------------------------------------------------------------

    def acknowledged(self, leased, verdict):
        """What one conversation owed another is delivered, or set aside."""
        kind, to = leased.envelope.kind, addressed(leased.envelope.target)
        if to is None:
            return
        ledger = self._world.ledger
        if verdict is Verdict.DELIVERED:
            self.delivered.add((leased.conversation_id, kind, to))
        if ledger.times_set_back:
            return
        if verdict is Verdict.ASIDE:
            ledger.wrong("%s: %s to %s is set aside", leased.conversation_id, kind, to)
        events = ledger.log(to).events
        runs = events and events[0].parent is not None and events[-1].kind != "conversation_ended"
        if kind == END and verdict is Verdict.DELIVERED and runs:
            ledger.wrong("%s: its end is delivered, and it runs", to)

    def started(self, conversation_id, parent):
        """A child starts: not after its end was delivered."""
        over = (parent.conversation_id, END, conversation_id) in self.delivered
        if over and not self._world.ledger.times_set_back:
            self._world.ledger.wrong("%s: it starts after its end", conversation_id)
