"""Pages that show tests: pytest runs them as a reader would, with the plugin that it finds by itself."""

import subprocess
import sys
from pathlib import Path

import pytest
from page_blocks import blocks_of

DOCS = Path(__file__).parents[3] / "docs"
SETTINGS = """
[pytest]
asyncio_mode = auto
asyncio_default_fixture_loop_scope = function
filterwarnings = error
"""


@pytest.mark.parametrize(
    ("page", "least"),
    [
        ("testing.md", 11),
        ("deciding.md", 7),
        ("questions.md", 5),
        ("delegation.md", 2),
        ("parts.md", 1),
        ("long-conversations.md", 2),
        ("stops.md", 3),
        ("usage.md", 2),
        ("overrides.md", 1),
        ("replies.md", 1),
    ],
)
def test_every_test_of_a_page_passes(tmp_path, page, least):
    blocks = blocks_of(DOCS / page)
    (tmp_path / "pytest.ini").write_text(SETTINGS)
    for name, source in blocks.items():
        (tmp_path / name).write_text(source)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:schemathesis"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    shown = sum(source.count("def test_") for source in blocks.values())
    assert shown >= least
    assert f"{shown} passed" in done.stdout
