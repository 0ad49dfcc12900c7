"""A worker without Ray, whose store and app are given; the app's code runs on the worker's own loop."""

import asyncio
import contextlib

from holdfast.actors import StoreAddress, Worker, WorkerSettings
from holdfast.agent import App

SETTINGS = WorkerSettings(StoreAddress("redis://x", "holdfast", "store-1"), "worker-0", "shop:app", "k", base="worker-0")


class OwnLoop:
    """The app's runtime, and the loop that it gives."""

    resources = None
    left = 0
    worn = False
    in_thread = staticmethod(asyncio.to_thread)
    used = staticmethod(contextlib.nullcontext)

    def __init__(self, app):
        self.app = app
        self.latest = self

    async def loop(self):
        return self

    async def run(self, work):
        return await work


class GivenWorker(Worker):
    """The real one, but for what leaves the process."""

    def __init__(self, store, *agents):
        super().__init__(SETTINGS)
        self._given = store
        self._runtime = OwnLoop(App(agents=list(agents)))

    async def _open(self):
        return self._given, self._runtime
