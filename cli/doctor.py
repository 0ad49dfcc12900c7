"""`holdfast doctor`: checks of the setup, and a fix for each problem."""

import asyncio
import os
import sys
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack, aclosing
from dataclasses import asdict, replace

from holdfast.actors.actor_settings import StoreAddress
from holdfast.embedded.home import Home
from holdfast.embedded.local_redis import running_redis
from holdfast.errors import HoldfastError
from holdfast.machine_load import machine_load
from holdfast.persistence.keys import Keys
from holdfast.redaction import Redaction
from holdfast.settings import Settings

from . import headroom
from .app_checks import app_here, import_check
from .binding import StoreStanding, readable_store_standing
from .check import Check, Outcome, bounded, fail, failed, ok
from .display import clean, console, to_json
from .errors import ExitCode
from .home_checks import home_checks, server_check
from .options import AsJson, Where
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


def run(where: Where, *, as_json: AsJson = False) -> int:
    """Check Redis, Ray, the home, the conversations and the app, and print a fix for each problem. Nothing is changed.

    With an app, each node imports it in a process of its own, which ends afterwards. Each problem of `holdfast problems` is a
    failed check here too. Exit code: 0 if no check fails; 4 if one fails because a server does not answer, else 1.
    """
    settings = where.settings()
    secrets = Redaction.of_process(os.environ, urls=[settings.redis_url or ""])
    checks = [_presentable(check, secrets) for check in asyncio.run(_examine(settings, where))]
    if as_json:
        sys.stdout.write(to_json(as_dict(checks, at=round(time.time() * 1000)), indent=2) + "\n")
    else:
        _draw(checks)
    failed = [check for check in checks if check.status is Outcome.FAIL]
    if any(check.unreachable for check in failed):
        return ExitCode.UNREACHABLE
    return ExitCode.FAILED if failed else ExitCode.DONE


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
            standing, wrong = await readable_store_standing(url, namespace)
    except (HoldfastError, TimeoutError):
        return StoreStanding(), []  # the checks of Redis name the error
    except Exception as error:  # noqa: BLE001 - it must not hide another check
        return StoreStanding(), [failed("binding", error)]
    cluster, release = Keys(namespace).meta("cluster"), Keys(namespace).meta("release")
    fixes = {
        cluster: ("binding", f"stop all clusters of this store, and delete the key {cluster}"),
        release: ("release", f"stop all clusters of this store, and delete the key {release}"),
    }  # an error of the store's id is named by the checks of Redis
    return standing, [fail(fixes[key][0], str(error), fixes[key][1]) for key, error in wrong.items() if key in fixes]


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
