"""The page on testing shows tests: pytest runs them as a reader would, with the plugin that it finds by itself."""

import subprocess
import sys
from pathlib import Path

from page_blocks import blocks_of

PAGE = Path(__file__).parents[3] / "docs" / "testing.md"
SETTINGS = """
[pytest]
asyncio_mode = auto
asyncio_default_fixture_loop_scope = function
filterwarnings = error
"""


def test_every_test_of_the_page_passes(tmp_path):
    blocks = blocks_of(PAGE)
    (tmp_path / "pytest.ini").write_text(SETTINGS)
    for name, source in blocks.items():
        (tmp_path / name).write_text(source)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    shown = sum(source.count("def test_") for source in blocks.values())
    assert shown > 8
    assert f"{shown} passed" in done.stdout
