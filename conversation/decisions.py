"""Decisions, which settle a suspension, and the form in which a command carries one."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any, Self, TypeAlias

from pydantic import Field, model_validator

from holdfast.errors import InvalidDecision

from . import jsontext
from .grants import Scope, ScopeGiven
from .jsontext import JsonText
from .record import Record


class DecisionKind(StrEnum):
    """The kind of a decision."""

    APPROVE = "approve"  # the call may run, perhaps with edited arguments
    DENY = "deny"  # the call must not run, or the person will not answer
    ANSWER = "answer"  # the value is the call's result
    FAIL = "fail"  # the client could not produce a result, or a lost run is to count as failed
    REDISPATCH = "redispatch"  # a lost run is to run again
    CANCEL = "cancel"  # the call is not to happen any more; its turn goes on
    REVIEW = "review"  # a person's verdict on what a tool's body asks to have reviewed


class ReviewVerdict(StrEnum):
    """What a reviewer says."""

    ALLOW = "allow"  # it may go on
    BLOCK = "block"  # it may not
    REVISE = "review"  # the agent is to revise it, as the notes say, and may ask again


Reason: TypeAlias = Annotated[str, Field(description="Why; the log keeps it.")]
Told: TypeAlias = Annotated[str, Field(description="Why; the model reads it.")]


@dataclass(frozen=True, slots=True)
class Approve:
    """The call may run, with its own arguments or with edited ones."""

    arguments: Annotated[
        Mapping[str, Any] | None, Field(description="Edited arguments, a JSON object; None: the call's own.")
    ] = None
    reason: Reason = field(default="", kw_only=True)
    scope: Annotated[
        Scope | None,
        Field(
            description="Lets what it covers run without asking, both later calls of the conversation and those that wait; it "
            "does not go with edited arguments."
        ),
    ] = field(default=None, kw_only=True)


@dataclass(frozen=True, slots=True)
class Deny:
    """The call must not run, or the person will not answer."""

    reason: Told = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """The call's result; `false`, `0`, `""` and `null` are answers like any other."""

    value: Annotated[Any, Field(description="Any JSON value.")]
    reason: Reason = field(default="", kw_only=True)


@dataclass(frozen=True, slots=True)
class Fail:
    """The client could not produce a result, or a lost run is to count as failed."""

    error: Annotated[str, Field(description="What went wrong; the model reads it.")]
    reason: Reason = field(default="", kw_only=True)


@dataclass(frozen=True, slots=True)
class Redispatch:
    """A lost run is to run again: with the same arguments and idempotency key, `attempt` + 1."""

    reason: Reason = field(default="", kw_only=True)


@dataclass(frozen=True, slots=True)
class Cancel:
    """The call is not to happen any more, and its turn goes on without it."""

    reason: Told = ""


@dataclass(frozen=True, slots=True)
class Review:
    """A verdict on what a tool's body has asked to have reviewed.

    The agent reads the verdict and the notes as the call's result, marked as what a person has said.
    """

    verdict: Annotated[
        ReviewVerdict | str, Field(description="`allow`, `block`, or `review`: the agent is to revise it, and may ask again.")
    ]
    notes: Annotated[str, Field(description="What the agent reads beside the verdict.")] = ""


Decision: TypeAlias = Approve | Deny | Answer | Fail | Redispatch | Cancel | Review
BY_KIND: Mapping[DecisionKind, type[Any]] = {
    DecisionKind.APPROVE: Approve,
    DecisionKind.DENY: Deny,
    DecisionKind.ANSWER: Answer,
    DecisionKind.FAIL: Fail,
    DecisionKind.REDISPATCH: Redispatch,
    DecisionKind.CANCEL: Cancel,
    DecisionKind.REVIEW: Review,
}
"""The class of each kind of decision."""
GIVE_VERDICT = f"give one of {', '.join(ReviewVerdict)}"
DECISIONS = "Approve(), Deny(), Answer(), Fail(), Redispatch(), Cancel() or Review()"
_BODILESS = frozenset({DecisionKind.APPROVE, DecisionKind.REDISPATCH, DecisionKind.CANCEL})


class DecisionRecord(Record):
    """A decision as a command carries it: its kind, its body as JSON text, and why it was made.

    The body is None for an unedited `Approve`, a `Redispatch` and a `Cancel`; the reason of a `Deny` and the notes of a
    `Review` are in the body.

    Attributes:
        kind: Which kind of decision it is.
        body: The JSON text of what it says, as in `suspension_settled`; None if it says nothing.
        reason: Why it was decided so.
        scope: The scope of an `Approve` that has one.
    """

    kind: DecisionKind
    body: JsonText | None = None
    reason: str = ""
    scope: ScopeGiven | None = None

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if self.body is None and self.kind not in _BODILESS:
            raise ValueError(f"{self.kind} needs a body")
        if self.body is not None and self.kind in (DecisionKind.REDISPATCH, DecisionKind.CANCEL):
            raise ValueError(f"{self.kind} takes no body")
        if self.scope is not None and (self.kind is not DecisionKind.APPROVE or self.body is not None):
            raise ValueError("a scope goes with an approval of a call as it is")
        return self

    @classmethod
    def of(cls, decision: Decision) -> "DecisionRecord":
        """The ruling that carries a decision.

        Raises:
            InvalidDecision: The value is no decision, or its body is not JSON.
        """
        reason = ""
        if isinstance(decision, Approve | Answer | Fail | Redispatch | Cancel):
            reason = _text("decision.reason", decision.reason)
        match decision:
            case Approve(arguments=None, scope=scope):
                return cls(kind=DecisionKind.APPROVE, reason=reason, scope=_scope(scope))
            case Approve(scope=Scope()):
                problem = "edited arguments are no example of what a scope is to cover"
                raise InvalidDecision("decision.scope", problem, "approve the call as it is, or leave the scope out")
            case Approve(arguments=arguments):
                if not isinstance(arguments, Mapping):
                    problem = f"{type(arguments).__name__} is not a JSON object"
                    raise InvalidDecision("decision.arguments", problem, "give a dict, or leave it out")
                return cls(kind=DecisionKind.APPROVE, body=_body("decision.arguments", dict(arguments)), reason=reason)
            case Deny(reason=why):
                return cls(kind=DecisionKind.DENY, body=_body("decision.reason", _text("decision.reason", why)))
            case Answer(value=value):
                return cls(kind=DecisionKind.ANSWER, body=_body("decision.value", value), reason=reason)
            case Fail(error=error):
                body = _body("decision.error", _text("decision.error", error))
                return cls(kind=DecisionKind.FAIL, body=body, reason=reason)
            case Redispatch():
                return cls(kind=DecisionKind.REDISPATCH, reason=reason)
            case Cancel():
                return cls(kind=DecisionKind.CANCEL, reason=reason)
            case Review(verdict=verdict, notes=notes):
                said = {"verdict": _verdict(verdict).value, "notes": _text("decision.notes", notes)}
                return cls(kind=DecisionKind.REVIEW, body=_body("decision.notes", said))
            case _:
                problem = f"{type(decision).__name__} is not a decision"
                raise InvalidDecision("decision", problem, f"give {DECISIONS}")

    @property
    def decision(self) -> Decision:
        """The decision that is carried.

        Raises:
            NotJson: The body is no JSON text.
        """
        body: Any = None if self.body is None else jsontext.loads(self.body)
        match self.kind:
            case DecisionKind.APPROVE:
                return Approve(body, reason=self.reason, scope=None if self.scope is None else self.scope.scope)
            case DecisionKind.DENY:
                return Deny(body)
            case DecisionKind.ANSWER:
                return Answer(body, reason=self.reason)
            case DecisionKind.FAIL:
                return Fail(body, reason=self.reason)
            case DecisionKind.REDISPATCH:
                return Redispatch(reason=self.reason)
            case DecisionKind.CANCEL:
                return Cancel(self.reason)
            case DecisionKind.REVIEW:
                return Review(ReviewVerdict(body["verdict"]), body["notes"])


def _scope(value: object) -> ScopeGiven | None:
    if value is None or isinstance(value, Scope):
        return None if value is None else ScopeGiven.of(value)
    problem = f"{type(value).__name__} is not a scope"
    raise InvalidDecision("decision.scope", problem, 'give Scope("path", "src/**", level="write"), or leave it out')


def _verdict(value: object) -> ReviewVerdict:
    try:
        return ReviewVerdict(str(value))
    except ValueError:
        raise InvalidDecision("decision.verdict", f"{value!r:.40} is no verdict", GIVE_VERDICT) from None


def _text(field: str, value: object) -> str:
    if isinstance(value, str):
        return value
    raise InvalidDecision(field, f"{type(value).__name__} is not a string", "give a string")


def _body(field: str, value: Any) -> JsonText:
    try:
        return jsontext.dumps(value)
    except jsontext.NotJson as error:
        raise InvalidDecision(field, str(error), "give a JSON value") from error
