"""Whole systems, one per seed: every promise holds, whatever is lost, late, doubled, frozen or killed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from simulation import campaign
from simulation.seed import simulate


@pytest.mark.timeout(3600)  # at a low priority, beside whatever else runs
def test_every_promise_holds_in_every_simulated_system(seed, seeds):
    if seed is not None:
        outcome = simulate(seed, traced=True)
        print(campaign.report(outcome))
        assert not outcome.problems
        return
    failed = campaign.failures(1, seeds or campaign.how_many())
    shown = "\n\n".join(campaign.report(outcome) for outcome in failed[: campaign.SHOWN])
    assert not failed, f"{len(failed)} seeds fail: {[outcome.seed for outcome in failed]}\n{shown}"


def test_a_seed_is_the_same_system_every_time():
    first, again = simulate(7, traced=True), simulate(7, traced=True)
    assert first.trace == again.trace
    assert len(first.trace) > 50
    assert first.trace != simulate(8, traced=True).trace


def test_a_seed_is_the_same_system_in_every_process():
    command = [sys.executable, str(Path(__file__).parent), "7"]
    traces = [
        subprocess.run(command, env=os.environ | {"PYTHONHASHSEED": hashing}, capture_output=True, check=True, text=True).stdout
        for hashing in ("1", "2")
    ]
    assert [line for line in traces[0].splitlines() if line.startswith("t=")] == simulate(7, traced=True).trace
    assert traces[0].splitlines()[:-1] == traces[1].splitlines()[:-1]  # the last line says how long it took
