"""The checks of `holdfast doctor` on the app."""

import asyncio
import os
from dataclasses import replace

from holdfast.actors.actor_settings import StoreAddress
from holdfast.agent import load, main_file, python_path
from holdfast.daemon import in_daemon
from holdfast.errors import AppNotPublished, HoldfastError, InvalidInput
from holdfast.persistence import opened
from holdfast.registry.node_look import AppToImport

from .check import Check, fail, ok

STORE_S = 15.0


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


async def app_of_workers(here: AppToImport, where: StoreAddress) -> AppToImport:
    """How workers import the app, by its published record. To be called after Ray was joined.

    Raises:
        AppNotPublished: The store's record of the app was not signed by this cluster, so no process may import from its paths.
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
