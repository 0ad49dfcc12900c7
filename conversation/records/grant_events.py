"""The events about grants: they are given and revoked, as are votes on calls that wait."""

from typing import Literal

from holdfast.conversation.record import Record
from holdfast.conversation.terms.grants import Grant
from holdfast.conversation.terms.principal import Principal, Proof

from .event_base import ChainLink


class GrantGiven(ChainLink):
    """An approver lets more than the approved call run without asking.

    Attributes:
        grant: The grant; its `seq` is that of the decision that gave it.
    """

    kind: Literal["grant_given"] = "grant_given"
    grant: Grant


class GrantRevoked(ChainLink):
    """A grant was ended before its time.

    Attributes:
        grant_id: The grant.
        request_id: The revocation's idempotency key.
        reason: The reason of the revocation.
        principal: Who revoked it, and how that was proven; None if unknown.
    """

    kind: Literal["grant_revoked"] = "grant_revoked"
    grant_id: str
    request_id: str
    reason: str = ""
    principal: Principal | None = None


class WithdrawnVote(Record):
    """A vote that no longer counts: its suspension, and the `seq` of earlier votes, assignments and comments there."""

    suspension_id: str
    noted: tuple[int, ...] = ()


class GivenRevoked(ChainLink):
    """The grants and open votes of one principal were ended.

    Attributes:
        by: The id of the principal who had given them.
        proof: How that principal had been proven; None: in any way.
        grants: The grants that were ended.
        votes: The votes that were withdrawn.
        request_id: The revocation's idempotency key; None if Holdfast ended them, since their giver may no longer decide a call
            that was about to run.
        reason: The reason of the revocation.
        principal: Who revoked them, and how that was proven; None if unknown.
    """

    kind: Literal["given_revoked"] = "given_revoked"
    by: str
    proof: Proof | None = None
    grants: tuple[str, ...] = ()
    votes: tuple[WithdrawnVote, ...] = ()
    request_id: str | None = None
    reason: str = ""
    principal: Principal | None = None
