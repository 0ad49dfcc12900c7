"""Decisions in forms: the empty form of a call, and the decision that a sent form makes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.client import PendingCall
from holdfast.conversation import Answer, Approve, Decision, Fail, Question, Review, ReviewVerdict
from holdfast.conversation.terms.questions import check
from holdfast.conversation.text import jsontext
from holdfast.conversation.text.schema import problem
from holdfast.errors import InvalidDecision

from .choices import ANSWER, APPROVE, CHOICES, FAIL, REDISPATCH, REVIEW, VERDICTS
from .fields import ABSENT, Fields
from .form import Form
from .kinds import EDIT, kind_of, offered, opens_edited, takes_scope
from .scopes import ScopeForm
from .scopes import blank as blank_scope

FIELDS = "Some fields have a problem."
COMPARE = "compare"
"""The form's request to compare edited arguments, which decides nothing."""
SCOPE = "scope"
"""The field of a form that names the scope of an approval."""


@dataclass(slots=True)
class Filled:
    """A filled-in decision, to be shown again if it has a problem.

    Attributes:
        arguments: The fields of edited arguments, if these are edited.
        scope: The scope that may be granted with an approval; None if the call takes none as it is.
        reason: The text for the agent: the reason of a denial or cancellation, the error of a failure, the notes of a review.
        note: The reason for the log.
        notes_missing: Whether the problem is that a review has no notes.
    """

    choice: str = ""
    arguments: Fields | None = None
    answer: Fields | None = None
    scope: ScopeForm | None = None
    reason: str = ""
    note: str = ""
    problem: str = ""
    notes_missing: bool = False

    def said(self, choice: str) -> str:
        """The text for the agent in the form of a decision."""
        return self.reason if self.choice == choice else ""

    def noted(self, choice: str) -> str:
        """The text for the log in the form of a decision, or of a scope (`scope`)."""
        if self.choice == APPROVE.name and self.scope is not None and self.scope.chosen is not None:
            return self.note if choice == SCOPE else ""
        return self.note if choice == (APPROVE.name if self.choice == COMPARE else self.choice) else ""


def blank(call: PendingCall[Any], parameters: Any, *, edited: bool) -> Filled:
    """The empty form of a call: with the fields of its arguments, if they are `edited`, else with those of an answer.

    `parameters` is the schema of the tool's arguments; True if not known.
    """
    found = offered(call)
    if EDIT in found and (edited or opens_edited(call)):
        return Filled(arguments=Fields.of(parameters, call.arguments, label="Arguments"))
    scope = blank_scope(call) if takes_scope(call) else None
    if ANSWER.name not in found:
        return Filled(scope=scope)
    if call.questions is None:
        return Filled(answer=Fields.of(call.response_schema), scope=scope)
    needed = [question.id for question in call.questions if question.required]
    return Filled(answer=Fields.of_questions(call.response_schema, needed), scope=scope)


def read(call: PendingCall[Any], parameters: Any, form: Form, filled: Filled | None = None) -> tuple[Filled, Decision | None]:
    """The filled-in form of a call, and the decision if the form makes one.

    A form that was drawn with other fields, by another version of the app, makes none. `parameters` is the schema of the tool's
    arguments, True if not known; `filled` is the empty form that was drawn, by default the inbox's.
    """
    choice, edited = form.get("decision"), "edited" in form
    if not _takes(call, choice, edited=edited):
        problem = f"{kind_of(call).label} takes no decision {choice!r:.40} here"
        raise InvalidDecision("decision", problem, "choose one that the form offers")
    filled = filled or blank(call, parameters, edited=edited)
    filled.choice, filled.reason, filled.note = choice, form.get("reason"), form.get("note")
    fields = {ANSWER.name: filled.answer, APPROVE.name: filled.arguments, COMPARE: filled.arguments}.get(choice)
    if fields is not None:
        if form.get("layout") != fields.layout:
            filled.problem = "The fields of this form have changed since it was drawn: look at them again."
            return filled, None
        fields.filled(form)
    if choice == APPROVE.name and SCOPE in form:
        return filled, _scoped(filled, form)
    if choice == REVIEW.name:
        return filled, _review(filled, form.get("verdict"))
    return filled, _decision(call, parameters, filled)


def _takes(call: PendingCall[Any], choice: str, *, edited: bool) -> bool:
    if choice == COMPARE or (choice == APPROVE.name and (edited or opens_edited(call))):
        return EDIT in offered(call)
    return choice in offered(call) and choice in CHOICES


def _scoped(filled: Filled, form: Form) -> Decision | None:
    if filled.scope is None:
        raise InvalidDecision("scope", "it only goes with the approval of an unchanged call", "leave it out")
    scope = filled.scope.given(form)
    if scope is None:
        filled.problem = "Nothing is approved yet: " + (
            "what later calls may do has a problem." if filled.scope.problems else "choose what later calls may do."
        )
        return None
    return Approve(reason=filled.note, scope=scope)


def _review(filled: Filled, verdict: str) -> Decision | None:
    if verdict not in VERDICTS:
        filled.problem = "Choose a verdict: allow, block or send back."
        return None
    if verdict == ReviewVerdict.REVISE and not filled.reason.strip():
        filled.problem, filled.notes_missing = "Say in the notes what is to be revised: the agent reads it.", True
        return None
    return Review(verdict, filled.reason)


def _decision(call: PendingCall[Any], parameters: Any, filled: Filled) -> Decision | None:
    match filled.choice:
        case "compare" | "approve" if filled.choice == COMPARE or filled.arguments is not None:
            arguments = _fitting(filled, filled.arguments, parameters)
            wanted = isinstance(arguments, dict) and filled.choice == APPROVE.name
            return Approve(arguments, reason=filled.note) if wanted else None
        case "fail" if not filled.reason.strip():
            filled.problem = "Say what went wrong: the agent reads it."
        case "answer" if filled.answer is not None and filled.answer.is_empty and kind_of(call).machine:
            filled.problem = 'Write the result. For an empty text, mark it as JSON and write "".'
        case "answer":
            value = _fitting(filled, filled.answer, call.response_schema if call.questions is None else None)
            if call.questions is not None and value is not ABSENT and not _answered(filled, call.questions, value):
                return None
            return None if value is ABSENT else Answer(value, reason=filled.note)
        case FAIL.name:
            return Fail(filled.reason, reason=filled.note)
        case name:
            made = CHOICES[name].made
            return None if made is None else made(filled.note if name in (APPROVE.name, REDISPATCH.name) else filled.reason)
    return None


def _answered(filled: Filled, asked: Sequence[Question], value: Any) -> bool:
    """Whether a value answers these questions; if not, the problem is set beside the question."""
    try:
        check(asked, value)
    except InvalidDecision as error:
        beside = filled.answer is not None and filled.answer.blamed(
            error.field.removeprefix("decision.value."), f"{error.problem}: {error.fix}"
        )
        filled.problem = FIELDS if beside else str(error)
        return False
    return True


def _fitting(filled: Filled, fields: Fields | None, schema: Any) -> Any:
    """The value of the fields, if it fits its schema; else `ABSENT`, and the problem is set in the form."""
    value = ABSENT if fields is None else fields.value()
    if value is ABSENT:
        filled.problem = FIELDS
        return ABSENT
    try:
        jsontext.dumps(value)
    except (jsontext.NotJson, ValueError) as error:
        filled.problem = str(error)
        return ABSENT
    if isinstance(schema, dict | bool) and (wrong := problem(jsontext.dumps(schema), value)):
        filled.problem = wrong
        return ABSENT
    return value
