"""The cluster's directory in memory."""

from collections.abc import Mapping, Sequence

from .directory import Binding, Living
from .memory_database import MemoryDatabase


class MemoryDirectory(MemoryDatabase):
    """The verbs of `Directory` that need more than hashes, in memory."""

    async def offer(self, actor: str, since: int | None) -> bool:
        stood = self._standby.pop(actor, None) is not None
        if since is not None:
            self._standby[actor] = since
        return stood or since is not None

    async def take(self, most: int = 1) -> Sequence[str]:
        taken = sorted(self._standby, key=lambda name: (self._standby[name], name))[:most]
        for actor in taken:
            del self._standby[actor]
        return taken

    async def offers(self) -> int:
        return len(self._standby)

    async def heartbeat(self, actor: str, *, limit: int) -> bool:
        if actor not in self._living and len(self._living) >= limit:
            return False
        self._living[actor] = self._clock()
        return True

    async def deregister(self, actor: str) -> None:
        self._living.pop(actor, None)
        await self.hosts(actor, None)

    async def live(self, *, quiet_ms: int = 0) -> Mapping[str, Living]:
        quiet = [(at, name) for name, at in self._living.items() if at <= self._clock() - quiet_ms]
        return {name: Living(at, await self.hosted(name)) for at, name in sorted(quiet)}

    async def bind(self, cluster: str, address: str, stale_ms: int, *, gone: Sequence[str] = ()) -> Binding | None:
        key, now, bound = self._keys.meta("cluster"), self._clock(), await self.binding()
        if bound is not None and _id(bound.cluster) not in map(_id, (cluster, *gone)):
            if bound.age_ms == 0:  # the clock may have been set back: the binding's age counts from now
                await self._put((key, "at", now))
            if bound.age_ms < stale_ms:
                return bound
        await self._put((key, "cluster", cluster), (key, "address", address), (key, "at", now))
        return None

    async def unbind(self, cluster: str) -> None:
        bound = await self.binding()
        if bound is not None and bound.cluster == cluster:
            self._hashes.pop(self._keys.meta("cluster"))

    async def serve(self, release: str, *, before: str | None) -> bool:
        if await self.serving() not in (before, release):
            return False
        await self._put((self._keys.meta("release"), "release", release))
        return True


def _id(cluster: str) -> str:
    """A cluster's id, without the machine id that an older release appended."""
    return cluster.partition("@")[0]
