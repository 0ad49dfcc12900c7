"""What deadlines must have led to when a simulation is over: each stage in its turn and time, once, then the default."""

from dataclasses import dataclass, field

from holdfast.conversation import SettledBy, SuspensionKind
from holdfast.conversation.records.events import (
    CallClaimed,
    CallEscalated,
    CallGivenBack,
    CallReminded,
    CallSuspended,
    SuspensionSettled,
)
from holdfast.conversation.terms.stages import NOTHING

from .shop import agent_of

OF_TOOL = (SuspensionKind.APPROVAL, SuspensionKind.ELICITATION, SuspensionKind.LOST)


@dataclass
class Waiting:
    """A suspension as the log has it so far: what was declared of it, its stage, its deadline and its reminders."""

    tool_call_id: str
    terms: object
    stage: int
    expires_at: int
    since: int
    reminded: list = field(default_factory=list)


def deadlines_act_in_their_turn(ledger, history):
    """Counts, from the log alone and from what the app declares, what was done when nobody decided."""
    waiting = {}
    for event in history.events:
        match event:
            case CallSuspended():
                tool = agent_of(history.conversation_id, history.events).tool(event.tool)
                terms = tool.spec.on_timeout if event.suspension_kind in OF_TOOL else NOTHING  # a question has no tool
                until = event.look_at or event.expires_at  # if nobody is there who could carry it out
                one = Waiting(event.tool_call_id, event.on_timeout or terms, event.stage, until, event.at)
                waiting[event.suspension_id] = one
            case CallReminded():
                _is_due(ledger, history, event, waiting[event.suspension_id])
            case CallClaimed():
                waiting[event.suspension_id].expires_at = event.expires_at
            case CallGivenBack():
                waiting[event.suspension_id].expires_at = event.look_at or event.expires_at
            case CallEscalated():
                _is_next(ledger, history, event, waiting[event.suspension_id])
            case SuspensionSettled():
                one = waiting.pop(event.suspension_id, None)  # another oracle judges what is settled twice
                if one is not None and event.by is SettledBy.EXPIRY:
                    _is_last(ledger, history, event, one)


def _is_due(ledger, history, event, one):
    moments = [one.expires_at - round(seconds * 1000) for seconds in one.terms.reminders_s]
    missed = [moment for moment in moments if one.since < moment <= event.at and moment not in one.reminded]
    if not missed or event.at >= one.expires_at:
        ledger.wrong("%s: %s was reminded of at %d, which nobody declared", history.conversation_id, one.tool_call_id, event.at)
    one.reminded += missed


def _is_next(ledger, history, event, one):
    stages = one.terms.stages
    if event.stage != one.stage + 1 or event.stage > len(stages) or event.approvers != stages[event.stage - 1].approvers:
        ledger.wrong("%s: %s went to stage %d out of turn", history.conversation_id, one.tool_call_id, event.stage)
    if event.at < one.expires_at:
        ledger.wrong("%s: %s escalated before its deadline", history.conversation_id, one.tool_call_id)
    one.stage, one.expires_at, one.since, one.reminded = event.stage, event.expires_at, event.at, []


def _is_last(ledger, history, event, one):
    name, default = history.conversation_id, one.terms.default
    above = history.events[0].parent
    over = above is not None and event.at >= above.must_end_by  # nobody waits for it, so nobody else is asked
    if event.at < one.expires_at or (one.stage < len(one.terms.stages) and not over):
        ledger.wrong("%s: %s expired before its time, in stage %d", name, one.tool_call_id, one.stage)
    said = (None, None) if default is None else (default.kind, default.value)
    if (None if event.decision is None else event.decision.value, event.body) not in (said, (None, None)):
        ledger.wrong("%s: %s was decided by default as %s", name, one.tool_call_id, event.decision)
    if over and event.decision is not None:
        ledger.wrong("%s: %s was decided by default, and its parent waits no longer", name, one.tool_call_id)
    if event.principal is not None:
        ledger.wrong("%s: %s expired, and somebody is said to have decided it", name, one.tool_call_id)
