"""`holdfast doctor`: whether the setup keeps what it promises, and what to do where it does not."""

import asyncio
import sys
from dataclasses import asdict

from holdfast.actors.settings import StoreAddress
from holdfast.conversation import CorruptStore, HoldfastError
from holdfast.persistence.embedded import running_redis
from holdfast.persistence.home import Home
from holdfast.persistence.keys import Keys
from holdfast.registry import Settings

from .app_checks import import_check, worker_checks
from .binding import Standing, standing_of
from .check import Check, Outcome, fail, ok
from .cipher_checks import cipher_checks
from .conversation_checks import conversation_checks
from .display import clean, console, to_json
from .errors import ExitCode
from .home_checks import home_checks, server_check
from .options import AsJson, Where
from .ray_checks import ray_checks
from .redis_checks import redis_checks

_STYLES = {Outcome.OK: "green", Outcome.WARN: "yellow", Outcome.FAIL: "bold red"}


def run(where: Where, *, as_json: AsJson = False) -> int:
    """Check Redis, Ray, the home, the conversations and the app, and say the fix of what is wrong. It changes nothing.

    Exit code: 0 unless something fails; 4 if something does not answer, else 1.
    """
    checks = asyncio.run(_examine(where.settings()))
    if as_json:
        sys.stdout.write(to_json({"checks": [asdict(check) for check in checks]}, indent=2) + "\n")
    else:
        _draw(checks)
    failed = [check for check in checks if check.outcome is Outcome.FAIL]
    if any(check.unreachable for check in failed):
        return ExitCode.UNREACHABLE
    return ExitCode.FAILED if failed else ExitCode.DONE


async def _examine(settings: Settings) -> list[Check]:
    checks: list[Check] = []
    home: Home | None = None
    if settings.redis_url is None or settings.ray_address is None:
        home, checks = home_checks(settings)
    url = settings.redis_url
    if url is None:
        checks.append(server_check())
        url = running_redis(home) if home is not None else None
    store: StoreAddress | None = None
    standing = Standing()
    if url is not None:
        checks += await redis_checks(url, settings.namespace)
        standing, wrong = await _standing(url, settings.namespace)
        checks += wrong
        if standing.store_id is not None:
            store = StoreAddress(
                redis_url=url, namespace=settings.namespace, store_id=standing.store_id, cipher=settings.cipher_at
            )
            checks += await cipher_checks(store)
            checks += await conversation_checks(store)
    else:
        checks.append(ok("redis", "the home's does not run; whatever needs it starts it"))
    checks += await ray_checks(settings, home, store, standing)
    if settings.app is None:
        checks.append(ok("app", "none is named (--app or HOLDFAST_APP); only start and submit need one"))
        return checks
    checks.append(import_check(settings.app))
    return checks + (await worker_checks(settings.app, store) if store is not None else [])


async def _standing(url: str, namespace: str) -> tuple[Standing, list[Check]]:
    """What leads to the store's actors, the cluster that it is bound to, and what is wrong with that."""
    try:
        return await standing_of(url, namespace), []
    except CorruptStore as error:
        key = Keys(namespace).meta("cluster")
        return Standing(), [fail("binding", str(error), f"stop all clusters of this store, and delete the key {key}")]
    except HoldfastError:
        return Standing(), []  # said of Redis already


def _draw(checks: list[Check]) -> None:
    from rich.text import Text  # noqa: PLC0415 - `--json` does without

    screen = console()
    for check in checks:
        mark = (f"{check.outcome:4}", _STYLES[check.outcome])
        screen.print(Text.assemble(mark, f"  {check.name:12}  {clean(check.detail)}"), soft_wrap=True)
        if check.fix is not None:
            screen.print(f"      {'':12}  -> {clean(check.fix)}", soft_wrap=True)
