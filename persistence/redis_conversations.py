"""The store's verbs for one conversation, in Redis."""

import asyncio
import contextlib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import astuple
from typing import Any

from holdfast.conversation import Event, State
from holdfast.conversation.records.idempotency import IdempotencyRecord
from holdfast.errors import (
    CipherFailed,
    CipherMissing,
    ConversationNotFound,
    Fenced,
    LeaseHeld,
    NewerRecord,
    Quarantined,
    StoreError,
)

from . import codec, redis_values
from .conversations import (
    FEW_CLAIMS,
    Acquired,
    Append,
    Appended,
    Blame,
    KnownIds,
    Moved,
    Owner,
    Quarantine,
    Takeover,
    Visited,
)
from .lists import PAGE_BYTES
from .redis_changes import RedisChanges
from .runs import Run
from .views import naming

logger = logging.getLogger("holdfast.persistence")

MOST_BLOCKED = 16
"""The most readers of a process that block on the server for news of a conversation."""


class RedisConversations(RedisChanges):
    """The verbs of `Conversations`, in Redis."""

    async def owner(self, conversation_id: str) -> Owner | None:
        key = self._keys.head(conversation_id)
        fields = ["token", "epoch", "holder", "seq", "quarantine", "quarantined_at"]
        with naming(conversation_id):
            token, epoch, holder, seq, reason, at = await self._do(lambda: self._redis.hmget(key, fields))
            started = codec.number_of(seq or b"0", "the head's seq") > 0
            if not started and not token:
                return None
            return Owner(
                (token or b"").decode(errors="replace"),
                codec.number_of(epoch or b"0", "the head's epoch"),
                (holder or b"").decode(errors="replace"),
                started=started,
                quarantine=redis_values.quarantine_of(conversation_id, reason, at, self.payloads),
            )

    async def acquire(self, conversation_id: str, takeover: Takeover) -> Acquired | Moved:
        opens = self.payloads.cipher is not None
        answer = await self._on(conversation_id, "acquire", *astuple(takeover), conversation_id, codec.VERSION, opens)
        match answer[0]:
            case b"missing":
                raise ConversationNotFound(conversation_id)
            case b"busy":
                raise LeaseHeld(conversation_id, int(answer[1]))
            case b"moved":
                return Moved(Owner(token=answer[1].decode(), epoch=int(answer[2]), actor=answer[3].decode()))
            case b"quarantined":
                reason = self.payloads.open_text(answer[1], "quarantine", conversation_id)
                raise Quarantined(conversation_id, reason, int(answer[2]))
            case b"sealed":
                raise CipherMissing(f"conversation {conversation_id!r}")
            case b"newer":
                raise NewerRecord(answer[1].decode(), int(answer[2]), codec.VERSION)
        _, epoch, now, seq, snapshot, runs, tail, crash_count, max_claims = answer
        try:
            state = redis_values.fold(conversation_id, snapshot, tail, int(seq), self.payloads)
            records = self._runs_of(conversation_id, runs)
        except CipherFailed:
            with contextlib.suppress(StoreError):  # a process with the cipher need not wait for this lease to end
                await self.release(conversation_id, takeover.new_token)
            raise
        return Acquired(
            epoch=int(epoch),
            now=int(now),
            state=state,
            runs=records,
            blame=Blame(int(crash_count), int(max_claims)),
            tail_bytes=redis_values.size_of(tail),
        )

    async def finish_as_guest(
        self, conversation_id: str, effect_id: str, *, incarnation: str, outcome: bytes, keeps_late: bool, look_ms: int
    ) -> Visited | bool:
        sealed = self.payloads.seal_outcome(conversation_id, effect_id, outcome)
        args = effect_id, incarnation, sealed, keeps_late, conversation_id, self._keys.meta("outcomes")
        opens = self.payloads.cipher is not None
        said, *read = await self._on(conversation_id, "finish", *args, look_ms, codec.VERSION, opens)
        if said != b"visit":
            return bool(said == b"ok")
        return self._visited(conversation_id, read) or await self._did(conversation_id, "finish", *args)

    async def visit(self, conversation_id: str, *, most_bytes: int) -> Visited | None:
        opens = self.payloads.cipher is not None
        said, *read = await self._on(conversation_id, "visit", codec.VERSION, opens, most_bytes)
        return self._visited(conversation_id, read) if said == b"visit" else None

    def _visited(self, conversation_id: str, read: Sequence[Any]) -> Visited | None:
        now, seq, snapshot, append_id, tail = read
        try:
            state = redis_values.fold(conversation_id, snapshot, tail, int(seq), self.payloads)
        except StoreError as error:
            logger.warning("%s has no guest: %s", conversation_id, error)
            return None
        return Visited(int(now), state, append_id.decode(), redis_values.size_of(tail))

    async def append(self, conversation_id: str, write: Append) -> Appended | KnownIds:
        told, tail_bytes = redis_values.append_args(conversation_id, self._keys.prefix(conversation_id), write, self.payloads)
        if write.owed:
            told["courier"] = self._keys.meta("owed")
        await self._raise_indexes()
        if self.payloads.cipher is not None:
            await self._note_encryption()
        answer = await self._on(conversation_id, "append", codec.pack_raw(told))
        match answer[0]:
            case b"fenced":
                raise Fenced(conversation_id)
            case b"known":
                known = {
                    key.decode(): self.payloads.open_known(conversation_id, key.decode(), value)
                    for key, value in zip(answer[2::2], answer[3::2], strict=True)
                }
                return KnownIds(now=int(answer[1]), known=known)
        removed = self._runs_of(conversation_id, answer[2:])
        return Appended(now=int(answer[1]), tail_bytes=tail_bytes, removed=removed)

    async def renew(self, conversation_id: str, token: str, lease_ms: int) -> int:
        answer = await self._on(conversation_id, "renew", token, lease_ms, conversation_id)
        if answer[0] == b"fenced":
            raise Fenced(conversation_id)
        return int(answer[1])

    async def release(self, conversation_id: str, token: str, *, paused: bool = False, look_ms: int = 0) -> None:
        channel = self._keys.meta("outcomes")
        await self._on(conversation_id, "release", token, conversation_id, paused, look_ms, channel)

    async def look(self, conversation_id: str, look_ms: int) -> Sequence[Run]:
        _, *records = await self._on(conversation_id, "look", conversation_id, look_ms)
        return [redis_values.run_of(conversation_id, "", record, self.payloads) for record in records]

    async def strike(
        self, conversation_id: str, token: str, *, process: str, reason: str, limit: int, claims: int = 1
    ) -> Blame | None:
        await self._raise_indexes()
        text = self.payloads.seal_text(reason, "quarantine", conversation_id)
        known = conversation_id, self._keys.prefix(conversation_id), claims, FEW_CLAIMS, self._keys.meta("owed")
        answer = await self._on(conversation_id, "strike", token, process, limit, text, *known)
        if answer[0] == b"fenced":
            raise Fenced(conversation_id)
        return None if answer[2] else Blame(int(answer[1]), int(answer[3]))

    async def retry(self, conversation_id: str) -> bool:
        await self._raise_indexes()
        return await self._did(conversation_id, "retry", conversation_id, self._keys.prefix(conversation_id))

    async def quarantine(self, conversation_id: str) -> Quarantine | None:
        fields = ["quarantine", "quarantined_at"]
        with naming(conversation_id):
            reason, at = await self._do(lambda: self._redis.hmget(self._keys.head(conversation_id), fields))
            return redis_values.quarantine_of(conversation_id, reason, at, self.payloads)

    async def known(self, conversation_id: str, keys: Sequence[str]) -> Mapping[str, IdempotencyRecord]:
        if not keys:
            return {}

        places = self._keys.of(conversation_id, ("known", "passing"))
        found = await self._pipe(lambda pipe: [pipe.hmget(place, list(keys)) for place in places], atomic=True)
        return {
            key: self.payloads.open_known(conversation_id, key, stays or passing)
            for key, stays, passing in zip(keys, *found, strict=True)
            if stays or passing
        }

    async def load(self, conversation_id: str) -> State:
        with naming(conversation_id):
            _, seq, snapshot, tail = await self._joined(conversation_id, "load")
            if int(seq) == 0:
                raise ConversationNotFound(conversation_id)
            return redis_values.fold(conversation_id, snapshot, tail, int(seq), self.payloads)

    async def read(
        self, conversation_id: str, *, after: int = 0, before: int = 0, limit: int = 500, block_ms: int = 0, whole: bool = False
    ) -> Sequence[tuple[int, Event]]:
        with naming(conversation_id):
            entries: list[tuple[bytes, Any]] = []
            if block_ms:
                entries = await self._repeated(  # a blocking read: its duration is not counted
                    lambda: self._read_later(conversation_id, after, limit, block_ms), waits=True
                )
            elif whole:
                entries = await self._read_now(conversation_id, after, limit)
            else:
                begin = max(before - 1, 0) if before else after + 1
                args = f"{begin}-0", limit, PAGE_BYTES, before > 0
                _, *entries = await self._on(conversation_id, "log_page", *args)
            found = [redis_values.entry_of(conversation_id, entry_id, fields, self.payloads) for entry_id, fields in entries]
            return found[::-1] if before else found

    async def _read_now(self, conversation_id: str, after: int, limit: int) -> Any:
        log = self._keys.log(conversation_id)
        return await self._do(lambda: self._redis.xrange(log, min=f"{after + 1}-0", count=limit), room=self._reads)

    async def _read_later(self, conversation_id: str, after: int, limit: int, block_ms: int) -> Any:
        """The log entries after a place, once there is one or `block_ms` are over.

        A few readers block on the server, each on a connection of its own, which takes one round trip. The rest share the
        connection for published messages, as do readers of a conversation that is listened to already.
        """
        live, log = self._keys.live(conversation_id), self._keys.log(conversation_id)
        if self._blocked < MOST_BLOCKED and not self._broadcasts.hears(live):
            self._blocked += 1
            try:
                blocking = self._blocking.xread({log: f"{after}-0"}, count=limit, block=block_ms)
                found = await self._bounded(block_ms, blocking)
            finally:
                self._blocked -= 1
            return found[0][1] if found else []
        until = asyncio.get_running_loop().time() + block_ms / 1000
        async with self._broadcasts.listening(live) as listener:
            entries = await self._read_now(conversation_id, after, limit)
            while not entries:
                try:
                    async with asyncio.timeout_at(until):
                        told = await listener.message()
                except TimeoutError:
                    break
                if told in {None, redis_values.NEWS}:
                    entries = await self._read_now(conversation_id, after, limit)
            return entries

    def _runs_of(self, conversation_id: str, records: Sequence[bytes]) -> dict[str, Run]:
        named = [(effect_id.decode(), record) for effect_id, record in zip(records[::2], records[1::2], strict=True)]
        return {name: redis_values.run_of(conversation_id, name, record, self.payloads) for name, record in named}
