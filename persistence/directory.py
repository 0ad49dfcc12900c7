"""The cluster's directory: apps, actors, workers, the cluster to which the store is bound, the release."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Protocol

from holdfast.conversation import AgentSpec

from .app_record import AppRecord
from .database import Database

EVERYWHERE = "*"
"""The place for `withhold` that means the whole cluster: Holdfast was stopped there, until `holdfast up`."""


NO_RULES: Mapping[str, str] = MappingProxyType({})
BREAKERS_MS = 30_000
"""Milliseconds for which a worker's note of its breakers holds; a worker that lives renews it sooner."""


@dataclass(frozen=True, slots=True)
class BrokenApp:
    """An app that workers cannot run, why, and since when (ms UTC; None: noted by an older release)."""

    app: str
    problem: str
    since: int | None


@dataclass(frozen=True, slots=True)
class OpenBreakers:
    """How many breakers of a model are in this state in a worker (by its short name), which told it within `BREAKERS_MS`."""

    worker: str
    model: str
    state: str
    count: int


@dataclass(frozen=True, slots=True)
class Living:
    """A registered actor: the time of its last heartbeat (ms UTC), and its conversation."""

    since: int
    conversation_id: str | None = None


@dataclass(frozen=True, slots=True)
class Binding:
    """The Ray cluster to which a store is bound; `age_ms` is the time since the last renewal."""

    cluster: str
    address: str
    age_ms: int


class Directory(Database, Protocol):
    """The verbs of a `Store` that concern the cluster: apps, actors, workers, binding and release."""

    async def put_app(self, record: AppRecord, specs: Sequence[AgentSpec], rules: Mapping[str, str] = NO_RULES) -> None:
        """Store an app's record, its specs and its rules (texts by digest), replacing an earlier record."""

    async def rules(self, digest: str) -> str | None:
        """The permission rules of that digest, as JSON text; None if they are not stored."""

    async def app(self, path: str) -> AppRecord | None:
        """The record of the app at this path; None if it was never published."""

    async def apps(self) -> Sequence[AppRecord]:
        """The readable records of all published apps."""

    async def spec(self, digest: str) -> AgentSpec | None:
        """The spec of that digest; None if it is not stored."""

    async def put_problem(self, path: str, problem: str | None) -> None:
        """Record why workers cannot run an app; None: they can. A later problem keeps the time of the first."""

    async def problem(self, path: str) -> str | None:
        """Why workers cannot run an app; None if no problem is recorded."""

    async def broken_apps(self) -> Sequence[BrokenApp]:
        """The apps that workers cannot run, the longest broken first."""

    async def note_breakers(self, worker: str, open_ones: Mapping[tuple[str, str], int]) -> None:
        """Note how many breakers of models are not closed in a worker, by model and state; none: remove its note.

        Notes of any worker that no longer hold are removed.
        """

    async def open_breakers(self) -> Sequence[OpenBreakers]:
        """The breakers that are not closed in workers, by worker, model and state."""

    async def offer(self, actor: str, since: int | None) -> bool:
        """Offer an actor for adoption; the lowest `since` is taken first (0: blank, else idle since, ms UTC).

        A `since` to come: until then the actor is kept for its conversation, and only `take(kept=True)` finds it.
        None takes the offer back; false if there was none (any more).
        """

    async def take(self, most: int = 1, *, kept: bool = False) -> Sequence[str]:
        """Atomically take up to `most` offered actors, the lowest `since` first; those with one to come only if `kept`."""

    async def offers(self) -> int:
        """How many actors are on offer: blank ones, and those whose conversation rests."""

    async def heartbeat(self, actor: str, *, limit: int) -> bool:
        """Register an actor as live, or renew it; false for a new actor if `limit` actors are registered.

        The actor counts as live until it is deregistered: a silent actor may hang, and takes up as much as any other.
        """

    async def deregister(self, actor: str) -> None:
        """Remove an actor from the live ones, with the note of its conversation."""

    async def live(self, *, quiet_ms: int = 0) -> Mapping[str, Living]:
        """The live actors by name with no heartbeat for at least `quiet_ms`, the longest silent first."""

    async def hosts(self, actor: str, conversation_id: str | None) -> None:
        """Note the conversation that an actor is about to take over (None: none), in case the actor hangs."""

    async def hosted(self, actor: str) -> str | None:
        """The conversation last noted for an actor; None if there is none or the actor is deregistered."""

    async def generation(self, worker: str) -> int:
        """The generation of the worker's successor in office; 0 for the worker itself."""

    async def succeed(self, worker: str, generation: int) -> None:
        """Put the worker's successor of that generation in office."""

    async def bind(self, cluster: str, address: str, stale_ms: int, *, gone: Sequence[str] = ()) -> Binding | None:
        """Bind the store to a Ray cluster; None once bound, else the binding to another cluster that prevents it.

        Another cluster's binding holds until it has not been renewed for `stale_ms` by the store's clock, or the cluster is
        proven `gone`.
        """

    async def binding(self) -> Binding | None:
        """The store's binding; None if it has none."""

    async def unbind(self, cluster: str) -> None:
        """Remove the store's binding if it is to this cluster."""

    async def serving(self) -> str | None:
        """The release of Holdfast that serves the store; None if none is noted."""

    async def serve(self, release: str, *, before: str | None) -> bool:
        """Note the release that serves the store; false if the noted one is neither `before` nor this one."""

    async def withhold(self, where: str, *, lift: bool = False) -> bool:
        """Note that a node, or `EVERYWHERE`, gets no new actors and workers; false if it was noted already.

        `lift` removes the note; false if there was none.
        """

    async def withheld(self) -> Mapping[str, int]:
        """The withheld nodes (or `EVERYWHERE`), each with the time since when (ms UTC)."""
