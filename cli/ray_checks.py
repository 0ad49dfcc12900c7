"""What `holdfast doctor` asks of Ray. It joins a cluster that runs, and starts nothing."""

import asyncio
import os
from typing import TYPE_CHECKING

from holdfast.actors.settings import ActorSettings, StoreAddress, release_with
from holdfast.conversation import ConfigurationError, HoldfastError, OlderRelease
from holdfast.persistence import Binding
from holdfast.persistence.home import Home, installed_version, python_version
from holdfast.registry import Settings, cluster, releases
from holdfast.registry.embedded import running_ray

from . import fleet
from .binding import Standing
from .check import Check, fail, ok, warn
from .display import span

if TYPE_CHECKING:
    from holdfast.registry.embedded import RayAddress

ANSWER_S = 10.0


async def ray_checks(settings: Settings, home: Home | None, store: StoreAddress | None, standing: Standing) -> list[Check]:
    """How the Ray of the settings is, whether the store is bound to it, and whether this release may serve it."""
    embedded = running_ray(home) if home is not None and settings.ray_address is None else None
    address = settings.ray_address or (embedded.address if embedded is not None else None)
    mine = f"Ray {installed_version('ray')} on Python {python_version()}"
    if address is None:
        return [
            ok("ray", f"the home's does not run; whatever needs it starts it ({mine})"),
            *_unbound(standing.bound),
            *_release(settings, standing.release),
        ]
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
    checks += [_binding(joined, standing.bound), *_release(settings, standing.release)]
    if store is not None:
        actors = ActorSettings(
            store=store,
            timing=settings.timing,
            fleet=settings.fleet,
            release=release_with(settings.cipher_at),
            cluster=joined.cluster_id,
        )
        checks.append(await _sweeper(actors))
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
    if bound.cluster.partition("@")[0] != joined.cluster_id:
        which = f"another cluster ({bound.cluster[:12]}), at {bound.address}"
        if fresh:
            said = f"the store is bound to {which}, which said so {span(bound.age_ms)} ago"
            return fail("binding", said, "connect there, or stop it first")
        return warn(
            "binding", f"the store is bound to {which}, which has been silent for {span(bound.age_ms)}", "run: holdfast up"
        )
    if not fresh:
        return warn("binding", f"the cluster has not looked after the store for {span(bound.age_ms)}", "run: holdfast up")
    return ok("binding", "the store is bound to this cluster")


def _unbound(bound: Binding | None) -> list[Check]:
    if bound is None:
        return []
    problem = f"the cluster at {bound.address} last looked after the store {span(bound.age_ms)} ago: deadlines wait"
    return [warn("binding", problem, "run: holdfast up")]


def _release(settings: Settings, serving: str | None) -> list[Check]:
    mine = release_with(settings.cipher_at)
    if serving is None:
        return []
    if releases.older(mine, serving):
        refused = OlderRelease(mine, serving)
        return [fail("release", refused.problem, refused.fix)]
    if serving != mine:
        return [warn("release", f"{serving} serves the store, and this is {mine}", "the next connect changes to this one")]
    return [ok("release", f"{mine} serves the store, as here")]


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
