"""Models that are asked one after the other, behind their breakers."""

import asyncio

import pytest

from holdfast.actors.worker.breakers import Breakers
from holdfast.actors.worker.failover import Caller, Target, answered
from holdfast.actors.worker.model_outcome import ModelCounts
from holdfast.conversation.terms.models import Breaker, ModelSpec
from holdfast.counting import Counts

ONCE = ModelSpec(model="m", retries=0, breaker=Breaker(failures=1, cooldown_s=1, probes=1))


class Unsayable(Caller):
    """A caller whose tries fail, and who cannot say why."""

    def target(self, model):
        return Target(model, {"model": "m"}, "", anthropic=False, messages=[])

    async def attempt(self, target, bound):
        raise ConnectionError("down")

    def failure(self, error, target):
        raise RuntimeError("it has no words")

    def bounded(self, seconds):
        return asyncio.timeout(seconds)

    def now_s(self):
        return 0.0

    async def anew(self):
        pass


async def test_a_probe_whose_failure_cannot_be_said_leaves_its_place_to_the_next_one():
    now = [0.0]
    breakers = Breakers(Counts(), lambda: now[0])
    breakers.enter(("m", ""), ONCE.breaker).ended(failed=True)
    now[0] = 2.0
    for _ in range(2):
        async with asyncio.timeout(30) as whole:
            with pytest.raises(RuntimeError, match="no words"):
                await answered(
                    Unsayable(),
                    [ONCE],
                    timeout_s=30,
                    whole=whole,
                    counts=ModelCounts(Counts(), "m"),
                    breakers=breakers,
                    named="c",
                )
