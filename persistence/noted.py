"""Notes of approvers on a suspended call (votes, comments, assignments), as rows show them."""

from collections.abc import Sequence
from typing import Any

from holdfast.conversation import Event
from holdfast.conversation.records.calls import CommentView, VoteView
from holdfast.conversation.records.events import CallAssigned, CallCommented, GivenRevoked, VoteCast
from holdfast.conversation.terms.approvers import gave
from holdfast.conversation.text import jsontext
from holdfast.errors import StoreError


def earlier(last: "Event | StoreError | None", suspension_id: str) -> tuple[int, ...]:
    """The places of the notes on a suspension before its last note."""
    if isinstance(last, GivenRevoked):
        return next((vote.noted for vote in last.votes if vote.suspension_id == suspension_id), ())
    return last.noted if isinstance(last, VoteCast | CallAssigned | CallCommented) else ()


def shown(notes: Sequence["Event | StoreError | None"]) -> dict[str, Any]:
    """The fields of a `PendingView` made from notes, in the log's order; unreadable notes are left out."""
    votes = tuple(
        VoteView(by=one.principal, at=one.at, decision=one.decision, value=_value(one), reason=one.reason)
        for place, one in enumerate(notes)
        if isinstance(one, VoteCast) and not any(_withdraws(later, one) for later in notes[place:])
    )
    comments = tuple(CommentView(by=one.principal, at=one.at, text=one.text) for one in notes if isinstance(one, CallCommented))
    assigned = [one.to for one in notes if isinstance(one, CallAssigned)]
    return {"votes": votes, "comments": comments, "assigned": assigned[-1] if assigned else ""}


def _withdraws(later: "Event | StoreError | None", vote: VoteCast) -> bool:
    return isinstance(later, GivenRevoked) and gave(vote.principal.id, vote.principal.proof, later.by, later.proof)


def _value(vote: VoteCast) -> Any:
    try:
        return None if vote.body is None else jsontext.loads(vote.body)
    except jsontext.NotJson:
        return None
