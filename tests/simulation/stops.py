"""Stops: in some seeds all conversations are with agents whose turns stop."""

import random

STOPPED = 0.2
"""In how many seeds; drawn apart, so that other seeds stay what they are."""


ASKED = 0.3
"""In how many of these seeds turns ask first whether they may go on."""


class Stops:
    """Whether conversations are with such agents."""

    def __init__(self, world, seed):
        self.there = random.Random(f"stops {seed}").random() < STOPPED
        if self.there:
            letter = "q" if random.Random(f"question {seed}").random() < ASKED else "s"
            world.conversations = [f"{letter}{name.removeprefix('c')}" for name in world.conversations]
            world.model.restless()
