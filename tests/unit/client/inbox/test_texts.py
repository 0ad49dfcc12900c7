"""Texts as pages show them."""

import pytest

from holdfast.client.inbox.text import (
    SUMMARY_LENGTH,
    as_json,
    clock,
    iso,
    named,
    one_line,
    parts,
    reads_as_another,
    shown,
    size,
    span,
    summary,
    visible,
)


def test_hidden_characters_are_escaped_and_lines_stay():
    assert visible("a\u202eb\r\nc\td\x00") == "a\\u202eb\nc\td\\x00"


def test_a_value_is_a_text_or_json():
    assert shown("a") == "a"
    assert shown({"a": None}) == '{\n  "a": null\n}'
    assert as_json("\u200b") == '"\\u200b"'


@pytest.mark.parametrize(
    "arguments", [{"a": "x" * 10**6}, {f"k{n}": n for n in range(10**4)}, {"a": ["y" * 10**6]}, [1] * 10**5]
)
def test_a_summary_is_bounded_whatever_the_arguments_are(arguments):
    assert len(summary(arguments)) <= SUMMARY_LENGTH


def test_a_summary_names_the_arguments():
    assert summary({"amount": 42, "order": "A1"}) == 'amount 42, order "A1"'
    assert one_line("a\n b", 10) == "a b"
    assert one_line("abc" * 9, 5) == "abca…"


def test_moments_and_spans_that_cannot_be_are_shown_as_the_nearest_that_can():
    assert span(-5) == "0 s"
    assert span(3 * 86_400_000) == "3 d"
    assert iso(0) == "1970-01-01T00:00:00Z"
    assert clock(10**18).startswith("9999-12-31")


def test_names_and_texts_that_would_be_taken_for_others_are_shown_as_json():
    assert [named(one) for one in ("amount", "amount ", "", "amount 1, order", "a.b-c")] == [
        "amount",
        '"amount "',
        '""',
        '"amount 1, order"',
        "a.b-c",
    ]
    texts = ("100", "true", "null", "", " ", "x ", '"x"', "x", "1 May", "[draft] hello")
    assert [one for one in texts if reads_as_another(one)] == [
        "100",
        "true",
        "null",
        "",
        " ",
        "x ",
        '"x"',
    ]
    assert summary({"amount 1, order": "A1"}) == '"amount 1, order" "A1"'


def test_long_runs_of_nothing_are_told_and_not_shown():
    text = "Refund." + "\n" * 120 + "and send it to MALLORY" + " " * 40 + "now"

    assert list(parts(text)) == [("Refund.", "119 empty lines"), ("and send it to MALLORY", "40 blanks"), ("now", "")]
    assert list(parts("a\n\nb")) == [("a\n\nb", "")]
    indented = "a\n" + " " * 20 + "b"
    assert list(parts(indented)) == [(indented, "")]
    assert list(parts("a\n" + " " * 80 + "b")) == [("a\n", "80 blanks"), ("b", "")]
    assert (size("x"), size("a\n" * 20), size("x" * 2000)) == ("", "21 lines", "2000 characters")
