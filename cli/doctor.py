"""`holdfast doctor`: checks of the setup, and a fix for each problem."""

import asyncio
import os
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack, aclosing
from dataclasses import asdict, replace
from functools import partial

from holdfast.actors.actor_settings import StoreAddress
from holdfast.agent import load, main_file, python_path
from holdfast.daemon import in_daemon
from holdfast.embedded.home import Home, installed_version, python_version
from holdfast.embedded.local_redis import running_redis
from holdfast.embedded.server_binary import server_for
from holdfast.errors import HoldfastError, InvalidInput
from holdfast.machine_load import machine_load
from holdfast.persistence.keys import Keys
from holdfast.redaction import Redaction
from holdfast.registry.node_look import AppToImport
from holdfast.settings import Settings

from . import headroom
from .check import Check, Outcome, bounded, fail, failed, ok, warn
from .display import Said, clean, console
from .errors import ExitCode
from .operated import StoreStanding, store_standing
from .options import Where
from .ray_checks import ray_checks
from .redis_checks import redis_checks
from .redis_doors import door_checks
from .redis_url import to_copy
from .store_checks import LOOKS, Looked, worker_checks

SCHEMA = 1
"""The version of the `--json` output. Later releases may add checks and fields under the same number."""
REDIS_S = 30.0
"""The most seconds of each look at Redis, beyond the driver's own timeout for each answer."""
IMPORT_S = 60.0
RAY_S = 300.0
_STYLES = {Outcome.OK: "green", Outcome.WARN: "yellow", Outcome.FAIL: "bold red"}


def run(where: Where) -> Said:
    """Check Redis, Ray, the home, the conversations and the app, and print a fix for each problem. Nothing is changed.

    With an app, each node imports it in a process of its own, which ends afterwards. Each problem of `holdfast problems` is a
    failed check here too. Exit code: 0 if no check fails; 4 if one fails because a server does not answer, else 1.
    """
    settings = where.settings()
    secrets = Redaction.of_process(os.environ, urls=[settings.redis_url or ""])
    checks = [_presentable(check, secrets) for check in asyncio.run(_examine(settings, where))]
    failed = [check.unreachable for check in checks if check.status is Outcome.FAIL]
    code = ExitCode.UNREACHABLE if any(failed) else ExitCode.FAILED if failed else ExitCode.DONE
    return Said(as_dict(checks, at=round(time.time() * 1000)), partial(_draw, checks), code=code)


def as_dict(checks: Sequence[Check], *, at: int) -> dict[str, object]:
    """The output for monitoring: the worst status of all checks, and each check with its own."""
    statuses = {check.status for check in checks}
    worst = next((status for status in (Outcome.FAIL, Outcome.WARN) if status in statuses), Outcome.OK)
    return {"schema": SCHEMA, "status": worst, "at": at, "checks": [asdict(check) for check in checks]}


async def _examine(settings: Settings, where: Where) -> list[Check]:
    checks: list[Check] = [headroom.load(machine_load())]
    home: Home | None = None
    if settings.redis_url is None or settings.ray_address is None:
        home, found = home_checks(settings)
        checks += found
    url = settings.redis_url
    if home is not None:
        checks.append(headroom.disk("home disk", home.path))
        if url is None:
            checks.append(server_check(home))
            url = running_redis(home)
    async with AsyncExitStack() as stack:
        at: Looked | None = None
        standing = StoreStanding()
        if url is None:
            checks.append(ok("redis", "the home's Redis does not run; the first client that needs it starts it"))
        else:
            found = await bounded("redis", redis_checks(url, settings.namespace), within_s=REDIS_S)
            checks += found
            if not found[0].unreachable:  # else each look would wait for Redis again
                checks += await bounded("redis auth", door_checks(url, settings.namespace), within_s=REDIS_S)
                standing, wrong = await _standing(url, settings.namespace)
                checks += wrong
            if standing.store_id is not None:
                place = StoreAddress(url, settings.namespace, standing.store_id, cipher=settings.cipher_at)
                at = await stack.enter_async_context(aclosing(Looked(place, settings, where)))
                for name, look in LOOKS.items():
                    checks += await bounded(name, look(at), within_s=REDIS_S)
        imported = await bounded("app", import_check(settings.app), within_s=IMPORT_S)
        # An app that does not import here would not import there either, and perhaps hang once more.
        app = await app_here(settings.app) if imported[0].status is Outcome.OK else None
        checks += await bounded(
            "ray", ray_checks(settings, home, None if at is None else at.address, standing, app), within_s=RAY_S
        )
        checks += imported
        if at is not None:
            checks += await bounded("workers", worker_checks(at), within_s=REDIS_S)
        return checks


async def _standing(url: str, namespace: str) -> tuple[StoreStanding, list[Check]]:
    """The store's id, binding and release, and failed checks for an unreadable binding or release."""
    try:
        async with asyncio.timeout(REDIS_S):
            standing = await store_standing(url, namespace)
    except (HoldfastError, TimeoutError):
        return StoreStanding(), []  # the checks of Redis name the error
    except Exception as error:  # noqa: BLE001 - it must not hide another check
        return StoreStanding(), [failed("binding", error)]
    names = {Keys(namespace).meta("cluster"): "binding", Keys(namespace).meta("release"): "release"}
    fix = "stop all clusters of this store, and delete the key"  # an error of the store's id is named by the checks of Redis
    wrong = [(key, error) for key, error in standing.wrong.items() if key in names]
    return standing, [fail(names[key], str(error), f"{fix} {key}") for key, error in wrong]


def _presentable(check: Check, secrets: Redaction) -> Check:
    """The check without secrets: it goes to logs and to monitoring."""
    return replace(check, said=secrets.redacted(check.said), fix=to_copy(check.fix, secrets) if check.fix is not None else None)


def _draw(checks: list[Check]) -> None:
    from rich.text import Text  # noqa: PLC0415 - `--json` does without

    screen = console()
    for check in checks:
        mark = (f"{check.status:4}", _STYLES[check.status])
        screen.print(Text.assemble(mark, f"  {check.name:13}  {clean(check.said)}"), soft_wrap=True)
        if check.fix is not None:
            screen.print(f"      {'':13}  -> {clean(check.fix)}", soft_wrap=True)


def home_checks(settings: Settings) -> tuple[Home | None, list[Check]]:
    """The home, None if it cannot be used, and its checks."""
    try:
        home = Home.open(settings.home)
        home.socket("redis.sock")
        record = home.record()
    except InvalidInput as error:
        return None, [fail("home", f"{error.field}: {error.problem}", error.fix)]
    if record is None:
        return home, [ok("home", f"{home.path}: nothing was ever started in it")]
    mine = (installed_version("holdfast"), installed_version("ray"), python_version())
    theirs = (record.holdfast_version, record.ray_version, record.python_version)
    said = f"{home.path}: data of {record.server} {record.server_version}"
    if mine == theirs:
        return home, [ok("home", said)]
    them, me = (f"Holdfast {found[0]}, Ray {found[1]}, Python {found[2]}" for found in (theirs, mine))
    fix = "run holdfast down before the first start with other versions; the data stays"
    return home, [warn("home", f"{said}, last started by {them}; this is {me}", fix)]


def server_check(home: Home) -> Check:
    """The check of the Redis server that would be started in the home."""
    try:
        binary, version = server_for(home)
        return ok("redis server", f"{version.name} {version.text} ({binary})")
    except InvalidInput as error:
        return fail("redis server", error.problem, error.fix)


async def import_check(path: str | None) -> list[Check]:
    """The check whether the app imports in this process."""
    if path is None:
        return [ok("app", "none is named (--app or HOLDFAST_APP); only start and submit need one")]
    try:
        app = await in_daemon(load, path)
    except InvalidInput as error:
        return [fail("app", f"{path}: {error.field}: {error.problem}", error.fix)]
    agents = ", ".join(f"{agent.name} ({len(agent.tools)} tools)" for agent in app.agents)
    return [ok("app", f"{path}: {agents or 'no agents'}")]


async def app_here(path: str | None) -> AppToImport | None:
    """How this process imports the app, with the variables that the app names; None if that fails."""
    if path is None:
        return None
    try:
        app = await in_daemon(load, path)
        return AppToImport(path, tuple(python_path()), main_file(path), app.environment(os.environ))
    except Exception:  # noqa: BLE001 - importing runs the app's code; `import_check` names the error
        return None
