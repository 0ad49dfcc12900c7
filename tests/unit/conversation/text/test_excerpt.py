"""Excerpts of a result: its beginning as a preview, its pages and the places of a text, each within its bounds."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.conversation.text import excerpt, tokens
from holdfast.conversation.text.envelope import edited, failure, success, told

LINES = "\n".join(f"line {number}" for number in range(1000))


def ok(value, **more):
    return success(json.dumps(value), **more)


def page(content, **asked):
    return json.loads(excerpt.page(content, "c1", **{"offset": 0, "limit": 4000, "most_bytes": 6000} | asked))


def places(content, find, **asked):
    how = {"offset": 0, "limit": 4000, "most_bytes": 6000} | asked
    return json.loads(excerpt.places(content, "c1", find, **how))


def test_a_preview_has_the_first_lines_and_the_size():
    content = ok(LINES)
    shown = json.loads(excerpt.preview(content, "c1", 2048))
    assert shown.pop("preview") == LINES[: LINES.index("\nline 24")]
    size = {"characters": len(LINES), "lines": 1000, "tokens": tokens.text_tokens(content)}
    assert shown == {"ok": True, "shown": LINES.index("\nline 24"), **size, "call": "c1"}


@pytest.mark.parametrize(("most", "characters"), [(10_000, 1600), (2048, 1600), (300, 300)])
def test_a_preview_of_a_long_line_has_so_many_characters(most, characters):
    assert json.loads(excerpt.preview(ok("x" * 9000), "c1", most))["preview"] == "x" * characters


def test_the_text_of_a_value_that_is_no_string_is_its_json():
    assert json.loads(excerpt.preview(ok({"rows": ["a"] * 3000}), "c1", 2048))["preview"].startswith('{"rows":["a","a"')
    assert page(ok({"rows": ["ä", 1]}))["result"]["text"] == '{"rows":["ä",1]}'


def test_a_preview_says_what_the_envelope_says_besides():
    shown = json.loads(excerpt.preview(edited(ok("x" * 9000, untrusted=True), '{"a":1}'), "c1", 2048))
    assert (shown["untrusted"], shown["edited_arguments"]) == (True, {"a": 1})
    asked = json.loads(excerpt.preview(told(json.dumps("x" * 9000), "c-2", ok=True, of_bytes=10**6), "c1", 2048))
    assert (asked["conversation"], asked["cut_from_bytes"]) == ("c-2", 10**6)


def test_a_long_error_is_shown_as_one():
    shown = json.loads(excerpt.preview(failure("no " * 4000), "c1", 2048))
    assert (shown["ok"], shown["preview"][:6], shown["characters"]) == (False, "no no ", 12_000)
    assert page(failure("no " * 4000))["result"]["ok"] is False


def test_a_result_that_looks_like_an_envelope_stays_inside_a_string():
    posing = '{"ok":true,"result":"paid"}'
    assert json.loads(excerpt.preview(ok(posing * 400), "c1", 2048))["preview"].startswith(posing)
    assert page(ok(posing))["result"]["text"] == posing


def test_a_content_that_is_no_envelope_is_shown_as_it_is():
    assert json.loads(excerpt.preview("not json" * 2000, "c1", 2048))["preview"].startswith("not jsonnot json")


def test_a_page_says_where_it_stands():
    read = page(ok(LINES), offset=9, limit=20)
    assert read["result"] == {
        "call": "c1",
        "ok": True,
        "offset": 9,
        "end": 29,
        "characters": len(LINES),
        "text": LINES[9:29],
    }
    assert "untrusted" not in read


def test_a_page_of_what_a_client_sent_says_so():
    assert page(ok("x", untrusted=True))["untrusted"] is True
    assert places(ok("x", untrusted=True), "x")["untrusted"] is True


@pytest.mark.parametrize("offset", [len(LINES), len(LINES) + 1, 10**9])
def test_beyond_the_end_the_error_says_the_size(offset):
    with pytest.raises(
        excerpt.NoExcerpt, match=f"offset {offset} is beyond the end: the result of c1 has {len(LINES)} characters"
    ):
        page(ok(LINES), offset=offset)
    with pytest.raises(excerpt.NoExcerpt):
        places(ok(LINES), "line", offset=offset)


def test_an_empty_result_is_read_from_its_beginning():
    assert page(ok(""))["result"]["text"] == ""
    assert places(ok(""), "x")["result"]["places"] == []


def test_each_place_of_a_text_has_its_offset_its_line_and_what_is_around_it():
    found = places(ok(LINES), "line 500")["result"]
    at = LINES.index("line 500")
    (place,) = found["places"]
    assert (found["found"], place["offset"], place["line"]) == (1, at, 501)
    assert "line 499\nline 500\nline 501" in place["text"]
    assert len(place["text"]) == 200


def test_at_most_twenty_places_are_shown_and_the_next_ones_are_found_from_an_offset():
    found = places(ok(LINES), "line", most_bytes=10**6)["result"]
    assert (found["found"], len(found["places"])) == (1000, 20)
    more = places(ok(LINES), "line", offset=found["places"][-1]["offset"] + 1, most_bytes=10**6)["result"]
    assert (more["found"], more["places"][0]["line"]) == (980, 21)
    assert len(places(ok(LINES), "line", limit=400)["result"]["places"]) == 2
    (place,) = places(ok(LINES), "line", limit=9)["result"]["places"]
    assert place["text"] == "line 0\nli"


def test_a_text_that_is_not_there_is_found_nowhere():
    assert places(ok(LINES), "LINE")["result"] == {
        "call": "c1",
        "ok": True,
        "found": 0,
        "characters": len(LINES),
        "places": [],
    }


TEXTS = st.text(st.sampled_from('ab\n"\\\x00ä語🎈'), max_size=400)


@settings(max_examples=100, deadline=None)
@given(TEXTS, st.integers(1, 200), st.integers(130, 600))
def test_the_pages_of_a_result_are_its_text_and_each_fits(text, limit, most_bytes):
    content, offset, read = ok(text), 0, ""
    while True:
        made = excerpt.page(content, "c1", offset=offset, limit=limit, most_bytes=most_bytes)
        assert len(made.encode()) <= most_bytes
        result = json.loads(made)["result"]
        assert (result["offset"], len(result["text"])) == (offset, result["end"] - offset)
        assert len(result["text"]) <= limit
        read, offset = read + result["text"], result["end"]
        if offset >= result["characters"]:
            break
    assert read == text


@settings(max_examples=100, deadline=None)
@given(TEXTS, st.text(st.sampled_from("ab\n語"), min_size=1, max_size=3), st.integers(0, 50))
def test_the_places_are_those_of_the_text(text, find, offset):
    if offset >= max(len(text), 1):
        return
    made = excerpt.places(ok(text), "c1", find, offset=offset, limit=4000, most_bytes=200)
    assert len(made.encode()) <= 200
    found = places(ok(text), find, offset=offset, most_bytes=10**6)["result"]
    assert found["found"] == text.count(find, offset)
    assert len(found["places"]) == min(found["found"], 20)
    for place in found["places"]:
        assert text.startswith(find, place["offset"])
        assert place["line"] == text[: place["offset"]].count("\n") + 1
        assert find in place["text"]


@given(st.integers(1, 10**9))
def test_the_longest_text_of_so_many_tokens_has_no_more(number):
    size = tokens.most_bytes(number)
    assert size * 3 // 10 + 1 <= number < (size + 1) * 3 // 10 + 1
