"""What votes must have led to when a simulation is over: only who may decides, and a quorum is never settled by fewer."""

from collections import defaultdict

from holdfast.conversation import SettledBy
from holdfast.conversation.records.events import (
    CallEscalated,
    CallSuspended,
    GivenRevoked,
    RunScheduled,
    SuspensionSettled,
    VoteCast,
)
from holdfast.conversation.terms.approvers import joined
from holdfast.conversation.terms.principal import Proof
from holdfast.conversation.text import jsontext
from holdfast.persistence.views import arguments_in

from .shop import agent_of

NO = frozenset({SettledBy.DENY, SettledBy.CANCELLATION, SettledBy.FAIL, SettledBy.EXPIRY, SettledBy.EDIT, SettledBy.GRANT})


def calls_are_decided_by_those_who_may(ledger, history):
    """Counts, from the log alone and from what the app declares, who agreed to what is shown."""
    shown, agreed, decided, escalated = {}, defaultdict(set), {}, set()
    for seq, event in enumerate(history.events, 1):
        match event:
            case RunScheduled() if event.decided_at in decided:
                _ran_as_decided(ledger, history, decided[event.decided_at], event)
            case CallSuspended():
                shown[event.suspension_id] = event
                _is_for_those_whom_the_app_names(ledger, history, event)
            case CallEscalated():
                shown[event.suspension_id] = shown[event.suspension_id].model_copy(update={"approvers": event.approvers})
                agreed[event.suspension_id].clear()
                escalated.add(event.suspension_id)
            case VoteCast():
                _may(ledger, history, shown[event.suspension_id], event)
                if event.principal.id in agreed[event.suspension_id]:
                    ledger.wrong("%s: %s has two votes on %s", history.conversation_id, event.principal.id, event.tool_call_id)
                agreed[event.suspension_id].add(event.principal.id)
            case GivenRevoked():
                for vote in event.votes:
                    agreed[vote.suspension_id].discard(event.by)
            case SuspensionSettled(decision=str()) if event.by is not SettledBy.EXPIRY:
                _may(ledger, history, shown[event.suspension_id], event)
                _are_enough(ledger, history, shown[event.suspension_id], event, agreed[event.suspension_id])
                if event.suspension_id not in escalated:  # else others decided in the place of those whom the app names
                    decided[seq] = shown[event.suspension_id]


def _is_for_those_whom_the_app_names(ledger, history, event):
    if event.suspension_kind in ("client_exec", "review", "delegate", "limit"):
        return
    tool = agent_of(history.conversation_id, history.events).tool(event.tool)
    try:
        arguments = arguments_in(history.events[event.arguments_at - 1], event.tool_call_id)
    except jsontext.NotJson:
        return
    due = tool.deciders(arguments)
    edited = isinstance(history.events[event.arguments_at - 1], SuspensionSettled)
    if not edited and event.approvers != due:
        ledger.wrong("%s: %s is for %s, and the app says %s", history.conversation_id, event.tool_call_id, event.approvers, due)


def _ran_as_decided(ledger, history, suspended, event):
    """A body has run with arguments that were decided by those to whom the app leaves them."""
    body = ledger.bodies.get((history.conversation_id, event.tool_call_id, event.attempt))
    if body is None or body.forgotten or suspended.suspension_kind != "approval":
        return
    arguments = arguments_in(history.events[event.arguments_at - 1], event.tool_call_id)
    due = agent_of(history.conversation_id, history.events).tool(event.tool).deciders(arguments)
    if joined(suspended.approvers, due) != suspended.approvers:
        ledger.wrong("%s: %s ran, decided by others than %s", history.conversation_id, event.tool_call_id, due)


def _may(ledger, history, suspended, event):
    terms, who = suspended.approvers, event.principal
    if terms is None:
        return
    named = who is not None and all(
        f"id:{who.id}" in group or any(f"role:{role}" in group for role in who.roles) for group in terms.who
    )
    if not named or (who.proof is Proof.STATED and not terms.stated):
        ledger.wrong("%s: %s was decided by %s, who may not", history.conversation_id, suspended.tool_call_id, who)


def _are_enough(ledger, history, suspended, event, agreed):
    terms = suspended.approvers
    if terms is None or terms.minimum == 1 or event.by in NO or (event.by is SettledBy.REVIEW and "allow" not in event.body):
        return
    count = len(agreed | {event.principal.id})
    if count < terms.minimum or event.votes != count:
        ledger.wrong("%s: %s was settled by %d of %d", history.conversation_id, suspended.tool_call_id, count, terms.minimum)
