"""Fields for a schema: what a person sees of a value, and the value that what they fill in makes."""

import json

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from holdfast.client.inbox.fields import ABSENT, MOST_FIELDS, FieldKind, Fields
from holdfast.client.inbox.form import Form

ORDER = {
    "type": "object",
    "properties": {
        "order": {"type": "string"},
        "amount": {"type": "number"},
        "count": {"type": "integer"},
        "gift": {"type": "boolean"},
        "speed": {"enum": ["slow", "fast"]},
        "tags": {"type": "array", "items": {"type": "string"}},
        "to": {"type": "object", "properties": {"street": {"type": "string"}}, "required": ["street"]},
        "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
    },
    "required": ["order", "amount"],
}
FILLED = {"order": "A1", "amount": 4.5, "count": 2, "gift": False, "speed": "fast", "tags": ["a", "b"], "to": {"street": "x"}}


def sent(fields):
    """The form that a browser sends of fields as they are drawn."""
    found = {}

    def walk(one):
        if one.kind is FieldKind.GROUP:
            for inner in one.inner:
                walk(inner)
        else:
            found[one.name] = [one.text.replace("\n", "\r\n")]
            if one.json:
                found[one.mark] = ["on"]

    walk(fields.root)
    return found


def said(schema, value=ABSENT, **changes):
    """The value of the fields of a schema that a person filled in, and the problems of its fields by name."""
    drawn = sent(Fields.of(schema, value))
    form = Form(drawn | {f"v{name and '/'}{name}": [text] for name, text in changes.items()})
    fields = Fields.of(schema, value).filled(form)
    found = fields.value()
    problems = {one.key: one.problem for one in (fields.root, *fields.root.inner) if one.problem}
    return found, problems


def test_each_property_has_a_field_of_its_kind():
    kinds = {one.key: one.kind.value for one in Fields.of(ORDER, FILLED).root.inner}

    assert kinds == {
        "order": "text",
        "amount": "number",
        "count": "integer",
        "gift": "flag",
        "speed": "choice",
        "tags": "items",
        "to": "group",
        "note": "text",
    }


def test_what_is_sent_as_it_was_drawn_is_the_value_itself():
    assert said(ORDER, FILLED) == (FILLED, {})


def test_what_is_changed_is_changed_and_keeps_its_type():
    found, _ = said(ORDER, FILLED, amount="12", gift="true", speed='"slow"', tags="x\r\ny\r\n", **{"to/street": "Elm 1"})

    assert found == FILLED | {"amount": 12, "gift": True, "speed": "slow", "tags": ["x", "y"], "to": {"street": "Elm 1"}}


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("amount", "much", "this is no number"),
        ("amount", "NaN", "this is no number"),
        ("amount", "1e999", "this is no number"),
        ("amount", "", "this is needed"),
        ("count", "1.5", "this is no whole number"),
        ("count", "9" * 401, "this is no whole number"),
        ("gift", "perhaps", "choose one of the values"),
        ("speed", '"light"', "choose one of the values"),
    ],
)
def test_what_is_no_value_of_its_kind_is_said_beside_its_field_and_makes_none(name, text, problem):
    found, problems = said(ORDER, FILLED, **{name: text})

    assert found is ABSENT
    assert problems == {name: problem}


def test_an_optional_property_that_was_not_there_and_is_left_empty_stays_away():
    found, _ = said(ORDER, {"order": "A1", "amount": 1})

    assert found == {"order": "A1", "amount": 1}


def test_edited_arguments_get_no_defaults_and_a_new_answer_is_filled_with_them():
    schema = {"type": "object", "properties": {"speed": {"type": "string", "default": "slow"}}}

    assert said(schema, {})[0] == {}
    assert said(schema)[0] == {"speed": "slow"}


def test_what_was_null_and_may_be_stays_null():
    assert said(ORDER, FILLED | {"note": None})[0] == FILLED | {"note": None}
    assert said(ORDER, FILLED | {"note": None}, note="hm")[0]["note"] == "hm"


def test_what_the_schema_does_not_name_can_be_seen_and_edited_too():
    value = FILLED | {"extra": {"deep": [1]}, "plain": "text"}

    assert said(ORDER, value)[0] == value
    assert said(ORDER, value, extra='{"deep":[2]}')[0]["extra"] == {"deep": [2]}


def test_a_box_for_json_takes_strict_json_alone():
    schema = {"type": "object", "properties": {"x": {"type": "array", "items": {"type": "object"}}}, "required": ["x"]}

    assert said(schema, {"x": []}, x='[{"a": 1}]')[0] == {"x": [{"a": 1}]}
    for text in ("[NaN]", '{"a":1,"a":2}', "[", "nothing", "[" * 200 + "]" * 200):
        found, problems = said(schema, {"x": []}, x=text)
        assert found is ABSENT
        assert problems["x"].startswith("this is no JSON")


@pytest.mark.parametrize(
    ("schema", "text", "value"),
    [
        ({"type": "string"}, "", ""),
        ({"type": "string"}, "yes", "yes"),
        ({"type": "boolean"}, "false", False),
        ({"type": "integer"}, " 0 ", 0),
        ({"enum": [1, "1", None]}, '"1"', "1"),
        ({"const": True}, "true", True),
        (None, "to my card", "to my card"),
        (True, "[1]", "[1]"),
        ({}, "", ""),
    ],
)
def test_an_answer_that_is_no_object_has_one_field(schema, text, value):
    found = Fields.of(schema).filled(Form({"v": [text]})).value()

    assert found == value
    assert type(found) is type(value)


def test_an_answer_without_a_schema_is_json_where_that_is_said():
    assert Fields.of(None).filled(Form({"v": ["[1]"], "j": ["on"]})).value() == [1]
    assert Fields.of(None).filled(Form({"v": ["[1"], "j": ["on"]})).value() is ABSENT


def test_references_are_followed_and_those_that_lead_in_a_circle_end_in_a_box_for_json():
    address = {"type": "object", "properties": {"street": {"type": "string"}, "next": {"$ref": "#/$defs/address"}}}
    schema = {"type": "object", "properties": {"to": {"$ref": "#/$defs/address"}}, "$defs": {"address": address}}
    loop = {"$ref": "#/$defs/loop", "$defs": {"loop": {"$ref": "#/$defs/loop"}}}

    street = Fields.of(schema, {"to": {"street": "x"}}).root.inner[0].inner[0]

    assert (street.kind, street.text) == (FieldKind.TEXT, "x")
    assert said(schema, {"to": {"street": "x"}}, **{"to/street": "y"})[0] == {"to": {"street": "y"}}
    assert Fields.of(loop, 1).root.kind in (FieldKind.JSON, FieldKind.NUMBER)


def test_more_properties_than_fit_on_a_page_are_one_box_for_json():
    value = {f"p{number}": number for number in range(MOST_FIELDS + 1)}
    schema = {"type": "object", "properties": {name: {"type": "integer"} for name in value}}

    fields = Fields.of(schema, value)

    assert fields.root.kind is FieldKind.JSON
    assert json.loads(fields.root.text) == value


def test_a_name_with_slashes_and_tildes_is_one_place():
    schema = {"type": "object", "properties": {"a/b~c": {"type": "string"}, "a": {"type": "string"}}}

    assert said(schema, {"a/b~c": "1", "a": "2"})[0] == {"a/b~c": "1", "a": "2"}


_scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=80)
_values = st.recursive(
    _scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4), max_leaves=12
)
LOOSE = {**ORDER, "required": []}
_schemas = st.sampled_from(
    [
        True,
        LOOSE,
        {},
        {"type": ["string", "null"]},
        {"properties": {"a": LOOSE}},
        {"anyOf": [{"type": "string"}, {"type": "integer"}]},
    ]
)


@given(_schemas, st.dictionaries(st.text(max_size=8), _values, max_size=6))
def test_whatever_the_arguments_are_nothing_changes_where_nothing_is_edited(schema, value):
    assume("\\r" not in json.dumps(value))  # a browser sends no lone carriage returns
    found, problems = said(schema, value)

    assert problems == {}
    assert found == value


@pytest.mark.parametrize("was", ["", None, [], {}, "a\r\nb", "a\rb", 10**500, True, 1.0, 0, False, "null", " x "])
@pytest.mark.parametrize(
    "schema",
    [
        True,
        {"anyOf": [{"type": "string"}, {"type": "null"}]},
        {"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}]},
        {"anyOf": [{"type": "object", "properties": {"a": {"type": "string"}}}, {"type": "null"}]},
        {"enum": [1, 2]},
        {"type": ["string", "number"]},
    ],
)
def test_what_nobody_touched_is_what_it_was_to_the_type(schema, was):
    whole = {"type": "object", "properties": {"x": schema}, "required": ["x"]}
    found, problems = said(whole, {"x": was})

    assert problems == {}
    assert found == {"x": was}
    assert type(found["x"]) is type(was)


def test_fields_of_another_schema_have_another_layout():
    wider = {**ORDER, "properties": {**ORDER["properties"], "more": {"type": "string"}}}

    assert Fields.of(ORDER, FILLED).layout == Fields.of(ORDER, FILLED | {"order": "B7"}).layout
    assert len({Fields.of(schema, FILLED).layout for schema in (ORDER, wider, True)}) == 3


def test_a_property_whose_name_ends_like_a_mark_is_its_own():
    schema = {"type": "object", "properties": {"x": {"type": ["string", "number"]}, "x.json": {"type": "string"}}}

    assert said(schema, {"x": "5", "x.json": "on"}, x="6")[0] == {"x": "6", "x.json": "on"}


@pytest.mark.parametrize("text", ["1_000", "\uff11\uff12", "\u0663", "0x10", "1e", "--1", "1 2", "inf"])
def test_numbers_are_written_in_plain_digits(text):
    assert said(ORDER, FILLED, amount=text)[1] == {"amount": "this is no number"}
