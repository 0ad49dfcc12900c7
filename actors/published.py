"""What stands for an app, taken from the store only as its publisher signed it."""

import shlex
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from holdfast.conversation import AgentSpec
from holdfast.persistence import AppRecord, Directory
from holdfast.persistence.sealing import UNENCRYPTED

from .actor_settings import StoreAddress
from .signature import vouched
from .workers import NoWorker


@dataclass(frozen=True, slots=True)
class Standing:
    """What a turn that begins now runs with; `spec` is None where the app has no such agent."""

    code: str
    spec: AgentSpec | None


class Published:
    """The apps of one store. What somebody else than a publisher wrote there is waited out, and named as the app's problem.

    Args:
        store: The store.
        address: Which one it is; a record that was signed for another is nothing here.
        key: The key that records are signed with, None where there is none yet.
    """

    def __init__(self, store: Directory, address: StoreAddress, key: Callable[[], Awaitable[bytes | None]]) -> None:
        self._store = store
        self._address = address
        self._key = key
        self._wrong: dict[str, str] = {}

    async def record(self, app: str) -> AppRecord | None:
        """The record of an app, None where there is none.

        Raises:
            NoWorker: It was not signed by a publisher of this cluster.
        """
        record = await self._verified(app)
        await self._settle(app)
        return record

    async def standing(self, app: str, agent: str) -> Standing | None:
        """What a turn of an agent begins with, None where the app is not known.

        Raises:
            NoWorker: The record, or the agent that it names, is not as a publisher of this cluster wrote it.
        """
        record = await self._verified(app)
        if record is None:
            return None
        try:
            standing = await standing_of(self._store, record, agent)
        except NoWorker as error:
            raise NoWorker(await self._said(app, str(error))) from None
        await self._settle(app)
        return standing

    async def _verified(self, app: str) -> AppRecord | None:
        record = await self._store.app(app)
        if record is None:
            return None
        key = await self._key()
        if not vouched(key, self._address, app, record):
            raise NoWorker(await self._said(app, f"its record was not signed by this cluster: {_fix(app)}"))
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


async def standing_of(store: Directory, record: AppRecord, agent: str) -> Standing:
    """What the record says of an agent: its spec is stored under the digest that was signed, and has to have it.

    Raises:
        NoWorker: It has another one.
    """
    digest = record.agents.get(agent)
    spec = await store.spec(digest) if digest is not None else None
    if spec is not None and spec.model_copy().digest != digest:
        raise NoWorker(f"its agent {agent!r} is not stored as it was published: {_fix(record.app)}")
    return Standing(record.code, spec)


def _fix(app: str) -> str:
    return f"run holdfast up --app {shlex.quote(app)}"
