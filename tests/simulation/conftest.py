"""The simulation on the import path, and `--seed N` to run one seed again."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))


def pytest_addoption(parser):
    parser.addoption("--seed", type=int, default=None, help="run this seed of the simulation alone, and print its trace")
    parser.addoption("--seeds", type=int, default=None, help="how many seeds of the simulation to run")


@pytest.fixture
def seed(request):
    """The one seed that is asked for, if any."""
    return request.config.getoption("--seed", default=None)


@pytest.fixture
def seeds(request):
    """How many seeds are asked for, if any number is."""
    return request.config.getoption("--seeds", default=None)
