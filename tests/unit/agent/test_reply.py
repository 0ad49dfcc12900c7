"""`Agent(reply=)`: what can be declared, and what is refused."""

from dataclasses import dataclass
from typing import Literal

import pytest
from pydantic import BaseModel, field_validator

from holdfast import Agent, ConfigurationError, Context, Model, tool
from holdfast.conversation import sizes
from holdfast.conversation.text import jsontext


class Order(BaseModel):
    number: int
    state: Literal["open", "shipped"] = "open"

    @field_validator("number")
    @classmethod
    def _known(cls, number):
        if number > 100:
            raise ValueError("no such order")
        return number


class Part(BaseModel):
    name: str
    parts: list["Part"] = []


@dataclass
class Pair:
    left: str
    right: str


@tool
def final_answer(text: str) -> str:
    """Answer."""
    return text


SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}


@pytest.mark.parametrize("reply", [Order, Part, Pair, SCHEMA, jsontext.dumps(SCHEMA)], ids=repr)
def test_a_type_or_a_schema_is_the_shape(reply):
    spec = Agent(name="desk", reply=reply).spec
    assert jsontext.loads(spec.reply)["type"] == "object"


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"reply": int}, "reply"),
        ({"reply": list[int]}, "reply"),
        ({"reply": {"type": "string"}}, "reply"),
        ({"reply": {"type": 7}}, "reply"),
        ({"reply": "no json"}, "reply"),
        ({"reply": object()}, "reply"),
        ({"reply": Order, "tools": [final_answer]}, "tools"),
        ({"reply": Order, "model_options": {"response_format": {"type": "json_object"}}}, "reply"),
        ({"reply": Order, "model": Model("a/b", fallbacks=[Model("a/c", {"response_format": {}})])}, "reply"),
    ],
)
def test_what_can_be_no_shape_or_stands_in_its_way_is_refused(given, field):
    with pytest.raises(ConfigurationError) as refused:
        Agent(name="desk", **given)
    assert refused.value.field == f"agent 'desk'.{field}"


def test_an_agent_without_one_has_the_digest_that_it_had():
    plain = Agent(name="desk", tools=[final_answer]).spec
    assert "reply" not in plain.model_dump(exclude_defaults=True)
    assert plain.digest != Agent(name="desk", reply=Order).spec.digest


def test_the_validators_of_a_type_say_what_is_wrong():
    reply = Agent(name="desk", reply=Order).reply
    assert reply.problem({"number": 7}) is None
    assert reply.problem({"number": 700}) == "$.number: Value error, no such order"
    assert Agent(name="desk", reply=SCHEMA).reply.problem({}) is None


def test_the_shape_counts_among_the_tokens_of_each_request():
    plain, shaped = (Agent(name="desk", reply=one, context=Context(budget=4000)).spec for one in (None, Order))
    assert sizes.fixed_tokens(shaped) > sizes.fixed_tokens(plain)
