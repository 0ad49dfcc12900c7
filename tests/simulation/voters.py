"""Who decides in the simulation: people with roles, of whom some may decide a call and some may not."""

import random

from holdfast.conversation import Approve, Principal
from holdfast.conversation.terms.approvers import Approvers
from holdfast.conversation.terms.principal import Proof
from holdfast.persistence import ApiKey

ANA = Principal("ana", roles=["finance"], proof=Proof.KEY)
BO = Principal("bo", roles=["finance"], proof=Proof.OIDC)
CY = Principal("cy", roles=["support"], proof=Proof.LINK)
ANA_SAYS_SO = Principal("ana", roles=["finance"])
ANAS_KEY = ApiKey(key_id="k-ana", name="ana", digest="", scopes=("decide",), roles=("finance",), created_at=0)
PEOPLE = (ANA, ANA, BO, BO, CY, ANA_SAYS_SO, None)


def approvers(arguments):
    """Who decides a call with these arguments: a long one takes two, a middling one somebody of a role."""
    match arguments.get("ms", 0):
        case 6000:
            return Approvers("role:finance", minimum=2)
        case 3000:
            return Approvers("role:finance")
        case _:
            return None


class Voters:
    """Draws who decides, apart from all other draws of a seed."""

    def __init__(self, seed):
        self._rng = random.Random(f"{seed}/voters")

    def one(self, view):
        """Who decides a call that is shown: mostly somebody who may."""
        if view is None or view.approvers is None or self._rng.random() < 0.2:
            return self._rng.choice(PEOPLE)
        return self._rng.choice((ANA, BO))

    def other(self, before):
        """Who decides next what somebody has voted on."""
        return self._rng.choice((BO, BO, ANA) if before is ANA else (ANA, ANA, BO))

    def edited(self, decision):
        """A decision; one that edits the arguments may have them for others to decide."""
        if decision != Approve({"ms": 10}) or self._rng.random() < 0.6:
            return decision
        return Approve({"ms": self._rng.choice((3000, 6000))})

    def goes_on(self):
        """Whether somebody else looks at once at what was voted on."""
        return self._rng.random() < 0.8

    def notes(self):
        """Whether somebody writes to the others, or takes a call on, before it is decided."""
        return self._rng.random() < 0.05
