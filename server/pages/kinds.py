"""The kinds of what waits: how a page shows each, and which decisions it offers.

A kind that is to come adds an entry here and a template `kind_<name>.html`, which draws its forms in the inbox and in the
elements of `holdfast.js`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.client import PendingCall
from holdfast.conversation import Executor, SuspensionKind

from .choices import ANSWER, APPROVE, CANCEL, DENY, FAIL, REDISPATCH, REVIEW, Choice

EDIT = "edit"
"""What may be offered of an approval beside whole decisions: that its arguments are edited."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of what waits.

    Attributes:
        name: Its name, as in the API; also the end of its template's name.
        label: What a person reads.
        choices: The decisions that a page has for it; a call may take fewer.
        effects: What follows from a decision, by who produces the call's result; None stands for all others.
        machine: Whether an answer stands in for what a program would have said, so that an empty one is hardly meant.
        of_element: Which of the decisions the element of `holdfast.js` offers to the user of a page; none where it has none.
    """

    name: str
    label: str
    choices: Sequence[Choice]
    effects: Mapping[Executor | None, str]
    machine: bool = False
    of_element: Sequence[Choice] = ()

    @property
    def template(self) -> str:
        """The template of its form."""
        return f"kind_{self.name}.html"

    def takes(self, choice: str) -> bool:
        """Whether a page has a decision of this name for it."""
        return any(one.name == choice for one in self.choices)


_ALL = (
    Kind(
        SuspensionKind.APPROVAL,
        "Approval",
        (APPROVE, DENY, ANSWER, CANCEL),
        {},  # it depends on what the tool lets a person say
        of_element=(APPROVE, DENY),
    ),
    Kind(
        SuspensionKind.ELICITATION,
        "Question",
        (ANSWER, DENY, CANCEL),
        {None: "Your answer is the result that the agent reads. Nothing else runs."},
        of_element=(ANSWER, DENY),
    ),
    Kind(
        SuspensionKind.CLIENT_EXEC,
        "For the user's device",
        (ANSWER, FAIL, CANCEL),
        {None: "The user's own device is to produce this result. If it is gone, give the result, or mark it as failed."},
        machine=True,
    ),
    Kind(
        SuspensionKind.REVIEW,
        "Review",
        (REVIEW, ANSWER, CANCEL),
        {
            None: "The tool has stopped to ask. Allowed, what it is about may go on; blocked, it may not; sent back, it is to "
            "be revised as your notes say, and may come again."
        },
        of_element=(REVIEW, ANSWER),
    ),
    Kind(
        SuspensionKind.LOST,
        "Lost run",
        (REDISPATCH, ANSWER, FAIL, CANCEL),
        {
            None: "The tool's run was cut off, and nobody knows whether it took effect: look where it would have. If it runs "
            "again, it may take effect twice, unless it uses its idempotency key."
        },
        machine=True,
    ),
)
KINDS: Mapping[str, Kind] = {kind.name: kind for kind in _ALL}
UNREADABLE = Kind("unreadable", "Unreadable", (DENY, FAIL), {None: "Not all of this call can be read here."})


def kind_of(call: PendingCall[Any]) -> Kind:
    """The kind of a pending call; one that a newer Holdfast wrote is unreadable here."""
    return UNREADABLE if call.kind is None else KINDS.get(call.kind.value, UNREADABLE)


def asked_in(call: PendingCall[Any]) -> str:
    """What a call asks, in the words of its tool or of the model, for a headline; empty where it says nothing."""
    if call.questions:
        more = len(call.questions) - 1
        return call.questions[0].text + (f" (and {more} more)" if more else "")
    return call.title or call.prompt or ""


def offered(call: PendingCall[Any]) -> frozenset[str]:
    """What a page offers of a call: the names of decisions, and `EDIT`.

    It is what the call takes. Where not all of the call can be read, nothing is offered that would let it go on.
    """
    kind = kind_of(call)
    if kind is UNREADABLE:
        return frozenset(one.name for one in kind.choices)
    found = {name for name in call.decisions if kind.takes(name) or (name == EDIT and kind.takes(APPROVE.name))}
    if call.problem is not None:
        found -= {EDIT, REVIEW.name, *(one.name for one in kind.choices if one.runs)}
    return frozenset(found)


def opens_edited(call: PendingCall[Any]) -> bool:
    """Whether a call's arguments are edited from the beginning: its tool runs with edited ones alone, and takes no answer."""
    found = offered(call)
    return EDIT in found and APPROVE.name not in found and ANSWER.name not in found


def effect_of(call: PendingCall[Any]) -> str:
    """What follows from the decisions that are offered of a call."""
    kind = kind_of(call)
    if kind.name != SuspensionKind.APPROVAL:
        return kind.effects.get(call.executor, kind.effects[None])
    found, client = offered(call), call.executor is Executor.CLIENT
    said = []
    if APPROVE.name in found:
        said.append(
            "Approved, the user's own device may run this." if client else "Approved, the tool runs once, with these arguments."
        )
    elif EDIT in found:
        said.append("It runs only with arguments that you have looked through and confirmed.")
    if DENY.name in found:
        said.append(
            "Denied, it may not, and the agent reads why." if client else "Denied, it does not run, and the agent reads why."
        )
    if ANSWER.name in found:
        said.append("Answered, it does not run either: your answer is the result that the agent reads.")
    return " ".join(said) or "It cannot be let through from here."
