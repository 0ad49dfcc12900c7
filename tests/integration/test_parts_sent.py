"""Images and files over real HTTP and through real litellm: what each provider gets, and what fails before a request."""

import base64
from pathlib import Path

import pytest
from gemini_server import gemini, piece
from model_caller import LOOKUP, Caller
from writer import finish

from holdfast.actors.worker import failover, media, model
from holdfast.conversation import FailureReason, ModelFailed, ModelReplied
from holdfast.conversation.records.events import TurnFailed
from holdfast.conversation.terms.parts import FilePart, ImagePart, TextPart
from holdfast.testing import ModelServer, call

PNG = b"\x89PNG\r\n\x1a\n" + b"\x00" * 8
URL = "https://files.example/x.png"
WHAT = TextPart.of("What is it?")
PICTURE, ELSEWHERE = ImagePart.of(PNG, detail="low"), ImagePart.of(URL)
PAPER, FAR = FilePart.of(b"%PDF-1.7 ...", filename="a.pdf"), FilePart.of("https://files.example/a.pdf")
NOTE = FilePart.of(b"a note", filename="a.txt")
ZIP = FilePart.of("data:application/zip;base64,UEs=")
RESULT = '{"ok":true,"result":[{"type":"image_url","attached":1}]}'
B64, PDF64 = base64.b64encode(PNG).decode(), base64.b64encode(b"%PDF-1.7 ...").decode()


@pytest.fixture(autouse=True)
def no_delay(monkeypatch):
    monkeypatch.setattr(failover, "FIRST_DELAY_S", 0.0)


@pytest.fixture(autouse=True)
def nothing_is_fetched(monkeypatch):
    def fetched(*given, **_):
        raise AssertionError(f"litellm fetches {given}")

    for name in ("safe_get", "async_safe_get"):
        monkeypatch.setattr(f"litellm.litellm_core_utils.prompt_templates.image_handling.{name}", fetched)


async def said(caller, *parts):
    """A message of these parts, after a first turn."""
    await caller.turn()
    await caller.send(parts)
    return await caller.turn()


async def test_openai_gets_the_parts_as_they_are():
    with ModelServer(script=["hello", "a dot"]) as server:
        outcome = await said(await Caller.of(server), WHAT, PICTURE, ELSEWHERE, PAPER)
        assert isinstance(outcome, ModelReplied), outcome
        sent = server.requests[-1].body["messages"][-1]
    url = f"data:image/png;base64,{B64}"
    assert sent["content"] == [
        {"type": "text", "text": "What is it?"},
        {"type": "image_url", "image_url": {"url": url, "detail": "low"}},
        {"type": "image_url", "image_url": {"url": URL}},
        {"type": "file", "file": {"file_data": f"data:application/pdf;base64,{PDF64}", "filename": "a.pdf"}},
    ]


async def test_anthropic_gets_images_and_documents():
    with ModelServer(script=["hello", "a dot"]) as server:
        outcome = await said(await Caller.of(server, anthropic=True), WHAT, PICTURE, ELSEWHERE, PAPER, FAR)
        assert isinstance(outcome, ModelReplied), outcome
        sent = server.requests[-1].body["messages"][-1]
    assert sent["content"] == [
        {"type": "text", "text": "What is it?"},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": B64}},
        {"type": "image", "source": {"type": "url", "url": URL}},
        {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": PDF64}},
        {"type": "document", "source": {"type": "url", "url": FAR.file.file_url}},
    ]


async def test_gemini_gets_data_inline():
    async with gemini(*([piece({"text": "ok"}, finish_reason="STOP")],) * 2) as (caller, bodies):
        outcome = await said(caller, WHAT, PICTURE, PAPER)
        assert isinstance(outcome, ModelReplied), outcome
        parts = bodies[-1]["contents"][-1]["parts"]
    assert parts[0] == {"text": "What is it?"}
    found = [one.get("inline_data") or one.get("inlineData") for one in parts[1:]]
    assert [(one.get("mime_type") or one.get("mimeType"), one["data"]) for one in found] == [
        ("image/png", B64),
        ("application/pdf", PDF64),
    ]


@pytest.mark.parametrize(
    ("name", "part", "problem"),
    [
        ("openai/o3-mini", PICTURE, "openai/o3-mini cannot be sent a part of this turn: the model takes no images"),
        ("openai/gpt-4o-mini", FAR, "openai takes no file by its URL; send its data"),
        ("anthropic/claude-sonnet-4-5", ZIP, "Anthropic takes files of PDF and text only"),
    ],
)
async def test_what_the_route_cannot_take_fails_the_turn_before_a_request(name, part, problem):
    with ModelServer(script=["hello", "and on"]) as server:
        caller = await Caller.of(server, anthropic=name.startswith("anthropic"), model=name)
        outcome = await said(caller, WHAT, part)
        assert isinstance(outcome, ModelFailed)
        assert (outcome.reason, problem in outcome.error) == (FailureReason.UNSUPPORTED_PART, True), outcome.error
        assert isinstance(caller.events[-1], TurnFailed)
        assert len(server.requests) == 1
        # and the conversation goes on: the model reads that something was left out
        await caller.send("Never mind.")
        assert isinstance(await caller.turn(), ModelReplied)
        assert "[left out: " in str(server.requests[-1].body["messages"])


@pytest.mark.parametrize("part", [ELSEWHERE, FAR])
async def test_gemini_takes_no_urls_since_a_worker_would_fetch_them(part):
    async with gemini([piece({"text": "ok"}, finish_reason="STOP")]) as (caller, bodies):
        outcome = await said(caller, part)
        assert isinstance(outcome, ModelFailed)
        assert outcome.reason is FailureReason.UNSUPPORTED_PART
        assert len(bodies) == 1


async def test_an_unknown_model_is_sent_everything():
    with ModelServer(script=["hello", "a dot"]) as server:
        assert isinstance(await said(await Caller.of(server, model="openai/nobody-knows"), PICTURE), ModelReplied)


@pytest.mark.parametrize("anthropic", [False, True])
async def test_a_file_of_text_is_sent_as_its_text(anthropic):
    with ModelServer(script=["hello", "a note"]) as server:
        assert isinstance(await said(await Caller.of(server, anthropic=anthropic), NOTE), ModelReplied)
        (sent,) = server.requests[-1].body["messages"][-1]["content"]
    assert sent == {"type": "text", "text": "[file a.txt]\na note"}


async def looked_up(caller):
    """The outcome of the call after a tool has returned an image."""
    await caller.turn()
    await caller.writer.do(finish(caller.writer.effect_ids[0], content=RESULT, attached=(PICTURE,)))
    return await caller.turn()


async def test_openai_reads_the_image_of_a_result_in_a_message_behind_the_results():
    with ModelServer(script=[call("lookup", {"order": 7}, id="call_a"), "a dot"]) as server:
        assert isinstance(await looked_up(await Caller.of(server, tools=(LOOKUP,))), ModelReplied)
        sent = server.requests[-1].body["messages"]
    assert [message["role"] for message in sent] == ["user", "assistant", "tool", "user"]
    assert sent[2]["content"] == RESULT
    assert sent[3]["content"][0] == {"type": "text", "text": "Attached to the result of call call_a:"}
    assert sent[3]["content"][1]["image_url"]["url"].endswith(B64)


async def test_anthropic_reads_the_image_of_a_result_in_the_result():
    with ModelServer(script=[call("lookup", {"order": 7}, id="toolu_a"), "a dot"]) as server:
        caller = await Caller.of(server, anthropic=True, tools=(LOOKUP,))
        assert isinstance(await looked_up(caller), ModelReplied)
        (result,) = server.requests[-1].body["messages"][-1]["content"]
    assert result["tool_use_id"] == "toolu_a"
    assert result["content"] == [
        {"type": "text", "text": RESULT},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": B64}},
    ]


async def test_gemini_reads_the_image_of_a_result_behind_the_results():
    asked = piece({"functionCall": {"name": "lookup", "args": {"order": 7}}}, finish_reason="STOP")
    async with gemini([asked], [piece({"text": "a dot"}, finish_reason="STOP")]) as (caller, bodies):
        assert isinstance(await looked_up(caller), ModelReplied)
        parts = [part for content in bodies[-1]["contents"] for part in content["parts"]]
    assert any("function_response" in part or "functionResponse" in part for part in parts)
    assert B64 in str(parts[-1])


async def test_mistral_takes_no_image_of_a_result_since_nothing_may_follow_it():
    with ModelServer(script=[call("lookup", {"order": 7}, id="callaaaaa"), "a dot"]) as server:
        caller = await Caller.of(server, tools=(LOOKUP,), model="mistral/mistral-medium-latest")
        outcome = await looked_up(caller)
        assert isinstance(outcome, ModelFailed)
        assert outcome.reason is FailureReason.UNSUPPORTED_PART
        assert "mistral takes no images and files of results" in outcome.error
        await caller.send("Never mind.")
        assert isinstance(await caller.turn(), ModelReplied)
        roles = [message["role"] for message in server.requests[-1].body["messages"]]
    assert roles == ["user", "assistant", "tool", "user"]


def test_the_routes_for_which_litellm_fetches_urls_are_known():
    """A release of litellm in which another provider fetches fails here: look whether `FETCHED` lacks it."""
    root = Path(model.litellm.__file__).parent / "llms"
    words = ("convert_url_to_base64", "inline_remote_media", "create_anthropic_image_param", "BedrockImageProcessor")
    found = {
        file.relative_to(root).parts[0]
        for file in root.rglob("*.py")
        if any(word in file.read_text(encoding="utf-8") for word in words)
    }
    # OpenAI's fetches the URLs of files, Anthropic's http URLs only; neither is ever handed one
    assert found == {"anthropic", "bedrock", "gemini", "ollama", "openai", "snowflake", "vertex_ai"}
    assert {one for one in found if one not in ("anthropic", "openai")} <= media.FETCHED
