"""What `holdfast doctor` asks of Ray. It joins a cluster that runs, and starts nothing."""

import asyncio
import os
from typing import TYPE_CHECKING

from holdfast.actors.settings import ActorSettings, StoreAddress
from holdfast.conversation import ConfigurationError, HoldfastError
from holdfast.persistence.home import Home, installed_version, python_version
from holdfast.registry import Settings, cluster
from holdfast.registry.embedded import running_ray

from . import fleet
from .binding import Binding
from .check import Check, fail, ok, warn
from .display import span

if TYPE_CHECKING:
    from holdfast.registry.embedded import RayAddress

ANSWER_S = 10.0


async def ray_checks(settings: Settings, home: Home | None, store: StoreAddress | None, bound: Binding | None) -> list[Check]:
    """How the Ray of the settings is, and whether the store is bound to it."""
    embedded = running_ray(home) if home is not None and settings.ray_address is None else None
    address = settings.ray_address or (embedded.address if embedded is not None else None)
    mine = f"Ray {installed_version('ray')} on Python {python_version()}"
    if address is None:
        return [ok("ray", f"the home's does not run; whatever needs it starts it ({mine})"), *_unbound(bound)]
    checks = [_token(embedded) if embedded is not None else _auth()]
    if embedded is not None:
        os.environ.update(embedded.env)
    try:
        joined = await asyncio.to_thread(cluster.join, address, embedded=embedded is not None)
    except ConfigurationError as error:
        return [fail("ray", error.problem, error.fix), *checks]
    except HoldfastError as error:
        fix = "start the cluster, or correct --ray-address (HOLDFAST_RAY_ADDRESS), versions or token"
        return [fail("ray", str(error), fix, unreachable=True), *checks]
    checks.insert(0, ok("ray", f"{mine} at {joined.address}, the same there"))
    checks.append(_binding(joined, bound))
    if store is not None:
        checks.append(await _sweeper(ActorSettings(store=store, timing=settings.timing, fleet=settings.fleet)))
    return checks


def _token(embedded: "RayAddress") -> Check:
    mode = embedded.token_path.stat().st_mode & 0o077 if embedded.token_path.exists() else None
    if mode is None:
        return fail("ray auth", f"the token {embedded.token_path} is gone", "run: holdfast down; the next start makes another")
    if mode:
        return fail("ray auth", f"others may read {embedded.token_path}", f"run: chmod 600 {embedded.token_path}")
    return ok("ray auth", "by token, on loopback only")


def _auth() -> Check:
    if os.environ.get("RAY_AUTH_MODE") == "token":
        return ok("ray auth", "by token")
    problem = "RAY_AUTH_MODE is not token: whoever reaches the cluster's ports runs code as you"
    return warn("ray auth", problem, "start the cluster with RAY_AUTH_MODE=token, and set it and RAY_AUTH_TOKEN here")


def _binding(joined: cluster.Cluster, bound: Binding | None) -> Check:
    if bound is None:
        return ok("binding", "the store is bound to no cluster yet; the next connect binds it")
    fresh = bound.age_ms < cluster.BINDING_STALE_MS
    if bound.cluster != joined.cluster_id:
        if fresh or (bound.address != joined.address and cluster.answers(bound.address)):
            return fail(
                "binding", f"the store is bound to another cluster, at {bound.address}", "connect there, or stop it first"
            )
        return warn("binding", f"the store is bound to a cluster that is gone ({bound.address})", "run: holdfast up")
    if not fresh:
        return warn("binding", f"the cluster has not looked after the store for {span(bound.age_ms)}", "run: holdfast up")
    return ok("binding", "the store is bound to this cluster")


def _unbound(bound: Binding | None) -> list[Check]:
    if bound is None:
        return []
    problem = f"the cluster at {bound.address} last looked after the store {span(bound.age_ms)} ago: deadlines wait"
    return [warn("binding", problem, "run: holdfast up")]


async def _sweeper(settings: ActorSettings) -> Check:
    try:
        if await fleet.sweeper(settings, within_s=ANSWER_S):
            return ok("sweeper", "it ticks")
    except HoldfastError as error:
        return fail("sweeper", str(error), "read Ray's logs of it; run: holdfast up")
    others = await asyncio.to_thread(fleet.other_sweepers, settings)
    if others:
        return warn(
            "sweeper", f"it is of another release ({others[0]})", "use that release here, or change to this one: holdfast up"
        )
    return warn("sweeper", "there is none: nobody wakes what is due", "run: holdfast up")
