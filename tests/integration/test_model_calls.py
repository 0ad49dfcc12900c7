"""Model calls over real HTTP and through real litellm: an answer is whole only if its provider said how it ended."""

import asyncio
import json
import threading

import pytest
from litellm.integrations.custom_logger import CustomLogger
from model_caller import LOOKUP, Caller

from holdfast import metrics
from holdfast.actors.worker import asking as asking_module
from holdfast.actors.worker import failover, model
from holdfast.actors.worker.app_loop import AppLoop
from holdfast.actors.worker.model_outcome import ModelCounts
from holdfast.actors.worker.provider_stream import ProviderStream
from holdfast.agent import App, Tool
from holdfast.conversation import FailureReason, ModelFailed, ModelReplied, StopReason
from holdfast.conversation.records.events import TurnCompleted, TurnFailed
from holdfast.counting import Counts, families
from holdfast.testing import ModelServer, call, calls, events, say

CALLED = call("lookup", {"order": 7}, id="call_a")


@pytest.fixture(autouse=True)
def no_delay(monkeypatch):
    monkeypatch.setattr(failover, "FIRST_DELAY_S", 0.0)


def chunk(delta, finish_reason=None, *, index=0, **more):
    """One event of OpenAI's stream."""
    choice = {"index": index, "delta": delta, "finish_reason": finish_reason}
    return {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice], **more}


DONE = "data: [DONE]\n\n"


async def answered(*answers, **more):
    """What comes of a model call with these answers, and how often the model was asked."""
    with ModelServer(script=list(answers)) as server:
        caller = await Caller.of(server, tools=(LOOKUP,), **more)
        return await caller.call(), len(server.requests), caller


@pytest.mark.parametrize("after_chunks", range(5))
async def test_a_stream_that_ends_early_is_called_again_and_its_call_has_the_arguments_that_the_model_wrote(after_chunks):
    # given a model whose stream ends cleanly before it has said how the answer ends: after 2 chunks the tool's name is there
    with ModelServer(script=[CALLED]) as server:
        server.end_stream(after_chunks=after_chunks)
        caller = await Caller.of(server, tools=(LOOKUP,))
        # when it is called
        outcome = await caller.call()
        # then it is called again, and what counts is the whole answer
        assert isinstance(outcome, ModelReplied)
        assert [json.loads(one.arguments) for one in outcome.calls] == [{"order": 7}]
        assert outcome.finish_reason == "tool_calls"
        assert len(server.requests) == 2


@pytest.mark.parametrize("after_chunks", [0, 1, 2, 5])
async def test_half_a_text_is_no_answer(after_chunks):
    with ModelServer(script=["A long answer, of which half is missing."]) as server:
        server.end_stream(after_chunks=after_chunks)
        caller = await Caller.of(server)
        outcome = await caller.call()
        assert isinstance(outcome, ModelReplied)
        assert (outcome.content, len(server.requests)) == ("A long answer, of which half is missing.", 2)


async def test_a_stream_that_never_says_how_it_ends_fails_the_turn_after_its_retries():
    with ModelServer(script=["half"]) as server:
        server.end_stream(after_chunks=2, times=None)
        caller = await Caller.of(server)
        outcome = await caller.turn()
        assert isinstance(outcome, ModelFailed)
        assert len(server.requests) == (1 + Caller.retries)
        assert "before the provider said how the answer finished" in outcome.error
        assert isinstance(caller.events[-1], TurnFailed)
        assert caller.events[-1].reason is FailureReason.MODEL_ERROR


@pytest.mark.parametrize(
    "frames",
    [
        [DONE],
        [chunk({"role": "assistant", "content": "hi"}), DONE],
        ['{"id":"x","object":"chat.completion","choices":[{"index":0,"message":{"content":"hi"},"finish_reason":"stop"}]}'],
        [": keep-alive\n\n", ": keep-alive\n\n"],
        ["data: "],
        ['data: {"choices": [{"index": 0, "delta": {"con'],
        [chunk({"content": "hi"}), {"error": {"message": "overloaded", "type": "server_error", "code": 500}}],
        [chunk({"content": "hi"}), chunk({}, "error"), DONE],
        [chunk({"content": "hi"}), chunk({}, "network_error"), DONE],
        [chunk({"role": "assistant"}), chunk({}, "tool_calls"), DONE],
        [chunk({"content": "hi"}), chunk({}, "stop", index=1), DONE],
        [chunk({}, usage={"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}), DONE],
    ],
    ids=[
        *("only-done", "done-without-a-reason", "a-body-that-is-no-stream", "only-comments", "no-event", "cut-in-an-event"),
        *("an-error-object", "finish-error", "finish-network-error", "calls-announced-and-missing", "another-choice-ended"),
        "usage-alone",
    ],
)
async def test_what_is_no_whole_answer_is_asked_for_again(frames):
    outcome, asked, _ = await answered(events(*frames), "whole")
    assert isinstance(outcome, ModelReplied), outcome
    assert (outcome.content, asked) == ("whole", 2)


@pytest.mark.parametrize("said", ["TIMEOUT", "USER_CANCEL", "failed", "something_new"])
async def test_calls_of_an_answer_that_went_wrong_or_nobody_knows_how_do_not_run(said):
    outcome, asked, _ = await answered(CALLED | {"finish_reason": said}, CALLED)
    assert isinstance(outcome, ModelReplied), outcome
    assert (outcome.finish_reason, len(outcome.calls), asked) == ("tool_calls", 1, 2)


async def broken_close(stream, close=ProviderStream.aclose):
    await close(stream)
    message = "the connection was reset"
    raise OSError(message)


async def endless_close(stream, close=ProviderStream.aclose):
    await close(stream)
    await asyncio.Event().wait()


@pytest.mark.parametrize("close", [broken_close, endless_close])
async def test_a_connection_that_cannot_be_closed_spoils_no_whole_answer(monkeypatch, caplog, close):
    monkeypatch.setattr(model, "CLOSE_S", 0.05)
    monkeypatch.setattr(ProviderStream, "aclose", close)
    # when the connection of a whole answer cannot be closed, then the answer counts, and the log says so
    outcome, asked, _ = await answered("whole", "again", model_timeout_s=20)
    assert isinstance(outcome, ModelReplied), outcome
    assert (outcome.content, asked) == ("whole", 1)
    assert "could not be closed" in caplog.text


async def test_a_connection_that_cannot_be_closed_hides_no_reason_to_stop(monkeypatch):
    monkeypatch.setattr(ProviderStream, "aclose", broken_close)
    outcome, asked, _ = await answered("x" * 3000, "again", reply_bytes=1000)
    assert isinstance(outcome, ModelFailed), outcome
    assert (outcome.reason, asked) == (FailureReason.REPLY_BYTES, 1)


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        *(("stop", "stop"), ("end_turn", "stop"), ("length", "length"), ("max_tokens", "length")),
        *(("MAX_TOKENS", "length"), ("model_length", "length"), ("content_filter", "content_filter")),
        *(("SAFETY", "content_filter"), ("refusal", "content_filter"), ("something_new", "something_new")),
    ],
)
async def test_how_an_answer_ended_is_told_in_one_word(said, kept):
    outcome, asked, _ = await answered(say("text", finish_reason=said))
    assert isinstance(outcome, ModelReplied), outcome
    assert (outcome.finish_reason, asked) == (kept, 1)


async def test_a_call_that_the_token_limit_cut_off_is_answered_with_a_word_that_the_provider_takes():
    half = {**call("lookup", '{"order": ', id="call_7"), "finish_reason": "length"}
    with ModelServer(script=[half, say("Then shorter.")]) as server:
        caller = await Caller.of(server, tools=(LOOKUP,))
        await caller.turn()
        await caller.turn()
        assert isinstance(caller.events[-1], TurnCompleted)
        asked, told = caller.sent()[-2:]
        assert (asked["tool_calls"][0]["function"]["arguments"], told["tool_call_id"]) == ("{}", "call_7")
        assert "Take smaller steps" in told["content"]


async def test_a_call_that_the_token_limit_cut_off_never_runs_and_a_cut_text_is_marked():
    cut = [CALLED | {"finish_reason": "length"}] * 3
    with ModelServer(script=[*cut, say("It was shi", finish_reason="length"), "ok"]) as server:
        caller = await Caller.of(server, tools=(LOOKUP,))
        # when a call is cut off, and two more after it
        for _ in cut:
            await caller.turn()
        # then the turn says so, and the call has not run
        assert isinstance(caller.events[-1], TurnFailed)
        assert caller.events[-1].reason is FailureReason.LENGTH
        assert caller.writer.effect_ids == ()
        # and when a text is, then it is the reply, and marked; no provider is sent the mark
        await caller.send()
        await caller.turn()
        assert isinstance(caller.events[-1], TurnCompleted)
        assert caller.events[-1].stopped is StopReason.LENGTH
        assert caller.transcript.messages()[-1] == {
            "role": "assistant",
            "content": "It was shi",
            "finish_reason": "length",
        }
        await caller.send()
        await caller.turn()
        assert caller.sent()[-2] == {"role": "assistant", "content": "It was shi"}


async def test_a_refusal_is_the_filters_and_its_text_is_shown():
    frames = [
        chunk({"role": "assistant", "refusal": ""}),
        chunk({"refusal": "I can"}),
        chunk({"refusal": "not."}),
        chunk({}, "stop"),
    ]
    outcome, _, _ = await answered(events(*frames, DONE))
    assert isinstance(outcome, ModelReplied)
    assert (outcome.content, outcome.finish_reason) == ("I cannot.", "content_filter")


async def test_reasoning_is_kept_apart_and_sent_to_no_server_that_does_not_know_it():
    with ModelServer(script=[say("Shipped.", reasoning="Let me think about it."), "Bye."]) as server:
        caller = await Caller.of(server)
        await caller.turn()
        await caller.send()
        await caller.turn()
        # then the log has it beside the reply, and the live events under a kind of their own
        answer = caller.transcript.messages()[1]
        assert answer == {"role": "assistant", "content": "Shipped.", "reasoning_content": "Let me think about it."}
        said = {kind: "".join(one[4] for one in caller.live if one[0] == kind) for kind in ("text_delta", "reasoning_delta")}
        assert said == {"text_delta": "Shipped.Bye.", "reasoning_delta": "Let me think about it."}
        # and the server was sent the text alone
        assert caller.sent()[1] == {"role": "assistant", "content": "Shipped."}


async def test_deltas_of_an_abandoned_try_have_its_number():
    with ModelServer(script=["A long answer, in pieces."]) as server:
        server.end_stream(after_chunks=3)
        caller = await Caller.of(server)
        await caller.call()
    whole = "".join(text for kind, _, attempt, _, text in caller.live if (kind, attempt) == ("text_delta", 2))
    assert whole == "A long answer, in pieces."
    assert {one[2] for one in caller.live} == {1, 2}


def flood(delta, count):
    return events(*[chunk(delta(number)) for number in range(count)], chunk({}, "stop"), DONE)


TOO_MUCH = {
    "text": ({"reply_bytes": 1000}, flood(lambda _: {"content": "x" * 100}, 500), FailureReason.REPLY_BYTES),
    "reasoning": ({"reply_bytes": 1000}, flood(lambda _: {"reasoning_content": "x" * 100}, 500), FailureReason.REPLY_BYTES),
    "one-huge-name": ({"reply_bytes": 1000}, call("x" * 2000, {}), FailureReason.REPLY_BYTES),
    "one-huge-id": ({"reply_bytes": 1000}, call("lookup", {}, id="x" * 2000), FailureReason.REPLY_BYTES),
    "arguments": ({"reply_bytes": 1000}, call("lookup", "[" * 2000), FailureReason.REPLY_BYTES),
    "refusal": ({"reply_bytes": 1000}, flood(lambda _: {"refusal": "x" * 100}, 500), FailureReason.REPLY_BYTES),
    "calls": ({"max_calls": 3}, calls(*[call("lookup", {"order": n}) for n in range(4)]), FailureReason.MAX_CALLS),
}


@pytest.mark.parametrize("case", TOO_MUCH.values(), ids=TOO_MUCH)
async def test_an_answer_beyond_a_limit_is_broken_off_with_a_typed_reason_and_not_asked_for_again(case):
    limits, answer, reason = case
    outcome, asked, _ = await answered(answer, **limits)
    assert isinstance(outcome, ModelFailed), outcome
    assert (outcome.reason, asked) == (reason, 1)
    assert f"Limits.{reason.value}" in outcome.error


async def test_as_many_calls_as_are_allowed_are_taken_whatever_their_index():
    indexes = [0, 10**12, -5]
    parts = [
        {"index": index, "id": f"call_{place}", "type": "function", "function": {"name": "lookup", "arguments": "{}"}}
        for place, index in enumerate(indexes)
    ]
    outcome, _, _ = await answered(
        events(*[chunk({"tool_calls": [part]}) for part in parts], chunk({}, "tool_calls")), max_calls=3
    )
    assert isinstance(outcome, ModelReplied), outcome
    assert [one.tool_call_id for one in outcome.calls] == ["call_0", "call_1", "call_2"]


async def test_the_stream_is_closed_as_soon_as_an_answer_is_too_large():
    with ModelServer(script=[events(chunk({"content": "x" * 2000}), chunk({}, "stop"), DONE)]) as server:
        server.slow(between_chunks_s=3600)  # whoever read it to its end would wait for an hour
        caller = await Caller.of(server, reply_bytes=900)
        outcome = await caller.call()
        assert isinstance(outcome, ModelFailed)
        assert outcome.reason is FailureReason.REPLY_BYTES


@pytest.mark.parametrize("anthropic", [False, True])
async def test_a_line_without_an_end_is_not_read_to_its_end(anthropic):
    # given a server whose first event goes on and on
    endless = ["data: {", *["x" * 65536] * 20, *["y" * 1000] * 5]
    with ModelServer(script=[events(*endless), "never"]) as server:
        server.slow(between_chunks_s=0.001)
        caller = await Caller.of(server, anthropic=anthropic, reply_bytes=1000)
        outcome = await caller.call()
        assert isinstance(outcome, ModelFailed), outcome
        assert (outcome.reason, len(server.requests)) == (FailureReason.REPLY_BYTES, 1)
        await server.idle()


async def test_a_flood_of_chunks_that_bring_nothing_ends(monkeypatch):
    monkeypatch.setattr("holdfast.actors.worker.model_answer.EMPTY_CHUNKS", 50)
    outcome, asked, _ = await answered(*[flood(lambda _: {"content": ""}, 200)] * (1 + Caller.retries))
    assert isinstance(outcome, ModelFailed)
    assert (outcome.reason, asked) == (FailureReason.MODEL_ERROR, (1 + Caller.retries))
    assert "brought nothing" in outcome.error


async def test_a_model_that_takes_too_long_fails_the_turn_with_that_reason():
    with ModelServer(script=["late"]) as server:
        server.hold()
        caller = await Caller.of(server, model_timeout_s=0.3)
        outcome = await caller.call()
        assert isinstance(outcome, ModelFailed)
        assert outcome.reason is FailureReason.MODEL_TIMEOUT
        server.release()


async def test_an_answer_is_kept_while_functions_of_another_agent_hang_and_while_its_own_do(monkeypatch):
    over = threading.Event()
    loop = await AppLoop.open(App(agents=[]))
    slow = Tool(callback=lambda: "", name="lookup", parameters={"type": "object"}, prompt=lambda _: over.wait(30))

    async def asking(server, name, tool):
        caller = await Caller.of(server, tools=(LOOKUP,), model_timeout_s=5)
        caller.spec = caller.spec.model_copy(update={"name": name})
        caller.app_tools, caller.app_loop = (tool,), loop
        return asyncio.create_task(caller.call())

    with ModelServer(script=[CALLED] * 42) as server:
        try:
            # given an agent whose functions hang in every thread that it may have
            held = [await asking(server, "slow", slow) for _ in range(40)]
            async with asyncio.timeout(30):
                while len(server.requests) < 40:
                    await asyncio.sleep(0.01)
                # when another agent's model answers
                quick = Tool(callback=lambda: "", name="lookup", parameters={"type": "object"}, prompt=lambda _: "Shall it?")
                outcome = await (await asking(server, "desk", quick))
                # then its answer is judged and kept
                assert [one.prompt for one in outcome.calls] == ["Shall it?"]
                # and where its own function hangs, the answer is kept without what that would have said
                monkeypatch.setattr(asking_module, "FUNCTION_S", 0.1)
                outcome = await (await asking(server, "desk", slow))
                assert [(one.name, one.prompt, one.problem) for one in outcome.calls] == [("lookup", None, None)]
                assert len(server.requests) == 42
        finally:
            over.set()
            async with asyncio.timeout(30):
                await asyncio.gather(*held)
    await loop.close()


async def test_a_providers_error_has_its_reason():
    with ModelServer(script=["never"]) as server:
        server.fail(401, message="bad key")
        caller = await Caller.of(server)
        outcome = await caller.call()
        assert isinstance(outcome, ModelFailed)
        assert (outcome.reason, len(server.requests)) == (FailureReason.MODEL_ERROR, 1)


ODD = {
    "a-call-without-a-function": [
        chunk({"tool_calls": [{"index": 0, "function": None}]}),
        chunk({"content": "ok"}),
        chunk({}, "stop"),
    ],
    "another-choice": [
        chunk({"content": "ok"}),
        chunk({"content": "other"}, index=1),
        chunk({}, "stop"),
        chunk({}, "stop", index=1),
    ],
    "two-finish-reasons": [chunk({"content": "ok"}), chunk({}, "stop"), chunk({}, "stop")],
    "text-after-the-finish": [chunk({"content": "o"}, "stop"), chunk({"content": "k"}), chunk({}, "stop")],
    "role-only-chunks": [*[chunk({"role": "assistant"})] * 5, chunk({"content": "ok"}), chunk({}, "stop")],
    "a-null-delta": [chunk({"content": "ok"}), chunk(None), chunk({}, "stop")],
    "no-choices": [chunk({"content": "ok"}), {**chunk({}), "choices": []}, chunk({}, "stop")],
    "huge-usage": [
        chunk({"content": "ok"}),
        chunk({}, "stop", usage={"prompt_tokens": 1 << 70, "completion_tokens": -4, "total_tokens": 0}),
    ],
}


@pytest.mark.parametrize("frames", ODD.values(), ids=ODD)
async def test_odd_streams_that_are_whole_are_taken(frames):
    outcome, asked, _ = await answered(events(*frames, DONE))
    assert isinstance(outcome, ModelReplied), outcome
    assert (outcome.content, outcome.calls, outcome.finish_reason, asked) == ("ok", (), "stop", 1)
    assert all(tokens is None or tokens >= 0 for tokens in (outcome.input_tokens, outcome.output_tokens))


async def test_a_cut_that_was_told_is_not_forgotten_for_a_stop():
    outcome, _, _ = await answered(events(chunk({"content": "ok"}, "length"), chunk({}, "stop"), DONE))
    assert isinstance(outcome, ModelReplied)
    assert outcome.finish_reason == "length"


async def test_calls_that_a_server_does_not_number_are_told_apart_by_their_ids():
    parts = [
        [{"index": 0, "id": f"call_{n}", "type": "function", "function": {"name": "lookup", "arguments": f'{{"order":{n}}}'}}]
        for n in range(2)
    ]
    outcome, _, _ = await answered(events(*[chunk({"tool_calls": part}) for part in parts], chunk({}, "tool_calls"), DONE))
    assert isinstance(outcome, ModelReplied)
    assert [(one.tool_call_id, one.arguments) for one in outcome.calls] == [
        ("call_0", '{"order":0}'),
        ("call_1", '{"order":1}'),
    ]


@pytest.mark.parametrize(("direct", "looked"), [(True, 0), (False, 200)])
async def test_of_a_long_answer_litellm_keeps_no_more_than_its_end(direct, looked, monkeypatch):
    # given a bound on what is kept
    monkeypatch.setattr("holdfast.actors.worker.provider_stream.KEPT_CHUNKS", 10)
    kept = []
    forget = ProviderStream._forget

    def noted(stream):
        forget(stream)
        kept.append((len(stream._stream.chunks), len(stream._stream.response_uptil_now)))

    monkeypatch.setattr(ProviderStream, "_forget", noted)
    monkeypatch.setattr(Caller, "direct", direct)
    # when an answer of many chunks comes
    usage = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}
    frames = [
        *(chunk({"content": f"{number},"}) for number in range(200)),
        chunk({}, "stop"),
        {**chunk({}, usage=usage), "choices": []},
    ]
    outcome, _, _ = await answered(events(*frames, DONE))
    # then it is whole, with its usage, and little of it was kept twice
    assert isinstance(outcome, ModelReplied)
    assert outcome.content == "".join(f"{number}," for number in range(200))
    assert (outcome.input_tokens, outcome.output_tokens) == (11, 7)
    assert max(kept) <= (20, 0)
    assert len(kept) > looked


USAGE = {**chunk({}, usage={"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}), "choices": []}
PRICED = "openai/gpt-4o-mini"
CALL = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "lookup", "arguments": '{"order": 1}'}}


@pytest.mark.parametrize(
    "frames",
    [
        [chunk({"role": "assistant", "content": "hi"}), chunk({"content": " there"}), chunk({}, "stop"), USAGE, DONE],
        [chunk({"content": "hi"}), chunk({"content": " there"}, "stop"), USAGE, DONE],
        [chunk({"content": "hi"}, "length"), USAGE, DONE],
        [chunk({"content": "hi"}), chunk({}, "stop", usage=USAGE["usage"]), DONE],
        [chunk({"content": "hi"}), chunk({}, "stop"), DONE],
        [chunk({"tool_calls": [CALL]}), chunk({}, "tool_calls"), USAGE, DONE],
        [chunk({"content": "Look: ", "tool_calls": [CALL]}, "tool_calls"), USAGE, DONE],
        [chunk({"reasoning_content": "hm"}), chunk({"content": "hi"}), chunk({}, "stop"), USAGE, DONE],
        [chunk({"refusal": "I will not."}), chunk({}, "stop"), USAGE, DONE],
        [USAGE, chunk({"content": "hi"}), chunk({}, "stop"), chunk({"content": " there"}), DONE],
    ],
    ids=[
        *("text", "an-end-with-text", "cut-off", "usage-at-the-end", "no-usage", "a-call", "text-and-a-call", "reasoning"),
        *("a-refusal", "text-after-the-end"),
    ],
)
async def test_an_answer_is_the_same_whether_litellm_is_asked_for_its_end_or_not(frames, monkeypatch):
    outcome, _, _ = await answered(events(*frames))
    monkeypatch.setattr(model, "_observed", lambda: True)
    with_its_end, _, _ = await answered(events(*frames))
    assert isinstance(outcome, ModelReplied)
    assert outcome == with_its_end


@pytest.mark.parametrize(("named", "usd"), [(PRICED, 11 * 0.15e-6 + 7 * 0.6e-6), ("openai/nobody-priced-this", None)])
async def test_an_answers_cost_is_counted_where_litellm_knows_a_price(monkeypatch, named, usd):
    counts = Counts()
    monkeypatch.setattr("model_caller.ModelCounts", lambda _, name: ModelCounts(counts, name))
    monkeypatch.setattr(Caller, "timed", True)
    outcome, _, _ = await answered(events(chunk({"content": "hi"}), chunk({}, "stop"), USAGE, DONE), model=named)
    assert outcome.content == "hi"
    (found,) = families(counts.standing(), [metrics.COST])
    assert found.values == ({} if usd is None else {(named,): pytest.approx(usd, abs=1e-9)})
    assert outcome.cost_usd == (None if usd is None else pytest.approx(usd, abs=1e-9))
    assert 0 <= outcome.first_token_ms <= outcome.duration_ms < 60_000


@pytest.mark.parametrize("direct", [True, False], ids=["direct", "by-litellm"])
async def test_tokens_of_a_cache_and_of_thinking_are_in_the_answer_and_in_its_cost(monkeypatch, direct):
    monkeypatch.setattr(Caller, "direct", direct)
    details = {"prompt_tokens_details": {"cached_tokens": 8}, "completion_tokens_details": {"reasoning_tokens": 5}}
    told = {**chunk({}, usage=USAGE["usage"] | details), "choices": []}
    outcome, _, _ = await answered(events(chunk({"content": "hi"}), chunk({}, "stop"), told, DONE), model=PRICED)
    assert (outcome.input_tokens, outcome.cached_tokens) == (11, 8)
    assert (outcome.output_tokens, outcome.reasoning_tokens) == (7, 5)
    assert outcome.cost_usd == pytest.approx(3 * 0.15e-6 + 8 * 0.075e-6 + 7 * 0.6e-6, abs=1e-9)


async def test_callbacks_of_litellm_are_told_of_whole_answers(monkeypatch):
    told = asyncio.Queue()

    class Logger(CustomLogger):
        async def async_log_success_event(self, kwargs, response_obj, start_time, end_time):
            told.put_nowait(response_obj)

    monkeypatch.setattr(model.litellm, "callbacks", [Logger()])
    frames = [chunk({"content": "hi"}), chunk({"content": " there"}), chunk({}, "stop"), USAGE, DONE]
    outcome, _, _ = await answered(events(*frames))
    assert outcome.content == "hi there"
    async with asyncio.timeout(10):
        assert (await told.get()).choices[0].message.content == "hi there"


class Restarts:
    """A sleep that notes how long it was asked for."""

    def __init__(self):
        self.asked = []

    async def __call__(self, delay_s):
        self.asked.append(delay_s)


@pytest.mark.parametrize(("retry_after", "waited"), [("7", 7.0), ("1e9", 60.0), ("-3", 0.0), ("nan", 0.0), ("soon", 0.0)])
async def test_how_long_a_provider_asks_to_wait_is_heeded_within_a_bound(monkeypatch, retry_after, waited):
    sleep = Restarts()
    with ModelServer(script=["ok"]) as server:
        server.fail(429, retry_after=retry_after)
        caller = await Caller.of(server)
        with monkeypatch.context() as patched:
            patched.setattr(failover, "sleep", sleep)
            outcome = await caller.call()
    assert isinstance(outcome, ModelReplied)
    assert sleep.asked == [waited]


ROUTES = ["deepseek/m", "hosted_vllm/m", "mistral/m", "openrouter/a/m", "groq/m", "xai/m", "together_ai/m", "litellm_proxy/m"]


@pytest.mark.parametrize("route", ROUTES)
async def test_on_every_route_of_openais_form_an_early_end_is_no_end(route):
    with ModelServer(script=[events(chunk({"content": "half"})), say("cut", finish_reason="model_length")]) as server:
        outcome = await (await Caller.of(server, model=route)).call()
        assert isinstance(outcome, ModelReplied), outcome
        assert (outcome.content, outcome.finish_reason, len(server.requests)) == ("cut", "length", 2)
