"""Windows: in some seeds all conversations are with agents that send a part, reply in a shape and may be overridden."""

import random

from holdfast.conversation.terms.overrides import Overrides

WINDOWED = 0.15
"""In how many seeds; drawn apart, so that other seeds stay what they are."""
OVERRIDES = (Overrides(temperature=0.5), Overrides(max_tokens=60), Overrides(top_p=0.5))
"""What messages override; the last is what neither agent allows."""
LIES = (1, 1, 1.1)
"""By how much a provider counts more tokens than are estimated."""
HOLDS = (1, 1, 0.8)
"""How much of the window that is declared a provider really takes."""


class Windows:
    """Whether conversations are with such agents, and what messages override."""

    def __init__(self, world, seed):
        self._drawn = random.Random(f"windows {seed}")
        self.there = self.overriding = self._drawn.random() < WINDOWED and not world.stops.there
        if self.there:
            first = self._drawn.randrange(3)
            world.conversations = [f"w-{first + number}" for number in range(len(world.conversations))]
            world.model.restless()
            world.model.lies, world.model.holds = self._drawn.choice(LIES), self._drawn.choice(HOLDS)

    def overrides(self):
        """What the next message overrides, if anything."""
        return self._drawn.choice(OVERRIDES) if self.overriding and self._drawn.random() < 0.3 else None
