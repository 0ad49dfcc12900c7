"""What an event owes: notices to the targets that the spec names for its kind, and to nobody else."""

import pytest
from pydantic import ValidationError

from holdfast.conversation import Answer, State, SuspensionKind, Tell
from holdfast.conversation.log.owed import (
    Envelope,
    Owed,
    addressed,
    lane_of,
    notice_kind,
    notice_target,
    notified,
    owed_by,
    owes,
    own_target,
    quarantine_owes,
)
from holdfast.conversation.terms.spec import AgentSpec, NoticeKind, NotifySpec


def spec_with(**targets):
    notify = tuple(NotifySpec(name=name, events=events) for name, events in targets.items())
    return AgentSpec(name="desk", model="test/model", notify=notify)


def notices(conversation):
    return [kind for event in conversation.log if (kind := notice_kind(event)) is not None]


def test_a_call_is_suspended_and_settled_and_its_turn_completed(conversation):
    conversation.begun()
    conversation.waiting_for(SuspensionKind.ELICITATION)
    conversation.resolve(Answer("Ann"))
    conversation.reply("done")
    conversation.end()
    expected = [NoticeKind.SUSPENDED, NoticeKind.SETTLED, NoticeKind.TURN_COMPLETED, NoticeKind.ENDED]
    assert notices(conversation) == expected


def test_a_lost_run_is_no_suspension_like_others(conversation):
    conversation.begun().waiting_for(SuspensionKind.LOST)
    assert notices(conversation) == [NoticeKind.LOST_RUN]


def test_a_deadline_that_passes_is_no_decision(conversation):
    conversation.begun().waiting_for(SuspensionKind.APPROVAL)
    conversation.wake(at=conversation.state.due_at)
    assert notices(conversation) == [NoticeKind.SUSPENDED, NoticeKind.EXPIRED]


def test_a_turn_fails(conversation):
    conversation.begun().fail_model()
    assert notices(conversation) == [NoticeKind.TURN_FAILED]


def test_a_cancelled_turn_settles_what_waits(conversation):
    conversation.begun().waiting_for(SuspensionKind.CLIENT_EXEC)
    conversation.cancel()
    assert notices(conversation) == [NoticeKind.SUSPENDED, NoticeKind.SETTLED]


def test_each_target_is_told_of_its_own_events(conversation):
    conversation.begun().end()
    spec = spec_with(ops=(NoticeKind.ENDED,), audit=(NoticeKind.SUSPENDED, NoticeKind.ENDED), sales=(NoticeKind.SUSPENDED,))
    app = conversation.state.app
    before = State(conversation_id="c-1")
    assert owes(conversation.log[-1], before, conversation.state, spec) == (
        Owed("ended", f"notice:ops:{app}"),
        Owed("ended", f"notice:audit:{app}"),
    )
    assert owed_by(conversation.log, before, conversation.state, spec) == [
        Envelope("ended", f"notice:{name}:{app}", len(conversation.log), n, 0) for n, name in enumerate(("ops", "audit"))
    ]


def test_without_targets_or_spec_nothing_is_owed(conversation):
    conversation.begun().end()
    for spec in (None, spec_with()):
        assert owed_by(conversation.log, State(conversation_id="c-1"), conversation.state, spec) == []
        assert quarantine_owes(conversation.state, spec) == ()


@pytest.mark.parametrize("ended", ["told", "cancelled", "expired"])
def test_nobody_is_told_of_a_wait_for_a_machine(conversation, ended):
    conversation.begun()
    waiting = conversation.waiting_for(SuspensionKind.DELEGATE)
    suspended, between = len(conversation.log), conversation.state
    spec = spec_with(ops=tuple(NoticeKind))
    before = between.model_copy(update={"seq": suspended - 1})
    suspension = conversation.suspension(waiting)
    child = own_target(suspension.source)
    assert owed_by(conversation.log[-1:], before, between, spec) == [Envelope("start", child, suspended, 0, 0)]
    if ended == "told":
        conversation.do(Tell(suspension_id=suspension.suspension_id, source=suspension.source, ok=True, content="1"))
    elif ended == "cancelled":
        conversation.cancel_pending()
    else:
        conversation.wake(at=suspension.expires_at)
    assert "suspension_settled" in conversation.kinds(suspended)
    owed = owed_by(conversation.log[suspended:], between, conversation.state, spec)
    assert owed == ([] if ended == "told" else [Envelope("end", child, suspended + 1, 0, 0)])


def test_a_quarantine_owes_those_who_want_to_know_of_it(conversation):
    conversation.begun()
    spec = spec_with(ops=(NoticeKind.ENDED,), audit=(NoticeKind.QUARANTINED,))
    assert quarantine_owes(conversation.state, spec) == (Owed("quarantined", f"notice:audit:{conversation.state.app}"),)


def test_targets_say_what_they_are():
    target = notice_target("ops", "shop.desk:app")
    assert (notified(target), addressed(target), lane_of(target)) == (("ops", "shop.desk:app"), None, target)
    own = own_target("c-1:2")
    assert (notified(own), addressed(own), lane_of(own)) == (None, "c-1:2", "own")


@pytest.mark.parametrize("text", ["", "own:", "own:../x", "notice:", "notice:ops", "notice:a b:app", "else:c-1"])
def test_a_text_that_is_no_target_is_none(text):
    assert notified(text) is None
    assert addressed(text) is None


def test_a_message_has_an_id_of_its_own():
    first = Envelope("ended", "notice:ops:app", 7, 0, 1_700_000_000_000)
    others = [
        Envelope("settled", "notice:ops:app", 7, 0, 1_700_000_000_000),
        Envelope("ended", "notice:audit:app", 7, 0, 1_700_000_000_000),
        Envelope("ended", "notice:ops:app", 8, 0, 1_700_000_000_000),
        Envelope("ended", "notice:ops:app", 7, 1, 1_700_000_000_000),
        Envelope("ended", "notice:ops:app", 7, 0, 1_700_000_000_001),
    ]
    ids = {first.message_id("c-1"), first.message_id("c-2"), *(one.message_id("c-1") for one in others)}
    assert len(ids) == 7
    assert first.message_id("c-1") == Envelope(*("ended", "notice:ops:app", 7, 0, 1_700_000_000_000)).message_id("c-1")


@pytest.mark.parametrize("name", ["", "a:b", "a|b", "a b", "ä", "a\n", "x" * 65])
def test_a_target_has_a_plain_name(name):
    with pytest.raises(ValidationError):
        NotifySpec(name=name, events=())


def test_a_spec_without_targets_keeps_its_digest():
    plain = AgentSpec(name="desk", model="test/model")
    assert plain.digest == spec_with().digest != spec_with(ops=()).digest
    assert "notify" not in plain.model_dump_json(exclude_defaults=True)
