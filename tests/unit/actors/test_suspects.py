"""The search for the conversation whose work takes processes down: it is found among hundreds, and nobody else is blamed."""

import asyncio
import math

import pytest

from holdfast.actors.worker.turnstile import Turnstile
from holdfast.persistence import Blame
from holdfast.persistence.conversations import FEW_CLAIMS

STRIKES, ALONE = 3, 2
CALL_S = 0.05


class Process:
    """A worker's process: what is inside when it dies begins anew in the next one."""

    def __init__(self, places):
        self.places, self.deaths = places, []
        self.restart()

    def restart(self):
        self.stile, self.inside = Turnstile(self.places), asyncio.get_running_loop().create_future()
        self.claims = 0

    def die(self):
        died, self.deaths = self.inside, [*self.deaths, self.claims]
        claims = self.claims
        self.restart()
        died.set_result(claims)


@pytest.mark.parametrize(("number", "guilty"), [(300, 1), (300, 3), (40, 1), (1, 1)])
async def test_the_guilty_one_is_found_by_halves_and_nobody_else_is_put_in_quarantine(number, guilty):
    shared, suspects = Process(1000), [Process(128) for _ in range(ALONE)]
    quarantined, done = set(), set()

    async def conversation(name):
        blame = Blame()
        while blame.crash_count < STRIKES:
            process = suspects[name % ALONE] if blame.max_claims else shared
            stile, died = process.stile, process.inside
            entering = asyncio.ensure_future(stile.enter(at_most=blame.max_claims))
            await asyncio.wait({entering, died}, return_when=asyncio.FIRST_COMPLETED)
            if not entering.done():
                entering.cancel()
                continue  # it waited there, and had claimed nothing
            process.claims += 1
            if name < guilty:
                await asyncio.wait({died}, timeout=CALL_S / 5)  # before any other answer comes
                if not died.done():
                    process.die()
            else:
                await asyncio.wait({died}, timeout=CALL_S)
            if not died.done():
                process.claims -= 1
                stile.leave(at_most=blame.max_claims)
                done.add(name)
                return
            blame = blame.after(died.result())
        quarantined.add(name)

    async with asyncio.timeout(60):
        await asyncio.gather(*map(conversation, range(number)))
    assert quarantined == set(range(guilty))
    assert len(done) == number - guilty
    deaths = [claims for process in (shared, *suspects) for claims in process.deaths]
    halvings = math.ceil(math.log2(max(number / FEW_CLAIMS, 1)))
    assert len(deaths) <= guilty * (halvings + STRIKES), deaths
    assert max(deaths) == number
