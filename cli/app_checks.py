"""What `holdfast doctor` looks at in the app."""

import asyncio
import os

from holdfast.actors.settings import StoreAddress
from holdfast.agent import load, main_file, python_path
from holdfast.conversation import HoldfastError, InvalidInput
from holdfast.persistence import AppRecord, RedisStore
from holdfast.registry.daemon import in_daemon
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


async def app_on_nodes(path: str | None, url: str | None, namespace: str) -> AppToImport | None:
    """How each node is to import the app: as its workers do, which the store knows, else as this process does."""
    if path is None:
        return None
    record = await _record(path, url, namespace) if url is not None else None
    if record is not None:
        environment = {name: os.environ[name] for name in record.environment if name in os.environ}
        return AppToImport(path, record.python_path, record.main_file, environment)
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


async def _record(path: str, url: str, namespace: str) -> AppRecord | None:
    store = RedisStore(url, namespace=namespace)
    try:
        async with asyncio.timeout(STORE_S):
            return await store.app(path)
    except (HoldfastError, TimeoutError):
        return None  # said of Redis already
    finally:
        await store.close()
