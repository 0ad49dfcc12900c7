"""A turn that asks whether it may go on, on the real stack: decided over HTTP and on the command line."""

import json

import pytest
from server_process import WITHIN_S, serving
from stack_fixture import results

from holdfast.client import AsyncClient, Status, StopReason, SuspensionKind
from holdfast.testing import call

APP = "stopping_app:app"

pytestmark = pytest.mark.gate


@pytest.fixture
async def client(stack):
    async with AsyncClient.connect(APP, timeout_s=90) as connected:
        yield connected


async def asking(stack, client, name, *then):
    """A conversation that asks after a round of calls."""
    looks = [call("lookup", {"order": f"{name} {number}"}) for number in range(2)]
    text = stack.scenarios.add(name, *looks, *then)
    conversation = await client.start("careful", text, conversation_id=name)
    state = await conversation.wait(timeout_s=WITHIN_S)
    assert state.status is Status.AWAITING_INPUT
    return conversation, state


def requests_of(stack, name):
    return [one.body for one in stack.model.requests if one.body["messages"][0]["content"] == name]


async def test_a_turn_is_extended_over_http_and_the_model_knows_nothing_of_it(stack, client):
    conversation, state = await asking(stack, client, "ask-http", "Both are found.")
    async with serving(stack) as server:
        (row,) = (await server("GET", "/v1/pending?kind=limit&agent=careful"))["items"]
        assert (row["conversation_id"], row["tool"], row["kind"]) == ("ask-http", "holdfast.limit", "limit")
        assert (row["arguments"]["bound"], row["arguments"]["extends_by"]) == ("Stop(rounds=1)", {"rounds": 1})
        assert row["decisions"] == ["approve", "deny"]
        place = f"/v1/pending/{row['suspension_id']}/resolve"
        edited = {"decision": "approve", "arguments": {"rounds": 9}, "conversation_id": "ask-http"}
        refused = await server("POST", place, 422, json=edited)
        assert refused["field"] == "decision.arguments"
        receipt = await server("POST", place, json={"decision": "approve", "conversation_id": "ask-http"})
    state = await conversation.wait(after=receipt["seq"], timeout_s=WITHIN_S)
    assert (state.status, state.reply, state.stopped) == (Status.IDLE, "Both are found.", None)
    bodies = requests_of(stack, "ask-http")
    assert len(bodies) == 3
    assert "limit" not in json.dumps([body["messages"] for body in bodies])
    assert len(results(await conversation.messages())) == 2


async def test_a_turn_is_ended_on_the_command_line(stack, client):
    conversation, state = await asking(stack, client, "ask-line")
    (question,) = state.pending
    shown, _ = stack.python("-m", "holdfast.cli", "pending", "--kind", "limit", "--json").communicate(timeout=WITHIN_S)
    assert question.suspension_id in shown
    process = stack.python("-m", "holdfast.cli", "deny", question.suspension_id, "that will do", "--conversation", "ask-line")
    said, wrong = process.communicate(timeout=WITHIN_S)
    assert process.returncode == 0, said + wrong
    state = await conversation.wait(after=state.seq, timeout_s=WITHIN_S)
    assert (state.status, state.stopped, state.detail) == (Status.IDLE, StopReason.ROUNDS, "Stop(rounds=1)")
    assert len(requests_of(stack, "ask-line")) == 2
    assert "this call did not run" in results(await conversation.messages())[-1]["error"]


async def test_a_question_that_is_cancelled_with_all_that_waits_ends_the_turn(stack, client):
    conversation, state = await asking(stack, client, "ask-cancelled")
    (question,) = await conversation.pending()
    assert question.kind is SuspensionKind.LIMIT
    cancelled = await conversation.cancel_pending()
    state = await conversation.wait(after=state.seq, timeout_s=WITHIN_S)
    assert (cancelled.calls, state.stopped) == ((question.tool_call_id,), StopReason.ROUNDS)
