"""`holdfast grants`, the scope of `holdfast resolve`, and what `show` and `pending` say of grants."""

import asyncio
import json
import re
import shlex
from contextlib import asynccontextmanager

import pytest
from command_lines import decision_of
from stores import WithActors
from writer import Writer, begin, call, start
from writer import resolve as decided

from holdfast.cli import session
from holdfast.cli.app import run
from holdfast.cli.errors import ExitCode
from holdfast.cli.hints import granted, touching
from holdfast.cli.session import Reached
from holdfast.client import Approve, AsyncClient, Level, ListEventKind, Scope
from holdfast.client.list_events import ListEvent
from holdfast.client.problems import problems_of
from holdfast.client.results import PendingCall
from holdfast.client.stack_gateway import StackGateway
from holdfast.conversation import CallTarget, Principal, Proof, SuspensionKind
from holdfast.conversation.records.calls import PendingView
from holdfast.conversation.records.commands import ProposedCall
from holdfast.persistence import MemoryStore
from holdfast.settings import Timing


def touched(*paths):
    return tuple(CallTarget(kind="path", value=path, level=Level.WRITE) for path in paths)


def asked(number, *paths):
    return ProposedCall(tool_call_id=f"call_{number}", name="refund", arguments="{}", targets=touched(*paths))


@pytest.fixture
def writer(monkeypatch):
    """The writer of a conversation with two calls that wait and touch `src/`, which the commands reach."""
    store = MemoryStore()
    made = asyncio.run(Writer.of(store, "c-1"))
    asyncio.run(made.do(start(), begin(), call(asked(1, "src/a"), asked(2, "src/b"))))

    @asynccontextmanager
    async def reached(_):
        stack = WithActors(store, made)
        yield Reached(AsyncClient(StackGateway(stack, timeout_s=10)), stack)

    for name in ("reached", "session"):
        monkeypatch.setattr(session, name, reached)
    return made


@pytest.fixture
def given(writer, capsys):
    """The id of a grant that was given with an approval."""
    scope = ("--scope", "path:src/**", "--level", "write", "--for", "1h")
    assert run(["resolve", writer.suspension_ids[0], "--conversation", "c-1", "--approve", *scope]) == 0
    capsys.readouterr()
    (grant,) = writer.state.grants
    return grant.grant_id


def test_a_scope_is_given_listed_and_revoked(given, writer, capsys):
    assert run(["grants", "c-1"]) == 0
    header, line = capsys.readouterr().out.splitlines()
    assert header.split() == ["ID", "KIND", "PATTERN", "LEVEL", "ENDS", "GIVEN", "BY"]
    assert line.split()[:5] == [given, "path", "src/**", "write", "in"]
    assert run(["grants", "c-1", "--json"]) == 0
    (item,) = json.loads(capsys.readouterr().out)["items"]
    assert (item["grant_id"], item["level"], item["by"]) == (given, "write", None)

    revoking = ["grants", "c-1", "--revoke", given, "--reason", "merged", "--request-id", "r-1"]
    assert run(revoking) == 0
    assert f"{given} of c-1 is revoked (seq {writer.state.seq}, request r-1)." in capsys.readouterr().out
    assert run([*revoking, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["duplicate"]
    assert writer.events[-1].reason == "merged"
    assert run(["grants", "c-1"]) == 0
    assert capsys.readouterr().out == "No grant stands: each call that needs approval asks.\n"


def test_show_says_what_runs_without_asking_and_by_which_grant(given, capsys):
    assert run(["show", "c-1"]) == 0
    said = capsys.readouterr().out
    assert re.search(
        rf"^Runs without asking by {given}: path src/\*\* up to write, for (1h|59m \d+s) more$", said, re.MULTILINE
    )
    assert f"refund (call_2, by grant {given}) {{}}" in said
    assert "refund (call_1) {}" in said
    assert run(["show", "c-1", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert [one["grant_id"] for one in shown["grants"]] == [given]
    assert [one["grants"] for one in shown["running"]] == [[], [given]]


def test_a_call_that_waits_says_what_it_touches(writer, capsys):
    assert run(["show", "c-1"]) == 0
    assert "It touches path src/a (write)." in capsys.readouterr().out
    assert run(["pending", "--json"]) == 0
    items = json.loads(capsys.readouterr().out)["items"]
    assert [one["targets"] for one in items] == [
        [{"kind": "path", "value": f"src/{name}", "level": "write"}] for name in ("a", "b")
    ]


@pytest.mark.parametrize(
    ("targets", "says"),
    [
        (None, ""),
        ((), "What it touches cannot be told, and no grant covers it."),
        (touched("a", "b"), "It touches path a (write), path b (write)."),
        (touched("a\x1b[2K"), "It touches path a\\x1b[2K (write)."),
    ],
)
def test_targets_are_said_in_words(targets, says):
    view = PendingView(conversation_id="c-1", suspension_id="s-1", created_at=1, kind=SuspensionKind.APPROVAL, targets=targets)
    assert touching(PendingCall.of(view, lambda *_, **__: None)) == says


def test_several_grants_are_named():
    assert granted(["g1", "g\x1b2"]) == "grants g1, g\\x1b2"


def test_a_list_that_is_watched_says_by_which_grant_a_call_was_let_go(monkeypatch, capsys):
    class Watched:
        async def events(self, **_):
            data = {"suspension_id": "s-2", "by": "grant", "grants": ["g6"], "principal": None}
            yield ListEvent(ListEventKind.SETTLED, 1, "c-1", "desk", 7, data)

    @asynccontextmanager
    async def reached(_):
        yield Reached(Watched(), None)

    monkeypatch.setattr(session, "reached", reached)
    assert run(["pending", "--watch"]) == ExitCode.DONE
    assert capsys.readouterr().out == "settled: s-2 of c-1 by grant g6 (no person)\n"


@pytest.mark.parametrize(
    ("options", "scope"),
    [
        (["--scope", "path:src/**", "--level", "write"], Scope("path", "src/**", level="write")),
        (
            ["--scope", "tool:refund", "--level", "execute", "--for", "30m"],
            Scope("tool", "refund", level="execute", ends_s=1800),
        ),
        (["--scope", "account:a:b", "--level", "read"], Scope("account", "a:b", level="read")),
        (["--scope", "tool:*", "--level", "admin", "--everything"], Scope("tool", "*", level="admin", everything=True)),
    ],
)
def test_each_scope_is_said_with_options(monkeypatch, options, scope):
    assert decision_of(monkeypatch, "resolve", "s-1", "--approve", *options) == Approve(scope=scope)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--approve", "--level", "write"], "--level: it belongs to a scope, and none is given; add --scope KIND:PATTERN"),
        (["--approve", "--for", "1h"], "--for: it belongs to a scope"),
        (["--approve", "--everything"], "--everything: it belongs to a scope"),
        (["--approve", "--scope", "src/**", "--level", "write"], "--scope: 'src/**' is no scope"),
        (["--approve", "--scope", "path:src/**"], "--level: a scope needs one"),
        (["--approve", "--scope", "path:src/**", "--level", "root"], "'root' is not one of"),
        (["--approve", "--scope", "path:**", "--level", "write"], "scope.pattern: '**' covers every path"),
        (["--approve", "--scope", "path:src/**", "--level", "write", "--for", "soon"], "--for: 'soon' is no time"),
        (["--approve", "--scope", "path:src/**", "--level", "write", "--for", "0s"], "scope.ends_s"),
        (["--deny", "no", "--scope", "path:src/**", "--level", "write"], "--scope: it does not go with this decision"),
        (
            ["--approve", "--arguments", "{}", "--scope", "path:src/**", "--level", "write"],
            "decision.scope: a scope cannot be given",
        ),
    ],
)
def test_a_scope_that_cannot_be_meant_is_refused(writer, capsys, options, problem):
    assert run(["resolve", writer.suspension_ids[0], "--conversation", "c-1", *options]) == ExitCode.BAD_INPUT
    assert problem in capsys.readouterr().err
    assert writer.state.grants == ()


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--reason", "x"], "--reason: it is for a revocation"),
        (["--request-id", "r-1"], "--request-id: it is for a revocation"),
        (["--revoke", "g99"], "grant_id: 'g99' is no grant of this conversation, or has ended"),
        (["--revoke", "no id"], "grant_id: 'no id' is no grant's id"),
        (["--revoke", "g1", "--reason", "x" * 1025], "reason: "),
    ],
)
def test_a_revocation_that_cannot_be_meant_is_refused(writer, capsys, options, problem):
    before = writer.state.seq
    assert run(["grants", "c-1", *options]) == ExitCode.BAD_INPUT
    assert problem in capsys.readouterr().err
    assert writer.state.seq == before


BO = Principal("bo", roles=["finance"], proof=Proof.KEY)


@pytest.fixture
def key(writer):
    """The API key of bo, who has given a grant with it."""
    made, _ = asyncio.run(AsyncClient(StackGateway(WithActors(writer.store), timeout_s=10)).access.create_key("bo", ["decide"]))
    scope = Scope("path", "src/**", level="write")
    asyncio.run(writer.do(decided(Approve(scope=scope), principal=BO)))
    return made.key_id


def test_what_a_revoked_key_has_given_is_named_and_stands_until_it_is_ended(key, writer, capsys):
    (grant,) = writer.state.grants
    assert run(["keys", "revoke", key]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first == f"Revoked {key}."
    assert second == f"c-1 (stands): {grant.grant_id}: path src/** up to write, until it is revoked, given by bo"
    assert writer.state.grants

    assert run(["grants", "--by", "bo"]) == 0
    assert capsys.readouterr().out.splitlines() == [second]
    assert run(["grants", "--by", "bo", "--end", "--reason", "left"]) == 0
    assert capsys.readouterr().out.startswith("c-1 (ended): ")
    assert (writer.state.grants, writer.events[-1].reason) == ((), "left")
    assert run(["grants", "--by", "bo"]) == 0
    assert capsys.readouterr().out == "No such grant or vote stands.\n"


def test_a_key_is_revoked_with_what_it_has_given(key, writer, capsys):
    assert run(["keys", "revoke", key, "--with-effects", "--json"]) == 0
    said = capsys.readouterr()
    (item,) = json.loads(said.out)["items"]
    assert (item["conversation_id"], item["ended"], item["votes"]) == ("c-1", True, [])
    assert said.err == f"Revoked {key}.\n"
    assert writer.state.grants == ()
    assert writer.events[-1].reason == f"its API key {key} was revoked"


def test_another_key_of_the_same_name_is_named(key, writer, capsys):
    other, _ = asyncio.run(AsyncClient(StackGateway(WithActors(writer.store), timeout_s=10)).access.create_key("bo", ["read"]))
    assert run(["keys", "revoke", key]) == 0
    assert f"bo also holds {other.key_id}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        (["grants"], "CONVERSATION"),
        (["grants", "c-1", "--end"], "--end"),
        (["grants", "c-1", "--by", "bo", "--revoke", "g1"], "--by"),
        (["grants", "--by", "bo", "--reason", "x"], "--reason"),
    ],
)
def test_options_that_do_not_go_together_are_refused(writer, capsys, arguments, field):
    assert run(arguments) == ExitCode.BAD_INPUT
    assert capsys.readouterr().err.startswith(f"error: {field}: ")


async def test_a_grant_of_somebody_who_is_gone_is_a_problem(key, writer):
    store = writer.store
    assert [one.kind for one in await problems_of(store, Timing(), shlex.join)] == []
    await store.remove_api_key(key)
    (found,) = await problems_of(store, Timing(), shlex.join)
    (grant,) = writer.state.grants
    assert (found.kind, found.count, found.fix) == ("grant", 1, "end what they have given: grants --by bo --end")
    assert [(one.name, one.reason) for one in found.which] == [(f"c-1 {grant.grant_id}", "given by bo")]
