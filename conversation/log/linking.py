"""What a link about a pending call says: whom it may be made for, and which decisions it makes."""

from collections.abc import Sequence
from dataclasses import replace

from holdfast.conversation.records.calls import PendingView
from holdfast.conversation.terms.decisions import DecisionKind
from holdfast.conversation.terms.link import SHOWN_CHARS, LinkTerms
from holdfast.conversation.terms.principal import Principal, Proof
from holdfast.errors import InvalidInput, InvalidLink, LinkProblem

_OFFERED = tuple(kind for kind in DecisionKind if kind not in (DecisionKind.CANCEL, DecisionKind.FAIL))


def link_terms(
    call: PendingView, shown: str, to: Principal, decisions: Sequence[DecisionKind] | None, *, expires_at: int, nonce: str
) -> LinkTerms:
    """The terms of a link to a call, whose suspension has shown what has this digest.

    Without `decisions`, the link makes those that the call takes but to cancel or fail it.

    Raises:
        InvalidLink: The principal may not decide the call.
        InvalidInput: The call takes no such decision.
    """
    who = replace(to, proof=Proof.LINK)
    if call.approvers is not None and (why := call.approvers.problem(who, call.requester)) is not None:
        raise InvalidLink(LinkProblem.NOT_PERMITTED, why)
    kinds = [kind for kind in _OFFERED if kind in call.decisions] if decisions is None else decisions
    missing = [kind for kind in kinds if kind not in call.decisions]
    if missing or not kinds:
        problem = f"the call takes no {missing[0]}" if missing else "the call takes only other decisions"
        raise InvalidInput("decisions", problem, f"give some of {', '.join(one for one in call.decisions if one != 'edit')}")
    offered = tuple(dict.fromkeys(kinds))
    return LinkTerms(call.conversation_id, call.suspension_id, shown[:SHOWN_CHARS], who, offered, expires_at, nonce)
