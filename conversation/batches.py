"""Judging several decisions at once: all of them are taken, or none."""

from holdfast.errors import AlreadyVoted, BatchRefused, HoldfastError, InvalidDecision, NotPermitted, StaleCall, StaleReason

from .calls import Call, Suspension
from .commands import Decided, ResolveMany
from .granting import check_room, release
from .idempotency import decision_key, suspension_key
from .ids import check_request_id
from .jsontext import size_bytes
from .judgement import Draft, Judgement, Receipts
from .progress import advance
from .repeats import receipt_again
from .state import State
from .suspensions import Settlement, check_spec, content, decide_one, decision_digest
from .voting import check_permitted, check_vote

MOST = 1000
"""How many decisions one command may bring."""
MOST_BYTES = 4 << 20
"""How many bytes the bodies of these decisions may have together: they are written at once."""


def duplicate(state: State, command: ResolveMany) -> Judgement | None:
    """The first receipts, if these very decisions were accepted before.

    Raises:
        InvalidDecision: The id was used for other decisions.
    """
    known = [command.known.get(decision_key(one.decision_id)) for one in command.decisions]
    if not any(known):
        return None
    receipts = []
    for one, record in zip(command.decisions, known, strict=True):
        if record is None or record.digest != _digest(command, one, record.needed):
            problem = f"{one.decision_id!r:.80} was already used for other decisions"
            raise InvalidDecision("decision_id", problem, "use a new decision_id for new decisions")
        receipts.append(receipt_again(state, record))
    return Judgement(reply=Receipts(receipts=tuple(receipts)))


def resolve_many(state: State, command: ResolveMany) -> Judgement:
    """Settle all suspensions that the decisions were meant for.

    Raises:
        BatchRefused: A decision cannot be taken; the error has the reason for each that cannot, by its suspension.
        InvalidDecision: There are no decisions, or too many, or two for one suspension; or an id has not the form of one.
    """
    _check(command)
    check_spec(state, command)
    open_calls = {call.suspension.suspension_id: call for call in state.calls.awaiting() if call.suspension is not None}
    judged: list[tuple[Call, Settlement]] = []
    refused: dict[str, HoldfastError] = {}
    for one in command.decisions:
        try:
            call, suspension = _open(state, command, one, open_calls.get(one.suspension_id))
            check_permitted(state, command, call)
            body = content(state, command, one.ruling, call, suspension)
            check_vote(state, command, call, one.ruling)
        except (StaleCall, InvalidDecision, NotPermitted, AlreadyVoted) as error:
            refused[one.suspension_id] = error
        else:
            judged.append((call, Settlement(suspension, one.ruling, body, one.decision_id, _digest(command, one, call.needed))))
    if refused:
        raise BatchRefused(state.conversation_id, refused)
    check_room(state, [one.ruling for one in command.decisions], now=command.now)
    draft = Draft(state, command.now, command.trace, salt=command.salt)
    receipts = tuple(decide_one(draft, command, call, settlement) for call, settlement in judged)
    release(draft, [one.ruling for one in command.decisions], command.spec)
    advance(draft, command)
    return draft.done(Receipts(receipts=receipts))


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


def _open(state: State, command: ResolveMany, one: Decided, call: Call | None) -> tuple[Call, Suspension]:
    if call is not None and call.suspension is not None:
        return call, call.suspension
    known = command.known.get(suspension_key(one.suspension_id))
    if known is None:
        raise StaleCall(state.conversation_id, one.suspension_id, StaleReason.UNKNOWN)
    tool_call_id = known.tool_call_id or one.suspension_id
    later = state.calls.of(tool_call_id)
    reason = known.reason if later is None or later.suspension is None else StaleReason.SUPERSEDED
    raise StaleCall(state.conversation_id, tool_call_id, reason, known.by, known.at)


def _digest(command: ResolveMany, one: Decided, needed: int) -> str:
    return decision_digest(command, needed, "", one.suspension_id, one.ruling)
