"""A server that speaks Gemini's stream, and a caller of models whose model is there."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web
from model_caller import LOOKUP, Caller

from holdfast.conversation import AgentSpec
from holdfast.testing import ModelServer


def piece(*parts: dict[str, Any], finish_reason: str | None = None) -> dict[str, Any]:
    """One piece of an answer."""
    candidate = {"index": 0, "content": {"role": "model", "parts": list(parts)}}
    return {"candidates": [candidate | ({"finishReason": finish_reason} if finish_reason else {})]}


@asynccontextmanager
async def gemini(*answers: list[dict[str, Any]]) -> AsyncIterator[tuple[Caller, list[dict[str, Any]]]]:
    """A caller whose model streams these answers, lists of pieces, and the bodies that reached it."""
    bodies, left = list[dict[str, Any]](), list(answers)

    async def answer(request: web.Request) -> web.Response:
        bodies.append(await request.json())
        text = "".join(f"data: {json.dumps(one)}\r\n\r\n" for one in left.pop(0))
        return web.Response(text=text, content_type="text/event-stream")

    app = web.Application()
    app.router.add_post("/{path:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        caller = await Caller.of(ModelServer(script=[], port=1), tools=(LOOKUP,))
        caller.own_options = {"api_base": f"http://127.0.0.1:{runner.addresses[0][1]}/gemini", "api_key": "k"}
        changed = {"model": "gemini/gemini-3-pro-preview", "limits": caller.spec.limits}
        caller.spec = AgentSpec(name="desk", tools=(LOOKUP,), **changed).stored_as(caller.spec.digest)
        caller.writer.spec = caller.spec
        yield caller, bodies
    finally:
        await runner.cleanup()
