"""The patience of an actor: how long it waits for work that a worker keeps before it goes on offer to other conversations."""

from collections import deque

HOLD_MS = 250
"""How long an actor keeps a conversation whose work ends soon: to leave it and to be taken for it again costs more."""
OFFER_AFTER_MS = 5
"""How long a conversation must have come to rest, at least, before its actor goes on offer."""
REMEMBERED = 16
TRIED = 32
"""Of how many waits one is held in any case, while most work goes on for longer: else nothing would show that it does not."""
TELLING = REMEMBERED // 2
"""For how many waits a short one counts while most were long: of those that are cut off, nobody knows how long they were."""


class Patience:
    """What one process has seen of the work that workers kept: whether most of it was over within `HOLD_MS`."""

    def __init__(self) -> None:
        self._long: deque[bool] = deque(maxlen=REMEMBERED)
        self._waits = 0

    def hold_ms(self) -> int:
        """How long the wait that begins now is held before the actor goes on offer."""
        self._waits += 1
        return OFFER_AFTER_MS if self._most_are_long and self._waits % TRIED else HOLD_MS

    def waited(self, for_ms: int, *, over: bool) -> None:
        """Note a wait: how long it was, and whether the work was over then; a short one that was cut off says nothing."""
        if for_ms >= HOLD_MS:
            self._long.append(True)
        elif over:
            self._long.extend([False] * (TELLING if self._most_are_long else 1))

    @property
    def _most_are_long(self) -> bool:
        return 2 * sum(self._long) > len(self._long)
