"""The cluster's directory: apps, actors and workers that serve a store, the cluster that it is bound to, the release."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Protocol

from holdfast.conversation import AgentSpec

from .app_record import AppRecord
from .database import Database

EVERYWHERE = "*"
"""The place to `withhold` that means the whole cluster: Holdfast was stopped there, until `holdfast up`."""


NO_RULES: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class BrokenApp:
    """An app that workers cannot run, with the reason and the time since when (ms UTC; None: an older release noted it)."""

    app: str
    problem: str
    since: int | None


@dataclass(frozen=True, slots=True)
class Living:
    """A registered actor: the time of its last heartbeat (ms UTC), and the conversation that it hosts."""

    since: int
    conversation_id: str | None = None


@dataclass(frozen=True, slots=True)
class Binding:
    """The Ray cluster that a store is bound to; `age_ms` is how long ago the cluster last renewed the binding."""

    cluster: str
    address: str
    age_ms: int


class Directory(Database, Protocol):
    """The verbs of a `Store` that concern apps, actors and workers, the cluster that the store is bound to, and the release."""

    async def put_app(self, record: AppRecord, specs: Sequence[AgentSpec], rules: Mapping[str, str] = NO_RULES) -> None:
        """Store an app's record, its specs and its rules (texts by digest), in place of an earlier record of the app."""

    async def rules(self, digest: str) -> str | None:
        """The permission rules of that digest, as a JSON text; None if they are not stored."""

    async def app(self, path: str) -> AppRecord | None:
        """The record of the app at this path, None if it was never published."""

    async def apps(self) -> Sequence[AppRecord]:
        """The records of all apps that are published; one that cannot be read is left out."""

    async def spec(self, digest: str) -> AgentSpec | None:
        """The spec of that digest, None if it is not stored."""

    async def put_problem(self, path: str, problem: str | None) -> None:
        """Record why workers cannot run an app, or (None) that they can; a later problem keeps the time of the first."""

    async def problem(self, path: str) -> str | None:
        """The reason why workers cannot run an app; None if no problem is recorded."""

    async def broken_apps(self) -> Sequence[BrokenApp]:
        """The apps that workers cannot run, the longest broken first; see `Store.put_problem`."""

    async def offer(self, actor: str, since: int | None) -> bool:
        """Offer an actor for adoption; the actor with the lowest `since` is taken first (0: blank, else idle since, ms UTC).

        With None the offer is taken back; false if there was none (any more).
        """

    async def take(self, most: int = 1) -> Sequence[str]:
        """Take as many offered actors, but no more than `most`, those with the lowest `since` first, atomically."""

    async def offers(self) -> int:
        """How many actors are on offer: blank actors, and actors whose conversation rests."""

    async def heartbeat(self, actor: str, *, limit: int) -> bool:
        """Register an actor as live, or note that it still is; false if it is not and `limit` actors are registered already.

        The actor counts as live until it is deregistered: a silent actor may hang, and take up as much as any other.
        """

    async def deregister(self, actor: str) -> None:
        """Remove an actor from the live ones, with the note of the conversation that it hosts."""

    async def live(self, *, quiet_ms: int = 0) -> Mapping[str, Living]:
        """The live actors by name whose last heartbeat is at least `quiet_ms` ago, the longest silent first."""

    async def hosts(self, actor: str, conversation_id: str | None) -> None:
        """Note the conversation that an actor is about to take over (None: it hosts none), in case the actor hangs."""

    async def hosted(self, actor: str) -> str | None:
        """The conversation that an actor hosts, as last noted; None if it hosts none or is deregistered."""

    async def generation(self, worker: str) -> int:
        """The number of the worker's successor that is in office; 0 for the worker itself."""

    async def succeed(self, worker: str, generation: int) -> None:
        """Put the worker's successor of that number in office."""

    async def bind(self, cluster: str, address: str, stale_ms: int, *, gone: Sequence[str] = ()) -> Binding | None:
        """Bind the store to a Ray cluster; None when it is bound, else the binding to another cluster that stands in the way.

        A binding to another cluster stands until it has not been renewed for `stale_ms`, by the store's clock, unless that
        cluster is among the clusters that are proven `gone`.
        """

    async def binding(self) -> Binding | None:
        """The binding of the store, None if it has none."""

    async def unbind(self, cluster: str) -> None:
        """Remove the binding of the store, if it is to this cluster."""

    async def serving(self) -> str | None:
        """The release of Holdfast that serves the store, None if no release has been noted."""

    async def serve(self, release: str, *, before: str | None) -> bool:
        """Note which release serves the store from now on; false if the one noted is neither `before` nor this one."""

    async def withhold(self, where: str, *, lift: bool = False) -> bool:
        """Note that a node of the cluster, or `EVERYWHERE`, gets no new actors and workers; false if it was noted already.

        With `lift` the note is removed; false if there was none.
        """

    async def withheld(self) -> Mapping[str, int]:
        """The nodes (or `EVERYWHERE`) that are withheld, each with the time since when (ms UTC)."""
