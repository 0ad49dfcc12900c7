"""What grants must have led to: who was asked, and what ran without asking, by a reading of the log that is nobody else's.

What covers what is worked out here once more, by other means than the product's: from the grants that the log gives and
revokes, and from the arguments of each call.
"""

import math
import re

from holdfast.conversation import Approval, Receipt, Resolve, SuspensionKind
from holdfast.conversation.judging import granting
from holdfast.conversation.records.calls import CallStatus
from holdfast.conversation.records.events import (
    CallSuspended,
    GivenRevoked,
    GrantGiven,
    GrantRevoked,
    ModelAnswered,
    RunScheduled,
    SettledBy,
    SuspensionSettled,
)
from holdfast.persistence import PAUSE_LAG_MS
from holdfast.persistence.views import arguments_in

from . import shop
from .voters import ANA

LEVELS = ("read", "write", "execute", "admin")
BY_A_PERSON = (SettledBy.APPROVE, SettledBy.REVIEW, SettledBy.REDISPATCH)


def standing(events, at):
    """The grants that a log gives, and neither revokes nor has end by then."""
    found = {}
    for event in events:
        if isinstance(event, GrantGiven):
            found[event.grant.grant_id] = event.grant
        elif isinstance(event, GrantRevoked):
            found.pop(event.grant_id, None)
        elif isinstance(event, GivenRevoked):
            for grant_id in event.grants:
                found.pop(grant_id, None)
    return [grant for grant in found.values() if grant.ends_at is None or at < grant.ends_at]


def standing_for(events, at, terms):
    """Of the grants that stand, those given by somebody who might decide a call with these terms, too."""
    found = standing(events, at)
    if terms is None:
        return found
    alone = terms.minimum == 1 and not terms.not_requester and not terms.each
    return [grant for grant in found if alone and _terms_where_given(events, grant) == terms]


def _terms_where_given(events, grant):
    settled = events[grant.seq - 1]
    return next(
        event.approvers for event in events if isinstance(event, CallSuspended) and event.suspension_id == settled.suspension_id
    )


def covered(grants, touched):
    """Whether grants cover all that a call touches; the values here have no slash but in paths."""
    return bool(touched) and all(any(_covers(grant, *target) for grant in grants) for target in touched)


def _covers(grant, kind, value, level):
    pattern = re.escape(grant.pattern).replace(r"\*\*", ".*").replace(r"\*", "[^/]*")
    if grant.kind != kind or LEVELS.index(grant.level) < LEVELS.index(level) or ".." in value:
        return False
    return re.fullmatch(pattern, value) is not None


def touched(events, tool, call, arguments_at):
    """What a call touches: kind, value and level of each target."""
    declared = shop.TOUCHES.get(tool)
    if declared is None:
        return [("tool", tool, "execute")]
    arguments = arguments_in(events[arguments_at - 1], call)
    return [(target.kind, target.value, target.level) for target in declared(arguments)]


def covered_in(events, call, scheduled, at):
    """Whether the grants of a log let a call run at a time."""
    grants = standing_for(events, at, scheduled.approvers)
    return covered(grants, touched(events, scheduled.tool, call, scheduled.arguments_at))


def a_claim_by_grants(ledger, conversation_id, events, scheduled, at):
    """A run that grants alone release is claimed: each of them stands."""
    ended = set(scheduled.grants) - {grant.grant_id for grant in standing(events, at)}
    if ended:
        ledger.wrong(
            "%s: %s of %s is claimed, and %s has ended",
            conversation_id,
            scheduled.attempt,
            scheduled.tool_call_id,
            sorted(ended),
        )
    of_ana = [grant.grant_id for grant in standing(events, at) if grant.grant_id in scheduled.grants and grant.by == ANA]
    if of_ana and ledger.key_gone_at is not None and at > ledger.key_gone_at + PAUSE_LAG_MS:
        problem = "%s: %s is claimed by %s of Ana, whose key has been gone for longer than a reading serves"
        ledger.wrong(problem, conversation_id, scheduled.tool_call_id, of_ana)


def grants_are_behind_what_runs(ledger, history):
    """Each call that nobody has approved runs by grants that cover it, and none is asked about that they cover."""
    if not any(isinstance(event, GrantGiven) for event in history.events):
        _no_grant_is_named(ledger, history)
        return
    approved, before, sources, begins, terms = set(), {}, {}, _begins_of_appends(history), {}
    for seq, event in enumerate(history.events, 1):
        events = history.events[:seq]
        match event:
            case ModelAnswered():
                sources |= {call.tool_call_id: (call.name, seq) for call in event.calls}
            case SuspensionSettled(by=by) if by in BY_A_PERSON:
                approved.add(event.tool_call_id)
            case SuspensionSettled(by=SettledBy.GRANT):
                _runs_by_grants(ledger, history, event, events, *sources[event.tool_call_id], terms[event.suspension_id])
                if not any(isinstance(one, GrantGiven) for one in history.events[begins[seq] : seq]):
                    _wrong(ledger, history, event, "is let go by a grant that was not given with it")
            case RunScheduled():
                again = before.get(event.tool_call_id)
                before[event.tool_call_id] = event
                if again is not None and (again.grants, again.resumed) == (event.grants, event.resumed):
                    continue  # it was lost: whether its grants stand is looked at when it is claimed
                if event.grants:
                    _runs_by_grants(ledger, history, event, events, event.tool, event.arguments_at, event.approvers)
                elif event.approval is Approval.REQUIRED and event.tool_call_id not in approved:
                    _wrong(ledger, history, event, "runs, and nobody has approved it")
            case CallSuspended(suspension_kind=SuspensionKind.APPROVAL):
                tool, place = sources[event.tool_call_id]
                terms[event.suspension_id] = event.approvers
                if event.tool_call_id not in approved and covered(
                    standing_for(events, event.at, event.approvers), touched(events, tool, event.tool_call_id, place)
                ):
                    _wrong(ledger, history, event, "is asked about, and grants cover it")
    _grants_are_few(ledger, history)
    _siblings_are_let_go(ledger, history, sources)


def _begins_of_appends(history):
    """For each event the log's length before its append."""
    begins = {}
    for first, last in zip(history.places, history.places[1:], strict=False):
        begins |= dict.fromkeys(range(first + 1, last + 1), first)
    return begins


def _wrong(ledger, history, event, problem):
    about = getattr(event, "tool_call_id", None) or event.grant.grant_id
    ledger.wrong("%s: %s %s (%s at %d)", history.conversation_id, about, problem, event.kind, event.at)


def _no_grant_is_named(ledger, history):
    for event in history.of(RunScheduled, SuspensionSettled):
        if event.grants:
            _wrong(ledger, history, event, f"names the grants {event.grants}, and none was given")


def _runs_by_grants(ledger, history, event, events, tool, place, terms):
    named = [grant for grant in standing_for(events, event.at, terms) if grant.grant_id in event.grants]
    if len(named) != len(event.grants) or not covered(named, touched(events, tool, event.tool_call_id, place)):
        _wrong(ledger, history, event, f"runs by {event.grants}, which do not cover it")


def _grants_are_few(ledger, history):
    for seq, event in enumerate(history.events, 1):
        if isinstance(event, GrantGiven):
            most = len(standing(history.events[:seq], event.at))
            if most > granting.MOST_GRANTS:
                _wrong(ledger, history, event, f"is the {most}. grant at a time")


def _siblings_are_let_go(ledger, history, sources):
    """After an append that gives a grant, no call waits for an approval that grants cover."""
    for first, last in zip(history.places, history.places[1:], strict=False):
        appended = history.events[first:last]
        if not any(isinstance(event, GrantGiven) for event in appended):
            continue
        events = history.events[:last]
        for call in history.states[last].calls:
            waits = call.status is CallStatus.AWAITING and call.suspension is not None
            if not waits or call.suspension.kind is not SuspensionKind.APPROVAL:
                continue
            tool, place = sources[call.tool_call_id]
            grants = standing_for(events, appended[-1].at, call.approvers)
            if covered(grants, touched(events, tool, call.tool_call_id, place)):
                _wrong(ledger, history, appended[-1], f"is the end of an append after which {call.tool_call_id} still waits")


def grants_are_what_was_asked_for(ledger, history, asked):
    """An acknowledged decision has given the grant of its scope, and none without one."""
    if not isinstance(asked.command, Resolve) or not isinstance(asked.answer, Receipt):
        return
    seq, scope = asked.answer.seq, asked.command.ruling.scope
    given = [event for event in history.of(GrantGiven) if event.grant.seq == seq]
    wanted = []
    if scope is not None:
        ends_at = None if scope.ends_s is None else asked.answer.accepted_at + math.ceil(scope.ends_s * 1000)
        wanted = [(f"g{seq}", scope.kind, scope.pattern, scope.level, ends_at)]
    if [(one.grant.grant_id, one.grant.kind, one.grant.pattern, one.grant.level, one.grant.ends_at) for one in given] != wanted:
        ledger.wrong("%s: the decision at %d gave %s, and asked for %s", history.conversation_id, seq, given, scope)
