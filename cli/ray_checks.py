"""The checks of `holdfast doctor` on Ray. They join a running cluster, and start only a small task on each node."""

import asyncio
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from holdfast.actors.actor_settings import ActorSettings, StoreAddress, release_with
from holdfast.actors.build import build_of
from holdfast.conversation import AgentSpec
from holdfast.daemon import in_daemon
from holdfast.embedded.home import Home, installed_version, python_version
from holdfast.embedded.local_ray import running_ray
from holdfast.errors import AppNotPublished, ConfigurationError, HoldfastError, OlderRelease
from holdfast.persistence import Binding, opened
from holdfast.registry import cluster, doors, inventory, releases
from holdfast.registry.doors import Door, Knocked, Manner
from holdfast.registry.node_look import AppToImport, NodeLook
from holdfast.settings import Settings

from . import readiness
from .check import Check, Outcome, bounded, fail, ok, warn
from .display import span
from .headroom import RELIEVED
from .known_holes import release_check
from .operated import StoreStanding
from .redis_checks import CLOCK_MS, apart
from .redis_url import on_loopback

if TYPE_CHECKING:
    from holdfast.embedded.local_ray import RayAddress

ANSWER_S = 10.0
NAMED = 3
JOIN_S = 60.0
STORE_S = 15.0
DOORS_S = 30.0
NODES_S = 150.0
"""How many seconds the look at all nodes may take: `nodes.AT_ONCE` at once, `nodes.LOOK_S` each."""


async def ray_checks(
    settings: Settings, home: Home | None, store: StoreAddress | None, standing: StoreStanding, app: AppToImport | None = None
) -> list[Check]:
    """The checks of the settings' Ray, of the store's binding to it, and of the release that serves the store.

    Ray's ports are tried without a token even if this process cannot join the cluster.
    """
    embedded = running_ray(home) if home is not None and settings.ray_address is None else None
    address = settings.ray_address or (embedded.address if embedded is not None else None)
    mine = f"Ray {installed_version('ray')} on Python {python_version()}"
    if address is None:
        found = [ok("ray", f"the home's Ray does not run; the first client that needs it starts it ({mine})")]
        if standing.bound is not None:
            told = f"the cluster at {standing.bound.address} last looked after the store {span(standing.bound.age_ms)} ago"
            found.append(warn("binding", f"{told}: deadlines wait", "run: holdfast up"))
        return [*found, *_release(settings, standing.release)]
    checks = [release_check("ray version", "Ray", installed_version("ray"), fix=", here and on every node")]
    if embedded is not None:
        checks.append(_token(embedded))
        os.environ.update(embedded.env)
    joining = await bounded("ray", _join(address, mine, embedded=embedded is not None), within_s=JOIN_S)
    try:
        joined = cluster.current() if joining[0].status is Outcome.OK else None
    except HoldfastError:
        joined = None
    front = doors.gcs(joined.address if joined is not None else address)
    checks += await bounded("ray auth", _auth(front, joined=joined is not None), within_s=DOORS_S)
    if joined is None:
        return [*joining, *checks]
    checks += [_binding(joined, standing.bound), *_release(settings, standing.release)]
    if store is not None:
        actors = ActorSettings.of(settings, store, joined.cluster_id)
        checks += await bounded("sweeper", _sweeper(actors), within_s=3 * ANSWER_S)
        checks += await bounded("links", _links(actors), within_s=STORE_S)
        checks += await bounded("models", _models(actors), within_s=STORE_S + 3 * ANSWER_S)
    checks += await bounded("nodes", _nodes(store, app), within_s=NODES_S)
    return [*joining, *checks]


async def _join(address: str, mine: str, *, embedded: bool) -> list[Check]:
    try:
        joined = await in_daemon(cluster.join, address, embedded=embedded)
    except ConfigurationError as error:
        return [fail("ray", error.problem, error.fix)]
    except HoldfastError as error:
        fix = "start the cluster, or correct --ray-address (HOLDFAST_RAY_ADDRESS), versions or token"
        return [fail("ray", str(error), fix, unreachable=True)]
    return [ok("ray", f"{mine} at {joined.address}, the same there")]


async def _nodes(store: StoreAddress | None, app: AppToImport | None) -> list[Check]:
    from holdfast.registry.nodes import look_at_nodes  # noqa: PLC0415 - imports ray, once it was joined

    wrong: list[Check] = []
    if app is not None and store is not None:
        try:
            app = await app_of_workers(app, store)
        except AppNotPublished as error:
            said = f"{app.path} is imported nowhere: its record in the store was not signed by this cluster"
            app, wrong = None, [fail("node imports", said, error.fix)]
    looks, total = await look_at_nodes(store, app)
    return node_checks(looks, total, app=app.path if app is not None else None, with_store=store is not None) + wrong


def _token(embedded: "RayAddress") -> Check:
    mode = embedded.token_path.stat().st_mode & 0o077 if embedded.token_path.exists() else None
    if mode is None:
        return fail("ray token", f"the token {embedded.token_path} is gone", "run: holdfast down; the next start makes another")
    if mode:
        return fail("ray token", f"others may read {embedded.token_path}", f"run: chmod 600 {embedded.token_path}")
    return ok("ray token", f"{embedded.token_path} is this user's alone")


async def _auth(front: Door, *, joined: bool) -> list[Check]:
    """The checks of the cluster's ports, tried without a token; only a process that has joined knows all ports."""
    behind, readable = (await in_daemon(doors.doors), await in_daemon(doors.metrics)) if joined else ([], [])
    knocked = await doors.knock_all([front, *behind])
    untried = await in_daemon(doors.untried) if joined else 0
    seen = await doors.knock_all(readable)
    local = {one.door.address: await on_loopback(one.door.address.rpartition(":")[0]) for one in [*knocked, *seen]}
    return [auth(knocked, local, untried), *metrics(seen, local)]


def auth(knocked: Sequence[Knocked], local: Mapping[str, bool], untried: int = 0) -> Check:
    """The check of Ray's token, by the answers of ports that were tried without one.

    `local` tells for each address whether only this machine reaches it; no port of `untried` more nodes was tried.
    """
    more = f"; on {untried} more nodes none was tried" if untried else ""
    of = {manner: [one.door for one in knocked if one.manner is manner] for manner in Manner}
    fix = "start every node with RAY_AUTH_MODE=token and the same token, and set both here (RAY_AUTH_TOKEN)"
    if of[Manner.OPEN]:
        named = ", ".join(f"{door.what} ({door.address})" for door in of[Manner.OPEN][:NAMED])
        if all(local[door.address] for door in of[Manner.OPEN]):
            return warn("ray auth", f"answers without a token: {named}; everybody on this machine runs code as you{more}", fix)
        return fail("ray auth", f"answers without a token: {named}; whoever reaches it runs code as you{more}", fix)
    if of[Manner.UNCLEAR] or not of[Manner.REFUSED]:
        doubtful = of[Manner.UNCLEAR] or of[Manner.UNREACHED]
        named = ", ".join(f"{door.what} ({door.address})" for door in doubtful[:NAMED])
        return warn("ray auth", f"whether it asks for a token could not be told: {named}{more}", fix)
    unreached = f"; {len(of[Manner.UNREACHED])} are not reached from here" if of[Manner.UNREACHED] else ""
    return ok("ray auth", f"{len(of[Manner.REFUSED])} ports were tried without a token, and refused{unreached}{more}")


def metrics(knocked: Sequence[Knocked], local: Mapping[str, bool]) -> list[Check]:
    """The check of Ray's metrics, by the answers of ports that were tried without a token; none without metrics."""
    read = [one.door for one in knocked if one.manner is Manner.OPEN]
    if not knocked:
        return []
    beyond = [door for door in read if not local[door.address]]
    if beyond:
        named = ", ".join(door.address for door in beyond[:NAMED])
        said = f"anybody who gets there reads them: {named}"
        return [warn("ray metrics", said, "let only your monitoring reach these ports")]
    said = "only this machine reads them" if read else "nobody reads them without a token"
    return [ok("ray metrics", said)]


def _binding(joined: cluster.Cluster, bound: Binding | None) -> Check:
    if bound is None:
        return ok("binding", "the store is bound to no cluster yet; the next connect binds it")
    fresh = bound.age_ms < cluster.BINDING_STALE_MS
    if bound.cluster.partition("@")[0] != joined.cluster_id:
        which = f"the store is bound to another cluster ({bound.cluster[:12]}), at {bound.address}, which"
        if fresh:
            return fail("binding", f"{which} said so {span(bound.age_ms)} ago", "connect there, or stop it first")
        return warn("binding", f"{which} has been silent for {span(bound.age_ms)}", "run: holdfast up")
    if not fresh:
        return warn("binding", f"the cluster has not looked after the store for {span(bound.age_ms)}", "run: holdfast up")
    return ok("binding", "the store is bound to this cluster")


def _release(settings: Settings, serving: str | None) -> list[Check]:
    mine = release_with(settings.cipher_at)
    if serving is None:
        return []
    if releases.older(mine, serving):
        refused = OlderRelease(mine, serving)
        return [fail("release", refused.problem, refused.fix)]
    if serving != mine and build_of(serving) == build_of(mine):
        problem = f"{serving} serves the store, with another cipher than this shell names, and this is {mine}"
        return [warn("release", problem, "set HOLDFAST_CIPHER as the app's processes have it")]
    if serving != mine:
        return [warn("release", f"{serving} serves the store, and this is {mine}", "the next connect changes to this one")]
    return [ok("release", f"{mine} serves the store, as here")]


async def _sweeper(settings: ActorSettings) -> list[Check]:
    try:
        if await readiness.sweeper(settings, within_s=ANSWER_S):
            return [ok("sweeper", "the sweeper runs")]
    except HoldfastError as error:
        return [fail("sweeper", str(error), "read Ray's logs of it; run: holdfast up")]
    others = await in_daemon(readiness.other_sweepers, settings)
    if others:
        fix = "use that release here, or change to this one: holdfast up"
        return [warn("sweeper", f"it is of another release ({others[0]})", fix)]
    return [warn("sweeper", "there is no sweeper: no conversation is woken at its deadline", "run: holdfast up")]


async def _published(actors: ActorSettings) -> list[AgentSpec]:
    """The specs of all published agents; empty if the store cannot be read, whose error the checks of Redis name."""
    store = actors.store.opened()
    try:
        specs = [await store.spec(digest) for record in await store.apps() for digest in record.agents.values()]
    except HoldfastError:
        return []
    finally:
        await store.close()
    return [spec for spec in specs if spec is not None]


async def _links(actors: ActorSettings) -> list[Check]:
    """The check of the links in notices; empty if no published app declares any."""
    declared = {one.name for spec in await _published(actors) for one in spec.notify if one.decider is not None}
    return [link_check(sorted(declared), await readiness.signs(actors, within_s=ANSWER_S))] if declared else []


async def _models(actors: ActorSettings) -> list[Check]:
    """The check of the breakers in the workers; empty if no published agent declares one."""
    if not has_breakers(await _published(actors)):
        return []
    running = await in_daemon(inventory.processes, actors)
    return [model_check(await inventory.work_of(one for one in running if one.worker))]


def has_breakers(specs: Iterable[AgentSpec]) -> bool:
    """Whether an agent declares a breaker: of its own models, of one that a message may choose, or of one for summaries."""
    return any(model.breaker is not None for spec in specs for model in spec.askable)


def model_check(workers: Mapping[str, inventory.Work]) -> Check:
    """The check of models that workers pass over."""
    found = [(name, one) for name, work in sorted(workers.items()) for one in work.breakers]
    if not found:
        return ok("models", "no worker passes a model over")
    said = [f"{one['model']} in {name} ({one['state']}, for {one['for_s']:.0f} s yet)" for name, one in found]
    fix = "see why it fails: holdfast top, and the workers' log; where fallbacks are declared, they answer"
    return warn("models", f"workers pass models over: {_some(said)}", fix)


def link_check(targets: Sequence[str], public_url: str | None) -> Check:
    """The check of links in the messages of these targets, which begin with a URL; None if the sweeper has no keys."""
    named = ", ".join(targets)
    if public_url is None:
        said = f"messages of {named} are to have links, and no process that has the keys is connected"
        return warn("links", said, "set HOLDFAST_LINK_KEYS and HOLDFAST_PUBLIC_URL where `holdfast serve` runs")
    if public_url == Settings.model_fields["public_url"].default:
        said = f"the links in messages of {named} lead to {public_url}, which is this machine for each reader"
        return warn("links", said, "set HOLDFAST_PUBLIC_URL where `holdfast serve` runs")
    return ok("links", f"the links in messages of {named} lead to {public_url}")


async def app_of_workers(here: AppToImport, where: StoreAddress) -> AppToImport:
    """How workers import the app, by its published record; `AppNotPublished` if this cluster has not signed the record.

    To be called after Ray was joined.
    """
    from holdfast.actors.ray_launcher import RayLauncher  # noqa: PLC0415 - imports ray
    from holdfast.actors.signature import vouched  # noqa: PLC0415 - only where it is needed
    from holdfast.actors.vault import Vault  # noqa: PLC0415 - imports ray

    store = opened(where.redis_url, namespace=where.namespace, store_id=where.store_id)
    try:
        async with asyncio.timeout(STORE_S):
            record = await store.app(here.path)
    except (HoldfastError, TimeoutError):
        return here  # the checks of Redis name the error
    finally:
        await store.close()
    if record is None:
        return here
    if not vouched(await RayLauncher(Vault(where)).key(), where, here.path, record):
        raise AppNotPublished(here.path)
    return replace(here, python_path=record.python_path, main_file=record.main_file)


def node_checks(looks: Sequence[NodeLook], total: int, *, app: str | None, with_store: bool) -> list[Check]:
    """The checks of the nodes: whether they run a task, keep up, reach Redis, keep time, import the app."""
    checks = [_running(looks, total)]
    answered = [look for look in looks if look.failed is None]
    heavy = [f"{look.node}: {look.load}" for look in answered if look.load is not None and look.load.is_too_much]
    if heavy:
        checks.append(warn("node load", f"{len(heavy)} of {len(answered)} nodes are overloaded: {_some(heavy)}", RELIEVED))
    if with_store and answered:
        fix = "open the way from there to Redis, or correct its address"
        checks += [_all(answered, "node redis", "reach Redis", lambda look: look.store, fix), _clocks(answered)]
    if app is not None and answered:
        fix = f"install {app.partition(':')[0]} and what it needs on these nodes, as on the others"
        checks.append(_all(answered, "node imports", f"import {app}", lambda look: look.app, fix))
    return checks


def _running(looks: Sequence[NodeLook], total: int) -> Check:
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


def _clocks(looks: Sequence[NodeLook]) -> Check:
    known = [(look.node, look.ahead_ms, look.uncertain_ms) for look in looks if look.ahead_ms is not None]
    wrong = [f"{node} is {apart(ahead)} it" for node, ahead, uncertain in known if abs(ahead) - uncertain > CLOCK_MS]
    if wrong:
        said = f"{len(wrong)} of {len(known)} do not go with Redis's: {_some(wrong)}"
        return warn("node clocks", said, "have all keep time by NTP")
    furthest = max((abs(ahead) for _, ahead, _ in known), default=0)
    return ok("node clocks", f"{len(known)} are within {furthest} ms of Redis's")


def _some(said: Sequence[str]) -> str:
    return "; ".join(said[:NAMED]) + (f"; and {len(said) - NAMED} more" if len(said) > NAMED else "")
