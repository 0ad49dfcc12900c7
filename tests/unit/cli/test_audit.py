"""`holdfast audit`: a table, JSON, lines for an archive, and an exit code that says whether the chain holds."""

import asyncio
import json
from contextlib import asynccontextmanager

import pytest
from stores import WithActors
from writer import Writer, begin, call, resolve, start

from holdfast.cli import session
from holdfast.cli.app import run
from holdfast.cli.errors import ExitCode
from holdfast.cli.session import Reached
from holdfast.client import Approve, AsyncClient, Deny
from holdfast.client.stack_gateway import StackGateway
from holdfast.persistence import MemoryStore, codec


@pytest.fixture
def writer(monkeypatch):
    """The writer of a conversation in which a refund was approved and another denied, which the command reaches."""
    store = MemoryStore()
    made = asyncio.run(Writer.of(store, "c-1"))
    asyncio.run(made.do(start(), begin(), call("refund", "refund")))
    asyncio.run(made.do(resolve(Approve(reason="it is due")), resolve(Deny("no\x1b[31m way"))))

    @asynccontextmanager
    async def reached(_):
        stack = WithActors(store, made)
        yield Reached(AsyncClient(StackGateway(stack, timeout_s=10)), stack)

    monkeypatch.setattr(session, "reached", reached)
    return made


def tampered(writer):
    """Change the first decision in the store; its place."""
    log = writer.store._conversations["c-1"].log
    seq = next(seq for seq, data in enumerate(log, 1) if codec.decode_event(data).kind == "suspension_settled")
    log[seq - 1] = codec.encode(codec.decode_event(log[seq - 1]).model_copy(update={"reason": "never"}))
    return seq


def test_the_decisions_are_a_table_and_the_last_line_is_the_verdict(writer, capsys):
    assert run(["audit", "c-1"]) == ExitCode.DONE
    header, message, first, second, verdict = capsys.readouterr().out.splitlines()
    assert header.split() == ["SEQ", "WHEN", "WHAT", "CALL", "WHO", "WHY", "HEAD"]
    assert message.split()[3:5] == ["message", "-"]
    assert "approve" in first
    assert "refund call_" in first
    assert "it is due" in first
    assert "\x1b" not in second
    assert verdict == f"3 entries, head {writer.state.audit_head}: the chain is intact."


def test_a_broken_chain_says_where_and_exits_with_1(writer, capsys):
    seq = tampered(writer)
    assert run(["audit", "c-1"]) == ExitCode.FAILED
    said = capsys.readouterr().out
    assert f"Broken at {seq}: its head does not follow" in said
    assert said.splitlines()[-1].endswith("the chain is BROKEN.")
    assert run(["audit", "c-1", "--json"]) == ExitCode.FAILED
    found = json.loads(capsys.readouterr().out)
    assert (found["intact"], found["broken_at"], len(found["entries"])) == (False, seq, 3)
    assert run(["audit", "c-1", "--jsonl"]) == ExitCode.FAILED
    *_, last = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert (last["kind"], last["broken_at"]) == ("audit_report", seq)


def test_lines_go_on_after_a_place(writer, capsys):
    assert run(["audit", "c-1", "--jsonl"]) == ExitCode.DONE
    _, first, second, verdict = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert (second["previous"], verdict["head"]) == (first["head"], second["head"])
    assert run(["audit", "c-1", "--jsonl", "--after", str(first["seq"])]) == ExitCode.DONE
    assert [json.loads(line).get("seq") for line in capsys.readouterr().out.splitlines()] == [second["seq"], None]


def test_a_receipt_that_is_not_in_the_chain_breaks_it(writer, capsys):
    assert run(["audit", "c-1", "--receipt", writer.state.audit_head]) == ExitCode.DONE
    assert run(["audit", "c-1", "--receipt", "0" * 64]) == ExitCode.FAILED
    assert "Broken: the head 0000000000000000… of a receipt is not in the chain." in capsys.readouterr().out


@pytest.mark.parametrize(
    ("given", "field"),
    [
        (["--receipt", "short"], "receipts: "),
        (["--after", "3"], "--after: "),
        (["--jsonl", "--json"], "--jsonl: "),
        (["--jsonl", "--after", "-1"], "after: "),
    ],
)
def test_options_that_do_not_fit_are_refused(writer, capsys, given, field):
    assert run(["audit", "c-1", *given]) == ExitCode.BAD_INPUT
    assert field in capsys.readouterr().err


def test_a_conversation_that_is_none_has_no_audit(writer, capsys):
    assert run(["audit", "c-404"]) == ExitCode.BAD_INPUT
    assert "never started" in capsys.readouterr().err


def test_where_an_older_release_wrote_all_the_command_says_that_nothing_was_decided(writer, capsys):
    asyncio.run(_begun(writer.store))
    assert run(["audit", "c-2"]) == ExitCode.DONE
    assert capsys.readouterr().out == "Nothing was decided yet: the chain is intact.\n"


async def _begun(store):
    other = await Writer.of(store, "c-2")
    other.salt = lambda: ""
    await other.do(start())
