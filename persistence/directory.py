"""What a store knows of the cluster that serves it: actors on offer and alive, workers in office, the binding, the release."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

EVERYWHERE = "*"
"""What is withheld where all of it is: Holdfast was stopped on its cluster, until `holdfast up`."""


@dataclass(frozen=True, slots=True)
class Binding:
    """The Ray cluster that a store is bound to; `age_ms` is how long ago it last said so."""

    cluster: str
    address: str
    age_ms: int


class Directory(Protocol):
    """The verbs of a `Store` by which processes find each other, and a cluster and a release hold the store."""

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

    async def attest(self, incarnation: str, lease_ms: int) -> None:
        """Say that a worker's incarnation lives, and that its claims stand for so long, by the store's clock."""
        ...

    async def attested(self, incarnation: str) -> bool:
        """Whether that incarnation's claims stand."""
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
