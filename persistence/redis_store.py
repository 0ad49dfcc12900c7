"""The store on Redis 6.2 or later, or Valkey."""

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

from redis import exceptions

from holdfast.conversation import (
    AgentSpec,
    ConversationNotFound,
    CorruptStore,
    Event,
    Fenced,
    LeaseHeld,
    NewerRecord,
    PendingView,
    Quarantined,
    State,
    Status,
    StoreUnavailable,
    SuspensionKind,
    WrongStore,
)
from holdfast.conversation.events import CallSuspended

from . import codec, pages, redis_scripts, redis_values
from .keys import BUCKETS, STORE_ID, Keys, bucket_of, check_namespace
from .redis_connection import SOCKET_TIMEOUT_S, client, translated
from .redis_index import IndexRebuild
from .store import (
    Acquired,
    Append,
    Appended,
    AppRecord,
    Because,
    Binding,
    Due,
    KnownIds,
    Late,
    Listing,
    Moved,
    Owner,
    Quarantine,
    Rebuilt,
    Run,
)
from .views import pending_view

RETRY_S = 2.0
"""For how long an idempotent operation is repeated before its outcome is reported as unknown."""

_T = TypeVar("_T")


class RedisStore:
    """Conversations in Redis. Every operation is idempotent, so each repeats itself for a moment on a broken connection."""

    def __init__(self, url: str, *, namespace: str = "holdfast", store_id: str | None = None, retry_s: float = RETRY_S) -> None:
        self.namespace = check_namespace(namespace)
        self.url = url
        self.store_id = store_id
        self._keys = Keys(self.namespace)
        self._retry_s = retry_s
        self._redis: Any = client(url, lambda: self.store_id)
        self._blocking: Any = client(url, lambda: self.store_id, blocking=True)

    # -- opening and closing ------------------------------------------------------------------------------------------

    async def open(self) -> str:
        """See `Store.open`."""

        async def read() -> tuple[dict[str, Any], bytes | None, dict[bytes, bytes]]:
            info = await self._redis.info("server")
            store_id = await self._redis.get(STORE_ID)
            return info, store_id, await self._redis.hgetall(self._keys.meta("layout"))

        info, found, layout = await self._do(read)
        redis_values.check_version(str(info.get("redis_version", "0")))
        if layout:
            redis_values.check_layout(layout)
        if self.store_id is not None and (found or b"").decode() != self.store_id:  # emptied behind an open connection
            raise WrongStore(self.store_id, (found or b"none").decode())
        if not found:
            await self._do(lambda: self._redis.set(STORE_ID, uuid.uuid4().hex, nx=True))
            found = await self._do(lambda: self._redis.get(STORE_ID))
        if not layout:
            await self._do(
                lambda: self._redis.hset(
                    self._keys.meta("layout"),
                    mapping={
                        "version": redis_values.LAYOUT_VERSION,
                        "buckets": BUCKETS,
                        "indexes": redis_values.INDEX_VERSION,
                    },
                )
            )
        self.store_id = (found or b"").decode()
        return self.store_id

    async def weaknesses(self) -> list[str]:
        """See `Store.weaknesses`."""
        names = ("appendonly", "appendfsync", "maxmemory-policy", "min-replicas-to-write")
        settings: dict[str, str] = {}
        try:
            for name in names:  # one by one: 6.2 takes no more
                settings |= await self._redis.config_get(name)
            replicas = int((await self._redis.info("replication")).get("connected_slaves", 0))
        except exceptions.RedisError:  # where Redis is a service, CONFIG is often forbidden
            return []
        return redis_values.weaknesses({str(_text(k)): str(_text(v)) for k, v in settings.items()}, replicas)

    async def close(self) -> None:
        """See `Store.close`."""
        await self._redis.aclose()
        await self._blocking.aclose()

    async def now(self) -> int:
        """See `Store.now`."""
        seconds, micros = await self._do(self._redis.time)
        return int(seconds) * 1000 + int(micros) // 1000

    # -- the writer ---------------------------------------------------------------------------------------------------

    async def owner(self, conversation_id: str) -> Owner | None:
        """See `Store.owner`."""
        head = await self._do(lambda: self._redis.hmget(self._keys.head(conversation_id), ["token", "epoch", "holder", "seq"]))
        token, epoch, holder, seq = head
        started = bool(seq) and int(seq) > 0
        if not started and not token:
            return None
        return Owner((token or b"").decode(), int(epoch or 0), (holder or b"").decode(), started=started)

    async def acquire(
        self,
        conversation_id: str,
        *,
        seen_token: str,
        new_token: str,
        because: Because,
        holder: str,
        lease_ms: int,
        create: bool = False,
    ) -> Acquired | Moved:
        """See `Store.acquire`."""
        keys = [
            self._keys.head(conversation_id),
            self._keys.log(conversation_id),
            self._keys.runs(conversation_id),
            self._keys.attention(bucket_of(conversation_id)),
        ]
        answer = await self._script(
            "acquire", keys, [seen_token, new_token, because, holder, lease_ms, int(create), conversation_id, codec.VERSION]
        )
        match answer[0]:
            case b"missing":
                raise ConversationNotFound(conversation_id)
            case b"busy":
                raise LeaseHeld(conversation_id, int(answer[1]))
            case b"moved":
                return Moved(Owner(token=answer[1].decode(), epoch=int(answer[2]), holder=answer[3].decode()))
            case b"quarantined":
                raise Quarantined(conversation_id, answer[1].decode(errors="replace"), int(answer[2]))
            case b"newer":
                raise NewerRecord(answer[1].decode(), int(answer[2]), codec.VERSION)
        _, epoch, now, seq, snapshot, runs, tail, strikes = answer
        state = redis_values.fold(conversation_id, snapshot, tail, int(seq))
        records = {key.decode(): redis_values.run_of(value) for key, value in zip(runs[::2], runs[1::2], strict=True)}
        return Acquired(epoch=int(epoch), now=int(now), state=state, runs=records, strikes=int(strikes))

    async def append(self, conversation_id: str, write: Append) -> Appended | KnownIds:
        """See `Store.append`."""
        keys = [
            self._keys.head(conversation_id),
            self._keys.log(conversation_id),
            self._keys.known(conversation_id),
            self._keys.runs(conversation_id),
            self._keys.attention(bucket_of(conversation_id)),
        ]
        answer = await self._script(
            "append", keys, redis_values.append_args(conversation_id, self._keys.prefix(conversation_id), write)
        )
        match answer[0]:
            case b"fenced":
                raise Fenced(conversation_id)
            case b"known":
                known = {key.decode(): codec.decode_known(value) for key, value in zip(answer[2::2], answer[3::2], strict=True)}
                return KnownIds(now=int(answer[1]), known=known)
        return Appended(now=int(answer[1]))

    async def renew(self, conversation_id: str, token: str, lease_ms: int) -> int:
        """See `Store.renew`."""
        keys = [self._keys.head(conversation_id), self._keys.attention(bucket_of(conversation_id))]
        answer = await self._script("renew", keys, [token, lease_ms, conversation_id])
        if answer[0] == b"fenced":
            raise Fenced(conversation_id)
        return int(answer[1])

    async def release(self, conversation_id: str, token: str) -> None:
        """See `Store.release`."""
        log = self._keys.log(conversation_id)
        keys = [self._keys.head(conversation_id), self._keys.attention(bucket_of(conversation_id)), log, f"{log}:copy"]
        await self._script("release", keys, [token, conversation_id])

    async def strike(self, conversation_id: str, token: str, *, process: str, reason: str, limit: int) -> int | None:
        """See `Store.strike`."""
        keys = [self._keys.head(conversation_id), self._keys.attention(bucket_of(conversation_id))]
        prefix = self._keys.prefix(conversation_id)
        answer = await self._script("strike", keys, [token, process, limit, reason, conversation_id, prefix])
        if answer[0] == b"fenced":
            raise Fenced(conversation_id)
        return None if answer[2] else int(answer[1])

    async def retry(self, conversation_id: str) -> bool:
        """See `Store.retry`."""
        keys = [self._keys.head(conversation_id), self._keys.attention(bucket_of(conversation_id))]
        answer = await self._script("retry", keys, [conversation_id, self._keys.prefix(conversation_id)])
        return bool(answer[0] == b"ok")

    async def quarantine(self, conversation_id: str) -> Quarantine | None:
        """See `Store.quarantine`."""
        fields = ["quarantine", "quarantined_at"]
        reason, at = await self._do(lambda: self._redis.hmget(self._keys.head(conversation_id), fields))
        return None if reason is None else Quarantine(reason.decode(errors="replace"), int(at or 0))

    # -- runs ---------------------------------------------------------------------------------------------------------

    async def claim(self, conversation_id: str, effect_id: str, *, incarnation: str, worker: str) -> bool:
        """See `Store.claim`."""
        answer = await self._script("claim", [self._keys.runs(conversation_id)], [effect_id, incarnation, worker])
        return bool(answer[0] == b"ok")

    async def finish(self, conversation_id: str, effect_id: str, *, incarnation: str, outcome: bytes) -> bool:
        """See `Store.finish`."""
        keys = [self._keys.runs(conversation_id), self._keys.late(conversation_id), self._keys.log(conversation_id)]
        answer = await self._script("finish", keys, [effect_id, incarnation, outcome])
        return bool(answer[0] == b"ok")

    async def late(self, conversation_id: str) -> Mapping[str, Late]:
        """See `Store.late`."""
        found = await self._do(lambda: self._redis.hgetall(self._keys.late(conversation_id)))
        return {effect_id.decode(): redis_values.late_of(record) for effect_id, record in found.items()}

    async def run(self, conversation_id: str, effect_id: str) -> Run | None:
        """See `Store.run`."""
        record = await self._do(lambda: self._redis.hget(self._keys.runs(conversation_id), effect_id))
        return redis_values.run_of(record) if record is not None else None

    # -- reading ------------------------------------------------------------------------------------------------------

    async def load(self, conversation_id: str) -> State:
        """See `Store.load`."""
        keys = [self._keys.head(conversation_id), self._keys.log(conversation_id)]
        _, seq, snapshot, tail = await self._script("load", keys, [])
        if int(seq) == 0:
            raise ConversationNotFound(conversation_id)
        return redis_values.fold(conversation_id, snapshot, tail, int(seq))

    async def read(
        self, conversation_id: str, *, after: int, limit: int = 500, block_ms: int = 0
    ) -> Sequence[tuple[int, Event]]:
        """See `Store.read`."""
        log = self._keys.log(conversation_id)
        if block_ms:
            got = await self._do(lambda: self._bounded(block_ms, self._blocking.xread({log: f"{after}-0"}, limit, block_ms)))
            entries = got[0][1] if got else []
        else:
            entries = await self._do(lambda: self._redis.xrange(log, min=f"{after + 1}-0", count=limit))
        return [(redis_values.seq_of(entry_id), redis_values.event_of(fields)) for entry_id, fields in entries]

    async def at(self, conversation_id: str, seqs: Sequence[int]) -> Sequence[Event | None]:
        """See `Store.at`."""
        return await self._events([(conversation_id, seq) for seq in seqs])

    async def pending(
        self, *, limit: int, after: str | None = None, agent: str | None = None, kind: SuspensionKind | None = None
    ) -> Listing:
        """See `Store.pending`."""
        members, more = await self._page(
            lambda bucket: self._keys.pending(bucket, agent, kind), limit, pages.pending_after(after)
        )
        places = [(member, *redis_values.place_of(member)) for member in members]
        views = await self._views([(conversation_id, seq) for _, conversation_id, seq in places])
        return Listing([view for view in views if view is not None], pages.cursor_of(members[-1]) if more else None)

    async def pending_of(self, conversation_id: str) -> Sequence[PendingView]:
        """See `Store.pending_of`."""
        state = await self.load(conversation_id)
        places = [(conversation_id, call.suspension.seq) for call in state.calls if call.suspension is not None]
        return [view for view in await self._views(places) if view is not None]

    async def conversations(
        self, *, limit: int, after: str | None = None, agent: str | None = None, status: Status | None = None
    ) -> Listing:
        """See `Store.conversations`."""
        members, more = await self._page(
            lambda bucket: self._keys.conversations(bucket, agent, status), limit, pages.conversations_after(after)
        )
        ids = [redis_values.conversation_of(member) for member in members]

        async def read() -> list[list[bytes | None]]:
            async with self._redis.pipeline(transaction=False) as pipe:
                for conversation_id in ids:
                    pipe.hmget(self._keys.head(conversation_id), ["index", "at"])
                return await pipe.execute() if ids else []

        heads = zip(ids, await self._do(read), strict=True)
        rows = [redis_values.row_of(conversation_id, packed, at) for conversation_id, (packed, at) in heads if packed]
        return Listing(rows, pages.cursor_of(members[-1]) if more else None)

    async def attention(self, limit: int) -> Due:
        """See `Store.attention`."""
        now = await self.now()

        async def read() -> Any:
            async with self._redis.pipeline(transaction=False) as pipe:
                for bucket in range(BUCKETS):
                    pipe.zrangebyscore(self._keys.attention(bucket), "-inf", now, start=0, num=limit)
                return await pipe.execute()

        found = await self._do(read)
        return Due(now, [member.decode() for members in found for member in members])

    async def reindex(self) -> AsyncIterator[Rebuilt]:
        """See `Store.reindex`."""
        rebuild = IndexRebuild(self._redis, self._keys, script=self._script, load=self.load)
        async with translated():
            async for rebuilt in rebuild.run():
                yield rebuilt
        layout = {"indexes": redis_values.INDEX_VERSION}
        await self._do(lambda: self._redis.hset(self._keys.meta("layout"), mapping=layout))

    # -- agents, actors, the cluster ----------------------------------------------------------------------------------

    async def put_app(self, record: AppRecord, specs: Sequence[AgentSpec]) -> None:
        """See `Store.put_app`."""

        async def write() -> None:
            async with self._redis.pipeline(transaction=True) as pipe:
                for spec in specs:
                    pipe.hset(self._keys.meta("specs"), spec.digest, codec.encode_spec(spec))
                pipe.hset(self._keys.meta("apps"), record.app, codec.encode_app(record))
                await pipe.execute()

        await self._do(write)

    async def app(self, path: str) -> AppRecord | None:
        """See `Store.app`."""
        data = await self._do(lambda: self._redis.hget(self._keys.meta("apps"), path))
        return codec.decode_app(data) if data is not None else None

    async def spec(self, digest: str) -> AgentSpec | None:
        """See `Store.spec`."""
        data = await self._do(lambda: self._redis.hget(self._keys.meta("specs"), digest))
        return codec.decode_spec(data) if data is not None else None

    async def put_problem(self, path: str, problem: str | None) -> None:
        """See `Store.put_problem`."""
        key = self._keys.meta("problems")
        if problem is None:
            await self._do(lambda: self._redis.hdel(key, path))
        else:
            await self._do(lambda: self._redis.hset(key, path, problem))

    async def problem(self, path: str) -> str | None:
        """See `Store.problem`."""
        text = await self._do(lambda: self._redis.hget(self._keys.meta("problems"), path))
        return text.decode() if text is not None else None

    async def offer(self, actor: str, since: int) -> None:
        """See `Store.offer`."""
        await self._do(lambda: self._redis.zadd(self._keys.meta("standby"), {actor: since}))

    async def withdraw(self, actor: str) -> bool:
        """See `Store.withdraw`."""
        return bool(await self._do(lambda: self._redis.zrem(self._keys.meta("standby"), actor)))

    async def take(self) -> str | None:
        """See `Store.take`."""
        async with translated():  # not repeated: a lost reply would take two
            popped = await self._redis.zpopmin(self._keys.meta("standby"), 1)
        return popped[0][0].decode() if popped else None

    async def offers(self) -> int:
        """See `Store.offers`."""
        return int(await self._do(lambda: self._redis.zcard(self._keys.meta("standby"))))

    async def enlist(self, actor: str, *, limit: int, stale_ms: int) -> bool:
        """See `Store.enlist`."""
        answer = await self._script("enlist", [self._keys.meta("living")], [actor, limit, stale_ms])
        return bool(answer[0] == b"ok")

    async def delist(self, actor: str) -> None:
        """See `Store.delist`."""
        await self._do(lambda: self._redis.zrem(self._keys.meta("living"), actor))

    async def living(self, *, quiet_ms: int = 0) -> Sequence[str]:
        """See `Store.living`."""
        heard_before = await self.now() - quiet_ms
        found = await self._do(lambda: self._redis.zrangebyscore(self._keys.meta("living"), "-inf", heard_before))
        return [actor.decode() for actor in found]

    async def generation(self, worker: str) -> int:
        """See `Store.generation`."""
        return int(await self._do(lambda: self._redis.hget(self._keys.meta("generations"), worker)) or 0)

    async def succeed(self, worker: str, generation: int) -> None:
        """See `Store.succeed`."""
        await self._do(lambda: self._redis.hset(self._keys.meta("generations"), worker, generation))

    async def bind(self, cluster: str, address: str, stale_ms: int, *, force: bool = False) -> Binding | None:
        """See `Store.bind`."""
        answer = await self._script("bind", [self._keys.meta("cluster")], [cluster, address, stale_ms, int(force)])
        if answer[0] == b"bound":
            return Binding(answer[1].decode(), answer[2].decode(), int(answer[3]))
        return None

    async def unbind(self, cluster: str) -> None:
        """See `Store.unbind`."""
        await self._script("unbind", [self._keys.meta("cluster")], [cluster])

    # -- live events --------------------------------------------------------------------------------------------------

    async def publish(self, conversation_id: str, payload: bytes) -> None:
        """See `Store.publish`."""
        async with translated():
            await self._redis.publish(self._keys.live(conversation_id), payload)

    async def listen(self, conversation_id: str) -> AsyncIterator[bytes]:
        """See `Store.listen`."""
        pubsub = self._blocking.pubsub(ignore_subscribe_messages=True)
        try:
            async with translated():
                await pubsub.subscribe(self._keys.live(conversation_id))
            while True:
                async with translated():
                    message = await pubsub.get_message(timeout=30)
                if message is not None:
                    yield message["data"]
        finally:
            await pubsub.aclose()

    # -- how --------------------------------------------------------------------------------------------------------

    async def _bounded(self, block_ms: int, work: Awaitable[_T]) -> _T:
        """Give up on a server that hangs: it said that it would answer after `block_ms`."""
        async with asyncio.timeout(block_ms / 1000 + SOCKET_TIMEOUT_S):
            return await work

    async def _do(self, operation: Callable[[], Awaitable[_T]]) -> _T:
        """Run an idempotent operation; on a broken connection, again for a moment."""
        give_up = time.monotonic() + self._retry_s
        delay_s = 0.02
        while True:
            try:
                async with translated():
                    return await operation()
            except StoreUnavailable as error:
                passing = isinstance(error.__cause__, exceptions.ConnectionError | exceptions.TimeoutError | OSError)
                if not passing or time.monotonic() + delay_s > give_up:
                    raise
            await asyncio.sleep(delay_s)
            delay_s = min(2 * delay_s, 0.5)

    async def _script(self, name: str, keys: list[str], args: list[str | bytes | int]) -> list[Any]:
        answer: list[Any] = await self._do(lambda: redis_scripts.run(self._redis, name, keys, args))
        if answer[0] == b"corrupt":
            raise CorruptStore(f"{keys[0]}: {answer[1].decode(errors='replace')}")
        return answer

    async def _page(self, key: Callable[[int], str], limit: int, after: str) -> tuple[list[str], bool]:
        pages.check_limit(limit)
        start = f"({after}" if after else "-"

        async def fetch(buckets: Sequence[int], cap: int) -> list[list[str]]:
            async def read() -> Any:
                async with self._redis.pipeline(transaction=False) as pipe:
                    for bucket in buckets:
                        pipe.zrangebylex(key(bucket), start, "+", start=0, num=cap)
                    return await pipe.execute()

            return [[member.decode() for member in members] for members in await self._do(read)]

        return await pages.merge(fetch, limit)

    async def _events(self, places: Sequence[tuple[str, int]]) -> list[Event | None]:
        async def read() -> list[Any]:
            async with self._redis.pipeline(transaction=False) as pipe:
                for conversation_id, seq in places:
                    pipe.xrange(self._keys.log(conversation_id), min=f"{seq}-0", max=f"{seq}-0")
                return await pipe.execute() if places else []

        return [redis_values.event_of(found[0][1]) if found else None for found in await self._do(read)]

    async def _views(self, places: Sequence[tuple[str, int]]) -> list[PendingView | None]:
        events = await self._events(places)
        suspended = [event if isinstance(event, CallSuspended) else None for event in events]
        wanted = [
            (conversation_id, event.arguments_at if event is not None else 0)
            for (conversation_id, _), event in zip(places, suspended, strict=True)
        ]
        sources = await self._events(wanted)

        async def heads() -> list[bytes | None]:
            async with self._redis.pipeline(transaction=False) as pipe:
                for conversation_id, _ in places:
                    pipe.hget(self._keys.head(conversation_id), "index")
                return await pipe.execute() if places else []

        return [
            pending_view(conversation_id, codec.unpack(packed)[0] if packed else "", event, source)
            if event is not None
            else None
            for (conversation_id, _), event, source, packed in zip(
                places, suspended, sources, await self._do(heads), strict=True
            )
        ]


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
