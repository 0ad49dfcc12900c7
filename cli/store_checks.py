"""The checks of `holdfast doctor` on a store: its cipher, pauses, size and problems, and the workers' reports on the app."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from functools import partial

from holdfast.actors.actor_settings import StoreAddress
from holdfast.client.problems import Kind, Problem, problems_of
from holdfast.daemon import in_daemon
from holdfast.errors import CipherFailed, HoldfastError
from holdfast.persistence import opened
from holdfast.persistence.keys import Keys
from holdfast.persistence.redis_connection import client, translated
from holdfast.settings import Settings

from . import headroom
from .check import Check, fail, ok, warn
from .display import shorten, span
from .hints import command, paused
from .options import Where, words_of

NAMES = {
    Kind.APP: ("apps", "no worker has reported a problem with an app"),
    Kind.LOST_RUN: ("lost runs", "no lost run waits for a person"),
    Kind.QUARANTINE: ("quarantine", "no conversation is in quarantine"),
    Kind.TROUBLE: ("conversations", "every conversation that needs attention can be taken up"),
    Kind.HUNG_ACTOR: ("hung actors", "no actor hangs"),
    Kind.GRANT: ("grants", "all who gave a standing grant by an API key may still decide"),
    Kind.UNDELIVERED: ("outbox", "nothing that is owed was set aside, or waits for long"),
    Kind.OVERDUE: ("deadlines", "no deadline is overdue"),
}
"""The name of each kind's check, and its text without a problem."""
SHOWN = 3
LENGTH = 200


class Looked:
    """The subject of the checks: a store whose id is known, the settings, and the options that led to it."""

    def __init__(self, address: StoreAddress, settings: Settings, where: Where) -> None:
        self.address, self.settings, self.where = address, settings, where
        url, namespace, store_id = address.redis_url, address.namespace, address.store_id
        self.store = opened(url, namespace=namespace, store_id=store_id, cipher=address.cipher)

    async def aclose(self) -> None:
        """Close the store."""
        await self.store.close()


async def cipher_checks(at: Looked) -> list[Check]:
    """The check whether this shell has a working cipher that the store needs; empty without encryption."""
    try:
        encrypted = await at.store.encrypted()
        await in_daemon(at.store.payloads.check)
    except CipherFailed as error:
        return [fail("cipher", str(error), "correct it, or its keys in the environment")]
    except HoldfastError:
        return []  # the checks of Redis name the error
    cipher = at.address.cipher
    if cipher is None:
        problem = "payloads are encrypted, and this shell names no cipher"
        return [fail("cipher", problem, "set HOLDFAST_CIPHER as the app's processes have it")] if encrypted else []
    if not encrypted:
        return [ok("cipher", f"{cipher.path} works here; the next connect begins to encrypt payloads with it")]
    return [ok("cipher", f"payloads are encrypted, and {cipher.path} works here")]


async def pause_checks(at: Looked) -> list[Check]:
    """The checks of the current pauses."""
    try:
        standing = await at.store.paused()
    except HoldfastError as error:
        problem = f"nothing new begins, since the pauses cannot be read: {error}"
        return [fail("paused", problem, f"correct or delete the key {Keys(at.store.namespace).meta('pauses')}")]
    found = []
    for pause in standing.pauses:
        lift = command(["unpause", *words_of({"--agent": pause.agent})], at.where)
        found.append(warn("paused", paused(pause, standing.now), f"once it may go on, run: {lift}"))
    return found or [ok("paused", "no new work is paused")]


async def stored_checks(at: Looked) -> list[Check]:
    """The check of the stored amount and its growth per day."""
    async with aclosing(client(at.store.url, lambda: None)) as redis, translated():
        info = await redis.info("memory")
    return [headroom.stored(info, await at.store.census(since=await at.store.now() - headroom.DAY_MS))]


async def problem_checks(at: Looked) -> list[Check]:
    """A check for each kind of problem, including those without any."""
    found = await problems_of(at.store, at.settings.timing, partial(command, where=at.where))
    return checks(found, await at.store.now())


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
    noun, _, rest = problem.said.partition(" ")
    count = "" if problem.count is None else f"{problem.count} "
    noun = noun.removesuffix("s") if problem.count == 1 else noun
    more = (problem.count or 0) - min(len(problem.which), SHOWN)
    said = f"{count}{noun} {rest}" + (f": {named}" if named else "") + (f"; and {more} more" if named and more > 0 else "")
    return fail(name, said, problem.fix)


async def worker_checks(at: Looked) -> list[Check]:
    """The check whether the app's workers can run it, by their reported problem; empty without an app."""
    path = at.settings.app
    if path is None:
        return []
    problem, known = await at.store.problem(path), await at.store.app(path) is not None
    if problem is not None:
        return [fail("workers", f"they cannot run {path}: {problem}", f"correct the app, then run: holdfast up --app {path}")]
    return [ok("workers", "no worker has reported a problem with it" if known else "the app was never published to this store")]


async def list_checks(at: Looked) -> list[Check]:
    """The check whether an older release has left lists that this one has to complete."""
    if await at.store.indexed():
        return [ok("lists", "every list holds all that belongs in it")]
    problem = "an older release has written some lists: until they are complete, no call is found by its suspension alone"
    again = command(["reindex"], at.where)
    return [warn("lists", problem, f"once no process of that release is left, run: {again}")]


LOOKS: Mapping[str, Callable[[Looked], Awaitable[Sequence[Check]]]] = {
    "cipher": cipher_checks,
    "paused": pause_checks,
    "lists": list_checks,
    "stored": stored_checks,
    "conversations": problem_checks,
}
"""The looks at a store, in order, without `worker_checks`; each with the check's name for a failed look."""
