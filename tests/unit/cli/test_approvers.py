"""What the command line says of who may decide, `assign`, `comment`, and the errors of those who may not."""

import asyncio
import json
from contextlib import asynccontextmanager
from types import SimpleNamespace

import pytest
from stores import WithActors
from writer import Writer, begin, call, start

from holdfast.backoff import wall_ms
from holdfast.cli import session
from holdfast.cli.app import run
from holdfast.cli.errors import ExitCode
from holdfast.cli.session import Reached
from holdfast.client import AsyncClient, ListEventKind, Principal, Proof
from holdfast.client.async_client import acting_for
from holdfast.client.list_events import ListEvent
from holdfast.client.stack_gateway import StackGateway
from holdfast.conversation import Approvers
from holdfast.conversation.records.commands import ProposedCall
from holdfast.persistence import MemoryStore

TERMS = (Approvers("role:finance", minimum=2), Approvers("id:cfo", not_requester=True))
OPEN = Approvers("role:finance", minimum=2, stated=True)


@pytest.fixture
def given(monkeypatch):
    """A conversation with calls of certain approvers, which the commands reach as whoever `given.who` is."""
    store = MemoryStore()
    writer = asyncio.run(Writer.of(store, "c-1"))
    calls = [
        ProposedCall(tool_call_id=f"call_{number}", name="refund", arguments="{}", approvers=terms.terms)
        for number, terms in enumerate((*TERMS, OPEN), 1)
    ]
    asyncio.run(writer.do(start(), begin(), call(*calls)))

    who = Principal("ana", roles=["finance"], proof=Proof.KEY)
    found = SimpleNamespace(who=who, suspension_ids=writer.suspension_ids)

    @asynccontextmanager
    async def reached(_):
        stack = WithActors(store, writer)
        yield Reached(acting_for(AsyncClient(StackGateway(stack, timeout_s=10)), found.who), stack)

    monkeypatch.setattr(session, "reached", reached)
    return found


def resolving(given, number, *decision):
    return run(["resolve", given.suspension_ids[number - 1], "--conversation", "c-1", *decision])


def test_a_vote_says_how_many_have_agreed_and_the_last_one_that_it_is_recorded(given, capsys):
    assert resolving(given, 1, "--approve") == ExitCode.DONE
    assert "1 of 2 people has agreed: the call still waits." in capsys.readouterr().out
    assert resolving(given, 1, "--approve") == ExitCode.BAD_INPUT
    assert "'ana' has agreed to call 'call_1' already; 1 of 2 people have" in capsys.readouterr().err
    given.who = Principal("bo", roles=["finance"], proof=Proof.KEY)
    assert resolving(given, 1, "--approve", "--json") == ExitCode.DONE
    receipt = json.loads(capsys.readouterr().out)
    assert (receipt["settled"], receipt["votes"], receipt["needed"]) == (True, 2, 2)


def test_a_stated_principal_is_told_how_to_prove_who_it_is(given, capsys):
    given.who = Principal("ana", roles=["finance"])
    assert resolving(given, 1, "--approve") == ExitCode.BAD_INPUT
    said = capsys.readouterr().err
    assert "'ana' is stated, not proven" in said
    assert "HOLDFAST_TOKEN" in said
    assert resolving(given, 3, "--approve") == ExitCode.DONE
    given.who = Principal("cy", proof=Proof.KEY)
    assert resolving(given, 2, "--deny", "no", "--json") == ExitCode.BAD_INPUT
    error = json.loads(capsys.readouterr().err)
    assert (error["error"], error["why"]) == ("NotPermitted", "'cy' is not one of id:cfo")


def test_a_list_that_is_watched_says_what_others_have_said(given, monkeypatch, capsys):
    run(["assign", given.suspension_ids[0]])
    run(["comment", given.suspension_ids[0], "Which\x1b[31m order?"])
    capsys.readouterr()

    reached = session.reached

    class Watched:
        async def events(self, **_):
            async with reached(None) as opened:
                found = await opened.client.pending_call(given.suspension_ids[0])
            yield ListEvent(ListEventKind.NOTED, 1, "c-1", "desk", 7, call=found)

    @asynccontextmanager
    async def watched(_):
        yield Reached(Watched(), None)

    monkeypatch.setattr(session, "reached", watched)
    assert run(["pending", "--watch"]) == ExitCode.DONE
    said = capsys.readouterr().out
    assert said.startswith(f"noted: {given.suspension_ids[0]} of c-1: may be decided by 2 of role:finance")
    assert "taken on by ana; ana: Which" in said
    assert "\x1b" not in said


@pytest.mark.parametrize(
    ("who", "says"),
    [
        (["stated:a\x1bna"], "not now: a\\x1bna (hidden for 23h"),
        ([], "it is given back, or shown again"),
    ],
)
def test_a_list_that_is_watched_says_who_has_hidden_a_call_that_anybody_may_decide(given, who, says, monkeypatch, capsys):
    until = dict.fromkeys(who, wall_ms() + 86_400_000)
    reached = session.reached

    class Watched:
        async def events(self, **_):
            async with reached(None) as opened:
                found = await opened.client.pending_call(given.suspension_ids[0])
            yield ListEvent(
                ListEventKind.NOTED, 1, "c-1", "desk", 7, call=found.model_copy(update={"approvers": None, "snoozed": until})
            )

    @asynccontextmanager
    async def watched(_):
        yield Reached(Watched(), None)

    monkeypatch.setattr(session, "reached", watched)
    assert run(["pending", "--watch"]) == ExitCode.DONE
    assert says in capsys.readouterr().out


def test_what_is_hidden_and_what_was_escalated_is_said(given, capsys):
    suspension = given.suspension_ids[0]
    assert run(["snooze", suspension, "2h"]) == ExitCode.DONE
    capsys.readouterr()
    assert run(["pending"]) == ExitCode.DONE
    assert suspension not in capsys.readouterr().out
    assert run(["show", "c-1"]) == ExitCode.DONE
    said = capsys.readouterr().out
    assert said.count("not now: ana (hidden for ") == 1
    assert "escalated" not in said
    assert run(["snooze", suspension, "0s"]) == ExitCode.DONE
    assert run(["escalate", suspension, "--to", "role:cfo"]) == ExitCode.DONE
    capsys.readouterr()
    for command in (["pending"], ["show", "c-1"]):
        assert run(command) == ExitCode.DONE
        said = capsys.readouterr().out
        assert "may be decided by 2 of role:cfo" in said
        assert "escalated to them " in said
        assert "not now" not in said


def test_a_call_is_taken_on_given_back_and_commented_and_the_lists_show_it(given, capsys):
    suspension = given.suspension_ids[0]
    assert run(["assign", suspension, "--request-id", "r-1"]) == ExitCode.DONE
    assert run(["assign", suspension, "--request-id", "r-1", "--json"]) == ExitCode.DONE
    assert run(["comment", suspension, "Which\x1b[31m order?"]) == ExitCode.DONE
    assert resolving(given, 1, "--approve") == ExitCode.DONE
    said = capsys.readouterr().out
    assert f"{suspension} of c-1 is yours (seq" in said
    assert '"duplicate": true' in said
    for command in (["pending"], ["show", "c-1"]):
        assert run(command) == ExitCode.DONE
        shown = " ".join(capsys.readouterr().out.replace("┃", " ").split())
        assert "may be decided by 2 of role:finance" in shown
        assert shown.count("the decider must prove who they are: use --url, with a key") == 2, "the third takes stated names"
        assert "1 of 2 people has agreed: ana" in shown
        assert "taken on by ana" in shown
        assert "ana: Which" in shown
        assert "\x1b" not in shown
        assert "may be decided by id:cfo, but not who asked (it is unknown who asked, so nobody may)" in shown
    assert run(["assign", suspension, "--nobody"]) == ExitCode.DONE
    assert run(["assign", suspension, "--to", "bo"]) == ExitCode.DONE
    said = capsys.readouterr().out
    assert "is given back" in said
    assert "is taken on by bo" in said
    assert run(["assign", suspension, "--to", "bo", "--nobody"]) == ExitCode.BAD_INPUT
    assert run(["comment", suspension, ""]) == ExitCode.BAD_INPUT
    assert run(["comment", "s-none", "hello"]) == ExitCode.STALE


def test_the_list_selects_what_a_principal_may_decide(given, capsys):
    assert run(["pending", "--approver", "ana", "--role", "finance", "--json"]) == ExitCode.DONE
    found = json.loads(capsys.readouterr().out)["items"]
    assert {one["tool_call_id"] for one in found} == {"call_1", "call_3"}
    assert run(["pending", "--approver", "nobody"]) == ExitCode.DONE
    assert "Nothing is pending." in capsys.readouterr().out
    assert run(["pending", "--role", "finance"]) == ExitCode.BAD_INPUT
    assert run(["pending", "c-1", "--approver", "ana"]) == ExitCode.BAD_INPUT
    assert run(["pending", "--approver", " "]) == ExitCode.BAD_INPUT
    assert "principal.id" in capsys.readouterr().err
