"""Which commands go over a server, and which say that they do not."""

import pytest

from holdfast.cli.app import COMMANDS, TARGETLESS, run
from holdfast.cli.errors import ExitCode
from holdfast.cli.options import Where

OVER_HTTP = {
    "inbox": (),
    "pending": (),
    "list": (),
    "show": ("c-1",),
    "tree": ("c-1",),
    "usage": (),
    "send": ("c-1", "hello"),
    "message": ("c-1", "m-1"),
    "queue": ("c-1",),
    "interrupt": ("c-1",),
    "resolve": ("s-1", "--approve"),
    "approve": ("s-1",),
    "deny": ("s-1", "no"),
    "answer": ("s-1", "1"),
    "review": ("s-1", "allow"),
    "assign": ("s-1",),
    "comment": ("s-1", "hello"),
    "snooze": ("s-1", "2h"),
    "escalate": ("s-1", "--to", "role:cfo"),
    "link": ("s-1", "--to", "ana"),
    "cancel": ("c-1",),
    "compact": ("c-1", "--wait", "0"),
    "attach": ("c-1", "--tool", "locate", "--exec", "cat"),
    "grants": ("c-1",),
    "audit": ("c-1",),
    "end": ("c-1", "--yes"),
    "outbox": (),
    "retry": ("c-1",),
    "pause": (),
    "unpause": (),
}
ON_NEITHER = {"rules"}
ON_A_STACK = {"keys": ("list",), "submit": ("-",), "down": (), "drain": ("n",)}
"""The commands that stand on Redis or Ray themselves, where they take more than options."""
TOKEN = "hunter22-hunter22"  # noqa: S105 - made up


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch):
    for name in ("URL", "TOKEN", "REDIS_URL", "RAY_ADDRESS", "HOME", "APP", "PLAIN_HTTP", "NAMESPACE"):
        monkeypatch.delenv(f"HOLDFAST_{name}", raising=False)


@pytest.mark.parametrize("name", sorted(set(COMMANDS) - TARGETLESS - set(OVER_HTTP) - ON_NEITHER))
@pytest.mark.parametrize("by", ["option", "variable"])
def test_a_command_that_stands_on_the_stack_itself_says_so(name, by, capsys, monkeypatch):
    given = ["--url", "http://127.0.0.1:8484"] if by == "option" else []
    if by == "variable":
        monkeypatch.setenv("HOLDFAST_URL", "http://127.0.0.1:8484")
    assert run([name, *ON_A_STACK.get(name, ()), *given]) == ExitCode.BAD_INPUT
    assert "cannot go over a server; run it where they are, without --url and HOLDFAST_URL" in capsys.readouterr().err


@pytest.mark.parametrize("name", OVER_HTTP)
def test_a_token_that_would_be_sent_unencrypted_is_refused_and_not_shown(name, capsys):
    code = run([name, *OVER_HTTP[name], "--url", "http://desk.example.com", "--token", TOKEN])
    said = capsys.readouterr()
    assert code == ExitCode.BAD_INPUT
    assert "token: it would be sent over the network unencrypted" in said.err
    assert TOKEN not in said.err + said.out


def test_a_server_takes_nobodys_word_for_who_calls(capsys):
    assert run(["pending", "--url", "http://127.0.0.1:8484", "--as", "ana"]) == ExitCode.BAD_INPUT
    assert "--as: a server knows the caller by its token" in capsys.readouterr().err


def test_a_url_does_not_go_with_the_address_of_a_stack(capsys):
    code = run(["pending", "--url", "http://127.0.0.1:8484", "--redis-url", "redis://localhost"])
    assert (code, capsys.readouterr().err.partition(":")[2].split(":")[0].strip()) == (ExitCode.BAD_INPUT, "redis_url")


def test_commands_that_are_shown_lead_to_the_same_server_and_hold_no_token():
    where = Where(url="https://desk.example.com", token=TOKEN)
    assert where.words() == ["--url", "https://desk.example.com"]
    assert TOKEN not in repr(where)
