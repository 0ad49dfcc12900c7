"""Who may decide a suspended call, and the votes of a call that several people must approve."""

from holdfast.conversation.records.calls import Call
from holdfast.conversation.records.events import MessageAccepted, VoteCast
from holdfast.conversation.terms.approvers import is_same
from holdfast.errors import AlreadyVoted, InvalidDecision, NotPermitted

from .fitting import Fitted
from .judgement import Draft

MOST_EDITS = 8
"""How often the arguments of a call with several approvers may be edited: each edit asks all of them again."""


def check_permitted(draft: Draft, call: Call) -> None:
    """Refuse (`NotPermitted`) a decision by a person who may not decide this call."""
    state, command = draft.state, draft.command
    message = command.read.get(state.turn.message_seq) if state.turn is not None else None
    requester = message.principal if isinstance(message, MessageAccepted) else None
    why = None if call.deciders is None else call.deciders.problem(draft.principal, requester)
    if why is not None:
        raise NotPermitted(state.conversation_id, call.tool_call_id, why)


def check_vote(draft: Draft, fitted: Fitted) -> None:
    """Refuse a fitting decision that conflicts with votes: a person's second one, another answer, a scope, too many edits."""
    call, votes, terms = fitted.call, fitted.suspension.votes, fitted.call.deciders
    if terms is None:
        return
    if fitted.ruling.scope is not None and not terms.grantable:
        problem = "several have to agree to this call" if terms.minimum > 1 else "it matters who asks for this call"
        raise InvalidDecision("decision.scope", f"{problem} each time", "approve this call alone")
    principal = draft.principal
    if principal is None or not fitted.is_yes:
        return
    if fitted.is_edit:
        if call.suspensions > MOST_EDITS:
            problem = f"its arguments were edited {MOST_EDITS} times"
            raise InvalidDecision("decision.arguments", problem, "approve the call as it is, or deny it")
        return
    if any(is_same(vote.by, principal.id) for vote in votes):
        raise AlreadyVoted(draft.state.conversation_id, call.tool_call_id, principal.id, len(votes), terms.minimum)
    on = fitted.on
    if any(vote.on != on for vote in votes):
        problem = "others have agreed to another answer"
        raise InvalidDecision("decision.value", problem, "give the same answer, or deny or cancel the call")


def cast(draft: Draft, fitted: Fitted, votes: int) -> int:
    """Count a decision as a vote, the `votes`-th; returns its event's `seq`."""
    call, ruling = fitted.call, fitted.ruling
    if draft.principal is None:
        raise ValueError(f"a vote of nobody on call {call.tool_call_id!r}")
    return draft.emit(
        VoteCast(
            at=draft.now,
            tool_call_id=call.tool_call_id,
            suspension_id=fitted.suspension.suspension_id,
            decision=ruling.kind,
            body=ruling.body,
            decision_id=fitted.decision_id,
            digest=fitted.digest,
            principal=draft.principal,
            on=fitted.on,
            reason=ruling.reason,
            votes=votes,
            needed=call.needed,
            noted=fitted.suspension.notes,
        )
    )
