"""The page on who may decide: what it shows, happens."""

import runpy
import sys
from pathlib import Path

import pytest
from page_blocks import blocks_of

from holdfast.conversation.judging.deciding import MOST_EDITS
from holdfast.conversation.judging.noting import MOST_NOTES
from holdfast.conversation.terms.approvers import MOST_VOTES

PAGE = Path(__file__).parents[3] / "docs" / "approvers.md"
PRINTED = """\
'ana' sent the message that led to this call
False 1 2 ['bo']
bo 1 2
It is moved.
20000 ('role:cfo',)
Paid.
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    for name, source in blocks_of(PAGE).items():
        (tmp_path / name).write_text(source)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "treasury", raising=False)
    return tmp_path


def test_the_rehearsal_on_the_page_runs(folder, capsys):
    runpy.run_path(str(folder / "rehearse_approvers.py"))
    assert capsys.readouterr().out == PRINTED


def test_the_bounds_on_the_page_are_those_that_hold():
    text = PAGE.read_text()
    assert f"{MOST_VOTES} at most" in text
    assert f"{MOST_NOTES} votes and notes at most" in text
    assert ("eight edits" in text, MOST_EDITS) == (True, 8)
