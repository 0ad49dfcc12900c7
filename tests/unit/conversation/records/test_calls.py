"""What becomes of the model's calls: they run, ask, or are answered with an error, each by its own nature."""

import re

import pytest

from holdfast.conversation import Answer, Approve, Deny, RunTool, Status, outstanding
from holdfast.conversation.records.calls import CallStatus
from holdfast.conversation.records.commands import ProposedCall

CALL_ID = re.compile(r"[A-Za-z0-9_-]{1,40}")


def proposed(tool_call_id, name="ask", arguments="{}", **more):
    return ProposedCall(tool_call_id=tool_call_id, name=name, arguments=arguments, **more)


# A mix of calls in one turn.


def test_server_calls_run_side_by_side_while_others_wait(begun):
    # when the model asks for two server calls and one of each that waits
    calls = begun.call("lookup", "refund", "charge", "ask", "locate", "share")
    # then the server calls run at once and the others wait, each for its own
    assert begun.effect_ids == [f"{calls[0]}#1", f"{calls[2]}#1"]
    kinds = [begun.suspension(call).kind for call in (calls[1], calls[3], calls[4], calls[5])]
    assert kinds == ["approval", "elicitation", "client_exec", "approval"]
    assert begun.status is Status.AWAITING_INPUT


def test_the_next_model_call_waits_for_the_last_of_the_calls(begun):
    # given a run, a gated run and a question
    run, gated, question = begun.call("lookup", "refund", "ask")
    steps = [
        lambda: begun.resolve(Answer("blue"), question),
        lambda: begun.finish(run),
        lambda: begun.resolve(Approve(), gated),
        lambda: begun.finish(gated),
    ]
    # when they are settled one by one, then the model is called after the last one only
    for step in steps:
        assert not any(effect.kind == "call_model" for effect in outstanding(begun.state))
        step()
    assert begun.effect_ids == ["t1.m2"]
    assert begun.status is Status.GENERATING


def test_the_status_is_executing_tools_only_while_nothing_awaits(begun):
    run, question = begun.call("lookup", "ask")
    assert begun.status is Status.AWAITING_INPUT
    begun.resolve(Answer(1), question)
    assert begun.status is Status.EXECUTING_TOOLS
    begun.finish(run)
    assert begun.status is Status.GENERATING


def test_results_stand_in_the_models_order_whatever_came_first(begun):
    # given four calls
    calls = begun.call("ask", "nope", "lookup", "refund")
    # when they are settled from the last to the first
    begun.resolve(Deny("no"), calls[3])
    begun.finish(calls[2])
    begun.resolve(Answer("blue"), calls[0])
    # then the model reads them in its own order
    tools = [message for message in begun.messages() if message["role"] == "tool"]
    assert [message["tool_call_id"] for message in tools] == calls
    assert [message["name"] for message in tools] == ["ask", "nope", "lookup", "refund"]


def test_a_call_with_a_result_is_resolved_and_one_with_an_error_is_errored(begun):
    calls = begun.call("ask", "nope", "lookup", "charge", "refund")
    begun.resolve(Answer(None), calls[0])
    begun.finish(calls[2])
    begun.finish(calls[3], '{"ok":false,"error":"boom"}', ok=False)
    statuses = [call.status for call in begun.state.calls]
    resolved, errored, awaiting = CallStatus.RESOLVED, CallStatus.ERRORED, CallStatus.AWAITING
    assert statuses == [resolved, errored, resolved, errored, awaiting]


def test_a_run_says_all_that_its_worker_needs(begun):
    [call] = begun.call(("lookup", '{"order":7}'))
    [run] = outstanding(begun.state)
    assert run == RunTool(
        effect_id=f"{call}#1",
        spec_digest=begun.spec.digest,
        code="code-1",
        turn_id="t1",
        tool_call_id=call,
        tool="lookup",
        attempt=1,
        arguments_at=4,
        message_seq=2,
    )
    assert begun.log[run.arguments_at - 1].calls[0].arguments == '{"order":7}'


def test_a_call_that_is_refused_keeps_the_place_of_its_arguments(begun):
    calls = begun.call("nope", "nope")
    assert [begun.state.turn is not None, begun.kinds()[-2:]] == [True, ["call_resolved", "call_resolved"]]
    assert begun.state.turn.call(calls[0]).arguments_at == 4


def test_the_second_refused_call_keeps_the_place_of_its_arguments(begun):
    calls = begun.call("lookup", "nope")
    assert begun.state.turn.call(calls[1]).arguments_at == 4


def test_a_suspended_call_shows_prompt_and_response_schema(begun):
    [ask, age, refund, share] = begun.call(
        proposed("a", "ask", prompt="What colour?"),
        proposed("b", "age"),
        proposed("c", "refund", '{"amount":5}', prompt="Refund 5?"),
        proposed("d", "share"),
    )
    shown = {event.tool_call_id: event for event in begun.log if event.kind == "call_suspended"}
    assert (shown[ask].prompt, shown[refund].prompt) == ("What colour?", "Refund 5?")
    assert '"years"' in shown[age].response_schema
    assert shown[share].response_schema is None  # an approval takes a yes or no
    assert shown[refund].tool == "refund"


# Calls that can neither run nor ask.


@pytest.mark.parametrize(
    "arguments",
    ["{", "nope", "NaN", '{"amount":NaN}', '{"a":"\\ud800"}', "{'a':1}", '{"a":1}}', "[" * 100_000, "[Infinity]"],
    ids=lambda text: text[:20],
)
@pytest.mark.parametrize("tool", ["lookup", "refund", "ask", "locate", "share", "exact"])
def test_arguments_that_do_not_parse_never_run_and_never_ask(begun, tool, arguments):
    [call] = begun.call((tool, arguments))
    assert not {"run_scheduled", "call_suspended"} & set(begun.kinds())
    result = begun.result(call)
    assert result["ok"] is False
    assert result["error"].startswith("invalid arguments: they are not JSON")
    assert begun.effect_ids == ["t1.m2"]


@pytest.mark.parametrize("arguments", ["[]", "5", '"x"', "null", "true", '[{"amount":5}]'])
@pytest.mark.parametrize("tool", ["lookup", "refund", "ask", "locate", "share", "exact"])
def test_arguments_that_are_no_object_never_run_and_never_ask(begun, tool, arguments):
    [call] = begun.call((tool, arguments))
    assert not {"run_scheduled", "call_suspended"} & set(begun.kinds())
    assert begun.result(call) == {"ok": False, "error": "invalid arguments: they are not a JSON object"}


@pytest.mark.parametrize("arguments", ["", " ", "\n\t "])
@pytest.mark.parametrize("tool", ["lookup", "ask"])
def test_empty_arguments_are_an_empty_object(begun, tool, arguments):
    [call] = begun.call((tool, arguments))
    assert begun.state.turn.call(call).open
    assert begun.messages()[-1]["tool_calls"][0]["function"]["arguments"] == "{}"


@pytest.mark.parametrize("name", ["nope", "", "Lookup", "lookup ", "x" * 500])
def test_an_unknown_tool_never_runs_and_never_asks(begun, name):
    [call] = begun.call((name, "{}"))
    assert not {"run_scheduled", "call_suspended"} & set(begun.kinds())
    result = begun.result(call)
    assert (result["ok"], result["error"]) == (False, f"there is no tool named {name:.80}")


def test_a_providers_tool_is_never_dispatched_here(begun):
    [call] = begun.call(("search", "{}"))
    assert not {"run_scheduled", "call_suspended"} & set(begun.kinds())
    assert begun.result(call)["ok"] is False


def test_the_workers_verdict_is_folded_in(begun):
    [call] = begun.call(proposed("a", "lookup", '{"order":"x"}', problem="order: Input should be a valid integer"))
    assert not {"run_scheduled", "call_suspended"} & set(begun.kinds())
    assert begun.result(call) == {"ok": False, "error": "invalid arguments: order: Input should be a valid integer"}


def test_a_strict_tool_enforces_its_schema_on_the_model(begun):
    good, bad = begun.call(("exact", '{"amount":5}'), ("exact", '{"amount":"5"}'))
    assert begun.state.turn.call(good).status is CallStatus.RUNNING
    result = begun.result(bad)
    assert result["ok"] is False
    assert result["error"].startswith("invalid arguments: $.amount: ")


@pytest.mark.parametrize("tool", ["lookup", "refund", "share"])
def test_a_lenient_tool_lets_the_model_stray(begun, tool):
    [call] = begun.call((tool, '{"amount":"a lot"}'))
    assert begun.state.turn.call(call).open


def test_a_turn_of_refused_calls_only_goes_on_at_once(begun):
    begun.call("nope", ("lookup", "{"), "search")
    assert begun.effect_ids == ["t1.m2"]


def test_text_beside_calls_is_kept(begun):
    begun.call("lookup", content="Let me look.")
    assert begun.messages()[-1]["content"] == "Let me look."


# The model's ids.


@pytest.mark.parametrize("bad", ["", "x" * 41, "with space", "dot.dot", "é", "call\n"], ids=repr)
def test_an_id_that_is_ill_formed_is_rewritten(begun, bad):
    [call] = begun.call(proposed(bad))
    assert CALL_ID.fullmatch(call)
    assert begun.log[3].calls[0].original_id == bad
    assert begun.messages()[-1]["tool_calls"][0]["id"] == call


def test_an_id_that_is_well_formed_and_new_is_kept(begun):
    calls = begun.call(proposed("call_7"), proposed("x" * 40))
    assert calls == ["call_7", "x" * 40]
    assert [call.original_id for call in begun.log[3].calls] == [None, None]


def test_ids_repeated_in_one_answer_are_told_apart(begun):
    calls = begun.call(proposed("a"), proposed("a"), proposed(""), proposed(""), proposed("a"))
    assert calls[0] == "a"
    assert len(set(calls)) == 5
    assert all(CALL_ID.fullmatch(call) for call in calls)


def test_an_id_repeated_in_a_later_answer_or_turn_is_rewritten(begun):
    # given a call id that was used, and settled
    [first] = begun.call(proposed("a"))
    begun.resolve(Answer(1), first)
    # when the model uses it again, in the same turn and in the next
    [second] = begun.call(proposed("a"))
    begun.resolve(Answer(2), second)
    begun.reply()
    begun.send()
    begun.begin()
    [third] = begun.call(proposed("a"))
    # then it is another call each time
    assert len({first, second, third}) == 3
    assert begun.result(first) != begun.result(second)
    assert begun.suspension(third) is not None


def test_rewritten_ids_are_the_same_for_the_same_outcome(conversations):
    def rewritten(conversation_id):
        return conversations(conversation_id).begun().call(proposed(""), proposed("a b"))

    assert rewritten("c-1") == rewritten("c-1")
    assert not set(rewritten("c-1")) & set(rewritten("c-2"))


def test_a_rewritten_id_is_never_one_that_the_model_has_used(conversations):
    # given the id that an empty one will be rewritten to at the second model call
    forecast = conversations().begun()
    forecast.call("nope")
    [coming] = forecast.call(proposed(""))
    # when the model has used it already
    conversation = conversations().begun()
    [first] = conversation.call(proposed(coming, "nope"))
    [call] = conversation.call(proposed(""))
    # then the two are told apart
    assert call != first


def test_an_id_that_foresees_a_rewritten_one_before_it_is_told_apart(conversations):
    [coming] = conversations().begun().call(proposed(""))
    calls = conversations().begun().call(proposed(coming), proposed(""))
    later = conversations().begun().call(proposed(""), proposed(coming))
    assert len(set(later)) == 2
    assert coming not in calls[1:]


# Lone surrogates in what the model wrote.


@pytest.mark.parametrize(
    "call",
    [
        proposed("\ud800"),
        proposed("a", "\udfff"),
        proposed("a", "lookup", '{"a":"\ud800"}'),
        proposed("a", "ask", "{}", prompt="\ud800?"),
    ],
    ids=["id", "name", "arguments", "prompt"],
)
def test_what_the_model_wrote_can_always_be_written_to_the_log(begun, call):
    begun.call(call)
    for event in begun.log:
        event.model_dump_json()


def test_a_workers_verdict_with_a_lone_surrogate_becomes_a_result_that_can_be_written(begun):
    [call] = begun.call(proposed("a", "lookup", "{}", problem="\ud800 is not an integer"))
    assert begun.result(call)["error"] == "invalid arguments: ? is not an integer"


@pytest.mark.parametrize("say", ["reply", "fail_model"])
def test_what_the_model_said_can_always_be_written_to_the_log(begun, say):
    getattr(begun, say)("\ud83d")
    for event in begun.log:
        event.model_dump_json()
