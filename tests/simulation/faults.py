"""What goes wrong in one simulation: which faults there are and how often, drawn from its seed.

Each kind is absent from about half of the seeds, so that a rare order of events is not always cut short by a crash.
"""

from dataclasses import dataclass
from enum import Enum, auto

PROBLEMS = (ImportError, TimeoutError)
"""What may come of opening the app: it cannot be imported, or its lifespan hangs."""


class Fate(Enum):
    """What becomes of a message or a request."""

    FINE = auto()
    LOST = auto()  # it never arrives; its sender hears "unavailable", or nothing at all
    ANSWER_LOST = auto()  # it arrives and is served; its sender hears "unavailable", or nothing at all
    TWICE = auto()  # it arrives twice; the second answer goes nowhere
    LATE = auto()  # its sender hears "unavailable"; it arrives later


@dataclass(slots=True)
class Chances:
    """How likely each fault is, for one kind of traffic."""

    lost: float = 0.0
    answer_lost: float = 0.0
    twice: float = 0.0
    late: float = 0.0
    slow: float = 0.0
    fates: tuple = ()

    def __post_init__(self):
        self.fates = (
            (Fate.LOST, self.lost),
            (Fate.ANSWER_LOST, self.answer_lost),
            (Fate.TWICE, self.twice),
            (Fate.LATE, self.late),
        )


class Faults:
    """Draws the fate of each message; `calm` ends all that."""

    def __init__(self, rng):
        self._rng = rng
        often = lambda *choices: rng.choice((0.0, *choices))  # noqa: E731
        self.network = Chances(
            lost=often(0.0, 0.02, 0.1),
            answer_lost=often(0.0, 0.02, 0.1),
            twice=often(0.0, 0.05, 0.2),
            slow=often(0.02, 0.1, 0.3),
        )
        self.store = Chances(
            lost=often(0.0, 0.01, 0.05),
            answer_lost=often(0.0, 0.01, 0.05, 0.1),
            late=often(0.0, 0.01, 0.05),
            slow=often(0.0, 0.02, 0.1),
        )
        self._broken = often(0.0, 0.1, 0.4)
        self._calm = Chances()
        self.away_until = 0.0  # when the store answers again
        self.parted = {}  # by caller and callee: when messages get through again

    def calm(self):
        self.network = self.store = self._calm
        self._broken = 0.0
        self.away_until = 0.0
        self.parted.clear()

    def message(self):
        return self._drawn(self.network)

    def request(self):
        return self._drawn(self.store)

    def _drawn(self, chances):
        if chances is self._calm:
            return Fate.FINE
        drawn = self._rng.random()
        for fate, chance in chances.fates:
            drawn -= chance
            if drawn < 0:
                return fate
        return Fate.FINE

    def import_problem(self):
        """Why the app cannot be opened this time, if it cannot."""
        return self._rng.choice(PROBLEMS)("the shop") if self._rng.random() < self._broken else None

    def hop_s(self):
        """How long a message travels between two processes."""
        return self._hop_s(self.network, 0.02)

    def store_hop_s(self):
        """How long a request or an answer travels to or from the store."""
        return self._hop_s(self.store, 0.005)

    def _hop_s(self, chances, usual_s):
        draw = self._rng.random
        if draw() < chances.slow:
            return draw() * (8 if draw() < 0.2 else 1)
        return draw() * usual_s
