"""What stands in conversations that people have given beyond one decision: grants, and votes in calls that still wait."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.conversation import Grant, Proof
from holdfast.conversation.approvers import gave
from holdfast.errors import HoldfastError, StoreUnavailable
from holdfast.persistence import ConversationRow, Store

from .results import Page


@dataclass(frozen=True, slots=True)
class GivenVote:
    """A vote that stands in a call that waits.

    Attributes:
        suspension_id: What the call waits for.
        tool_call_id: The call.
        by: The id of whoever voted.
        proof: How that was proven.
    """

    suspension_id: str
    tool_call_id: str
    by: str
    proof: Proof


@dataclass(frozen=True, slots=True)
class Given:
    """What stands in one conversation.

    Attributes:
        conversation_id: The conversation.
        agent: Its agent.
        grants: The grants that stand, in the order in which they were given.
        votes: The votes that stand.
        problem: Why the conversation cannot be read; None where it can.
    """

    conversation_id: str
    agent: str
    grants: Sequence[Grant] = ()
    votes: Sequence[GivenVote] = ()
    problem: str | None = None


async def given_page(store: Store, by: str | None, proof: Proof | None, *, limit: int, after: str | None) -> Page[Given]:
    """A page of what stands; conversations in which the principal has given nothing are left out of it."""
    page, now = await asyncio.gather(store.conversations(limit=limit, after=after, given=True), store.now())
    found = [await _of(store, row, by, proof, now) for row in page.items]
    return Page([one for one in found if one.grants or one.votes or one.problem is not None], page.next)


async def _of(store: Store, row: ConversationRow, by: str | None, proof: Proof | None, now: int) -> Given:
    if row.problem is not None:
        return Given(row.conversation_id, row.agent, problem=row.problem)
    try:
        state = await store.load(row.conversation_id)
    except StoreUnavailable:
        raise
    except HoldfastError as error:  # it hides no other
        return Given(row.conversation_id, row.agent, problem=str(error))

    def counts(giver: str, proven: Proof) -> bool:
        return proof in (None, proven) if by is None else gave(giver, proven, by, proof)

    grants = [one for one in state.grants if one.by is not None and one.stands(now) and counts(one.by.id, one.by.proof)]
    votes = [
        GivenVote(call.suspension.suspension_id, call.tool_call_id, vote.by, vote.proof)
        for call in state.calls.awaiting()
        if call.suspension is not None
        for vote in call.suspension.votes
        if counts(vote.by, vote.proof)
    ]
    return Given(row.conversation_id, row.agent, grants, votes)
