"""What all tests share: the support modules on the import path, two processes and what they begin with, CI's rounds."""

import os
import sys
from pathlib import Path

import pytest

SUPPORT = Path(__file__).parent / "support"
sys.path.insert(0, str(SUPPORT))
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"

BY_DEFAULT = "not slow and not gate"
"""What `addopts` in pyproject.toml selects."""
PROCESSES = 2
"""Files run side by side; each process starts the stacks that its files need, so more of them want a larger machine."""


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config):
    """Folders run in two processes, a file in one, and in one what is to be watched; `-n` says otherwise.

    In CI a plain `pytest` runs what is marked `gate`, too.
    """
    inside = "PYTEST_XDIST_WORKER" in os.environ  # in one of the two, where this is called again
    if os.environ.get("CI") == "true" and config.option.markexpr == BY_DEFAULT:
        config.option.markexpr = "not slow"
    if inside or not config.pluginmanager.hasplugin("xdist") or config.option.numprocesses is not None:
        return
    option = config.option
    watched = option.capture == "no" or option.usepdb or option.collectonly
    if not watched and all(Path(argument).is_dir() for argument in config.args):
        option.numprocesses, option.dist, option.loadscopereorder = PROCESSES, "loadfile", False


def pytest_collection_modifyitems(items):
    """The simulated systems come first: their processes compute in the pauses of the tests that wait for Ray and leases."""
    items.sort(key=lambda item: item.path.parts[-2:] != ("simulation", "test_seeds.py"))
