"""Bugs planted one at a time: the simulation finds each, on seeds that the product as it is passes."""

import pytest
from simulation import bugs, rule_bugs
from simulation.seed import simulate

SEEDS = 3000
"""How many seeds a bug has to show itself."""
FOUND_BY = {
    bugs.a_claim_that_anybody_may_repeat: 285,
    rule_bugs.a_refusal_of_what_is_claimed: 828,
}
"""Seeds that found a bug which shows itself seldom: the search begins there, and goes through all of them if that is over."""

RARE = (
    bugs.a_model_call_that_is_known_by_its_name,
    bugs.a_run_of_another_release_that_is_given_up,
    bugs.a_worker_that_does_not_answer_taken_for_gone,
)
"""Bugs that show themselves only after hundreds of seeds, or thousands."""


def marks(bug):
    """A planted bug tells of the simulation more than of the product, and so is looked for in the gate."""
    return [pytest.mark.slow] if bug in RARE else [pytest.mark.gate]


PLANTED = [
    pytest.param(bug, id=bug.__name__, marks=marks(bug))
    for bug in (*bugs.REQUIRED, *bugs.MORE, *bugs.DECIDING, *bugs.PARKED, *bugs.WORKERS, *rule_bugs.RULED)
]


def seeds(bug):
    first = FOUND_BY.get(bug, 1)
    return (*range(first, SEEDS + 1), *range(1, first))


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("bug", PLANTED)
def test_a_planted_bug_is_found(bug):
    for seed in seeds(bug):
        with bug():
            outcome = simulate(seed)
        if outcome.problems:
            print(f"{bug.__name__}: found by seed {seed}: {outcome.problems[0]}")
            with bug():
                assert simulate(seed).problems, "this seed was ended by something else"
            assert not simulate(seed).problems
            return
    pytest.fail(f"{bug.__name__} is not found in {SEEDS} seeds")
