"""The planted bugs, and which seed finds each: those that show themselves seldom are looked for from a seed that found them.

`python tests/simulation --bugs` searches them all anew, in two processes, and writes `found_by.json`; names after it search
those alone. After a change of the simulation every seed is another system, and a search without its seed may take minutes.
"""

import json
import multiprocessing
import re
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from . import (
    ask_bugs,
    budget_bugs,
    bugs,
    campaign,
    child_bugs,
    courier_bugs,
    device_bugs,
    grant_bugs,
    guest_bugs,
    input_bugs,
    rule_bugs,
    stage_bugs,
    stop_bugs,
    summary_bugs,
    vote_bugs,
    window_bugs,
)
from .seed import simulate

SEEDS = 3000
"""How many seeds a bug has to show itself."""
SOON = 3
"""A bug that one of so many first seeds finds needs no entry."""
SELDOM = frozenset(
    {
        "a_batch_that_is_taken_in_part",
        "a_claim_after_the_end_of_a_grant",
        "a_claim_that_gives_way_while_its_worker_lives",
        "a_decision_after_the_parents_deadline",
        "a_guest_that_refuses_a_run_of_another",
        "a_guest_that_skips_the_pause",
        "a_head_that_is_not_checked",
        "a_loss_that_runs_everything_again",
        "a_model_call_that_is_known_by_its_name",
        "a_run_of_another_release_that_is_given_up",
        "a_start_that_is_told_of_at_once",
        "a_transcript_that_is_trusted_by_its_length",
        "a_vote_that_outlives_its_escalation",
        "a_worker_that_does_not_answer_taken_for_gone",
    }
)
"""Bugs that none of the first 120 seeds finds: their search may take minutes, and is marked slow."""
BROKEN = re.compile(r"\b(Attribute|Name|Type|Key)Error\b")
"""What a problem says if the planted bug itself is broken."""
FOUND_BY = Path(__file__).parent / "found_by.json"
PLANTED = (
    *bugs.REQUIRED,
    *bugs.MORE,
    *bugs.DECIDING,
    *bugs.PARKED,
    *bugs.WORKERS,
    *rule_bugs.RULED,
    *grant_bugs.GRANTED,
    *vote_bugs.VOTING,
    *stage_bugs.STAGED,
    *stop_bugs.STOPPED,
    *budget_bugs.BUDGETED,
    *ask_bugs.ASKED,
    *window_bugs.WINDOWED,
    *summary_bugs.BY_HAND,
    *guest_bugs.GUESTS,
    *courier_bugs.COURIERS,
    *child_bugs.CHILDREN,
    *input_bugs.INPUT,
    *device_bugs.DEVICES,
)


def found_by():
    """The seeds that found bugs, by the bugs' names."""
    return json.loads(FOUND_BY.read_text())


def seeds(bug):
    """The seeds to search, in order: from the one that found the bug, and through all of them if that is over."""
    first = found_by().get(bug.__name__, 1)
    return (*range(first, SEEDS + 1), *range(1, first))


def search(bug, among):
    """The first of the seeds that finds the bug, with what is broken; None where none does."""
    for seed in among:
        with bug():
            try:
                outcome = simulate(seed)
            except ValueError:  # an oracle judges by the core, which has the bug
                continue
        if outcome.problems and not BROKEN.search(outcome.problems[0]):
            return seed, outcome.problems[0]
    return None


def find(names):
    """Search these bugs, or all of them, from the first seed on, and write down which seed found each; those not found."""
    chosen = [bug.__name__ for bug in PLANTED if not names or bug.__name__ in names]
    missed = set(names) - set(chosen)
    known = {name: seed for name, seed in found_by().items() if name in {bug.__name__ for bug in PLANTED}}
    with ProcessPoolExecutor(campaign.WORKERS, mp_context=multiprocessing.get_context("spawn")) as pool:
        for name, found in zip(chosen, pool.map(_found, chosen), strict=True):
            print(f"{name}: {f'found by seed {found[0]}: {found[1]}' if found else f'not found in {SEEDS} seeds'}", flush=True)
            known.pop(name, None)
            if found is None:
                missed.add(name)
            elif found[0] > SOON:
                known[name] = found[0]
            FOUND_BY.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")
    return sorted(missed)


def _found(name):
    (bug,) = (bug for bug in PLANTED if bug.__name__ == name)
    return search(bug, range(1, SEEDS + 1))
