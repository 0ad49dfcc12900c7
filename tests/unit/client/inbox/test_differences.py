"""What edited arguments change, line by line."""

from holdfast.client.inbox.difference import BESIDE, MOST_LINES, difference


def changes(before, after):
    return [(line.change, line.text) for line in difference(before, after) if line.change != "same"]


def test_equal_values_have_no_difference():
    assert difference({"a": [1, 2]}, {"a": [1, 2]}) == []


def test_a_number_that_becomes_another_type_is_a_difference():
    assert changes({"a": 1}, {"a": True}) == [("removed", '  "a": 1'), ("added", '  "a": true')]


def test_a_text_of_several_lines_is_compared_by_its_lines():
    found = changes({"a": "one\ntwo\nthree"}, {"a": "one\n2\nthree"})

    assert found == [("removed", "two"), ("added", "2")]


def test_a_backslash_before_an_n_is_no_end_of_a_line():
    assert changes({"a": "x\\new"}, {"a": "y"}) == [("removed", '  "a": "x\\\\new"'), ("added", '  "a": "y"')]


def test_characters_that_nobody_sees_are_shown():
    assert changes({"a": "x"}, {"a": "x\u200b"})[1] == ("added", '  "a": "x\\u200b"')


def test_more_lines_than_are_compared_stand_one_after_the_other():
    found = difference(list(range(MOST_LINES)), [])

    assert [line.change for line in found] == ["removed", "added"]
    assert found[0].text.count("\n") > MOST_LINES


def test_unchanged_lines_far_from_the_change_are_counted():
    before = list(range(MOST_LINES * 2))
    found = difference(before, [*before[:-1], "x"])

    assert [line.text for line in found if line.text.startswith("(")] == [f"({MOST_LINES * 2 - BESIDE} lines)"]
