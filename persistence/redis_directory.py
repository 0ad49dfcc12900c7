"""The cluster's directory in Redis, all under one slot."""

from collections.abc import Mapping, Sequence

from .directory import Binding, Living
from .redis_connection import translated
from .redis_database import RedisDatabase


class RedisDirectory(RedisDatabase):
    """The verbs of `Directory` that need more than hashes, in Redis."""

    async def offer(self, actor: str, since: int | None) -> bool:
        key = self._keys.meta("standby")
        if since is None:
            return bool(await self._do(lambda: self._redis.zrem(key, actor)))
        await self._do(lambda: self._redis.zadd(key, {actor: since}))
        return True

    async def take(self, most: int = 1) -> Sequence[str]:
        async with translated():  # not repeated: a repetition after a lost reply would take other actors
            popped = await self._redis.zpopmin(self._keys.meta("standby"), most)
        return [name.decode() for name, _ in popped]

    async def offers(self) -> int:
        return int(await self._do(lambda: self._redis.zcard(self._keys.meta("standby"))))

    async def heartbeat(self, actor: str, *, limit: int) -> bool:
        answer = await self._script("heartbeat", [self._keys.meta("living")], [actor, limit])
        return bool(answer[0] == b"ok")

    async def deregister(self, actor: str) -> None:
        living, hosting = self._keys.meta("living"), self._keys.meta("hosting")
        await self._pipe(lambda pipe: [pipe.zrem(living, actor), pipe.hdel(hosting, actor)], atomic=True)

    async def live(self, *, quiet_ms: int = 0) -> Mapping[str, Living]:
        heard_before = await self.now() - quiet_ms
        living, hosting = self._keys.meta("living"), self._keys.meta("hosting")
        actors, hosted = await self._pipe(
            lambda pipe: [pipe.zrangebyscore(living, "-inf", heard_before, withscores=True), pipe.hgetall(hosting)], atomic=True
        )
        hosts = {name: found.decode(errors="replace") for name, found in hosted.items()}
        return {name.decode(errors="replace"): Living(int(at), hosts.get(name)) for name, at in actors}

    async def bind(self, cluster: str, address: str, stale_ms: int, *, gone: Sequence[str] = ()) -> Binding | None:
        answer = await self._script("bind", [self._keys.meta("cluster")], [cluster, address, stale_ms, *gone])
        if answer[0] == b"bound":
            return Binding(answer[1].decode(), answer[2].decode(), int(answer[3]))
        return None

    async def unbind(self, cluster: str) -> None:
        await self._script("unbind", [self._keys.meta("cluster")], [cluster])

    async def serve(self, release: str, *, before: str | None) -> bool:
        answer = await self._script("serve", [self._keys.meta("release")], [release, before or ""])
        return bool(answer[0] == b"ok")
