"""What a page offers of a call, what it says of a decision, and which decision a form makes."""

import pytest

from holdfast.client import PendingCall
from holdfast.client.inbox.choices import CHOICES, settled_as, words_of
from holdfast.client.inbox.filled import blank, read
from holdfast.client.inbox.form import Form
from holdfast.client.inbox.kinds import EDIT, KINDS, effect_of, kind_of, offered, opens_edited
from holdfast.conversation import Answer, Approve, Cancel, Deny, Executor, Fail, Redispatch, Review, SuspensionKind
from holdfast.conversation.records.calls import PendingView
from holdfast.conversation.terms.decisions import ACCEPTED, OF_PEOPLE
from holdfast.errors import InvalidDecision


def pending(kind, *decisions, **fields):
    view = PendingView(
        conversation_id="c-1",
        tool_call_id="call_1",
        suspension_id="s-1",
        tool="refund",
        kind=kind,
        executor=Executor.SERVER,
        decisions=decisions or tuple(ACCEPTED[kind] if kind else ()),
        created_at=1,
    )
    return PendingCall.of(view.model_copy(update=fields), lambda *_: None)


def form(**said):
    return Form({name: [value] for name, value in said.items()})


@pytest.mark.parametrize("kind", sorted(OF_PEOPLE))
def test_each_kind_has_a_page_and_a_choice_for_each_of_its_decisions(kind):
    call = pending(kind)

    assert kind_of(call) is KINDS[kind]
    assert offered(call) == {one.value for one in ACCEPTED[kind]}
    assert all(one in CHOICES for one in offered(call))
    assert effect_of(call)


def test_a_call_of_a_kind_that_is_not_known_takes_neither_approval_nor_verdict():
    assert offered(pending(None)) == {"deny", "fail"}


RUNS = [
    (SuspensionKind.APPROVAL, ("approve", "edit", "deny", "answer", "cancel"), {"deny", "answer", "cancel"}),
    (SuspensionKind.REVIEW, ("review", "answer", "cancel"), {"answer", "cancel"}),
    (SuspensionKind.LOST, ("redispatch", "answer", "fail", "cancel"), {"answer", "fail", "cancel"}),
]


@pytest.mark.parametrize(("kind", "decisions", "left"), RUNS)
def test_what_could_not_be_shown_whole_is_not_let_on(kind, decisions, left):
    assert offered(pending(kind, *decisions, problem="its arguments are gone")) == left


def test_a_decision_that_no_page_has_is_not_offered():
    assert offered(pending(SuspensionKind.APPROVAL, "approve", "teleport", "redispatch")) == {"approve"}
    assert offered(pending(SuspensionKind.ELICITATION, "answer", "edit")) == {"answer"}


def test_only_a_tool_that_takes_edits_alone_opens_the_form_of_its_arguments():
    assert opens_edited(pending(SuspensionKind.APPROVAL, "edit", "deny", "cancel"))
    assert not opens_edited(pending(SuspensionKind.APPROVAL, "edit", "approve"))
    assert not opens_edited(pending(SuspensionKind.APPROVAL, "edit", "answer"))
    assert not opens_edited(pending(SuspensionKind.APPROVAL, "edit", problem="gone"))


def test_the_fields_of_arguments_and_of_an_answer_are_never_on_one_page():
    call = pending(SuspensionKind.APPROVAL, "approve", "edit", "answer")

    assert (blank(call, True, edited=False).answer is not None, blank(call, True, edited=False).arguments) == (True, None)
    assert (blank(call, True, edited=True).answer, blank(call, True, edited=True).arguments is not None) == (None, True)


def test_what_follows_is_said_of_what_is_offered_alone():
    said = effect_of(pending(SuspensionKind.APPROVAL, "approve", "cancel"))
    assert said == "If approved, the tool runs once, with these arguments."
    assert "denied" in effect_of(pending(SuspensionKind.APPROVAL, "deny"))
    assert "confirmed" in effect_of(pending(SuspensionKind.APPROVAL, EDIT))
    assert "your answer is the result" in effect_of(pending(SuspensionKind.APPROVAL, "answer"))
    client = pending(SuspensionKind.APPROVAL, "approve", "deny", executor=Executor.CLIENT)
    assert effect_of(client).startswith("If approved, the user's device may run this. If denied, it does not run")


MADE = [
    (SuspensionKind.APPROVAL, {"decision": "approve", "note": "n", "reason": "r"}, Approve(reason="n")),
    (SuspensionKind.APPROVAL, {"decision": "deny", "note": "n", "reason": "r"}, Deny("r")),
    (SuspensionKind.APPROVAL, {"decision": "cancel", "note": "n", "reason": "r"}, Cancel("r")),
    (SuspensionKind.CLIENT_EXEC, {"decision": "fail", "note": "n", "reason": "r"}, Fail("r", reason="n")),
    (SuspensionKind.LOST, {"decision": "redispatch", "note": "n", "reason": "r"}, Redispatch(reason="n")),
    (SuspensionKind.REVIEW, {"decision": "review", "verdict": "allow", "reason": ""}, Review("allow", "")),
    (SuspensionKind.REVIEW, {"decision": "review", "verdict": "review", "reason": "r"}, Review("review", "r")),
]


@pytest.mark.parametrize(("kind", "said", "decision"), MADE)
def test_a_form_makes_its_decision_with_what_was_written_in_it(kind, said, decision):
    assert read(pending(kind), True, form(**said))[1] == decision


def test_an_answer_carries_its_reason():
    call = pending(SuspensionKind.ELICITATION, response_schema={"type": "string"})
    fields = blank(call, True, edited=False).answer

    _, decision = read(call, True, form(decision="answer", v="blue", note="on the phone", layout=fields.layout))

    assert decision == Answer("blue", reason="on the phone")


EMPTY = [
    ({"decision": "review", "verdict": "review", "reason": " \n"}, True),
    ({"decision": "review", "verdict": "", "reason": "r"}, False),
    ({"decision": "review", "verdict": "launch", "reason": "r"}, False),
]


@pytest.mark.parametrize(("said", "notes_missing"), EMPTY)
def test_a_review_without_a_verdict_or_without_the_notes_that_it_needs_makes_none(said, notes_missing):
    filled, decision = read(pending(SuspensionKind.REVIEW), True, form(**said))

    assert decision is None
    assert filled.problem
    assert filled.notes_missing == notes_missing
    assert filled.said("review") == said["reason"]
    assert filled.said("cancel") == ""


TAKEN_NOT = [
    (("approve",), {"decision": "compare", "edited": "1"}),
    (("approve",), {"decision": "approve", "edited": "1"}),
    (("edit", "answer"), {"decision": "approve"}),
    (("edit",), {"decision": "edit"}),
    (("approve",), {"decision": ""}),
]


@pytest.mark.parametrize(("decisions", "said"), TAKEN_NOT)
def test_a_form_of_what_is_not_offered_is_refused(decisions, said):
    with pytest.raises(InvalidDecision, match="takes no decision"):
        read(pending(SuspensionKind.APPROVAL, *decisions), True, form(**said))


def test_what_is_said_of_a_decision_afterwards():
    assert [settled_as("review", {"verdict": one}) for one in ("allow", "block", "review")] == [
        "allowed",
        "blocked",
        "sent back",
    ]
    for said in (None, "allow", {}, {"verdict": "launch"}, {"verdict": ["allow"]}, {"verdict": {}}):
        assert settled_as("review", said) == "reviewed"
    assert [settled_as(by) for by in ("cancel", "cancellation", "expiry", None, "new")] == [
        "cancelled",
        "cancelled",
        "given up: its deadline passed",
        "settled",
        "settled",
    ]
    assert words_of("review", {"verdict": "allow", "notes": "fine"}) == "fine"
    assert words_of("answer", {"notes": "fine"}) == {"notes": "fine"}
