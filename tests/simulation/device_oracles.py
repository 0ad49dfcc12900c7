"""What must hold of calls that clients carry out, when a simulation is over: one client at a time, and no call forgotten."""

from dataclasses import dataclass

from holdfast.conversation import Resolve
from holdfast.conversation.judging.clients import NOBODY
from holdfast.conversation.records.events import (
    CallClaimed,
    CallGivenBack,
    CallResolved,
    CallSuspended,
    SettledBy,
    SuspensionSettled,
)
from holdfast.conversation.terms.decisions import SuspensionKind
from holdfast.conversation.terms.presence import client_name

from .shop import AGENT

GRACE_MS = round(AGENT.spec.client_grace_s * 1000)
NOTICED_WITHIN_MS = 20_000
"""How soon a client that is gone is noticed once everything is healed."""


@dataclass
class Wait:
    """A wait of a call for clients."""

    call: CallSuspended
    claim: CallClaimed | None = None


def calls_have_one_claimant(world, history):
    """Between a claim and its end nobody else claims the call or answers it; attempts are counted; who is gone was gone."""
    wrong = lambda text, *said: world.ledger.wrong(f"%s: {text}", history.conversation_id, *said)  # noqa: E731
    said = {command.decision_id: command for _, command, _ in world.said if isinstance(command, Resolve)}
    waits, attempts = {}, {}
    for event in history.events:
        match event:
            case CallSuspended(suspension_kind=SuspensionKind.CLIENT_EXEC):
                waits[event.suspension_id] = Wait(event)
            case CallClaimed():
                wait = waits.get(event.suspension_id)
                if wait is None or wait.claim is not None:
                    wrong("%s is claimed by %s, and it does not wait for clients", event.suspension_id, event.client)
                    continue
                attempts[event.tool_call_id] = attempts.get(event.tool_call_id, 0) + 1
                if event.attempt != attempts[event.tool_call_id]:
                    wrong("claim %d of %s is said to be %d", attempts[event.tool_call_id], event.tool_call_id, event.attempt)
                wait.claim = event
            case CallGivenBack():
                wait = waits.get(event.suspension_id)
                if wait is None or wait.claim is None or wait.claim.client_id != event.client_id:
                    wrong("%s gives %s back, and has not claimed it", event.client_id, event.suspension_id)
                    continue
                if event.by == "loss":
                    _was_gone(world, history, event, wait.claim.client, wrong)
                elif wait.claim.principal != event.principal:
                    wrong("%s gives back what %s has claimed", event.principal, wait.claim.client)
                _was_missed(world, history, event, wait.claim, wrong)
                wait.claim = None
            case SuspensionSettled() if event.suspension_id in waits:
                _settled(world, history, waits.pop(event.suspension_id), event, said, wrong)
            case CallResolved(by=SettledBy.EXPIRY) if NOBODY in event.content:
                _nobody_was_there(world, history, event, wrong)


def _was_gone(world, history, event, client, wrong):
    there = world.devices.until(history.conversation_id, client, event.at)
    if there + GRACE_MS > event.at and not world.ledger.times_set_back:
        wrong("%s is there until %d, and loses %s at %d", client, there, event.suspension_id, event.at)


def _nobody_was_there(world, history, event, wrong):
    call = next(one for one in history.of(CallSuspended) if one.tool_call_id == event.tool_call_id)
    there = world.devices.anyone(history.conversation_id, call.tool, event.at)
    if there > event.at and not world.ledger.times_set_back:
        wrong("a client for %s is there until %d, and its call fails at %d", call.tool, there, event.at)


def _settled(world, history, wait, event, said, wrong):
    claim = wait.claim
    if claim is None:
        return
    command = said.get(event.decision_id)
    if event.by in (SettledBy.ANSWER, SettledBy.FAIL) and command is not None:
        by = client_name(getattr(command, "client_id", ""), command.principal)
        if by != claim.client:
            wrong("%s is carried out by %s, and %s has answered it", event.suspension_id, claim.client, by)
    if event.by is SettledBy.EXPIRY and event.at < claim.expires_at:
        wrong("%s expires at %d, and its client has until %d", event.suspension_id, event.at, claim.expires_at)
    _was_missed(world, history, event, claim, wrong)


def _was_missed(world, history, event, claim, wrong):
    """At the end of a claim: its client was never away for longer than it takes to notice."""
    since = max(claim.at, world.inputs.healed_at or 0)
    away_ms = world.devices.away_ms(history.conversation_id, claim.client, since, event.at) - GRACE_MS
    if away_ms > NOTICED_WITHIN_MS and not world.watched and not world.ledger.times_set_back:
        wrong("%s was away for %d ms, and had %s until %d", claim.client, away_ms, event.suspension_id, event.at)
