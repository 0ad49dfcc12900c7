"""What goes between our processes comes out as it went in."""

from holdfast.actors import Failed, NoOutcome, NotHosted, Replied, wire
from holdfast.actors.requests import ModelRequest
from holdfast.conversation import Receipt, Resolve, Ruling, StaleCall, StaleReason
from holdfast.conversation.decisions import DecisionKind


def test_commands_replies_and_errors_come_out_as_they_went_in():
    ruling = Ruling(kind=DecisionKind.ANSWER, body="false")
    for value in (
        ("c-1", Resolve(tool_call_id="call_1", ruling=ruling, decision_id="d-1", suspension_id="s-1")),
        Replied(Receipt(conversation_id="c-1", seq=3, accepted_at=1)),
        NotHosted(),
        NoOutcome.GONE,
        ModelRequest(conversation_id="c-1", agent="a", spec_digest="d", effect_id="e", upto_seq=3, attempt=1),
    ):
        assert wire.unpack(wire.pack(value)) == value


def test_a_refusal_keeps_its_fields():
    failed = wire.unpack(wire.pack(Failed(StaleCall("c-1", "call_1", StaleReason.EXPIRED))))

    assert isinstance(failed.error, StaleCall)
    assert failed.error.reason is StaleReason.EXPIRED
