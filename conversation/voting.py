"""Who may decide a suspended call, and counting the votes of a call that several people have to agree to."""

from holdfast.errors import AlreadyVoted, InvalidDecision, NotPermitted

from .approvers import is_same
from .calls import Call
from .commands import Resolve, ResolveMany
from .decisions import DecisionKind, Review, ReviewVerdict, Ruling
from .events import MessageAccepted
from .ids import payload_digest
from .principal import Principal
from .state import State

MOST_EDITS = 8
"""How often the arguments of a call that several have to agree to may be edited: all are asked anew each time."""
_YES = frozenset({DecisionKind.APPROVE, DecisionKind.ANSWER, DecisionKind.REDISPATCH})


def check_permitted(state: State, command: Resolve | ResolveMany, call: Call) -> None:
    """Refuse a decision of somebody who may not decide this call.

    Raises:
        NotPermitted: The call's terms leave the decision to others.
    """
    why = None if call.deciders is None else call.deciders.problem(command.principal, _requester(state, command))
    if why is not None:
        raise NotPermitted(state.conversation_id, call.tool_call_id, why)


def check_vote(state: State, command: Resolve | ResolveMany, call: Call, ruling: Ruling) -> None:
    """Refuse a decision, which fits otherwise, that does not go with the votes of others.

    Raises:
        AlreadyVoted: The same person has agreed already.
        InvalidDecision: The decision does not go with a call that several have to agree to.
    """
    terms, suspension = call.deciders, call.suspension
    if terms is None or suspension is None:
        return
    if ruling.scope is not None and not terms.grantable:
        problem = "several have to agree to this call" if terms.minimum > 1 else "it matters who asks for this call"
        raise InvalidDecision("decision.scope", f"{problem} each time", "approve this call alone")
    if command.principal is None or not is_yes(ruling):
        return
    principal = command.principal
    edits = is_edit(ruling, terms.minimum)
    if edits and call.suspensions > MOST_EDITS:
        problem = f"its arguments were edited {MOST_EDITS} times"
        raise InvalidDecision("decision.arguments", problem, "approve the call as it is, or deny it")
    if not edits and any(is_same(vote.by, principal.id) for vote in suspension.votes):
        raise AlreadyVoted(state.conversation_id, call.tool_call_id, principal.id, len(suspension.votes), terms.minimum)
    on = what(ruling)
    if not edits and any(vote.on != on for vote in suspension.votes):
        problem = "others have agreed to another answer"
        raise InvalidDecision("decision.value", problem, "give the same answer, or deny or cancel the call")


def is_yes(ruling: Ruling) -> bool:
    """Whether a decision lets the call go on, or is its result: a vote, where several have to agree. A no settles at once."""
    decision = ruling.decision
    return decision.verdict is ReviewVerdict.ALLOW if isinstance(decision, Review) else ruling.kind in _YES


def is_edit(ruling: Ruling, needed: int) -> bool:
    """Whether a decision changes what several have to agree to."""
    return needed > 1 and ruling.kind is DecisionKind.APPROVE and ruling.body is not None


def what(ruling: Ruling) -> str:
    """What a vote is for, in short: of a review the verdict, without its notes."""
    decision = ruling.decision
    said = str(decision.verdict) if isinstance(decision, Review) else ruling.body
    return payload_digest("vote", ruling.kind, said or "")[:16]


def _requester(state: State, command: Resolve | ResolveMany) -> Principal | None:
    message = command.read.get(state.turn.message_seq) if state.turn is not None else None
    return message.principal if isinstance(message, MessageAccepted) else None
