"""What a client stands on: the store for reading, the transport for commands; each opened when it is first needed."""

import asyncio
import contextlib
import os
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from holdfast.conversation import ConfigurationError
from holdfast.persistence import RedisStore
from holdfast.registry import Settings

if TYPE_CHECKING:
    from holdfast.agent import App

    from .transport import RayTransport

EMBEDDED_PATIENCE_S = 60.0


class DurabilityWarning(UserWarning):
    """The Redis in use may lose what was acknowledged; the message says in which case. `holdfast doctor` says the fix."""


def announce(line: str) -> None:
    """Say a line to the person at the terminal, not into the program's output."""
    print(line, file=sys.stderr, flush=True)  # noqa: T201 - the one line that says what was started


class Stack:
    """One store and one transport, opened once, each on first use."""

    def __init__(
        self, settings: Settings, app: "App | str | None", *, say: Callable[[str], None] = announce, roll_back: bool = False
    ) -> None:
        self.settings = settings
        self._app = app
        self._say = say
        self._roll_back = roll_back
        self._opening = asyncio.Lock()
        self._joining = asyncio.Lock()
        self._store: RedisStore | None = None
        self._transport: RayTransport | None = None

    @property
    def app_path(self) -> str | None:
        """The import path of the app that was named, in the call or in the settings."""
        app = self._app if self._app is not None else self.settings.app
        if app is None or isinstance(app, str):
            return app
        from holdfast.agent import path_of  # noqa: PLC0415 - readers never need it

        return path_of(app)

    def app(self) -> "App":
        """The app itself.

        Raises:
            ConfigurationError: None was named.
            AppNotFound: Its path does not lead to one.
        """
        if self._app is not None and not isinstance(self._app, str):
            return self._app
        path = self.app_path
        if path is None:
            raise ConfigurationError("app", "start needs an app, and none is named", "pass it to connect, or set HOLDFAST_APP")
        from holdfast.agent import load  # noqa: PLC0415 - as above

        return load(path)

    async def store(self) -> RedisStore:
        """The store, opened."""
        async with self._opening:
            if self._store is None:
                url = await self._redis_url()
                store = RedisStore(url, namespace=self.settings.namespace)
                try:
                    await store.open()
                except BaseException:
                    await store.close()
                    raise
                self._store = store
                if self.settings.redis_url is not None:
                    for weakness in await store.weaknesses():
                        warnings.warn(f"holdfast: {weakness}", DurabilityWarning, stacklevel=2)
            return self._store

    async def transport(self) -> "RayTransport":
        """The way to the actors, opened: Ray joined, the store bound to it, sweeper and workers there."""
        store = await self.store()
        async with self._joining:  # a lock of its own: who only reads need not wait for Ray
            if self._transport is None:
                app = self.app() if self.app_path is not None else None
                address, gone = await self._ray_address()
                from .transport import RayTransport  # noqa: PLC0415 - imports ray, which readers never need

                self._transport = await RayTransport.open(
                    store,
                    self.settings,
                    address,
                    app,
                    self.app_path,
                    gone=gone,
                    roll_back=self._roll_back,
                    say=self._say,
                )
            return self._transport

    async def close(self) -> None:
        """Give up what was opened; what is embedded goes on."""
        if self._transport is not None:
            await self._transport.close()
            self._transport = None
        if self._store is not None:
            with contextlib.suppress(OSError):
                await self._store.close()
            self._store = None

    async def _ray_address(self) -> tuple[str, Sequence[str]]:
        """Where Ray is, and which of its predecessors are proven gone.

        What the embedded one's environment must say is set here, before ray is imported.
        """
        if self.settings.ray_address is not None:
            return self.settings.ray_address, ()
        if not self.settings.embedded:
            raise ConfigurationError(
                "ray_address", "there is none, and the embedded Ray is forbidden (embedded=False)", "set HOLDFAST_RAY_ADDRESS"
            )
        from holdfast.persistence.home import Home  # noqa: PLC0415 - production has no home
        from holdfast.registry.embedded import ensure_ray  # noqa: PLC0415 - as above

        home = await asyncio.to_thread(Home.open, self.settings.home)
        embedded = await asyncio.to_thread(ensure_ray, home, announce=self._say)
        os.environ.update(embedded.env)
        return embedded.address, embedded.gone

    async def _redis_url(self) -> str:
        if self.settings.redis_url is not None:
            return self.settings.redis_url
        from holdfast.persistence.embedded import ensure_redis  # noqa: PLC0415 - as above
        from holdfast.persistence.home import Home  # noqa: PLC0415 - as above

        home = await asyncio.to_thread(Home.open, self.settings.home)
        return await asyncio.to_thread(ensure_redis, home, deadline_s=EMBEDDED_PATIENCE_S, announce=self._say)
