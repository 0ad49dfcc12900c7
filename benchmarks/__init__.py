"""Benchmarks: `python -m benchmarks` runs them all, `python -m benchmarks NAME` one."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))  # the writer of logs
