"""What conversations owe, as the store in memory keeps it."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from holdfast.conversation.log.owed import Envelope


@dataclass(slots=True)
class Queue:
    """What a conversation owes one target, in order; the lease and the tries of the first envelope. Times in ms UTC."""

    due_at: int
    envelopes: list[Envelope] = field(default_factory=list)
    nonce: str = ""
    leased: Envelope | None = None
    tries: int = 0
    since: int | None = None
    reason: bytes = b""


@dataclass(frozen=True, slots=True)
class Aside:
    """An envelope that was set aside, when (ms UTC) and why."""

    conversation_id: str
    envelope: Envelope
    at: int
    reason: bytes


class Queues:
    """The queues by conversation and target, the envelopes that were set aside, and those who are told of news."""

    def __init__(self) -> None:
        self.queues: dict[tuple[str, str], Queue] = {}
        self.aside: list[Aside] = []
        self.listeners: list[asyncio.Queue[None]] = []

    def owe(self, conversation_id: str, envelopes: Sequence[Envelope], now: int) -> None:
        """Put envelopes last into their queues; those without a time are owed from now on."""
        for one in envelopes:
            queue = self.queues.setdefault((conversation_id, one.target), Queue(due_at=now))
            queue.envelopes.append(one if one.at else replace(one, at=now))
            queue.envelopes.sort(key=lambda envelope: (envelope.seq, envelope.n))
        self.tell()

    def tell(self) -> None:
        """Tell the listeners that there is something to deliver."""
        for listener in self.listeners:
            listener.put_nowait(None)
