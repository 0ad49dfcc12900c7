"""Schemas where they enter: what could not be judged later is refused when the tool is declared."""

import json
from decimal import Decimal

import pytest
from pydantic import BaseModel, Field, create_model

from holdfast.agent import Tool, tool
from holdfast.conversation.text import schema
from holdfast.errors import ConfigurationError

LOOKS_AHEAD = {"type": "object", "properties": {"code": {"type": "string", "pattern": "^(?=a)[ab]+$"}}}


def body(code: str = "") -> str:
    return code


@pytest.mark.parametrize("strict", [True, False])
def test_a_verbatim_schema_with_a_pattern_that_looks_ahead_is_refused(strict):
    with pytest.raises(ConfigurationError) as refused:
        Tool(name="check", parameters=LOOKS_AHEAD, callback=body, strict=strict)

    assert refused.value.field == "tool 'check'.parameters"
    assert "$.properties.code.pattern" in refused.value.problem
    assert "look around" in refused.value.problem


def test_a_response_schema_with_a_pattern_that_looks_back_is_refused():
    with pytest.raises(ConfigurationError) as refused:
        Tool(name="ask", executor="human", response_schema={"pattern": r"^(a)\1$"})

    assert refused.value.field == "tool 'ask'.response_schema"


def test_a_model_whose_schema_cannot_be_judged_is_refused():
    class Code(BaseModel):
        text: str = Field(json_schema_extra={"pattern": "(?!x)"})

    with pytest.raises(ConfigurationError, match="response_schema"):
        Tool(name="ask", executor="human", response_schema=Code)


def test_a_signature_whose_schema_cannot_be_judged_is_refused():
    class Code(BaseModel):
        text: str = Field(json_schema_extra={"pattern": "(?!x)"})

    def check(code: Code) -> str:
        return code.text

    with pytest.raises(ConfigurationError, match="parameters"):
        tool(check)


def test_a_decimal_is_taken_as_number_and_as_text():
    def pay(amount: Decimal) -> str:
        return str(amount)

    parameters = tool(pay).spec.parameters

    assert schema.problem(parameters, {"amount": "19.99"}) is None
    assert schema.problem(parameters, {"amount": 19.99}) is None
    assert schema.problem(parameters, {"amount": []}).startswith("$.amount: ")


def test_models_that_double_at_each_level_keep_their_definitions():
    """Each at its place would be a million of them."""
    model = create_model("M0", value=(int, 0))
    for level in range(1, 21):
        model = create_model(f"M{level}", left=(model, ...), right=(model, ...))

    declared = Tool(name="ask", executor="human", response_schema=model)

    assert len(declared.spec.response_schema) < 20_000
    assert "$defs" in json.loads(declared.spec.response_schema)


@pytest.mark.parametrize("field", ["parameters", "response_schema", "definition"])
def test_json_nested_more_than_a_hundred_deep_is_refused(field):
    deep = {"const": 1}
    for _ in range(100):
        deep = {"not": deep}
    options = {
        "parameters": {"callback": body, "parameters": {"type": "object", **deep}},
        "response_schema": {"executor": "human", "response_schema": deep},
        "definition": {"executor": "provider", "definition": deep},
    }

    with pytest.raises(ConfigurationError, match="nested more than 100 deep") as refused:
        Tool(name="deep", **options[field])

    assert refused.value.field == f"tool 'deep'.{field}"
