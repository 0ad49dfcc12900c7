"""The decisions that pages offer: the text of a button, the text afterwards, and the decision itself."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from holdfast.conversation import Approve, Cancel, Decision, Deny, Fail, Redispatch, ReviewVerdict

MOST_AT_ONCE = 100


@dataclass(frozen=True, slots=True)
class Choice:
    """A decision that a person may make.

    Attributes:
        name: Its name in the form, as in the API.
        says: The text of its button.
        done: The text shown afterwards.
        tone: `good`, `bad` or `plain`.
        made: Makes the decision from a reason, if it needs nothing else: then several calls may be decided so at once.
        runs: Whether the call may run after it: then the whole call must have been shown.
        read: Who reads the reason of several calls that are decided so at once: `agents`, or `log`.
    """

    name: str
    says: str
    done: str
    tone: str = "plain"
    made: Callable[[str], Decision] | None = None
    runs: bool = False
    read: str = "agents"


APPROVE = Choice("approve", "Approve", "approved", "good", lambda reason: Approve(reason=reason), runs=True, read="log")
DENY = Choice("deny", "Deny", "denied", "bad", Deny)
ANSWER = Choice("answer", "Send the answer", "answered", "good")
REVIEW = Choice("review", "Send the verdict", "reviewed", "good")
FAIL = Choice("fail", "Mark as failed", "marked as failed", "bad", Fail)
REDISPATCH = Choice(
    "redispatch", "Run it again", "sent to run again", made=lambda reason: Redispatch(reason=reason), runs=True, read="log"
)
CANCEL = Choice("cancel", "Cancel the call", "cancelled", made=Cancel)
CHOICES: Mapping[str, Choice] = {one.name: one for one in (APPROVE, DENY, ANSWER, REVIEW, FAIL, REDISPATCH, CANCEL)}


VERDICTS: Mapping[str, Choice] = {
    ReviewVerdict.ALLOW: Choice(ReviewVerdict.ALLOW, "Allow", "allowed", "good"),
    ReviewVerdict.BLOCK: Choice(ReviewVerdict.BLOCK, "Block", "blocked", "bad"),
    ReviewVerdict.REVISE: Choice(ReviewVerdict.REVISE, "Send back", "sent back"),
}


_OTHERS = {
    "expiry": "given up: its deadline passed",
    "cancellation": "cancelled",
    "grant": "allowed by a grant",
    "unattended": "decided automatically: nobody attends the conversation",
    "edit": "asked anew, with edited arguments",
}


def settled_as(by: str | None, said: Any = None) -> str:
    """How a call was settled, as text for people.

    `by` is the name of a decision, or of another `SettledBy`; None if unknown. `said` is the content of the decision, if known,
    with a review's verdict.
    """
    verdict = said.get("verdict") if by == REVIEW.name and isinstance(said, dict) else None
    if isinstance(verdict, str) and verdict in VERDICTS:
        return VERDICTS[verdict].done
    if by is not None and by in CHOICES:
        return CHOICES[by].done
    return _OTHERS.get(by or "", "settled")


def words_of(by: str | None, said: Any) -> Any:
    """The content of a decision beyond its kind and verdict, for people to read: of a review, its notes."""
    if by == REVIEW.name and isinstance(said, dict):
        return said.get("notes", "")
    return said
