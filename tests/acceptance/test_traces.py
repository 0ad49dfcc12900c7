"""Traces of the real stack, as a collector gets them: one trace across a wait, over a killed actor and all processes."""

import os

import pytest
from spans import Spans
from stack_fixture import client_of, eventually, kill_host

from holdfast import Deny
from holdfast.actors.activation.guest import GUESTS
from holdfast.client import Principal
from holdfast.testing import call, calls
from holdfast.traces import begin, during
from holdfast.work_context import traceparent_of


@pytest.mark.skipif(os.environ.get(GUESTS) == "0", reason="without guests a third actor takes part")
async def test_a_turn_is_one_trace_across_a_wait_that_outlives_its_actor(stack, collector, monkeypatch):
    both = calls(call("lookup", {"order": "A1"}), call("refund", {"order": "A1", "amount": 42}))
    asks = stack.scenarios.add("traced", both, "No.")
    monkeypatch.setenv("HOLDFAST_TRACES", "on")

    def spans(*names):
        found = collector.of("traced-1")
        return found if {span.name for span in found} >= set(names) else None

    def worked():
        return [span for span in spans() if span.name.startswith(("chat", "execute_tool"))]

    async with client_of("traced", timeout_s=60) as client:
        with Spans().collected(monkeypatch), during(begin("mine", {}, parent=None)) as mine:
            conversation = await client.start("support", asks, conversation_id="traced-1")
            caller = traceparent_of(mine)
        (waiting,) = (await conversation.wait()).pending
        eventually(lambda: spans("invoke_agent support", "execute_tool lookup"), what="the spans before the wait")
        await kill_host(await client.gateway.stack.store(), "traced-1")
        ana = client.acting_as(Principal("ana@shop.example"))
        await ana.resolve(waiting, Deny("too much"))
        await conversation.wait()
        eventually(lambda: "completed" in {span.said.get("holdfast.turn.outcome") for span in spans()}, what="the turn's end")
        eventually(lambda: len(worked()) >= 3, what="the spans of the workers, each of which sends its own")

    found = spans()
    turns = [span for span in found if span.name == "invoke_agent support"]
    first, last = [span for span in turns if span.process.startswith("actor")][:2]
    over = next(span for span in turns if span.said["holdfast.turn.outcome"] == "completed")
    wait = next(span for span in found if span.name == "holdfast.wait refund")
    work = worked()
    assert {span.trace for span in found} == {caller[3:35]}
    assert first.parent == caller[36:52]
    assert last.parent == wait.parent == first.id
    assert last.links == (first.id,)
    assert [span.parent for span in work] == [first.id, first.id, last.id]
    assert over is last or over.parent == last.id  # as the actor is still there when the answer comes, or not
    assert {span.process.partition(":")[0] for span in work} == {"worker"}
    assert wait.began == waiting.created_at * 1_000_000
    assert wait.said["holdfast.wait.outcome"] == "deny"
    assert not any(word in str(found) for word in ("too much", "A1", "ana@"))
