"""What an activation wrote since the model last answered: handed to the worker, so that it need not read it back."""

import uuid
from collections.abc import Sequence

from holdfast.actors.memory import footprint
from holdfast.conversation import Event
from holdfast.conversation.events import ModelAnswered

MOST = 64
"""More events than this the worker reads itself."""
MOST_BYTES = 1 << 20
"""More than about this the worker reads itself, too."""


class LogTail:
    """The end of one log, from the model's last answer on, as far as this activation wrote it."""

    def __init__(self) -> None:
        self.lineage = uuid.uuid4().hex
        """Names the log as this activation knows it: its appends are compare-and-set, so it has no other meanwhile."""
        self._seq = 0
        self._events: list[Event] = []
        self._sizes: list[int] = []

    def add(self, seq: int, events: Sequence[Event]) -> None:
        """Keep events that are durable; the last stands at `seq`."""
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
        """The events that end at `seq`; none where that is not the end."""
        return tuple(self._events) if seq == self._seq else ()
