"""The decision status of a call in the lists: its approvers, votes, assignee and comments."""

from typing import Any

from holdfast.client.results import PendingCall
from holdfast.conversation import Receipt
from holdfast.conversation.terms.approvers import said

from .display import clean, clean_block

MOST_COMMENTS = 5
"""The most recent comments in the list of pending calls; `holdfast show` has all of them."""


def lines_of(call: PendingCall[Any], *, comments: int | None = None) -> list[str]:
    """The lines about a call's approvers, votes, assignee and comments; empty if anybody may decide and nobody wrote.

    `comments` is how many of the last comments are shown; None: all.
    """
    found = []
    terms = call.approvers
    if terms is not None:
        found.append(f"may be decided by {clean(said(terms.who, terms.minimum, not_requester=terms.not_requester))}")
        if terms.not_requester:
            asker = "nobody said who asked, so nobody may" if call.requester is None else f"{clean(call.requester.id)} asked"
            found[-1] += f" ({asker})"
        if not terms.stated:
            found.append("whoever decides it proves who they are: --url with a key or a token in HOLDFAST_TOKEN")
        if terms.minimum > 1:
            found.append(agreed(len(call.votes), terms.minimum, ", ".join(clean(vote.by.id) for vote in call.votes)))
    if call.assigned:
        found.append(f"taken on by {clean(call.assigned)}")
    shown = call.comments if comments is None else call.comments[-comments:]
    if left_out := len(call.comments) - len(shown):
        found.append(f"{left_out} earlier comments are not shown")
    for one in shown:
        author = "somebody" if one.by is None else clean(one.by.id)
        text = clean_block(one.text) if comments is None else clean(one.text)
        found.append(f"{author}: {text}")
    return found


def agreed(votes: int, needed: int, who: str = "") -> str:
    """The number of votes, and the voters."""
    return f"{votes} of {needed} people {'has' if votes == 1 else 'have'} agreed{': ' if who else ''}{who}"


def outcome(receipt: Receipt) -> str:
    """The votes in a receipt; empty if one vote is enough."""
    if not receipt.needed or receipt.settled:
        return ""
    return f"{agreed(receipt.votes, receipt.needed)}: the call still waits"
