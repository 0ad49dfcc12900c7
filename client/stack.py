"""The stack under a client: the store for reads and the transport for commands, each opened on first use.

An embedded server that died is started again: Redis by the operation that misses it, Ray by a watch. A configured Ray that is
gone is left, and joined again once one listens at its address.
"""

import asyncio
import contextlib
import logging
import os
import sys
import time
import warnings
import weakref
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from holdfast.actors import logs
from holdfast.backoff import Backoff
from holdfast.cipher import CipherAt
from holdfast.conversation import Receipt, State
from holdfast.counting import Counts
from holdfast.daemon import in_daemon
from holdfast.errors import ClusterUnavailable, ConfigurationError, HoldfastError
from holdfast.settings import Settings
from holdfast.single_flight import SingleFlight

from .cautions import DurabilityWarning

if TYPE_CHECKING:
    from holdfast.agent import App
    from holdfast.embedded.home import Home
    from holdfast.embedded.revival import Revival
    from holdfast.persistence import Store
    from holdfast.registry.cluster import Presence

    from .transport import RayTransport

EMBEDDED_PATIENCE_S = 60.0
"""How many seconds each embedded server may take to start."""
REJOIN_S = 30.0
"""How many seconds a dead Ray's binding, or this process's membership in it, may delay joining the next Ray."""
LEAVE_S = 20.0
WATCH_S = 1.0
TIDY_S = 600.0
JOIN_AGAIN_S = 1.0
LONGEST_PAUSE_S = 5.0
"""The longest pause between two attempts to join a configured Ray again, in seconds."""
SILENT_S = 20.0
"""Seconds of silence after which a configured Ray is left: its GCS may come back, but Ray ends a process after 60 s."""
T = TypeVar("T")

logger = logging.getLogger("holdfast.client")


class Reads(Protocol):
    """What reads a stack within deadlines, as `StackGateway`; `resolve` decides the calls that are read."""

    stack: "Stack"
    resolve: Callable[..., Coroutine[Any, Any, Receipt]]

    async def store(self) -> "Store":
        """The store, opened in time."""

    async def read(self, work: "Callable[[Store], Awaitable[T]]", *, block_ms: int = 0) -> T:
        """The result of some work on the store, within a call's deadline and the `block_ms` that it may wait for news."""


def announce(line: str) -> None:
    """Print a line for the person at the terminal: to stderr, so that the program's output stays clean."""
    print(logs.line(line), file=sys.stderr, flush=True)  # noqa: T201 - the one line that says what was started


class Stack:
    """One store and one transport, each opened once, on first use. After a fork, the child opens its own."""

    def __init__(self, settings: Settings, app: "App | str | None", *, roll_back: bool = False, lift: bool = False) -> None:
        logs.guard()
        self.settings = settings
        self._app = app
        self._roll_back = roll_back
        self._lift = lift
        self.counts = Counts()
        self._blank()
        renewed.add(self)

    def _blank(self) -> None:
        self._store: Store | None = None
        self._transport: RayTransport | None = None
        self._revival: Revival | None = None
        self._opening = SingleFlight(self._open)
        self._joining = SingleFlight(self._join)
        self._looking = SingleFlight(self._look)
        self._leaving: asyncio.Task[None] | None = None
        self._watching: asyncio.Task[None] | None = None
        self._asking: set[asyncio.Timeout] = set()
        self.begun: OrderedDict[str, State] = OrderedDict()
        """The states that this process's latest starts and messages wrote, until somebody waits for the conversation."""
        self.waits = 0
        """How many waits for conversations go on."""
        self._opened = False
        self._may_leave = True
        self.absent: str | None = None
        """Why commands reach no actor: the joined Ray does not answer, or is gone; None while nothing is wrong."""

    @property
    def app_path(self) -> str | None:
        """The import path of the client's app, from `connect` or the settings; None if neither names one."""
        app = self._app if self._app is not None else self.settings.app
        if app is None or isinstance(app, str):
            return app
        from holdfast.agent import path_of  # noqa: PLC0415 - readers never need it

        return path_of(app)

    def app(self) -> "App":
        """The client's app, imported if need be; `ConfigurationError` if none is named, `AppNotFound` if it is not found."""
        if self._app is not None and not isinstance(self._app, str):
            return self._app
        path = self.app_path
        if path is None:
            raise ConfigurationError("app", "start needs an app, and none is named", "pass it to connect, or set HOLDFAST_APP")
        from holdfast.agent import load  # noqa: PLC0415 - as above

        return load(path)

    async def loaded_app(self) -> "App":
        """The client's app, as `app`; a thread imports its module, so that the event loop keeps deadlines."""
        path = self.app_path
        imported = path is None or not isinstance(self._app, str | None) or path.partition(":")[0] in sys.modules
        return self.app() if imported else await in_daemon(self.app)

    def cipher(self, app: "App | None") -> CipherAt | None:
        """The import path of the payloads' cipher, from the settings or the app; `ConfigurationError` if the two differ."""
        named = self.settings.cipher_at
        if app is None or app.encrypt is None:
            return named
        from holdfast.agent import cipher_path  # noqa: PLC0415 - as above

        found = CipherAt.of(cipher_path(app))
        if named is not None and named.path != found.path:
            problem = f"the app's is {found.path!r}, and HOLDFAST_CIPHER says {named.path!r}"
            raise ConfigurationError("cipher", problem, "let both say the same, or leave the variable out")
        return found

    @property
    def may_start(self) -> bool:
        """Whether the next call may have to start the embedded stack."""
        return self.settings.redis_url is None and not self._opened

    async def store(self) -> "Store":
        """The store, opened."""
        if self._store is None or (self._revival is not None and self._revival.stopped):
            return await self._opening.result()
        return self._store

    @property
    def ready(self) -> "RayTransport | None":
        """The transport; None if it, or the embedded Redis, has to be opened first."""
        return None if self._revival is not None and self._revival.stopped else self._transport

    async def transport(self) -> "RayTransport":
        """The transport, opened: Ray is joined, the store bound, sweeper and workers are made. See `RayTransport.open`."""
        await self.store()
        if self._transport is None:
            return await self._joining.result()
        return self._transport

    @asynccontextmanager
    async def asking(self, give_up: float) -> AsyncIterator[None]:
        """Bound a command by its deadline and the life of the Ray that it was handed to; `TimeoutError` once either is over."""
        async with asyncio.timeout_at(give_up) as bound:
            self._asking.add(bound)
            try:
                yield
            finally:
                self._asking.discard(bound)

    async def lost(self, transport: "RayTransport") -> bool:
        """Whether the transport is no longer in use, because its Ray has died."""
        if transport is self._transport and self.settings.ray_address is None:
            from holdfast.embedded.local_ray import ray_lives  # noqa: PLC0415 - production has no home

            if not await in_daemon(ray_lives, await self._home(), transport.cluster.cluster_id):
                self._lose(transport)
        elif transport is self._transport and transport.cluster.joined_here:
            from holdfast.registry.cluster import Presence  # noqa: PLC0415 - readers never need it

            looked_at, found = await self._looking.result()
            if looked_at is transport and found is Presence.GONE:
                self._lose(transport)
        return transport is not self._transport

    async def see_to_ray(self) -> None:
        """Begin to start a dead embedded Ray again: without it, a client that only waits would wait in vain."""
        if self.settings.redis_url is not None or self._transport is not None or self._joining.under_way:
            return
        from holdfast.embedded.local_ray import ray_died  # noqa: PLC0415 - as above

        if await in_daemon(ray_died, await self._home()):
            self._joining.begin()

    async def close(self) -> None:
        """Close the transport and the store; the embedded servers keep running."""
        if self._watching is not None:  # else the watch would begin another join
            self._watching.cancel()
        await self._joining.close()
        if self._watching is not None:  # also a watch that the join began at its very end
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)
        await self._looking.close()
        await self._opening.close()
        if self._revival is not None:
            await self._revival.close()
        transport, self._transport = self._transport, None
        if transport is not None:
            await transport.close()
        if self._leaving is not None:
            await asyncio.gather(self._leaving, return_exceptions=True)
        store, self._store = self._store, None
        if store is not None:
            with contextlib.suppress(OSError):
                await store.close()

    def after_fork(self) -> list[Any]:
        """Begin anew in a forked process; returns the parent's connections, which the caller must keep and never touch."""
        inherited = list(vars(self).values())
        self._blank()
        return inherited

    async def _open(self) -> "Store":
        from holdfast.persistence import opened  # noqa: PLC0415 - imports redis, which a client over HTTP does not need

        url = await self._redis_url()
        if self._store is not None:  # its server was stopped and runs again, at the same address
            return self._store
        app = None if isinstance(self._app, str | None) else self._app
        store = opened(
            url, namespace=self.settings.namespace, revive=self._revival, cipher=self.cipher(app), counts=self.counts
        )
        try:
            await store.open()
            if store.payloads.cipher is None and self.app_path is not None and await store.encrypted():
                store.payloads.cipher = self.cipher(await self.loaded_app())
            self._store = store
        except BaseException:
            await store.close()
            raise
        if self.settings.redis_url is not None:
            for weakness in await store.weaknesses():
                warnings.warn(f"holdfast: {weakness}", DurabilityWarning, stacklevel=2)
        return store

    async def _join(self) -> "RayTransport":
        from holdfast.registry.cluster import refuse_inherited_ray  # noqa: PLC0415 - readers never need it

        refuse_inherited_ray()
        again = self._leaving is not None and self._may_leave
        store = await self.store()
        app = await self.loaded_app() if self.app_path is not None else None
        store.payloads.cipher = self.cipher(app)
        give_up = asyncio.get_running_loop().time() + REJOIN_S
        while True:
            address, gone = await self._ray_address()  # while the process still leaves the old Ray: each takes seconds
            await self._left()
            from .transport import RayTransport  # noqa: PLC0415 - imports ray, which readers never need

            try:
                transport = await RayTransport.open(
                    store,
                    self.settings,
                    address,
                    app,
                    self.app_path,
                    gone=gone,
                    roll_back=self._roll_back,
                    lift=self._lift,
                    say=announce,
                )
                break
            except (ClusterUnavailable, ConfigurationError) as error:
                # Perhaps another client of this process has not left the dead Ray yet.
                passing = again and getattr(error, "field", "ray_address") == "ray_address"
                late = asyncio.get_running_loop().time() > give_up
                if self.settings.redis_url is not None or not passing or late:
                    raise
                logger.debug("the embedded Ray cannot be joined yet: %s", error)
            await asyncio.sleep(JOIN_AGAIN_S)
        self._transport, self.absent = transport, None
        self._opened = True
        own = self.settings.ray_address is not None
        if (transport.cluster.joined_here or not own) and (self._watching is None or self._watching.done()):
            self._watching = asyncio.create_task(self._watch_own() if own else self._watch())
        return transport

    async def _left(self) -> None:
        """Wait until this process has left the Ray that died; raises `ClusterUnavailable` if that takes too long."""
        if self._leaving is None:
            return
        try:
            async with asyncio.timeout(LEAVE_S):
                await asyncio.shield(self._leaving)
        except TimeoutError as error:
            raise ClusterUnavailable("Ray died and this process cannot leave it: start the process again") from error
        except Exception:
            logger.exception("Ray died, and was not left as it should be")
        self._leaving = None

    async def _watch(self) -> None:
        """Start the embedded Ray again when it dies: Ray ends a process that stays without its cluster."""
        from holdfast.embedded.local_ray import bound_logs, ray_died, ray_lives  # noqa: PLC0415 - production has no home

        home = await self._home()
        tidied_at = time.monotonic()
        while True:
            await asyncio.sleep(WATCH_S)
            if time.monotonic() - tidied_at > TIDY_S:
                tidied_at = time.monotonic()
                await in_daemon(bound_logs, home)
            transport = self._transport
            if transport is not None and not await in_daemon(ray_lives, home, transport.cluster.cluster_id):
                self._lose(transport)
            if self._transport is None and await in_daemon(ray_died, home):
                try:
                    await self._joining.result()
                except HoldfastError as error:
                    logger.warning("the embedded Ray could not be started again: %s", error)
                    await asyncio.sleep(JOIN_AGAIN_S)

    async def _watch_own(self) -> None:
        """Leave a configured Ray when it ends, and join the next one that listens at its address."""
        from holdfast.registry.cluster import Presence  # noqa: PLC0415 - readers never need it

        silent_since: float | None = None
        pauses = Backoff(JOIN_AGAIN_S, LONGEST_PAUSE_S)
        while True:
            await asyncio.sleep(WATCH_S)
            transport = self._transport
            if transport is None:
                silent_since = None
                try:
                    await self._joining.result()
                    pauses.pause_s = JOIN_AGAIN_S
                    logger.warning("Ray is there again")
                except Exception as error:  # noqa: BLE001 - the next attempt may succeed, whatever the error
                    logger.info("Ray cannot be joined yet: %s", error)
                    await pauses.sleep()
                continue
            try:
                looked_at, found = await self._looking.result()
            except Exception:
                logger.exception("the cluster at %s could not be looked at", transport.cluster.address)
                looked_at, found = transport, Presence.SILENT
            if transport is not self._transport or looked_at is not transport:
                silent_since = None
                continue
            now = asyncio.get_running_loop().time()
            silent_since = None if found is Presence.HERE else silent_since or now
            self.absent = None if silent_since is None else f"the cluster at {transport.cluster.address} does not answer"
            if found is Presence.GONE or (silent_since is not None and now - silent_since > SILENT_S):
                silent_since = None
                self._lose(transport)

    async def _look(self) -> "tuple[RayTransport | None, Presence]":
        """The joined transport and how its cluster answers; concurrent callers share one look."""
        from holdfast.registry.cluster import Presence, presence  # noqa: PLC0415 - readers never need it

        transport = self._transport
        return transport, Presence.HERE if transport is None else await in_daemon(presence, transport.cluster)

    def _lose(self, transport: "RayTransport") -> None:
        if transport is not self._transport:
            return
        logger.warning("the Ray cluster at %s is gone", transport.cluster.address)
        self._transport = None
        self.absent = f"the cluster at {transport.cluster.address} is gone, and no other was joined yet"
        self._may_leave = transport.cluster.joined_here
        self._leaving = asyncio.create_task(transport.close())
        now = asyncio.get_running_loop().time()
        for bound in self._asking:
            if not bound.expired():
                bound.reschedule(now)

    async def _home(self) -> "Home":
        from holdfast.embedded.home import Home  # noqa: PLC0415 - production has no home

        return await in_daemon(Home.open, self.settings.home)

    async def _ray_address(self) -> tuple[str, Sequence[str]]:
        """The address of Ray, and the ids of earlier clusters that are proven to be gone.

        This sets the environment variables that the embedded Ray needs, before ray is imported.
        """
        if self.settings.ray_address is not None:
            return self.settings.ray_address, ()
        if not self.settings.embedded:
            raise ConfigurationError(
                "ray_address", "there is none, and the embedded Ray is forbidden (embedded=False)", "set HOLDFAST_RAY_ADDRESS"
            )
        from holdfast.embedded.local_ray import ensure_ray  # noqa: PLC0415 - as above

        embedded = await in_daemon(ensure_ray, await self._home(), deadline_s=EMBEDDED_PATIENCE_S, announce=announce)
        os.environ.update(embedded.env)
        return embedded.address, embedded.gone

    async def _redis_url(self) -> str:
        if self.settings.redis_url is not None:
            return self.settings.redis_url
        from holdfast.embedded.local_redis import ensure_redis  # noqa: PLC0415 - as above
        from holdfast.embedded.revival import Revival  # noqa: PLC0415 - as above

        home = await self._home()
        url = await in_daemon(ensure_redis, home, deadline_s=EMBEDDED_PATIENCE_S, announce=announce)
        if self._revival is None:
            self._revival = Revival(lambda: home, deadline_s=EMBEDDED_PATIENCE_S, announce=announce)
        self._revival.stopped = False
        return url


renewed: "weakref.WeakSet[Any]" = weakref.WeakSet()
"""The stacks and clients of this process, whose `after_fork` is called in a forked one."""
_inherited: list[Any] = []
"""A forked process's copies of its parent's connections and loops. To close or drop one would disturb the parent's loop."""


def _after_fork() -> None:
    _inherited.extend(one.after_fork() for one in list(renewed))


os.register_at_fork(after_in_child=_after_fork)
