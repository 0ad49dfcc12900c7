"""Every help page says all that its source does: the names of commands, square brackets, and no text cut off."""

import re

import pytest
import typer

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
    first = [line.split()[1] for line in shown(path).partition("─ Commands ─")[2].splitlines() if line.startswith("│ ")]
    assert [name for name in PAGES[path].list_commands(None) if name not in first] == []


@pytest.mark.parametrize("path", PAGES, ids=" ".join)
def test_a_help_page_says_all_of_its_texts(path, shown):
    page, command = last_column(shown(path)), PAGES[path]
    texts = [command.help, *(getattr(one, "help", None) for one in command.params)]
    assert [text for text in texts if text and dense(text) not in page] == []
    assert page.count("…") == sum(text.count("…") for text in texts if text)


def test_the_page_of_the_demo_names_what_is_to_be_installed(shown):
    assert "holdfast[server]" in last_column(shown(("demo",)))
