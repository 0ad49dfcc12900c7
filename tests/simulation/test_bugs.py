"""Bugs planted one at a time: the simulation finds each, on seeds that the product as it is passes."""

import pytest
from simulation import bugs
from simulation.seed import simulate

SEEDS = 3000
"""How many seeds a bug has to show itself."""


@pytest.mark.parametrize("bug", [*bugs.REQUIRED, *bugs.MORE, *bugs.CREW], ids=lambda bug: bug.__name__)
def test_a_planted_bug_is_found(bug):
    for seed in range(1, SEEDS + 1):
        with bug():
            outcome = simulate(seed)
        if outcome.problems:
            print(f"{bug.__name__}: found by seed {seed}: {outcome.problems[0]}")
            assert not simulate(seed).problems
            return
    pytest.fail(f"{bug.__name__} is not found in {SEEDS} seeds")
