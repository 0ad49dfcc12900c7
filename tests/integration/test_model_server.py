"""The model server, over real HTTP and through real litellm."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import aiohttp
import pytest

from holdfast.testing.model_server import ModelServer
from holdfast.testing.transcripts import NoAnswer, Replay, call, calls, read_script, say

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
import litellm

# litellm hands aiohttp a body of over 1 MiB as bytes
pytestmark = pytest.mark.filterwarnings("ignore:Sending a large body directly with raw bytes:ResourceWarning")
DATA = Path(__file__).parents[2] / "../shared/data"
UNICODE = "Grüße, 你好 \N{RAINBOW} \N{LINE SEPARATOR} e\N{COMBINING ACUTE ACCENT}"
HELLO = [{"role": "user", "content": "hello"}]
TWO_CALLS = calls(
    call("refund", {"order": 7, "note": UNICODE}, id="call_a"),
    call("look_up", '{"broken": ', id="call_b"),
    call("ping", {}, id="call_c"),
    content="One moment…",
)
RECORDING = [
    {"role": "user", "content": "refund 7"},
    TWO_CALLS,
    {"role": "tool", "tool_call_id": "call_a", "content": "done"},
    {"role": "tool", "tool_call_id": "call_b", "content": "no"},
    {"role": "tool", "tool_call_id": "call_c", "content": "pong"},
    {"role": "assistant", "content": "Refunded."},
    {"role": "user", "content": "thanks"},
    {"role": "assistant", "content": "You are welcome."},
]


async def ask(server, messages=HELLO, **options):
    """One completion through litellm, put together again if it was streamed."""
    answer = await litellm.acompletion(
        model="openai/gpt-4o-mini",
        api_base=server.url,
        api_key="x",
        messages=messages,
        max_retries=0,
        _skip_mcp_handler=True,  # with tools litellm imports mcp else, which is no dependency of it
        **options,
    )
    if not options.get("stream"):
        return answer
    return litellm.stream_chunk_builder([chunk async for chunk in answer], messages=messages)


def spoken(answer):
    """What an answer says: content and calls."""
    message = answer.choices[0].message
    tool_calls = message.tool_calls or []
    return message.content, [(item.id, item.function.name, item.function.arguments) for item in tool_calls]


def said(message):
    tool_calls = message.get("tool_calls") or []
    return message["content"], [(item["id"], item["function"]["name"], item["function"]["arguments"]) for item in tool_calls]


async def post(server, **body):
    """One raw request: status, headers and body text."""
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{server.url}/chat/completions", json={"messages": HELLO} | body) as response,
    ):
        return response.status, response.headers, await response.text()


def events(text):
    return [line.removeprefix("data: ") for line in text.split("\n\n") if line]


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("message", [say(UNICODE), call("ping", {}), TWO_CALLS], ids=["text", "call", "calls"])
async def test_litellm_reads_the_scripted_answer_as_it_was_written(message, stream):
    async with ModelServer(script=[message]) as server:
        answer = await ask(server, stream=stream)
    assert spoken(answer) == said(message)
    assert answer.choices[0].finish_reason == ("tool_calls" if message.get("tool_calls") else "stop")
    assert server.requests[0].authorization == "Bearer x"


async def test_a_megabyte_of_text_goes_both_ways():
    text = "ü" * 1_000_000
    async with ModelServer(script=lambda request: request["messages"][0]["content"]) as server:
        answer = await ask(server, [{"role": "user", "content": text}], stream=True)
    assert answer.choices[0].message.content == text


async def test_a_stream_has_the_chunks_of_the_openai_format():
    async with ModelServer(script=[TWO_CALLS]) as server:
        status, headers, text = await post(server, stream=True, stream_options={"include_usage": True})
    assert (status, headers["Content-Type"]) == (200, "text/event-stream")
    *chunks, last = events(text)
    assert last == "[DONE]"
    *choices, usage = [json.loads(chunk) for chunk in chunks]
    assert usage["choices"] == []
    assert usage["usage"]["total_tokens"] > 0
    assert all(chunk["usage"] is None for chunk in choices)
    deltas = [chunk["choices"][0]["delta"] for chunk in choices]
    assert deltas[0] == {"role": "assistant", "content": ""}
    assert len([delta for delta in deltas[1:] if "content" in delta]) > 1
    starts = [item for delta in deltas for item in delta.get("tool_calls", ()) if "id" in item]
    assert [(item["index"], item["id"], item["function"]["arguments"]) for item in starts] == [
        (0, "call_a", ""),
        (1, "call_b", ""),
        (2, "call_c", ""),
    ]
    assert [chunk["choices"][0]["finish_reason"] for chunk in choices][-2:] == [None, "tool_calls"]


async def test_usage_is_streamed_only_when_it_is_asked_for():
    async with ModelServer(script=["hi"]) as server:
        _, _, text = await post(server, stream=True)
    assert "usage" not in text


async def test_litellm_reports_the_usage_of_a_stream():
    async with ModelServer(script=["hi"]) as server:
        answer = await ask(server, stream=True, stream_options={"include_usage": True})
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens > 0


async def test_a_list_is_used_up_in_order_and_then_the_answer_is_400():
    async with ModelServer(script=["one", say("two")]) as server:
        assert [spoken(await ask(server))[0] for _ in range(2)] == ["one", "two"]
        with pytest.raises(litellm.BadRequestError, match="script is exhausted: all of its 2 answers"):
            await ask(server)


async def test_a_function_sees_the_request_and_its_exception_is_a_400():
    def script(request):
        return f"{len(request['tools'])} tools, {request['model']}, {request['extra']}"

    tools = [{"type": "function", "function": {"name": "ping", "parameters": {"type": "object", "properties": {}}}}]
    async with ModelServer(script=script) as server:
        answer = await ask(server, tools=tools, extra_body={"extra": 1}, stream=True)
        assert spoken(answer)[0] == "1 tools, gpt-4o-mini, 1"
        with pytest.raises(litellm.BadRequestError, match="KeyError: 'tools'"):
            await ask(server)


async def test_a_malformed_request_is_400_and_an_unknown_path_404():
    async with ModelServer(script=["one"]) as server:
        assert (await post(server, messages="hello"))[0] == 400
        async with aiohttp.ClientSession() as session, session.post(f"{server.url}/chat/completions", data="{") as bad:
            assert bad.status == 400
        async with aiohttp.ClientSession() as session, session.get(f"{server.url}/models") as unknown:
            assert unknown.status == 404
            assert (await unknown.json())["error"]["type"] == "not_found_error"
        assert server.requests == []
        assert spoken(await ask(server))[0] == "one"


@pytest.mark.parametrize(
    ("script", "text"),
    [
        ([7], r"script\[0\]"),
        ([{"role": "user", "content": "x"}], r"script\[0\]: no assistant message"),
        (["x", {"content": []}], r"script\[1\]\.content"),
        ([{"tool_calls": [{"function": {}}]}], r"script\[0\]\.tool_calls\[0\]"),
        ([{"tool_calls": [{"function": {"name": "a", "arguments": {}}}]}], "must be JSON text"),
    ],
)
def test_a_malformed_script_is_refused_with_its_place(script, text):
    with pytest.raises(ValueError, match=text):
        ModelServer(script=script)


def test_a_server_has_one_source_and_no_url_before_it_starts():
    with pytest.raises(ValueError, match="either script= or replay="):
        ModelServer()
    with pytest.raises(ValueError, match="either script= or replay="):
        ModelServer(script=[], replay=[])
    with pytest.raises(RuntimeError, match="before it is started"):
        _ = ModelServer(script=[]).url


# Replay


async def test_a_replay_answers_by_user_and_assistant_messages_alone():
    rewritten = [
        {"role": "system", "content": "You are kind."},
        {"role": "user", "content": [{"type": "text", "text": "refund 7"}]},
        json.loads(json.dumps(TWO_CALLS).replace('"call_', '"other_')),
        {"role": "tool", "tool_call_id": "other_a", "content": '{"status": "ok"}'},
    ]
    async with ModelServer(replay=[RECORDING]) as server:
        assert spoken(await ask(server, RECORDING[:1], stream=True)) == said(TWO_CALLS)
        assert spoken(await ask(server, rewritten, stream=True)) == said(RECORDING[5])
        assert spoken(await ask(server, RECORDING[:1], stream=True)) == said(TWO_CALLS)


async def test_a_request_off_the_recording_is_400_and_says_where():
    changed = json.loads(json.dumps(RECORDING[:2]).replace("refund", "reject"))
    async with ModelServer(replay=[RECORDING]) as server:
        with pytest.raises(litellm.BadRequestError, match="first 0 agree"):
            await ask(server)
        with pytest.raises(litellm.BadRequestError, match="first 1 agree"):
            await ask(server, [RECORDING[0], changed[1]])
        with pytest.raises(litellm.BadRequestError, match="recording ends here"):
            await ask(server, RECORDING)


def test_recordings_that_answer_one_prefix_differently_are_refused():
    Replay([RECORDING, RECORDING])
    with pytest.raises(ValueError, match="transcript 1, message 5"):
        Replay([RECORDING, [*RECORDING[:5], say("No.")]])


@pytest.mark.skipif(not DATA.exists(), reason="the recorded conversations are not here")
def test_every_recorded_step_is_found():
    files = [DATA / "airline.conversations.jsonl", DATA / "parallel.conversations.jsonl"]
    replay = Replay.from_files(*files)
    transcripts = [json.loads(line)["messages"] for file in files for line in file.read_text("utf-8").splitlines()]
    assert len(transcripts) == 200
    for transcript in transcripts:
        for number, message in enumerate(transcript):
            if message["role"] == "assistant":
                assert said(replay.answer({"messages": transcript[:number]})) == said(message)
        with pytest.raises(NoAnswer):
            replay.answer({"messages": transcript})


@pytest.mark.skipif(not DATA.exists(), reason="the recorded conversations are not here")
async def test_recorded_steps_come_through_litellm_unchanged():
    path = DATA / "parallel.conversations.jsonl"
    transcripts = [json.loads(line)["messages"] for line in path.read_text("utf-8").splitlines()][::10]
    async with ModelServer(replay=Replay.from_files(path)) as server:
        for transcript in transcripts:
            assert spoken(await ask(server, transcript[:1], stream=True)) == said(transcript[1])


def test_a_file_that_is_no_recording_is_refused_with_its_line(tmp_path):
    recording = tmp_path / "r.jsonl"
    recording.write_text(f"{json.dumps(RECORDING)}\n\n{{}}\n")
    with pytest.raises(ValueError, match=r"r\.jsonl:3: expected an object with `messages`"):
        Replay.from_files(recording)
    recording.write_text("{")
    with pytest.raises(ValueError, match=r"r\.jsonl:1: not JSON"):
        Replay.from_files(recording)
    recording.write_text("{}")
    with pytest.raises(ValueError, match="a script is a JSON list"):
        read_script(recording)


# Faults


async def test_held_requests_wait_until_they_are_released():
    async with ModelServer(script=lambda request: request["messages"][0]["content"]) as server:
        server.hold()
        first = asyncio.create_task(ask(server, [say("a")]))
        await server.held(1)
        second = asyncio.create_task(ask(server, [say("b")]))
        await server.held(2)
        assert [seen.body["messages"][0]["content"] for seen in await server.arrived(2)] == ["a", "b"]
        server.release(1)
        assert spoken(await first)[0] == "a"
        third = asyncio.create_task(ask(server, [say("c")]))
        await server.held(2)
        assert not second.done()
        server.release()
        assert [spoken(await task)[0] for task in (second, third)] == ["b", "c"]
        assert spoken(await ask(server, [say("d")]))[0] == "d"


async def test_only_the_next_requests_are_held_when_a_number_is_given():
    async with ModelServer(script=["one", "two"]) as server:
        server.hold(1)
        held = asyncio.create_task(ask(server))
        await server.held(1)
        assert spoken(await ask(server))[0] == "one"
        server.clear()
        assert spoken(await held)[0] == "two"


async def test_a_client_that_hangs_up_is_held_no_longer_and_its_answer_stays():
    async with ModelServer(script=["one"]) as server:
        server.hold()
        gone = asyncio.create_task(ask(server))
        await server.held(1)
        gone.cancel()
        await asyncio.wait([gone])
        while True:
            try:
                await server.held(1, timeout_s=0)
            except TimeoutError:
                break
        server.release()
        assert spoken(await ask(server))[0] == "one"


async def test_waiting_has_a_deadline_and_says_how_far_it_came():
    async with ModelServer(script=["one"]) as server:
        await ask(server)
        with pytest.raises(TimeoutError, match="1 of 2 requests arrived"):
            await server.arrived(2, timeout_s=0.01)
        with pytest.raises(TimeoutError, match="0 of 1 requests are held"):
            await server.held(1, timeout_s=0.01)


@pytest.mark.parametrize("stream", [True, False])
async def test_failures_come_in_the_order_they_were_set_and_then_the_answer(stream):
    async with ModelServer(script=["one"]) as server:
        server.fail(429, retry_after=7)
        server.fail(503, times=2)
        server.fail(400, message="This model's maximum context length is 8 tokens.", code="context_length_exceeded")
        server.fail(401)
        with pytest.raises(litellm.RateLimitError) as limited:
            await ask(server, stream=stream)
        assert limited.value.litellm_response_headers["retry-after"] == "7"
        for _ in range(2):
            with pytest.raises(litellm.ServiceUnavailableError):
                await ask(server, stream=stream)
        with pytest.raises(litellm.ContextWindowExceededError):
            await ask(server, stream=stream)
        with pytest.raises(litellm.AuthenticationError):
            await ask(server, stream=stream)
        assert spoken(await ask(server, stream=stream))[0] == "one"
        assert len(server.requests) == 6


async def test_a_failure_without_a_number_lasts_until_cleared_or_replaced():
    async with ModelServer(script=["one"]) as server:
        server.fail(500, times=None, body="<html>")
        assert [(await post(server))[::2] for _ in range(3)] == [(500, "<html>")] * 3
        server.fail(502, times=None, body={"a": 1})
        assert (await post(server))[::2] == (502, '{"a": 1}')
        server.clear()
        assert (await post(server))[0] == 200
        with pytest.raises(ValueError, match="times must be at least 1"):
            server.fail(500, times=0)


async def test_a_connection_breaks_before_the_first_byte():
    async with ModelServer(script=["one"]) as server:
        server.break_connection()
        with pytest.raises(aiohttp.ServerDisconnectedError):
            await post(server)
        server.break_connection()
        with pytest.raises((litellm.APIConnectionError, litellm.InternalServerError)):
            await ask(server, stream=True)
        assert spoken(await ask(server, stream=True))[0] == "one"


async def test_a_stream_breaks_after_some_chunks_and_the_retry_gets_its_answer():
    async with ModelServer(script=["one answer", "another"]) as server:
        server.break_connection(after_chunks=3)
        stream = await litellm.acompletion(
            model="openai/x", api_base=server.url, api_key="x", messages=HELLO, stream=True, max_retries=0
        )
        with pytest.raises(litellm.exceptions.MidStreamFallbackError):
            _ = [chunk async for chunk in stream]
        server.break_connection(after_chunks=1)
        with pytest.raises(aiohttp.ClientPayloadError):
            await post(server)
        assert spoken(await ask(server, stream=True))[0] == "one answer"


@pytest.mark.parametrize(("after", "expected"), [(2, 2), (1000, 7)])
async def test_a_broken_stream_has_its_chunks_and_never_done(after, expected):
    received = bytearray()

    async def receive(content):
        while True:
            received.extend(await content.readany())

    async with ModelServer(script=["one answer"]) as server, aiohttp.ClientSession() as session:
        server.break_connection(after_chunks=after)
        body = {"messages": HELLO, "stream": True}
        async with session.post(f"{server.url}/chat/completions", json=body) as response:
            with pytest.raises(aiohttp.ClientPayloadError):
                await receive(response.content)
    lines = events(received.decode())
    assert len(lines) == expected
    assert all(json.loads(line)["object"] == "chat.completion.chunk" for line in lines)


async def test_a_slow_answer_sends_its_headers_and_then_its_chunks_one_by_one():
    body = {"messages": HELLO, "stream": True}
    async with ModelServer(script=["one", "two"]) as server, aiohttp.ClientSession() as session:
        server.slow(first_token_s=3600, times=1)
        server.slow(between_chunks_s=3600)
        async with session.post(f"{server.url}/chat/completions", json=body) as response:
            assert response.status == 200
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(response.content.readline(), 0.05)
        async with session.post(f"{server.url}/chat/completions", json=body) as response:
            assert b'"role": "assistant"' in await response.content.readline()
            await response.content.readline()
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(response.content.readline(), 0.05)
        server.clear()
        server.slow(first_token_s=0.01, between_chunks_s=0.001)
        assert spoken(await ask(server, stream=True))[1] == []


# Faces


def test_the_blocking_server_is_steered_from_other_threads():
    with ModelServer(script=["one"]) as server:
        server.hold()
        answers = []
        client = threading.Thread(target=lambda: answers.append(asyncio.run(ask(server))))
        client.start()
        server.wait_held(1)
        assert len(server.wait_requests(1)) == 1
        server.release()
        client.join()
    assert spoken(answers[0])[0] == "one"


async def test_a_stopped_server_refuses_and_comes_back_at_its_url():
    server = ModelServer(script=["one", "two"])
    async with server:
        url = server.url
        assert spoken(await ask(server))[0] == "one"
        with pytest.raises(RuntimeError, match="runs already"):
            server.start()
        with pytest.raises(OSError, match="in use"):
            ModelServer(script=[], port=int(url.split(":")[2].split("/")[0])).start()
    with pytest.raises(aiohttp.ClientConnectorError):
        await post(server)
    server.stop()
    async with server:
        assert server.url == url
        assert spoken(await ask(server))[0] == "two"


async def test_stopping_cuts_off_what_is_held():
    async with ModelServer(script=["one"]) as server:
        server.hold()
        held = asyncio.create_task(post(server))
        await server.held(1)
    with pytest.raises(aiohttp.ClientError):
        await held


@pytest.mark.parametrize("kind", ["--replay", "--script"])
async def test_as_a_process_it_prints_its_url_and_ends_on_sigterm(tmp_path, kind):
    path = tmp_path / "answers"
    path.write_text(json.dumps({"messages": RECORDING} if kind == "--replay" else ["Hi.", TWO_CALLS]))
    command = [sys.executable, "-m", "holdfast.testing.model_server", kind, str(path)]
    process = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    url = (await process.stdout.readline()).decode().strip()
    body = {"messages": RECORDING[:1]}
    async with aiohttp.ClientSession() as session, session.post(f"{url}/chat/completions", json=body) as response:
        message = (await response.json())["choices"][0]["message"]
    process.send_signal(signal.SIGTERM)
    rest, errors = await asyncio.wait_for(process.communicate(), 30)
    assert message["content"] == ("One moment…" if kind == "--replay" else "Hi.")
    assert (process.returncode, rest) == (0, b"")
    assert b"Traceback" not in errors


def test_as_a_process_it_refuses_a_bad_file(tmp_path):
    command = [sys.executable, "-m", "holdfast.testing.model_server", "--replay", str(tmp_path / "none.jsonl")]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert ended.returncode == 2
    assert "No such file" in ended.stderr
    assert "Traceback" not in ended.stderr
