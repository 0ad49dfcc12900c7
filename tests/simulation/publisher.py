"""Who publishes the app: with other code, and in a part of the seeds with other permission rules again and again."""

import asyncio
import contextlib
import functools
import random

from holdfast.agent import Rule, Rules
from holdfast.client import publishing
from holdfast.conversation.records.events import CallHeld, CallSuspended, RunScheduled

from . import shop
from .workers import ADDRESS

RULED = 0.2
"""In how many seeds the rules change."""
PROVOKED = 0.7
"""How often the publisher waits for a call that is about to wait or to run, and changes the rules before it does."""
PROVOKING = (CallHeld, CallSuspended, RunScheduled)
LONGEST_S = 5.0
"""How long the publisher waits for such a call."""
LAST_S = (0.01, 0.01, 0.3, 3)
"""How long rules last at most, beside that."""
LATER_S = (0, 3)
"""How long after that the rules change at most."""
PUBLISHED = (
    Rules(deny=["charge"]),
    Rules(deny=[Rule('*(how = "raise")', name="no raise", reason="It raises."), "reship"], ask=["locate"]),
    Rules(allow=["refund", "reship", "share"]),
    Rules(allow=["re*", "refund"], ask=['*(ms =~ "300|3000")'], deny=["locate"]),
    Rules(ask=[Rule("*", name="all", reason="The new clerk is on his own.")]),
    Rules(allow=["lookup"], default="ask"),
    Rules(allow=["lookup", "refund"], ask=["charge"], default="deny"),
    Rules(deny=[Rule("*", name="none", reason="Stocktaking.")]),
)
"""What is published; an agent without rules has none of these."""
TEXTS = {rules.digest: rules.to_json() for rules in PUBLISHED}
read = functools.cache(Rules.of_json)
"""Rules are made of the few texts that there are once: to make them anew in each worker takes as long as all the rest."""


class Publisher:
    """Puts the app's record into the store, as the client's `publish` does."""

    def __init__(self, world, seed):
        self._world = world
        self._drawn = random.Random(f"ruled {seed}")
        self.ruled = self._drawn.random() < RULED
        self._rules = {}
        self._deployed = 0
        self._provoked = None

    async def begin(self):
        """Publish the app for the first time."""
        await self._put()

    async def live(self):
        """Publish other rules again and again, with the same code or with other code: that is no fault, and has no end."""
        drawn, world = self._drawn, self._world
        while True:
            provoked = drawn.random() < PROVOKED
            if provoked:
                await self._provocation()
            await asyncio.sleep(drawn.random() * drawn.choice(LAST_S))
            if provoked:
                self._delay_work()
                await asyncio.sleep(drawn.random() * drawn.choice(LATER_S))
            self._rules = self._other_rules()
            self._deployed += drawn.random() < 0.1
            world.trace.note("publishes other rules: %s", _Said(self._rules), who="publisher")
            number = world.ledger.rules_published(self._rules)
            await self._put()
            await asyncio.sleep(publishing.RULES_LAG_MS / 1000)
            world.ledger.rules_stand(number)

    def saw(self, events):
        """Events were appended to a log."""
        if self._provoked is not None and not self._provoked.done() and any(isinstance(event, PROVOKING) for event in events):
            self._provoked.set_result(None)

    async def _provocation(self):
        self._provoked = asyncio.get_running_loop().create_future()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LONGEST_S):
                await self._provoked

    def _delay_work(self):
        """What is about to run comes to run under the new rules; or another worker runs it, and this one looks later."""
        self._world.delay_work(self._drawn, "freezes while rules change")

    def deploy(self):
        """Other code stands for the app from now on."""
        self._deployed += 1
        self._world.trace.note("is deployed for the %d. time", self._deployed, who="app")
        self._world.loop.judge.start(self._put())

    async def _put(self):
        code = f"{shop.CODE}.{self._deployed}" if self._deployed else shop.CODE
        record = shop.record(code, ADDRESS, {agent: rules.digest for agent, rules in self._rules.items()})
        texts = {rules.digest: TEXTS[rules.digest] for rules in self._rules.values()}
        await self._world.memory.put_app(record, [agent.spec for agent in shop.AGENTS], texts)

    def _other_rules(self):
        """Of about half of the agents: where all is forbidden all the time, little is there to forbid."""
        return {agent.name: self._drawn.choice(PUBLISHED) for agent in shop.RULED if self._drawn.random() < 0.5}


class _Said:
    """Rules for a reader of the trace, which few have."""

    def __init__(self, rules):
        self._rules = rules

    def __str__(self):
        return "; ".join(f"{agent}: {TEXTS[rules.digest]}" for agent, rules in self._rules.items()) or "none"
