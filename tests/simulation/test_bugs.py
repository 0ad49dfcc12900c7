"""Bugs planted one at a time: the simulation finds each, on seeds that the product as it is passes."""

import pytest
from simulation import planted
from simulation.seed import simulate


@pytest.mark.gate  # it tells of the simulation more than of the product
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    "bug",
    [
        pytest.param(bug, id=bug.__name__, marks=[pytest.mark.slow] if bug.__name__ in planted.SELDOM else [])
        for bug in planted.PLANTED
    ],
)
def test_a_planted_bug_is_found(bug):
    found = planted.search(bug, planted.seeds(bug))
    assert found is not None, f"{bug.__name__} is not found in {planted.SEEDS} seeds"
    seed, problem = found
    print(f"{bug.__name__}: found by seed {seed}: {problem}")
    with bug():
        assert simulate(seed).problems, "this seed was ended by something else"
    assert not simulate(seed).problems


def test_seeds_are_known_of_bugs_that_are_planted():
    """A bug of another name is searched from the first seed on, and nobody would notice but by the time that takes."""
    assert set(planted.found_by()) <= {bug.__name__ for bug in planted.PLANTED}
