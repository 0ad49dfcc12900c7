"""`holdfast top`: the metrics on a screen, and as JSON."""

import asyncio
import io
import json
from contextlib import asynccontextmanager
from types import SimpleNamespace

import pytest
from rich.console import Console
from stores import InMemory
from writer import DESK, Writer, begin, call, start

from holdfast import metrics
from holdfast.cli import session as sessions
from holdfast.cli import top
from holdfast.cli.options import Where
from holdfast.client import AsyncClient, InvalidInput
from holdfast.client.stack_gateway import StackGateway
from holdfast.errors import StoreUnavailable
from holdfast.metrics import Family
from holdfast.persistence import AppRecord, MemoryStore
from holdfast.testing import FailBefore, Faults, FaultyStore


@pytest.fixture
def here(monkeypatch):
    kept = SimpleNamespace(store=MemoryStore())

    @asynccontextmanager
    async def session(_):
        store = kept.store
        await store.put_app(AppRecord(app="shop:app", code="1", agents={"desk": DESK.digest}), [DESK])
        await (await Writer.of(store, "c-1")).do(start(), begin(), call("refund"))
        await store.count({"holdfast_turns_total|desk|completed": 7, "holdfast_model_call_seconds|m|3": 2})
        await store.count({"holdfast_model_call_seconds|m|sum": 900_000, "holdfast_model_cost_usd_total|m": 1_230_000_000})
        stack = InMemory(store)
        await store.count({"holdfast_children_started_total|desk": 5, "holdfast_children_started_total|shop": 2})
        await store.count({"holdfast_children_ended_total|desk": 4})
        yield SimpleNamespace(client=AsyncClient(StackGateway(stack, timeout_s=10)), stack=stack)

    monkeypatch.setattr(sessions, "session", session)
    return kept


def test_once_prints_what_waits_and_what_was_counted(here, capsys):
    top.run(Where(), once=True)
    said = capsys.readouterr().out
    assert "conversations  1 awaiting_input" in said
    assert "delegated      3 under way, 7 in all" in said
    rows = [" ".join(line.split()) for line in said.splitlines()]
    assert any(row.startswith("desk approval 1 ") for row in rows)
    assert "turns desk completed 7" in rows
    assert "model_call_seconds m 2 450 ms" in rows
    assert "model_cost_usd m 1.23" in rows
    assert "in no actor 1 awaiting_input" in rows
    assert "PASSED OVER" not in said


def test_models_that_workers_pass_over_are_shown(here, capsys):
    open_ones = {("openai/a", "open"): 2, **{(f"openai/{number}", "half_open"): 1 for number in range(top.ROWS)}}
    asyncio.run(here.store.note_breakers("worker:a:0", open_ones))
    top.run(Where(), once=True)
    rows = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "openai/a open worker:a:0 2" in rows
    assert "openai/0 half_open worker:a:0 1" in rows
    assert "and 1 more" in rows


def test_json_has_every_metric_with_its_labels(here, capsys):
    top.run(Where(), as_json=True)
    said = json.loads(capsys.readouterr().out)
    by_name = {one["name"]: one for one in said["metrics"]}
    assert said["schema"] == 1
    assert by_name["holdfast_pending_calls"]["values"] == [{"labels": {"agent": "desk", "kind": "approval"}, "value": 1}]
    (timed,) = by_name["holdfast_model_call_seconds"]["values"]
    assert (timed["count"], timed["sum"], timed["buckets"]) == (2, 0.9, [{"up_to": 0.5, "count": 2}])


def test_a_store_that_does_not_answer_is_an_error_and_so_is_an_interval_that_is_none(here):
    with pytest.raises(InvalidInput, match="--every"):
        top.run(Where(), every=0.1)
    here.store = FaultyStore(here.store, Faults(survey=FailBefore()))
    with pytest.raises(StoreUnavailable):
        top.run(Where(), once=True)


def test_the_second_screen_says_what_happened_in_a_minute(here):
    before = [Family(metrics.TURNS, {("desk", "completed"): 1})]
    after = [Family(metrics.TURNS, {("desk", "completed"): 3})]
    written = io.StringIO()
    Console(file=written, width=200).print(top.drawn(after, before, 5.0))
    assert "24.0" in written.getvalue()
