"""Rebuilding the indexes: each is a function of State, so it can be made anew from the logs while others go on writing."""

from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from holdfast.conversation import ConversationNotFound, HoldfastError, State, StoreUnavailable

from . import redis_values
from .keys import BUCKETS, Keys, bucket_of
from .store import Rebuilt

AT_ONCE = 500

Script = Callable[[str, list[str], list[str | bytes | int]], Awaitable[list[Any]]]


@dataclass(slots=True)
class _Bucket:
    conversations: list[str] = field(default_factory=list)
    indexes: list[str] = field(default_factory=list)


class IndexRebuild:
    """One rebuild over a namespace. What is appended meanwhile keeps its own entries right, so nobody need be stopped."""

    def __init__(self, redis: Any, keys: Keys, *, script: Script, load: Callable[[str], Awaitable[State]]) -> None:
        self._redis = redis
        self._keys = keys
        self._script = script
        self._load = load

    async def run(self) -> AsyncIterator[Rebuilt]:
        """Rebuild bucket by bucket."""
        survey = await self._survey()
        for bucket in range(BUCKETS):
            problems = []
            for conversation_id in survey[bucket].conversations:
                try:
                    await self._conversation(conversation_id)
                except StoreUnavailable:
                    raise
                except HoldfastError as error:  # one that cannot be read is no reason to leave the others as they are
                    problems.append(f"{conversation_id}: {error}")
            removed = sum([await self._prune(bucket, key) for key in survey[bucket].indexes])
            yield Rebuilt(bucket, len(survey[bucket].conversations) - len(problems), removed, problems)

    async def _survey(self) -> defaultdict[int, _Bucket]:
        """What there is of each bucket: Redis keeps no list of it but the indexes themselves."""
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
        if name.startswith("c:") and name.endswith(":head"):
            conversation_id = name.removeprefix("c:").removesuffix(":head")
            if bucket_of(conversation_id) == bucket:
                found[bucket].conversations.append(conversation_id)
        elif name.split(":")[0] in ("pending", "conversations", "attention"):
            found[bucket].indexes.append(key)

    async def _conversation(self, conversation_id: str) -> None:
        keys = [
            self._keys.head(conversation_id),
            self._keys.log(conversation_id),
            self._keys.attention(bucket_of(conversation_id)),
        ]
        while True:
            try:
                state = await self._load(conversation_id)
            except ConversationNotFound:  # somebody only holds its id, or has given it up
                return
            packed, entries = redis_values.packed_index(state)
            due = "" if entries.due_at is None else entries.due_at
            prefix = self._keys.prefix(conversation_id)
            answer = await self._script("reindex", keys, [conversation_id, prefix, state.seq, packed, int(entries.busy), due])
            if answer[0] == b"ok":
                return

    async def _prune(self, bucket: int, key: str) -> int:
        removed = 0
        attention = int(key == self._keys.attention(bucket))
        async for members in self._members(key):
            answer = await self._script("prune", [key], [self._keys.bucket(bucket), attention, *members])
            removed += int(answer[1])
        return removed

    async def _members(self, key: str) -> AsyncIterator[Sequence[bytes]]:
        cursor = 0
        while True:
            cursor, members = await self._redis.zscan(key, cursor, count=AT_ONCE)
            for start in range(0, len(members), AT_ONCE):
                yield [member for member, _ in members[start : start + AT_ONCE]]
            if not cursor:
                return
