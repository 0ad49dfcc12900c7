"""The checks of `holdfast doctor` on the problems of a store: one for each kind, also where there is no problem."""

from collections.abc import Sequence
from functools import partial

from holdfast.actors.actor_settings import StoreAddress
from holdfast.client.problems import Kind, Problem, problems_of
from holdfast.persistence import RedisStore
from holdfast.settings import Timing

from .check import Check, fail, ok
from .display import shorten, span
from .hints import command
from .options import Where

NAMES = {
    Kind.APP: ("apps", "no worker has reported a problem with an app"),
    Kind.LOST_RUN: ("lost runs", "no lost run waits for a person"),
    Kind.QUARANTINE: ("quarantine", "no conversation is in quarantine"),
    Kind.TROUBLE: ("conversations", "every conversation that needs attention can be taken up"),
    Kind.HUNG_ACTOR: ("hung actors", "no actor hangs"),
    Kind.GRANT: ("grants", "everybody whose API key gave a grant that stands may still decide"),
    Kind.OVERDUE: ("deadlines", "no deadline is overdue"),
}
"""The name of each kind's check, and its text where there is no problem."""
SHOWN = 3
LENGTH = 200


async def problem_checks(at: StoreAddress, timing: Timing, where: Where) -> list[Check]:
    """The checks on the problems of a store."""
    store = RedisStore(at.redis_url, namespace=at.namespace, store_id=at.store_id, cipher=at.cipher)
    try:
        found = await problems_of(store, timing, partial(command, where=where))
        now = await store.now()
    finally:
        await store.close()
    return checks(found, now)


def checks(found: Sequence[Problem], now: int) -> list[Check]:
    """A check for each kind of problem."""
    by_kind = {problem.kind: problem for problem in found}
    return [_check(kind, by_kind.get(kind), now) for kind in NAMES]


def _check(kind: Kind, problem: Problem | None, now: int) -> Check:
    name, fine = NAMES[kind]
    if problem is None:
        return ok(name, fine)
    named = "; ".join(
        one.name
        + (f" (for {span(now - one.since)})" if one.since is not None else "")
        + (f": {shorten(one.reason, LENGTH)}" if one.reason else "")
        for one in problem.which[:SHOWN]
    )
    count = "" if problem.count is None else f"{problem.count} "
    more = (problem.count or 0) - min(len(problem.which), SHOWN)
    said = f"{count}{problem.said}" + (f": {named}" if named else "") + (f"; and {more} more" if named and more > 0 else "")
    return fail(name, said, problem.fix)
