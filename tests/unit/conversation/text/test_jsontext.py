"""JSON from outside: strict, and kept as its text."""

import contextlib
import json
import math
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.conversation.text import jsontext
from holdfast.conversation.text.jsontext import NotJson

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda children: st.lists(children, max_size=4) | st.dictionaries(st.text(), children, max_size=4),
    max_leaves=12,
)


@given(VALUES)
def test_a_json_value_comes_back_as_it_went(value):
    assert jsontext.loads(jsontext.dumps(value)) == value


@given(VALUES)
def test_a_text_is_json_for_everyone_else(value):
    assert json.loads(jsontext.dumps(value).encode()) == value


@given(st.text(alphabet=st.characters(), max_size=40))
def test_any_text_is_a_value_or_refused_with_one_error(text):
    with contextlib.suppress(NotJson):
        assert jsontext.loads(text) == json.loads(text)


@pytest.mark.parametrize(
    ("value", "where"),
    [
        (math.nan, r"\$: nan"),
        ([math.inf], r"\$\[0\]: inf"),
        ({"a": -math.inf}, r"\$\.a: -inf"),
        ("\ud800", r"\$: a lone surrogate at position 0"),
        (["x\udfff"], r"\$\[0\]: a lone surrogate at position 1"),
        ({"\ud800": 1}, r"\$: a lone surrogate"),
        ({1: "x"}, r"\$: the key 1 is not a string"),
        ({None: "x"}, r"\$: the key None is not a string"),
        ({"a": {True: 1}}, r"\$\.a: the key True is not a string"),
        ({"a": [1, b"x"]}, r"\$\.a\[1\]: bytes is not JSON"),
        ({1, 2}, r"\$: set is not JSON"),
        (1 + 2j, r"\$: complex is not JSON"),
        (object(), r"\$: object is not JSON"),
    ],
)
def test_what_json_cannot_carry_is_refused_and_located(value, where):
    with pytest.raises(NotJson, match=where):
        jsontext.dumps(value)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "NaN",
        "[NaN]",
        "Infinity",
        "-Infinity",
        '"\ud800"',
        '"\\ud800"',
        '"\\udc00\\ud800"',
        '{"\\ud800":1}',
        '["a",{"b":"\\uDFFF"}]',
        "{'a':1}",
        "[1,]",
        "01",
        "1 2",
        "nul",
        '"a\nb"',
        "\ufeff1",
        "[" * 100_000,
    ],
    ids=lambda text: repr(text[:20]),
)
def test_what_is_not_strict_json_is_refused(text):
    with pytest.raises(NotJson):
        jsontext.loads(text)


@pytest.mark.parametrize(("text", "value"), [('"\\ud83d\\ude00"', "😀"), ('"\\\\ud800"', "\\ud800"), ('"\\u0000"', "\0")])
def test_escapes_that_make_a_whole_character_pass(text, value):
    assert jsontext.loads(text) == value


def test_huge_integers_keep_every_digit():
    digits = "9" * 4000
    assert jsontext.dumps(jsontext.loads(digits)) == digits
    assert jsontext.dumps(2**64) == "18446744073709551616"


@pytest.mark.parametrize("text", ["9" * 5000, "-" + "9" * 5000])
def test_an_integer_that_python_will_not_parse_is_refused(text):
    with pytest.raises(NotJson):
        jsontext.loads(text)
    with pytest.raises(NotJson):
        jsontext.dumps([10**5000])


def test_tuples_are_arrays_and_keys_keep_their_order():
    assert jsontext.dumps({"b": (1, 2), "a": ()}) == '{"b":[1,2],"a":[]}'


def test_text_is_not_escaped_and_not_spaced():
    assert jsontext.dumps({"é": ["😀", 1.5]}) == '{"é":["😀",1.5]}'


def test_a_size_is_in_bytes_of_utf_8():
    assert jsontext.size_bytes("é😀") == 6


def test_a_value_nested_too_deeply_is_refused():
    nested = []
    for _ in range(20_000):
        nested = [nested]
    with pytest.raises(NotJson):
        jsontext.dumps(nested)


def _circular_list():
    value = []
    value.append(value)
    return value


def _circular_dict():
    value = {}
    value["self"] = value
    return value


@pytest.mark.parametrize("circle", [_circular_list, _circular_dict])
@pytest.mark.usefixtures("promptly")
def test_a_circular_value_is_refused_at_once(circle):
    with pytest.raises(NotJson):
        jsontext.dumps(circle())


@pytest.mark.parametrize("text", ["1e999", "[-1e999]", '{"a":1e400}'])
def test_a_number_that_overflows_to_infinity_is_refused(text):
    with pytest.raises(NotJson):
        jsontext.loads(text)


# -- bounds: found out before a parser sees the text -----------------------------------------------------------------


def depth_of(value):
    if isinstance(value, dict):
        return 1 + max(map(depth_of, value.values()), default=0)
    if isinstance(value, list):
        return 1 + max(map(depth_of, value), default=0)
    return 0


def in_lists(levels):
    value = 1
    for _ in range(levels):
        value = [value]
    return value


def in_objects(levels):
    value = 1
    for _ in range(levels):
        value = {"a": value}
    return value


@given(VALUES | st.text(alphabet='[]{}"\\\\a').map(lambda text: [text, {text: [text]}]))
def test_the_scan_for_depth_agrees_with_the_value(value):
    for text in (jsontext.dumps(value), json.dumps(value), json.dumps(value, indent=1)):
        assert jsontext.depth(text) == depth_of(json.loads(text))


@given(st.text(alphabet='[]{}"\\\\,:a1 ', max_size=200))
def test_no_text_that_parses_is_deeper_than_the_scan_says(text):
    with contextlib.suppress(ValueError):
        assert depth_of(json.loads(text)) == jsontext.depth(text)


@given(st.recursive(VALUES, lambda inner: st.tuples(inner).map(list), max_leaves=200))
def test_any_value_comes_back_or_is_refused(value):
    try:
        text = jsontext.dumps(value)
    except NotJson:
        return
    assert jsontext.loads(text) == value


@pytest.mark.parametrize("nest", [in_lists, in_objects])
def test_a_hundred_levels_pass_and_one_more_is_refused(nest):
    deepest = nest(jsontext.MAX_DEPTH)
    assert jsontext.loads(jsontext.dumps(deepest)) == deepest

    with pytest.raises(NotJson, match="nested more than 100 deep"):
        jsontext.dumps(nest(jsontext.MAX_DEPTH + 1))
    with pytest.raises(NotJson, match="nested more than 100 deep"):
        jsontext.loads(json.dumps(nest(jsontext.MAX_DEPTH + 1)))


@pytest.mark.parametrize("limit", [400, 1000, 100_000])
def test_depth_is_judged_alike_under_every_recursion_limit(limit):
    """Python 3.11, 3.12 and 3.13 give a parser different room; no text comes near it."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(limit)
    try:
        assert depth_of(jsontext.loads("[" * 100 + "]" * 100)) == 100
        for text in ("[" * 101 + "]" * 101, "[" * 977 + "]" * 977, "[" * 1_000_000, '{"a":' * 500_000):
            with pytest.raises(NotJson, match="nested more than 100 deep"):
                jsontext.loads(text)
        with pytest.raises(NotJson, match="nested more than 100 deep"):
            jsontext.dumps(in_lists(200_000))
    finally:
        sys.setrecursionlimit(before)


def test_brackets_within_strings_are_no_depth():
    text = json.dumps({"a": "[" * 500 + '\\"' + "{" * 500, "[" * 200: 1})
    assert jsontext.loads(text) == json.loads(text)


@pytest.mark.parametrize(
    "text",
    [
        "[" + "0," * jsontext.MAX_VALUES + "0]",
        "[" + "[]," * (jsontext.MAX_VALUES // 2) + "[]]",
    ],
    ids=["values", "containers"],
)
def test_more_values_than_are_allowed_are_refused(text):
    with pytest.raises(NotJson, match="it holds more than"):
        jsontext.loads(text)
    with pytest.raises(NotJson, match="it holds more than"):
        jsontext.dumps(json.loads(text))


def test_commas_within_a_string_are_no_values():
    text = '["' + "," * jsontext.MAX_VALUES + '"]'
    assert jsontext.loads(text) == json.loads(text)


def test_a_value_that_doubles_at_each_level_is_refused():
    value = [1]
    for _ in range(60):
        value = [value, value]
    with pytest.raises(NotJson, match="it holds more than"):
        jsontext.dumps(value)


@pytest.mark.usefixtures("promptly")
def test_a_long_key_before_many_values_costs_no_more_than_its_length():
    key, values = "k" * 60_000, [0] * 60_000
    assert jsontext.loads(jsontext.dumps({key: values, "\u00e9": 1}))[key] == values
    escaped = '{"\\u00e9' + key + '":[' + ",".join("0" * 60_000) + "]}"
    assert len(jsontext.loads(escaped)) == 1


@pytest.mark.usefixtures("promptly")
@pytest.mark.parametrize(
    "text",
    [
        '"' + "\\\\" * 500_000,
        "\\\\" * 500_000,
        '"' * 300_000,
        ("9" * 4300 + " ") * 200,
        "[" * 150 + '"' + "[" * 500_000,
        "-" * 500_000,
        "[1" + "0" * 4300 + "]",
        "1." + "0" * 400_000,
    ],
    ids=lambda text: f"{text[:8]}{len(text)}",
)
def test_a_text_that_is_refused_is_refused_in_linear_work(text):
    with pytest.raises(NotJson) as refused:
        jsontext.loads(text)

    assert len(str(refused.value)) < 300


def test_digits_within_a_string_are_no_number():
    text = '{"a":"' + "7" * 10_000 + '"}'
    assert jsontext.loads(text) == json.loads(text)


def test_the_place_of_a_misfit_is_said_in_a_bounded_line():
    with pytest.raises(NotJson) as refused:
        jsontext.dumps({"k" * 100_000: [{"x" * 100_000: math.nan}]})

    assert str(refused.value).startswith("$.kkk")
    assert len(str(refused.value)) < 300
