"""The guides, but for their programs: what goes wrong prints what the page says, and each picture is what is logged."""

import os
import re
import runpy
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from page_blocks import blocks_of, files_of, printed_by, shell_of

ROOT = Path(__file__).parents[3]
DRAWN = runpy.run_path(str(ROOT / "docs" / "guides.py"))
GUIDES = DRAWN["pages"]()
CHAPTERS = ["The program", "The flow", "When a process dies", "What goes wrong", "Go on"]
WITHIN_S = 60

each = pytest.mark.parametrize("page", GUIDES, ids=[page.stem for page in GUIDES])


@each
def test_commands_without_a_stack_print_what_the_page_says(page, tmp_path):
    for name, source in files_of(page).items():
        (tmp_path / name).write_text(source)
    program = f"python {next(iter(blocks_of(page)))}"
    commands = {command: printed for command, printed in printed_by(page).items() if command != program}
    assert commands
    env = {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")}
    env["HOLDFAST_HOME"] = str(tmp_path / "none")
    for command, expected in commands.items():
        python, *arguments = shlex.split(command)
        words = [sys.executable, *(["-m", "holdfast.cli"] if python == "holdfast" else []), *arguments]
        done = subprocess.run(words, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=WITHIN_S, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        assert expected.fullmatch(done.stdout), (command, done.stdout)
    assert not (tmp_path / "none").exists(), "no stack was started"


@each
def test_the_picture_of_a_guide_is_what_its_program_logs(page):
    picture = page.with_suffix(".svg")
    assert picture.read_text() == DRAWN["render"](page), "run: python docs/guides.py"
    assert f"]({picture.name})" in page.read_text()


@each
def test_the_places_in_the_log_that_a_guide_names_are_drawn(page):
    drawn = {row.seq for row in DRAWN["drawn"](page)}
    _, dies = page.read_text().split("## When a process dies\n")
    named = re.findall(r"\((\d+)(?:(?: to |, )(\d+))?\)", dies.split("\n## ")[0])
    places = {int(place) for pair in named for place in pair if place}
    assert places
    assert places <= drawn


@pytest.mark.parametrize(
    ("guide", "tool", "follows"),
    [
        ("approve-a-payment", "pay", "it waits"),
        ("rules-for-a-coding-agent", "Bash", "it waits"),
        ("a-grant-for-a-session", "write", "it runs again"),
        ("review-a-report", "publish", "it runs again"),
        ("ask-a-question", "book", "it waits"),
        ("steer-an-agent-that-works", "book", "it waits"),
        ("two-approvers", "pay", "it waits"),
        ("run-without-people", "order", "it waits"),
        ("tell-a-channel", "pay", "it waits"),
        ("what-is-owed", "pay", "it waits"),
        ("decide-by-a-link", "pay", "it waits"),
    ],
)
def test_after_the_death_of_a_worker_follows_what_the_guide_says(guide, tool, follows):
    (page,) = [page for page in GUIDES if page.stem == guide]
    done = DRAWN["rehearsed"](DRAWN["program_of"](page), lose={tool: 1})
    lost = next(ran for ran in done.runs if ran.lost)
    again = [ran for ran in done.runs if ran.tool_call_id == lost.tool_call_id and not ran.lost]
    assert [call.tool for call in done.pending if call.kind == "lost"] == ([tool] if follows == "it waits" else [])
    assert bool(again) == (follows == "it runs again")


def test_a_lost_payment_of_the_guide_is_for_the_people_who_may_approve_it():
    (page,) = [page for page in GUIDES if page.stem == "two-approvers"]
    done = DRAWN["rehearsed"](DRAWN["program_of"](page), lose={"pay": 2})
    assert [(call.kind, call.approvers.minimum) for call in done.pending] == [("lost", 1), ("lost", 2)]


@each
def test_a_guide_has_the_chapters_of_every_guide(page):
    assert [line for line in page.read_text().splitlines() if line.removeprefix("## ") in CHAPTERS] == [
        f"## {chapter}" for chapter in CHAPTERS
    ]


@each
def test_a_guide_is_found_from_each_list_of_pages(page):
    for listing, link in [
        ("docs/index.md", f"](guides/{page.name})"),
        ("mkdocs.yml", f": guides/{page.name}\n"),
    ]:
        assert link in (ROOT / listing).read_text(), listing


def test_a_command_line_of_a_guide_takes_the_options_that_it_is_shown_with(capsys, monkeypatch):
    from holdfast.cli import app  # noqa: PLC0415 - the command line counts milliseconds, other tests too

    monkeypatch.setenv("COLUMNS", "400")
    lines = [line for page in GUIDES for block in shell_of(page) for line in block.splitlines()]
    commands = [shlex.split(line) for line in lines if line.startswith("holdfast ")]
    assert len(commands) >= len(GUIDES)
    for command in commands:
        assert app.run([command[1], "--help"]) == 0
        shown = capsys.readouterr().out
        assert not [word for word in command if word.startswith("--") and word not in shown], command
