"""Bugs planted one at a time: the simulation finds each, on seeds that the product as it is passes."""

import re

import pytest
from simulation import bugs, planted
from simulation.seed import simulate

RARE = (
    bugs.a_call_that_is_dropped_when_its_conversation_is_parked,
    bugs.a_run_of_another_release_that_is_given_up,
    bugs.a_worker_that_does_not_answer_taken_for_gone,
)
"""Bugs that show themselves only after hundreds of seeds, or thousands."""


def marks(bug):
    """A planted bug tells of the simulation more than of the product, and so is looked for in the gate."""
    return [pytest.mark.slow] if bug in RARE else [pytest.mark.gate]


PLANTED = [pytest.param(bug, id=bug.__name__, marks=marks(bug)) for bug in planted.PLANTED]


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("bug", PLANTED)
def test_a_planted_bug_is_found(bug):
    found = planted.search(bug, planted.seeds(bug))
    assert found is not None, f"{bug.__name__} is not found in {planted.SEEDS} seeds"
    seed, problem = found
    print(f"{bug.__name__}: found by seed {seed}: {problem}")
    assert not re.search(r"\b(Attribute|Name|Type|Key)Error\b", problem), "the planted bug itself is broken"
    with bug():
        assert simulate(seed).problems, "this seed was ended by something else"
    assert not simulate(seed).problems


def test_seeds_are_known_of_bugs_that_are_planted():
    """A bug of another name is searched from the first seed on, and nobody would notice but by the time that takes."""
    assert set(planted.found_by()) <= {bug.__name__ for bug in planted.PLANTED}
