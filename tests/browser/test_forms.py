"""The form for an answer: which fields a schema leads to, what they read, and what they refuse."""

import json

import pytest
from holdfast_page import ALONE, opened
from served import served

BUILD = """async ([schema, inputs]) => {
    const { formOf } = await import("/static/holdfast-form.js");
    const { written } = await import("/static/holdfast-json.js");
    const { node, read } = formOf(JSON.parse(schema), "Answer");
    document.querySelector("main").replaceChildren(node);
    for (const [place, value] of inputs) {
        const control = node.querySelectorAll("input, textarea, select")[place];
        if (value === true || value === false) control.checked = value;
        else control.value = value;
    }
    const { ok, value } = read();
    const controls = [...node.querySelectorAll("input, textarea, select")].map((one) => one.type);
    return [controls, ok, ok ? written(value) : node.querySelector(".error:not([hidden])").textContent];
}"""
NUMBER, INTEGER, TEXT = {"type": "number"}, {"type": "integer"}, {"type": "string"}
SEVEN = {"enum": ["a", "b", "c", "d", "e", "f", 7], "default": "c"}
NEEDED, NO_JSON = "This is needed.", "This is no JSON."
CASES = [
    (None, [[0, "a\nb"]], ["textarea"], '"a\\nb"'),
    (True, [[0, "x"]], ["textarea"], '"x"'),
    ({**TEXT, "maxLength": 20, "default": "so"}, [], ["text"], '"so"'),
    ({**TEXT, "minLength": 0}, [], ["textarea"], '""'),
    (TEXT, [], ["textarea"], NEEDED),
    (NUMBER, [[0, "-1.5e3"]], ["text"], "-1500"),
    (NUMBER, [[0, "0x10"]], ["text"], "This is no number that can be sent."),
    (INTEGER, [[0, "9007199254740993"]], ["text"], "This is no whole number that can be sent."),
    (INTEGER, [[0, "0"]], ["text"], "0"),
    ({"type": "boolean"}, [[1, True]], ["radio", "radio"], "false"),
    ({"type": "boolean"}, [], ["radio", "radio"], NEEDED),
    (SEVEN, [], ["select-one"], '"c"'),
    (SEVEN, [[0, "6"]], ["select-one"], "7"),
    ({"type": ["string", "null"]}, [], ["textarea"], "null"),
    ({"anyOf": [INTEGER, {"type": "null"}]}, [[0, "3"]], ["text"], "3"),
    ({"type": ["string", "boolean"]}, [[0, "false"]], ["textarea"], "false"),
    ({"type": ["string", "boolean"]}, [[0, "blue"]], ["textarea"], NO_JSON),
    ({"type": "array", "items": TEXT}, [[0, "a\n\n b"]], ["textarea"], '["a"," b"]'),
    ({"type": "array", "items": {"enum": ["x", "y"]}}, [[1, True]], ["checkbox", "checkbox"], '["y"]'),
    ({"type": "array", "items": NUMBER}, [[0, "[1, 12345678901234567890]"]], ["textarea"], "[1,12345678901234567890]"),
    ({"$ref": "#/$defs/Day", "$defs": {"Day": {"enum": ["Mon", "Tue"]}}}, [[1, True]], ["radio", "radio"], '"Tue"'),
    (
        {"$ref": "#/$defs/A", "$defs": {"A": {"anyOf": [{"$ref": "#/$defs/A"}, {"type": "null"}]}}},
        [[0, "1"]],
        ["textarea"],
        "1",
    ),
    ({"$ref": "https://elsewhere.example/schema"}, [[0, "{}"]], ["textarea"], "{}"),
    ({"type": "object", "properties": {"__proto__": TEXT}, "required": []}, [[0, "x"]], ["text"], '{"__proto__":"x"}'),
    ({"type": "object", "properties": {"n": {"type": ["string", "null"]}}, "required": ["n"]}, [], ["text"], '{"n":null}'),
    ({"type": "object", "properties": {"n": TEXT}, "required": ["n"]}, [], ["text"], NEEDED),
    ({"type": "object", "properties": {"o": {"type": "object"}}}, [[0, '{"a":1}']], ["textarea"], '{"o":{"a":1}}'),
    ({"type": "object", "properties": {f"p{number}": TEXT for number in range(99)}}, [[0, "{}"]], ["textarea"], "{}"),
    (False, [[0, "1"]], ["textarea"], "1"),
]


@pytest.fixture(scope="module")
def server():
    with served() as running:
        yield running


async def test_a_form_has_the_fields_of_its_schema_and_reads_what_they_say(server, page):
    await opened(page, server.url, "forms", script=ALONE)
    found = [await page.evaluate(BUILD, [json.dumps(schema), inputs]) for schema, inputs, *_ in CASES]
    wanted = [[controls, not said.startswith("This is"), said] for *_, controls, said in CASES]
    assert [one for one in zip(CASES, found, wanted, strict=True) if one[1] != one[2]] == []
