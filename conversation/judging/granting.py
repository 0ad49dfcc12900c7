"""Giving and ending grants, which let calls run without asking for the rest of the conversation."""

from collections.abc import Sequence
from typing import Any

from holdfast.conversation.records.calls import Call, Suspension
from holdfast.conversation.records.commands import Revoke, RevokeGiven
from holdfast.conversation.records.events import GivenRevoked, GrantGiven, GrantRevoked, SettledBy, WithdrawnVote
from holdfast.conversation.records.state import State
from holdfast.conversation.terms.approvers import ApproverTerms, gave
from holdfast.conversation.terms.decisions import SuspensionKind
from holdfast.conversation.terms.grants import MOST_GRANTS, Grant, ScopeGiven
from holdfast.conversation.terms.principal import Proof
from holdfast.conversation.terms.rule_verdict import RuleEffect, RuleVerdict
from holdfast.errors import InvalidDecision, InvalidInput

from .judgement import Draft, Judgement, check_words
from .progress import advance, go_on, granted, settled

MAY_NOT = "the giver of the grant may no longer decide this call"
"""The recorded reason of a grant's end if a run by that grant was blocked."""
ENDED = RuleVerdict(effect=RuleEffect.ASK, reason="the grant by which it was to run has ended")
"""The verdict on a call that was to go on by grants that are no longer in force."""


def check_room(state: State, more: int, *, now: int) -> None:
    """Raise `InvalidDecision` if the conversation has no room for so many more grants."""
    standing = sum(grant.is_active(now) for grant in state.grants)
    if standing + more > MOST_GRANTS:
        problem = f"the conversation has {standing} grants, {MOST_GRANTS} are allowed"
        raise InvalidDecision("decision.scope", problem, "revoke some of them first, or approve this call alone")


def give(draft: Draft, scope: ScopeGiven, *, seq: int, terms: ApproverTerms | None) -> None:
    """Give the grant of the decision at `seq`. `release` follows once all decisions of a command are made."""
    grant = Grant.of(scope.scope, grant_id=f"g{seq}", at=draft.now, seq=seq, by=draft.principal, terms=terms)
    draft.emit(GrantGiven(at=draft.now, grant=grant))


def release(draft: Draft) -> None:
    """Settle the approvals that the grants in force cover; their calls go on."""
    for call in draft.state.calls.awaiting():
        by = granted(draft, call)
        if by is None or call.suspension is None or call.suspension.kind is not SuspensionKind.APPROVAL:
            continue
        settled(draft, call, SettledBy.GRANT, grants=by)
        resumed = call.resumed + (call.attempt > 0)
        changes = {"grants": by, "held_at": 0, "resumed": resumed, "suspension": None, "approvers": call.deciders}
        go_on(draft, call.model_copy(update=changes))


def in_force(draft: Draft, call: Call) -> bool:
    """Whether all grants by which a call is to go on are in force; true if it needs none."""
    return {grant.grant_id for grant in draft.state.grants if grant.is_active(draft.now)}.issuperset(call.grants)


def revoke(state: State, command: Revoke) -> Judgement:
    """End a grant."""
    check_words(command.reason, command.limits.note_bytes, "reason", InvalidInput)
    if all(grant.grant_id != command.grant_id for grant in state.grants):
        problem = f"{command.grant_id!r:.80} is no grant of this conversation, or has ended"
        raise InvalidInput("grant_id", problem, "list the grants in force: conversation.grants()")
    return _revoked(state, command, GrantRevoked(at=command.now, grant_id=command.grant_id, **_why(command)))


def _revoked(state: State, command: Revoke | RevokeGiven, event: GrantRevoked | GivenRevoked) -> Judgement:
    draft = Draft(state, command)
    seq = draft.emit(event)
    advance(draft)
    return draft.done(draft.receipt(seq))


def _why(command: Revoke | RevokeGiven) -> dict[str, Any]:
    return {"request_id": command.request_id, "reason": command.reason, "principal": command.principal}


def given(state: State, by: str, proof: Proof | None = None) -> tuple[list[Grant], list[Suspension]]:
    """The grants that `by`, proven by `proof` (None: in any way), gave, and the open suspensions with its vote."""
    grants = [one for one in state.grants if one.by is not None and gave(one.by.id, one.by.proof, by, proof)]
    waiting = [call.suspension for call in (() if state.ended else state.calls.awaiting()) if call.suspension is not None]
    return grants, [one for one in waiting if any(gave(vote.by, vote.proof, by, proof) for vote in one.votes)]


def revoke_given(state: State, command: RevokeGiven) -> Judgement:
    """End a principal's grants and withdraw its votes on pending calls."""
    check_words(command.reason, command.limits.note_bytes, "reason", InvalidInput)
    grants, voted = given(state, command.by, command.proof)
    if not grants and not voted:
        problem = f"{command.by!r:.80} has no grant and no open vote in this conversation"
        raise InvalidInput("by", problem, "list what it has given: client.given(by)")
    event = GivenRevoked(
        at=command.now,
        by=command.by,
        proof=command.proof,
        grants=tuple(grant.grant_id for grant in grants),
        votes=tuple(WithdrawnVote(suspension_id=one.suspension_id, noted=one.notes) for one in voted),
        **_why(command),
    )
    return _revoked(state, command, event)


def lapse(draft: Draft, grant_ids: Sequence[str]) -> None:
    """End these grants, whose givers may no longer decide the calls that they let run."""
    lapsed = [grant for grant in draft.state.grants if grant.grant_id in grant_ids and grant.by is not None]
    for by, proof in dict.fromkeys((grant.by.id, grant.by.proof) for grant in lapsed if grant.by is not None):
        mine = tuple(one.grant_id for one in lapsed if one.by is not None and (one.by.id, one.by.proof) == (by, proof))
        draft.emit(GivenRevoked(at=draft.now, by=by, proof=proof, grants=mine, reason=MAY_NOT))
