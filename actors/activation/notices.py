"""Notices: observers are told that a suspension opened or settled, once the log entry about it is durable.

A notice comes once or never: if the process dies after the append, or the append's outcome is unknown, nobody is told. What
must not be lost is in the append itself, or found in the log by `seq`.
"""

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from holdfast.conversation import Command
from holdfast.conversation.records.calls import Call
from holdfast.conversation.records.events import CallSuspended, SuspensionSettled
from holdfast.persistence import Append

logger = logging.getLogger("holdfast.actor")


@dataclass(frozen=True, slots=True)
class Notice:
    """A suspension that opened or settled: its event, at `seq` of the log, the call `before` the write, if any."""

    conversation_id: str
    agent: str
    seq: int
    event: CallSuspended | SuspensionSettled
    before: Call | None
    command: Command


class Observer(Protocol):
    """An object that is told of suspensions."""

    def told(self, notice: Notice) -> None:
        """Take a notice and return at once, since the turn waits for that: slow work belongs in a task of its own."""


def tell(observers: Iterable[Observer], write: Append, command: Command) -> None:
    """Tell all observers of the suspensions that a durable write opened and settled; an observer's error is only logged."""
    for seq, event in enumerate(write.events, write.before.seq + 1):
        if isinstance(event, CallSuspended | SuspensionSettled):
            before = write.before.calls.of(event.tool_call_id)
            notice = Notice(write.after.conversation_id, write.after.agent, seq, event, before, command)
            for observer in observers:
                try:
                    observer.told(notice)
                except Exception:
                    logger.exception("conversation %s: entry %d: an observer failed", notice.conversation_id, seq)
