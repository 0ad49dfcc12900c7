"""One bound of depth at every intake of JSON: a typed error, or an error result for the model, and nothing changed."""

import asyncio
import json

import pytest
from given_worker import bench_at
from writer import DESK, Writer, begin, call, start
from writer import resolve as resolved

from holdfast.actors.worker import tool_run
from holdfast.actors.worker.claims import Claims
from holdfast.actors.workers import RunRequest
from holdfast.agent import Agent, App, Tool, ToolContext, tool
from holdfast.cli import job_file, resolve
from holdfast.cli.errors import InvalidLines
from holdfast.client.operation import context_of
from holdfast.conversation import Answer, Approve, Deny, Limits, Start, State, decide
from holdfast.conversation.terms.decisions import DecisionKind, DecisionRecord
from holdfast.conversation.text import jsontext
from holdfast.errors import ConfigurationError, InvalidDecision, InvalidMessage
from holdfast.persistence import MemoryStore, codec


def nested(levels):
    value = 1
    for _ in range(levels):
        value = {"a": value}
    return value


DEEP = nested(101)
DEEP_TEXT = json.dumps(DEEP)
HANGING_DEEP = '{"a":' * 977 + "1" + "}" * 977
SAID = "nested more than 100 deep"


@pytest.mark.parametrize("decision", [Answer(DEEP), Answer([DEEP]), Approve({"a": DEEP})])
def test_a_decision_is_refused_before_it_travels(decision):
    with pytest.raises(InvalidDecision, match=SAID):
        DecisionRecord.of(decision)


@pytest.mark.parametrize("body", [DEEP_TEXT, HANGING_DEEP, "[" * 100_000, "9" * 5000])
@pytest.mark.parametrize("kind", [DecisionKind.ANSWER, DecisionKind.APPROVE])
async def test_a_decision_that_came_all_the_same_is_refused_by_the_core(body, kind):
    store = MemoryStore()
    writer = await Writer.of(store, "c-1")
    await writer.do(start(), begin(), call("ask" if kind is DecisionKind.ANSWER else "refund"))
    [waiting] = writer.state.calls
    with pytest.raises(InvalidDecision):
        await writer.do(resolved(DecisionRecord(kind=kind, body=body), waiting.tool_call_id))
    assert [view.problem for view in await store.pending_of("c-1")] == [None]


def test_a_body_beyond_its_size_is_not_parsed_at_all(monkeypatch):
    state = State(conversation_id="c-1")
    spec = DESK.model_copy(update={"limits": Limits(message_bytes=1000)})
    monkeypatch.setattr(jsontext, "loads", lambda _: pytest.fail("it was parsed"))

    with pytest.raises(InvalidMessage, match="more than 1000 bytes"):
        decide(state, Start(agent="desk", app="a:b", text="x", message_id="m", context="[" * 2000).stamped(1, spec, {}))


@pytest.mark.parametrize("context", [DEEP_TEXT, HANGING_DEEP, '"\ud800"'])
def test_a_context_is_refused_by_the_core(context):
    command = Start.model_construct(
        kind="start", agent="desk", app="a:b", text="x", message_id="m", context=context, spec=None, known={}, now=1
    )
    with pytest.raises(InvalidMessage) as refused:
        decide(State(conversation_id="c-1"), command)

    assert refused.value.field == "context"


def test_a_context_is_refused_by_the_client():
    with pytest.raises(InvalidMessage, match=SAID):
        context_of(DEEP)


@pytest.mark.parametrize("arguments", [DEEP_TEXT, HANGING_DEEP])
@pytest.mark.parametrize("name", ["refund", "ask", "lookup", "locate"])
async def test_arguments_of_a_model_become_an_error_result(arguments, name):
    store = MemoryStore()
    writer = await Writer.of(store, "c-1")
    await writer.do(start(), begin(), call((name, arguments)))

    assert await store.pending_of("c-1") == []
    [result] = [event for event in writer.events if event.kind == "call_resolved"]
    assert SAID in json.loads(result.content)["error"]


def test_what_an_agent_declares_is_refused():
    with pytest.raises(ConfigurationError, match=SAID):
        Agent(name="desk", model="m", model_options={"extra_body": DEEP})
    with pytest.raises(ConfigurationError, match=SAID):
        Tool(name="search", executor="provider", definition={"type": "x", "a": DEEP})


def test_a_line_of_a_job_file_is_refused_with_its_number(tmp_path):
    file = tmp_path / "jobs.jsonl"
    lines = [{"agent": "desk", "messages": ["hi"]}, {"agent": "desk", "messages": ["hi"], "context": DEEP}]
    file.write_text("\n".join(json.dumps(line) for line in lines))

    with pytest.raises(InvalidLines) as refused:
        job_file.read(file, App(agents=[Agent(name="desk", model="m")]))

    assert "line 2: " in str(refused.value.lines if hasattr(refused.value, "lines") else refused.value.args)


@pytest.mark.parametrize(("given", "arguments"), [({"--answer": DEEP_TEXT}, None), ({"--approve": True}, HANGING_DEEP)])
def test_a_value_on_the_command_line_is_refused(given, arguments):
    with pytest.raises(InvalidDecision, match=SAID):
        resolve.decision_of(given, arguments)


# -- tools -----------------------------------------------------------------------------------------------------------


async def ran(body, arguments="{}"):
    """What became of the run of a tool with this body and these stored arguments."""
    store = MemoryStore()
    declared = Tool(name="lookup", callback=body, parameters={"type": "object"})
    agent = Agent(name="desk", model="m", tools=[declared])
    writer = await Writer.of(store, "c-1")
    await writer.do(start(), begin(), call("lookup"))
    [one] = writer.state.calls
    log, place = store._conversations["c-1"].log, one.arguments_at - 1
    answered = codec.decode_event(log[place])
    called = answered.calls[0].model_copy(update={"arguments": arguments})
    log[place] = codec.encode(answered.model_copy(update={"calls": (called,)}))
    request = RunRequest(
        code="k",
        conversation_id="c-1",
        agent="desk",
        spec_digest=DESK.digest,
        effect_id=writer.effect_ids[0],
        turn_id="t1",
        tool_call_id=one.tool_call_id,
        tool="lookup",
        attempt=1,
        arguments_at=one.arguments_at,
        max_claims=1,
    )
    inputs = await tool_run.inputs_of(store, request)
    claim = Claims("i").new(("c-1", request.effect_id))
    run = tool_run.run(bench_at(store), request, inputs, agent=agent, limits=Limits(), claim=claim)
    return await asyncio.wait_for(run, 20)


@pytest.mark.parametrize("value", [DEEP, nested(20_000), [nested(300)]])
async def test_what_a_tool_returns_is_an_error_result(value):
    outcome = await ran(lambda: value)

    assert not outcome.ok
    assert "cannot be a result" in json.loads(outcome.content)["error"]


async def test_a_hundred_levels_are_a_result():
    outcome = await ran(lambda: nested(100))

    assert outcome.ok
    assert json.loads(outcome.content)["result"] == nested(100)


async def test_a_run_whose_stored_arguments_are_too_deep_ends_with_an_error():
    outcome = await ran(lambda **_: pytest.fail("it ran"), arguments=HANGING_DEEP)

    assert not outcome.ok
    assert "cannot be read" in json.loads(outcome.content)["error"]


def test_arguments_for_a_signature_are_judged_alike():
    @tool
    def look(order: dict, context: ToolContext) -> str:
        return f"{order}{context}"

    assert SAID in look.validate({"order": DEEP})
    assert look.validate({"order": nested(50)}) is None


async def test_a_call_can_be_denied_after_a_deep_answer_was_refused():
    writer = await Writer.of(MemoryStore(), "c-1")
    await writer.do(start(), begin(), call("ask"))

    with pytest.raises(InvalidDecision):
        resolved(Answer(DEEP))(writer.state)
    await writer.do(resolved(Deny("no")))

    assert await writer.store.pending_of("c-1") == []
