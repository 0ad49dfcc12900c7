"""The Redis under a store: checks of server and layout, the store's id, and retries."""

import asyncio
import math
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any, TypeVar

from redis import exceptions

from holdfast import metrics
from holdfast.backoff import Backoff
from holdfast.cipher import Cipher, CipherAt
from holdfast.conversation.records.idempotency import notes_key
from holdfast.counting import Counts
from holdfast.errors import CorruptStore, StoreError, StoreUnavailable, UnsupportedServer, WrongStore
from holdfast.settings import check_namespace
from holdfast.together import Together

from . import codec, redis_scripts, redis_values
from .broadcasts import Broadcasts
from .codec import Payloads
from .hashes import Put
from .keys import BUCKETS, STORE_ID, Keys
from .lists import ConversationRow
from .pages import PendingPlace
from .reads import Reads
from .redis_connection import SOCKET_TIMEOUT_S, client, is_wrong_type, translated
from .views import Entry, naming, unreadable_row

UNCOUNTED = frozenset({"count", "heartbeat", "remain"})
"""Scripts whose time is not counted: they run in idle processes too, which would then always have counts to report."""
OLDEST_SERVER = (6, 2)
RETRY_S = 2.0
"""Seconds for which an idempotent operation is repeated before its outcome is reported as unknown."""

AT_ONCE = 64
"""The most concurrent operations of a process, each on a connection of its own; more wait their turn."""
READS_AT_ONCE = 32
"""The most concurrent reads of logs, apart from them: many readers' reads, each soon after a change, delay no command."""

READ_TOGETHER = 8
"""How many reads of single entries are one round trip at most."""
_T = TypeVar("_T")


class RedisDatabase(Reads):
    """The connections to one Redis, and what is known of it. `_do` repeats an operation, so every operation is idempotent.

    `counts` collects the duration of each script and other operation.
    """

    def __init__(
        self,
        url: str,
        *,
        namespace: str = "holdfast",
        store_id: str | None = None,
        retry_s: float = RETRY_S,
        revive: Callable[[], Awaitable[bool]] | None = None,
        cipher: Cipher | CipherAt | None = None,
        counts: Counts | None = None,
    ) -> None:
        self._counts = counts
        self.namespace = check_namespace(namespace)
        self.url = url
        self.store_id = store_id
        self._keys = Keys(self.namespace)
        self._retry_s = retry_s
        self._indexes, self._complete = redis_values.INDEX_VERSION, 0
        self._revive = revive
        self.payloads = Payloads(self.namespace, lambda: self.store_id, cipher)
        self._room, self._reads = _Room(AT_ONCE), _Room(READS_AT_ONCE)
        self._closed = False
        self._away_at = -math.inf  # when an operation was last given up, by the monotonic clock
        self._blocked = 0
        self._redis: Any = client(url, lambda: self.store_id)
        self._blocking: Any = client(url, lambda: self.store_id, blocking=True)
        self._reading = Together(self._read, most=READ_TOGETHER)
        self._together: Together[str, redis_scripts.Call, list[Any]] = Together(self._scripts, most=AT_ONCE)
        self._broadcasts = Broadcasts(self._blocking.connection_pool.make_connection)

    async def open(self) -> str:
        async def read() -> tuple[dict[str, Any], bytes | None, dict[bytes, bytes]]:
            info = await self._redis.info("server")
            store_id = await self._redis.get(STORE_ID)
            return info, store_id, await self._redis.hgetall(self._keys.meta("layout"))

        await self.payloads.prepare()
        info, found, layout = await self._do(read)
        version = str(info.get("redis_version", "0"))
        if tuple(int(part) for part in version.split(".")[:2] if part.isdigit()) < OLDEST_SERVER:
            raise UnsupportedServer("redis_url", f"the server has version {version}", "use Redis 6.2 or later, or Valkey")
        self._indexes = redis_values.check_layout(layout) if layout else redis_values.INDEX_VERSION
        if self.store_id is not None and (found or b"").decode(errors="replace") != self.store_id:  # the server was emptied
            raise WrongStore(self.store_id, (found or b"none").decode(errors="replace"))
        if not found:
            await self._do(lambda: self._redis.set(STORE_ID, uuid.uuid4().hex, nx=True))
            found = await self._do(lambda: self._redis.get(STORE_ID))
        if not layout:
            laid_out = dict.fromkeys(("indexes", "complete"), redis_values.INDEX_VERSION)
            laid_out |= {"version": redis_values.LAYOUT_VERSION, "buckets": BUCKETS}
            await self._do(lambda: self._redis.hset(self._keys.meta("layout"), mapping=laid_out))
        self.store_id = (found or b"").decode(errors="replace")
        return self.store_id

    async def identity(self) -> str | None:
        found = await self._do(lambda: self._redis.get(STORE_ID))
        return found.decode(errors="replace") if found else None

    async def _raise_indexes(self) -> None:
        """Raise the layout's index version before the first new head is written: older releases then refuse the namespace."""
        if self._indexes < redis_values.INDEX_VERSION:
            await self._script("raise", [self._keys.meta("layout")], [redis_values.INDEX_VERSION])
            self._indexes = redis_values.INDEX_VERSION

    async def weaknesses(self) -> list[str]:
        names = ("appendonly", "appendfsync", "maxmemory-policy", "min-replicas-to-write")
        settings: dict[str, str] = {}
        try:
            for name in names:  # CONFIG GET of Redis 6.2 takes one name
                settings |= await self._redis.config_get(name)
            replicas = int((await self._redis.info("replication")).get("connected_slaves", 0))
        except exceptions.RedisError:  # a hosted Redis often forbids CONFIG
            return []
        return redis_values.weaknesses({str(_text(k)): str(_text(v)) for k, v in settings.items()}, replicas)

    async def close(self) -> None:
        self._closed = True
        await self._broadcasts.close()
        await self._redis.aclose()
        await self._blocking.aclose()

    async def now(self) -> int:
        return await self._do(self._now)

    async def _now(self) -> int:
        seconds, micros = await self._redis.time()
        return int(seconds) * 1000 + int(micros) // 1000

    async def _bounded(self, block_ms: int, work: Awaitable[_T]) -> _T:
        """The answer of a blocking read; a server silent for well over `block_ms` hangs, and is given up."""
        async with asyncio.timeout(block_ms / 1000 + SOCKET_TIMEOUT_S):
            return await work

    async def _do(self, operation: Callable[[], Awaitable[_T]], *, room: "_Room | None" = None) -> _T:
        began_s = time.perf_counter()
        answer = await self._repeated(operation, room=room)
        if self._counts is not None:
            self._counts.observe(metrics.REDIS_S, time.perf_counter() - began_s)
        return answer

    async def _repeated(
        self, operation: Callable[[], Awaitable[_T]], *, waits: bool = False, room: "_Room | None" = None
    ) -> _T:
        """Run an idempotent operation; repeat it for a while on a broken connection, and again once the server is revived.

        As many operations run at a time as there is `room` for (None: `AT_ONCE`), without those that wait on the server.
        """
        give_up = None if waits else time.monotonic() + self._retry_s  # a waiting read's time begins with its first failure
        backoff = Backoff(0.02, 0.5)
        while True:
            if self._closed:  # the driver would connect again
                raise StoreUnavailable("the store was closed")
            try:
                async with (
                    translated(),
                    _WAITING if waits else room or self._room,
                    asyncio.timeout(None if waits else SOCKET_TIMEOUT_S),
                ):
                    return await operation()
            except StoreUnavailable as error:
                give_up = give_up or time.monotonic() + self._retry_s
                passing = isinstance(error.__cause__, exceptions.ConnectionError | exceptions.TimeoutError | OSError)
                if not passing:
                    raise
                if self._revive is not None and _gone(error.__cause__) and await self._revive():
                    give_up = time.monotonic() + self._retry_s
                if time.monotonic() + backoff.pause_s > give_up:
                    self._away_at = time.monotonic()
                    raise
            await backoff.sleep()

    async def _pipe(self, fill: Callable[[Any], object], *, atomic: bool = False) -> list[Any]:

        async def run() -> list[Any]:
            async with self._redis.pipeline(transaction=atomic) as pipe:
                fill(pipe)
                answers: list[Any] = await pipe.execute()
            return answers

        return await self._do(run)

    async def _get(self, *places: tuple[str, str]) -> Sequence[bytes | None]:
        if len(places) == 1:
            return [await self._do(lambda: self._redis.hget(*places[0]))]
        return await self._pipe(lambda pipe: [pipe.hget(*place) for place in places], atomic=len(places) > 1)

    async def _all(self, *keys: str) -> Sequence[Mapping[str, bytes]]:
        found = await self._pipe(lambda pipe: [pipe.hgetall(key) for key in keys], atomic=len(keys) > 1)
        return [{name.decode(errors="replace"): value for name, value in fields.items()} for fields in found]

    async def _put(self, *puts: Put, new: Sequence[Put] = ()) -> bool:
        def write(pipe: Any) -> None:
            for one in puts:
                pipe.hset(*one)
            for one in new:
                pipe.hsetnx(*one)

        return bool((await self._pipe(write, atomic=len(puts) + len(new) > 1))[-1])

    async def _drop(self, *places: tuple[str, str]) -> bool:
        return bool((await self._pipe(lambda pipe: [pipe.hdel(*place) for place in places], atomic=len(places) > 1))[0])

    async def _each(self, fill: Callable[[Any], object], *, idle: bool = False) -> list[Any]:
        """The answers to pipelined commands; a key of the wrong type makes only its own answer a `CorruptStore`.

        What `idle` processes do is not counted (see `UNCOUNTED`).
        """

        async def read() -> list[Any]:
            async with self._redis.pipeline(transaction=False) as pipe:
                fill(pipe)
                answers = await pipe.execute(raise_on_error=False) if len(pipe) else []
            for answer in answers:
                if isinstance(answer, Exception) and not is_wrong_type(answer):
                    raise answer
            return [CorruptStore(f"a key has the wrong type ({one})") if isinstance(one, Exception) else one for one in answers]

        return await (self._repeated if idle else self._do)(read)

    async def _on(self, conversation_id: str, script: str, *args: str | bytes | int | None) -> list[Any]:
        """The answer of a script on one conversation; None as an argument is passed as ''."""
        return await self._script(script, *self._call(conversation_id, script, *args))

    async def _joined(self, conversation_id: str, script: str, *args: str | bytes | int | None) -> list[Any]:
        """As `_on`; what one process asks in the same turn of its loop is one round trip."""
        return await self._together.result(script, self._call(conversation_id, script, *args))

    def _call(self, conversation_id: str, script: str, *args: str | bytes | int | None) -> redis_scripts.Call:
        plain = (int(one) if isinstance(one, bool) else one for one in args)
        return self._keys.of(conversation_id, redis_scripts.keys(script)), ["" if one is None else one for one in plain]

    async def _did(self, conversation_id: str, script: str, *args: str | bytes | int | None) -> bool:
        return bool((await self._on(conversation_id, script, *args))[0] == b"ok")

    async def _script(self, name: str, keys: Sequence[str], args: Sequence[str | bytes | int]) -> list[Any]:
        began_s = time.perf_counter()
        answer: list[Any] = await self._repeated(lambda: redis_scripts.run(self._redis, name, keys, args))
        if self._counts is not None and name not in UNCOUNTED:
            self._counts.observe(metrics.SCRIPT_S, time.perf_counter() - began_s, name)
        return checked(answer, keys)

    async def _scripts(self, name: str, calls: Sequence[redis_scripts.Call]) -> list[list[Any] | Exception]:
        """The answers of a script to several calls, in one round trip; errors as `_script` raises them."""
        began_s, found = time.perf_counter(), list[list[Any] | Exception]()
        for answer, call in zip(
            await self._repeated(lambda: redis_scripts.run_each(self._redis, name, calls)), calls, strict=True
        ):
            try:
                async with translated():
                    if isinstance(answer, Exception):
                        raise answer
                    found.append(checked(answer, call[0]))
            except StoreError as error:
                found.append(error)
        if self._counts is not None and name not in UNCOUNTED:
            self._counts.observe(metrics.SCRIPT_S, time.perf_counter() - began_s, name)
        return found

    async def _entries(self, places: Sequence[tuple[str, int]]) -> list[Entry]:
        return await self._reading.result("entries", places)

    async def _read(self, _: str, asked: Sequence[Sequence[tuple[str, int]]]) -> list[list[Entry] | Exception]:
        once = list(dict.fromkeys(place for places in asked for place in places))

        log = self._keys.log
        found = await self._each(lambda pipe: [pipe.xrange(log(name), min=f"{seq}-0", max=f"{seq}-0") for name, seq in once])
        by_place = {place: self._entry(place, one) for place, one in zip(once, found, strict=True)}
        return [[by_place[place] for place in places] for places in asked]

    async def _rows(self, places: Sequence[tuple[int, str]]) -> list[ConversationRow]:
        once = list(dict.fromkeys(name for _, name in places))
        heads = await self._each(lambda pipe: [pipe.hmget(self._keys.head(name), ["index", "at"]) for name in once])
        by_name = dict(zip(once, heads, strict=True))
        return [row_of_head(created_at, name, by_name[name]) for created_at, name in places]

    async def _within(self, places: Sequence[tuple[str, int]], most: int, least: int) -> tuple[list[Entry], int]:
        keys = [self._keys.log(name) for name, _ in places]
        _, size, *found = await self._script("entries", keys, [most, least, *(seq for _, seq in places)])
        return [self._entry(place, one) for place, one in zip(places, map(_fields, found), strict=False)], int(size)

    async def _last_notes(self, places: Sequence[PendingPlace]) -> list[int]:
        known = self._keys.known
        said = await self._each(
            lambda pipe: [pipe.hget(known(place.conversation_id), notes_key(place.suspension_id)) for place in places]
        )
        pairs = zip(places, said, strict=True)
        return [self._noted_at(place, found) if isinstance(found, bytes) else 0 for place, found in pairs]

    def _entry(self, place: tuple[str, int], found: Any) -> Entry:
        try:
            with naming(place[0]):
                if isinstance(found, StoreError):
                    raise found
                return redis_values.event_of(*place, found[0][1], self.payloads) if found else None
        except StoreError as error:
            return error

    async def indexed(self) -> bool:
        if self._complete < redis_values.INDEX_VERSION:
            layout = self._keys.meta("layout")
            laid_out, said = await self._do(lambda: self._redis.hmget(layout, "version", "complete"))
            if laid_out is None:  # nothing was ever written here
                return True
            self._complete = codec.number_of(said or b"0", "the layout's complete indexes")
        return self._complete >= redis_values.INDEX_VERSION


def checked(answer: list[Any], keys: Sequence[str]) -> list[Any]:
    """The answer of a script on these keys; raises `CorruptStore` if it found something unreadable."""
    if answer[0] == b"corrupt":
        raise CorruptStore(": ".join((*keys[:1], answer[1].decode(errors="replace"))))
    return answer


class _Room(asyncio.Semaphore):
    """A semaphore for operations: waiting longer than `SOCKET_TIMEOUT_S`, as for a server, raises `TimeoutError`."""

    async def __aenter__(self) -> None:
        if not self.locked():
            await self.acquire()
            return
        async with asyncio.timeout(SOCKET_TIMEOUT_S):
            await self.acquire()


_WAITING = nullcontext()
"""In place of the semaphore, for operations that wait on the server: unbounded."""


def _gone(cause: BaseException | None) -> bool:
    """Whether the server may have died: nothing listens, or the connection broke. A time-out means that it hangs."""
    timed_out = isinstance(cause, exceptions.TimeoutError | TimeoutError)
    return isinstance(cause, exceptions.ConnectionError | OSError) and not timed_out


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


def row_of_head(created_at: int, conversation_id: str, head: Any) -> ConversationRow:
    """The row of a conversation in a list, from its head; an unreadable head gives a row with a problem."""
    try:
        if isinstance(head, StoreError):
            raise head
        packed, at = head
        if not packed:
            raise CorruptStore(f"the head of {conversation_id!r} is missing or empty")
        return redis_values.row_of(conversation_id, packed, at)
    except StoreError as error:
        return unreadable_row(conversation_id, created_at, str(error))


def _fields(entry: Any) -> Any:
    if entry == b"type":
        return CorruptStore("a key has the wrong type (it is no stream)")
    return [] if entry == b"none" else [(b"", dict(zip(entry[::2], entry[1::2], strict=True)))]
