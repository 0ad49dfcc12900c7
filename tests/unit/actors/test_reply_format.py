"""The strict form of a schema, which providers take for structured output."""

import json
from typing import Any, Literal

import pytest
from pydantic import BaseModel, Field

from holdfast import Agent
from holdfast.actors.worker.reply_format import response_format


class Line(BaseModel):
    name: str = Field(min_length=1, max_length=20)
    price: float | None = None


class Bill(BaseModel):
    """A bill."""

    state: Literal["open", "paid"]
    lines: list[Line] = Field(default=[], max_length=3)


def strict(declared):
    found = response_format(Agent(name="desk", reply=declared).spec.reply)
    return None if found is None else found["json_schema"]["schema"]


def test_every_property_is_required_no_other_is_allowed_and_what_providers_refuse_is_left_out():
    made = strict(Bill)
    assert (made["required"], made["additionalProperties"]) == (["state", "lines"], False)
    line = made["properties"]["lines"]["items"]
    assert (line["required"], line["additionalProperties"]) == (["name", "price"], False)
    assert line["properties"]["price"]["anyOf"] == [{"type": "number"}, {"type": "null"}]
    assert not {"maxItems", "minLength", "default", "title"} & set(json.dumps(made).replace('"', " ").split())


@pytest.mark.parametrize(
    "properties",
    [
        {"a": {}},
        {"a": True},
        {"a": {"type": "object"}},
        {"a": {"type": "object", "properties": {"b": {"type": "string"}}, "additionalProperties": True}},
        {"a": {"type": "array"}},
        {"a": {"allOf": [{"type": "string"}]}},
        {f"p{number}": {"type": "string"} for number in range(101)},
        {"a": {"enum": list(range(501))}},
        {},
    ],
)
def test_a_schema_without_a_strict_form_has_none(properties):
    assert strict({"type": "object", "properties": properties}) is None


def test_a_schema_that_is_nested_deeply_has_none():
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(7):
        schema = {"type": "object", "properties": {"a": schema}}
    assert strict(schema) is None
