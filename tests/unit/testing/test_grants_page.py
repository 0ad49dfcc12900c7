"""The page on grants: what it shows, happens."""

import re
import runpy
import shlex
import sys
from pathlib import Path

import pytest
from command_lines import decision_of
from page_blocks import blocks_of

from holdfast.conversation import Approve, Scope
from holdfast.conversation.terms.grants import MOST_GRANTS, MOST_TARGETS

PAGE = Path(__file__).parents[3] / "docs" / "grants.md"
PRINTED = """\
['src/a.py']
['src/a.py', 'src/b.py']
['setup.py']
All is written. src/c/d.py
[(), ('{grant}',), (), ('{grant}',)] {grant} src/** write
['src/e.py']
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    for name, source in blocks_of(PAGE).items():
        (tmp_path / name).write_text(source)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "editor", raising=False)
    return tmp_path


def test_the_rehearsal_on_the_page_runs(folder, capsys):
    runpy.run_path(str(folder / "rehearse_grants.py"))

    said = capsys.readouterr().out
    grant = re.search(r"'(g\d+)'", said)[1]
    assert said == PRINTED.replace("{grant}", grant)


def test_the_command_on_the_page_gives_the_scope_of_the_rehearsal(monkeypatch):
    (command,) = re.findall(r"^holdfast (resolve .*)$", PAGE.read_text(), re.MULTILINE)
    decision = decision_of(monkeypatch, *shlex.split(command))
    assert decision == Approve(scope=Scope("path", "src/**", level="write", ends_s=3600))


def test_the_bounds_on_the_page_are_those_that_hold():
    text = PAGE.read_text()
    assert f"at most {MOST_GRANTS} grants" in text
    assert ("may have eight targets" in text, MOST_TARGETS) == (True, 8)
