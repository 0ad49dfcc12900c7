"""What `holdfast doctor` looks at in the app."""

import asyncio
import os
from dataclasses import replace

from holdfast.actors.actor_settings import StoreAddress
from holdfast.agent import load, main_file, python_path
from holdfast.daemon import in_daemon
from holdfast.errors import AppNotPublished, HoldfastError, InvalidInput
from holdfast.persistence import RedisStore
from holdfast.registry.node_look import AppToImport

from .check import Check, fail, ok

STORE_S = 15.0


async def import_check(path: str | None) -> list[Check]:
    """Whether the app imports here."""
    if path is None:
        return [ok("app", "none is named (--app or HOLDFAST_APP); only start and submit need one")]
    try:
        app = await in_daemon(load, path)
    except InvalidInput as error:
        return [fail("app", f"{path}: {error.field}: {error.problem}", error.fix)]
    agents = ", ".join(f"{agent.name} ({len(agent.tools)} tools)" for agent in app.agents)
    return [ok("app", f"{path}: {agents or 'no agents'}")]


async def app_here(path: str | None) -> AppToImport | None:
    """How this process imports the app, with the variables that the app names; None where that fails."""
    if path is None:
        return None
    try:
        app = await in_daemon(load, path)
        return AppToImport(path, tuple(python_path()), main_file(path), app.environment(os.environ))
    except Exception:  # noqa: BLE001 - importing runs the app's code; what it raised is said already
        return None


async def worker_checks(path: str, where: StoreAddress) -> list[Check]:
    """Whether the app's workers can run it, as far as they have said."""
    store = RedisStore(where.redis_url, namespace=where.namespace, store_id=where.store_id, cipher=where.cipher)
    try:
        problem = await store.problem(path)
        known = await store.app(path) is not None
    finally:
        await store.close()
    if problem is not None:
        return [fail("workers", f"they cannot run {path}: {problem}", f"correct the app, then run: holdfast up --app {path}")]
    return [ok("workers", "they have said nothing against it" if known else "the store has never heard of this app")]


async def app_of_workers(here: AppToImport, where: StoreAddress) -> AppToImport:
    """How the workers import the app: from where it was published. To be called once Ray was joined.

    Raises:
        AppNotPublished: What the store has for it was not signed by this cluster: nobody is to import from where that says.
    """
    from holdfast.actors.ray_cluster import RayCluster  # noqa: PLC0415 - imports ray
    from holdfast.actors.signature import vouched  # noqa: PLC0415 - only where it is needed
    from holdfast.actors.vault import Vault  # noqa: PLC0415 - imports ray

    store = RedisStore(where.redis_url, namespace=where.namespace, store_id=where.store_id)
    try:
        async with asyncio.timeout(STORE_S):
            record = await store.app(here.path)
    except (HoldfastError, TimeoutError):
        return here  # said of Redis already
    finally:
        await store.close()
    if record is None:
        return here
    if not vouched(await RayCluster(Vault(where)).key(), where, here.path, record):
        raise AppNotPublished(here.path)
    return replace(here, python_path=record.python_path, main_file=record.main_file)
