"""The transcript: the conversation in the OpenAI chat format, without the system message."""

from holdfast.conversation import Answer, Deny
from holdfast.conversation.log.transcript import Transcript
from holdfast.conversation.terms.parts import ImagePart


def test_a_whole_turn_reads_as_the_model_saw_it(begun):
    # given a turn with two rounds
    run, ask = begun.call(("lookup", '{"order":7}'), ("ask", ""), content="One moment.")
    begun.finish(run, '{"ok":true,"result":"shipped"}')
    begun.resolve(Answer("blue"), ask)
    begun.reply("It was shipped, and it is blue.")
    # then its messages are
    assert begun.messages() == [
        {"role": "user", "content": "hello"},
        {
            "role": "assistant",
            "content": "One moment.",
            "tool_calls": [
                {"id": run, "type": "function", "function": {"name": "lookup", "arguments": '{"order":7}'}},
                {"id": ask, "type": "function", "function": {"name": "ask", "arguments": "{}"}},
            ],
        },
        {"role": "tool", "tool_call_id": run, "name": "lookup", "content": '{"ok":true,"result":"shipped"}'},
        {"role": "tool", "tool_call_id": ask, "name": "ask", "content": '{"ok":true,"result":"blue"}'},
        {"role": "assistant", "content": "It was shipped, and it is blue."},
    ]


def test_while_calls_wait_the_results_that_are_there_are_shown(begun):
    ask, run = begun.call("ask", "lookup")
    begun.finish(run)
    assert [message.get("tool_call_id") for message in begun.messages()[2:]] == [run]
    begun.resolve(Deny("no"), ask)
    assert [message.get("tool_call_id") for message in begun.messages()[2:]] == [ask, run]


def test_a_cancelled_turn_leaves_every_call_answered(begun):
    calls = begun.call("ask", "lookup", "refund")
    begun.cancel()
    begun.send("sorry")
    begun.begin()
    assert [message["role"] for message in begun.messages()] == ["user", "assistant", "tool", "tool", "tool", "user"]
    assert [message["tool_call_id"] for message in begun.messages()[2:5]] == calls


def test_arguments_stand_verbatim_also_where_they_do_not_parse(begun):
    begun.call(("lookup", '{"amount": 1.10'))
    assert begun.messages()[1]["tool_calls"][0]["function"]["arguments"] == '{"amount": 1.10'


def test_the_list_of_messages_is_the_callers(begun):
    transcript = begun.transcript()
    transcript.messages().clear()
    assert transcript.messages()


def test_a_transcript_that_is_fed_on_equals_one_from_the_start(begun):
    # given a transcript that is asked after every event
    begun.finish(begun.call("lookup", "nope")[0])
    begun.reply()
    transcript = Transcript()
    for seq, event in enumerate(begun.log, 1):
        transcript.add(seq, event)
        transcript.messages()
    # then asking has changed nothing
    assert transcript.messages() == begun.messages()
    assert transcript.seq == begun.state.seq


def test_an_empty_answer_can_be_sent_back_to_the_model(begun):
    begun.reply(None)
    assert begun.messages()[-1] == {"role": "assistant", "content": ""}


def test_a_result_with_an_image_is_its_envelope_and_the_image(begun):
    picture = ImagePart.of(b"\x89PNG\r\n\x1a\n")
    (run,) = begun.call("lookup")
    envelope = '{"ok":true,"result":[{"type":"image_url","attached":1}]}'
    begun.finish(run, envelope, attached=(picture,))
    assert begun.messages()[-1]["content"] == [
        {"type": "text", "text": envelope},
        {"type": "image_url", "image_url": {"url": picture.image_url.url}},
    ]
