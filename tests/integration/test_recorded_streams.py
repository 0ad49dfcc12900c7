"""Answers that providers really streamed: what they say is what the worker takes from them, and the next request sends it back.

`recorded_streams.jsonl` has excerpts of recordings that other projects made for their own tests; each line names its source and
licence. Some are shorter than the recording: repeated deltas, echoes of the request and the ends of signatures are left out.
`HOLDFAST_STREAMS` names a file of many more, which `pytest -m slow` replays.
"""

import asyncio
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from model_caller import Caller
from recorded_streams import AWS, arguments, bytes_of, caller_of, player, replayed, sent_back

from holdfast.actors.worker import failover, model
from holdfast.conversation import FailureReason, ModelFailed, ModelReplied

ROWS = [json.loads(line) for line in Path(__file__).with_name("recorded_streams.jsonl").read_text().splitlines()]
MORE = os.environ.get("HOLDFAST_STREAMS")
OUTCOMES = {"length": "length", "content_filter": "filter", "pause_turn": "pause"}


@pytest.fixture(autouse=True)
def one_try(monkeypatch):
    monkeypatch.setattr(Caller, "retries", 0)
    for name, value in AWS.items():
        monkeypatch.setenv(name, value)


def said(outcome):
    """What an outcome says, as a recording's line has it."""
    return {
        "text": outcome.content or "",
        "reasoning": outcome.reasoning or "",
        "calls": [{"id": one.tool_call_id, "name": one.name, "args": arguments(one.arguments)} for one in outcome.calls],
        "finish": outcome.finish_reason,
        "usage": [outcome.input_tokens, outcome.output_tokens],
    }


@pytest.mark.parametrize("row", ROWS, ids=[row["title"] for row in ROWS])
async def test_what_was_streamed_is_what_the_answer_says_and_what_goes_back(row):
    async with player() as playing:
        outcome, request = await replayed(playing, row)
    assert isinstance(outcome, ModelReplied), outcome
    found = said(outcome)
    for mine, theirs in zip(found["calls"], row["expected"]["calls"], strict=False):
        mine["id"] = mine["id"] if theirs["id"] else ""  # Gemini gives its calls no ids
    assert found == row["expected"]
    assert request is not None
    back = sent_back(row, request)
    assert [without_ids(one) for one in back] == [without_ids(one) for one in row["back"]]


def without_ids(part):
    """A part of what is sent back; Gemini's calls have ids that were made up."""
    return part | {"function_call": part["function_call"] | {"id": ""}} if "function_call" in part else part


TITLED = {row["title"]: row for row in ROWS}
TRANSLATED = {
    "cohere": TITLED["a_plan_and_a_call_of_coheres"],
    "responses": TITLED["sealed_reasoning_goes_back_before_what_it_led_to"],
}
"""Answers on the routes whose events are not read by litellm's own parser."""


@pytest.mark.parametrize("row", TRANSLATED.values(), ids=TRANSLATED)
async def test_an_answer_that_is_cut_anywhere_before_its_end_is_called_again(row, monkeypatch):
    monkeypatch.setattr(Caller, "retries", 1)
    monkeypatch.setattr(failover, "FIRST_DELAY_S", 0.0)
    whole = bytes_of(row)
    places = [place for place in range(len(whole)) if whole[place : place + 7] == b"event: "]
    async with player() as playing:
        for place in places[::3]:
            caller = await caller_of(playing, row)
            playing.bodies = [whole[:place], whole]
            outcome = await caller.call()
            assert isinstance(outcome, ModelReplied), (place, outcome)
            assert (said(outcome), len(playing.requests)) == (row["expected"], 2)


@pytest.mark.parametrize("row", TRANSLATED.values(), ids=TRANSLATED)
@pytest.mark.parametrize("endless", [b"x" * 65536, None], ids=["a-line", "events"])
async def test_an_answer_without_an_end_is_not_read_to_its_end(row, endless):
    async with player() as playing:
        caller = await caller_of(playing, row, reply_bytes=5_000)
        events = bytes_of(row).split(b"\n\n")
        piece = next(one for one in events if b"tool-plan-delta" in one or b"output_text.delta" in one)
        playing.bodies = [b"" if endless is None else b"data: {"]
        playing.endless = (piece + b"\n\n") * 20 if endless is None else endless
        outcome = await caller.call()
        assert isinstance(outcome, ModelFailed), outcome
        assert outcome.reason is FailureReason.REPLY_BYTES
        async with asyncio.timeout(30):
            await playing.left.wait()


@pytest.mark.parametrize("title", [title for title in TITLED if "anthropics_code" in title or "first_event" in title])
async def test_the_container_in_which_anthropics_code_waits_is_named_with_the_results_of_its_calls(title):
    async with player() as playing:
        _, request = await replayed(playing, TITLED[title])
    assert request["container"] == "container_011CWHPPTDTn1XufeRB9uHeH"


@pytest.mark.parametrize("route", ["openai", "hosted_vllm"])
async def test_tokens_that_nobody_counted_are_not_estimated_in_vain(route, monkeypatch):
    estimates = []
    for observers in ("callbacks", "success_callback", "_async_success_callback"):  # those of other tests in this process
        monkeypatch.setattr(model.litellm, observers, [])
    monkeypatch.setattr(model.litellm, "stream_chunk_builder", lambda **_: estimates.append(1))
    async with player() as playing:
        outcome, _ = await replayed(playing, TITLED["tokens_that_nobody_counted_are_not_known"] | {"route": route})
    assert (outcome.input_tokens, outcome.output_tokens, estimates) == (None, None, [])


async def test_what_was_said_before_an_answer_began_anew_is_of_another_try():
    async with player() as playing:
        caller = await caller_of(playing, TITLED["an_answer_that_begins_anew_in_its_stream_counts_from_there"])
        await caller.call()
    told = [(attempt, text) for kind, _, attempt, _, text in caller.live if kind == "reasoning_delta"]
    assert told == [(1, "I will call the tool."), (2, "Let me call the tool.")]


def more() -> Iterator[dict]:
    with Path(MORE).open(encoding="utf-8") as lines:
        yield from map(json.loads, lines)


KNOWN = {
    "google_model_web_search_tool_stream": "usage",  # the tokens of Google's own search are no part of the request's
    "test_web_search_tool_stream/google": "usage",
    "thinking_part_redacted_stream": "back",  # litellm cannot send sealed thinking to Bedrock
}
"""What is known to be otherwise than an independent reader of the recordings says, by a part of their names."""


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.skipif(MORE is None, reason="HOLDFAST_STREAMS names no file of recorded streams")
async def test_every_recorded_stream_says_what_its_bytes_say():
    wrong = {}
    async with player() as playing:
        for row in more():
            outcome, request = await replayed(playing, row)
            different = differences(row, outcome, request)
            different -= {known for part, known in KNOWN.items() if part in row["name"]}
            if different:
                wrong[row["name"]] = sorted(different)
    assert wrong == {}


def differences(row, outcome, request):
    expected = row["expected"]
    if not isinstance(outcome, ModelReplied):
        return {"outcome"} if expected["outcome"] != "failed" else set()
    found = said(outcome)
    calls = [{**one, "args": one["args"].get("$raw", one["args"])} for one in expected["calls"]]
    for mine, theirs in zip(found["calls"], calls, strict=False):
        theirs["id"] = theirs["id"] or mine["id"]
    kind = OUTCOMES.get(outcome.finish_reason, "calls" if outcome.calls else "completed")
    pairs = {
        "outcome": (kind, expected["outcome"]),
        "text": (found["text"], expected["text"] or expected["refusal"]),
        "reasoning": (found["reasoning"], expected["reasoning"]),
        "calls": (found["calls"], calls),
        "usage": (found["usage"], expected["usage"]),
    }
    if isinstance(expected.get("back"), dict | list) and request is not None:  # else its reader says nothing of that
        pairs["back"] = (sealed(sent_back(row, request)), sealed(expected["back"]))
    return {name for name, (one, other) in pairs.items() if one != other}


def sealed(parts):
    """The signatures and sealed contents in parts of any provider's form, in their order."""
    if isinstance(parts, dict):
        names = ("signature", "thoughtSignature", "encrypted_content", "data")
        own = [parts[name] for name in names if isinstance(parts.get(name), str) and parts[name]]
        return own + [one for value in parts.values() if isinstance(value, dict | list) for one in sealed(value)]
    return [one for part in parts if isinstance(part, dict | list) for one in sealed(part)]
