"""A process whose threads are held for good ends all the same."""

import subprocess
import sys

ENDING = """
import threading
from holdfast.actors.worker.threads import Threads, end_within

begun = threading.Event()
Threads(1, "held").submit(lambda: (begun.set(), threading.Event().wait()))
begun.wait()
end_within(0.2)
"""


def test_a_process_that_leaves_ends_although_a_body_never_returns():
    ended = subprocess.run([sys.executable, "-c", ENDING], timeout=60, check=False)
    assert ended.returncode == 0
