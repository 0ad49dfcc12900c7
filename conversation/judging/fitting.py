"""Whether a decision fits its suspension: the kind, the size, and the schema of its body."""

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from holdfast.conversation.ids import payload_digest
from holdfast.conversation.records.calls import Call, Suspension
from holdfast.conversation.records.events import CallSuspended, ModelAnswered
from holdfast.conversation.terms import questions
from holdfast.conversation.terms.decisions import (
    GIVE_VERDICT,
    SAYS,
    DecisionKind,
    DecisionRecord,
    ReviewVerdict,
    SuspensionKind,
    accepted,
)
from holdfast.conversation.terms.spec import Choice, Limits, ToolSpec
from holdfast.conversation.text import jsontext, schema
from holdfast.conversation.text.jsontext import JsonText
from holdfast.errors import InvalidDecision

from .judgement import Draft
from .progress import is_edited
from .words import check_words

REVIEW_BYTES = 64
"""The most that a review's JSON text has besides its notes, in bytes."""
_YES = frozenset({DecisionKind.APPROVE, DecisionKind.ANSWER, DecisionKind.REDISPATCH})
_NOTES = frozenset(kind for kind, names in SAYS.items() if {"reason", "error", "notes"} & {*names})


@dataclass(frozen=True, slots=True)
class Fitted:
    """A decision that fits its suspension; `value` is its parsed body. If nobody sent it, its id and digest are empty."""

    call: Call
    suspension: Suspension
    ruling: DecisionRecord
    value: Any
    decision_id: str = ""
    digest: str = ""

    @property
    def is_yes(self) -> bool:
        """Whether it lets the call go on or is its result: a vote, if several must agree. A no settles at once."""
        if self.ruling.kind is DecisionKind.REVIEW:
            return bool(self.value["verdict"] == ReviewVerdict.ALLOW)
        return self.ruling.kind in _YES

    @property
    def is_edit(self) -> bool:
        """Whether it edits arguments that several must approve."""
        return self.call.needed > 1 and self.ruling.kind is DecisionKind.APPROVE and self.ruling.body is not None

    @property
    def on(self) -> str:
        """The subject of a vote, in short; of a review, the verdict without its notes."""
        said = self.value["verdict"] if self.ruling.kind is DecisionKind.REVIEW else self.ruling.body
        return payload_digest("vote", self.ruling.kind, said or "")[:16]

    def result(self, tool: ToolSpec) -> JsonText:
        """The JSON text of the result that an answer gives; for questions, the answers to all of them."""
        if tool.questions and self.suspension.kind is SuspensionKind.ELICITATION:
            return jsontext.dumps({"answers": self.value})
        return self.ruling.body or "null"


def fit(draft: Draft, call: Call, suspension: Suspension, ruling: DecisionRecord, **repetition: str) -> Fitted:
    """Check a decision (`InvalidDecision`) against what the suspension accepts, the limits and the schemas."""
    return Fitted(call, suspension, ruling, _value(draft, call, suspension, ruling), **repetition)


def _value(draft: Draft, call: Call, suspension: Suspension, ruling: DecisionRecord) -> Any:
    tool = draft.tool_of(call)
    asked = draft.command.read.get(suspension.seq)
    own = suspension.kind is SuspensionKind.REVIEW  # its event has its own schema; without it, no answer fits
    schema_text = asked.response_schema if isinstance(asked, CallSuspended) else None if own else tool.response_schema
    _check_accepted(ruling, suspension, tool, schema_text, edited=is_edited(draft, call))
    check_words(ruling.reason, draft.spec, "decision.reason", InvalidDecision)
    if ruling.scope is not None:
        _ = ruling.scope.scope  # the command may come from a shell that has not checked it
    if ruling.body is None:
        return None
    _check_size(ruling, draft.command.limits)
    try:
        body = jsontext.loads(ruling.body)
    except jsontext.NotJson as error:
        raise InvalidDecision("decision", str(error), "give a JSON value") from error
    match ruling.kind:
        case DecisionKind.APPROVE:
            if not isinstance(body, Mapping):
                problem = f"{type(body).__name__} is not a JSON object"
                raise InvalidDecision("decision.arguments", problem, "give an object, or leave it out")
            _check_schema("decision.arguments", tool.parameters, body)
        case DecisionKind.ANSWER:
            if tool.questions and suspension.kind is SuspensionKind.ELICITATION:
                return questions.check(_questions(draft, call), body)
            _check_schema("decision.value", schema_text, body)
        case DecisionKind.DENY | DecisionKind.FAIL:
            if not isinstance(body, str):
                raise InvalidDecision("decision", f"{type(body).__name__} is not a string", "say why in a string")
        case DecisionKind.REVIEW:
            _check_review(body)
    return body


def _questions(draft: Draft, call: Call) -> tuple[questions.Question, ...]:
    asked = draft.command.read.get(call.arguments_at)
    if isinstance(asked, ModelAnswered):
        found = next((one.arguments for one in asked.calls if one.tool_call_id == call.tool_call_id), "")
        with contextlib.suppress(jsontext.NotJson, questions.NotQuestions):
            return questions.parse(jsontext.loads(found))
    raise InvalidDecision(
        "decision.value", "the questions cannot be read, so no answer can be judged", "deny or cancel the call"
    )


def _check_accepted(
    ruling: DecisionRecord, suspension: Suspension, tool: ToolSpec, schema_text: JsonText | None, *, edited: bool
) -> None:
    takes = [kind.value for kind in accepted(suspension.kind, tool.decisions, with_schema=schema_text is not None)]
    if ruling.kind.value not in takes:
        problem = f"{ruling.kind.value} does not settle a call that waits for {suspension.kind.value}"
        raise InvalidDecision("decision", problem, f"decide {' or '.join(takes)}")
    if ruling.kind is not DecisionKind.APPROVE:
        return
    if ruling.body is not None and Choice.EDIT not in tool.decisions:
        problem = f"{tool.name} lets nobody edit its arguments (Tool.decisions)"
        raise InvalidDecision("decision.arguments", problem, "leave them out, or decide otherwise")
    if ruling.body is None and Choice.APPROVE not in tool.decisions and not edited:  # for arguments that another has edited
        problem = f"{tool.name} is not approved as it is (Tool.decisions)"
        raise InvalidDecision("decision.arguments", problem, "give edited arguments")


def _check_review(body: Any) -> None:
    if not isinstance(body, Mapping) or set(body) != {"verdict", "notes"} or not isinstance(body["notes"], str):
        raise InvalidDecision("decision", "it is no review", "give Review(verdict, notes)")
    if body["verdict"] not in tuple(ReviewVerdict):
        raise InvalidDecision("decision.verdict", f"{body['verdict']!r:.40} is no verdict", GIVE_VERDICT)


def _check_size(ruling: DecisionRecord, limits: Limits) -> None:
    name = "note_bytes" if ruling.kind in _NOTES else "result_bytes"
    allowed = getattr(limits, name)
    size = jsontext.size_bytes(ruling.body or "") - (REVIEW_BYTES if ruling.kind is DecisionKind.REVIEW else 0)
    if size > allowed:
        problem = f"it has {size} bytes, {allowed} are allowed"
        raise InvalidDecision("decision", problem, f"shorten it, or raise Limits.{name} of the agent")


def _check_schema(field: str, text: JsonText | None, value: Any) -> None:
    problem = schema.problem(text, value)
    if problem is not None:
        raise InvalidDecision(field, problem, "give a value that fits the schema")
