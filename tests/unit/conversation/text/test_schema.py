"""JSON Schema: what is wrong, and where; neither a broken schema nor a hostile value breaks or stops the machine."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.conversation import Answer, Deny
from holdfast.conversation.text import jsontext, schema, workload
from holdfast.conversation.text.regex import pattern_size
from holdfast.errors import InvalidDecision

TREE = '{"type":"array","items":{"$ref":"#"}}'
MONEY = '{"type":"number","multipleOf":0.01}'
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda children: st.lists(children, max_size=4) | st.dictionaries(st.text(), children, max_size=4),
    max_leaves=12,
)
LOOKS_AHEAD = '{"pattern":"^(?=a)[ab]+$"}'


def test_nothing_asked_is_nothing_wrong():
    assert schema.problem(None, object()) is None
    assert schema.problem("true", {"any": "thing"}) is None


@pytest.mark.parametrize(
    ("text", "value", "where"),
    [
        ('{"type":"string"}', 5, "$: "),
        ('{"properties":{"a":{"items":{"type":"integer"}}}}', {"a": [1, "x"]}, "$.a[1]: "),
        ('{"required":["a"]}', {}, "$: "),
        ('{"properties":{"a b":{"const":1}}}', {"a b": 2}, "$"),
        ("false", 1, "$: "),
        ('{"type":"integer"}', True, "$: "),
        ('{"enum":[1]}', True, "$: "),
    ],
)
def test_a_problem_says_where(text, value, where):
    assert schema.problem(text, value).startswith(where)


def test_a_long_problem_is_cut():
    assert len(schema.problem('{"enum":[1]}', "x" * 10_000)) < 400


def test_a_reference_is_never_fetched():
    # the network is forbidden here, so a fetch would raise
    assert "cannot be judged against the schema" in schema.problem('{"$ref":"http://127.0.0.1:9/x"}', 1)


@pytest.mark.parametrize("text", ['{"pattern":"["}', '{"$ref":"#/$defs/gone"}'])
def test_a_broken_schema_is_a_problem_and_no_crash(text):
    assert "cannot be judged against the schema" in schema.problem(text, "a")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"$ref":"#"}', 1),
        (TREE, json.loads("[" * 400 + "]" * 400)),
        (MONEY, float("inf")),
        ('{"$schema":[]}', 1),
        ('{"type":"string"}', [10**4299 * 10**10]),
    ],
    ids=["circular schema", "deep value", "infinity", "odd dialect", "unprintable number"],
)
def test_what_cannot_be_judged_is_a_problem_and_no_crash(text, value):
    assert schema.problem(text, value)


@pytest.mark.parametrize(("value", "fits"), [(10**400, True), (19.99, True), (0.3, True), (0.001, False), (2**64 + 1, True)])
def test_numbers_are_judged_by_their_digits(value, fits):
    assert (schema.problem(MONEY, value) is None) is fits


def test_an_answer_that_cannot_be_judged_is_refused_with_a_typed_error(conversations):
    """As by a spec that was stored when its pattern was accepted: it is denied, or it ends by itself."""
    conversation = conversations(spec=conversations.desk_with(age={"response_schema": LOOKS_AHEAD})).begun()
    [call] = conversation.call("age")
    with conversation.unchanged(), pytest.raises(InvalidDecision, match="cannot be judged against the schema"):
        conversation.resolve(Answer("ab"), call)

    conversation.resolve(Deny("it cannot be asked"), call)

    assert conversation.result(call)["ok"] is False


def test_arguments_that_cannot_be_judged_become_an_error_result(conversations):
    broken = '{"properties":{"a":{"pattern":"(a)\\\\1"}}}'
    conversation = conversations(spec=conversations.desk_with(exact={"parameters": broken}))
    [call] = conversation.begun().call(("exact", '{"a":"aa"}'))
    assert "cannot be judged" in conversation.result(call)["error"]


def test_a_sound_schema_has_no_problem():
    for text in ("true", "{}", TREE, MONEY, '{"$schema":"http://json-schema.org/draft-07/schema#","type":"object"}'):
        assert schema.schema_problem(text) is None


@pytest.mark.parametrize("text", ['{"type":"objekt"}', '{"required":"a"}', '{"properties":[]}', "[]"])
def test_a_schema_that_is_none_is_told_why(text):
    assert schema.schema_problem(text).startswith("$")


@pytest.mark.parametrize("text", ["5", "null", '{"$schema":[]}'])
def test_a_schema_of_the_wrong_type_is_told_why(text):
    assert schema.schema_problem(text)


# -- no judgement without an end -----------------------------------------------------------------------------------------


def branching(levels):
    """A schema of a few lines that applies its last subschema 2^levels times to one value."""
    held = {
        f"d{level}": {"anyOf": [{"$ref": f"#/$defs/d{level + 1}"}, {"$ref": f"#/$defs/d{level + 1}"}]}
        for level in range(levels)
    }
    return {"$defs": {**held, f"d{levels}": {"type": "string"}}, "$ref": "#/$defs/d0"}


def nested(levels):
    value = 1
    for _ in range(levels):
        value = [value]
    return value


DOUBLING = {
    "$defs": {
        "a": {"anyOf": [{"type": "array", "items": {"$ref": "#/$defs/a"}}, {"minItems": 1, "items": {"$ref": "#/$defs/a"}}]}
    },
    "$ref": "#/$defs/a",
}


@pytest.mark.parametrize(
    ("rule", "value"),
    [
        ({"pattern": "^(a+)+$"}, "a" * 34 + "!"),
        ({"pattern": "^(([a-z])+.)+[A-Z]([a-z])+$"}, "a" * 200_000),
        ({"pattern": "(?:.{0,30}){0,30}z"}, "x" * 262_144),
        ({"pattern": "[ab]*a[ab]{3600}z"}, "ab" * 131_072),
        ({"uniqueItems": True, "maxItems": 5}, [[{"a": str(number)}] for number in range(30_000)]),
        (branching(16), 1),
        (branching(40), 1),
        (DOUBLING, nested(90)),
        ({"anyOf": [{"type": "string", "minLength": least} for least in range(1000)]}, [1] * 50_000),
        ({"items": {"enum": [[number] for number in range(1000)]}}, [[-1]] * 50_000),
    ],
    ids=lambda one: None if not isinstance(one, dict) else str(one)[:40],
)
@pytest.mark.usefixtures("promptly")
def test_a_hostile_value_or_schema_is_a_problem_at_once(rule, value):
    said = schema.problem(json.dumps(rule), value)

    assert said.startswith("$")
    assert len(said) < 400


@pytest.mark.usefixtures("promptly")
def test_ten_thousand_items_are_compared_at_once():
    assert schema.problem('{"uniqueItems":true}', list(range(10_000))) is None


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ({"pattern": "^(?=a)b"}, r"\$\.pattern: .*look around or back"),
        ({"properties": {"code": {"pattern": r"(a)\1"}}}, r"\$\.properties\.code\.pattern: "),
        ({"patternProperties": {"(?!x)": True}}, r"\$\.patternProperties"),
        ({"pattern": "(a{1000}){1000}"}, "patterns are too large together"),
        ({"anyOf": [{"pattern": ".{0,9000}"}] * 2}, "patterns are too large together"),
        ({"$ref": "http://example.com/x"}, "never fetched"),
        ({"$ref": "file:///etc/passwd"}, "never fetched"),
        ({"$schema": "http://example.com/x"}, "meta-schema"),
        ({"$ref": "#/$defs/gone"}, "which it does not hold"),
        ({"$ref": "#gone"}, "which it does not hold"),
        ({"allOf": [{"anyOf": [{"$ref": "#"}]}]}, "refers to itself"),
        ({"$defs": {"a": {"$id": "http://x/a"}}}, r"has the \$id"),
        ({"properties": {f"p{number}": {} for number in range(2001)}}, "more than 2000 subschemas"),
        ({"$defs": {"a": {}}, "properties": {f"p{number}": {"$ref": "#/$defs/a"} for number in range(501)}}, "500 references"),
        ({"description": "x" * 300_000}, "bytes"),
        ({"const": nested(100)}, "nested more than 100 deep"),
    ],
    ids=lambda one: str(one)[:40],
)
@pytest.mark.usefixtures("promptly")
def test_a_schema_beyond_what_can_be_judged_is_refused_where_it_enters(rule, said):
    assert re.search(said, schema.schema_problem(json.dumps(rule)))


@pytest.mark.parametrize(
    ("rule", "fits", "misfits"),
    [
        ({"$ref": "#/$defs/a", "$defs": {"a": {"type": "integer"}}}, 1, "x"),
        ({"$ref": "#a", "$defs": {"a": {"$anchor": "a", "type": "integer"}}}, 1, "x"),
        ({"$ref": "#/properties/a~1b", "properties": {"a/b": {"type": "object"}}}, {}, 1),
        ({"$id": "http://x/y", "$ref": "http://x/y#/$defs/a", "$defs": {"a": {"type": "integer"}}}, 1, "x"),
        ({"$schema": "http://json-schema.org/draft-07/schema#", "dependencies": {"a": ["b"]}}, {"a": 1, "b": 2}, {"a": 1}),
        ({"$schema": "http://json-schema.org/draft-04/schema#", "maximum": 3, "exclusiveMaximum": True}, 2, 3),
        ({"$dynamicRef": "#n", "$defs": {"a": {"$dynamicAnchor": "n", "type": "integer"}}}, 1, "x"),
        ({"anyOf": [{"properties": {"a": True}}], "unevaluatedProperties": False}, {"a": 1}, {"b": 1}),
        ({"pattern": "^[\\p{L} .'-]{1,100}$"}, "Zoë O'Neill", "7"),
        ({"pattern": "^.{1,2000}$"}, "x" * 2000, ""),
        ({"format": "email"}, "not one", None),
    ],
    ids=lambda one: str(one)[:40],
)
def test_what_schemas_are_written_with_is_judged(rule, fits, misfits):
    text = json.dumps(rule)

    assert schema.schema_problem(text) is None
    assert schema.problem(text, fits) is None
    assert misfits is None or schema.problem(text, misfits) is not None


def test_the_work_is_counted_before_it_begins():
    """However large the value that is allowed: no more than the largest is begun."""
    graph = workload.SchemaGraph({"items": {"type": "integer"}} | branching(10))

    small, large = (graph.workload(workload.Size.of(value)) for value in (1, [1] * 10))

    assert small.spread == large.spread > 2**10
    assert small.steps < large.steps < workload.MAX_STEPS
    assert workload.SchemaGraph(branching(30)).workload(workload.Size.of(1)).too_much


@given(VALUES)
def test_any_value_is_judged_or_refused_with_one_line(value):
    for rule in (TREE, MONEY, '{"enum":[1,"a",null]}', '{"type":"object","additionalProperties":{"$ref":"#"}}'):
        said = schema.problem(rule, value)
        assert said is None or (said.startswith("$") and "\n" not in said)
        assert jsontext.clean(said or "") == (said or "")


@pytest.mark.parametrize(
    ("pattern", "least", "most"),
    [("abc", 3, 4), ("a{1000}", 1000, 1002), ("(ab){2,50}", 100, 200), ("((a|b){10}){10}", 200, 500), (".{1,200}", 200, 900)],
)
def test_a_pattern_is_as_large_as_what_it_repeats(pattern, least, most):
    assert least <= pattern_size(pattern) <= most


@given(st.text(alphabet="ab()[]{}0123456789,\\.*+?|^$:=!<>Pp", max_size=60))
def test_any_pattern_has_a_size(pattern):
    assert pattern_size(pattern) >= 1


def test_a_reference_may_name_what_it_refers_to_in_percent_encoding():
    named = '{"$ref":"#/$defs/%C3%A9","$defs":{"\u00e9":{"type":"integer"}}}'
    assert schema.schema_problem(named) is None
    assert schema.problem(named, 7) is None
    assert schema.problem(named, "seven") is not None
