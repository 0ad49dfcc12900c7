"""What those who may decide a suspended call have told each other, as rows show it."""

from collections.abc import Sequence
from typing import Any

from holdfast.conversation import Event, jsontext
from holdfast.conversation.calls import CommentView, VoteView
from holdfast.conversation.events import CallAssigned, CallCommented, VoteCast
from holdfast.errors import StoreError

Note = VoteCast | CallAssigned | CallCommented


def earlier(last: "Event | StoreError | None") -> tuple[int, ...]:
    """The places of the notes before the last one."""
    return last.noted if isinstance(last, Note) else ()


def shown(notes: Sequence["Event | StoreError | None"]) -> dict[str, Any]:
    """The fields of a `PendingView` that notes fill, from their entries in the log's order; what cannot be read is left out."""
    votes = tuple(
        VoteView(by=one.principal, at=one.at, decision=one.decision, value=_value(one), reason=one.reason)
        for one in notes
        if isinstance(one, VoteCast)
    )
    comments = tuple(CommentView(by=one.principal, at=one.at, text=one.text) for one in notes if isinstance(one, CallCommented))
    assigned = [one.to for one in notes if isinstance(one, CallAssigned)]
    return {"votes": votes, "comments": comments, "assigned": assigned[-1] if assigned else ""}


def _value(vote: VoteCast) -> Any:
    try:
        return None if vote.body is None else jsontext.loads(vote.body)
    except jsontext.NotJson:
        return None
