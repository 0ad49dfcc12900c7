"""Model calls to a server that speaks Gemini's stream: a route on which litellm parses the provider's own form."""

import pytest
from gemini_server import gemini, piece
from writer import finish

from holdfast.actors.worker import failover
from holdfast.conversation import ModelReplied

SIGNATURE = "c2lnbmF0dXJlIG9mIGEgdGhvdWdodA==" * 20
CALL = {"functionCall": {"name": "lookup", "args": {"order": 7}}, "thoughtSignature": SIGNATURE}


@pytest.fixture(autouse=True)
def no_delay(monkeypatch):
    monkeypatch.setattr(failover, "FIRST_DELAY_S", 0.0)


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
