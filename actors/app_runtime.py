"""Opening an app in a worker: its environment, its import path, its lifespan."""

import asyncio
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from typing import Any

from holdfast.agent import App, load

from .settings import WorkerSettings

THREADS = 128
"""How many blocking callbacks a worker runs side by side."""


async def open_app(settings: WorkerSettings, stack: AsyncExitStack) -> tuple[App, Any]:
    """The app and what its lifespan yields; the stack closes it.

    Raises:
        Exception: Whatever importing or opening it raised.
    """
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(THREADS, thread_name_prefix="holdfast-tool"))
    os.environ.update(settings.environment)
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    known = set(sys.path)
    sys.path[:0] = [entry for entry in settings.python_path if entry not in known]
    app = await asyncio.to_thread(load, settings.app, main_file=settings.main_file)
    await asyncio.to_thread(_import_litellm)
    return app, await stack.enter_async_context(app.resources())


def _import_litellm() -> None:
    from . import model  # noqa: PLC0415 - takes seconds, so it is done here, once, off the loop

    _ = model
