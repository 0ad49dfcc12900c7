"""`holdfast link`: what it prints, and what it refuses."""

import asyncio
import json
from contextlib import asynccontextmanager

import pytest
from stores import WithActors
from writer import Writer, begin, call, start

from holdfast.cli import session
from holdfast.cli.app import run
from holdfast.cli.errors import ExitCode
from holdfast.cli.session import Reached
from holdfast.client import Approve, AsyncClient
from holdfast.client.stack_gateway import StackGateway
from holdfast.conversation import Approvers
from holdfast.conversation.records.commands import ProposedCall
from holdfast.persistence import MemoryStore


@pytest.fixture
def stack(monkeypatch):
    store = MemoryStore()
    writer = asyncio.run(Writer.of(store, "c-1"))
    asked = ProposedCall(tool_call_id="one", name="refund", arguments="{}", approvers=Approvers("role:finance").terms)
    asyncio.run(writer.do(start(), begin(), call(asked)))
    found = WithActors(store, writer)
    keys = {"link_keys": {"k1": b"1" * 32}, "public_url": "https://holdfast.example"}
    found.settings = found.settings.model_copy(update=keys)
    found.suspension_id = writer.suspension_ids[0]

    @asynccontextmanager
    async def reached(where):
        yield Reached(AsyncClient(StackGateway(found, timeout_s=10)), found, where)

    monkeypatch.setattr(session, "reached", reached)
    return found


def linked(stack, *options):
    return run(["link", stack.suspension_id[:8], "--to", "ana", "--role", "finance", *options])


def test_a_link_stands_alone_on_stdout_and_who_decides_by_it_on_stderr(stack, capsys):
    assert linked(stack, "--for", "7d") == ExitCode.DONE

    said = capsys.readouterr()
    assert said.out.startswith("https://holdfast.example/r/k1.")
    assert said.out.count("\n") == 1
    assert f"by it, ana decides {stack.suspension_id} of c-1 within 7d" in said.err
    assert "https://" not in said.err


def test_as_json_it_has_the_token_that_redeems(stack, capsys):
    assert linked(stack, "--decisions", "approve,deny", "--json") == ExitCode.DONE

    made = json.loads(capsys.readouterr().out)
    assert made["url"] == f"https://holdfast.example/r/{made['token']}"
    client = AsyncClient(StackGateway(stack, timeout_s=10))
    assert asyncio.run(client.redeem(made["token"], Approve())).settled


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--decisions", "agree"], "decisions: 'agree' is unknown"),
        (["--decisions", "answer"], "decisions: the call takes no answer"),
        (["--decisions", ""], "decisions: '' is unknown"),
        (["--for", "a day"], "--for: 'a day' is no time"),
        (["--for", "1000d"], "expires_s: 86400000 is no time for a link"),
    ],
    ids=str,
)
def test_what_makes_no_link_is_refused(stack, capsys, options, said):
    assert linked(stack, *options) == ExitCode.BAD_INPUT

    assert said in capsys.readouterr().err


def test_no_link_is_made_for_who_may_not_decide(stack, capsys):
    assert run(["link", stack.suspension_id, "--to", "cy", "--role", "support"]) == ExitCode.BAD_INPUT

    assert "not_permitted ('cy' is not one of role:finance)" in capsys.readouterr().err


def test_without_keys_it_says_what_to_set(stack, capsys):
    stack.settings = stack.settings.model_copy(update={"link_keys": {}})

    assert linked(stack) == ExitCode.BAD_INPUT

    assert "set HOLDFAST_LINK_KEYS=k1:<key>" in capsys.readouterr().err
