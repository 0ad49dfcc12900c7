"""The cluster's directory in Redis, all under one slot."""

from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.conversation import AgentSpec
from holdfast.errors import CorruptStore

from . import codec
from .app_record import AppRecord
from .directory import NO_RULES, Binding, BrokenApp, Living
from .redis_connection import translated
from .redis_database import RedisDatabase
from .redis_values import binding_of

SINCE = "|since"
"""The suffix of the field with the time since when workers cannot run an app; no app's path ends so."""


class RedisDirectory(RedisDatabase):
    """The verbs of `Directory`, in Redis."""

    async def put_app(self, record: AppRecord, specs: Sequence[AgentSpec], rules: Mapping[str, str] = NO_RULES) -> None:
        sealed = {spec.digest: self.payloads.seal_spec(spec) for spec in specs}
        texts = {digest: self.payloads.seal_rules(digest, text) for digest, text in rules.items()}
        await self._note_encryption()

        def write(pipe: Any) -> None:
            for digest, spec in sealed.items():
                pipe.hset(self._keys.meta("specs"), digest, spec)
            for digest, text in texts.items():
                pipe.hset(self._keys.meta("rules"), digest, text)
            pipe.hset(self._keys.meta("apps"), record.app, codec.encode(record))

        await self._pipe(write, atomic=True)

    async def app(self, path: str) -> AppRecord | None:
        data = await self._do(lambda: self._redis.hget(self._keys.meta("apps"), path))
        return codec.decode(AppRecord, data) if data is not None else None

    async def apps(self) -> Sequence[AppRecord]:
        return codec.readable_apps(await self._do(lambda: self._redis.hvals(self._keys.meta("apps"))))

    async def spec(self, digest: str) -> AgentSpec | None:
        data = await self._do(lambda: self._redis.hget(self._keys.meta("specs"), digest))
        return self.payloads.open_spec(digest, data) if data is not None else None

    async def rules(self, digest: str) -> str | None:
        data = await self._do(lambda: self._redis.hget(self._keys.meta("rules"), digest))
        return self.payloads.open_rules(digest, data) if data is not None else None

    async def put_problem(self, path: str, problem: str | None) -> None:
        key, since = self._keys.meta("problems"), f"{path}{SINCE}"
        if problem is None:
            await self._do(lambda: self._redis.hdel(key, path, since))
            return
        now = await self.now()
        text = self.payloads.seal_text(problem, "problem", path)

        await self._pipe(lambda pipe: [pipe.hset(key, path, text), pipe.hsetnx(key, since, now)], atomic=True)

    async def problem(self, path: str) -> str | None:
        text = await self._do(lambda: self._redis.hget(self._keys.meta("problems"), path))
        return self.payloads.open_text(text, "problem", path) if text is not None else None

    async def broken_apps(self) -> Sequence[BrokenApp]:
        fields = await self._do(lambda: self._redis.hgetall(self._keys.meta("problems")))
        said = {name.decode(errors="replace"): text for name, text in fields.items()}
        found = [
            BrokenApp(path, self.payloads.open_text(text, "problem", path), _moment(said.get(f"{path}{SINCE}")))
            for path, text in said.items()
            if not path.endswith(SINCE)
        ]
        return sorted(found, key=lambda broken: (broken.since or 0, broken.app))

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

    async def hosts(self, actor: str, conversation_id: str | None) -> None:
        key = self._keys.meta("hosting")
        if conversation_id is None:
            await self._do(lambda: self._redis.hdel(key, actor))
        else:
            await self._do(lambda: self._redis.hset(key, actor, conversation_id))

    async def hosted(self, actor: str) -> str | None:
        found = await self._do(lambda: self._redis.hget(self._keys.meta("hosting"), actor))
        return found.decode() if found is not None else None

    async def generation(self, worker: str) -> int:
        return int(await self._do(lambda: self._redis.hget(self._keys.meta("generations"), worker)) or 0)

    async def succeed(self, worker: str, generation: int) -> None:
        await self._do(lambda: self._redis.hset(self._keys.meta("generations"), worker, generation))

    async def bind(self, cluster: str, address: str, stale_ms: int, *, gone: Sequence[str] = ()) -> Binding | None:
        answer = await self._script("bind", [self._keys.meta("cluster")], [cluster, address, stale_ms, *gone])
        if answer[0] == b"bound":
            return Binding(answer[1].decode(), answer[2].decode(), int(answer[3]))
        return None

    async def binding(self) -> Binding | None:
        found = await self._do(lambda: self._redis.hmget(self._keys.meta("cluster"), ["cluster", "address", "at"]))
        return binding_of(found, await self.now())

    async def unbind(self, cluster: str) -> None:
        await self._script("unbind", [self._keys.meta("cluster")], [cluster])

    async def serving(self) -> str | None:
        release = await self._do(lambda: self._redis.hget(self._keys.meta("release"), "release"))
        return release.decode(errors="replace") if release is not None else None

    async def serve(self, release: str, *, before: str | None) -> bool:
        answer = await self._script("serve", [self._keys.meta("release")], [release, before or ""])
        return bool(answer[0] == b"ok")

    async def withhold(self, where: str, *, lift: bool = False) -> bool:
        key = self._keys.meta("withheld")
        if lift:
            return bool(await self._do(lambda: self._redis.hdel(key, where)))
        now = await self.now()
        return bool(await self._do(lambda: self._redis.hsetnx(key, where, now)))

    async def withheld(self) -> Mapping[str, int]:
        found = await self._do(lambda: self._redis.hgetall(self._keys.meta("withheld")))
        try:
            return {where.decode(): int(since) for where, since in found.items()}
        except ValueError as error:
            raise CorruptStore(f"{self._keys.meta('withheld')} says no time ({error!s:.100})") from error


def _moment(text: bytes | None) -> int | None:
    return int(text) if text is not None and text.isdigit() else None
