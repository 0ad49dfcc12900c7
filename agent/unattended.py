"""What an agent does instead of asking, in unattended conversations."""

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeAlias, TypeVar

from holdfast.conversation.terms.decisions import Decision, DecisionRecord
from holdfast.conversation.terms.questions import Question
from holdfast.conversation.terms.spec import UnattendedApprovals, UnattendedQuestions, UnattendedSpec
from holdfast.errors import ConfigurationError, InvalidDecision

from .approving import TurnContext
from .functions import UntoldError, asked, is_async, takes

_Mode = TypeVar("_Mode", bound=StrEnum)


@dataclass(frozen=True, kw_only=True)
class UnattendedCall:
    """A call that would ask a person, for the function that decides instead.

    Attributes:
        tool: The tool's name.
        arguments: The call's arguments.
        turn: The turn in which the model asks for the call.
        prompt: The question for a person, rendered from the tool's `prompt`; None without one.
        questions: The questions of a call of `ask_user_questions`; None for every other call.
        rule: The name of the permission rule that asks for an approval; empty if none does.
        rule_reason: Why that rule asks, in its words.
    """

    tool: str
    arguments: dict[str, Any]
    turn: TurnContext
    prompt: str | None = None
    questions: tuple[Question, ...] | None = None
    rule: str = ""
    rule_reason: str = ""


Deciding: TypeAlias = Callable[[UnattendedCall], Decision | None]
"""Decides instead of a person; None leaves the call to a person."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unattended:
    """What an agent does instead of asking, in conversations that were started with `attended=False`.

    If a function fails, or returns None or a decision that does not fit, a person is asked. A permission rule that denies wins
    over everything here. Reviews, lost runs and client tools are treated as in every conversation.

    Args:
        approvals: What happens to a call that needs an approval: `ask` (it waits for a person), `deny`, or a plain function of
            the `UnattendedCall` that decides as a person may (`Approve()`, `Deny("why")`, ...), but gives no scope.
        questions: What happens to a human tool's call: `ask`, `cancel`, `defaults` (the defaults of `ask_user_questions` are
            the answers; a call is cancelled if a required answer has no default, and so is every other human tool's), or such a
            function (`Answer({...})`, `Cancel()`, `Deny()`).
    """

    approvals: str | Deciding = UnattendedApprovals.ASK
    questions: str | Deciding = UnattendedQuestions.ASK
    spec: UnattendedSpec = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        spec = UnattendedSpec(
            approvals=_mode(UnattendedApprovals, self.approvals, "Unattended.approvals"),
            questions=_mode(UnattendedQuestions, self.questions, "Unattended.questions"),
        )
        object.__setattr__(self, "spec", spec)

    @property
    def by_function(self) -> bool:
        """Whether a function of the app decides in either case."""
        return callable(self.approvals) or callable(self.questions)

    def about_approval(self, call: UnattendedCall) -> DecisionRecord | None:
        """The decision of the function for approvals; None without one, or if it leaves the call to a person."""
        return _decided(self.approvals, call, "Unattended.approvals")

    def about_questions(self, call: UnattendedCall) -> DecisionRecord | None:
        """The decision of the function for questions; None without one, or if it leaves the call to a person."""
        return _decided(self.questions, call, "Unattended.questions")


def _mode(modes: type[_Mode], declared: object, name: str) -> _Mode:
    if isinstance(declared, str) and declared in tuple(modes):
        return modes(declared)
    if callable(declared) and not is_async(declared) and takes(declared, None):
        return modes("ask")
    problem = f"{declared!r:.60} is neither a mode nor a plain function of the call"
    fix = f"use {', '.join(modes)}, or a function (not async) such as lambda call: Deny()"
    raise ConfigurationError(name, problem, fix)


def _decided(function: object, call: UnattendedCall, name: str) -> DecisionRecord | None:
    if not callable(function):
        return None
    failed = f"{name} could not decide about a call of {call.tool}, so a person is asked"
    try:
        return asked(lambda: function(call), _ruling, failed)
    except UntoldError:
        return None


def _ruling(said: Any) -> DecisionRecord | None:
    ruling = None if said is None else DecisionRecord.of(said)
    if ruling is not None and ruling.scope is not None:
        raise InvalidDecision("decision.scope", "only a person lets later calls run", "approve this call alone")
    return ruling


def call_of(tool: str, arguments: Mapping[str, Any], turn: TurnContext, **said: Any) -> UnattendedCall:
    """The call as it is given to a function of the app: with a copy of the arguments, and the fields in `said`."""
    return UnattendedCall(tool=tool, arguments=copy.deepcopy(dict(arguments)), turn=turn, **said)
