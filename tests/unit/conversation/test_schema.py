"""JSON Schema: what is wrong, and where; a broken schema never breaks the machine."""

import json

import pytest

from holdfast.conversation import Answer, InvalidDecision, schema

TREE = '{"type":"array","items":{"$ref":"#"}}'
MONEY = '{"type":"number","multipleOf":0.01}'


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
        (MONEY, 10**400),
        (MONEY, float("inf")),
        ('{"$schema":[]}', 1),
        ('{"type":"string"}', [10**4299 * 10**10]),
    ],
    ids=["circular schema", "deep value", "huge number", "infinity", "odd dialect", "unprintable number"],
)
def test_a_validator_that_breaks_down_is_a_problem_and_no_crash(text, value):
    assert schema.problem(text, value)


def test_an_answer_on_which_the_validator_breaks_down_is_refused_with_a_typed_error(conversations):
    spec = conversations.desk_with({"result_bytes": 1000}, age={"response_schema": MONEY})
    conversation = conversations(spec=spec).begun()
    [call] = conversation.call("age")
    with conversation.unchanged(), pytest.raises(InvalidDecision):
        conversation.resolve(call, Answer(10**400))


def test_arguments_on_which_the_validator_breaks_down_become_an_error_result(conversations):
    conversation = conversations(spec=conversations.desk_with(exact={"parameters": '{"properties":{"a":{"multipleOf":0.5}}}'}))
    [call] = conversation.begun().call(("exact", '{"a":1' + "0" * 400 + "}"))
    assert conversation.result(call)["ok"] is False


def test_a_sound_schema_has_no_problem():
    for text in ("true", "{}", TREE, MONEY, '{"$schema":"http://json-schema.org/draft-07/schema#","type":"object"}'):
        assert schema.schema_problem(text) is None


@pytest.mark.parametrize("text", ['{"type":"objekt"}', '{"required":"a"}', '{"properties":[]}', "[]"])
def test_a_schema_that_is_none_is_told_why(text):
    assert schema.schema_problem(text).startswith("$")


@pytest.mark.parametrize("text", ["5", "null", '{"$schema":[]}'])
def test_a_schema_of_the_wrong_type_is_told_why(text):
    assert schema.schema_problem(text)
