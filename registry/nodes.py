"""A look at each node of a Ray cluster: whether it reaches the store, its clock, and whether it can import an app.

A small Ray task on the node does this, in a process of its own that ends with the task.
"""

import asyncio
import contextlib
import os
import sys
import time
from collections.abc import Mapping

import ray
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from holdfast.actors.actor_settings import StoreAddress
from holdfast.agent import load
from holdfast.agent.path import placed
from holdfast.errors import HoldfastError
from holdfast.machine_load import machine_load
from holdfast.persistence import opened
from holdfast.redaction import Redaction

from .node_look import AppToImport, NodeLook

NODES = 64
"""The most nodes to look at."""
AT_ONCE = 16
LOOK_S = 30.0
"""How long the look at one node may take: an app's first import takes seconds."""
STORE_S = 5.0
SAID = 300
"""The most characters shown of an error."""


async def look_at_nodes(store: StoreAddress | None, app: AppToImport | None) -> tuple[list[NodeLook], int]:
    """Looks at up to `NODES` nodes, each within `LOOK_S`, and the number of all living nodes."""
    nodes = [node for node in await asyncio.to_thread(ray.nodes) if node["Alive"]]
    limit = asyncio.Semaphore(AT_ONCE)

    async def one(node: Mapping[str, object]) -> NodeLook:
        async with limit:
            return await _look_at(str(node["NodeID"]), str(node["NodeManagerAddress"]), store, app)

    return list(await asyncio.gather(*map(one, nodes[:NODES]))), len(nodes)


async def _look_at(node_id: str, address: str, store: StoreAddress | None, app: AppToImport | None) -> NodeLook:
    strategy = NodeAffinitySchedulingStrategy(node_id, soft=False)
    answer = _remote_look.options(scheduling_strategy=strategy, name="holdfast doctor").remote(address, store, app)
    try:
        async with asyncio.timeout(LOOK_S):
            return await asyncio.wrap_future(answer.future())
    except TimeoutError:
        with contextlib.suppress(RayError, ValueError):
            ray.cancel(answer, force=True)
        what = f", or {app.path} cannot be imported in that time" if app is not None else ""
        return NodeLook(address, failed=f"it did not answer within {LOOK_S:g} s{what}")
    except RayError as error:
        return NodeLook(address, failed=_last_line(error, _secrets(app, store)))


def _secrets(app: AppToImport | None, store: StoreAddress | None = None) -> Redaction:
    """The secrets of this process, and those in the app's variables and the store's URL, which a node is given."""
    environment = app.environment if app is not None else {}
    urls = [store.redis_url] if store is not None else []
    return Redaction.of_process({**os.environ, **environment}, environment, urls=urls)


def _last_line(error: Exception, secrets: Redaction) -> str:
    """An error's type and last line, redacted before it is cut: a cut could leave half a secret unrecognised."""
    lines = secrets.redacted(str(error)).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[-1]}"[:SAID]


def look(address: str, store: StoreAddress | None, app: AppToImport | None) -> NodeLook:
    """Look at this process's node. It imports the app, so it must run in a process of its own."""
    ahead_ms, uncertain_ms, unreached = asyncio.run(_clock(store)) if store is not None else (None, 0, None)
    imports = _imports(app) if app is not None else None
    return NodeLook(address, ahead_ms, uncertain_ms, unreached, imports, load=machine_load())


async def _clock(address: StoreAddress) -> tuple[int | None, int, str | None]:
    store = opened(address.redis_url, namespace=address.namespace, store_id=address.store_id, retry_s=0)
    try:
        async with asyncio.timeout(STORE_S):
            await store.now()  # connects to the store
            before = time.time()
            theirs = await store.now()
            after = time.time()
    except TimeoutError:
        return None, 0, f"Redis did not answer within {STORE_S:g} s"
    except HoldfastError as error:
        return None, 0, str(error)
    finally:
        await store.close()
    return round((before + after) * 500) - theirs, round((after - before) * 500) + 1, None


def _imports(app: AppToImport) -> str | None:
    """Why the app cannot be imported here as a worker would; None if it can."""
    os.environ.update(app.environment)
    sys.path[:] = placed(app.python_path, sys.path)
    try:
        load(app.path, main_file=app.main_file)
    except HoldfastError as error:
        return _secrets(app).redacted(str(error))
    return None


_remote_look = ray.remote(num_cpus=0, max_retries=0, max_calls=1)(look)
