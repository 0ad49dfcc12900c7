"""Stops: in some seeds all conversations are with agents whose turns stop."""

import random

STOPPED = 0.2
"""In how many seeds; drawn apart, so that other seeds stay what they are."""


class Stops:
    """Whether conversations are with such agents."""

    def __init__(self, world, seed):
        self.there = random.Random(f"stops {seed}").random() < STOPPED
        if self.there:
            world.conversations = [f"s{name.removeprefix('c')}" for name in world.conversations]
            world.model.restless()
