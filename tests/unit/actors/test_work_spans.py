"""The spans of model calls and runs: below the turn, and without content unless that is on."""

import asyncio
import json

import pytest
from opentelemetry import trace
from opentelemetry.trace import SpanKind, StatusCode
from spans import CALLER, CALLERS_TRACE, Spans, id_of, parent_of, trace_of

from holdfast import Agent, App, Approve, ToolContext, tool
from holdfast.actors.worker.app_loop import AppLoop
from holdfast.actors.worker.work_spans import MESSAGES, NO_CONTENT, Content, model_span, run_span
from holdfast.actors.workers import ModelRequest, RunRequest
from holdfast.conversation import AgentSpec, FailureReason, ModelFailed, ModelReplied
from holdfast.conversation.records.commands import ProposedCall
from holdfast.redaction import Redaction
from holdfast.testing import Rehearsal, call

HIDDEN = "sk-proj-0123456789abcdef"
SHOWN = Content(Redaction({"SHOP_KEY": HIDDEN}))
MODEL = ModelRequest(
    code="k", conversation_id="c-1", agent="desk", spec_digest="d", effect_id="t1.m1", upto_seq=3, attempt=1, traceparent=CALLER
)
RUN = RunRequest(
    code="k",
    conversation_id="c-1",
    agent="desk",
    spec_digest="d",
    effect_id="call_1#1",
    turn_id="t1",
    tool_call_id="call_1",
    tool="refund",
    attempt=1,
    arguments_at=4,
    traceparent=CALLER,
)
SPEC = AgentSpec(name="desk", model="test/model", instructions=f"The key is {HIDDEN}")
MESSAGES_SENT = [
    {"role": "user", "content": f"I am Ana, {HIDDEN}"},
    {"role": "assistant", "content": None, "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": '{"a":1}'}}]},
    {"role": "tool", "tool_call_id": "c", "content": "it is done"},
]
CONTENT = ("gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.system_instructions", "gen_ai.tool.call.arguments")


@pytest.fixture
def spans(monkeypatch):
    with Spans().collected(monkeypatch) as collected:
        yield collected


@tool
async def look_up(order: str) -> str:
    """Look an order up, in a span of the tool's own."""
    with trace.get_tracer("shop").start_as_current_span("query"):
        await asyncio.sleep(0)
    return order


@tool(approval="required")
def refund(order: str, ctx: ToolContext) -> str:
    """Refund an order, in a thread and in a span of the tool's own."""
    with trace.get_tracer("shop").start_as_current_span("payment"):
        return ctx.conversation_id


@tool
def break_down() -> str:
    """Fail."""
    message = f"with {HIDDEN}"
    raise RuntimeError(message)


DESK = Agent(name="desk", model="test/model", tools=[look_up, refund, break_down])


async def test_a_turn_is_one_tree_of_spans_in_which_those_of_the_tools_own_have_their_place(spans):
    model = [call("look_up", {"order": "A-1"}), call("refund", {"order": "A-1"}), "Done."]
    async with Rehearsal(DESK, model=model, decide={"refund": Approve()}) as conversation:
        await conversation.send("Ana wants her money back")

    first, second = spans.named("invoke_agent")
    assert len({trace_of(span) for span in spans.all()}) == 1
    assert [parent_of(span) for span in spans.named("chat test/model")] == [id_of(first), id_of(first), id_of(second)]
    assert parent_of(spans.one("execute_tool look_up")) == id_of(first)
    assert parent_of(spans.one("execute_tool refund")) == id_of(second)
    assert parent_of(spans.one("query")) == id_of(spans.one("execute_tool look_up"))
    assert parent_of(spans.one("payment")) == id_of(spans.one("execute_tool refund"))
    everything = "".join(span.to_json() for span in spans.all())
    assert "A-1" not in everything
    assert "Ana" not in everything
    assert "Done." not in everything


async def test_a_tool_that_fails_is_an_error_without_its_text(spans):
    async with Rehearsal(DESK, model=[call("break_down", {}), "I could not."]) as conversation:
        await conversation.send("hi")

    run = spans.one("execute_tool break_down")
    assert (run.status.status_code, run.status.description) == (StatusCode.ERROR, None)
    assert run.attributes["error.type"] == "tool_error"
    assert HIDDEN not in run.to_json()


async def test_a_body_finds_the_span_of_its_run_on_the_apps_own_loop_and_in_its_threads(spans):
    def mine():
        return id_of(trace.get_current_span())

    async def awaited():
        return mine()

    loop = await AppLoop.open(App(agents=[DESK]))
    try:
        with run_span(RUN, {}):
            found = [await loop.run(awaited()), await loop.in_thread(mine)]
    finally:
        await loop.close()

    assert set(found) == {id_of(spans.one("execute_tool"))}


def test_a_model_call_says_its_model_its_tokens_and_how_it_ended(spans):
    with model_span(MODEL, SPEC, MESSAGES_SENT) as span:
        said = ModelReplied(effect_id="t1.m1", content="Hi Ana", finish_reason="stop", input_tokens=7, output_tokens=11)
        span.ended(said, tries=3)

    chat = spans.one("chat test/model")
    assert (trace_of(chat), parent_of(chat), chat.kind) == (CALLERS_TRACE, CALLER[36:52], SpanKind.CLIENT)
    assert dict(chat.attributes) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.agent.name": "desk",
        "gen_ai.conversation.id": "c-1",
        "gen_ai.request.model": "test/model",
        "gen_ai.response.finish_reasons": ("stop",),
        "gen_ai.usage.input_tokens": 7,
        "gen_ai.usage.output_tokens": 11,
        "holdfast.effect.id": "t1.m1",
        "holdfast.attempt": 1,
        "holdfast.model.tries": 3,
    }


def test_a_model_call_that_fails_says_why_in_one_word(spans):
    with model_span(MODEL, SPEC, ()) as span:
        span.ended(ModelFailed(effect_id="t1.m1", error=f"bad key {HIDDEN}", reason=FailureReason.MODEL_TIMEOUT))

    chat = spans.one("chat")
    assert (chat.status.status_code, chat.attributes["error.type"]) == (StatusCode.ERROR, "model_timeout")
    assert HIDDEN not in chat.to_json()


@pytest.mark.parametrize("content", [NO_CONTENT, SHOWN], ids=["off", "on"])
def test_content_is_shown_where_it_is_on_and_then_without_secrets(spans, content):
    asked = ProposedCall(tool_call_id="call_1", name="refund", arguments=f'{{"key":"{HIDDEN}"}}')
    with model_span(MODEL, SPEC, MESSAGES_SENT, content) as model:
        model.ended(ModelReplied(effect_id="t1.m1", content="Hi Ana", calls=(asked,)))
    with run_span(RUN, {"amount": 5, "key": HIDDEN}, content) as run:
        run.ended('{"ok":true,"result":"paid"}', ok=True)

    shown = dict(spans.one("chat").attributes) | dict(spans.one("execute_tool").attributes)
    assert [name in shown for name in CONTENT] == [content is SHOWN] * len(CONTENT)
    assert ("gen_ai.tool.call.result" in shown) == (content is SHOWN)
    assert HIDDEN not in str(shown)
    if content is SHOWN:
        assert [one["role"] for one in json.loads(shown["gen_ai.input.messages"])] == ["user", "assistant", "tool"]
        (said,) = json.loads(shown["gen_ai.output.messages"])
        assert [part["type"] for part in said["parts"]] == ["text", "tool_call"]


def test_of_many_messages_the_last_are_shown_for_which_there_is_room(spans):
    messages = [{"role": "user", "content": f"{number} " + "x" * 10_000} for number in range(50)]
    with model_span(MODEL, SPEC, messages, SHOWN):
        pass

    text = spans.one("chat").attributes["gen_ai.input.messages"]
    shown = json.loads(text)
    assert len(text) <= MESSAGES + 2
    assert [one["parts"][0]["content"][:2] for one in shown] == ["47", "48", "49"]


def test_a_span_holds_nothing_that_an_exporter_cannot_encode(spans):
    with model_span(MODEL, SPEC, [{"role": "user", "content": "a\ud800b Größe"}], SHOWN) as span:
        span.ended(ModelReplied(effect_id="t1.m1", content="c\ud800d", finish_reason="\ud800" * 500))

    said = dict(spans.one("chat").attributes)
    assert "a?b Größe" in said["gen_ai.input.messages"]
    assert "c?d" in said["gen_ai.output.messages"]
    assert said["gen_ai.response.finish_reasons"] == ("?" * 100,)


def test_work_that_is_cancelled_ends_its_span(spans):
    with pytest.raises(asyncio.CancelledError), run_span(RUN, {}):
        raise asyncio.CancelledError

    assert spans.one("execute_tool").attributes["error.type"] == "CancelledError"
