"""The store on Redis 6.2 or later, or Valkey."""

import contextlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any

from holdfast.conversation import Event, State, Status, SuspensionKind
from holdfast.conversation.calls import PendingView
from holdfast.conversation.events import CallSuspended
from holdfast.errors import (
    CipherFailed,
    CipherMissing,
    ConversationNotFound,
    CorruptStore,
    Fenced,
    LeaseHeld,
    NewerRecord,
    Quarantined,
    StoreError,
)

from . import codec, pages, redis_values
from .keys import BUCKETS, bucket_of
from .pages import PendingPlace
from .redis_connection import is_wrong_type, translated
from .redis_index import IndexRebuild
from .redis_inspection import RedisInspection
from .redis_pausing import RedisPausing
from .store import (
    PROGRESS_MS,
    Acquired,
    Append,
    Appended,
    ConversationRow,
    Due,
    KnownIds,
    Late,
    Listing,
    Moved,
    Owner,
    Quarantine,
    Rebuilt,
    Run,
    TakeoverReason,
)
from .views import Entry, checked_row, naming, pending_view, raised, unreadable_call, unreadable_member, unreadable_row


class RedisStore(RedisInspection, RedisPausing):
    """Conversations in Redis. Every operation is idempotent, so each repeats itself for a moment on a broken connection."""

    # -- the writer ---------------------------------------------------------------------------------------------------

    async def owner(self, conversation_id: str) -> Owner | None:
        """See `Store.owner`."""
        key = self._keys.head(conversation_id)
        fields = ["token", "epoch", "holder", "seq", "quarantine", "quarantined_at"]
        with naming(conversation_id):
            head = await self._do(lambda: self._redis.hmget(key, fields))
            return redis_values.owner_of(conversation_id, head, self.payloads)

    async def acquire(
        self,
        conversation_id: str,
        *,
        seen_token: str,
        new_token: str,
        because: TakeoverReason,
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
            self._keys.paused(bucket_of(conversation_id)),
        ]
        opens = int(self.payloads.cipher is not None)
        args: list[str | bytes | int] = [
            seen_token,
            new_token,
            because,
            holder,
            lease_ms,
            int(create),
            conversation_id,
            codec.VERSION,
            opens,
        ]
        answer = await self._script("acquire", keys, args)
        match answer[0]:
            case b"missing":
                raise ConversationNotFound(conversation_id)
            case b"busy":
                raise LeaseHeld(conversation_id, int(answer[1]))
            case b"moved":
                return Moved(Owner(token=answer[1].decode(), epoch=int(answer[2]), holder=answer[3].decode()))
            case b"quarantined":
                reason = self.payloads.open_text(answer[1], "quarantine", conversation_id)
                raise Quarantined(conversation_id, reason, int(answer[2]))
            case b"sealed":
                raise CipherMissing(f"conversation {conversation_id!r}")
            case b"newer":
                raise NewerRecord(answer[1].decode(), int(answer[2]), codec.VERSION)
        _, epoch, now, seq, snapshot, runs, tail, crash_count = answer
        tail_bytes = sum(len(part) for _, fields in tail for part in fields[1::2])
        try:
            state = redis_values.fold(conversation_id, snapshot, tail, int(seq), self.payloads)
            records = self._runs_of(conversation_id, runs)
        except CipherFailed:
            with contextlib.suppress(StoreError):  # one that has the key is not to wait for the end of this lease
                await self.release(conversation_id, new_token)
            raise
        return Acquired(
            epoch=int(epoch), now=int(now), state=state, runs=records, crash_count=int(crash_count), tail_bytes=tail_bytes
        )

    async def append(self, conversation_id: str, write: Append) -> Appended | KnownIds:
        """See `Store.append`."""
        keys = [
            self._keys.head(conversation_id),
            self._keys.log(conversation_id),
            self._keys.known(conversation_id),
            self._keys.runs(conversation_id),
            self._keys.attention(bucket_of(conversation_id)),
        ]
        args, tail_bytes = redis_values.append_args(conversation_id, self._keys.prefix(conversation_id), write, self.payloads)
        await self._raise_indexes()
        await self._note_encryption()
        answer = await self._script("append", keys, args)
        match answer[0]:
            case b"fenced":
                raise Fenced(conversation_id)
            case b"known":
                known = {
                    key.decode(): self.payloads.open_known(conversation_id, key.decode(), value)
                    for key, value in zip(answer[2::2], answer[3::2], strict=True)
                }
                return KnownIds(now=int(answer[1]), known=known)
        return Appended(now=int(answer[1]), tail_bytes=tail_bytes)

    async def renew(self, conversation_id: str, token: str, lease_ms: int) -> int:
        """See `Store.renew`."""
        keys = [self._keys.head(conversation_id), self._keys.attention(bucket_of(conversation_id))]
        answer = await self._script("renew", keys, [token, lease_ms, conversation_id])
        if answer[0] == b"fenced":
            raise Fenced(conversation_id)
        return int(answer[1])

    async def release(self, conversation_id: str, token: str, *, paused: bool = False) -> None:
        """See `Store.release`."""
        log, bucket = self._keys.log(conversation_id), bucket_of(conversation_id)
        keys = [self._keys.head(conversation_id), self._keys.attention(bucket), log, f"{log}:copy", self._keys.paused(bucket)]
        await self._script("release", keys, [token, conversation_id, int(paused)])

    async def strike(self, conversation_id: str, token: str, *, process: str, reason: str, limit: int) -> int | None:
        """See `Store.strike`."""
        keys = [self._keys.head(conversation_id), self._keys.attention(bucket_of(conversation_id))]
        prefix = self._keys.prefix(conversation_id)
        await self._raise_indexes()
        text = self.payloads.seal_text(reason, "quarantine", conversation_id)
        answer = await self._script("strike", keys, [token, process, limit, text, conversation_id, prefix])
        if answer[0] == b"fenced":
            raise Fenced(conversation_id)
        return None if answer[2] else int(answer[1])

    async def retry(self, conversation_id: str) -> bool:
        """See `Store.retry`."""
        keys = [self._keys.head(conversation_id), self._keys.attention(bucket_of(conversation_id))]
        await self._raise_indexes()
        answer = await self._script("retry", keys, [conversation_id, self._keys.prefix(conversation_id)])
        return bool(answer[0] == b"ok")

    async def quarantine(self, conversation_id: str) -> Quarantine | None:
        """See `Store.quarantine`."""
        fields = ["quarantine", "quarantined_at"]
        with naming(conversation_id):
            reason, at = await self._do(lambda: self._redis.hmget(self._keys.head(conversation_id), fields))
            return redis_values.quarantine_of(conversation_id, reason, at, self.payloads)

    # -- runs ---------------------------------------------------------------------------------------------------------

    async def claim(
        self, conversation_id: str, effect_id: str, *, incarnation: str, worker: str, until: int | None = None
    ) -> bool:
        """See `Store.claim`."""
        args: list[str | bytes | int] = [effect_id, incarnation, worker, "" if until is None else until]
        answer = await self._script("claim", [self._keys.runs(conversation_id)], args)
        return bool(answer[0] == b"ok")

    async def finish(self, conversation_id: str, effect_id: str, *, incarnation: str, outcome: bytes) -> bool:
        """See `Store.finish`."""
        keys = [self._keys.runs(conversation_id), self._keys.late(conversation_id), self._keys.log(conversation_id)]
        sealed = self.payloads.seal_outcome(conversation_id, effect_id, outcome)
        answer = await self._script("finish", keys, [effect_id, incarnation, sealed])
        return bool(answer[0] == b"ok")

    async def late(self, conversation_id: str) -> Mapping[str, Late]:
        """See `Store.late`."""
        found = await self._do(lambda: self._redis.hgetall(self._keys.late(conversation_id)))
        return {
            name: redis_values.late_of(conversation_id, name, record, self.payloads)
            for name, record in ((effect_id.decode(), record) for effect_id, record in found.items())
        }

    async def run(self, conversation_id: str, effect_id: str) -> Run | None:
        """See `Store.run`."""
        record = await self._do(lambda: self._redis.hget(self._keys.runs(conversation_id), effect_id))
        return redis_values.run_of(conversation_id, effect_id, record, self.payloads) if record is not None else None

    # -- reading ------------------------------------------------------------------------------------------------------

    async def load(self, conversation_id: str) -> State:
        """See `Store.load`."""
        keys = [self._keys.head(conversation_id), self._keys.log(conversation_id)]
        with naming(conversation_id):
            _, seq, snapshot, tail = await self._script("load", keys, [])
            if int(seq) == 0:
                raise ConversationNotFound(conversation_id)
            return redis_values.fold(conversation_id, snapshot, tail, int(seq), self.payloads)

    async def read(
        self, conversation_id: str, *, after: int, limit: int = 500, block_ms: int = 0
    ) -> Sequence[tuple[int, Event]]:
        """See `Store.read`."""
        log = self._keys.log(conversation_id)
        with naming(conversation_id):
            if block_ms:
                got = await self._do(
                    lambda: self._bounded(block_ms, self._blocking.xread({log: f"{after}-0"}, limit, block_ms))
                )
                entries = got[0][1] if got else []
            else:
                entries = await self._do(lambda: self._redis.xrange(log, min=f"{after + 1}-0", count=limit))
            found = [(redis_values.seq_of(entry_id), fields) for entry_id, fields in entries]
            return [(seq, redis_values.event_of(conversation_id, seq, fields, self.payloads)) for seq, fields in found]

    async def at(self, conversation_id: str, seqs: Sequence[int]) -> Sequence[Event | None]:
        """See `Store.at`."""
        return raised(await self._entries([(conversation_id, seq) for seq in seqs]))

    async def pending(
        self, *, limit: int, after: str | None = None, agent: str | None = None, kind: SuspensionKind | None = None
    ) -> Listing:
        """See `Store.pending`."""
        members, more = await self._page(
            lambda bucket: self._keys.pending(bucket, agent, kind), limit, pages.pending_after(after)
        )
        places = [pages.pending_place(member) for member in members]
        views = iter(await self._views([place for place in places if place is not None]))
        rows = [
            next(views) if place is not None else unreadable_call(PendingPlace(), unreadable_member(member, "pending calls"))
            for member, place in zip(members, places, strict=True)
        ]
        return Listing(rows, pages.cursor_of(members[-1], readable=places[-1] is not None) if more else None)

    async def pending_of(self, conversation_id: str) -> Sequence[PendingView]:
        """See `Store.pending_of`."""
        state = await self.load(conversation_id)
        return await self._views(
            [
                PendingPlace(conversation_id, one.seq, one.suspension_id, one.created_at)
                for one in (call.suspension for call in state.calls)
                if one is not None
            ]
        )

    async def conversations(
        self, *, limit: int, after: str | None = None, agent: str | None = None, status: Status | None = None
    ) -> Listing:
        """See `Store.conversations`."""
        members, more = await self._page(
            lambda bucket: self._keys.conversations(bucket, agent, status), limit, pages.conversations_after(after)
        )
        places = [pages.conversation_place(member) for member in members]
        heads = iter(await self._heads([place[1] for place in places if place is not None], ["index", "at"]))
        rows = [
            unreadable_row("", 0, unreadable_member(member, "conversations")) if place is None else _row(*place, next(heads))
            for member, place in zip(members, places, strict=True)
        ]
        return Listing(rows, pages.cursor_of(members[-1], readable=places[-1] is not None) if more else None)

    async def attention(self, limit: int) -> Due:
        """See `Store.attention`."""
        now = await self.now()

        async def read() -> Any:
            async with self._redis.pipeline(transaction=False) as pipe:
                for bucket in range(BUCKETS):
                    pipe.zrangebyscore(self._keys.attention(bucket), "-inf", now, start=0, num=limit)
                return await pipe.execute(raise_on_error=False)

        found = redis_values.readable(await self._do(read))  # one bucket that cannot be read is no reason to leave the others
        return Due(now, [member.decode() for members in found for member in members])

    async def reindex(self) -> AsyncIterator[Rebuilt]:
        """See `Store.reindex`."""
        await self._script("raise", [self._keys.meta("layout")], [redis_values.INDEX_VERSION])
        rebuild = IndexRebuild(self._redis, self._keys, script=self._script, load=self.load)
        async with translated():
            async for rebuilt in rebuild.run():
                yield rebuilt

    # -- live events --------------------------------------------------------------------------------------------------

    async def keep_progress(self, conversation_id: str, effect_id: str, payload: bytes) -> bool:
        """See `Store.keep_progress`."""
        keys = [self._keys.runs(conversation_id), self._keys.progress(conversation_id)]
        sealed = self.payloads.seal(payload, "progress", conversation_id, effect_id)
        answer = await self._script("progress", keys, [effect_id, sealed, PROGRESS_MS])
        return bool(answer[0] == b"ok")

    async def progress(self, conversation_id: str) -> Mapping[str, bytes]:
        """See `Store.progress`."""
        found = await self._do(lambda: self._redis.hgetall(self._keys.progress(conversation_id)))
        return {
            name: self.payloads.open_or_leave(payload, "progress", conversation_id, name)
            for name, payload in ((effect_id.decode(), payload) for effect_id, payload in found.items())
        }

    async def publish(self, conversation_id: str, payload: bytes) -> None:
        """See `Store.publish`."""
        sealed = self.payloads.seal(payload, "live", conversation_id)
        async with translated():
            await self._redis.publish(self._keys.live(conversation_id), sealed)

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
                    yield self.payloads.open_or_leave(message["data"], "live", conversation_id)
        finally:
            await pubsub.aclose()

    # -- how --------------------------------------------------------------------------------------------------------

    async def _page(self, key: Callable[[int], str], limit: int, after: str) -> tuple[list[str], bool]:
        pages.check_limit(limit)
        start = f"({after}".encode("latin-1") if after else "-"

        async def fetch(buckets: Sequence[int], cap: int) -> list[list[str]]:
            async def read() -> Any:
                async with self._redis.pipeline(transaction=False) as pipe:
                    for bucket in buckets:
                        pipe.zrangebylex(key(bucket), start, "+", start=0, num=cap)
                    return await pipe.execute()

            return [[member.decode("latin-1") for member in members] for members in await self._do(read)]

        return await pages.merge(fetch, limit)

    async def _entries(self, places: Sequence[tuple[str, int]]) -> list[Entry]:
        """What stands at places in logs; what cannot be read is an error in its place.

        A place that is asked for many times, as the source of many calls is, is read once.
        """
        once = list(dict.fromkeys(places))

        def fill(pipe: Any) -> None:
            for conversation_id, seq in once:
                pipe.xrange(self._keys.log(conversation_id), min=f"{seq}-0", max=f"{seq}-0")

        found = zip(once, await self._each(fill), strict=True)
        by_place = {place: self._entry(place, one) for place, one in found}
        return [by_place[place] for place in places]

    async def _heads(self, conversation_ids: Sequence[str], fields: Sequence[str]) -> list[Any]:
        once = list(dict.fromkeys(conversation_ids))

        def fill(pipe: Any) -> None:
            for conversation_id in once:
                pipe.hmget(self._keys.head(conversation_id), fields)

        by_name = dict(zip(once, await self._each(fill), strict=True))
        return [by_name[conversation_id] for conversation_id in conversation_ids]

    async def _each(self, fill: Callable[[Any], None]) -> list[Any]:
        """The answers to a pipeline of reads; a key of the wrong type spoils its own answer alone."""

        async def read() -> list[Any]:
            async with self._redis.pipeline(transaction=False) as pipe:
                fill(pipe)
                answers = await pipe.execute(raise_on_error=False) if len(pipe) else []
            for answer in answers:
                if isinstance(answer, Exception) and not is_wrong_type(answer):
                    raise answer
            return [CorruptStore(f"a key has the wrong type ({one})") if isinstance(one, Exception) else one for one in answers]

        return await self._do(read)

    def _entry(self, place: tuple[str, int], found: Any) -> Entry:
        try:
            with naming(place[0]):
                if isinstance(found, StoreError):
                    raise found
                return redis_values.event_of(*place, found[0][1], self.payloads) if found else None
        except StoreError as error:
            return error

    def _runs_of(self, conversation_id: str, records: Sequence[bytes]) -> dict[str, Run]:
        named = [(effect_id.decode(), record) for effect_id, record in zip(records[::2], records[1::2], strict=True)]
        return {name: redis_values.run_of(conversation_id, name, record, self.payloads) for name, record in named}

    async def _views(self, places: Sequence[PendingPlace]) -> list[PendingView]:
        entries = await self._entries([(place.conversation_id, place.seq) for place in places])
        wanted = [
            (place.conversation_id, entry.arguments_at if isinstance(entry, CallSuspended) else 0)
            for place, entry in zip(places, entries, strict=True)
        ]
        sources = await self._entries(wanted)
        heads = await self._heads([place.conversation_id for place in places], ["index", "at"])
        return [
            pending_view(place, _agent(place, head), entry, source)
            for place, head, entry, source in zip(places, heads, entries, sources, strict=True)
        ]


def _row(created_at: int, conversation_id: str, head: Any) -> ConversationRow:
    try:
        if isinstance(head, StoreError):
            raise head
        packed, at = head
        if not packed:
            raise CorruptStore(f"the head of {conversation_id!r} is gone, or says nothing of it")
        return checked_row(redis_values.row_of(conversation_id, packed, at))
    except StoreError as error:
        return unreadable_row(conversation_id, created_at, str(error))


def _agent(place: PendingPlace, head: Any) -> str | StoreError:
    row = _row(place.created_at, place.conversation_id, head)
    return row.agent if row.problem is None else CorruptStore(row.problem)
