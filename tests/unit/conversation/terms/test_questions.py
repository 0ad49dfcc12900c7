"""Questions: their form and bounds, and which answers fit them."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.conversation.terms.questions import (
    LONGEST_ANSWER,
    LONGEST_OPTION,
    LONGEST_TEXT,
    MOST_OPTIONS,
    MOST_QUESTIONS,
    NotQuestions,
    Question,
    check,
    defaults,
    parse,
)
from holdfast.errors import InvalidDecision, InvalidInput

TRIP = (
    Question("city", "Where to?", options=["Rome", "Oslo"]),
    Question("extras", "What else?", options=["meal", "seat", "bag"], multiple=True, required=False),
    Question("pace", "How fast?", options=["slow", "fast"], default="slow"),
    Question("note", "Anything to add?", required=False),
)


def asked(*questions):
    return {"questions": list(questions)}


def question(**fields):
    return {"id": "q", "text": "Which?", **fields}


def test_questions_are_read_from_a_calls_arguments():
    found = parse(
        asked(
            question(id="city", text="Where to?", options=["Rome", "Oslo"]),
            question(id="extras", text="What else?", options=["meal", "seat", "bag"], multiple=True, required=False),
            question(id="pace", text="How fast?", options=["slow", "fast"], default="slow"),
            question(id="note", text="Anything to add?", required=False, options=None, default=None),
        )
    )
    assert found == TRIP
    assert found[0].options == ("Rome", "Oslo")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "the one key questions"),
        ({"questions": [question()], "title": "x"}, "the one key questions"),
        (asked(), "questions: 0 of them"),
        ({"questions": "which?"}, "questions: str"),
        (asked(*(question(id=f"q{n}") for n in range(MOST_QUESTIONS + 1))), f"questions: {MOST_QUESTIONS + 1} of them"),
        (asked("which?"), r"questions\[0\]: str is no object"),
        (asked(question(), question()), r"questions\[1\].id: 'q' stands there twice"),
        (asked({"id": "q"}), r"questions\[0\].text: it is missing"),
        (asked(question(label="x")), r"questions\[0\]: a question has no key 'label'"),
        (asked(question(id="")), r"questions\[0\].id: ''"),
        (asked(question(id="a" * 65)), r"questions\[0\].id"),
        (asked(question(id=" a")), r"questions\[0\].id"),
        (asked(question(id="a\u200bb")), r"questions\[0\].id: 'a\\u200bb'"),
        (asked(question(id="a\u202eb")), r"questions\[0\].id"),
        (asked(question(id=1)), r"questions\[0\].id: 1 "),
        (asked(question(text="  ")), r"questions\[0\].text"),
        (asked(question(text="a" * (LONGEST_TEXT + 1))), r"questions\[0\].text: it has 2001 characters"),
        (asked(question(text="\ud800")), r"questions\[0\].text.*surrogate"),
        (asked(question(options=[])), r"questions\[0\].options: there are 0"),
        (asked(question(options="ab")), r"questions\[0\].options: str is no list"),
        (asked(question(options=[str(n) for n in range(MOST_OPTIONS + 1)])), r"questions\[0\].options: there are 33"),
        (asked(question(options=["a", "a"])), r"questions\[0\].options: one stands there twice"),
        (asked(question(options=[{"label": "a"}])), r"questions\[0\].options"),
        (asked(question(options=["a" * (LONGEST_OPTION + 1)])), r"questions\[0\].options"),
        (asked(question(multiple=True)), r"questions\[0\].multiple: there is nothing to choose from"),
        (asked(question(multiple="yes", options=["a"])), r"questions\[0\].multiple: 'yes' is no boolean"),
        (asked(question(required=1)), r"questions\[0\].required"),
        (asked(question(options=["a"], default="b")), r"questions\[0\].default: 'b' is not offered; choose one of a"),
        (asked(question(options=["a"], default=["a"])), r"questions\[0\].default: list is no choice"),
        (asked(question(options=["a"], multiple=True, default="a")), r"questions\[0\].default: str is no list"),
        (asked(question(default=7)), r"questions\[0\].default: int is no text"),
        (asked(question(default=" ")), r"questions\[0\].default: it is empty"),
        (asked(question(default="a" * (LONGEST_ANSWER + 1))), r"questions\[0\].default: it has 8001 characters"),
    ],
)
def test_what_is_no_question_says_where_and_why(arguments, said):
    with pytest.raises(NotQuestions, match=said):
        parse(arguments)


def test_a_question_that_is_made_wrong_names_the_part():
    with pytest.raises(InvalidInput, match=r"question\.options: one stands there twice; give each once"):
        Question("q", "Which?", options=["a", "a"])


def test_answers_come_with_the_defaults_of_what_is_left_out():
    assert check(TRIP, {"city": "Oslo"}) == {"city": "Oslo", "pace": "slow"}
    assert check(TRIP, {"city": "Oslo", "pace": "fast", "note": "by train"}) == {
        "city": "Oslo",
        "pace": "fast",
        "note": "by train",
    }


def test_several_choices_stand_in_the_order_of_the_options():
    assert check(TRIP, {"city": "Rome", "extras": ["bag", "meal"]})["extras"] == ["meal", "bag"]


@pytest.mark.parametrize("nothing", [None, "", "  "])
def test_an_optional_text_may_stay_empty(nothing):
    assert "note" not in check(TRIP, {"city": "Rome", "note": nothing})


@pytest.mark.parametrize(
    ("value", "field", "said"),
    [
        ("Rome", "decision.value", "str is no object"),
        (None, "decision.value", "null is no object"),
        ({}, "decision.value.city", "it is not answered; choose among Rome, Oslo"),
        ({"city": None}, "decision.value.city", "it is not answered"),
        ({"city": "Paris"}, "decision.value.city", "'Paris' is not offered; choose one of Rome, Oslo"),
        ({"city": "rome"}, "decision.value.city", "not offered"),
        ({"city": ["Rome", "Oslo"]}, "decision.value.city", "list is no choice"),
        ({"city": 1}, "decision.value.city", "int is no choice"),
        ({"city": "Rome", "town": "x"}, "decision.value.town", "there is no question 'town'; answer city, extras"),
        ({"city": "Rome", "\u202e": "x"}, "decision.value", r"there is no question '\\u202e'"),
        ({"city": "Rome", "extras": "meal"}, "decision.value.extras", "str is no list of options"),
        ({"city": "Rome", "extras": ["wine"]}, "decision.value.extras", "'wine' is not offered"),
        ({"city": "Rome", "extras": [["meal"]]}, "decision.value.extras", "is not offered"),
        ({"city": "Rome", "extras": ["meal", "meal"]}, "decision.value.extras", "chosen twice"),
        ({"city": "Rome", "note": {}}, "decision.value.note", "dict is no text"),
        ({"city": "Rome", "note": "a" * (LONGEST_ANSWER + 1)}, "decision.value.note", "8001 characters"),
    ],
)
def test_an_answer_that_does_not_fit_names_its_question(value, field, said):
    with pytest.raises(InvalidDecision, match=said) as refused:
        check(TRIP, value)
    assert refused.value.field == field


def test_a_required_text_of_spaces_is_no_answer():
    with pytest.raises(InvalidDecision, match=r"decision\.value\.q: it is empty; answer it"):
        check((Question("q", "Why?"),), {"q": " \n"})


def test_no_choice_is_no_answer_to_a_required_question():
    with pytest.raises(InvalidDecision, match="it is empty; choose among a, b"):
        check((Question("q", "Which?", options=["a", "b"], multiple=True),), {"q": []})


def test_defaults_answer_all_questions_or_none():
    assert defaults(TRIP[2:]) == {"pace": "slow"}
    assert defaults(TRIP) is None
    assert defaults((Question("q", "Which?", options=["a", "b"], multiple=True, default=["b"]),)) == {"q": ["b"]}


IDS = st.sampled_from(["a", "b", "c", "d"])
WORDS = st.sampled_from(["x", "y", "z", " ", ""])
VALUES = st.one_of(WORDS, st.lists(WORDS, max_size=3), st.none(), st.integers(0, 1), st.booleans(), st.just({}))


@st.composite
def questions(draw):
    made = []
    for name in draw(st.lists(IDS, min_size=1, unique=True)):
        options = draw(st.none() | st.lists(st.sampled_from(["x", "y", "z"]), min_size=1, unique=True))
        multiple = options is not None and draw(st.booleans())
        default = None
        if draw(st.booleans()):
            default = "x" if options is None else options[:1] if multiple else options[0]
        made.append(
            {
                "id": name,
                "text": "Which?",
                "options": options,
                "multiple": multiple,
                "required": draw(st.booleans()),
                "default": default,
            }
        )
    return made


def fits(asked, answers):
    """What the rules say in other words: the answers that are kept, None where an answer does not fit."""
    if not set(answers) <= {one["id"] for one in asked}:
        return None
    kept = {}
    for one in asked:
        value = answers.get(one["id"])
        value = one["default"] if value is None else value
        allowed = [None, ""] if one["options"] is None else [None]
        match value:
            case bool() | int() | dict():
                return None
            case list() if not one["multiple"] or len(set(value)) != len(value) or not set(value) <= set(one["options"]):
                return None
            case str() if one["options"] is not None and (one["multiple"] or value not in one["options"]):
                return None
            case str():
                empty = value.strip() in allowed
            case _:
                empty = not value
        if empty and one["required"]:
            return None
        if not empty:
            kept[one["id"]] = sorted(value, key=one["options"].index) if isinstance(value, list) else value
    return kept


@given(questions(), st.dictionaries(IDS, VALUES))
def test_what_is_accepted_is_what_an_oracle_accepts(asked, answers):
    parsed = parse(json.loads(json.dumps({"questions": asked})))
    expected = fits(asked, answers)
    if expected is None:
        with pytest.raises(InvalidDecision, match=r"^decision\.value\.[abcd]: "):
            check(parsed, answers)
    else:
        assert check(parsed, answers) == expected
