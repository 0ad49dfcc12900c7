"""The one table of (status, command), walked whole."""

import pytest
from writer import resolve_many

from holdfast.conversation import (
    TABLE,
    Answer,
    ApproverTerms,
    CancelPending,
    CancelTurn,
    Claim,
    CompactNow,
    End,
    EscalateCall,
    GiveBack,
    Interrupt,
    ModelFailed,
    ModelReplied,
    Principal,
    Reschedule,
    Resolve,
    Revoke,
    RevokeGiven,
    RunFinished,
    RunRuled,
    RunSuspended,
    Send,
    Snooze,
    Start,
    Status,
    Summarized,
    Tell,
    Wake,
    Withdraw,
    outstanding,
)
from holdfast.conversation.judging.table import Handled, Ignored, Refused
from holdfast.conversation.records.commands import COMMANDS, Assign, Comment, RunLost, TurnPrepared
from holdfast.conversation.terms.decisions import DecisionRecord
from holdfast.conversation.terms.rule_verdict import RuleEffect, RuleVerdict
from holdfast.errors import BatchRefused, InvalidInput, NotPermitted, NotQueued, StaleCall

KINDS = [command.model_fields["kind"].default for command in COMMANDS]
MACHINE = [status for status in Status if status is not Status.QUARANTINED]
"""The statuses of the machine; quarantine is a mark beside the log."""
PAIRS = [(status, kind) for status in MACHINE for kind in KINDS]


def _idle(conversation):
    conversation.begun().reply()


def _failed(conversation):
    conversation.begun().fail_model()


def _executing(conversation):
    conversation.begun().call("lookup")


def _awaiting(conversation):
    conversation.begun().call("ask")


def _awaiting_beside_a_run(conversation):
    conversation.begun().call("lookup", "ask")


def _ended(conversation):
    _idle(conversation)
    conversation.end()


def _ended_in_a_turn(conversation):
    _awaiting(conversation)
    conversation.end()


STATES = {
    Status.ABSENT: [lambda _conversation: None],
    Status.IDLE: [_idle],
    Status.GENERATING: [lambda conversation: conversation.start(), lambda conversation: conversation.begun()],
    Status.EXECUTING_TOOLS: [_executing],
    Status.AWAITING_INPUT: [_awaiting, _awaiting_beside_a_run],
    Status.FAILED: [_failed],
    Status.ENDED: [_ended, _ended_in_a_turn],
}
"""Every way, up to what the table distinguishes, in which a conversation can have a status."""


def _command(conversation, kind):
    """A command of that kind which fits the state as well as any can."""
    effects = outstanding(conversation.state)
    effect_id = effects[0].effect_id if effects else "t1.m1"
    awaiting = [call.tool_call_id for call in conversation.state.calls if call.suspension is not None]
    return {
        "start": Start(agent="desk", app="shop:app", text="another", message_id="m-new"),
        "send": Send(text="another", message_id="m-new"),
        "interrupt": Interrupt(text="another", request_id="x-new"),
        "withdraw": Withdraw(message_id="m-9", message_seq=9, request_id="x-new"),
        "compact": CompactNow(request_id="x-new"),
        "reschedule": Reschedule(message_id="m-9", message_seq=9, priority=1, request_id="x-new"),
        "resolve": Resolve(tool_call_id=(awaiting or ["call-9"])[0], ruling=DecisionRecord.of(Answer(1)), decision_id="d-new"),
        "resolve_many": resolve_many({(awaiting or ["call-9"])[0]: Answer(1)})(conversation.state),
        "assign": Assign(to="ana", request_id="x-new", **_pending(conversation.state)),
        "comment": Comment(text="looks odd", request_id="x-new", **_pending(conversation.state)),
        "snooze": Snooze(for_s=60, request_id="x-new", principal=Principal("ana"), **_pending(conversation.state)),
        "escalate": EscalateCall(approvers=ApproverTerms(), request_id="x-new", **_pending(conversation.state)),
        "claim": Claim(client_id="tab-1", request_id="x-new", **_pending(conversation.state)),
        "give_back": GiveBack(client_id="tab-1", request_id="x-new", **_pending(conversation.state)),
        "tell": Tell(suspension_id=_pending(conversation.state)["suspension_id"], source="c-2", ok=True, content="1"),
        "cancel": CancelTurn(request_id="x-new"),
        "cancel_pending": CancelPending(request_id="x-new"),
        "revoke": Revoke(request_id="x-new", grant_id="g1"),
        "revoke_given": RevokeGiven(request_id="x-new", by="ana"),
        "end": End(request_id="x-new"),
        "turn_prepared": TurnPrepared(effect_id=effect_id, code="code-1"),
        "model_replied": ModelReplied(effect_id=effect_id, content="hm"),
        "model_failed": ModelFailed(effect_id=effect_id, error="overloaded"),
        "summarized": Summarized(effect_id=effect_id, summary="notes", boundary=1, messages=1),
        "run_finished": RunFinished(effect_id=effect_id, ok=True, content='{"ok":true,"result":1}'),
        "run_suspended": RunSuspended(effect_id=effect_id, title="look"),
        "run_ruled": RunRuled(effect_id=effect_id, ruled=RuleVerdict(effect=RuleEffect.DENY)),
        "run_lost": RunLost(effect_id=effect_id),
        "wake": Wake(),
    }[kind]


def _pending(state):
    """The first suspended call, for commands that name one; one that nobody knows where none is."""
    for call in state.calls:
        if call.suspension is not None:
            return {"tool_call_id": call.tool_call_id, "suspension_id": call.suspension.suspension_id}
    return {"tool_call_id": "call-9", "suspension_id": "s-9"}


def test_the_table_has_a_rule_for_every_status_and_every_command():
    assert set(TABLE) == set(MACHINE)
    for status, row in TABLE.items():
        assert set(row) == set(KINDS), status


def test_every_status_can_be_built(conversations):
    assert set(STATES) == set(MACHINE)
    for status, builders in STATES.items():
        for build in builders:
            conversation = conversations()
            build(conversation)
            assert conversation.status is status


@pytest.mark.parametrize(("status", "kind"), PAIRS, ids=[f"{status}-{kind}" for status, kind in PAIRS])
def test_decide_does_what_the_table_says(conversations, status, kind):
    rule = TABLE[status][kind]
    heeded = []
    for build in STATES[status]:
        # given a conversation of that status
        conversation = conversations()
        build(conversation)
        # when the command comes, then the rule is kept
        match rule:
            case Refused(error):
                with conversation.unchanged(), pytest.raises(error) as refusal:
                    conversation.do(_command(conversation, kind))
                assert type(refusal.value) is error
                assert refusal.value.conversation_id == "c-1"
            case Ignored(why):
                judgement = conversation.do(_command(conversation, kind))
                assert (judgement.events, judgement.reply, judgement.ignored) == ((), None, why)
            case Handled():
                heeded.append(_heeded(conversation, _command(conversation, kind)))
    if rule == Handled():
        assert any(heeded), "handled, yet ignored in every state of this status"


def _heeded(conversation, command):
    """Whether the command was judged on its merits; a refusal of the table would be raised."""
    try:
        judgement = conversation.do(command)
    except (StaleCall, BatchRefused, InvalidInput, NotPermitted, NotQueued):
        return True
    return judgement.ignored is None or command.kind == "wake"


@pytest.mark.parametrize("status", [status for status in MACHINE if status not in (Status.ABSENT, Status.ENDED)])
def test_a_known_duplicate_is_answered_before_the_table_is_asked(conversations, status):
    # given a conversation that was started with m-1
    conversation = conversations()
    STATES[status][0](conversation)
    first = Start(agent="desk", app="shop:app", text="hello", message_id="m-1")
    # when the same start comes again
    with conversation.unchanged():
        judgement = conversation.do(first)
    # then it is the first receipt, although the table refuses a start
    assert judgement.reply.duplicate
    assert judgement.reply.seq == 2


def test_duplicates_are_answered_after_the_end_too(begun):
    # given a message, a decision, a cancellation and an end, all recorded
    [call] = begun.call("ask")
    decided = begun.resolve(Answer(1), call, decision_id="d-1").reply
    begun.send("more", message_id="m-2")
    cancelled = begun.cancel("x-1").reply
    ended = begun.end("x-2").reply
    # when each comes again after the end, then each gets its first reply
    with begun.unchanged():
        assert begun.resolve(Answer(1), call, decision_id="d-1").reply.seq == decided.seq
        assert begun.send("more", message_id="m-2").reply.duplicate
        assert begun.cancel("x-1").reply == cancelled.model_copy(update={"duplicate": True})
        again = begun.end("x-2").reply
    assert (again.seq, again.accepted_at, again.duplicate) == (ended.seq, ended.accepted_at, True)
