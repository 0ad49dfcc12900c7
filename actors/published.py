"""The published records of apps, which count only with their publisher's signature, and the agent specs read so far."""

import shlex
from collections.abc import Awaitable, Callable

from holdfast.conversation import AgentSpec
from holdfast.persistence import AppRecord, Directory
from holdfast.persistence.codec import UNENCRYPTED

from .actor_settings import StoreAddress
from .signature import vouched
from .workers import NoApp, PublishedAgent


class Published:
    """The apps of one store. Work waits while a record has no valid signature, and the app's `problem` says so."""

    def __init__(self, store: Directory, address: StoreAddress, key: Callable[[], Awaitable[bytes | None]]) -> None:
        self._store = store
        self._address = address
        self._key = key
        self._wrong: dict[str, str] = {}
        self._vouched: dict[str, tuple[bytes | None, AppRecord]] = {}
        self._whole: dict[str, AgentSpec] = {}

    async def record(self, app: str) -> AppRecord | None:
        """The record of an app; None if it was never published."""
        record = await self._verified(app)
        await self._settle(app)
        return record

    async def agent(self, app: str, agent: str) -> PublishedAgent | None:
        """The code and spec with which a turn of an agent begins; None if the app was never published."""
        record = await self._verified(app)
        if record is None:
            return None
        try:
            found = await self._whole_agent(record, agent)
        except NoApp as error:
            raise NoApp(await self._said(app, str(error))) from None
        await self._settle(app)
        return found

    async def _whole_agent(self, record: AppRecord, agent: str) -> PublishedAgent:
        digest = record.agents.get(agent, "")
        if digest in self._whole:
            return PublishedAgent(record.code, self._whole[digest])
        found = await published_agent(self._store, record, agent)
        if found.spec is not None and len(self._whole) < SPECS:
            self._whole[digest] = found.spec
        return found

    async def _verified(self, app: str) -> AppRecord | None:
        record = await self._store.app(app)
        if record is None:
            return None
        key = await self._key()
        if self._vouched.get(app) == (key, record):
            return record
        if not vouched(key, self._address, app, record):
            raise NoApp(await self._said(app, f"its record was not signed by this cluster: {_fix(app)}"))
        self._vouched[app] = key, record
        return record

    async def _said(self, app: str, problem: str) -> str:
        self._wrong[app] = problem
        if await self._store.problem(app) != problem:
            await self._store.put_problem(app, problem)
        return problem

    async def _settle(self, app: str) -> None:
        problem = self._wrong.pop(app, None)
        if problem is not None and await self._store.problem(app) in (problem, UNENCRYPTED):
            await self._store.put_problem(app, None)


async def unsigned(store: Directory, app: str, agent: str) -> PublishedAgent | None:
    """Like `Published.agent`, for tests, in which no cluster signs records."""
    record = await store.app(app)
    return None if record is None else await published_agent(store, record, agent)


async def published_agent(store: Directory, record: AppRecord, agent: str) -> PublishedAgent:
    """The record's code and an agent's spec, verified against the digest that was signed."""
    digest = record.agents.get(agent)
    spec = await store.spec(digest) if digest is not None else None
    if spec is not None and spec.model_copy().digest != digest:
        raise NoApp(f"its agent {agent!r} is not stored as it was published: {_fix(record.app)}")
    return PublishedAgent(record.code, spec)


def _fix(app: str) -> str:
    return f"run holdfast up --app {shlex.quote(app)}"


SPECS = 1024
"""The most specs that are kept."""


class SpecCache:
    """Specs by their digests. A digest determines its spec, so a store that is restored to an earlier state changes nothing."""

    def __init__(self) -> None:
        self._specs: dict[str, AgentSpec] = {}

    async def find(self, store: Directory, digest: str) -> AgentSpec | None:
        """The spec of a digest; None if the store has none."""
        spec = self._specs.pop(digest, None) or await store.spec(digest)
        if spec is None:
            return None
        self._specs[digest] = spec
        while len(self._specs) > SPECS:
            del self._specs[next(iter(self._specs))]
        return spec

    async def spec(self, store: Directory, digest: str) -> AgentSpec:
        """The spec of a digest."""
        spec = await self.find(store, digest)
        if spec is None:
            raise RuntimeError(f"spec {digest} is not in the store")
        return spec
