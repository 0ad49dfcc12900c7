"""JSON from outside: strict, and kept as its text."""

import contextlib
import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.conversation import jsontext
from holdfast.conversation.jsontext import NotJson

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
