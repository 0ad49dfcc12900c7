"""Bad input on the real stack: a typed error that names the field and the fix, and nothing changed."""

from datetime import UTC, datetime, timedelta

import pytest
import redis
from refusals import contents, refused, unchanged

from holdfast.client import (
    AgentNotFound,
    Answer,
    Approve,
    Client,
    ConversationEnded,
    ConversationExists,
    ConversationNotFound,
    Deny,
    Fail,
    InvalidConversationId,
    InvalidDecision,
    InvalidInput,
    InvalidMessage,
    MessageNotFound,
    NotQueued,
    StaleCall,
    StaleReason,
    Status,
)
from holdfast.testing import call, calls

MIB = 1 << 20
PATIENCE_S = 120
LONE = "\ud800"


def circular():
    found = {}
    found["self"] = found
    return found


@pytest.fixture(scope="module")
def client(stack):
    with Client.connect("shop_app:app", timeout_s=60) as connected:
        yield connected


@pytest.fixture(scope="module")
def raw(stack):
    with redis.Redis.from_url(stack.redis_url) as opened:
        yield opened


@pytest.fixture(scope="module")
def waiting(stack, client):
    """A conversation that waits for each kind of decision; none of the tests that share it changes it."""
    asked = calls(
        call("refund", {"order": "A", "amount": 7}),
        call("ask_number", {"question": "?"}),
        call("where", {}),
        call("camera", {"mode": "wide"}),
    )
    text = stack.scenarios.add("bad-decisions", asked, "Done.")
    conversation = client.start("support", text, conversation_id="bad-decisions", message_id="first")
    conversation.wait(timeout_s=PATIENCE_S)
    return conversation


@pytest.fixture(scope="module")
def shown(waiting):
    return {item.tool: item for item in waiting.pending()}


@pytest.fixture(scope="module")
def queued(waiting):
    """A message that waits for the turn to end."""
    waiting.send("next", message_id="queued")
    return "queued"


# -- start --------------------------------------------------------------------------------------------------------------

BAD_IDS = ["", "x" * 129, "a b", "ä", "-x", "a/b", "a\n", LONE, 7, b"x", ["x"]]


@pytest.mark.parametrize("conversation_id", BAD_IDS, ids=ascii)
def test_a_conversation_id_that_is_none_is_refused_wherever_one_is_given(client, raw, conversation_id):
    keys = raw.dbsize()

    for use in (
        lambda: client.start("support", "hello", conversation_id=conversation_id),
        lambda: client.conversation(conversation_id),
        lambda: client.resolve("s-1", Approve(), conversation_id=conversation_id),
    ):
        with refused("conversation_id", "is not a conversation id", InvalidConversationId):
            use()

    assert raw.dbsize() == keys


BAD_STARTS = {
    "an agent that the app lacks": ({"agent": "nobody"}, "agent", "declares no agent 'nobody'; use one of .*'support'"),
    "an agent that is a number": ({"agent": 7}, "agent", "use one of its agents"),
    "an agent that is a list": ({"agent": ["support"]}, "agent", "use one of its agents"),
    "no agent": ({"agent": None}, "agent", "use one of its agents"),
    "an agent with a lone surrogate": ({"agent": LONE}, "agent", "use one of its agents"),
    "a text that is a number": ({"text": 7}, "text", "int is neither a string nor a list of parts"),
    "a text that is bytes": ({"text": b"hello"}, "text", "bytes is neither a string nor a list of parts"),
    "no text": ({"text": None}, "text", "NoneType is neither a string nor a list of parts"),
    "a text with a lone surrogate": ({"text": f"ab{LONE}"}, "text", "lone surrogate at position 2"),
    "a text over 1 MiB": ({"text": "x" * (MIB + 1)}, "text", "1048577 bytes, 1048576 are allowed; shorten it"),
    "a text over 1 MiB in UTF-8 only": ({"text": "ä" * (MIB // 2 + 1)}, "text", "1048578 bytes, 1048576 are allowed"),
    "an empty message id": ({"message_id": ""}, "message_id", "use 1 to 200 printable ASCII"),
    "a message id with a space": ({"message_id": "a b"}, "message_id", "use 1 to 200 printable ASCII"),
    "a message id that is a number": ({"message_id": 7}, "message_id", "use 1 to 200 printable ASCII"),
    "a message id that is too long": ({"message_id": "x" * 201}, "message_id", "use 1 to 200 printable ASCII"),
    "a context with NaN": ({"context": {"a": [1, float("nan")]}}, "context", r"\$\.a\[1\]: nan is not JSON; give a JSON value"),
    "a context that is an object": ({"context": object()}, "context", "object is not JSON"),
    "a circular context": ({"context": circular()}, "context", "nested more than 100 deep"),
    "a context over 1 MiB": ({"context": "x" * MIB}, "context", "1048576 bytes; pass a reference"),
}


@pytest.mark.parametrize("what", BAD_STARTS)
def test_a_start_that_is_refused_leaves_nothing_behind(client, raw, what):
    given, field, problem = BAD_STARTS[what]
    arguments = {"agent": "support", "text": "hello", **given}
    keys = raw.dbsize()

    with refused(field, problem, AgentNotFound if field == "agent" else InvalidMessage):
        client.start(arguments.pop("agent"), arguments.pop("text"), conversation_id="never-begun", **arguments)

    assert contents(raw, "never-begun") == {}
    assert raw.dbsize() == keys
    with pytest.raises(ConversationNotFound):
        client.conversation("never-begun").state()


@pytest.mark.parametrize(
    "given",
    [
        {"text": "another"},
        {"text": "another", "message_id": "first"},
        {"message_id": "another"},
        {"agent": "clerk", "message_id": "first"},
        {"context": {"a": 1}, "message_id": "first"},
    ],
    ids=str,
)
def test_an_existing_id_cannot_be_started_with_something_else(client, raw, waiting, given):
    arguments = {"agent": "support", "text": "bad-decisions", **given}

    with unchanged(raw, waiting), pytest.raises(ConversationExists, match=r"'bad-decisions'.*send\(\), or another") as exists:
        client.start(arguments.pop("agent"), arguments.pop("text"), conversation_id=waiting.id, **arguments)

    assert exists.value.conversation_id == waiting.id
    assert client.start("support", "bad-decisions", conversation_id=waiting.id, message_id="first").receipt.duplicate


# -- send ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", [name for name, (given, _, _) in BAD_STARTS.items() if given.keys() <= {"text", "message_id"}])
def test_a_message_that_is_refused_changes_nothing(raw, waiting, what):
    given, field, problem = BAD_STARTS[what]
    arguments = {"text": "hello", **given}

    with unchanged(raw, waiting), refused(field, problem, InvalidMessage):
        waiting.send(arguments.pop("text"), **arguments)


def test_one_message_id_cannot_carry_two_messages(raw, waiting):
    with unchanged(raw, waiting), refused("message_id", "'first' was already used for another message", InvalidMessage):
        waiting.send("another", message_id="first")


LATER = datetime.now(UTC) + timedelta(hours=1)
TIMES = {
    "without a zone": (LATER.replace(tzinfo=None), "it has no time zone; give an aware datetime"),
    "in the past": (LATER - timedelta(days=1), "it is in the past; give a time in the future"),
    "in ten years": (LATER + timedelta(days=3650), "it is more than a year ahead; give an earlier time"),
    "a word": ("tomorrow", "'tomorrow' is no time; give an aware datetime"),
    "a delay": (timedelta(hours=1), "is no time; give an aware datetime"),
    "yes": (True, "True is no time; give an aware datetime"),
}
PRIORITIES = [256, -1, True, 1.5, "1"]
BAD_WAYS = {
    **{f"at {name}": ({"at": at}, "at", problem) for name, (at, problem) in TIMES.items()},
    **{f"priority {value!r}": ({"priority": value}, "priority", "give a whole number from 0") for value in PRIORITIES},
    "when unknown": ({"when": "soon"}, "when", "use one of queue, reject, steer, interrupt"),
    "steered at": ({"when": "steer", "at": LATER}, "at", "leave one of them out"),
    "interrupted at": ({"when": "interrupt", "at": LATER}, "when", "leave at and priority out"),
    "origin unknown": ({"origin": "me"}, "origin", "use one of user, agent, schedule"),
}


@pytest.mark.parametrize("what", BAD_WAYS)
def test_a_message_that_waits_for_what_is_none_is_refused_and_changes_nothing(raw, waiting, what):
    given, field, problem = BAD_WAYS[what]

    with unchanged(raw, waiting), refused(field, problem):
        waiting.send("hello", **given)


@pytest.mark.parametrize(
    ("given", "field", "problem"),
    [
        ({}, "at", "neither a time nor a priority is given; give one of them"),
        *(({"at": at}, "at", problem) for at, problem in TIMES.values()),
        *(({"priority": value}, "priority", "give a whole number from 0") for value in PRIORITIES),
    ],
    ids=lambda value: ascii(value)[:40],
)
def test_a_message_is_moved_to_no_place_that_is_none(raw, waiting, queued, given, field, problem):
    with unchanged(raw, waiting), refused(field, problem):
        waiting.reschedule(queued, **given)


def test_a_message_that_does_not_wait_is_neither_moved_nor_withdrawn(raw, waiting, queued):
    for use in (waiting.withdraw, lambda message_id: waiting.reschedule(message_id, priority=1)):
        for message_id, error in {"first": NotQueued, "nobody's": MessageNotFound, "a b": InvalidMessage}.items():
            with unchanged(raw, waiting), pytest.raises(error):
                use(message_id)
    assert [one.message_id for one in waiting.queue()] == [queued]


@pytest.mark.parametrize("request_id", ["", "a b", 7, "x" * 201, LONE], ids=ascii)
def test_a_request_id_that_is_none_is_refused(raw, waiting, request_id):
    for ask in (waiting.cancel, waiting.end):
        with unchanged(raw, waiting), refused("request_id", "use 1 to 200 printable ASCII"):
            ask(request_id=request_id)


# -- resolve ------------------------------------------------------------------------------------------------------------

APPROVAL, ELICITATION, CLIENT = "approve or deny", "answer or deny", "answer or fail"


@pytest.mark.parametrize(
    ("tool", "decision", "takes"),
    [
        ("refund", Answer("x"), APPROVAL),
        ("refund", Fail("x"), APPROVAL),
        ("camera", Answer("x"), APPROVAL),
        ("camera", Fail("x"), APPROVAL),
        ("ask_number", Approve(), ELICITATION),
        ("ask_number", Approve({"n": 1}), ELICITATION),
        ("ask_number", Fail("x"), ELICITATION),
        ("where", Approve(), CLIENT),
        ("where", Deny("x"), CLIENT),
    ],
    ids=str,
)
def test_a_decision_of_the_wrong_kind_is_refused_and_told_which_would_do(raw, waiting, shown, tool, decision, takes):
    with unchanged(raw, waiting), refused("decision", f"waits for .*; decide {takes}", InvalidDecision):
        shown[tool].resolve(decision)


@pytest.mark.parametrize(
    ("tool", "decision", "field", "problem"),
    [
        ("ask_number", Answer({"n": "seven"}), "decision.value", r'\$\.n: "seven" is not of type "integer"'),
        ("ask_number", Answer({}), "decision.value", r'\$: "n" is a required property'),
        ("ask_number", Answer(None), "decision.value", r'\$: null is not of type "object"'),
        ("refund", Approve({"order": "A"}), "decision.arguments", r'\$: "amount" is a required property'),
        ("refund", Approve({"order": 1, "amount": 2}), "decision.arguments", r'\$\.order: 1 is not of type "string"'),
        ("camera", Approve({"mode": None}), "decision.arguments", r'\$\.mode: null is not of type "string"'),
        ("refund", Approve([1]), "decision.arguments", "list is not a JSON object; give a dict"),
        ("refund", Approve("{}"), "decision.arguments", "str is not a JSON object; give a dict"),
    ],
    ids=str,
)
def test_an_answer_or_edit_that_breaks_the_schema_is_told_where(raw, waiting, shown, tool, decision, field, problem):
    with unchanged(raw, waiting), refused(field, problem, InvalidDecision):
        shown[tool].resolve(decision)


NOT_JSON = {
    "NaN": (float("nan"), r"\$: nan is not JSON"),
    "infinity": ({"a": [float("-inf")]}, r"\$\.a\[0\]: -inf is not JSON"),
    "an object": ({"a": object()}, r"\$\.a: object is not JSON"),
    "bytes": ([b"x"], r"\$\[0\]: bytes is not JSON"),
    "a set": ({1}, r"\$: set is not JSON"),
    "a key that is a number": ({1: 2}, r"\$: the key 1 is not a string"),
    "a lone surrogate": ({"a": LONE}, r"\$\.a: a lone surrogate"),
    "a circle": (circular(), "nested more than 100 deep"),
}


@pytest.mark.parametrize("what", NOT_JSON)
def test_a_result_that_is_not_json_is_told_where(raw, waiting, shown, what):
    value, problem = NOT_JSON[what]

    with unchanged(raw, waiting), refused("decision.value", f"{problem}.*; give a JSON value", InvalidDecision):
        shown["where"].resolve(Answer(value))
    with unchanged(raw, waiting), refused("decision.arguments", "; give a JSON value", InvalidDecision):
        shown["refund"].resolve(Approve({"order": "A", "amount": 1, "more": value}))


@pytest.mark.parametrize(
    ("tool", "decision", "field", "problem"),
    [
        ("refund", Deny(7), "decision.reason", "int is not a string"),
        ("where", Fail(None), "decision.error", "NoneType is not a string"),
        ("refund", Deny(LONE), "decision.reason", "lone surrogate"),
        (
            "refund",
            "approve",
            "decision",
            r"str is not a decision; give Approve\(\), Deny\(\), .*, Redispatch\(\), Cancel\(\) or Review\(\)",
        ),
        ("refund", Approve, "decision", "type is not a decision"),
        ("refund", None, "decision", "NoneType is not a decision"),
        ("where", Answer("x" * 300_000), "decision", "bytes, 262144 are allowed; shorten it"),
        ("refund", Approve({"order": "x" * 300_000, "amount": 1}), "decision", "bytes, 262144 are allowed; shorten it"),
        ("refund", Deny("x" * 5_000), "decision", "bytes, 4096 are allowed; shorten it"),
        ("where", Fail("x" * 5_000), "decision", "bytes, 4096 are allowed; shorten it"),
    ],
    ids=lambda value: ascii(value)[:60],
)
def test_a_decision_that_is_none_or_too_large_is_refused(raw, waiting, shown, tool, decision, field, problem):
    with unchanged(raw, waiting), refused(field, problem, InvalidDecision):
        shown[tool].resolve(decision)


@pytest.mark.parametrize("decision_id", ["", "a b", 7, "x" * 201, LONE], ids=ascii)
def test_a_decision_id_that_is_none_is_refused(raw, waiting, shown, decision_id):
    with unchanged(raw, waiting), refused("decision_id", "use 1 to 200 printable ASCII", InvalidDecision):
        shown["refund"].resolve(Approve(), decision_id=decision_id)


@pytest.mark.parametrize(
    "named",
    [7, None, b"s-1"],
    ids=str,
)
def test_a_suspension_that_is_no_string_is_refused(client, raw, waiting, named):
    with unchanged(raw, waiting), refused("suspension_id", "is not a string; pass PendingCall.suspension_id", InvalidInput):
        client.resolve(named, Approve(), conversation_id=waiting.id)


@pytest.mark.parametrize("unknown", ["nope", "", LONE, "x" * 10_000], ids=lambda value: ascii(value)[:20])
def test_a_call_or_suspension_that_never_was_is_stale(client, raw, waiting, shown, unknown):
    mixed = {"tool_call_id": unknown}, {"suspension_id": unknown}, {"suspension_id": shown["camera"].suspension_id}
    for one in (unknown, *(shown["refund"].model_copy(update=ids) for ids in mixed)):
        with unchanged(raw, waiting), pytest.raises(StaleCall) as stale:
            client.resolve(one, Approve(), conversation_id=waiting.id)
        assert stale.value.reason is StaleReason.UNKNOWN
        assert stale.value.conversation_id == waiting.id


def test_the_first_of_two_phases_binds_no_later_one(stack, client, raw):
    text = stack.scenarios.add("bad-phases", calls(call("camera", {"mode": "wide"})), "Done.")
    conversation = client.start("support", text, conversation_id="bad-phases")
    (approval,) = conversation.wait(timeout_s=PATIENCE_S).pending
    approved = approval.resolve(Approve(), decision_id="click-1")
    (execution,) = conversation.wait(after=approved.seq, timeout_s=PATIENCE_S).pending

    with unchanged(raw, conversation):
        for decision in (Approve(), Answer("x")):
            with pytest.raises(StaleCall) as stale:
                approval.resolve(decision)
            assert stale.value.reason is StaleReason.SUPERSEDED
            assert (stale.value.settled_by, stale.value.settled_at > 0) == ("approve", True)
        for decision in (Approve(), Answer("x")):
            with pytest.raises(StaleCall):
                conversation.resolve(approval.suspension_id, decision)
        for decision in (Approve(), Deny("no")):
            with refused("decision", f"; decide {CLIENT}", InvalidDecision):
                execution.resolve(decision)
        for decision in (Deny(), Approve({"mode": "wide"})):
            with refused("decision_id", "'click-1' was already used for another decision; use a new", InvalidDecision):
                approval.resolve(decision, decision_id="click-1")
        with refused("decision_id", "'click-1' was already used for another decision", InvalidDecision):
            execution.resolve(Answer("x"), decision_id="click-1")
    receipt = execution.resolve(Answer("x"))
    assert conversation.wait(after=receipt.seq, timeout_s=PATIENCE_S).reply == "Done."


# -- a conversation that was never there, or has ended ---------------------------------------------------------------------


def test_a_conversation_that_was_never_there_is_not_found_by_any_verb(client, raw):
    nobody = client.conversation("nobody")
    keys = raw.dbsize()

    for use in (
        lambda: nobody.send("hello"),
        lambda: nobody.resolve("s-1", Approve()),
        nobody.cancel,
        nobody.end,
        nobody.state,
        lambda: nobody.wait(timeout_s=PATIENCE_S),
        lambda: nobody.wait(after=7),
        nobody.messages,
        nobody.pending,
        lambda: next(nobody.events()),
        lambda: next(nobody.events(after=7, live=False)),
    ):
        with pytest.raises(ConversationNotFound, match="conversation 'nobody' was never started here"):
            use()

    assert raw.dbsize() == keys


def test_a_conversation_that_has_ended_takes_nothing_more_and_can_be_read(stack, client, raw):
    text = stack.scenarios.add("bad-ended", calls(call("refund", {"order": "A", "amount": 7})), "Done.")
    conversation = client.start("support", text, conversation_id="bad-ended")
    (shown,) = conversation.wait(timeout_s=PATIENCE_S).pending
    receipt = conversation.end()

    with unchanged(raw, conversation):
        for use in (
            lambda: conversation.send("hello"),
            lambda: shown.resolve(Approve()),
            lambda: conversation.resolve(shown.suspension_id, Approve()),
            conversation.cancel,
            conversation.end,
            lambda: client.start("support", text, conversation_id=conversation.id, message_id="another"),
        ):
            with pytest.raises(ConversationEnded, match="'bad-ended' has ended; start another one"):
                use()
        assert conversation.state().status is Status.ENDED
        assert conversation.wait(after=receipt.seq - 1).status is Status.ENDED
        assert conversation.pending() == []
        assert [message["role"] for message in conversation.messages()] == ["user", "assistant", "tool"]
        assert [event.kind for event in conversation.events()][-1] == "conversation_ended"
        for after in (receipt.seq, receipt.seq + 7):
            assert list(conversation.events(after=after)) == []
            assert list(conversation.events(after=after, live=False)) == []
            assert conversation.wait(after=after).status is Status.ENDED  # nothing more will ever come


# -- reading ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("read", "field"),
    [
        *((lambda conversation, value=value: conversation.wait(after=value), "after") for value in ("1", 1.5, -1, True)),
        *(
            (lambda conversation, value=value: conversation.wait(timeout_s=value), "timeout_s")
            for value in ("1", True, float("nan"), float("inf"))
        ),
        *(
            (lambda conversation, value=value: next(conversation.events(after=value)), "after")
            for value in ("1", None, 1.5, -1)
        ),
    ],
)
def test_a_wait_or_a_cursor_that_is_none_is_refused(raw, waiting, read, field):
    with unchanged(raw, waiting), refused(field, "; give "):
        read(waiting)


@pytest.mark.parametrize(
    ("arguments", "field", "problem"),
    [
        ({"limit": 0}, "limit", "use a whole number from 1 to 1000"),
        ({"limit": 1001}, "limit", "use a whole number from 1 to 1000"),
        ({"limit": "10"}, "limit", "use a whole number from 1 to 1000"),
        ({"limit": True}, "limit", "use a whole number from 1 to 1000"),
        ({"limit": None}, "limit", "use a whole number from 1 to 1000"),
        ({"after": "nonsense"}, "after", "pass the `next` of the page before"),
        ({"after": 7}, "after", "pass the `next` of the page before"),
        ({"after": ""}, "after", "pass the `next` of the page before"),
        ({"agent": 7}, "agent", "give an agent's name"),
        ({"agent": ["support"]}, "agent", "give an agent's name"),
        ({"agent": LONE}, "agent", "give an agent's name"),
    ],
    ids=ascii,
)
def test_a_page_that_is_asked_for_wrongly_is_refused(client, arguments, field, problem):
    for pages in (client.pending, client.conversations):
        with refused(field, problem):
            pages(**arguments)


@pytest.mark.parametrize("value", ["nonsense", 7, "", "APPROVAL", ["approval"]], ids=str)
def test_a_kind_or_status_that_is_none_is_refused_and_told_which_there_are(client, value):
    with refused("kind", "use one of approval, elicitation, client_exec"):
        client.pending(kind=value)
    with refused("status", "use one of .*awaiting_input"):
        client.conversations(status=value)


# -- the app, the model -------------------------------------------------------------------------------------------------


def test_a_model_that_does_not_exist_fails_the_turn_in_the_providers_words(stack, client):
    text = stack.scenarios.add("bad-model", "Back.")
    stack.model.fail(404, times=1, message="The model `gpt-none` does not exist")
    conversation = client.start("support", text, conversation_id="bad-model")

    state = conversation.wait(timeout_s=PATIENCE_S)

    assert (state.status, state.reply) == (Status.FAILED, None)
    assert "The model `gpt-none` does not exist" in state.error
    receipt = conversation.send("again")
    assert conversation.wait(after=receipt.seq, timeout_s=PATIENCE_S).reply == "Back."
