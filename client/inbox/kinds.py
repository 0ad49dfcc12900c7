"""The kinds of pending calls: how a page shows each, and which decisions it offers.

A new kind adds an entry here and a template `kind_<name>.html`, which draws its forms in the inbox and in the elements of
`holdfast.js`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.client import PendingCall
from holdfast.conversation import Executor, SuspensionKind
from holdfast.conversation.terms.decisions import ACCEPTED, DecisionKind

from .choices import ANSWER, APPROVE, CHOICES, DENY, REVIEW, Choice

EDIT = "edit"
"""The name under which the editing of an approval's arguments is offered."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of pending call.

    Attributes:
        name: Its name, as in the API; also the end of its template's name.
        label: Its name for people.
        effect: The effect of a decision; of an approval it depends on the answers that the tool accepts.
        machine: Whether an answer replaces a program's, so that an empty one is probably a mistake.
        why: The name of the field for a denial's reason, which says who reads it.
        of_element: The decisions that the element of `holdfast.js` offers to the user of a page; empty if it offers none.
    """

    name: str
    label: str
    effect: str = ""
    machine: bool = False
    why: str = "Reason, for the agent"
    of_element: Sequence[Choice] = ()

    @property
    def choices(self) -> Sequence[Choice]:
        """The decisions that a page has for it; a call may take fewer."""
        known = {kind.value: taken for kind, taken in ACCEPTED.items()}
        return [CHOICES[one.value] for one in known.get(self.name, (DecisionKind.DENY, DecisionKind.FAIL))]

    def takes(self, choice: str) -> bool:
        """Whether a page has a decision of this name for it."""
        return any(one.name == choice for one in self.choices)


_ALL = (
    Kind(SuspensionKind.APPROVAL, "Approval", of_element=(APPROVE, DENY)),
    Kind(
        SuspensionKind.ELICITATION,
        "Question",
        "Your answer is the result that the agent reads. Nothing else runs.",
        of_element=(ANSWER, DENY),
    ),
    Kind(
        SuspensionKind.CLIENT_EXEC,
        "For the user's device",
        "The user's device is to produce this result. If it is gone, give the result, or mark it as failed.",
        machine=True,
    ),
    Kind(
        SuspensionKind.REVIEW,
        "Review",
        "The tool asks before it goes on. Allow lets it go on, and Block does not; Send back asks the agent to revise it as "
        "your notes say, and it may ask again.",
        of_element=(REVIEW, ANSWER),
    ),
    Kind(
        SuspensionKind.LOST,
        "Lost run",
        "The tool's run was cut off, and nobody knows whether it took effect: look where it would have. If it runs again, it "
        "may take effect twice, unless it uses its idempotency key.",
        machine=True,
    ),
    Kind(
        SuspensionKind.LIMIT,
        "Limit",
        "The turn has reached a bound of its agent. If approved, it goes on for as much again, and no longer. If denied, it "
        "ends with what the agent has said so far.",
        why="Why it ends, for the log",
        of_element=(APPROVE, DENY),
    ),
)
KINDS: Mapping[str, Kind] = {kind.name: kind for kind in _ALL}
UNREADABLE = Kind("unreadable", "Unreadable", "Not all of this call can be read here.")


def kind_of(call: PendingCall[Any]) -> Kind:
    """The kind of a pending call; one of a newer Holdfast is unreadable here."""
    return UNREADABLE if call.kind is None else KINDS.get(call.kind.value, UNREADABLE)


def asked_in(call: PendingCall[Any]) -> str:
    """The question of a call, in the words of its tool or of the model, for a headline; empty if it has none."""
    if call.questions:
        more = len(call.questions) - 1
        return call.questions[0].text + (f" (and {more} more)" if more else "")
    return call.title or call.prompt or ""


def offered(call: PendingCall[Any]) -> frozenset[str]:
    """What a page offers for a call: the names of decisions, and `EDIT`.

    These are the decisions that the call takes. If the call cannot be read whole, none that lets it go on is offered.
    """
    kind = kind_of(call)
    if kind is UNREADABLE:
        return frozenset(one.name for one in kind.choices)
    found = {name for name in call.decisions if kind.takes(name) or (name == EDIT and kind.takes(APPROVE.name))}
    if call.problem is not None:
        found -= {EDIT, REVIEW.name, *(one.name for one in kind.choices if one.runs)}
    return frozenset(found)


def shared(calls: Sequence[PendingCall[Any]]) -> list[Choice]:
    """The decisions that all of these calls take, without input that differs from call to call."""
    takes = [offered(call) for call in calls]
    found = frozenset.intersection(*takes) if takes else frozenset[str]()
    return [choice for choice in CHOICES.values() if choice.made is not None and choice.name in found]


def takes_scope(call: PendingCall[Any]) -> bool:
    """Whether an approval of a call may allow later calls, too; none lets a turn go on."""
    return APPROVE.name in offered(call) and kind_of(call).name != SuspensionKind.LIMIT


def opens_edited(call: PendingCall[Any]) -> bool:
    """Whether a call's arguments are edited from the start: its tool only runs with edited ones, and takes no answer."""
    found = offered(call)
    return EDIT in found and APPROVE.name not in found and ANSWER.name not in found


def effect_of(call: PendingCall[Any]) -> str:
    """The effect of the decisions that are offered for a call."""
    kind = kind_of(call)
    if call.claimed is not None:
        return "A client runs it. Its result is what the agent reads; if it is cancelled here, the client is told."
    if kind.name != SuspensionKind.APPROVAL:
        return kind.effect
    found, client = offered(call), call.executor is Executor.CLIENT
    said = []
    if APPROVE.name in found:
        does = "the user's device may run this" if client else "the tool runs once, with these arguments"
        said.append(f"If approved, {does}.")
    elif EDIT in found:
        said.append("It runs only with arguments that you have looked through and confirmed.")
    if DENY.name in found:
        said.append("If denied, it does not run, and the agent reads why.")
    if ANSWER.name in found:
        said.append("If answered, it does not run either: your answer is the result that the agent reads.")
    return " ".join(said) or "It cannot be let through from here."
