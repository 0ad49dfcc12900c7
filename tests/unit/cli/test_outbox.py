"""`holdfast outbox`, and what `problems` and the metrics say of what is owed."""

import asyncio
import json
from contextlib import asynccontextmanager

import pytest
from store_suite.outbox import AUDIT, CHILD, ids, one_leased, owe
from stores import WithActors

from holdfast import metrics
from holdfast.cli import session
from holdfast.cli.app import run
from holdfast.cli.errors import ExitCode
from holdfast.cli.session import Reached
from holdfast.cli.store_checks import checks
from holdfast.client import AsyncClient
from holdfast.client.figures import _values
from holdfast.client.problems import Kind, problems_of
from holdfast.client.stack_gateway import StackGateway
from holdfast.persistence import MemoryStore, OutboxState, OwedFigures, Verdict
from holdfast.settings import Timing

HOUR_MS = 3_600_000
BEGAN_AT = 1_700_000_000_000


class Clock:
    now = BEGAN_AT

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def store(monkeypatch, clock):
    """A store in which two conversations owe notices, one of which was set aside, and one its end to another."""
    made = MemoryStore(clock=clock)

    async def fill():
        await owe(made, "c-1", "suspended", "settled")
        await made.acknowledge(await one_leased(made), Verdict.LATER, reason="it answers 503", after_ms=60_000)
        await owe(made, "c-2", "ended", target=AUDIT)
        await made.acknowledge(await one_leased(made, AUDIT), Verdict.ASIDE, reason="it answers \x1b[31m410")
        return await owe(made, "c-3", "end", target=CHILD)

    writer = asyncio.run(fill())

    @asynccontextmanager
    async def reached(_):
        stack = WithActors(made, writer)
        yield Reached(AsyncClient(StackGateway(stack, timeout_s=10)), stack)

    for name in ("reached", "session"):
        monkeypatch.setattr(session, name, reached)
    return made


def test_what_is_owed_and_set_aside_is_listed(store, capsys):
    assert run(["outbox"]) == ExitCode.DONE
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4
    assert "ops" in lines[1]
    assert "it answers 503" in lines[1]
    assert "own" in lines[2]
    assert lines[3].startswith("set aside")
    assert "\x1b" not in lines[3]


def test_an_empty_outbox_says_so(store, capsys):
    for state in OutboxState:
        for name in asyncio.run(ids(store, state)):
            asyncio.run(store.drop_owed(name))
    asyncio.run(store.drop_owed(asyncio.run(ids(store, OutboxState.OWED))[0]))
    assert run(["outbox"]) == ExitCode.DONE
    assert capsys.readouterr().out == "Nothing is owed.\n"


def test_what_is_listed_as_json_has_all_that_is_known(store, capsys):
    assert run(["outbox", "--json"]) == ExitCode.DONE
    items = json.loads(capsys.readouterr().out)["items"]
    by_name = {(item["target"], item["state"]): item for item in items}
    ops, audit, own = by_name["ops", "owed"], by_name["audit", "set_aside"], by_name["own", "owed"]
    assert (ops["to"], ops["kind"], ops["waiting"], ops["tries"]) == ("shop.app:app", "suspended", 2, 1)
    assert (ops["owed_at"], ops["due_at"], ops["set_aside_at"]) == (BEGAN_AT, BEGAN_AT + 60_000, None)
    assert (audit["set_aside_at"], audit["due_at"]) == (BEGAN_AT, None)
    assert (own["to"], own["kind"]) == ("c-child", "end")
    assert len({item["message_id"] for item in items}) == 3


def test_what_was_set_aside_is_delivered_again(store, capsys):
    (name,) = asyncio.run(ids(store, OutboxState.SET_ASIDE))
    assert run(["outbox", "--retry", name]) == ExitCode.DONE
    assert "is delivered as soon as its target takes it" in capsys.readouterr().out
    assert asyncio.run(one_leased(store, AUDIT)).envelope.kind == "ended"
    assert run(["outbox", "--retry", name, "--json"]) == ExitCode.DONE  # it is owed by now
    assert json.loads(capsys.readouterr().out) == {"id": name, "found": True}


def test_what_is_owed_is_dropped_once(store, capsys):
    name = asyncio.run(ids(store, OutboxState.OWED))[0]
    assert run(["outbox", "--drop", name]) == ExitCode.DONE
    assert "is dropped" in capsys.readouterr().out
    assert run(["outbox", "--drop", name]) == ExitCode.FAILED
    assert "is not in the outbox (any more)" in capsys.readouterr().out


def set_aside(store, count):
    async def fill():
        for number in range(count):
            await owe(store, f"d-{number}", "ended", target=AUDIT)
            await store.acknowledge(await one_leased(store, AUDIT), Verdict.ASIDE, reason="no")

    asyncio.run(fill())


@pytest.mark.parametrize(("option", "left"), [("--retry", 250), ("--drop", 0)])
def test_all_that_was_set_aside_for_a_target_is_delivered_again_or_dropped(store, capsys, option, left):
    set_aside(store, 249)
    assert run(["outbox", "--target", "ops", option, "all", "--json"]) == ExitCode.DONE
    assert json.loads(capsys.readouterr().out) == {"target": "ops", "count": 0}
    assert run(["outbox", "--target", "audit", option, "all"]) == ExitCode.DONE
    assert capsys.readouterr().out.startswith("250 set aside for audit: ")
    assert asyncio.run(ids(store, OutboxState.SET_ASIDE)) == []
    figures = asyncio.run(store.outbox_figures())
    assert figures.lanes.get(AUDIT, OwedFigures()).queues == left


def test_what_is_set_aside_again_meanwhile_is_not_retried_for_ever(store, clock, monkeypatch, capsys):
    redeliver = store.redeliver

    async def refused(name):
        found = await redeliver(name)
        clock.now += 1
        await store.acknowledge(await one_leased(store, AUDIT), Verdict.ASIDE, reason="no")
        return found

    monkeypatch.setattr(store, "redeliver", refused)
    set_aside(store, 9)
    assert run(["outbox", "--target", "audit", "--retry", "all"]) == ExitCode.DONE
    assert capsys.readouterr().out.startswith("10 set aside for audit: ")


def test_what_one_target_is_owed_is_listed(store, capsys):
    assert run(["outbox", "--target", "audit", "--json"]) == ExitCode.DONE
    assert [item["target"] for item in json.loads(capsys.readouterr().out)["items"]] == ["audit"]


@pytest.mark.parametrize("wrong", [["--retry", "all"], ["--drop", "all"], ["--target", "ops", "--retry", "x"]])
def test_all_is_of_a_target(store, capsys, wrong):
    assert run(["outbox", *wrong]) == ExitCode.BAD_INPUT
    assert "--target" in capsys.readouterr().err


def test_bad_input_changes_nothing(store, capsys):
    assert run(["outbox", "--retry", "x", "--drop", "y"]) == ExitCode.BAD_INPUT
    assert run(["outbox", "--retry", "x"]) == ExitCode.BAD_INPUT
    assert "names nothing in the outbox" in capsys.readouterr().err
    assert len(asyncio.run(ids(store, OutboxState.OWED))) == 2


def found(store):
    problems = asyncio.run(problems_of(store, Timing(), " ".join))
    return next((one for one in problems if one.kind is Kind.UNDELIVERED), None)


def test_what_was_set_aside_is_a_problem(store):
    problem = found(store)
    assert (problem.count, [one.name for one in problem.which]) == (1, ["c-2 audit ended"])
    assert "outbox --retry ID" in problem.fix
    (name,) = asyncio.run(ids(store, OutboxState.SET_ASIDE))
    asyncio.run(store.drop_owed(name))
    assert found(store) is None


def test_what_is_owed_for_an_hour_is_a_problem(store, clock):
    clock.now += HOUR_MS + 1
    problem = found(store)
    assert problem.count == 3
    assert {one.name for one in problem.which} == {"c-1 ops suspended", "c-2 audit ended", "c-3 own end"}
    assert problem.since == BEGAN_AT


def test_the_doctor_names_it(store):
    (check,) = [one for one in checks([found(store)], BEGAN_AT) if one.name == "outbox"]
    assert "c-2 audit ended" in check.said


def test_metrics_count_it_by_target(store, clock):
    clock.now += 5_000

    async def read():
        return await _values(store, await store.survey())

    values = asyncio.run(read())
    assert values[metrics.OWED] == {("ops",): 1, ("audit",): 0, ("own",): 1}
    assert values[metrics.OWED_AGE] == {("ops",): 5.0, ("own",): 5.0}
    assert values[metrics.SET_ASIDE] == {("ops",): 0, ("audit",): 1, ("own",): 0}
