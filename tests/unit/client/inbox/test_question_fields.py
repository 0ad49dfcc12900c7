"""The form of questions on a page: its fields, the answers that it makes, and what it says beside a question."""

import pytest

from holdfast.client import PendingCall
from holdfast.client.inbox.fields import FieldKind
from holdfast.client.inbox.filled import FIELDS, blank, read
from holdfast.client.inbox.form import Form
from holdfast.conversation import Answer, Executor, Question, SuspensionKind
from holdfast.conversation.records.calls import PendingView
from holdfast.conversation.terms.questions import schema_of

TRIP = (
    Question("city", "Where to?", options=["Rome", "Oslo"]),
    Question("extras", "What else?", options=["meal", "bag", "seat"], multiple=True, default=["bag"]),
    Question("pace", "How fast?", options=["slow", "fast"], required=False),
    Question("month", "When?", options=[str(month) for month in range(1, 13)], required=False),
    Question("why/how", "Why?"),
    Question("note", "Anything to add?", required=False),
)


def asking(questions=TRIP):
    view = PendingView(
        conversation_id="c-1",
        tool_call_id="call_1",
        suspension_id="s-1",
        tool="ask_user_questions",
        kind=SuspensionKind.ELICITATION,
        executor=Executor.HUMAN,
        decisions=("answer", "deny", "cancel"),
        questions=questions,
        response_schema=schema_of(questions),
        created_at=1,
    )
    return PendingCall.of(view, lambda *_: None)


def sent(call, **fields):
    layout = blank(call, True, edited=False).answer.layout
    said = {"decision": ["answer"], "layout": [layout], "v/note": [""], "v/why~1how": [""], "v/month": [""]}
    return read(call, True, Form(said | {f"v/{name}": value for name, value in fields.items()}))


def test_each_question_has_its_own_field():
    root = blank(asking(), True, edited=False).answer.root
    assert [(one.kind, one.buttons, one.label, one.needed, one.required) for one in root.inner] == [
        (FieldKind.CHOICE, True, "Where to?", True, True),
        (FieldKind.CHOICES, False, "What else?", True, False),
        (FieldKind.CHOICE, True, "How fast?", False, False),
        (FieldKind.CHOICE, False, "When?", False, False),
        (FieldKind.LINES, False, "Why?", True, True),
        (FieldKind.LINES, False, "Anything to add?", False, False),
    ]
    assert root.inner[1].chosen == ['"bag"']


def test_a_form_that_answers_all_that_is_needed_is_an_answer():
    filled, decision = sent(asking(), city=['"Oslo"'], extras=['"seat"', '"meal"'], pace=[""], **{"why~1how": ["by train"]})
    assert filled.problem == ""
    assert decision == Answer({"city": "Oslo", "extras": ["seat", "meal"], "why/how": "by train"})


@pytest.mark.parametrize(
    ("fields", "place", "problem"),
    [
        ({}, 0, "this is needed"),
        ({"city": ['"Paris"']}, 0, "choose one of the values"),
        ({"city": ['"Rome"']}, 4, "it is empty: answer it"),
        ({"city": ['"Rome"'], "extras": ['"wine"']}, 1, "choose one of the values"),
        ({"city": ['"Rome"'], "why~1how": ["x" * 9000]}, 4, "it has 9000 characters, 8000 are allowed: shorten it"),
        (
            {"city": ['"Rome"'], "extras": ['"bag"', '"bag"'], "why~1how": ["x"]},
            1,
            "an option is chosen twice: choose each once",
        ),
    ],
)
def test_what_is_wrong_stands_beside_its_question_and_what_was_filled_in_stays(fields, place, problem):
    filled, decision = sent(asking(), **fields)
    assert decision is None
    assert filled.problem == FIELDS
    assert filled.answer.root.inner[place].problem == problem
    if "city" in fields:
        assert filled.answer.root.inner[0].text == fields["city"][0]


def test_what_nobody_chose_of_several_takes_the_default():
    _, decision = sent(asking(), city=['"Rome"'], **{"why~1how": ["so"]})
    assert decision == Answer({"city": "Rome", "why/how": "so"})


def test_text_of_a_model_is_seen_as_a_whole():
    (field,) = blank(asking((Question("q", "a\u202eb" + "c" * 1500),)), True, edited=False).answer.root.inner
    assert field.label.startswith("a\\u202eb")
    assert len(field.label) > 1500
