"""What people have given in conversations and what still stands: grants, and votes on calls that wait."""

import asyncio

from pydantic import Field

from holdfast.conversation import Grant, Proof
from holdfast.conversation.terms.approvers import gave
from holdfast.errors import HoldfastError, StoreUnavailable
from holdfast.persistence import ConversationRow, Store

from .results import Page, Result


class GivenVote(Result):
    """A vote on a call that waits."""

    suspension_id: str
    tool_call_id: str
    by: str = Field(description="The voter's id.")
    proof: Proof = Field(description="How the voter was proven.")


class Given(Result):
    """The grants and votes that people have given in one conversation and that still stand."""

    conversation_id: str
    agent: str
    grants: list[Grant] = Field(default_factory=list, description="The grants that stand, in the order of their giving.")
    votes: list[GivenVote] = Field(default_factory=list, description="The votes that stand.")
    problem: str | None = Field(default=None, description="Why the conversation cannot be read; None if it can.")


async def given_page(store: Store, by: str | None, proof: Proof | None, *, limit: int, after: str | None) -> Page[Given]:
    """A page of conversations with what was given there; those without anything from this principal are left out."""
    page, now = await asyncio.gather(store.conversations(limit=limit, after=after, given=True), store.now())
    found = [await _of(store, row, by, proof, now) for row in page.items]
    return Page(items=[one for one in found if one.grants or one.votes or one.problem is not None], next=page.next)


async def _of(store: Store, row: ConversationRow, by: str | None, proof: Proof | None, now: int) -> Given:
    if row.problem is not None:
        return Given(conversation_id=row.conversation_id, agent=row.agent, problem=row.problem)
    try:
        state = await store.load(row.conversation_id)
    except StoreUnavailable:
        raise
    except HoldfastError as error:  # an unreadable conversation hides no other
        return Given(conversation_id=row.conversation_id, agent=row.agent, problem=str(error))

    def counts(giver: str, proven: Proof) -> bool:
        return proof in (None, proven) if by is None else gave(giver, proven, by, proof)

    grants = [one for one in state.grants if one.by is not None and one.is_active(now) and counts(one.by.id, one.by.proof)]
    votes = [
        GivenVote(suspension_id=call.suspension.suspension_id, tool_call_id=call.tool_call_id, by=vote.by, proof=vote.proof)
        for call in state.calls.awaiting()
        if call.suspension is not None
        for vote in call.suspension.votes
        if counts(vote.by, vote.proof)
    ]
    return Given(conversation_id=row.conversation_id, agent=row.agent, grants=grants, votes=votes)


async def grants_of(store: Store, conversation_id: str) -> list[Grant]:
    """The grants that stand in one conversation; none once it has ended."""
    state, now = await asyncio.gather(store.load(conversation_id), store.now())  # in one round trip
    return [] if state.ended else [grant for grant in state.grants if grant.is_active(now)]
