"""The checks of `holdfast doctor` on the nodes of a cluster."""

from collections.abc import Callable, Sequence

from holdfast.registry.node_look import NodeLook

from .check import Check, fail, ok, warn
from .headroom import RELIEVED

CLOCK_MS = 2_000
"""The tolerated difference between a clock and Redis's, in milliseconds."""
NAMED = 3


def clock(ahead_ms: int, uncertain_ms: int) -> Check:
    """The check of this machine's clock, by how far it is ahead of Redis's."""
    if abs(ahead_ms) - uncertain_ms <= CLOCK_MS:
        return ok("clock", f"this machine's is {_apart(ahead_ms)} Redis's")
    said = f"this machine's is {_apart(ahead_ms)} Redis's, by which every deadline goes"
    return warn("clock", said, "have both keep time by NTP")


def node_checks(looks: Sequence[NodeLook], total: int, *, app: str | None, with_store: bool) -> list[Check]:
    """The checks of the nodes: whether they run a task, keep up, reach Redis, keep time, import the app."""
    checks = [_nodes(looks, total)]
    answered = [look for look in looks if look.failed is None]
    checks += _loads(answered)
    if with_store and answered:
        fix = "open the way from there to Redis, or correct its address"
        checks += [_all(answered, "node redis", "reach Redis", lambda look: look.store, fix), _clocks(answered)]
    if app is not None and answered:
        fix = f"install {app.partition(':')[0]} and what it needs on these nodes, as on the others"
        checks.append(_all(answered, "node imports", f"import {app}", lambda look: look.app, fix))
    return checks


def _nodes(looks: Sequence[NodeLook], total: int) -> Check:
    failed = [f"{look.node}: {look.failed}" for look in looks if look.failed is not None]
    others = f"; {total - len(looks)} more were not looked at" if total > len(looks) else ""
    if failed:
        said = f"{len(failed)} of {len(looks)} do not run a task: {_some(failed)}{others}"
        return fail("nodes", said, "repair these nodes, or take them out of the cluster")
    return ok("nodes", f"{len(looks)} nodes run tasks{others}")


def _all(looks: Sequence[NodeLook], name: str, what: str, problem: Callable[[NodeLook], str | None], fix: str) -> Check:
    wrong = [f"{look.node}: {problem(look)}" for look in looks if problem(look) is not None]
    if wrong:
        return fail(name, f"{len(wrong)} of {len(looks)} nodes cannot {what}: {_some(wrong)}", fix)
    return ok(name, f"{len(looks)} of {len(looks)} nodes {what}")


def _loads(looks: Sequence[NodeLook]) -> list[Check]:
    heavy = [f"{look.node}: {look.load}" for look in looks if look.load is not None and look.load.is_too_much]
    return [warn("node load", f"{len(heavy)} of {len(looks)} nodes are overloaded: {_some(heavy)}", RELIEVED)] if heavy else []


def _clocks(looks: Sequence[NodeLook]) -> Check:
    known = [(look.node, look.ahead_ms, look.uncertain_ms) for look in looks if look.ahead_ms is not None]
    wrong = [f"{node} is {_apart(ahead)} it" for node, ahead, uncertain in known if abs(ahead) - uncertain > CLOCK_MS]
    if wrong:
        said = f"{len(wrong)} of {len(known)} do not go with Redis's: {_some(wrong)}"
        return warn("node clocks", said, "have all keep time by NTP")
    furthest = max((abs(ahead) for _, ahead, _ in known), default=0)
    return ok("node clocks", f"{len(known)} are within {furthest} ms of Redis's")


def _apart(ahead_ms: int) -> str:
    return f"{abs(ahead_ms) / 1000:.1f} s {'ahead of' if ahead_ms >= 0 else 'behind'}"


def _some(said: Sequence[str]) -> str:
    return "; ".join(said[:NAMED]) + (f"; and {len(said) - NAMED} more" if len(said) > NAMED else "")
