"""Answers that providers really streamed, replayed to a worker's model call over HTTP, and what the next call sends back."""

import asyncio
import base64
import gzip
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web
from model_caller import Caller
from writer import Writer, begin, finish, start

from holdfast.conversation import AgentSpec, CallModel, Limits, ModelFailed, ModelReplied, ToolSpec, outstanding
from holdfast.conversation.text import jsontext
from holdfast.persistence.memory_store import MemoryStore
from holdfast.testing import ModelServer

REFUSED = {"error": {"message": "the recording ends here", "type": "invalid_request_error"}}
AWS = {"AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s", "AWS_REGION_NAME": "us-east-1", "AWS_REGION": "us-east-1"}
"""The environment in which litellm signs calls of Bedrock's."""


@dataclass
class Player:
    """A server that answers requests with recorded bytes, one answer each, and refuses those that come after.

    With `endless`, it sends the last piece of its answer again and again until the caller has left.
    """

    url: str = ""
    bodies: list[bytes] = field(default_factory=list)
    content_type: str = ""
    endless: bytes = b""
    left: asyncio.Event = field(default_factory=asyncio.Event)
    requests: list[dict[str, Any]] = field(default_factory=list)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Answer a request of any provider's."""
        self.requests.append(await request.json())
        if not self.bodies:
            return web.json_response(REFUSED, status=400)
        response = web.StreamResponse(headers={"Content-Type": self.content_type})
        await response.prepare(request)
        await response.write(self.bodies.pop(0))
        try:
            while self.endless:
                await response.write(self.endless)
        except ConnectionError:
            self.left.set()
        return response


@asynccontextmanager
async def player() -> AsyncIterator[Player]:
    """A player that listens."""
    playing = Player()
    app = web.Application(client_max_size=1 << 28)
    app.router.add_post("/{path:.*}", playing.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    playing.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield playing
    finally:
        await runner.cleanup()


async def caller_of(playing: Player, row: dict[str, Any], **limits: Any) -> Caller:
    """A conversation whose model call gets a recorded answer."""
    playing.bodies, playing.content_type, playing.requests = [bytes_of(row)], row["type"], []
    tools: dict[str, ToolSpec] = {}
    for tool in row.get("tools", ()):
        tools.setdefault(tool["name"], _tool(tool))
    spec = AgentSpec(
        name="desk",
        model=f"{row['route']}/{row['model']}",
        tools=tuple(tools.values()),
        model_options=jsontext.dumps(row.get("options", {})),
        limits=Limits(**{"reply_bytes": 8 << 20, **limits}),
    )
    writer = await Writer.of(MemoryStore(), "c-1")
    writer.spec = spec
    own = {"api_key": "k", "api_base": playing.url + "/gemini" * (row["route"] == "gemini")}
    own = {"aws_bedrock_runtime_endpoint": playing.url} if row["route"] == "bedrock" else own
    own |= {"api_version": "2024-10-21"} if row["route"] == "azure" else {}
    caller = Caller(ModelServer(script=[], port=1), spec, writer, own)
    await writer.do(start("hello"), begin())
    return caller


async def replayed(playing: Player, row: dict[str, Any]) -> tuple[ModelReplied | ModelFailed, dict[str, Any] | None]:
    """What comes of a model call with a recorded answer, and the request of the next call; None if there is none."""
    caller = await caller_of(playing, row)
    writer = caller.writer
    outcome = await caller.turn()
    if isinstance(outcome, ModelFailed):
        return outcome, None
    if not writer.effect_ids:
        await caller.send()
    while not any(isinstance(effect, CallModel) for effect in outstanding(writer.state)):
        await writer.do(finish())
    await caller.call()
    return outcome, playing.requests[1] if len(playing.requests) > 1 else None


def bytes_of(row: dict[str, Any]) -> bytes:
    """The bytes of a recording: text, base64, or gzip in base64."""
    if "text" in row:
        return str(row["text"]).encode()
    data = base64.b64decode(row["body"])
    return gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data


def sent_back(row: dict[str, Any], request: dict[str, Any]) -> list[dict[str, Any]]:
    """What a request says of the recorded answer, in the provider's form."""
    match row["form"]:
        case "gemini":
            return [part for one in request["contents"] if one["role"] == "model" for part in one["parts"]]
        case "responses":
            ours = [item for item in request["input"] if item["type"] != "function_call_output" and item.get("role") != "user"]
            return [dict(item) for item in ours]
    said = [message for message in request.get("messages", ()) if message["role"] == "assistant"]
    if row["form"] in ("anthropic", "bedrock"):
        return [block for message in said for block in message["content"]]
    return said


def _tool(tool: dict[str, Any]) -> ToolSpec:
    if "definition" in tool:
        return ToolSpec(name=tool["name"], executor="provider", definition=jsontext.dumps(tool["definition"]))
    parameters = tool.get("parameters") or {"type": "object", "properties": {}}
    return ToolSpec(name=tool["name"], description=tool.get("description") or "", parameters=jsontext.dumps(parameters))


def arguments(text: str) -> Any:
    """The arguments of a call as JSON, or as their text where that is none."""
    try:
        return json.loads(text) if text.strip() else {}
    except ValueError:
        return text
