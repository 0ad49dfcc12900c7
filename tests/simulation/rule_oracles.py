"""What permission rules must have led to, when a simulation is over: each denial has its rule, and no body behind it."""

from holdfast.conversation import SuspensionKind
from holdfast.conversation.records.events import CallResolved, CallSuspended, ModelAnswered, RunScheduled, SettledBy
from holdfast.conversation.terms.rule_verdict import RuleEffect
from holdfast.conversation.text import jsontext
from holdfast.persistence.views import arguments_in

from .shop import agent_of


def rules_are_behind_denials(ledger, history):
    """Each call that rules denied names one that did, and no run that was stopped before it began has a body."""
    asked_at, scheduled = {}, {}
    for seq, event in enumerate(history.events, 1):
        match event:
            case ModelAnswered():
                asked_at |= {call.tool_call_id: (seq, call.name) for call in event.calls}
            case RunScheduled():
                scheduled[event.tool_call_id] = event
            case CallResolved(by=SettledBy.RULE):
                _denied_by_a_rule(ledger, history, event, asked_at[event.tool_call_id], scheduled.get(event.tool_call_id))
                _has_no_body(ledger, history, scheduled.get(event.tool_call_id))
            case CallResolved(rule=rule) if rule:
                ledger.wrong("%s: %s names a rule that denies it, and has another end", history.conversation_id, event)
            case CallSuspended(suspension_kind=SuspensionKind.REVIEW | SuspensionKind.LOST):
                scheduled.pop(event.tool_call_id, None)  # that run has begun; what comes after it is another
            case CallSuspended(suspension_kind=SuspensionKind.APPROVAL):
                _has_no_body(ledger, history, scheduled.get(event.tool_call_id))


def _denied_by_a_rule(ledger, history, event, asked, scheduled):
    name, agent = history.conversation_id, agent_of(history.conversation_id, history.events)
    seq, tool = asked
    source = history.events[(seq if scheduled is None else scheduled.arguments_at) - 1]
    arguments = arguments_in(source, event.tool_call_id)
    said = [ledger.verdict(rules, agent, tool, arguments) for rules in ledger.published]
    if not any(one.effect is RuleEffect.DENY and (one.rule or "") == event.rule for one in said):
        ledger.wrong("%s: %s was denied by the rule %r, which never said so", name, event.tool_call_id, event.rule)
    if event.ok or event.rule not in jsontext.loads(event.content)["error"]:
        ledger.wrong(
            "%s: %s was denied by the rule %r, and its result says %s", name, event.tool_call_id, event.rule, event.content
        )


def _has_no_body(ledger, history, scheduled):
    """A run that did not begin, by what its call's next event says."""
    if scheduled is None:
        return
    body = ledger.bodies.get((history.conversation_id, scheduled.tool_call_id, scheduled.attempt))
    if body is not None and not body.forgotten:
        ledger.wrong(
            "%s: attempt %d of %s ran, and the log says that rules did not let it begin",
            history.conversation_id,
            scheduled.attempt,
            scheduled.tool_call_id,
        )
