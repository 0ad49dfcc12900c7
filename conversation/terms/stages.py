"""Deadlines that act: what follows when nobody decides a call in time. Others are asked, and in the end a default decides."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field

from holdfast.conversation.record import Record
from holdfast.conversation.text.jsontext import JsonText

from .approvers import Approvers, ApproverTerms

LONGEST_S = 10 * 366 * 86400
Seconds = Annotated[float, Field(gt=0, le=LONGEST_S, allow_inf_nan=False)]
"""A time bound in seconds: more than 0, at most ten years."""
MOST_STAGES = 8
"""How many escalations may follow each other."""
MOST_REMINDERS = 16
"""How many reminders a stage may have."""
MOST_BYTES = 4096
"""The longest default, in bytes of its JSON text."""


@dataclass(frozen=True, slots=True)
class Escalate:
    """When the deadline passes, others decide, and have more time. `Approve` never follows: nobody would have decided.

    Args:
        to: Who decides then: `Approvers`, or a list of roles and ids (`role:cfo`). Earlier approvers may not any more.
        for_s: How long they have, in seconds.
        then: What follows after that: `"error"`, `Deny(reason)`, `Answer(value)` or another `Escalate`; at most 8 in all.
    """

    to: Approvers | Sequence[str]
    for_s: float
    then: Any = "error"


class Stage(Record):
    """One escalation: who decides from then on, and for how many seconds."""

    approvers: ApproverTerms
    for_s: Seconds


class Default(Record):
    """What decides in the end: a denial, or an answer; `value` is the reason or the answer, as JSON text."""

    kind: Literal["deny", "answer"]
    value: JsonText


class OnTimeout(Record):
    """What follows when the deadline of a call passes: its `stages` in turn, then the `default`; None: an error.

    `reminders_s` are the seconds before the end of each stage at which its approvers are reminded.
    """

    stages: Annotated[tuple[Stage, ...], Field(max_length=MOST_STAGES)] = ()
    default: Default | None = None
    reminders_s: Annotated[tuple[Seconds, ...], Field(max_length=MOST_REMINDERS)] = ()

    def remind_at(self, now: int, expires_at: int) -> int:
        """The next reminder after `now` in a stage that ends at `expires_at` (ms UTC); 0 if there is none."""
        moments = (expires_at - round(seconds * 1000) for seconds in self.reminders_s)
        return min((moment for moment in moments if moment > now), default=0)


NOTHING = OnTimeout()
