"""The judgement of decisions: who may decide, whether the decision fits its suspension, and what follows for the call.

A command brings one decision, or several for one conversation: all of them are taken, or none.
"""

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from holdfast.conversation.ids import check_request_id, payload_digest
from holdfast.conversation.records.calls import Call, ClientClaim, Suspension
from holdfast.conversation.records.command_base import Request
from holdfast.conversation.records.commands import Decided, Resolve, ResolveMany, decision_digest
from holdfast.conversation.records.events import CallSuspended, MessageAccepted, ModelAnswered, SettledBy, VoteCast
from holdfast.conversation.records.idempotency import call_key, result_key, suspension_key
from holdfast.conversation.records.state import State
from holdfast.conversation.terms import questions
from holdfast.conversation.terms.approvers import is_same
from holdfast.conversation.terms.decisions import (
    GIVE_VERDICT,
    IN_WORDS,
    DecisionKind,
    DecisionRecord,
    ReviewVerdict,
    SuspensionKind,
    accepted,
)
from holdfast.conversation.terms.parts import client_result_of
from holdfast.conversation.terms.spec import Approval, Choice, Executor, Limits, ToolSpec
from holdfast.conversation.text import jsontext, schema
from holdfast.conversation.text.envelope import failure, reviewed, success
from holdfast.conversation.text.jsontext import JsonText
from holdfast.errors import AlreadyVoted, BatchRefused, HoldfastError, InvalidDecision, NotPermitted, StaleCall, StaleReason

from .cancelled import why_cancelled
from .granting import check_room, give, release
from .judgement import Draft, Judgement, Receipt, Receipts, check_words, drafted
from .progress import advance, ask_again, begin_again, finish, go_on, is_edited, settled, suspend

MOST = 1000
"""How many decisions one command may bring."""
MOST_BYTES = 4 << 20
"""How many bytes their bodies may have together: one append writes them all."""
MOST_EDITS = 8
"""How often the arguments of a call with several approvers may be edited: each edit asks all of them again."""
REVIEW_BYTES = 64
"""The most bytes that a review's JSON text has besides its notes."""
_YES = frozenset({DecisionKind.APPROVE, DecisionKind.ANSWER, DecisionKind.REDISPATCH})


@dataclass(frozen=True, slots=True)
class Fitted:
    """A decision that fits its suspension; `value` is its parsed body. An unattended agent's has no id and no digest."""

    call: Call
    suspension: Suspension
    ruling: DecisionRecord
    value: Any
    decision_id: str = ""
    digest: str = ""

    @property
    def is_yes(self) -> bool:
        """Whether it lets the call go on or gives its result. If several must agree, a yes is a vote; a no settles at once."""
        if self.ruling.kind is DecisionKind.REVIEW:
            return bool(self.value["verdict"] == ReviewVerdict.ALLOW)
        return self.ruling.kind in _YES

    @property
    def is_edit(self) -> bool:
        """Whether it edits the arguments of a call that several must approve."""
        return self.call.needed > 1 and self.ruling.kind is DecisionKind.APPROVE and self.ruling.body is not None

    @property
    def on(self) -> str:
        """A short digest of what a vote agrees to: the decision's kind and body, of a review the verdict without the notes."""
        said = self.value["verdict"] if self.ruling.kind is DecisionKind.REVIEW else self.ruling.body
        return payload_digest("vote", self.ruling.kind, said or "")[:16]

    def result(self, tool: ToolSpec) -> JsonText:
        """The JSON text of the result that an answer gives."""
        if tool.questions and self.suspension.kind is SuspensionKind.ELICITATION:
            return jsontext.dumps({"answers": self.value})
        return self.ruling.body or "null"


def resolve(state: State, command: Resolve) -> Judgement:
    """Settle exactly the suspension that the decision names, or count a vote if several people must agree."""
    check_request_id("decision_id", command.decision_id, InvalidDecision)
    draft = drafted(state, command)
    call, suspension = _named(state, command)
    (receipt,) = _settled(draft, [_judged(draft, command, call, suspension, command)])
    return draft.done(receipt)


def resolve_many(state: State, command: ResolveMany) -> Judgement:
    """Settle all suspensions that the decisions name, or raise `BatchRefused` with the error of each bad decision."""
    _check(command)
    draft = drafted(state, command)
    judged: list[Fitted] = []
    refused: dict[str, HoldfastError] = {}
    for one in command.decisions:
        try:
            found = state.calls.open_suspension(one.suspension_id)
            if found is None:
                raise stale(state, command, one.suspension_id)
            judged.append(_judged(draft, command, *found, one))
        except (StaleCall, InvalidDecision, NotPermitted, AlreadyVoted) as error:
            refused[one.suspension_id] = error
    if refused:
        raise BatchRefused(state.conversation_id, refused)
    return draft.done(Receipts(receipts=_settled(draft, judged)))


def _judged(draft: Draft, command: Request, call: Call, suspension: Suspension, sent: Resolve | Decided) -> Fitted:
    check_time(draft, call)
    check_permitted(draft, call)
    _check_claim(draft, command, call, suspension, sent.ruling.kind)
    digest = decision_digest(command, sent, call.needed)
    fitted = fit(draft, call, suspension, sent.ruling, decision_id=sent.decision_id, digest=digest)
    check_vote(draft, fitted)
    return fitted


def _settled(draft: Draft, judged: list[Fitted]) -> tuple[Receipt, ...]:
    scopes = sum(one.ruling.scope is not None for one in judged)
    if scopes:
        check_room(draft.state, scopes, now=draft.now)
    receipts = tuple(settle(draft, one) for one in judged)
    if scopes:
        release(draft)
    advance(draft)
    return receipts


def _check(command: ResolveMany) -> None:
    count = len(command.decisions)
    if not 1 <= count <= MOST:
        raise InvalidDecision("decisions", f"there are {count}", f"give 1 to {MOST}")
    if len({one.suspension_id for one in command.decisions}) < count:
        raise InvalidDecision("decisions", "two are for one suspension", "decide each suspension once")
    if len({one.decision_id for one in command.decisions}) < count:
        raise InvalidDecision("decision_id", "two decisions have the same", "give each its own")
    size = sum(jsontext.size_bytes(one.ruling.body or "") for one in command.decisions)
    if size > MOST_BYTES:
        raise InvalidDecision("decisions", f"they have {size} bytes, {MOST_BYTES} are allowed together", "decide fewer at once")
    for one in command.decisions:
        check_request_id("decision_id", one.decision_id, InvalidDecision)


def _named(state: State, command: Resolve) -> tuple[Call, Suspension]:
    call = state.calls.of(command.tool_call_id)
    if call is None or call.suspension is None:
        if command.suspension_id is not None:
            raise stale(state, command, command.suspension_id, command.tool_call_id)
        known = command.known.get(call_key(command.tool_call_id))
        if known is None or known.by is None:  # the call was never suspended: its result may be known
            known = command.known.get(result_key(command.tool_call_id), known)
        if known is None or known.by is None:
            raise StaleCall(state.conversation_id, command.tool_call_id, StaleReason.UNKNOWN)
        raise StaleCall(state.conversation_id, command.tool_call_id, known.reason, known.by, known.at)
    if command.suspension_id not in (None, call.suspension.suspension_id):
        raise stale(state, command, command.suspension_id or "", call.tool_call_id)
    if command.suspension_id is None and call.suspensions > 1:
        problem = f"call {call.tool_call_id!r} has been suspended {call.suspensions} times"
        raise InvalidDecision("suspension_id", problem, "name the suspension that was shown (PendingCall.suspension_id)")
    return call, call.suspension


def stale(state: State, command: Request, suspension_id: str, tool_call_id: str | None = None) -> StaleCall:
    """The error that says why a suspension (of this call, if given) takes no decision."""
    known = command.known.get(suspension_key(suspension_id))
    if known is None or tool_call_id not in (None, known.tool_call_id):
        return StaleCall(state.conversation_id, tool_call_id or suspension_id, StaleReason.UNKNOWN)
    tool_call_id = known.tool_call_id or suspension_id
    later = state.calls.of(tool_call_id)
    reason = known.reason if later is None or later.suspension is None else StaleReason.SUPERSEDED
    return StaleCall(state.conversation_id, tool_call_id, reason, known.by, known.at)


def claimed(state: State, call: Call, by: ClientClaim) -> StaleCall:
    """The error for all but the client that executes the call."""
    return StaleCall(state.conversation_id, call.tool_call_id, StaleReason.CLAIMED, settled_at=by.at)


def _check_claim(draft: Draft, command: Request, call: Call, suspension: Suspension, kind: DecisionKind) -> None:
    """Refuse (`StaleCall`) a decision on a claimed call that is neither its client's nor a cancellation."""
    claim, by = suspension.claim, command.client if isinstance(command, Resolve) else None
    if claim is not None and kind is not DecisionKind.CANCEL and claim.name != by:
        raise claimed(draft.state, call, claim)


def fit(draft: Draft, call: Call, suspension: Suspension, ruling: DecisionRecord, **repetition: str) -> Fitted:
    """Check a decision (`InvalidDecision`) against what the suspension accepts, the limits and the schemas."""
    return Fitted(call, suspension, ruling, _value(draft, call, suspension, ruling), **repetition)


def _value(draft: Draft, call: Call, suspension: Suspension, ruling: DecisionRecord) -> Any:
    tool = draft.tool_of(call)
    asked = draft.command.read.get(suspension.seq)
    own = suspension.kind is SuspensionKind.REVIEW  # its event has its own schema; without it, no answer fits
    schema_text = asked.response_schema if isinstance(asked, CallSuspended) else None if own else tool.response_schema
    _check_accepted(ruling, suspension, tool, schema_text, edited=is_edited(draft, call))
    if ruling.reason:
        check_words(ruling.reason, draft.command.limits.note_bytes, "decision.reason", InvalidDecision)
    if ruling.scope is not None:
        _ = ruling.scope.scope  # the command may come from a shell that has not checked it
    if ruling.body is None:
        return None
    _check_size(ruling, draft.command.limits)
    try:
        body = jsontext.loads(ruling.body)
    except jsontext.NotJson as error:
        raise InvalidDecision("decision", str(error), "give a JSON value") from error
    match ruling.kind:
        case DecisionKind.APPROVE:
            if not isinstance(body, Mapping):
                problem = f"{type(body).__name__} is not a JSON object"
                raise InvalidDecision("decision.arguments", problem, "give an object, or leave it out")
            _check_schema("decision.arguments", tool.parameters, body)
        case DecisionKind.ANSWER:
            if tool.questions and suspension.kind is SuspensionKind.ELICITATION:
                return questions.check(_questions(draft, call), body)
            _check_schema("decision.value", schema_text, body)
            if suspension.kind is SuspensionKind.CLIENT_EXEC:
                client_result_of(body)
        case DecisionKind.DENY | DecisionKind.FAIL:
            if not isinstance(body, str):
                raise InvalidDecision("decision", f"{type(body).__name__} is not a string", "say why in a string")
        case DecisionKind.REVIEW:
            _check_review(body)
    return body


def _questions(draft: Draft, call: Call) -> tuple[questions.Question, ...]:
    asked = draft.command.read.get(call.arguments_at)
    if isinstance(asked, ModelAnswered):
        found = next((one.arguments for one in asked.calls if one.tool_call_id == call.tool_call_id), "")
        with contextlib.suppress(jsontext.NotJson, questions.NotQuestions):
            return questions.parse(jsontext.loads(found))
    raise InvalidDecision(
        "decision.value", "the questions cannot be read, so no answer can be judged", "deny or cancel the call"
    )


def _check_accepted(
    ruling: DecisionRecord, suspension: Suspension, tool: ToolSpec, schema_text: JsonText | None, *, edited: bool
) -> None:
    takes = [kind.value for kind in accepted(suspension.kind, tool.decisions, with_schema=schema_text is not None)]
    if ruling.kind.value not in takes:
        problem = f"{ruling.kind.value} does not settle a call that waits for {suspension.kind.value}"
        raise InvalidDecision("decision", problem, f"decide {' or '.join(takes)}")
    if ruling.kind is not DecisionKind.APPROVE:
        return
    if suspension.kind is SuspensionKind.LIMIT:
        _check_extension(ruling)
        return
    if ruling.body is not None and Choice.EDIT not in tool.decisions:
        problem = f"{tool.name} lets nobody edit its arguments (Tool.decisions)"
        raise InvalidDecision("decision.arguments", problem, "leave them out, or decide otherwise")
    if ruling.body is None and Choice.APPROVE not in tool.decisions and not edited:
        problem = f"{tool.name} is approved only with edited arguments (Tool.decisions)"
        raise InvalidDecision("decision.arguments", problem, "give them")


def _check_extension(ruling: DecisionRecord) -> None:
    """Refuse an approval that says by how much a turn goes on, or lets later turns go on."""
    if ruling.body is not None:
        problem = "a turn goes on for as much again as its bound says"
        raise InvalidDecision("decision.arguments", problem, "leave them out")
    if ruling.scope is not None:
        raise InvalidDecision("decision.scope", "no grant can replace this decision", "approve this call alone")


def _check_review(body: Any) -> None:
    if not isinstance(body, Mapping) or set(body) != {"verdict", "notes"} or not isinstance(body["notes"], str):
        raise InvalidDecision("decision", "it is no review", "give Review(verdict, notes)")
    if body["verdict"] not in tuple(ReviewVerdict):
        raise InvalidDecision("decision.verdict", f"{body['verdict']!r:.40} is no verdict", GIVE_VERDICT)


def _check_size(ruling: DecisionRecord, limits: Limits) -> None:
    name = "note_bytes" if ruling.kind.value in IN_WORDS else "result_bytes"
    allowed = getattr(limits, name)
    size = jsontext.size_bytes(ruling.body or "") - (REVIEW_BYTES if ruling.kind is DecisionKind.REVIEW else 0)
    if size > allowed:
        problem = f"it has {size} bytes, {allowed} are allowed"
        raise InvalidDecision("decision", problem, f"shorten it, or raise Limits.{name} of the agent")


def _check_schema(field: str, text: JsonText | None, value: Any) -> None:
    problem = schema.problem(text, value)
    if problem is not None:
        raise InvalidDecision(field, problem, "give a value that fits the schema")


def check_time(draft: Draft, call: Call) -> None:
    """Refuse (`StaleCall`) a decision in a conversation whose parent waits for it no longer."""
    if draft.is_over:
        raise StaleCall(draft.state.conversation_id, call.tool_call_id, StaleReason.EXPIRED)


def check_permitted(draft: Draft, call: Call) -> None:
    """Refuse (`NotPermitted`) a decision by a person who may not decide this call."""
    state, command = draft.state, draft.command
    messages = [command.read.get(seq) for seq in (() if state.turn is None else state.turn.asked_at)]
    requesters = [one.principal if isinstance(one, MessageAccepted) else None for one in messages] or [None]
    asked = (*requesters, *(() if state.parent is None else state.parent.editors))
    terms = call.deciders
    why = None if terms is None else next(filter(None, (terms.problem(draft.principal, one) for one in asked)), None)
    if why is not None:
        raise NotPermitted(state.conversation_id, call.tool_call_id, why)


def check_vote(draft: Draft, fitted: Fitted) -> None:
    """Refuse a decision that conflicts with the votes: a person's second one, another answer, a scope, too many edits."""
    call, votes, terms = fitted.call, fitted.suspension.votes, fitted.call.deciders
    if terms is None:
        return
    if fitted.ruling.scope is not None and not terms.grantable:
        problem = "several people must agree to it" if terms.minimum > 1 else "each call needs its own"
        raise InvalidDecision("decision.scope", f"no grant can replace this decision: {problem}", "approve this call alone")
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
    """Record a decision as the `votes`-th vote; returns its event's `seq`."""
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


def settle(draft: Draft, fitted: Fitted) -> Receipt:
    """Settle a suspension by a decision and carry the decision out, or record it as a vote."""
    call, ruling, needed = fitted.call, fitted.ruling, fitted.call.needed
    votes = len(fitted.suspension.votes) if needed else 0
    if needed and fitted.is_yes:
        if fitted.is_edit:
            fitted, votes = _asked_anew(draft, fitted), 0
        votes += 1
        if votes < needed:
            return draft.receipt(cast(draft, fitted, votes), settled=False, votes=votes, needed=needed)
    seq = settled(
        draft,
        call,
        SettledBy.CANCELLATION if ruling.kind is DecisionKind.CANCEL else SettledBy(ruling.kind.value),
        ruling,
        decision_id=fitted.decision_id,
        digest=fitted.digest,
        principal=draft.principal,
        votes=votes,
        needed=needed,
    )
    follow(draft, fitted, seq)
    if ruling.scope is not None:
        give(draft, ruling.scope, seq=seq, terms=call.deciders)
    return draft.receipt(seq, votes=votes, needed=needed)


def _asked_anew(draft: Draft, fitted: Fitted) -> Fitted:
    """Suspend the call again with the edited arguments, until the same deadline; the editor's vote counts for them."""
    call, before = fitted.call, fitted.suspension
    seq = settled(draft, call, SettledBy.EDIT, fitted.ruling, principal=draft.principal)
    edited = call.edited(seq).model_copy(update={"suspension": None})
    asked = draft.command.read.get(before.seq)
    kept: dict[str, Any] = {"on_timeout": asked.on_timeout if isinstance(asked, CallSuspended) else None, "stage": before.stage}
    kept["stage_at"] = before.stage_at or before.created_at
    suspend(draft, edited, before.kind, prompt=draft.tool_of(call).prompt, expires_at=before.expires_at, **kept)
    again = draft.state.calls.of(call.tool_call_id)
    suspension = before if again is None or again.suspension is None else again.suspension
    as_they_are = DecisionRecord(kind=DecisionKind.APPROVE, reason=fitted.ruling.reason)
    return Fitted(call, suspension, as_they_are, None, fitted.decision_id, fitted.digest)


def follow(draft: Draft, fitted: Fitted, seq: int, *, by: SettledBy | None = None) -> None:
    """Carry the decision at `seq` out. `by` is what gave an answer, if no person did."""
    call, ruling, value, call_id = fitted.call, fitted.ruling, fitted.value, fitted.call.tool_call_id
    if fitted.suspension.kind is SuspensionKind.LIMIT:
        ask_again(draft)
        return
    at_client = fitted.suspension.kind is SuspensionKind.CLIENT_EXEC
    if call.passes(fitted.suspension, ruling.kind):
        if fitted.suspension.kind is SuspensionKind.REVIEW:
            by_grant = call.approval is Approval.REQUIRED and not call.is_approved()  # a review is no approval
            changes = {"resumed": call.resumed + 1, "decided_at": 0 if by_grant else seq, "suspension": None}
            begin_again(draft, call.model_copy(update=changes))
        else:
            _let_go(draft, call, seq)
        return
    match ruling.kind:
        case DecisionKind.APPROVE:
            resumed = call.resumed + (call.attempt > 0)  # an attempt that was suspended at its dispatch never began
            approved = call if ruling.body is None else call.edited(seq)
            _let_go(draft, approved.model_copy(update={"resumed": resumed}), seq)
        case DecisionKind.DENY:
            denied = "the user declined to answer" if call.executor is Executor.HUMAN else "the user denied this call"
            finish(draft, call_id, failure(f"{denied}: {value}" if value else denied), by=SettledBy.DENY)
        case DecisionKind.ANSWER:
            shown, attached = client_result_of(value) if at_client else (value, ())
            result = jsontext.dumps(shown) if attached else fitted.result(draft.tool_of(call))
            envelope, given = success(result, untrusted=at_client), by or SettledBy.ANSWER
            finish(draft, call_id, envelope, by=given, ok=True, untrusted=at_client, attached=attached)
        case DecisionKind.FAIL:
            said = f"the client failed: {value}" if at_client else str(value)
            envelope = failure(said if value else "it failed, and nobody said why", untrusted=at_client)
            finish(draft, call_id, envelope, by=SettledBy.FAIL, untrusted=at_client)
        case DecisionKind.REDISPATCH:
            begin_again(draft, call.model_copy(update={"decided_at": call.decided_at or seq, "suspension": None}))
        case DecisionKind.CANCEL:
            why = failure(why_cancelled(call, ruling.reason), source=fitted.suspension.source)
            finish(draft, call_id, why, by=SettledBy.CANCELLATION)
        case DecisionKind.REVIEW:
            finish(draft, call_id, reviewed(value["verdict"], value["notes"]), by=SettledBy.REVIEW, ok=True)


def _let_go(draft: Draft, call: Call, seq: int) -> None:
    """Go on with an approved call. If its required approvers only gave a grant, the grant must let it run."""
    now = draft.state.calls.of(call.tool_call_id)
    approved = call.model_copy(update={"fulfilled": None if now is None else now.fulfilled})
    changes = {"decided_at": seq if approved.is_approved() else 0, "held_at": 0, "suspension": None}
    go_on(draft, call.model_copy(update=changes))
