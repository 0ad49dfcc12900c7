"""The kinds of what waits: how a page shows each, which decisions it takes, and how they are read from its form.

A kind that is to come adds an entry here and a template `kind_<name>.html`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.client import Answer, Approve, Decision, Deny, Fail, PendingCall, Redispatch
from holdfast.conversation import Executor, SuspensionKind, jsontext
from holdfast.conversation.schema import problem
from holdfast.server.refusal import Refusal

from .fields import ABSENT, FieldKind, Fields
from .form_body import Form


@dataclass(frozen=True, slots=True)
class Choice:
    """A decision that a person may take.

    Attributes:
        name: Its name in the form, as in the API.
        says: What its button says.
        done: What is said of it afterwards.
        tone: `good`, `bad` or `plain`.
        made: Makes the decision from a reason, if it needs nothing else: then several calls may be decided so at once.
    """

    name: str
    says: str
    done: str
    tone: str = "plain"
    made: Callable[[str], Decision] | None = None


APPROVE = Choice("approve", "Approve", "approved", "good", lambda _: Approve())
DENY = Choice("deny", "Deny", "denied", "bad", Deny)
ANSWER = Choice("answer", "Send the answer", "answered", "good")
FAIL = Choice("fail", "Mark as failed", "marked as failed", "bad", Fail)
REDISPATCH = Choice("redispatch", "Run it again", "sent to run again", made=lambda _: Redispatch())
CHOICES: Mapping[str, Choice] = {one.name: one for one in (APPROVE, DENY, ANSWER, FAIL, REDISPATCH)}


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of what waits.

    Attributes:
        name: Its name, as in the API; also the end of its template's name.
        label: What a person reads.
        choices: The decisions that it takes.
        effects: What follows from a decision, by who produces the call's result; None stands for all others.
        machine: Whether an answer stands in for what a program would have said, so that an empty one is hardly meant.
    """

    name: str
    label: str
    choices: Sequence[Choice]
    effects: Mapping[Executor | None, str]
    machine: bool = False

    @property
    def template(self) -> str:
        """The template of its form."""
        return f"kind_{self.name}.html"

    def effect(self, executor: Executor | None) -> str:
        """What follows from a decision."""
        return self.effects.get(executor, self.effects[None])

    def takes(self, choice: str) -> bool:
        """Whether it takes a decision of this name."""
        return any(one.name == choice for one in self.choices)


_ALL = (
    Kind(
        SuspensionKind.APPROVAL,
        "Approval",
        (APPROVE, DENY),
        {
            None: "Approved, the tool runs once, with these arguments. Denied, it does not run, and the agent reads why.",
            Executor.CLIENT: "Approved, the user's own device may run this. Denied, it may not, and the agent reads why.",
        },
    ),
    Kind(
        SuspensionKind.ELICITATION,
        "Question",
        (ANSWER, DENY),
        {None: "Your answer is the result that the agent reads. Nothing else runs."},
    ),
    Kind(
        SuspensionKind.CLIENT_EXEC,
        "For the user's device",
        (ANSWER, FAIL),
        {None: "The user's own device is to produce this result. If it is gone, give the result, or mark it as failed."},
        machine=True,
    ),
    Kind(
        SuspensionKind.LOST,
        "Lost run",
        (REDISPATCH, ANSWER, FAIL),
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


@dataclass(slots=True)
class Filled:
    """A decision as a person filled it in, to be shown again where it has a problem.

    Attributes:
        choice: The decision's name.
        arguments: The fields of edited arguments, where these are edited.
        answer: The fields of an answer, where the kind takes one.
        reason: The reason of a denial, or the error of a failure.
        problem: What is wrong with it as a whole.
    """

    choice: str = ""
    arguments: Fields | None = None
    answer: Fields | None = None
    reason: str = ""
    problem: str = ""


def blank(call: PendingCall[Any], parameters: Any, *, edited: bool) -> Filled:
    """The empty form of a call.

    Args:
        call: The call.
        parameters: The schema of the tool's arguments; True where it is not known.
        edited: Whether its arguments are edited.
    """
    kind = kind_of(call)
    return Filled(
        arguments=Fields.of(parameters, call.arguments, label="Arguments") if edited and kind.takes("approve") else None,
        answer=Fields.of(call.response_schema) if kind.takes("answer") else None,
    )


def read(call: PendingCall[Any], parameters: Any, form: Form) -> tuple[Filled, Decision | None]:
    """What a form says of a call, and the decision, if it makes one.

    A form that was drawn with other fields, of another version of the app, makes none.

    Raises:
        Refusal: The form names no decision of this kind.
    """
    kind, choice = kind_of(call), form.get("decision")
    if not kind.takes(choice) and choice != "compare":
        raise Refusal(422, "invalid_request", f"{kind.label} takes no decision {choice!r:.40}", {"errors": []})
    filled = blank(call, parameters, edited="edited" in form)
    filled.choice, filled.reason = choice, form.get("reason")
    fields = filled.answer if choice == "answer" else filled.arguments
    if fields is not None:
        if not fields.fits(form):
            filled.problem = "What may be filled in has changed since this form was drawn: look at it again."
            return filled, None
        fields.filled(form)
    return filled, _decision(call, parameters, filled)


def _decision(call: PendingCall[Any], parameters: Any, filled: Filled) -> Decision | None:
    match filled.choice:
        case "compare" | "approve" if filled.choice == "compare" or filled.arguments is not None:
            arguments = _fitting(filled, filled.arguments, parameters)
            return Approve(arguments) if isinstance(arguments, dict) and filled.choice == "approve" else None
        case "fail" if not filled.reason.strip():
            filled.problem = "Say what went wrong: the agent reads it."
        case "answer" if filled.answer is not None and _is_empty(filled.answer) and kind_of(call).machine:
            filled.problem = 'Write the result. An empty text is one, too: mark it as JSON, and write "".'
        case "answer":
            value = _fitting(filled, filled.answer, call.response_schema)
            return None if value is ABSENT else Answer(value)
        case name:
            made = CHOICES[name].made
            return None if made is None else made(filled.reason)
    return None


def _is_empty(fields: Fields) -> bool:
    return fields.root.kind in (FieldKind.TEXT, FieldKind.LINES, FieldKind.ANY) and fields.root.text == ""


def _fitting(filled: Filled, fields: Fields | None, schema: Any) -> Any:
    """The value of the fields, if it fits its schema; else `ABSENT`, and the form says why."""
    value = ABSENT if fields is None else fields.value()
    if value is ABSENT:
        filled.problem = "Some fields cannot be taken as they are."
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
