"""Giving and ending grants: what an approver lets run without asking for the rest of the conversation."""

from collections.abc import Sequence

from holdfast.errors import InvalidDecision, InvalidInput

from .approvers import ApproverTerms
from .calls import SuspensionKind
from .commands import Resolve, ResolveMany, Revoke
from .decisions import Ruling
from .events import GrantGiven, GrantRevoked, SettledBy, SuspensionSettled
from .grants import MOST_GRANTS, Grant, ScopeGiven
from .ids import check_request_id, payload_digest
from .judgement import Draft, Judgement, Receipt
from .progress import advance, go_on, granted, newly_traced
from .repeats import request_again
from .spec import AgentSpec
from .state import State
from .words import check_words


def check_room(state: State, rulings: Sequence[Ruling], *, now: int) -> None:
    """Refuse decisions with more scopes than the conversation may have grants.

    Raises:
        InvalidDecision: There are too many.
    """
    more = sum(ruling.scope is not None for ruling in rulings)
    standing = sum(grant.stands(now) for grant in state.grants)
    if more and standing + more > MOST_GRANTS:
        problem = f"the conversation has {standing} grants, {MOST_GRANTS} are allowed"
        raise InvalidDecision("decision.scope", problem, "revoke some of them first, or approve this call alone")


def give(
    draft: Draft, command: Resolve | ResolveMany, scope: ScopeGiven, *, seq: int, terms: ApproverTerms | None = None
) -> None:
    """Give the grant of a decision at `seq`; once all decisions of a command are made, `release` lets go of what it covers."""
    grant = Grant.of(scope.scope, grant_id=f"g{seq}", at=draft.now, seq=seq, by=command.principal, terms=terms)
    draft.emit(GrantGiven(at=draft.now, grant=grant))


def release(draft: Draft, rulings: Sequence[Ruling], spec: AgentSpec | None) -> None:
    """Settle the approvals that the grants in force cover, if these decisions have given any; their calls go on."""
    if all(ruling.scope is None for ruling in rulings):
        return
    for call in draft.state.calls.awaiting():
        by = granted(draft, call)
        if by is None or call.suspension is None or call.suspension.kind is not SuspensionKind.APPROVAL:
            continue
        draft.emit(
            SuspensionSettled(
                at=draft.now,
                tool_call_id=call.tool_call_id,
                suspension_id=call.suspension.suspension_id,
                by=SettledBy.GRANT,
                traceparent=newly_traced(draft),
                grants=by,
            )
        )
        resumed = call.resumed + (call.attempt > 0)
        changes = {"grants": by, "held_at": 0, "resumed": resumed, "suspension": None, "approvers": call.deciders}
        go_on(draft, call.model_copy(update=changes), spec)


def revoke(state: State, command: Revoke) -> Judgement:
    """End a grant.

    Raises:
        InvalidInput: The conversation has no such grant, the request id has not the form of one, or the reason cannot be used.
    """
    check_request_id("request_id", command.request_id, InvalidInput)
    check_words(command.reason, command.spec, "reason", InvalidInput)
    if all(grant.grant_id != command.grant_id for grant in state.grants):
        problem = f"{command.grant_id!r:.80} is no grant of this conversation, or has ended"
        raise InvalidInput("grant_id", problem, "look at the grants that stand (conversation.grants())")
    draft = Draft(state, command.now, command.trace)
    seq = draft.emit(
        GrantRevoked(
            at=command.now,
            grant_id=command.grant_id,
            request_id=command.request_id,
            reason=command.reason,
            principal=command.principal,
        )
    )
    advance(draft, command)
    head = draft.head_at(seq)
    return draft.done(Receipt(conversation_id=state.conversation_id, seq=seq, accepted_at=command.now, audit_head=head))


def duplicate(state: State, command: Revoke) -> Judgement | None:
    """The first receipt, if this very revocation was accepted before.

    Raises:
        InvalidInput: The request id was used for something else.
    """
    return request_again(state, command, payload_digest("revoke", command.grant_id, command.reason))
