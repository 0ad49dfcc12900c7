"""Rebuilding the indexes: they are functions of State, so they can be rebuilt from the logs while conversations go on."""

from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from holdfast.conversation import State
from holdfast.conversation.log.index import pending_entries
from holdfast.errors import (
    CipherFailed,
    CipherMissing,
    ConversationNotFound,
    CorruptStore,
    HoldfastError,
    NewerRecord,
    StoreUnavailable,
)

from . import codec, pages, redis_scripts, redis_values
from .keys import BUCKETS, Keys, bucket_of
from .lists import Rebuilt

AT_ONCE = 500
TRIES = 5
"""How often a member is checked while its conversation keeps changing; then it is left to the next rebuild."""

Script = Callable[[str, Sequence[str], Sequence[str | bytes | int]], Awaitable[list[Any]]]


@dataclass(slots=True)
class _Bucket:
    conversations: list[str] = field(default_factory=list)
    queues: list[tuple[str, str]] = field(default_factory=list)
    indexes: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Waiting:
    """One conversation's open suspensions at a place in its log, as index keys and members."""

    seq: int
    entries: frozenset[tuple[str, bytes]]


class IndexRebuild:
    """One rebuild of a namespace's indexes. Appends keep their own entries right, so no process need stop."""

    def __init__(self, redis: Any, keys: Keys, *, script: Script, load: Callable[[str], Awaitable[State]]) -> None:
        self._redis = redis
        self._keys = keys
        self._script = script
        self._load = load
        self._read: dict[str, _Waiting | None] = {}
        self.complete = True
        """Whether it left no conversation out that another process could read."""

    async def run(self) -> AsyncIterator[Rebuilt]:
        """Rebuild the indexes bucket by bucket, and report each bucket."""
        survey = await self._survey()
        for bucket in range(BUCKETS):
            problems = []
            self._read.clear()
            for conversation_id in survey[bucket].conversations:
                try:
                    await self._conversation(conversation_id)
                except StoreUnavailable:
                    raise
                except HoldfastError as error:  # one unreadable conversation must not stop the rebuild
                    problems.append(f"{conversation_id}: {error}")
                    self.complete &= not isinstance(error, CipherFailed | CipherMissing | NewerRecord)
            for conversation_id, target in survey[bucket].queues:
                try:
                    await self._script(
                        "requeue", [self._keys.owed(bucket)], [self._keys.bucket(bucket), conversation_id, target]
                    )
                except CorruptStore as error:
                    problems.append(f"{conversation_id}: {error}")
            removed = sum([await self._prune(bucket, key) for key in survey[bucket].indexes])
            yield Rebuilt(bucket, len(survey[bucket].conversations) - len(problems), removed, problems)

    async def _survey(self) -> defaultdict[int, _Bucket]:
        """The conversations and index keys of each bucket, found by a key scan, since only the indexes list conversations."""
        found: defaultdict[int, _Bucket] = defaultdict(_Bucket)
        prefix = self._keys.bucket(0).partition(":")[0]
        cursor = 0
        while True:
            cursor, keys = await self._redis.scan(cursor, match=f"{prefix}:[0-9][0-9]}}:*", count=1000)
            for key in keys:
                self._sort_in(found, key.decode("utf-8", "replace"))
            if not cursor:
                return found

    def _sort_in(self, found: defaultdict[int, _Bucket], key: str) -> None:
        tag, _, name = key.partition("}:")
        bucket = int(tag[-2:])
        whose, queue, target = name.removeprefix("c:").partition(":owed|")
        if name.startswith("c:") and queue:
            if bucket_of(whose) == bucket:
                found[bucket].queues.append((whose, target))
        elif name.startswith("c:") and name.endswith(":head"):
            conversation_id = name.removeprefix("c:").removesuffix(":head")
            if bucket_of(conversation_id) == bucket:
                found[bucket].conversations.append(conversation_id)
        elif name.split(":")[0] in ("pending", "conversations", "attention"):
            found[bucket].indexes.append(key)

    async def _conversation(self, conversation_id: str) -> None:
        keys = self._keys.of(conversation_id, redis_scripts.keys("reindex"))
        while True:
            try:
                state = await self._load(conversation_id)
            except ConversationNotFound:  # not started: an activation holds the id, or has given it up
                return
            self._read[conversation_id] = self._waiting(state)
            due = state.due_at
            args: list[str | bytes | int] = [
                conversation_id,
                self._keys.prefix(conversation_id),
                state.seq,
                redis_values.packed_index(state),
                int(state.busy),
                "" if due is None else due,
                codec.pack(redis_values.members_of(conversation_id, pending_entries(state))),
            ]
            answer = await self._script("reindex", keys, args)
            if answer[0] == b"ok":
                return

    async def _prune(self, bucket: int, key: str) -> int:
        name = key.partition("}:")[2].split(":")[0]
        removed = 0
        async for members in self._members(key):
            if name == "pending":
                removed += await self._prune_pending(bucket, key, members)
            else:
                answer = await self._script("prune", [key], [self._keys.bucket(bucket), name, *members])
                removed += int(answer[1])
        return removed

    async def _prune_pending(self, bucket: int, key: str, members: Sequence[bytes]) -> int:
        """Remove members that are no open suspension of a state, unless the log has moved past that state."""
        removed = 0
        for _ in range(TRIES):
            suspects: list[str | bytes | int] = []
            for member in members:
                seq = await self._suspected(key, member)
                suspects += [] if seq is None else [member, seq]
            if not suspects:
                return removed
            answer = await self._script("prune", [key], [self._keys.bucket(bucket), "pending", *suspects])
            removed += int(answer[1])
            if not int(answer[2]):
                return removed
            members = [member for member in suspects[::2] if isinstance(member, bytes)]
            for member in members:  # its conversation has changed: the suspension may be open by now
                self._read.pop(_conversation_of(member), None)
        return removed

    async def _suspected(self, key: str, member: bytes) -> int | None:
        """The log place whose state lacks this open suspension; None if it is open, or the state is unreadable."""
        conversation_id = _conversation_of(member)
        if conversation_id not in self._read:
            try:
                self._read[conversation_id] = self._waiting(await self._load(conversation_id))
            except StoreUnavailable:
                raise
            except ConversationNotFound:
                self._read[conversation_id] = _Waiting(0, frozenset())
            except HoldfastError:
                self._read[conversation_id] = None
        waiting = self._read[conversation_id]
        return None if waiting is None or (key, member) in waiting.entries else waiting.seq

    def _waiting(self, state: State) -> _Waiting:
        prefix = self._keys.prefix(state.conversation_id)
        found = pages.pending_members(state.conversation_id, state.agent, pending_entries(state))
        return _Waiting(state.seq, frozenset((f"{prefix}{name}", member.encode()) for name, member in found))

    async def _members(self, key: str) -> AsyncIterator[Sequence[bytes]]:
        cursor = 0
        while True:
            cursor, members = await self._redis.zscan(key, cursor, count=AT_ONCE)
            for start in range(0, len(members), AT_ONCE):
                yield [member for member, _ in members[start : start + AT_ONCE]]
            if not cursor:
                return


def _conversation_of(member: bytes) -> str:
    parts = member.decode("utf-8", "replace").split("|")
    return parts[2] if len(parts) in (3, 4) else ""  # as `pages` writes the members of every pending index
