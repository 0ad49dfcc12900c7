"""Model calls to a server that speaks Gemini's stream: a route on which litellm parses the provider's own form."""

import json
from contextlib import asynccontextmanager

import pytest
from aiohttp import web
from model_caller import LOOKUP, Caller
from writer import finish

from holdfast.actors.worker import model
from holdfast.conversation import AgentSpec, ModelReplied
from holdfast.testing import ModelServer

pytestmark = [
    pytest.mark.filterwarnings("ignore:Item '.*' on TypedDict class:UserWarning"),
    pytest.mark.filterwarnings("ignore:Accessing the 'model_:DeprecationWarning"),
]
SIGNATURE = "c2lnbmF0dXJlIG9mIGEgdGhvdWdodA==" * 20
CALL = {"functionCall": {"name": "lookup", "args": {"order": 7}}, "thoughtSignature": SIGNATURE}


@pytest.fixture(autouse=True)
def no_delay(monkeypatch):
    monkeypatch.setattr(model, "FIRST_DELAY_S", 0.0)


def piece(*parts, finish_reason=None):
    candidate = {"index": 0, "content": {"role": "model", "parts": list(parts)}}
    return {"candidates": [candidate | ({"finishReason": finish_reason} if finish_reason else {})]}


@asynccontextmanager
async def gemini(*answers):
    """A caller whose model streams these answers, lists of pieces, and the bodies that reached it."""
    bodies, left = [], list(answers)

    async def answer(request):
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


async def test_a_stream_of_geminis_that_ends_early_is_called_again():
    async with gemini([piece({"text": "half"})], [piece({"text": "whole"}), piece({"text": "."}, finish_reason="STOP")]) as (
        caller,
        bodies,
    ):
        outcome = await caller.call()
        assert isinstance(outcome, ModelReplied), outcome
        assert (outcome.content, outcome.finish_reason, len(bodies)) == ("whole.", "stop", 2)


@pytest.mark.parametrize(("said", "kept"), [("MAX_TOKENS", "length"), ("SAFETY", "content_filter")])
async def test_how_geminis_answer_was_cut_is_told(said, kept):
    async with gemini([piece({"text": "half"}), piece({"text": ""}, finish_reason=said)]) as (caller, _):
        outcome = await caller.call()
        assert isinstance(outcome, ModelReplied), outcome
        assert outcome.finish_reason == kept


async def test_the_signature_of_a_thought_goes_back_with_the_call_that_it_led_to():
    async with gemini([piece(CALL, finish_reason="STOP")], [piece({"text": "Done."}, finish_reason="STOP")]) as (
        caller,
        bodies,
    ):
        outcome = await caller.turn()
        assert isinstance(outcome, ModelReplied), outcome
        (called,) = outcome.calls
        assert SIGNATURE not in called.tool_call_id
        await caller.writer.do(finish(caller.writer.effect_ids[0]))
        await caller.turn()
        sent = [part for content in bodies[1]["contents"] for part in content["parts"]]
        assert [part["thoughtSignature"] for part in sent if "function_call" in part or "functionCall" in part] == [SIGNATURE]
