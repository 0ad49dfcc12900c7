"""What a store in memory knows of Ray clusters: which one it is bound to, whose claims stand, which release serves it."""

from collections.abc import Callable, Mapping, Sequence

from .directory import Binding


class MemoryCluster:
    """The verbs of `Store` that concern a cluster as a whole."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock
        self._binding: tuple[str, str, int] | None = None
        self._attested: dict[str, int] = {}
        self._release: str | None = None
        self._withheld: dict[str, int] = {}

    async def bind(self, cluster: str, address: str, stale_ms: int, *, gone: Sequence[str] = ()) -> Binding | None:
        """See `Store.bind`."""
        now = self._clock()
        if self._binding is not None and _id(self._binding[0]) not in map(_id, (cluster, *gone)):
            bound, at_address, at = self._binding
            at = min(at, now)  # the clock was set back: the silence begins now
            self._binding = bound, at_address, at
            if now - at < stale_ms:
                return Binding(bound, at_address, now - at)
        self._binding = (cluster, address, now)
        return None

    async def binding(self) -> Binding | None:
        """See `Store.binding`."""
        if self._binding is None:
            return None
        cluster, address, at = self._binding
        return Binding(cluster, address, max(self._clock() - at, 0))

    async def unbind(self, cluster: str) -> None:
        """See `Store.unbind`."""
        if self._binding is not None and self._binding[0] == cluster:
            self._binding = None

    async def attest(self, incarnation: str, lease_ms: int) -> None:
        """See `Store.attest`."""
        now = self._clock()
        self._attested = {name: until for name, until in self._attested.items() if until > now} | {incarnation: now + lease_ms}

    async def attested(self, incarnation: str) -> bool:
        """See `Store.attested`."""
        return self._attested.get(incarnation, 0) > self._clock()

    async def serving(self) -> str | None:
        """See `Store.serving`."""
        return self._release

    async def serve(self, release: str, *, before: str | None) -> bool:
        """See `Store.serve`."""
        if self._release not in (before, release):
            return False
        self._release = release
        return True

    async def withhold(self, where: str) -> bool:
        """See `Store.withhold`."""
        stood = where in self._withheld
        self._withheld.setdefault(where, self._clock())
        return not stood

    async def allow(self, where: str) -> bool:
        """See `Store.allow`."""
        return self._withheld.pop(where, None) is not None

    async def withheld(self) -> Mapping[str, int]:
        """See `Store.withheld`."""
        return dict(self._withheld)


def _id(cluster: str) -> str:
    """A cluster's id; an older release had a machine's behind it."""
    return cluster.partition("@")[0]
