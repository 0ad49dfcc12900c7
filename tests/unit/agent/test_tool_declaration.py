import json
import math
from enum import StrEnum

import pytest
from pydantic import BaseModel

from holdfast.agent import Approval, Executor, OnLost, Tool, tool
from holdfast.errors import ConfigurationError

SCHEMA = {"type": "object", "properties": {"order": {"type": "string"}}}


class Answer(BaseModel):
    ok: bool


def body(order: str) -> str:
    return order


def declare(**options):
    return Tool(**{"name": "refund", "parameters": SCHEMA, "callback": body, **options})


def refused(field, *words, **options):
    with pytest.raises(ConfigurationError) as caught:
        declare(**options)
    error = caught.value
    assert error.field == field
    for word in words:
        assert word in f"{error.problem}; {error.fix}"
    assert error.fix
    return error


def test_a_tool_is_an_ungated_server_tool_by_default():
    spec = declare().spec
    assert (spec.executor, spec.approval, spec.on_lost) == (Executor.SERVER, Approval.AUTO, OnLost.REDISPATCH)
    assert spec.prompt is None
    assert spec.response_schema is None


def test_a_person_is_asked_about_the_lost_run_of_a_gated_tool_by_default():
    assert declare(approval="required").spec.on_lost is OnLost.ASK
    assert declare(approval="required", on_lost="redispatch").spec.on_lost is OnLost.REDISPATCH


def test_parameters_given_as_text_pass_byte_for_byte():
    text = '{ "type": "object",\n  "properties": {"ä": {"type":"number", "maximum": 1E2}}, "z": 1.0, "a": 2 }'
    assert declare(parameters=text).spec.parameters == text


def test_parameters_given_as_a_dict_keep_the_order_of_their_keys():
    schema = {"type": "object", "required": ["z"], "properties": {"z": {}, "a": {}}}
    assert list(json.loads(declare(parameters=schema).spec.parameters)) == ["type", "required", "properties"]
    assert declare(parameters=schema).spec.parameters == '{"type":"object","required":["z"],"properties":{"z":{},"a":{}}}'


def test_a_provider_cannot_be_gated_because_nothing_suspends_before_it_runs():
    options = {"executor": "provider", "definition": {"type": "web_search"}, "callback": None, "parameters": None}
    refused("tool 'refund'.approval", "nothing suspends before it runs", "executor", approval="required", **options)


def test_a_human_cannot_be_gated_because_it_would_be_circular():
    refused("tool 'refund'.approval", "circular", "approval", executor="human", approval="required")


def test_a_client_tool_can_be_gated():
    spec = declare(executor="client", approval="required", response_schema=Answer, callback=None).spec
    assert (spec.executor, spec.approval) == (Executor.CLIENT, Approval.REQUIRED)


def test_a_server_tool_needs_a_callback():
    refused("tool 'refund'.callback", "has none", "callback=", callback=None)


def test_a_provider_tool_needs_its_definition():
    refused("tool 'refund'.definition", "no definition", executor="provider", callback=None, parameters=None)


def test_a_provider_tool_takes_neither_callback_nor_parameters():
    refused("tool 'refund'.callback", "never run", executor="provider", definition={}, parameters=None)
    refused("tool 'refund'.parameters", "never be read", executor="provider", definition={}, callback=None)


def test_a_definition_is_for_provider_tools_only_and_passes_verbatim():
    refused("tool 'refund'.definition", "server tool", definition={"type": "web_search"})
    assert Tool(name="web", executor="provider", definition='{"type": "x"}').spec.definition == '{"type": "x"}'
    assert Tool(name="web", executor="provider", definition={"b": 1, "a": 2}).spec.definition == '{"b":1,"a":2}'
    with pytest.raises(ConfigurationError, match="no object"):
        Tool(name="web", executor="provider", definition="[]")


@pytest.mark.parametrize("name", ["", "with space", "dotted.name", "ü", "a" * 65, "line\n", 7])
def test_a_name_that_openai_cannot_carry_is_refused(name):
    refused(f"tool {name!r}.name", "[a-zA-Z0-9_-]{1,64}", name=name)


def test_a_tool_without_any_name_is_refused():
    with pytest.raises(ConfigurationError, match=r"tool\.name.*give name="):
        Tool(executor="human")


@pytest.mark.parametrize(
    ("parameters", "word"),
    [
        ("{", "not JSON"),
        ("[]", "no object"),
        ('{"type": "object", "x": NaN}', "NaN"),
        ([], "no JSON object"),
        ({"type": "object", "properties": {"x": {"type": "nonsense"}}}, "no valid JSON Schema"),
        ({"type": "array"}, "'array'"),
        ({"properties": {}}, "no type"),
        ({"type": "object", "default": {1, 2}}, "not JSON"),
    ],
)
def test_parameters_that_are_no_object_schema_are_refused(parameters, word):
    refused("tool 'refund'.parameters", word, parameters=parameters)


@pytest.mark.parametrize("field", ["executor", "approval", "on_lost"])
def test_an_unknown_value_is_refused_with_those_allowed(field):
    allowed: dict[str, type[StrEnum]] = {"executor": Executor, "approval": Approval, "on_lost": OnLost}
    refused(f"tool 'refund'.{field}", "'sometimes'", *(repr(str(known)) for known in allowed[field]), **{field: "sometimes"})


@pytest.mark.parametrize("approval", list(Approval))
@pytest.mark.parametrize("on_lost", list(OnLost))
def test_what_a_lost_run_means_is_independent_of_the_gate(approval, on_lost):
    assert declare(approval=approval, on_lost=str(on_lost)).spec.on_lost is on_lost


@pytest.mark.parametrize("field", ["response_schema", "answer_timeout_s"])
def test_what_belongs_to_an_answer_is_refused_for_a_server_tool(field):
    refused(f"tool 'refund'.{field}", "no person answers a server tool", **{field: Answer if field == "response_schema" else 5})


@pytest.mark.parametrize(("field", "value"), [("streaming", True), ("run_timeout_s", 5)])
@pytest.mark.parametrize("executor", ["human", "client"])
def test_what_belongs_to_a_run_is_refused_where_nothing_runs(executor, field, value):
    refused(f"tool 'refund'.{field}", f"a {executor} tool", executor=executor, **{field: value})


def test_what_a_lost_run_means_is_refused_where_none_can_be_lost():
    refused("tool 'refund'.on_lost", "a human tool", executor="human", on_lost="error")
    assert declare(executor="client", on_lost="error").spec.on_lost is OnLost.ERROR


def test_an_approval_timeout_is_refused_where_nobody_approves():
    refused("tool 'refund'.approval_timeout_s", 'approval="required"', approval_timeout_s=5)


@pytest.mark.parametrize("value", [0, -1, math.inf, math.nan, "60", True])
def test_a_timeout_is_a_positive_finite_number(value):
    refused("tool 'refund'.run_timeout_s", run_timeout_s=value)


def test_timeouts_are_kept_in_seconds():
    gated = declare(approval="required", approval_timeout_s=3, run_timeout_s=0.5).spec
    assert (gated.approval_timeout_s, gated.run_timeout_s) == (3.0, 0.5)
    assert declare(executor="human", answer_timeout_s=9).spec.answer_timeout_s == 9.0


@pytest.mark.parametrize("field", ["streaming", "strict"])
def test_a_flag_is_a_boolean(field):
    refused(f"tool 'refund'.{field}", "True or False", **{field: "yes"})


def test_a_description_that_cannot_be_stored_is_refused():
    refused("tool 'refund'.description", "UTF-8", description="\ud800")
    refused("tool 'refund'.description", "not text", description=5)


def test_a_response_schema_comes_from_a_model_a_type_or_json_schema():
    def schema(given):
        return json.loads(declare(executor="human", response_schema=given).spec.response_schema)

    assert schema(Answer)["properties"] == {"ok": {"type": "boolean"}}
    assert schema(list[int]) == {"type": "array", "items": {"type": "integer"}}
    assert schema(bool) == {"type": "boolean"}
    assert schema({"enum": ["a", "b"]}) == {"enum": ["a", "b"]}
    assert schema('{"type": "string"}') == {"type": "string"}


def test_a_response_schema_that_is_none_is_refused():
    refused("tool 'refund'.response_schema", "no JSON Schema", executor="human", response_schema=type("Handle", (), {}))
    refused("tool 'refund'.response_schema", "no valid JSON Schema", executor="human", response_schema={"type": 5})


def test_a_callback_must_be_callable_and_no_generator():
    def rows():
        yield 1

    async def stream():
        yield 1

    refused("tool 'refund'.callback", "cannot be called", callback=5)
    refused("tool 'refund'.callback", "generator", "report_progress", callback=rows)
    refused("tool 'refund'.callback", "generator", callback=stream)


def test_a_callback_with_positional_only_parameters_is_refused():
    def positional(order, /):
        return order

    refused("tool 'refund'.callback", "positional-only", callback=positional)


def test_the_decorator_works_bare_and_with_arguments():
    @tool
    def lookup(order: str) -> str:
        """Find an order.

        In the database.
        """
        return f"found {order}"

    @tool(approval="required", name="give_back", run_timeout_s=5)
    def refund(order: str) -> str:
        return order

    assert isinstance(lookup, Tool)
    assert (lookup.name, lookup.spec.description) == ("lookup", "Find an order.")
    assert (refund.name, refund.spec.approval, refund.spec.run_timeout_s) == ("give_back", "required", 5.0)


def test_a_decorated_function_can_still_be_called():
    @tool
    def add(a: int, b: int = 2) -> int:
        """Add."""
        return a + b

    assert add(1) == 3
    assert add(1, b=5) == 6
    assert add.callback is not None
    assert (add.__name__, add.__doc__) == ("add", "Add.")


def test_the_body_of_a_decorated_human_tool_needs_no_sense():
    @tool(executor="human", response_schema=Answer)
    def ask(question: str):
        """Ask a person."""

    assert ask.spec.executor is Executor.HUMAN
    assert json.loads(ask.spec.parameters)["required"] == ["question"]


def test_calling_a_tool_without_a_callback_is_a_type_error():
    with pytest.raises(TypeError, match="no callback"):
        Tool(name="ask", executor="human")()


def test_decorating_twice_or_with_a_name_in_place_is_refused():
    with pytest.raises(ConfigurationError, match="already"):
        tool(declare())
    with pytest.raises(ConfigurationError, match="keywords only"):
        tool("refund")


def test_a_description_given_wins_over_the_docstring():
    @tool(description="Given.")
    def lookup():
        """From the docstring."""

    assert lookup.spec.description == "Given."


def test_a_tool_without_parameters_or_callback_takes_an_empty_object():
    assert json.loads(Tool(name="ask", executor="human").spec.parameters) == {"type": "object", "properties": {}}
