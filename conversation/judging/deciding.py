"""The judgement of decisions: one, or several of one conversation, of which all are taken or none."""

from holdfast.conversation.ids import check_request_id
from holdfast.conversation.records.calls import Call, Suspension
from holdfast.conversation.records.commands import Resolve, ResolveMany
from holdfast.conversation.records.idempotency import call_key, result_key, suspension_key
from holdfast.conversation.records.state import State
from holdfast.conversation.terms.decisions import DecisionRecord
from holdfast.conversation.text.jsontext import size_bytes
from holdfast.errors import AlreadyVoted, BatchRefused, HoldfastError, InvalidDecision, NotPermitted, StaleCall, StaleReason

from .fitting import Fitted, fit
from .granting import check_room, release
from .judgement import Draft, Judgement, Receipt, Receipts, drafted
from .progress import advance
from .repeats import decision_digest
from .settling import settle
from .voting import check_permitted, check_vote

MOST = 1000
"""How many decisions one command may bring."""
MOST_BYTES = 4 << 20
"""How many bytes the bodies of these decisions may have together, as they are written at once."""


def resolve(state: State, command: Resolve) -> Judgement:
    """Settle exactly the suspension that the decision names, or count a vote if several people must agree."""
    check_request_id("decision_id", command.decision_id, InvalidDecision)
    draft = drafted(state, command)
    call, suspension = _named(state, command)
    digest = decision_digest(command, call.needed, command.tool_call_id, command.suspension_id, command.ruling)
    fitted = _judged(draft, call, suspension, command.ruling, decision_id=command.decision_id, digest=digest)
    (receipt,) = _settled(draft, [fitted])
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
                raise _stale(state, command, one.suspension_id)
            digest = decision_digest(command, found[0].needed, "", one.suspension_id, one.ruling)
            judged.append(_judged(draft, *found, one.ruling, decision_id=one.decision_id, digest=digest))
        except (StaleCall, InvalidDecision, NotPermitted, AlreadyVoted) as error:
            refused[one.suspension_id] = error
    if refused:
        raise BatchRefused(state.conversation_id, refused)
    return draft.done(Receipts(receipts=_settled(draft, judged)))


def _judged(draft: Draft, call: Call, suspension: Suspension, ruling: DecisionRecord, **repetition: str) -> Fitted:
    check_permitted(draft, call)
    fitted = fit(draft, call, suspension, ruling, **repetition)
    check_vote(draft, fitted)
    return fitted


def _settled(draft: Draft, judged: list[Fitted]) -> tuple[Receipt, ...]:
    rulings = [one.ruling for one in judged]
    check_room(draft.state, rulings, now=draft.now)
    receipts = tuple(settle(draft, one) for one in judged)
    release(draft, rulings)
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
    size = sum(size_bytes(one.ruling.body or "") for one in command.decisions)
    if size > MOST_BYTES:
        raise InvalidDecision("decisions", f"they have {size} bytes, {MOST_BYTES} are allowed together", "decide fewer at once")
    for one in command.decisions:
        check_request_id("decision_id", one.decision_id, InvalidDecision)


def _named(state: State, command: Resolve) -> tuple[Call, Suspension]:
    call = state.calls.of(command.tool_call_id)
    if call is None or call.suspension is None:
        if command.suspension_id is not None:
            raise _stale(state, command, command.suspension_id, command.tool_call_id)
        known = command.known.get(call_key(command.tool_call_id))
        if known is None or known.by is None:  # the call was never suspended: its result may be known
            known = command.known.get(result_key(command.tool_call_id), known)
        if known is None or known.by is None:
            raise StaleCall(state.conversation_id, command.tool_call_id, StaleReason.UNKNOWN)
        raise StaleCall(state.conversation_id, command.tool_call_id, known.reason, known.by, known.at)
    if command.suspension_id not in (None, call.suspension.suspension_id):
        raise _stale(state, command, command.suspension_id or "", call.tool_call_id)
    if command.suspension_id is None and call.suspensions > 1:
        problem = f"call {call.tool_call_id!r} has been suspended {call.suspensions} times"
        raise InvalidDecision("suspension_id", problem, "name the suspension that was shown (PendingCall.suspension_id)")
    return call, call.suspension


def _stale(state: State, command: Resolve | ResolveMany, suspension_id: str, tool_call_id: str | None = None) -> StaleCall:
    """The reason that a suspension (of this call, if given) takes no decision."""
    known = command.known.get(suspension_key(suspension_id))
    if known is None or tool_call_id not in (None, known.tool_call_id):
        return StaleCall(state.conversation_id, tool_call_id or suspension_id, StaleReason.UNKNOWN)
    tool_call_id = known.tool_call_id or suspension_id
    later = state.calls.of(tool_call_id)
    reason = known.reason if later is None or later.suspension is None else StaleReason.SUPERSEDED
    return StaleCall(state.conversation_id, tool_call_id, reason, known.by, known.at)
