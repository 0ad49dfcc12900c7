"""Reading plain chunks without litellm changes no outcome: each stream and each error is played to both readers."""

import json
from pathlib import Path

import pytest
from litellm.llms.custom_httpx.async_client_cleanup import close_litellm_async_clients
from model_caller import LOOKUP, Caller
from openai.resources.chat.completions import completions
from recorded_streams import AWS, bytes_of, player, replayed

from holdfast.actors.worker import failover, model
from holdfast.actors.worker.plain_chunks import PlainChunks, said
from holdfast.conversation import ModelReplied
from holdfast.testing import ModelServer, events

ROWS = [json.loads(line) for line in Path(__file__).with_name("recorded_streams.jsonl").read_text().splitlines()]
CHAT = [row for row in ROWS if row["form"] == "openai"]
SDK = ["openai", "azure"]
"""Routes whose streams litellm takes from OpenAI's SDK."""


KEPT = []
"""What the cache held of other tests' clients: their loops are closed, so they cannot be closed, only be kept to the end."""


@pytest.fixture(autouse=True)
def alone(monkeypatch):
    monkeypatch.setattr(failover, "FIRST_DELAY_S", 0.0)
    for observers in ("callbacks", "success_callback", "_async_success_callback"):  # litellm adds to them for good
        monkeypatch.setattr(model.litellm, observers, [])
    for name, value in AWS.items():
        monkeypatch.setenv(name, value)


@pytest.fixture(autouse=True)
async def closed():
    """Closes litellm's clients, one of each server, before litellm's cache drops them unclosed."""
    yield
    await close_litellm_async_clients()
    KEPT.append(dict(model.litellm.in_memory_llm_clients_cache.cache_dict))
    model.litellm.in_memory_llm_clients_cache.flush_cache()


@pytest.fixture
def plainly(monkeypatch):
    """The number of chunks that were read without litellm, in a list."""
    read = [0]
    found = PlainChunks.plain

    async def counted(self):
        chunk = await found(self)
        read[0] += chunk is not None
        return chunk

    monkeypatch.setattr(PlainChunks, "plain", counted)
    return read


@pytest.fixture
def by_litellm(monkeypatch):
    """Lets litellm read every chunk from now on."""
    return lambda: monkeypatch.setattr(Caller, "direct", False)


@pytest.mark.parametrize("row", ROWS, ids=[row["title"] for row in ROWS])
async def test_every_recorded_stream_has_the_same_outcome_through_both(row, by_litellm):
    async with player() as playing:
        ours = await replayed(playing, row)
        by_litellm()
        assert without_made_up_ids(await replayed(playing, row)) == without_made_up_ids(ours)


def without_made_up_ids(said):
    """The outcome and the next request; Gemini's calls have ids that litellm makes up."""
    outcome, request = said
    ids = {one.tool_call_id: f"id_{place}" for place, one in enumerate(outcome.calls)}
    text = json.dumps([outcome.model_dump(mode="json"), request])
    for call_id, name in ids.items():
        text = text.replace(call_id, name)
    return text


@pytest.mark.parametrize("route", SDK)
@pytest.mark.parametrize("row", CHAT, ids=[row["title"] for row in CHAT])
async def test_every_recorded_chat_stream_cut_anywhere_has_the_same_outcome_on_the_sdks_routes(
    row, route, by_litellm, plainly, monkeypatch
):
    row, whole = row | {"route": route}, bytes_of(row)
    places = [place for place in range(len(whole)) if whole[place : place + 5] == b"data:"]
    cuts = [*places[1 :: max(len(places) // 12, 1)], *(place + 40 for place in places[1 :: max(len(places) // 6, 1)])]
    bodies = [whole, *(whole[:place] for place in cuts)]

    async def outcomes():
        async with player() as playing:
            return [await replayed(playing, row | {"text": body.decode("utf-8", "replace")}) for body in bodies]

    monkeypatch.setattr(Caller, "retries", 0)
    ours = await outcomes()
    assert plainly[0] > 0 or "reasoning_details" in row["text"]
    by_litellm()
    assert await outcomes() == ours


def chunk(delta, finish_reason=None, *, index=0, beside=None, **more):
    """One event of OpenAI's stream; `beside` are further keys of its choice."""
    choice = {"index": index, "delta": delta, "finish_reason": finish_reason, **(beside or {})}
    return {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice], **more}


def called(index=0, **function):
    """A piece of a call."""
    return {"index": index, "function": function}


FIRST, STOP, DONE = chunk({"role": "assistant", "content": ""}), chunk({}, "stop"), "data: [DONE]\n\n"
USAGE = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}
COUNTED = {**chunk({}, usage=USAGE), "choices": []}
TEXT = [chunk({"content": f"{word} "}) for word in ("It", "was", "shipped", "today.")]


def pieces(*parts):
    """An answer with these pieces of calls."""
    return [FIRST, *(chunk({"tool_calls": [part]}) for part in parts), chunk({}, "tool_calls"), COUNTED, DONE]


NAMED = {"id": "call_1", "type": "function", **called(name="lookup", arguments="")}
SECOND = {"id": "call_2", "type": "function", **called(1, name="lookup", arguments="")}
PARTS = ('{"order"', ": 7}")
OVER = chunk({"content": "over "})
ALSO = chunk({"content": "also"}, index=1)
TOKEN = {"token": "a", "logprob": -1, "bytes": None, "top_logprobs": []}
CUSTOM = {"type": "custom", "custom": {"name": "lookup", "input": "x"}}
STREAMS = {
    "text": [FIRST, *TEXT, STOP, COUNTED, DONE],
    "text-and-reasoning": [FIRST, chunk({"content": None, "reasoning_content": "hm"}), *TEXT, STOP, DONE],
    "reasoning-by-its-other-name": [FIRST, chunk({"reasoning": "hm"}), chunk({"reasoning": ", so"}), *TEXT, STOP, DONE],
    "reasoning-by-both-names": [FIRST, chunk({"reasoning": "a", "reasoning_content": "b"}), *TEXT, STOP, DONE],
    "reasoning-beside-empty-text": [FIRST, chunk({"content": "", "reasoning_content": "hm"}), *TEXT, STOP, DONE],
    "text-with-reasoning": [FIRST, chunk({"content": "x", "reasoning_content": "hm"}), *TEXT, STOP, DONE],
    "text-with-empty-reasoning": [FIRST, chunk({"content": "x", "reasoning_content": ""}), *TEXT, STOP, DONE],
    "a-call": pieces(NAMED, *(called(arguments=part) for part in PARTS)),
    "typed-pieces": pieces(NAMED, *({"type": "function", "id": None, **called(name=None, arguments=part)} for part in PARTS)),
    "pieces-with-ids": pieces(NAMED, *({"id": "call_1", **called(name="lookup", arguments=part)} for part in PARTS)),
    "pieces-with-empty-ids": pieces(NAMED, *({"id": "", **called(name="", arguments=part)} for part in PARTS)),
    "two-calls-in-turns": pieces(NAMED, SECOND, *(called(index, arguments=part) for part in PARTS for index in (1, 0))),
    "two-whole-calls": pieces(
        {**NAMED, **called(name="lookup", arguments="{}")}, {**SECOND, **called(1, name="lookup", arguments="{}")}
    ),
    "a-call-without-an-id": pieces(called(name="lookup", arguments=""), *(called(arguments=part) for part in PARTS)),
    "a-call-without-a-name": pieces({"id": "call_1", **called(arguments="")}, *(called(arguments=part) for part in PARTS)),
    "a-call-named-later": pieces({"id": "call_1", **called(arguments="{}")}, called(name="lookup", arguments="")),
    "keys-in-odd-places": pieces(
        {**called(id="call_1", name="lookup", arguments="{}")}, {"id": "call_1", "name": "x", **called(arguments="")}
    ),
    "calls-under-one-index": pieces(NAMED, called(arguments="{}"), {**NAMED, "id": "call_2"}, called(arguments="[]")),
    "odd-names": pieces({**NAMED, "id": 7}, {**NAMED, **called(name=["a"], arguments="")}, {**NAMED, **called(name="x")}),
    "half-a-character-in-a-name": pieces({**NAMED, **called(name="look\ud83d", arguments="{}")}),
    "two-calls-at-once": [FIRST, chunk({"tool_calls": [NAMED, SECOND]}), chunk({}, "tool_calls"), DONE],
    "pieces-beside-empty-text": [FIRST, chunk({"content": "", "tool_calls": [NAMED]}), chunk({}, "tool_calls"), DONE],
    "arguments-of-an-unknown-call": pieces(called(4, arguments="{}")),
    "a-piece-without-an-index": pieces(NAMED, {"function": {"arguments": "{}"}}),
    "an-odd-index": pieces(NAMED, called("0", arguments="{}"), called(True, arguments=" "), called(1.5, arguments=" ")),
    "arguments-that-are-no-text": pieces(NAMED, called(arguments={"order": 7})),
    "empty-keys-of-pieces": pieces(NAMED, {"custom": {}, **called(arguments="{}")}, {"id": 0, **called(arguments=" ")}),
    "an-odd-type": pieces(NAMED, {"type": 7, **called(arguments="{}")}),
    "half-a-character-in-arguments": pieces(NAMED, called(arguments='"\ud83d'), called(arguments='\ude00"')),
    "half-a-character-in-text": [FIRST, chunk({"content": "\ud83d"}), chunk({"content": "\ude00"}), STOP, DONE],
    "a-custom-call": pieces({"index": 0, "id": "call_1", **CUSTOM}),
    "a-custom-piece": pieces(NAMED, {**CUSTOM, **called(arguments="{}")}),
    "a-refusal": [FIRST, chunk({"refusal": "I will"}), chunk({"refusal": " not."}), STOP, DONE],
    "an-old-call": [FIRST, chunk({"function_call": {"name": "lookup", "arguments": "{}"}}), chunk({}, "function_call"), DONE],
    "text-that-is-none": [FIRST, chunk({"content": ["a", "b"]}), chunk({"content": 7}), *TEXT, STOP, DONE],
    "empty-texts": [FIRST, chunk({"content": ""}), chunk({}), *TEXT, chunk({"content": ""}), STOP, DONE],
    "no-first-chunk": [*TEXT, STOP, DONE],
    "counts-in-every-chunk": [FIRST, *(one | {"usage": USAGE} for one in TEXT), STOP, COUNTED, DONE],
    "counts-before-the-text": [FIRST, COUNTED, *TEXT, STOP, DONE],
    "other-choices": [FIRST, TEXT[0], ALSO, TEXT[1], STOP, chunk({}, "stop", index=1), DONE],
    "two-choices-in-a-chunk": [FIRST, {**TEXT[0], "choices": TEXT[0]["choices"] + ALSO["choices"]}, STOP, DONE],
    "text-after-the-end": [FIRST, TEXT[0], STOP, TEXT[1], STOP, DONE],
    "an-end-with-text": [FIRST, TEXT[0], chunk({"content": "now"}, "length"), COUNTED, DONE],
    "no-end": [FIRST, *TEXT, DONE],
    "no-end-at-all": [FIRST, *TEXT],
    "an-unknown-end": [FIRST, *TEXT, chunk({}, "weather"), DONE],
    "a-failed-end": [FIRST, *TEXT, chunk({}, "error"), DONE],
    "a-first-chunk-of-its-role": [chunk({"role": "assistant"}), *TEXT, STOP, COUNTED, DONE],
    "two-first-chunks": [FIRST, FIRST, *TEXT, STOP, COUNTED, DONE],
    "a-first-chunk-that-ends": [chunk({"role": "assistant"}, "stop"), *TEXT, DONE],
    "a-first-chunk-with-an-odd-role": [chunk({"role": 7, "content": ""}), *TEXT, STOP, DONE],
    "a-first-chunk-without-a-role": [chunk({"content": ""}), *TEXT, STOP, DONE],
    "counts-without-a-sum": [FIRST, *TEXT, STOP, {**COUNTED, "usage": {"prompt_tokens": 11}}, DONE],
    "odd-counts": [FIRST, *TEXT, STOP, {**COUNTED, "usage": {"prompt_tokens": "11", "completion_tokens": None}}, DONE],
    "counts-that-are-none": [FIRST, *TEXT, STOP, {**COUNTED, "usage": {}}, {**COUNTED, "usage": [1]}, DONE],
    "counts-twice": [FIRST, *TEXT, STOP, COUNTED, {**COUNTED, "usage": {**USAGE, "completion_tokens": 9}}, DONE],
    "counts-with-own-keys": [FIRST, *TEXT, STOP, COUNTED | {"provider_specific_fields": {"a": 1}}, DONE],
    "counts-with-the-end": [FIRST, *TEXT, STOP | {"usage": USAGE}, DONE],
    "an-end-after-another": [FIRST, *TEXT, chunk({}, "length"), STOP, COUNTED, TEXT[0], DONE],
    "an-end-with-a-role": [FIRST, *TEXT, chunk({"role": "assistant", "content": ""}, "content_filter"), COUNTED, DONE],
    "an-end-in-another-word": [FIRST, *TEXT, chunk({}, "end_turn"), COUNTED, DONE],
    "an-end-without-calls": [FIRST, *TEXT, chunk({}, "tool_calls"), COUNTED, DONE],
    "an-end-before-a-call": [FIRST, chunk({}, "tool_calls"), chunk({"tool_calls": [NAMED]}), DONE],
    "an-end-with-reasoning": [FIRST, *TEXT, chunk({"reasoning_content": "hm"}, "stop"), DONE],
    "an-error-after-the-counts": [FIRST, *TEXT, STOP, COUNTED, {"error": {"message": "late"}}],
    "an-empty-end": [FIRST, *[chunk({"content": "a"}, "")] * 2, STOP, DONE],
    "no-id": [FIRST, *({name: value for name, value in one.items() if name != "id"} for one in TEXT), STOP, DONE],
    "odd-ids": [FIRST, TEXT[0] | {"id": None}, TEXT[1] | {"id": 7}, STOP, DONE],
    "own-keys": [FIRST, *(one | {"obfuscation": "x", "service_tier": None, "citations": ["a"]} for one in TEXT), STOP, DONE],
    "own-keys-of-the-provider": [FIRST, *(one | {"provider_specific_fields": {"a": 1}} for one in TEXT), STOP, DONE],
    "own-keys-of-choices": [FIRST, chunk({"content": "a"}, beside={"content_filter_results": {}}), *TEXT, STOP, DONE],
    "null-keys-of-choices": [FIRST, chunk({"content": "a"}, beside={"logprobs": None, "stop_reason": None}), STOP, DONE],
    "probabilities": [FIRST, chunk({"content": "a"}, beside={"logprobs": {"content": [TOKEN]}}), *TEXT, STOP, DONE],
    "null-deltas": [FIRST, TEXT[0], chunk(None), {**STOP, "choices": None}, TEXT[1], STOP, DONE],
    "no-events": [FIRST, "data: null\n\n", TEXT[0], "data: 7\n\n", STOP, DONE],
    "garbled": [FIRST, TEXT[0], "data: {\n\n", TEXT[1], STOP, DONE],
    "comments-and-other-events": [FIRST, ": ping\n\n", TEXT[0], "event: ping\ndata: {}\n\n", *TEXT[1:], STOP, DONE],
    "lines-of-another-system": ["".join(f"data: {json.dumps(one)}\r\n\r\n" for one in (FIRST, *TEXT, STOP)), DONE],
    "many-times-the-same": [FIRST, *[OVER] * 150, STOP, DONE],
    "the-same-ninety-nine-times": [FIRST, *[OVER] * 99, *TEXT, STOP, DONE],
    "the-same-a-hundred-times": [FIRST, *[OVER] * 100, STOP, DONE],
    "the-same-and-then-another": [FIRST, *[OVER] * 100, TEXT[0], STOP, DONE],
    "the-same-and-then-a-call": [FIRST, *[OVER] * 100, chunk({"tool_calls": [NAMED]}), chunk({}, "tool_calls"), DONE],
    "the-same-interrupted": [FIRST, *[OVER] * 60, chunk({"reasoning_content": "hm"}), *[OVER] * 60, STOP, DONE],
    "the-same-with-counts-between": [FIRST, *[OVER] * 60, OVER | {"usage": USAGE}, *[OVER] * 60, STOP, DONE],
    "short-ones-are-the-same": [FIRST, *[chunk({"content": "ab"})] * 150, STOP, DONE],
    "an-error": [FIRST, TEXT[0], {"error": {"message": "overloaded", "type": "server_error", "code": 503}}, DONE],
    "an-error-of-limits": [FIRST, *TEXT, {"error": {"message": "Rate limit reached", "code": "rate_limit_exceeded"}}],
    "an-error-of-the-request": [FIRST, *TEXT, {"error": {"message": "too long", "type": "invalid_request_error", "code": 400}}],
    "an-error-that-is-a-word": [FIRST, *TEXT, {"error": "overloaded"}],
    "an-error-event": [FIRST, *TEXT, 'event: error\ndata: {"error": {"message": "gone"}}\n\n'],
    "an-error-at-first": [{"error": {"message": "overloaded", "code": 500}}],
    "an-error-after-the-end": [FIRST, *TEXT, STOP, {"error": {"message": "late"}}],
}


def told(caller):
    """The text that listeners were told, by kind and try."""
    texts = {}
    for kind, _, attempt, _, text in caller.live:
        value = json.loads(text) if kind == "arguments_delta" else {"text": text}
        key = (kind, attempt, value.get("index"), value.get("tool"))
        texts[key] = texts.get(key, "") + value["text"]
    return texts


class Heard(Caller):
    """A caller with listeners, so that no piece of arguments is left out."""

    async def publish(self, conversation_id, payload):
        """Keep what they are told."""
        await super().publish(conversation_id, payload)
        return True


async def outcome_of(server, **more):
    caller = await Heard.of(server, tools=(LOOKUP,), **more)
    outcome = await caller.call()
    return outcome, told(caller), len(server.requests)


@pytest.mark.parametrize("frames", STREAMS.values(), ids=STREAMS)
async def test_an_answer_is_the_same_whoever_reads_its_plain_chunks(frames, by_litellm, caplog):
    async def played():
        caplog.clear()
        with ModelServer(script=[events(*frames)] * (1 + Caller.retries)) as server:
            return await outcome_of(server), {record.getMessage() for record in caplog.records}

    ours = await played()
    by_litellm()
    assert await played() == ours


BROKEN = {
    "status": lambda server: server.fail(401, message="bad key", times=9),
    "limits": lambda server: server.fail(429, retry_after=0, times=9),
    "context": lambda server: server.fail(400, code="context_length_exceeded", message="maximum context length", times=9),
    "trouble": lambda server: server.fail(503, times=2),
    "a-page": lambda server: server.fail(502, body="<html>", times=9),
    "no-connection": lambda server: server.break_connection(times=9),
    "broken-early": lambda server: server.break_connection(after_chunks=1, times=9),
    "broken-in-the-text": lambda server: server.break_connection(after_chunks=4, times=9),
    "broken-after-the-end": lambda server: server.break_connection(after_chunks=6, times=9),
    "broken-at-last": lambda server: server.break_connection(after_chunks=7, times=9),
    "ended-in-the-text": lambda server: server.end_stream(after_chunks=4, times=1),
}


@pytest.mark.parametrize("fault", BROKEN.values(), ids=BROKEN)
async def test_an_error_is_the_same_whoever_reads_the_plain_chunks(fault, by_litellm, caplog):
    async def played():
        caplog.clear()
        with ModelServer(script=[events(FIRST, *TEXT, STOP, COUNTED, DONE)] * (1 + Caller.retries)) as server:
            fault(server)
            return await outcome_of(server), {record.getMessage() for record in caplog.records}

    ours = await played()
    by_litellm()
    assert await played() == ours


@pytest.mark.parametrize("size", [1_000, 40_000])
async def test_an_answer_that_is_too_large_is_broken_off_by_both(size, by_litellm):
    async def played():
        frames = [FIRST, *(chunk({"content": f"{place} " * 20}) for place in range(size // 20)), STOP, DONE]
        with ModelServer(script=[events(*frames)]) as server:
            return await outcome_of(server, reply_bytes=2_000)

    ours = await played()
    by_litellm()
    assert await played() == ours


@pytest.mark.parametrize("observer", ["post_call_rules", "callbacks", "merged"])
async def test_litellm_reads_every_chunk_if_something_in_it_looks_at_them(observer, plainly, monkeypatch):
    options = {"merge_reasoning_content_in_choices": True} if observer == "merged" else {}
    if not options:
        monkeypatch.setattr(model.litellm, observer, [lambda _: {"decision": True}])
    with ModelServer(script=[events(FIRST, *TEXT, STOP, DONE)]) as server:
        caller = await Caller.of(server)
        caller.own_options |= options
        outcome = await caller.call()
    assert (outcome.content, plainly) == ("It was shipped today. ", [0])


async def test_most_chunks_of_an_answer_are_read_without_litellm(plainly):
    with ModelServer(script=[events(FIRST, *TEXT * 20, STOP, COUNTED, DONE)]) as server:
        outcome, _, _ = await outcome_of(server)
    assert isinstance(outcome, ModelReplied)
    assert (outcome.input_tokens, plainly) == (11, [83])


async def test_the_calls_of_an_answer_are_read_without_litellm(plainly):
    with ModelServer(script=[events(*STREAMS["two-calls-in-turns"])]) as server:
        outcome, _, _ = await outcome_of(server)
    assert [one.tool_call_id for one in outcome.calls] == ["call_1", "call_2"]
    assert plainly == [9]


@pytest.mark.parametrize("more", [{}, {"extra_body": {"top_k": 3, "tools": []}}, {"temperature": 0.5, "seed": 1}])
async def test_the_next_request_of_a_client_is_the_same_as_its_first(more, monkeypatch):
    looked = []
    convert = completions.async_maybe_transform

    async def noted(data, expected):
        looked.append((len(data["messages"]), isinstance(data["tools"], list)))
        return await convert(data, expected)

    monkeypatch.setattr(completions, "async_maybe_transform", noted)
    with ModelServer(script=[events(FIRST, *TEXT, STOP, COUNTED, DONE)] * 2) as server:
        caller = await Caller.of(server, tools=(LOOKUP,))
        caller.own_options |= more
        assert await caller.call() == await caller.call()
        first, second = (request.body for request in server.requests)
    assert first == second
    assert list(first) == list(second)
    assert looked == [(1, True), (0, False)]


def test_what_is_no_plain_event_says_nothing():
    assert [said(one) for one in (None, 7, [], {}, {"choices": []}, COUNTED, ALSO)] == [None] * 7
