"""The page on permission rules: what it shows, happens."""

import runpy
import shlex
import sys
from pathlib import Path

import pytest
from page_blocks import files_of, printed_by

from holdfast.agent import Rules
from holdfast.cli import app as command_line
from holdfast.errors import InvalidRule

PAGE = Path(__file__).parents[3] / "docs" / "rules.md"
SHOWN = list(printed_by(PAGE).items())


@pytest.fixture
def folder(tmp_path, monkeypatch):
    for name, source in files_of(PAGE).items():
        (tmp_path / name).write_text(source)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("coding", "payments"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.delenv("HOLDFAST_APP", raising=False)
    return tmp_path


@pytest.mark.parametrize(("command", "printed"), SHOWN, ids=[command[:60] for command, _ in SHOWN])
def test_each_command_prints_what_the_page_shows(folder, capsys, command, printed):
    words = shlex.split(command)

    assert words[0] == "holdfast"
    assert command_line.run(words[1:]) == 0
    assert printed.fullmatch(capsys.readouterr().out)


def test_the_python_blocks_run(folder, capsys):
    runpy.run_path(str(folder / "try_rules.py"))

    assert capsys.readouterr().out.startswith("allow Bash(npm *) \ndeny Bash(rm *) Move it to trash/ instead.\n")


def test_the_rehearsal_on_the_page_runs(folder, capsys):
    runpy.run_path(str(folder / "rehearse_rules.py"))

    assert "denied by the rule 'Bash(rm *)': Move it to trash/ instead; it did not run" in capsys.readouterr().out


def test_the_error_that_the_page_shows_is_the_one_that_is_raised():
    with pytest.raises(InvalidRule) as raised:
        Rules(deny=["x", "Bash()"])

    assert str(raised.value) in " ".join(PAGE.read_text().split())
