"""Calls that clients execute: one of the attached clients claims a call, answers it, or gives it back."""

from collections.abc import Sequence
from typing import Any

from holdfast.conversation.records.calls import Call, ClientClaim, Suspension
from holdfast.conversation.records.commands import Claim, GiveBack
from holdfast.conversation.records.events import CallClaimed, CallGivenBack, SettledBy
from holdfast.conversation.records.state import State
from holdfast.conversation.terms.decisions import SuspensionKind
from holdfast.conversation.terms.presence import GONE_MS, OnDetach, Present, check_client_id
from holdfast.conversation.terms.spec import OnLost
from holdfast.conversation.text.envelope import failure
from holdfast.errors import InvalidInput, StaleCall, StaleReason

from .cancelled import why_cancelled
from .deciding import claimed
from .judgement import ClaimReceipt, Draft, Judgement, check_words
from .leaving import LEFT, left_behind
from .noting import noted
from .progress import (
    advance,
    client_expires_at,
    client_grace_ms,
    client_look_at,
    finish,
    give_up,
    settled,
    suspend,
)

MOST_CLAIMS = 16
"""How often clients may claim one call: each claim is an event of the log."""
NOBODY = "no client is attached: it did not run"
NOBODY_AGAIN = "no client is attached; one that had claimed this call left: it may or may not have taken effect"
LOST = "outcome unknown: the client that executed this call left; it may or may not have taken effect"
LOST_TOO_OFTEN = f"clients took this call up {MOST_CLAIMS} times and left or gave it back; it may or may not have taken effect"
ASK_ABOUT_LOST = "the client that executed this call left (attempt {}): it may or may not have taken effect"
"""The prompt for the person who decides about a call whose client left."""


def claim(state: State, command: Claim) -> Judgement:
    """Let a client execute a call, and no other one."""
    check_client_id(command.client_id)
    call, suspension = _of_client(state, command)
    draft = Draft(state, command)
    _check_time(draft, call, suspension)
    if suspension.claim is not None:
        raise claimed(state, call, suspension.claim)
    seq = draft.emit(
        CallClaimed(
            **_about(draft, call, suspension),
            on_detach=command.on_detach,
            request_id=command.request_id,
            principal=command.principal,
            client_id=command.client_id,
            expires_at=client_expires_at(draft, call),
            look_at=draft.capped(draft.now + GONE_MS + (client_grace_ms(draft) or 0)),
            attempt=call.claims + 1,
        )
    )
    return draft.done(ClaimReceipt(**vars(draft.receipt(seq)), attempt=call.claims + 1))


def give_back(state: State, command: GiveBack) -> Judgement:
    """Take a call back from the client that claimed it. One that `began` is treated like a lost run."""
    check_client_id(command.client_id)
    call, suspension = _of_client(state, command)
    draft = Draft(state, command)
    _check_time(draft, call, suspension)
    if suspension.claim is None:
        raise StaleCall(state.conversation_id, call.tool_call_id, StaleReason.UNKNOWN)
    if suspension.claim.name != command.client:
        raise claimed(state, call, suspension.claim)
    check_words(command.reason, command.limits.note_bytes, "reason", InvalidInput)
    said = {name: getattr(command, name) for name in ("began", "reason", "request_id", "principal")}
    seq = given_back(draft, call, suspension, suspension.claim, by="client", **said)
    advance(draft)
    return draft.done(draft.receipt(seq))


def given_back(draft: Draft, call: Call, suspension: Suspension, before: ClientClaim, **said: Any) -> int:
    """Take a call back from a client, and do what its tool says of lost calls; returns the `seq` of the event."""
    seq = draft.emit(
        CallGivenBack(
            **_about(draft, call, suspension),
            **said,
            client_id=before.client_id,
            expires_at=client_expires_at(draft, call),
            look_at=client_look_at(draft),
            attempt=call.claims,
        )
    )
    call = draft.state.calls.of(call.tool_call_id) or call
    if call.claims >= MOST_CLAIMS:
        settled(draft, call, SettledBy.LOSS)
        finish(draft, call.tool_call_id, failure(LOST_TOO_OFTEN), by=SettledBy.LOSS)
    elif said.get("began", True) and call.on_lost is not OnLost.REDISPATCH:
        settled(draft, call, SettledBy.LOSS)
        if call.on_lost is OnLost.ERROR:
            finish(draft, call.tool_call_id, failure(LOST), by=SettledBy.LOSS)
        else:
            shown = f"@{call.arguments_at}#{call.claims}"
            suspend(draft, call, SuspensionKind.LOST, arguments=shown, prompt=ASK_ABOUT_LOST.format(call.claims))
    return seq


def look(draft: Draft, call: Call, suspension: Suspension, present: Sequence[Present]) -> int | None:
    """Take a call back from a client that is gone, or give it up if no client is attached for it.

    Returns when to look again (ms UTC); None if nobody need.
    """
    grace_ms, claim = client_grace_ms(draft) or 0, suspension.claim
    suited = (one for one in present if (call.tool in one.tools if claim is None else one.name == claim.name))
    until = max((one.until + grace_ms for one in suited), default=0)
    if until > draft.now:
        return until
    if claim is None:
        give_up(draft, call, NOBODY_AGAIN if call.claims else NOBODY, by=SettledBy.EXPIRY)
    elif claim.on_detach is OnDetach.CANCEL:
        give_up(draft, call, why_cancelled(call, LEFT), by=SettledBy.CANCELLATION)
    else:
        given_back(draft, call, suspension, claim, by="loss")
    return None


def leave(draft: Draft, present: Sequence[Present]) -> None:
    """Cancel what waits for the clients that have left, of those with `OnDetach.CANCEL`."""
    for one in present:
        if one.has_left(draft.now):
            for call in left_behind(draft.state, one.client_id, one.principal, present, now=draft.now, kinds=one.kinds):
                give_up(draft, call, why_cancelled(call, LEFT), by=SettledBy.CANCELLATION)


def _of_client(state: State, command: Claim | GiveBack) -> tuple[Call, Suspension]:
    call, suspension = noted(state, command, None)
    if suspension.kind is not SuspensionKind.CLIENT_EXEC:
        raise InvalidInput("suspension_id", f"the call waits for {suspension.kind.value}, not for a client", "decide it")
    return call, suspension


def _check_time(draft: Draft, call: Call, suspension: Suspension) -> None:
    if draft.is_over or draft.now >= suspension.expires_at:
        raise StaleCall(draft.state.conversation_id, call.tool_call_id, StaleReason.EXPIRED)


def _about(draft: Draft, call: Call, suspension: Suspension) -> dict[str, Any]:
    """The fields of an event about a claim; `noted` leaves out the claim's last event, which this one follows."""
    notes = tuple(seq for seq in suspension.notes if seq != suspension.claimed_at)
    about = {"tool_call_id": call.tool_call_id, "suspension_id": suspension.suspension_id}
    return {"at": draft.now, "noted": notes, **about}
