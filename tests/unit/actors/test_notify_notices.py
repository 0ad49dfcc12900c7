"""Notices as they are read from the log, and in the forms in which they are told."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from owed_requests import request, requests_of
from writer import Writer, begin, call, fail_model, finish, reply, resolve, start, suspend

from holdfast.actors.worker.notify import notices
from holdfast.actors.worker.notify.addresses import Refused
from holdfast.actors.worker.notify.mail import mail_of
from holdfast.actors.worker.notify.notices import notice_of
from holdfast.actors.worker.notify.posts import escaped, payload
from holdfast.actors.worker.notify.wording import LONGEST, headline, lines, one_line
from holdfast.agent.notice import Notice
from holdfast.agent.notify import Email
from holdfast.conversation import Answer, Approve, Deny, Principal, Review, SuspensionKind
from holdfast.conversation.records.calls import PendingView
from holdfast.conversation.terms.spec import NoticeKind
from holdfast.errors import SettledBy
from holdfast.persistence import MemoryStore

ANN, KIM = Principal("ann"), Principal("kim")
OPS = Email("ops@example.com", sender="desk@example.com", host="smtp.example.com", content=True)


async def told(*steps, of="ops"):
    """The notices of a conversation with these steps."""
    store = MemoryStore()
    writer = await Writer.of(store, "c-1")
    for step in steps:
        await writer.do(step)
    return [await notice_of(store, one) for one in await requests_of(store, "c-1", of)]


async def test_a_call_waits_and_is_denied():
    refund = call(("refund", '{"cents": 500}'), prompt="Refund 5 euro?")
    no = resolve(Deny("too much"), principal=KIM)
    waits, settled, completed = await told(start(principal=ANN), begin(), refund, no, reply("sorry"))
    assert (waits.kind, waits.conversation_id, waits.agent) == (NoticeKind.SUSPENDED, "c-1", "desk")
    assert (waits.call.tool, waits.call.arguments, waits.call.prompt) == ("refund", {"cents": 500}, "Refund 5 euro?")
    assert (waits.call.kind, waits.call.requester.id) == (SuspensionKind.APPROVAL, "ann")
    assert waits.call.problem is None
    assert waits.by is None
    assert waits.at == waits.call.created_at
    assert (settled.kind, settled.by, settled.decision, settled.reason) == ("settled", SettledBy.DENY, "deny", "too much")
    assert settled.principal.id == "kim"
    assert settled.call == waits.call  # found in the log before it
    assert (completed.kind, completed.reply, completed.call) == (NoticeKind.TURN_COMPLETED, "sorry", None)


async def test_the_reason_of_a_review_is_in_its_notes():
    *_, settled = await told(start(), begin(), call("lookup"), suspend(), resolve(Review("allow", notes="fine")))
    assert (settled.decision, settled.reason) == ("review", "fine")


async def test_an_answer_has_no_reason_of_its_body():
    *_, settled = await told(start(), begin(), call("ask"), resolve(Answer("blue", reason="her favourite")))
    assert (settled.decision, settled.reason) == ("answer", "her favourite")


async def test_a_turn_fails():
    (failed,) = await told(start(), begin(), fail_model("no model"))
    assert (failed.kind, failed.error) == (NoticeKind.TURN_FAILED, "no model")


async def test_a_repetition_has_the_same_id_and_each_target_others():
    steps = start(), begin(), call("refund")
    first, again, other = await told(*steps), await told(*steps), await told(*steps, of="audit")
    assert first[0].id.startswith("msg_")
    assert first[0].id != other[0].id
    store = MemoryStore()
    writer = await Writer.of(store, "c-1")
    await writer.do(*steps)
    (one,) = await requests_of(store, "c-1", "ops")
    assert (await notice_of(store, one)).id == (await notice_of(store, one)).id
    assert again[0].call.tool == "refund"


async def test_the_suspension_of_a_decision_is_searched_far_back(monkeypatch):
    monkeypatch.setattr(notices, "AT_ONCE", 2)
    asked = call("refund", "lookup", "charge")
    store = MemoryStore()
    writer = await Writer.of(store, "c-1")
    await writer.do(start(), begin(), asked)
    for _ in range(2):
        await writer.do(finish())
    await writer.do(resolve(Approve()))
    requests = await requests_of(store, "c-1", "ops")
    settled = await notice_of(store, requests[-1])
    assert settled.call.tool == "refund"
    monkeypatch.setattr(notices, "MOST_BACK", 1)
    assert (await notice_of(store, requests[-1])).call is None


@pytest.mark.parametrize(
    ("kind", "seq", "why"),
    [
        ("suspended", 99, "entry 99 is gone"),
        ("suspended", 1, "entry 1 is conversation_started"),
        ("ended", 4, "entry 4 is"),
        ("reminded", 3, "entry 3 is"),
        ("unheard_of", 3, "does not know 'unheard_of'"),
    ],
)
async def test_of_what_the_log_has_no_more_nobody_is_told(kind, seq, why):
    store = MemoryStore()
    await (await Writer.of(store, "c-1")).do(start(), begin(), call("refund"))
    with pytest.raises(Refused, match=why):
        await notice_of(store, request("c-1", "ops", kind, seq))


async def test_of_a_conversation_that_is_gone_nobody_is_told():
    with pytest.raises(Refused, match="the log of the conversation is gone"):
        await notice_of(MemoryStore(), request("c-9", "ops", "ended", 7))


async def test_a_quarantine_is_told_though_no_entry_has_it():
    store = MemoryStore()
    await (await Writer.of(store, "c-1")).do(start())
    notice = await notice_of(store, request("c-1", "ops", "quarantined", 2, at=1_700_000_000_000))
    assert (notice.kind, notice.at, notice.seq, notice.reason) == ("quarantined", 1_700_000_000_000, 2, "")


def noticed(kind="suspended", **more):
    return Notice(
        **({"id": "msg_1", "kind": NoticeKind(kind), "conversation_id": "c-1", "agent": "desk", "at": 0, "seq": 4} | more)
    )


def waiting(**more):
    plain = {
        "conversation_id": "c-1",
        "suspension_id": "s-1",
        "created_at": 0,
        "tool": "refund",
        "kind": SuspensionKind.APPROVAL,
    }
    return PendingView(**(plain | more))


WRITTEN = {
    "title": "S3CRET",
    "prompt": "S3CRET",
    "arguments": {"a": "S3CRET"},
    "report_md": "S3CRET",
    "payload": "S3CRET",
    "rule_reason": "S3CRET",
}


def test_without_content_nothing_is_told_that_agents_tools_or_people_wrote():
    notice = noticed("settled", call=waiting(**WRITTEN), by=SettledBy.DENY, reason="S3CRET", reply="S3CRET", error="S3CRET")
    assert "S3CRET" not in json.dumps(payload(notice, content=False))
    assert "S3CRET" not in repr((headline(notice), list(lines(notice, content=False))))
    assert json.dumps(payload(notice, content=True)).count("S3CRET") == 9
    assert repr(list(lines(notice, content=True))).count("S3CRET") == 6


def test_a_webhooks_body_says_what_waits():
    call_ = waiting(tool_call_id="call_1", title="A refund", expires_at=60_000, decisions=("approve", "deny"))
    assert payload(noticed(call=call_, at=1_700_000_000_123), content=False) == {
        "id": "msg_1",
        "type": "suspended",
        "timestamp": "2023-11-14T22:13:20.123Z",
        "data": {
            "conversation_id": "c-1",
            "agent": "desk",
            "seq": 4,
            "call": {
                "suspension_id": "s-1",
                "tool_call_id": "call_1",
                "tool": "refund",
                "kind": "approval",
                "created_at": 0,
                "expires_at": 60_000,
                "decisions": ["approve", "deny"],
            },
        },
    }


def test_links_are_for_those_who_are_told_in_words():
    notice = noticed(call=waiting(), links={"approve": "https://x/r/1", "deny": "https://x/r/2"})
    assert "https://x/r/1" not in json.dumps(payload(notice, content=True))
    assert "Approve: https://x/r/1" in mail_of(notice, OPS).get_content()


@pytest.mark.parametrize("kind", NoticeKind)
def test_each_kind_has_words(kind):
    assert headline(noticed(kind)).startswith("desk: ")
    assert headline(noticed(kind, call=waiting())) != ""


@given(st.text())
def test_in_slack_no_text_is_a_mention_link_or_command(text):
    said = escaped(text)
    assert not {"<", ">"} & set(said)
    assert said.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&") == text


@given(st.text())
def test_a_text_of_others_stays_on_its_line_and_is_cut(text):
    said = one_line(text * 3)
    assert len(said) <= LONGEST
    assert said.isprintable()


@given(st.text(), st.text())
def test_no_text_adds_a_header_or_a_line_that_is_not_its_own(tool, reason):
    """Whatever a tool is named, and whatever somebody wrote."""
    agent_said = waiting(tool=tool, title=reason, prompt=reason)
    mail = mail_of(noticed("settled", call=agent_said, reason=reason, by=SettledBy.DENY, principal=KIM), OPS)
    head = mail.as_bytes().partition(b"\r\n\r\n")[0].decode()
    names = [line.partition(":")[0] for line in head.split("\r\n") if not line.startswith((" ", "\t"))]
    expected = ["From", "To", "Subject", "Date", "Message-ID", "Auto-Submitted"]
    assert [name for name in names if not name.startswith(("MIME", "Content"))] == expected
    assert mail.get_content().count("\n") <= 11


def test_a_mail_is_the_same_one_if_it_is_sent_again():
    notice = noticed(call=waiting(), at=1_700_000_000_000)
    assert mail_of(notice, OPS)["Message-ID"] == "<msg_1@example.com>"
    assert mail_of(notice, OPS).as_bytes() == mail_of(notice, OPS).as_bytes()


def test_letters_of_any_script_go_as_plain_bytes():
    mail = mail_of(noticed(call=waiting(tool="\u00fcberweisen", prompt="\u20ac 5?")), OPS)
    assert mail.as_bytes().isascii()
    assert "\u20ac 5?" in mail.get_content()
