"""The cluster's directory: apps, actors and workers that serve a store, the cluster that it is bound to, the release."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from pydantic import Field

from holdfast.conversation import AgentSpec
from holdfast.conversation.record import Record

from .database import Database

EVERYWHERE = "*"
"""What is withheld where all of it is: Holdfast was stopped on its cluster, until `holdfast up`."""


class AppRecord(Record):
    """What the last who published the app said of it; names of variables, never their values.

    `code` tells its workers apart; `source` is the digest of its source files, `prints` tell values of its variables apart. The
    `signature` is made with a key that is not in the store.
    """

    app: str
    code: str
    python_path: tuple[str, ...] = ()
    main_file: str | None = None
    environment: tuple[str, ...] = ()
    agents: Mapping[str, str] = Field(default_factory=dict)
    source: str = ""
    prints: Mapping[str, str] = Field(default_factory=dict)
    signature: str = ""


@dataclass(frozen=True, slots=True)
class BrokenApp:
    """An app that workers cannot run, why, and since when (ms UTC; None: an older release noted it)."""

    app: str
    problem: str
    since: int | None


@dataclass(frozen=True, slots=True)
class Silent:
    """An actor that counts among the living, when it was last heard of (ms UTC), and the conversation that it hosts."""

    actor: str
    since: int
    conversation_id: str | None = None


@dataclass(frozen=True, slots=True)
class Binding:
    """The Ray cluster that a store is bound to; `age_ms` is how long ago it last said so."""

    cluster: str
    address: str
    age_ms: int


class Directory(Database, Protocol):
    """The verbs of a `Store` by which processes find apps and each other, and a cluster and a release hold the store."""

    async def put_app(self, record: AppRecord, specs: Sequence[AgentSpec]) -> None:
        """Record what stands for an app from now on, with its specs."""
        ...

    async def app(self, path: str) -> AppRecord | None:
        """What stands for an app."""
        ...

    async def spec(self, digest: str) -> AgentSpec | None:
        """A spec by its digest."""
        ...

    async def put_problem(self, path: str, problem: str | None) -> None:
        """Record why workers cannot run an app, from now on or as before, or (None) that they can."""
        ...

    async def problem(self, path: str) -> str | None:
        """Why workers cannot run an app; None if they can, as far as is known."""
        ...

    async def broken_apps(self) -> Sequence[BrokenApp]:
        """The apps that workers cannot run, the longest first; see `Store.put_problem`."""
        ...

    async def offer(self, actor: str, since: int) -> None:
        """Offer an actor for adoption; the lowest `since` is taken first (0: blank, else idle since)."""
        ...

    async def withdraw(self, actor: str) -> bool:
        """Take an offer back; false if there was none (any more)."""
        ...

    async def take(self) -> str | None:
        """Take the actor that was offered first, atomically; None if there is none."""
        ...

    async def offers(self) -> int:
        """How many actors are on offer, blank ones and those whose conversation rests."""
        ...

    async def heartbeat(self, actor: str, *, limit: int) -> bool:
        """Count an actor among those that live, or say that it still does; false if there are `limit` others already.

        It counts until it is deregistered: who is quiet may hang, and take up as much as any other.
        """
        ...

    async def deregister(self, actor: str) -> None:
        """Count an actor no more."""
        ...

    async def live(self, *, quiet_ms: int = 0) -> Sequence[str]:
        """The actors that count among those that live and have been quiet for so long, the longest unheard of first."""
        ...

    async def silent(self, quiet_ms: int) -> Sequence[Silent]:
        """The actors that count among the living and have been quiet for so long, the longest unheard of first."""
        ...

    async def hosts(self, actor: str, conversation_id: str | None) -> None:
        """Note which conversation an actor is about to take over, or that it hosts none, for whoever finds that it hangs."""
        ...

    async def hosted(self, actor: str) -> str | None:
        """The conversation that an actor hosts, as far as it has said so; None once it is deregistered."""
        ...

    async def generation(self, worker: str) -> int:
        """Which successor of a worker is in office; 0 for the first."""
        ...

    async def succeed(self, worker: str, generation: int) -> None:
        """Put a worker's successor in office."""
        ...

    async def bind(self, cluster: str, address: str, stale_ms: int, *, gone: Sequence[str] = ()) -> Binding | None:
        """Bind the store to a Ray cluster; the binding that stands in the way, or None when bound.

        A binding to another cluster stands until it has not been renewed for `stale_ms`, by the store's clock, unless that
        cluster is among those that are proven `gone`.
        """
        ...

    async def binding(self) -> Binding | None:
        """The binding that stands, None if there is none."""
        ...

    async def unbind(self, cluster: str) -> None:
        """Give the binding up, if it is this cluster's."""
        ...

    async def serving(self) -> str | None:
        """The release of Holdfast that serves the store, None if none has been noted."""
        ...

    async def serve(self, release: str, *, before: str | None) -> bool:
        """Note which release serves the store from now on, if the one noted is `before`; whether it is noted."""
        ...

    async def withhold(self, where: str) -> bool:
        """Note that nothing new is to be made on a node of the cluster, or `EVERYWHERE`; false if that stood already."""
        ...

    async def allow(self, where: str) -> bool:
        """Take that back; false if it did not stand."""
        ...

    async def withheld(self) -> Mapping[str, int]:
        """Where nothing new is to be made, and since when (ms UTC)."""
        ...
