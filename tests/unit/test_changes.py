"""The table of changes in docs/architecture.md names files and folders that exist, so that its reader finds them."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text()
TABLE = PAGE.partition("### Changes that touch several files")[2].partition("\n## ")[0]
ROWS = [line.strip("|").split("|") for line in TABLE.splitlines() if line.startswith("| ")][2:]


def named(files):
    """The paths that a row names; one without a folder is beside the one before it, or in it."""
    folder = Path()
    for word in re.findall(r"`([\w./-]+\.(?:py|lua|js|ts|html|md)|[\w./-]+/)`", files):
        path = Path(word) if "/" in word else folder / word
        folder = path if word.endswith("/") else path.parent
        yield path


@pytest.mark.parametrize(("change", "files"), ROWS, ids=[change.strip() for change, _ in ROWS])
def test_a_row_names_files_that_exist(change, files):
    assert [str(path) for path in named(files) if not (ROOT / path).exists()] == []


def test_a_row_that_counts_its_files_names_as_many():
    numbers = {"two": 2, "three": 3, "ten": 10, "eleven": 11}
    for _, files in ROWS:
        if counted := re.search(r"\((\w+) files, tried", files):
            assert len(list(named(files[: counted.start()]))) == numbers[counted[1]]
