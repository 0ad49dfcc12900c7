"""Whoever stops Holdfast on a cluster says which namespace, on a terminal or as an option."""

import io
import math

import pytest

from holdfast.cli import down, drain
from holdfast.cli.options import Where
from holdfast.errors import ConfigurationError

THERE = Where(redis_url="redis://x", ray_address="x:1", namespace="own")


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_the_namespace_is_typed_on_a_terminal(monkeypatch, capsys):
    monkeypatch.setattr("sys.stdin", Terminal("own\n"))
    down._confirm("own")
    assert "Type the namespace (own)" in capsys.readouterr().err


@pytest.mark.parametrize("typed", ["", "\n", "y\n", "OWN\n", "holdfast\n"])
def test_anything_else_changes_nothing(monkeypatch, typed):
    monkeypatch.setattr("sys.stdin", Terminal(typed))
    with pytest.raises(ConfigurationError, match="nothing was changed"):
        down._confirm("own")


def test_without_a_terminal_it_is_an_option(monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("own\n"))
    with pytest.raises(ConfigurationError, match="--yes own"):
        down._confirm("own")


def test_who_does_not_say_what_it_is_at_is_named_while_the_grace_lasts(capsys):
    down._told(1, 2, 0)
    down._told(0, 0, 3)
    assert capsys.readouterr().err == (
        "1 run and 2 model calls are under way\n0 runs and 0 model calls are under way; of 3 workers it is not known\n"
    )


@pytest.mark.parametrize(
    ("where", "yes", "grace_s", "said"),
    [
        (THERE, "other", 30.0, "--yes own"),
        (THERE, "", 30.0, "--yes own"),
        (THERE, "own", math.nan, "grace"),
        (Where(redis_url="redis://x", namespace="own"), "own", 30.0, "the embedded stack is stopped as a whole"),
    ],
)
async def test_what_cannot_be_meant_is_refused_before_anything_is_asked(where, yes, grace_s, said):
    with pytest.raises(ConfigurationError, match=said):
        await down.stop_cluster(where, yes=yes, grace_s=grace_s)


@pytest.mark.parametrize(
    ("target", "more"), [(None, {"undo": True}), (None, {"wait_s": 1.0}), ("x", {"wait_s": math.nan}), ("x", {"wait_s": 1e9})]
)
def test_what_a_drain_cannot_do_is_refused(target, more):
    with pytest.raises(ConfigurationError):
        drain.run(THERE, target, **more)
