"""The audit chain: each decision is a link, receipts have its head, and what is changed in the log afterwards is found."""

import hashlib

import pytest
from writer import resolve, start

from holdfast.conversation import (
    Answer,
    Approve,
    Cancel,
    Deny,
    Principal,
    Proof,
    Review,
    Scope,
    SettledBy,
    SuspensionKind,
    evolve,
)
from holdfast.conversation.log.auditing import AuditEntry, entry_of, genesis, is_audited
from holdfast.conversation.log.chain import MOST_BREAKS, ChainCheck
from holdfast.conversation.records.commands import End, Revoke, RunRuled
from holdfast.conversation.records.state import State
from holdfast.conversation.terms.decisions import DecisionKind
from holdfast.conversation.terms.rule_verdict import RuleEffect, RuleVerdict

ANA = Principal("ana", roles=("finance", "lead"), proof=Proof.KEY)


def sha256(*parts):
    """The SHA-256 in which each part stands after its length."""
    raw = [part.encode() for part in parts]
    return hashlib.sha256(b"".join(len(one).to_bytes(8, "big") + one for one in raw)).hexdigest()


def checked(conversation_id, log, kept=None, state=None):
    """The check of a log, and its entries."""
    check = ChainCheck(conversation_id, kept)
    entries = []
    for seq, event in enumerate(log, 1):
        entries.append(check.add(seq, event))
        if state is not None:
            check.standing(state)
    check.done(0 if state is None else state.seq)
    return check, [entry for entry in entries if entry is not None]


def breaks(conversation_id, log, kept=None, state=None):
    check, _ = checked(conversation_id, log, kept, state)
    return sorted({one.seq for one in check.breaks if one.seq is not None})


def changed(log, seq, **fields):
    """The log with other fields in the event at a place."""
    return [event.model_copy(update=fields) if at == seq else event for at, event in enumerate(log, 1)]


@pytest.fixture
def decided(begun):
    """A conversation in which a scope was given, another call denied, and the grant revoked."""
    first, second = begun.call("refund", "ship")
    approve = resolve(Approve(scope=Scope("tool", "refund", level="execute"), reason="it is due"), first)
    begun.do(approve(begun.state).model_copy(update={"principal": ANA}))
    begun.resolve(Deny("not this one"), second)
    begun.finish(first)
    begun.do(Revoke(grant_id=begun.state.grants[0].grant_id, request_id="r-1", reason="enough", principal=ANA))
    return begun


def test_every_decision_is_a_link_and_the_state_keeps_the_last_head(decided):
    check, entries = checked(decided.state.conversation_id, decided.log, state=decided.state)
    assert check.breaks == []
    decisions = entries[1:]
    assert [entry.kind for entry in entries] == [
        "message_accepted",
        "suspension_settled",
        "grant_given",
        "suspension_settled",
        "grant_revoked",
    ]
    assert [entry.settled_by for entry in decisions] == ["approve", "", "deny", ""]
    assert [entry.reason for entry in decisions] == ["it is due", "tool refund up to execute", "not this one", "enough"]
    assert [entry.tool for entry in decisions] == ["refund", "", "ship", ""]
    assert {entry.format for entry in entries} == {2}
    assert {(entry.principal_id, entry.roles, entry.proof) for entry in entries} == {
        ("ana", ("finance", "lead"), "key"),
        ("", (), ""),
    }
    assert [entry.previous for entry in entries] == [genesis("c-1"), *(entry.head for entry in entries[:-1])]
    assert check.head == decided.state.audit_head == entries[-1].head
    assert all(entry.follows(entry.previous) == entry.head for entry in entries)


def test_the_hash_is_over_the_documented_strings(decided):
    _, (_, first, *_) = checked("c-1", decided.log)
    salt = decided.log[first.seq - 1].salt
    strings = [
        "holdfast.audit.2",
        first.previous,
        "c-1",
        str(first.seq),
        str(first.at),
        "suspension_settled",
        first.tool_call_id,
        first.suspension_id,
        "",
        first.shown_digest,
        "approve",
        "approve",
        "",
        sha256(salt, "it is due"),
        "ana",
        "finance\nlead",
        "key",
        first.request_id,
    ]
    assert first.head == sha256(*strings)


def test_receipts_have_the_head_of_what_they_acknowledge_and_so_have_their_duplicates(begun):
    first, second = begun.call("refund", "ship")
    given = begun.resolve(Approve(), first, decision_id="d-1").reply
    head = begun.log[given.seq - 1].head
    assert given.audit_head == head != ""
    denied = begun.resolve(Deny(), second, decision_id="d-2").reply
    assert denied.audit_head == begun.state.audit_head != head
    again = begun.resolve(Approve(), first, decision_id="d-1").reply
    assert (again.duplicate, again.audit_head) == (True, head)
    ended = begun.do(End(request_id="x-1")).reply
    assert ended.audit_head == begun.state.audit_head
    assert begun.do(End(request_id="x-1")).reply.audit_head == ended.audit_head
    assert breaks("c-1", begun.log, {given.audit_head: given.seq, denied.audit_head: None}, begun.state) == []


def test_each_receipt_of_a_batch_has_its_own_head(begun):
    first, second = begun.call("refund", "ship")
    decisions = {begun.suspension(first).suspension_id: Approve(), begun.suspension(second).suspension_id: Deny()}
    receipts = begun.resolve_many(decisions, decision_id="b-1").reply.receipts
    assert [one.audit_head for one in receipts] == [begun.log[one.seq - 1].head for one in receipts]
    assert len({one.audit_head for one in receipts}) == 2
    again = begun.resolve_many(decisions, decision_id="b-1").reply.receipts
    assert [one.audit_head for one in again] == [one.audit_head for one in receipts]


def test_cancellations_have_a_head_and_what_cancels_nothing_has_none(begun):
    begun.call("refund")
    pending = begun.cancel_pending(request_id="x-1").reply
    assert pending.audit_head == begun.state.audit_head != ""
    assert begun.cancel_pending(request_id="x-1").reply.audit_head == pending.audit_head
    turn = begun.cancel(request_id="x-2").reply
    assert turn.audit_head == begun.state.audit_head != pending.audit_head
    assert begun.cancel(request_id="x-2").reply.audit_head == turn.audit_head
    assert begun.cancel(request_id="x-3").reply.audit_head == ""
    assert breaks("c-1", begun.log, state=begun.state) == []


def test_receipts_of_messages_have_a_head_and_so_have_their_duplicates(conversation):
    started = conversation.start("hello").reply
    assert started.audit_head == conversation.state.audit_head != ""
    conversation.begin()
    sent = conversation.send("and more", message_id="m-2").reply
    assert sent.audit_head == conversation.state.audit_head != started.audit_head
    assert conversation.start("hello").reply.audit_head == started.audit_head
    assert conversation.send("and more", message_id="m-2").reply.audit_head == sent.audit_head
    kept = {started.audit_head: started.seq, sent.audit_head: sent.seq}
    assert breaks("c-1", conversation.log, kept, conversation.state) == []


@pytest.mark.parametrize(
    "fields", [{"principal": None}, {"principal": Principal("eve")}, {"text": "hullo"}, {"message_id": "m-9"}]
)
def test_who_asked_and_for_what_is_a_part_of_the_chain(conversation, fields):
    conversation.do(start(principal=ANA))
    conversation.begin()
    [call] = conversation.call("refund")
    conversation.resolve(Approve(), call)
    _, (asked, _) = checked("c-1", conversation.log, state=conversation.state)
    assert (asked.principal_id, asked.roles, asked.proof, asked.request_id) == ("ana", ANA.roles, "key", "m-1")
    assert breaks("c-1", changed(conversation.log, asked.seq, **fields), state=conversation.state) == [asked.seq]


def test_a_message_that_is_taken_out_of_the_chain_to_change_its_sender_is_found(decided):
    unlinked = changed(decided.log, 2, principal=Principal("eve"), salt="", head="")
    assert breaks("c-1", unlinked, state=decided.state) == [next(e.seq for e in checked("c-1", decided.log)[1] if e.seq > 2)]


def test_the_message_that_led_to_a_call_is_part_of_what_was_shown(begun):
    [call] = begun.call("refund")
    at = begun.suspension(call).seq
    assert begun.log[at - 1].message_at == 2
    begun.resolve(Approve(), call)
    assert breaks("c-1", changed(begun.log, at, message_at=1), state=begun.state) == [at]


def test_an_expiry_a_grants_release_and_a_rules_denial_are_links_too(begun):
    first, second, third = begun.call("refund", "refund", "lookup")
    begun.resolve(Approve(scope=Scope("tool", "refund", level="execute")), first)
    begun.do(
        RunRuled(
            effect_id=begun.run(third).effect_id, ruled=RuleVerdict(effect=RuleEffect.DENY, rule="no-lookups", reason="closed")
        )
    )
    for one in (first, second):
        begun.finish(one)
    [late] = begun.call("ship")
    begun.wake(at=begun.suspension(late).expires_at)
    _, entries = checked("c-1", begun.log, state=begun.state)
    entries = entries[1:]
    assert [(entry.kind, entry.settled_by) for entry in entries] == [
        ("suspension_settled", "approve"),
        ("grant_given", ""),
        ("suspension_settled", "grant"),
        ("call_resolved", "rule"),
        ("suspension_settled", "expiry"),
    ]
    assert entries[2].subject == entries[1].subject
    assert entries[3].subject == "no-lookups"


@pytest.mark.parametrize("kind", SuspensionKind)
def test_what_was_shown_is_part_of_the_link(begun, kind):
    waiting = begun.waiting_for(kind)
    at = begun.suspension(waiting).seq
    shown = begun.suspension(waiting).shown
    begun.resolve(Deny("no") if kind is SuspensionKind.LIMIT else Cancel("no"), waiting)
    (settled,) = [event for event in begun.log if event.kind == "suspension_settled"]
    assert settled.shown == shown != ""
    for fields in ({"prompt": "Harmless?"}, {"title": "Harmless"}, {"report_md": "ok"}, {"payload": "{}"}, {"tool": "lookup2"}):
        assert breaks("c-1", changed(begun.log, at, **fields), state=begun.state) == [at]


def test_arguments_that_are_not_those_that_were_shown_are_found(begun):
    [call] = begun.call("refund")
    begun.resolve(Approve(), call)
    at = next(seq for seq, event in enumerate(begun.log, 1) if event.kind == "model_answered")
    calls = tuple(one.model_copy(update={"arguments": '{"amount":1}'}) for one in begun.log[at - 1].calls)
    assert breaks("c-1", changed(begun.log, at, calls=calls), state=begun.state) == [at]


def test_edited_arguments_and_answers_are_in_the_chain_by_their_digest(begun):
    first, second = begun.call("refund", "ask")
    begun.resolve(Approve({"amount": 7}), first)
    begun.resolve(Answer("blue"), second)
    _, (_, *entries) = checked("c-1", begun.log)
    salts = [begun.log[entry.seq - 1].salt for entry in entries]
    assert [entry.body_digest for entry in entries] == [sha256(salts[0], '{"amount":7}'), sha256(salts[1], '"blue"')]
    assert breaks("c-1", changed(begun.log, entries[0].seq, body='{"amount":70}')) == [entries[0].seq]


def test_equal_answers_have_other_digests_and_none_can_be_guessed_without_its_salt(conversations):
    found = set()
    for salt in ("pepper", "paprika"):
        begun = conversations()
        begun.salt = salt
        calls = begun.begun().call("ask", "ask", "refund")
        decisions = {begun.suspension(call).suspension_id: Answer("yes") for call in calls[:2]}
        begun.resolve_many(decisions, decision_id="b-1")
        begun.resolve(Deny("yes"), calls[2])
        _, (_, *entries) = checked("c-1", begun.log, state=begun.state)
        found |= {entry.body_digest for entry in entries}
        erased = [event.model_copy(update={"salt": ""}) for event in begun.log]
        assert all(salt not in event.model_dump_json() for event in begun.log)
        assert not {entry_of("c-1", 1, event).body_digest for event in erased if is_audited(event)} & found
    assert len(found) == 6


def test_an_export_holds_without_the_bodies_and_their_salts(decided):
    _, entries = checked("c-1", decided.log)
    lines = [entry.to_dict() for entry in entries]
    salts = {event.salt for event in decided.log if hasattr(event, "salt")} - {""}
    assert len(salts) == len(entries) + 2
    assert not any(salt in str(line) for salt in salts for line in lines)
    assert [AuditEntry(**line).follows(line["previous"]) for line in lines] == [line["head"] for line in lines]


def test_a_reviews_verdict_is_said_in_words(begun):
    waiting = begun.waiting_for(SuspensionKind.REVIEW)
    begun.resolve(Review("review", "shorter"), waiting)
    _, (_, entry) = checked("c-1", begun.log)
    assert (entry.decision, entry.reason) == ("review", "review: shorter")


@pytest.mark.parametrize(
    "fields",
    [
        {"at": 5},
        {"by": SettledBy.APPROVE},
        {"body": '"yes"'},
        {"reason": "because"},
        {"principal": Principal("eve")},
        {"decision_id": "d-other"},
        {"suspension_id": "s-other"},
        {"tool_call_id": "call_other"},
        {"decision": DecisionKind.APPROVE},
        {"grants": ("g1",)},
        {"shown": "0" * 64},
        {"salt": "0" * 32},
        {"salt": ""},
        {"head": "0" * 64},
        {"head": ""},
    ],
    ids=lambda fields: next(iter(fields)),
)
def test_any_change_of_a_decision_breaks_the_chain_there(decided, fields):
    seq = next(seq for seq, event in enumerate(decided.log, 1) if getattr(event, "decision", None) == "deny")
    found = breaks("c-1", changed(decided.log, seq, **fields), state=decided.state)
    assert seq in found
    shown = next(at for at, event in enumerate(decided.log, 1) if event.kind == "call_suspended" and event.tool == "ship")
    assert set(found) <= {shown, seq, *range(seq, decided.state.seq + 1)}


def test_a_log_that_is_cut_off_ends_before_its_state(decided):
    assert breaks("c-1", decided.log[:-1], state=decided.state) == [decided.state.seq]


def test_a_log_that_was_written_anew_as_a_whole_is_found_by_a_receipt_that_somebody_kept(conversations):
    true, forged = conversations().begun(), conversations().begun()
    [first], [other] = true.call("refund"), forged.call("refund")
    kept = true.resolve(Deny("never"), first).reply
    forged.resolve(Approve(), other)
    assert breaks("c-1", forged.log, state=forged.state) == []
    check, _ = checked("c-1", forged.log, {kept.audit_head: kept.seq}, forged.state)
    (found,) = check.breaks
    assert found.seq == kept.seq
    assert "of a receipt is not in the chain" in found.problem
    check, _ = checked("c-1", forged.log, {kept.audit_head: None}, forged.state)
    assert [one.seq for one in check.breaks] == [None]
    assert breaks("c-1", true.log, {kept.audit_head: kept.seq + 1}, true.state) == [kept.seq + 1]


def test_another_conversations_chain_does_not_hold_here(decided):
    assert breaks("c-2", decided.log) != []


def test_a_state_with_another_head_is_found(decided):
    other = decided.state.model_copy(update={"audit_head": "0" * 64})
    assert breaks("c-1", decided.log, state=other) == [decided.state.seq]


def test_what_an_older_release_decided_stands_before_the_chain_and_breaks_nothing(begun):
    """An older release has written no heads; the chain begins with the first decision of this one."""
    [first] = begun.call("refund")
    begun.resolve(Approve(), first)
    begun.finish(first)
    later = ("head", "salt", "shown")
    log = [event.model_copy(update={name: "" for name in later if hasattr(event, name)}) for event in begun.log]
    begun.state = State(conversation_id="c-1")
    for event in log:
        begun.state = evolve(begun.state, event)
    begun.log = log
    [second] = begun.call("refund")
    begun.resolve(Deny(), second)
    check, entries = checked("c-1", begun.log, state=begun.state)
    assert check.breaks == []
    assert [bool(entry.head) for entry in entries] == [False, True]
    assert entries[1].previous == genesis("c-1")


def test_a_chain_of_format_1_holds_as_it_did_and_goes_on_in_format_2(conversations):
    old = conversations()
    old.salt = ""
    first, second, third = old.begun().call("refund", "ship", "ask")
    approve = resolve(Approve({"amount": 7}, reason="it is due"), first, decision_id="d-1")
    old.do(approve(old.state).model_copy(update={"principal": ANA}))
    old.resolve(Deny("not this one"), second, decision_id="d-2")
    kept = old.resolve(Answer("blue"), third, decision_id="d-3").reply
    assert kept.audit_head == "f27b71aeb013c06c19d01a0ed2bc14b7a55f8b7e35c381c4e1ab03de6b7c131d"  # as that release had it
    old.salt = "pepper"
    old.finish(first)
    old.cancel(request_id="x-1")
    check, entries = checked("c-1", old.log, {kept.audit_head: kept.seq}, old.state)
    assert check.breaks == []
    assert [(entry.kind, entry.format) for entry in entries] == [*[("suspension_settled", 1)] * 3, ("turn_cancelled", 2)]
    assert entries[0].body_digest == hashlib.sha256(b'{"amount":7}').hexdigest()
    assert breaks("c-1", changed(old.log, kept.seq, body='"red"'), state=old.state) == [kept.seq]
    assert kept.seq in breaks("c-1", changed(old.log, kept.seq, salt="0" * 32), state=old.state)


def test_an_entry_that_cannot_be_read_breaks_the_chain_there_and_nowhere_else(decided):
    seqs = [seq for seq, event in enumerate(decided.log, 1) if is_audited(event)]
    check = ChainCheck("c-1")
    entries = []
    for seq, event in enumerate(decided.log, 1):
        entries.append(check.unreadable(seq, "corrupt") if seq == seqs[2] else check.add(seq, event))
        check.standing(decided.state)
    check.done(decided.state.seq)
    assert [one.seq for one in check.breaks] == [seqs[2]]
    assert [entry.problem for entry in entries if entry is not None] == [
        None,
        None,
        "corrupt",
        "the head before it is not known",
        None,
    ]


def test_a_hole_in_the_log_is_found(decided):
    check = ChainCheck("c-1")
    for seq, event in enumerate(decided.log, 1):
        if seq != 5:
            check.add(seq, event)
    assert check.breaks[0].seq == 5


def test_the_number_of_breaks_is_bounded():
    check = ChainCheck("c-1")
    for seq in range(1, 5 * MOST_BREAKS):
        check.unreadable(seq, "corrupt")
    assert len(check.breaks) == MOST_BREAKS


def test_an_entry_says_the_same_as_the_event_it_is_of(decided):
    for seq, event in enumerate(decided.log, 1):
        if is_audited(event):
            entry = entry_of("c-1", seq, event)
            assert (entry.seq, entry.at, entry.kind) == (seq, event.at, event.kind)
            assert set(entry.to_dict()) >= {"principal_id", "roles", "proof", "shown_digest", "body_digest", "head", "previous"}
