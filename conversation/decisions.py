"""Decisions, which settle a suspension, and the form in which a command carries one."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Self, TypeAlias

from pydantic import model_validator

from holdfast.errors import InvalidDecision

from . import jsontext
from .jsontext import JsonText
from .record import Record


class DecisionKind(StrEnum):
    """The kind of a decision."""

    APPROVE = "approve"  # the call may run, perhaps with edited arguments
    DENY = "deny"  # the call must not run, or the person will not answer
    ANSWER = "answer"  # the value is the call's result
    FAIL = "fail"  # the client could not produce a result, or a lost run is to count as failed
    REDISPATCH = "redispatch"  # a lost run is to run again


@dataclass(frozen=True, slots=True)
class Approve:
    """The call may run: with its own arguments, or with these edited ones (a JSON object)."""

    arguments: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Deny:
    """The call must not run, or the person will not answer. The model reads the reason."""

    reason: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of a human, client or lost call: any JSON value, `False`, `0`, `""` and `None` included."""

    value: Any


@dataclass(frozen=True, slots=True)
class Fail:
    """The client could not produce a result, or a lost run is to count as failed. The model reads the error."""

    error: str


@dataclass(frozen=True, slots=True)
class Redispatch:
    """A lost run is to run again: with the same arguments and idempotency key, `attempt` + 1."""


Decision: TypeAlias = Approve | Deny | Answer | Fail | Redispatch
_BODILESS = frozenset({DecisionKind.APPROVE, DecisionKind.REDISPATCH})


class Ruling(Record):
    """A decision as a command carries it: its kind, and its body as JSON text (None: an unedited `Approve`, a `Redispatch`)."""

    kind: DecisionKind
    body: JsonText | None = None

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if self.body is None and self.kind not in _BODILESS:
            message = f"{self.kind} needs a body"
            raise ValueError(message)
        if self.body is not None and self.kind is DecisionKind.REDISPATCH:
            message = f"{self.kind} takes no body"
            raise ValueError(message)
        return self

    @classmethod
    def of(cls, decision: Decision) -> "Ruling":
        """The ruling that carries a decision.

        Raises:
            InvalidDecision: The value is no decision, or its body is not JSON.
        """
        match decision:
            case Approve(arguments=None):
                return cls(kind=DecisionKind.APPROVE)
            case Approve(arguments=arguments):
                if not isinstance(arguments, Mapping):
                    problem = f"{type(arguments).__name__} is not a JSON object"
                    raise InvalidDecision("decision.arguments", problem, "give a dict, or leave it out")
                return cls(kind=DecisionKind.APPROVE, body=_body("decision.arguments", dict(arguments)))
            case Deny(reason=reason):
                return cls(kind=DecisionKind.DENY, body=_body("decision.reason", _text("decision.reason", reason)))
            case Answer(value=value):
                return cls(kind=DecisionKind.ANSWER, body=_body("decision.value", value))
            case Fail(error=error):
                return cls(kind=DecisionKind.FAIL, body=_body("decision.error", _text("decision.error", error)))
            case Redispatch():
                return cls(kind=DecisionKind.REDISPATCH)
            case _:
                problem = f"{type(decision).__name__} is not a decision"
                raise InvalidDecision("decision", problem, "give Approve(), Deny(), Answer(), Fail() or Redispatch()")


def _text(field: str, value: object) -> str:
    if isinstance(value, str):
        return value
    raise InvalidDecision(field, f"{type(value).__name__} is not a string", "give a string")


def _body(field: str, value: Any) -> JsonText:
    try:
        return jsontext.dumps(value)
    except jsontext.NotJson as error:
        raise InvalidDecision(field, str(error), "give a JSON value") from error
