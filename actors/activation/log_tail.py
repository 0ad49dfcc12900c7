"""The log tail: the events that an activation wrote since the model's last answer, sent along with each model request."""

import uuid
from collections.abc import Sequence

from holdfast.actors.memory import footprint
from holdfast.conversation import Event
from holdfast.conversation.records.events import ModelAnswered

MOST = 64
"""How many events a log tail keeps; the worker reads earlier ones from the store."""
MOST_BYTES = 1 << 20
"""About how many bytes of memory the events of a log tail may take."""


class LogTail:
    """The end of one log since the model's last answer, as far as this activation wrote it."""

    def __init__(self) -> None:
        self.lineage = uuid.uuid4().hex
        """The id of the log as this activation writes it: appends are compare-and-set, so one id never stands for two logs."""
        self._seq = 0
        self._events: list[Event] = []
        self._sizes: list[int] = []

    def add(self, seq: int, events: Sequence[Event]) -> None:
        """Keep durable events; `seq` is the place of the last one."""
        if not events:
            return
        if self._seq != seq - len(events):
            self._events.clear()
        self._seq = seq
        for event in events:
            if isinstance(event, ModelAnswered):
                self._events.clear()
            self._events.append(event)
            self._sizes.append(footprint(event))
        del self._events[:-MOST]
        del self._sizes[: -len(self._events)]
        while sum(self._sizes) > MOST_BYTES:
            del self._sizes[0], self._events[0]

    def upto(self, seq: int) -> tuple[Event, ...]:
        """The events up to `seq`; none if the log tail ends elsewhere."""
        return tuple(self._events) if seq == self._seq else ()
