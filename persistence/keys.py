"""The names of Redis keys, and which bucket a conversation belongs to.

Keys of a conversation and of its bucket's indexes share the hash tag `{<namespace>:<bucket>}`, so they share a slot of a Redis
Cluster; keys that belong to no conversation have the hash tag `{<namespace>:meta}`.
"""

import binascii
from dataclasses import dataclass

BUCKETS = 64
STORE_ID = "holdfast:store-id"


def bucket_of(conversation_id: str) -> int:
    """The bucket of a conversation: CRC-16/XMODEM (the one that Redis Cluster uses) of its id, modulo 64."""
    return binascii.crc_hqx(conversation_id.encode(), 0) % BUCKETS


@dataclass(frozen=True, slots=True)
class Keys:
    """The key names of one namespace."""

    namespace: str

    def bucket(self, bucket: int) -> str:
        """The prefix of a bucket's keys."""
        return f"{{{self.namespace}:{bucket:02d}}}:"

    def prefix(self, conversation_id: str) -> str:
        """The prefix of the keys of a conversation's bucket."""
        return self.bucket(bucket_of(conversation_id))

    def head(self, conversation_id: str) -> str:
        """Hash: owner, lease, seq, snapshot, standing in the lists."""
        return f"{self.prefix(conversation_id)}c:{conversation_id}:head"

    def log(self, conversation_id: str) -> str:
        """Stream: the events, with ids `<seq>-0`."""
        return f"{self.prefix(conversation_id)}c:{conversation_id}:log"

    def known(self, conversation_id: str) -> str:
        """Hash: receipts, settled suspensions, call ids used."""
        return f"{self.prefix(conversation_id)}c:{conversation_id}:known"

    def passing(self, conversation_id: str) -> str:
        """Hash: receipts of requests that changed nothing, as many as may be; it expires."""
        return f"{self.prefix(conversation_id)}c:{conversation_id}:passing"

    def runs(self, conversation_id: str) -> str:
        """Hash: run records by effect id."""
        return f"{self.prefix(conversation_id)}c:{conversation_id}:runs"

    def late(self, conversation_id: str) -> str:
        """Hash: late outcomes, which came after their call was settled, by effect id."""
        return f"{self.prefix(conversation_id)}c:{conversation_id}:late"

    def abandoned(self, conversation_id: str) -> str:
        """Hash: the claims of runs that went on when their calls were settled, by effect id; it expires."""
        return f"{self.prefix(conversation_id)}c:{conversation_id}:abandoned"

    def progress(self, conversation_id: str) -> str:
        """Hash: the last progress of runs, by effect id; it expires."""
        return f"{self.prefix(conversation_id)}c:{conversation_id}:progress"

    def live(self, conversation_id: str) -> str:
        """Channel: live, lossy events."""
        return f"{self.prefix(conversation_id)}c:{conversation_id}:live"

    def pending(self, bucket: int, agent: str | None, kind: str | None) -> str:
        """Sorted set by name: open suspensions."""
        return f"{self.bucket(bucket)}{_index('pending', agent, kind)}"

    def conversations(self, bucket: int, agent: str | None, status: str | None) -> str:
        """Sorted set by name: conversations."""
        return f"{self.bucket(bucket)}{_index('conversations', agent, status)}"

    def given(self, bucket: int) -> str:
        """Sorted set by name: the conversations in which grants or votes stand."""
        return f"{self.bucket(bucket)}conversations:given"

    def attention(self, bucket: int) -> str:
        """Sorted set by time: when each conversation must be looked at."""
        return f"{self.bucket(bucket)}attention"

    def changes(self, bucket: int) -> str:
        """Stream: the latest changes of the lists."""
        return f"{self.bucket(bucket)}changes"

    def paused(self, bucket: int) -> str:
        """Sorted set by name (`agent|conversation`): conversations released with work outstanding, because of a pause."""
        return f"{self.bucket(bucket)}paused"

    def meta(self, name: str) -> str:
        """The key of that name among those that belong to no conversation."""
        return f"{{{self.namespace}:meta}}:{name}"


def _index(name: str, agent: str | None, other: str | None) -> str:
    match agent, other:
        case None, None:
            return name
        case None, _:
            return f"{name}:x:{other}"
        case _, None:
            return f"{name}:a:{agent}"
        case _:
            return f"{name}:ax:{agent}:{other}"
