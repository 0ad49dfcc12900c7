"""Every help page says all that its source does: the names of commands, square brackets, and no text cut off."""

import re
from itertools import pairwise
from pathlib import Path

import pytest
import typer

from holdfast.cli.app import GROUPS as GROUPS_OF_COMMANDS
from holdfast.cli.app import _app, run

ROOT = typer.main.get_command(_app)
FRAME = "│╭╮╰╯─ "


def pages(command, path=()):
    """Each command with the words that lead to it, the groups before what is below them."""
    yield path, command
    if hasattr(command, "list_commands"):
        for name in command.list_commands(None):
            yield from pages(command.get_command(None, name), (*path, name))


PAGES = dict(pages(ROOT))
GROUPS = [path for path, command in PAGES.items() if hasattr(command, "list_commands")]


@pytest.fixture
def shown(capsys, monkeypatch):
    """The help page of a command, as 80 columns show it."""
    monkeypatch.setenv("COLUMNS", "80")

    def page(path):
        assert run([*path, "--help"]) == 0
        return capsys.readouterr().out

    return page


def dense(text):
    """A text without its spaces, as it is looked for on a page."""
    return "".join(text.replace("\\[", "[").split())


def last_column(page):
    """What a page says, without what stands before it on its lines."""
    return "".join(dense(re.split(r"\s{2,}", line.strip(FRAME))[-1]) for line in page.splitlines())


@pytest.mark.parametrize("path", GROUPS, ids=" ".join)
def test_a_group_lists_its_commands_by_their_names(path, shown):
    first = [line.split()[1] for line in shown(path).splitlines() if line.startswith("│ ") and not line.startswith("│  ")]
    assert [name for name in PAGES[path].list_commands(None) if name not in first] == []


def test_the_commands_stand_in_their_groups(shown):
    page = shown(())
    for name, commands in GROUPS_OF_COMMANDS.items():
        frame = page.partition(f"─ {name} ─")[2].partition("╰")[0]
        assert [line.split()[1] for line in frame.splitlines() if re.match(r"│ \w", line)] == list(commands)


@pytest.mark.parametrize("path", PAGES, ids=" ".join)
def test_a_help_page_says_all_of_its_texts(path, shown):
    page, command = last_column(shown(path)), PAGES[path]
    texts = [command.help, *(getattr(one, "help", None) for one in command.params)]
    assert [text for text in texts if text and dense(text) not in page] == []
    assert page.count("…") == sum(text.count("…") for text in texts if text)


@pytest.mark.parametrize("path", PAGES, ids=" ".join)
def test_a_paragraph_of_a_help_page_wraps_only_where_the_line_is_full(path, shown):
    about = shown(path).partition("Usage:")[2].partition("╭")[0].partition("\n")[2]
    for paragraph in re.split(r"\n\s*\n", about.rstrip()):
        lines = [line.strip() for line in paragraph.splitlines() if line.strip()]
        assert [one for one, after in pairwise(lines) if len(f" {one} {after.split()[0]} ") <= 80] == []


def test_the_page_of_the_demo_names_what_is_to_be_installed(shown):
    assert "holdfast[server]" in last_column(shown(("demo",)))


def commands_of_the_page():
    """What docs/command-line.md shows of each command: its words, and the options beside them."""
    block = (Path(__file__).parents[3] / "docs" / "command-line.md").read_text().split("```\n")[1]
    for entry in re.split(r"^holdfast ", block, flags=re.MULTILINE)[1:]:
        words = entry.split()
        path = tuple(words[:2]) if tuple(words[:2]) in PAGES else (words[0],)
        yield path, set(re.findall(r"--[a-z-]+", entry.partition("\n\n")[0]))


def test_the_page_of_the_command_line_has_every_command_in_order_with_options_that_it_takes():
    shown = list(commands_of_the_page())
    leaves = [path for path, command in PAGES.items() if path and not hasattr(command, "list_commands")]
    assert list(dict.fromkeys(path for path, _ in shown)) == leaves
    for path, options in shown:
        assert options <= {option for one in PAGES[path].params for option in one.opts}, path
