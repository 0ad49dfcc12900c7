"""The names of Redis keys, and the bucket of a conversation.

Keys of a conversation and of its bucket's indexes share the hash tag `{<namespace>:<bucket>}`, and so a slot of a Redis
Cluster; keys that belong to no conversation have the hash tag `{<namespace>:meta}`.
"""

import binascii
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

BUCKETS = 64
STORE_ID = "holdfast:store-id"


def bucket_of(conversation_id: str) -> int:
    """The bucket of a conversation: CRC-16/XMODEM (the one that Redis Cluster uses) of its id, modulo 64."""
    return binascii.crc_hqx(conversation_id.encode(), 0) % BUCKETS


def _of_conversation(name: str) -> Callable[["Keys", str], str]:
    return lambda keys, conversation_id: f"{keys.prefix(conversation_id)}c:{conversation_id}:{name}"


def _of_bucket(name: str) -> Callable[["Keys", int], str]:
    return lambda keys, bucket: f"{keys.bucket(bucket)}{name}"


@dataclass(frozen=True, slots=True)
class Keys:
    """The key names of one namespace."""

    namespace: str

    # Of a conversation, by its id.
    head = _of_conversation("head")  # hash: owner, lease, seq, snapshot, entry in the lists
    log = _of_conversation("log")  # stream: the events, with ids `<seq>-0`
    copy = _of_conversation("log:copy")  # stream: the log while it is copied, else absent
    known = _of_conversation("known")  # hash: receipts, settled suspensions, call ids used
    passing = _of_conversation("passing")  # hash: receipts of requests that changed nothing (bounded); it expires
    runs = _of_conversation("runs")  # hash: run records by effect id
    late = _of_conversation("late")  # hash: outcomes that came after their call was settled, by effect id
    abandoned = _of_conversation("abandoned")  # hash: claims of runs that outlived their settled calls; it expires
    progress = _of_conversation("progress")  # hash: the last progress of runs, by effect id; it expires
    tries = _of_conversation("owed")  # hash: the lease and tries of the first envelope of each queue of the outbox, by target
    clients = _of_conversation("clients")  # hash: the attached clients, by a digest of their name
    here = _of_conversation("here")  # sorted set by time: until when clients are present
    live = _of_conversation("live")  # channel: live, lossy events

    # Of a bucket, by its number.
    given = _of_bucket("conversations:given")  # sorted set by name: the conversations with grants or votes
    stopped = _of_bucket("conversations:stopped")  # sorted set by name: the conversations whose last turn was stopped
    attention = _of_bucket("attention")  # sorted set by time: when each conversation needs attention
    changes = _of_bucket("changes")  # stream: the latest changes of the lists
    owed = _of_bucket("owed")  # sorted set by time: when each lane of the outbox has something to deliver
    aside = _of_bucket("aside")  # hash: why envelopes of the outbox were set aside
    paused = _of_bucket("paused")  # sorted set by name (`agent|conversation`): released as paused, with outstanding work

    def bucket(self, bucket: int) -> str:
        """The prefix of a bucket's keys."""
        return self.every_bucket % bucket

    @property
    def every_bucket(self) -> str:
        """The prefix of a bucket's keys, with %02d for its number."""
        return f"{{{self.namespace}:%02d}}:"

    def prefix(self, conversation_id: str) -> str:
        """The prefix of the keys of a conversation's bucket."""
        return self.bucket(bucket_of(conversation_id))

    def pending(self, bucket: int, agent: str | None = None, kind: str | None = None) -> str:
        """Sorted set by name: open suspensions."""
        return f"{self.bucket(bucket)}{index_name('pending', agent, kind)}"

    def conversations(self, bucket: int, agent: str | None = None, status: str | None = None) -> str:
        """Sorted set by name: conversations."""
        return f"{self.bucket(bucket)}{index_name('conversations', agent, status)}"

    def spent(self, bucket: int, agent: str, day: int) -> str:
        """Hash: what an agent's turns have used on a day (in days since 1970), in this bucket's conversations; it expires."""
        return f"{self.bucket(bucket)}spent:{agent}:{day}"

    def lane(self, bucket: int, name: str, lane: str) -> str:
        """Sorted set by time, of a lane of the outbox: `owed` and `owing` hold queues, `aside` envelopes."""
        return f"{self.bucket(bucket)}{name}:{lane}"

    def queue(self, conversation_id: str, target: str) -> str:
        """Sorted set by place in the log: what a conversation owes a target. No id has a `|`, so no other key has this name."""
        return f"{self.tries(conversation_id)}|{target}"

    def meta(self, name: str) -> str:
        """A key that belongs to no conversation, by name."""
        return f"{{{self.namespace}:meta}}:{name}"

    @lru_cache(1024)  # noqa: B019 - it keeps names, and no store
    def of(self, conversation_id: str, names: tuple[str, ...]) -> Sequence[str]:
        """These keys of a conversation and its bucket, in this order."""
        bucket = bucket_of(conversation_id)
        return [getattr(self, name)(bucket if name in {"attention", "owed", "paused"} else conversation_id) for name in names]


def index_name(name: str, agent: str | None, other: str | None) -> str:
    """The name of the index of all, of an agent, of a kind or status, or of both."""
    match agent, other:
        case None, None:
            return name
        case None, _:
            return f"{name}:x:{other}"
        case _, None:
            return f"{name}:a:{agent}"
        case _:
            return f"{name}:ax:{agent}:{other}"
