import enum
import json
import typing
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, Literal, Optional

import pytest
from pydantic import AfterValidator, BaseModel, Field

from holdfast.agent import InvalidArguments, Tool, ToolContext, tool
from holdfast.conversation.text.schema import problem
from holdfast.errors import ConfigurationError

CONTEXT = ToolContext(conversation_id="c-1", turn_id="t-1", tool_call_id="call_1")


class Colour(enum.Enum):
    RED = "red"


class Item(BaseModel):
    """One thing."""

    sku: str
    count: int = Field(default=1, ge=1)


class Order(BaseModel):
    items: list[Item]
    gift: Item | None = None


class Node(BaseModel):
    children: list["Node"] = []


def parameters(function):
    return json.loads(Tool(callback=function).spec.parameters)


def test_the_schema_has_types_defaults_and_what_is_required():
    def search(query: str, limit: int = 5, order: Literal["up", "down"] = "up", tag: str | None = None):
        pass

    assert parameters(search) == {
        "type": "object",
        "properties": {
            "query": {"type": "string"},
            "limit": {"type": "integer", "default": 5},
            "order": {"type": "string", "enum": ["up", "down"], "default": "up"},
            "tag": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
        },
        "required": ["query"],
        "additionalProperties": False,
    }


def test_a_function_without_parameters_takes_an_empty_object():
    def now():
        pass

    assert parameters(now) == {"type": "object", "properties": {}, "additionalProperties": False}


def test_descriptions_come_from_the_args_section_unless_a_field_has_its_own():
    def refund(order: str, amount: Annotated[int, Field(description="In cents.")], item: Item):
        """Give money back.

        Args:
            order: The order,
                as the customer names it.
            amount (int): Not this.
            item: What it is for.

        Returns:
            Nothing: really.
        """

    found = parameters(refund)["properties"]
    assert found["order"]["description"] == "The order, as the customer names it."
    assert found["amount"]["description"] == "In cents."
    assert found["item"]["description"] == "What it is for."
    assert Tool(callback=refund).spec.description == "Give money back."


def test_nested_models_stand_inline():
    def place(order: Order, more: list[Order]):
        pass

    schema = parameters(place)
    assert "$ref" not in json.dumps(schema)
    assert "$defs" not in schema
    item = schema["properties"]["order"]["properties"]["items"]["items"]
    assert item["properties"]["sku"] == {"type": "string"}
    assert schema["properties"]["more"]["items"] == schema["properties"]["order"]


def test_a_recursive_model_keeps_its_definitions():
    def walk(node: Node):
        pass

    text = Tool(callback=walk).spec.parameters
    assert "$defs" in json.loads(text)
    assert problem(text, {"node": {"children": [{"children": []}]}}) is None
    assert problem(text, {"node": {"children": [{"children": 5}]}}) is not None


def test_names_that_a_pydantic_model_could_not_have_are_fine():
    def odd(schema: str, model_config: int, _private: str, json: str = "x"):
        return (schema, model_config, _private, json)

    assert set(parameters(odd)["properties"]) == {"schema", "model_config", "_private", "json"}


def test_a_default_that_json_cannot_carry_is_left_out_of_the_schema():
    marker = object()

    def find(query: str, cursor: Any = marker):
        pass

    assert parameters(find)["properties"]["cursor"] == {}


@pytest.mark.parametrize(
    "annotation",
    [
        ToolContext,
        ToolContext | None,
        Optional[ToolContext],  # noqa: UP045 - the old spelling must work too
        Annotated[ToolContext, "any"],
        Annotated[ToolContext | None, "any"],
        "ToolContext",
        "typing.Optional[ToolContext]",
    ],
)
def test_a_parameter_annotated_with_the_context_is_not_the_models(annotation):
    def refund(order: str, call=None):
        pass

    refund.__annotations__["call"] = annotation
    assert typing  # the last annotation names it
    assert set(parameters(refund)["properties"]) == {"order"}


async def test_arguments_arrive_as_the_types_annotated():
    seen: dict[str, Any] = {}

    @tool
    def place(order: Order, colour: Colour, pair: tuple[int, str], count: int = 3):
        seen.update(order=order, colour=colour, pair=pair, count=count)

    await place.invoke({"order": {"items": [{"sku": "a"}]}, "colour": "red", "pair": [1, "x"]}, CONTEXT)
    assert seen == {"order": Order(items=[Item(sku="a")]), "colour": Colour.RED, "pair": (1, "x"), "count": 3}


async def test_field_defaults_and_python_defaults_apply():
    @tool
    def page(size: int = Field(default=10, le=50), names: list[str] = [], old: Annotated[int, Field(ge=0)] = 1):  # noqa: B006
        names.append("x")
        return size, names, old

    assert await page.invoke({}, CONTEXT) == (10, ["x"], 1)
    assert await page.invoke({}, CONTEXT) == (10, ["x"], 1)
    assert page.validate({"size": 51}) == "$.size: Input should be less than or equal to 50"


async def test_integers_beyond_64_bits_arrive_whole():
    @tool
    def echo(number: int) -> int:
        return number

    assert await echo.invoke({"number": 2**80}, CONTEXT) == 2**80


def test_a_problem_is_one_line_with_the_path():
    def place(order: Order, note: str):
        pass

    placed = Tool(callback=place)
    assert placed.validate({"order": {"items": []}, "note": ""}) is None
    found = placed.validate({"order": {"items": [{"sku": 5}]}, "extra": 1})
    assert found is not None
    assert found.split("; ") == [
        "$.order.items[0].sku: Input should be a valid string",
        "$.note: it is required",
        "$.extra: the tool has no such parameter",
    ]


def test_many_problems_are_cut_short():
    def sum_up(numbers: list[int]):
        pass

    found = Tool(callback=sum_up).validate({"numbers": ["x\ny"] * 100})
    assert found is not None
    assert found.endswith("and 95 more")
    assert "\n" not in found


def test_arguments_that_are_not_json_are_a_problem():
    def echo(number: float):
        pass

    assert "not JSON" in (Tool(callback=echo).validate({"number": float("nan")}) or "")


def test_a_validator_that_breaks_is_a_problem_too():
    def broken(value: int) -> int:
        raise KeyError(value)

    def echo(number: Annotated[int, AfterValidator(broken)]):
        pass

    assert Tool(callback=echo).validate({"number": 7}) == "$: a validator raised KeyError: 7"


async def test_invalid_arguments_never_reach_the_body():
    ran = []

    @tool
    def refund(amount: int):
        ran.append(amount)

    with pytest.raises(InvalidArguments, match=r"\$\.amount"):
        await refund.invoke({"amount": "much"}, CONTEXT)
    assert ran == []


def test_a_verbatim_schema_is_not_judged_by_the_tool():
    def refund(amount: int):
        pass

    declared = Tool(callback=refund, parameters={"type": "object", "properties": {"amount": {"type": "integer"}}})
    assert declared.validate({"amount": "much"}) is None


@pytest.mark.parametrize("stars", ["*", "**"])
def test_starred_parameters_are_refused_with_the_reason(stars):
    scope: dict[str, Any] = {}
    exec(f"def refund({stars}rest): pass", scope)  # noqa: S102
    with pytest.raises(ConfigurationError) as caught:
        Tool(callback=scope["refund"])
    assert caught.value.field == "tool 'refund'.parameters.rest"
    assert "no JSON Schema" in caught.value.problem
    assert "parameters=" in caught.value.fix


def test_a_method_that_nothing_gives_its_self_is_refused():
    class Shop:
        def refund(self, order: str):
            return order

    with pytest.raises(ConfigurationError, match=r"parameters\.self.*method"):
        Tool(callback=Shop.refund)
    assert set(parameters(Shop().refund)["properties"]) == {"order"}


@pytest.mark.parametrize("annotation", [Callable[[int], int], type("Database", (), {}), type(CONTEXT.report_progress)])
def test_a_type_that_json_cannot_fill_is_refused_by_the_parameters_name(annotation):
    def refund(order: str, db=None):
        pass

    refund.__annotations__["db"] = annotation
    with pytest.raises(ConfigurationError) as caught:
        Tool(callback=refund)
    assert caught.value.field == "tool 'refund'.parameters.db"
    assert "ToolContext.resources" in caught.value.fix


def test_an_annotation_that_cannot_be_resolved_is_refused_by_the_parameters_name():
    def refund(order: "Nowhere"):  # noqa: F821
        pass

    with pytest.raises(ConfigurationError) as caught:
        Tool(callback=refund)
    assert caught.value.field == "tool 'refund'.parameters.order"
    assert "TYPE_CHECKING" in caught.value.fix


def test_an_annotation_may_name_a_type_of_the_enclosing_function():
    class Local(BaseModel):
        x: int

    @tool
    def take(value: "Local"):
        pass

    assert json.loads(take.spec.parameters)["properties"]["value"]["properties"] == {"x": {"type": "integer"}}


async def test_a_partial_fills_what_it_binds_by_default():
    def refund(shop: str, order: str) -> str:
        """Give back."""
        return f"{shop}:{order}"

    bound = Tool(name="refund", callback=partial(refund, "berlin"))
    assert set(json.loads(bound.spec.parameters)["properties"]) == {"order"}
    assert bound.spec.description == "Give back."
    assert await bound.invoke({"order": "7"}, CONTEXT) == "berlin:7"


async def test_an_object_with_call_is_a_function_too():
    class Refund:
        async def __call__(self, order: str, call: ToolContext) -> str:
            """Give back."""
            return f"{order}:{call.tool_call_id}"

    declared = Tool(name="refund", callback=Refund())
    assert declared.spec.description == "Give back."
    assert await declared.invoke({"order": "7"}, CONTEXT) == "7:call_1"
