"""Messages of parts: judged, recorded, recognised again, and read by the model; a text stays what it was."""

import json
import re

import pytest

from holdfast.conversation import Answer, Send
from holdfast.conversation.ids import payload_digest
from holdfast.conversation.log.auditing import entry_of, text_digest
from holdfast.conversation.records.commands import Start
from holdfast.conversation.records.events import MessageAccepted
from holdfast.conversation.terms.parts import ImagePart, TextPart, said_by
from holdfast.errors import InvalidDecision, InvalidMessage
from holdfast.persistence import codec

PICTURE = ImagePart.of(b"\x89PNG\r\n\x1a\n" + b"x" * 300)
PARTS = (TextPart.of("What is it?"), PICTURE)


def test_a_message_of_parts_is_kept_and_read_back_by_the_model(begun):
    begun.reply("hi")
    begun.send(PARTS)
    begun.begin()
    assert begun.log[-2].text == PARTS
    assert begun.messages()[-1] == {"role": "user", "content": [part.model_dump(exclude_none=True) for part in PARTS]}


def test_parts_are_bounded_by_the_size_of_them_all(begun):
    # given a limit of 2000 bytes
    with begun.unchanged(), pytest.raises(InvalidMessage) as refusal:
        begun.send(PARTS * 5)
    assert refusal.value.field == "text"
    assert re.fullmatch(r"it has \d{4} bytes, 2000 are allowed", refusal.value.problem)
    begun.send(PARTS * 4)


def test_parts_are_judged_again_where_they_are_recorded(begun):
    forged = ImagePart(type="image_url", image_url={"url": "http://a.example/x.png"})
    with begun.unchanged(), pytest.raises(InvalidMessage) as refusal:
        begun.send((TextPart.of("x"), forged))
    assert refusal.value.field == "text[1].image_url.url"


def test_the_same_parts_with_the_same_id_are_one_message(begun):
    first = begun.send(PARTS, message_id="m-2")
    assert begun.send(PARTS, message_id="m-2").reply.duplicate
    assert first.events
    for other in (PARTS[:1], "What is it?", "".join(said_by(PARTS))):
        with begun.unchanged(), pytest.raises(InvalidMessage, match="message_id"):
            begun.send(other, message_id="m-2")


def test_a_text_keeps_the_digest_that_it_had_before_there_were_parts():
    assert Send(text="hello", message_id="m").digest == payload_digest("send", "hello")
    said = Start(text="hello", message_id="m", agent="desk", app="shop:app")
    assert said.digest == payload_digest("start", "desk", "hello", "null")


def test_a_text_keeps_its_bytes_before_there_were_parts():
    event = MessageAccepted(at=1, message_id="m", digest="d", text="hello")
    fields = {"at": 1, "message_id": "m", "digest": "d", "text": "hello"}
    assert codec.encode(event) == codec.pack([codec.VERSION, "message_accepted", fields])


def test_the_audit_chain_has_a_digest_of_the_parts_that_no_text_has(begun):
    begun.send(PARTS)
    accepted = begun.log[-1]
    other = accepted.model_copy(update={"text": PARTS[:1]})
    text = accepted.model_copy(update={"text": "".join(said_by(PARTS))})
    digests = [entry_of("c-1", 7, one).body_digest for one in (accepted, other, text)]
    assert len(set(digests)) == 3
    assert digests[2] == text_digest(text.text, accepted.salt)


SMALL = ImagePart.of(b"\x89PNG\r\n\x1a\n")


@pytest.mark.parametrize(
    "said", [[TextPart.of("here"), SMALL], [part.model_dump(exclude_none=True) for part in (TextPart.of("here"), SMALL)]]
)
def test_a_client_returns_parts(begun, said):
    (call,) = begun.call("locate")
    begun.resolve(Answer(said), call)
    result = begun.log[-1]
    assert result.content == (
        '{"ok":true,"result":[{"type":"text","text":"here"},{"type":"image_url","attached":1}],"untrusted":true}'
    )
    assert (result.attached, result.untrusted) == ((SMALL,), True)
    assert begun.messages()[-1]["content"][1] == SMALL.model_dump(exclude_none=True)


@pytest.mark.parametrize("said", [[], [1], [{"type": "text", "text": "x"}], {"type": "image_url"}, [{"type": ["x"]}]])
def test_what_else_a_client_returns_is_its_json(begun, said):
    (call,) = begun.call("locate")
    begun.resolve(Answer(said), call)
    assert json.loads(begun.log[-1].content)["result"] == said
    assert begun.log[-1].attached == ()


def test_a_client_part_that_is_none_is_refused_and_the_call_waits(begun):
    (call,) = begun.call("locate")
    said = [{"type": "image_url", "image_url": {"url": "http://a.example"}}]
    with begun.unchanged(), pytest.raises(InvalidDecision) as refusal:
        begun.resolve(Answer(said), call)
    assert refusal.value.field == "decision.value[0].image_url.url"


def test_a_person_who_answers_gives_json(begun):
    (call,) = begun.call("ask")
    begun.resolve(Answer([SMALL]), call)
    assert begun.log[-1].attached == ()
    assert "data:image/png" in begun.log[-1].content
