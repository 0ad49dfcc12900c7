"""Decisions, which settle a suspension, and the form in which a command carries one."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any, Self, TypeAlias, get_args

from pydantic import Field, model_validator

from holdfast.conversation.record import Record
from holdfast.conversation.text import jsontext
from holdfast.conversation.text.jsontext import JsonText
from holdfast.errors import InvalidDecision

from .grants import Scope, ScopeGiven
from .parts import plain
from .spec import Choice

__all__ = ["Answer", "Approve", "Cancel", "Decision", "Deny", "Fail", "Redispatch", "Review", "ReviewVerdict", "SuspensionKind"]
"""The names of this module for users."""


class DecisionKind(StrEnum):
    """The kind of a decision."""

    APPROVE = "approve"  # the call may run, perhaps with edited arguments
    DENY = "deny"  # the call must not run, or the person will not answer
    ANSWER = "answer"  # the value is the call's result
    FAIL = "fail"  # the client could not produce a result, or a lost run is to count as failed
    REDISPATCH = "redispatch"  # a lost run is to run again
    CANCEL = "cancel"  # the call is dropped; its turn goes on
    REVIEW = "review"  # a person's verdict on a review that a tool's body asked for


class SuspensionKind(StrEnum):
    """The kind of decision that a suspended call waits for."""

    APPROVAL = "approval"  # a person's yes or no before the call runs
    ELICITATION = "elicitation"  # a person's answer, which is the call's result
    CLIENT_EXEC = "client_exec"  # the result of the client's own execution
    LOST = "lost"  # a person's word on a lost run: run it again, or take this result or error
    REVIEW = "review"  # a person's verdict on a review that the call's own body asked for
    DELEGATE = "delegate"  # the reply of another conversation, to which the call was delegated
    LIMIT = "limit"  # a person's word on a turn that has reached a bound: it goes on for as much again, or ends


OF_PEOPLE = frozenset(SuspensionKind) - {SuspensionKind.DELEGATE}
"""The kinds of suspension that wait for people or their devices; the others wait for machines."""
OF_CALLS = OF_PEOPLE - {SuspensionKind.LIMIT}
"""Those of them that wait for a word on a call of the model's; who gives grants may decide all of these."""
FIRST_WORDS = frozenset({SuspensionKind.APPROVAL, SuspensionKind.ELICITATION})
"""The kinds of suspension that come before a call has done anything."""
ACCEPTED: dict[SuspensionKind, tuple[DecisionKind, ...]] = {
    SuspensionKind.APPROVAL: (DecisionKind.APPROVE, DecisionKind.DENY, DecisionKind.ANSWER, DecisionKind.CANCEL),
    SuspensionKind.ELICITATION: (DecisionKind.ANSWER, DecisionKind.DENY, DecisionKind.CANCEL),
    SuspensionKind.CLIENT_EXEC: (DecisionKind.ANSWER, DecisionKind.FAIL, DecisionKind.CANCEL),
    SuspensionKind.LOST: (DecisionKind.REDISPATCH, DecisionKind.ANSWER, DecisionKind.FAIL, DecisionKind.CANCEL),
    SuspensionKind.REVIEW: (DecisionKind.REVIEW, DecisionKind.ANSWER, DecisionKind.CANCEL),
    SuspensionKind.DELEGATE: (DecisionKind.CANCEL,),
    SuspensionKind.LIMIT: (DecisionKind.APPROVE, DecisionKind.DENY),
}
"""The kinds of decision that each kind of suspension takes: an approval takes an answer only if its tool's `decisions` has one,
a review only if it has a schema."""


def accepted(kind: SuspensionKind, choices: Collection[Choice], *, with_schema: bool) -> tuple[DecisionKind, ...]:
    """The kinds of decision that a suspension takes.

    `choices` are the tool's for an approval; `with_schema` says whether the suspension has a schema for answers.
    """
    out: set[DecisionKind] = set()
    if kind is SuspensionKind.APPROVAL:
        offered = {Choice.APPROVE: DecisionKind.APPROVE, Choice.EDIT: DecisionKind.APPROVE}
        offered |= {Choice.DENY: DecisionKind.DENY, Choice.ANSWER: DecisionKind.ANSWER}
        out = set(offered.values()) - {offered[one] for one in choices}
    if kind is SuspensionKind.REVIEW and not with_schema:
        out = {DecisionKind.ANSWER}
    return tuple(one for one in ACCEPTED[kind] if one not in out)


class ReviewVerdict(StrEnum):
    """A reviewer's verdict."""

    ALLOW = "allow"  # it may go on
    BLOCK = "block"  # it may not
    REVISE = "review"  # the agent is to revise it, by the notes, and may ask again


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
            description="Lets the pending and later calls of the conversation that it covers run without asking. It cannot be "
            "given with edited arguments."
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
    """The call is dropped, and its turn goes on without it."""

    reason: Told = ""


@dataclass(frozen=True, slots=True)
class Review:
    """A verdict on a review that a tool's body asked for.

    The agent reads the verdict and the notes as the call's result, marked as a person's words.
    """

    verdict: Annotated[
        ReviewVerdict | str, Field(description="`allow`, `block`, or `review`: the agent is to revise it, and may ask again.")
    ]
    notes: Annotated[str, Field(description="What the agent reads beside the verdict.")] = ""


Decision: TypeAlias = Approve | Deny | Answer | Fail | Redispatch | Cancel | Review
BY_KIND: Mapping[DecisionKind, type[Any]] = {DecisionKind(one.__name__.lower()): one for one in get_args(Decision)}
"""The class of each kind of decision; the class is named like the kind."""
SAYS: Mapping[DecisionKind, tuple[str, ...]] = {
    DecisionKind.APPROVE: ("arguments",),
    DecisionKind.DENY: ("reason",),
    DecisionKind.ANSWER: ("value",),
    DecisionKind.FAIL: ("error",),
    DecisionKind.REDISPATCH: (),
    DecisionKind.CANCEL: (),
    DecisionKind.REVIEW: ("verdict", "notes"),
}
"""The fields in the body of each kind of decision: a single one is the body itself, several are an object."""
IN_WORDS = frozenset(kind.value for kind, names in SAYS.items() if {"reason", "error", "notes"} & {*names})
"""The kinds of decision whose body is in a person's words."""
GIVE_VERDICT = f"give one of {', '.join(ReviewVerdict)}"
DECISIONS = " or ".join(f"{', '.join(f'{one.__name__}()' for one in get_args(Decision))}".rsplit(", ", 1))


class DecisionRecord(Record):
    """A decision as a command carries it: its kind, its body as JSON text, and its reason.

    The body is None for an unedited `Approve`, a `Redispatch` and a `Cancel`; the reason of a `Deny` and the notes of a
    `Review` are in the body.

    Attributes:
        kind: The kind of the decision.
        body: The JSON text of the body, as in `suspension_settled`; None if it has none.
        reason: The reason of the decision.
        scope: The scope of an `Approve` that has one.
    """

    kind: DecisionKind
    body: JsonText | None = None
    reason: str = ""
    scope: ScopeGiven | None = None

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if self.body is None and SAYS[self.kind] and self.kind is not DecisionKind.APPROVE:
            raise ValueError(f"{self.kind} needs a body")
        if self.body is not None and not SAYS[self.kind]:
            raise ValueError(f"{self.kind} takes no body")
        if self.scope is not None and (self.kind is not DecisionKind.APPROVE or self.body is not None):
            raise ValueError("only an approval without edited arguments has a scope")
        return self

    @classmethod
    def of(cls, decision: Decision) -> "DecisionRecord":
        """The record of a decision; `InvalidDecision` if the value is none, or its body is not JSON."""
        kind = next((kind for kind, form in BY_KIND.items() if isinstance(decision, form)), None)
        if kind is None:
            raise InvalidDecision("decision", f"{type(decision).__name__} is not a decision", f"give {DECISIONS}")
        names, scope = SAYS[kind], getattr(decision, "scope", None)
        reason = "" if "reason" in names else _text("decision.reason", getattr(decision, "reason", ""))
        edited = isinstance(decision, Approve) and decision.arguments is not None
        if edited and isinstance(scope, Scope):
            problem = "a scope cannot be given with edited arguments"
            raise InvalidDecision("decision.scope", problem, "approve the call as it is, or leave the scope out")
        said = {name: _CHECKS.get(name, _any)(f"decision.{name}", getattr(decision, name)) for name in names}
        if not said or (isinstance(decision, Approve) and not edited):
            return cls(kind=kind, reason=reason, scope=_scope(scope))
        body = said if len(said) > 1 else said[names[0]]
        return cls(kind=kind, body=_body(f"decision.{names[-1]}", body), reason=reason)

    @property
    def decision(self) -> Decision:
        """The carried decision; `NotJson` if the body is no JSON text."""
        form, names = BY_KIND[self.kind], SAYS[self.kind]
        body: Any = None if self.body is None else jsontext.loads(self.body)
        said = {name: body[name] for name in names} if len(names) > 1 else dict.fromkeys(names, body)
        if "verdict" in said:
            said["verdict"] = ReviewVerdict(said["verdict"])
        beside = {"reason": self.reason, "scope": None if self.scope is None else self.scope.scope}
        found: Decision = form(**{name: value for name, value in beside.items() if name in form.__dataclass_fields__} | said)
        return found


def _scope(value: object) -> ScopeGiven | None:
    if value is None or isinstance(value, Scope):
        return None if value is None else ScopeGiven.of(value)
    problem = f"{type(value).__name__} is not a scope"
    raise InvalidDecision("decision.scope", problem, 'give Scope("path", "src/**", level="write"), or leave it out')


def _arguments(field: str, value: object) -> dict[str, Any] | None:
    if value is None or isinstance(value, Mapping):
        return None if value is None else dict(value)
    raise InvalidDecision(field, f"{type(value).__name__} is not a JSON object", "give a dict, or leave it out")


def _verdict(field: str, value: object) -> str:
    try:
        return ReviewVerdict(str(value)).value
    except ValueError:
        raise InvalidDecision(field, f"{value!r:.40} is no verdict", GIVE_VERDICT) from None


def _text(field: str, value: object) -> str:
    if isinstance(value, str):
        return value
    raise InvalidDecision(field, f"{type(value).__name__} is not a string", "give a string")


def _any(_: str, value: object) -> object:
    return value


_CHECKS: Mapping[str, Callable[[str, object], object]] = {
    "arguments": _arguments,
    "verdict": _verdict,
    **dict.fromkeys(("reason", "error", "notes"), _text),
}
"""The checks of fields in a body; other fields may have any value."""


def _body(field: str, value: Any) -> JsonText:
    try:
        return jsontext.dumps(plain(value))
    except jsontext.NotJson as error:
        raise InvalidDecision(field, str(error), "give a JSON value") from error
