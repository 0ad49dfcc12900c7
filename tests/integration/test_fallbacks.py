"""Fallbacks over real HTTP and through real litellm: another model answers where one cannot."""

import asyncio

import pytest
from model_caller import Caller
from overflow_words import MAPPED

from holdfast import metrics
from holdfast.actors.worker import failover
from holdfast.conversation import Breaker, FailureReason, ModelFailed, ModelReplied
from holdfast.conversation.terms.models import ModelSpec
from holdfast.conversation.terms.parts import FilePart, ImagePart
from holdfast.counting import families
from holdfast.testing import ModelServer, say

OTHER = "openai/gpt-4.1-mini"


@pytest.fixture(autouse=True)
def no_delay(monkeypatch):
    monkeypatch.setattr(failover, "FIRST_DELAY_S", 0.0)


@pytest.fixture
def first():
    with ModelServer(script=lambda _: say("first")) as server:
        yield server


@pytest.fixture
def second():
    with ModelServer(script=lambda _: say("second")) as server:
        yield server


async def caller_of(first, second, *, other=OTHER, breaker=None, **more):
    """A conversation whose agent has a model at the first server, and a fallback at the second."""
    address = second.anthropic_url if other.startswith("anthropic") else second.url
    spec = ModelSpec(model=other, retries=more.pop("other_retries", 0), breaker=breaker)
    caller = await Caller.of(first, breaker=breaker, fallbacks=(spec,), **more)
    caller.fallback_options = ({"api_base": address, "api_key": "sk-test"},)
    return caller


def counted(caller, metric):
    [family] = families(caller.counts.standing(), [metric])
    return dict(family.values)


async def test_the_first_model_answers_and_the_answer_names_no_other(first, second):
    caller = await caller_of(first, second)
    outcome = await caller.turn()
    assert (outcome.content, outcome.model, caller.events[-2].model) == ("first", "", "")
    assert not second.requests


@pytest.mark.parametrize("status", [429, 500, 503, 529, 408])
async def test_what_passes_is_retried_as_often_as_declared_and_then_the_fallback_answers(first, second, status):
    first.fail(status, times=None)
    caller = await caller_of(first, second, retries=2)
    outcome = await caller.turn()
    assert (outcome.content, outcome.model, caller.events[-2].model) == ("second", OTHER, OTHER)
    assert (len(first.requests), len(second.requests)) == (3, 1)
    assert counted(caller, metrics.PASSED_ON) == {("openai/gpt-4o-mini", "error"): 1}


@pytest.mark.parametrize("status", [401, 403, 404])
async def test_a_refused_key_or_name_goes_on_at_once(first, second, status):
    first.fail(status, times=None)
    caller = await caller_of(first, second)
    assert (await caller.call()).content == "second"
    assert len(first.requests) == 1
    assert counted(caller, metrics.PASSED_ON) == {("openai/gpt-4o-mini", "refused"): 1}


@pytest.mark.parametrize("status", [400, 413, 422])
async def test_a_refusal_of_the_request_itself_is_not_tried_elsewhere(first, second, status):
    first.fail(status, times=None)
    caller = await caller_of(first, second)
    outcome = await caller.call()
    assert isinstance(outcome, ModelFailed)
    assert outcome.reason is FailureReason.MODEL_ERROR
    assert (len(first.requests), len(second.requests)) == (1, 0)


async def test_a_server_that_is_gone_gives_way(first, second):
    caller = await caller_of(first, second, retries=1)
    first.stop()
    assert (await caller.call()).content == "second"


async def test_if_none_answers_the_error_has_the_words_of_each(first, second):
    first.fail(503, times=None)
    second.fail(401, times=None)
    outcome = await (await caller_of(first, second, retries=0)).call()
    assert outcome.reason is FailureReason.MODEL_ERROR
    assert "openai/gpt-4o-mini: " in outcome.error
    assert f"{OTHER}: " in outcome.error


async def test_a_model_that_never_begins_to_answer_has_its_part_of_the_time(first, second):
    first.slow(first_token_s=30)
    caller = await caller_of(first, second, breaker=Breaker(failures=1), model_timeout_s=4)
    outcome = await caller.call()
    assert (outcome.content, outcome.model) == ("second", OTHER)
    assert [one["model"] for one in caller.breakers.shown()] == ["openai/gpt-4o-mini"]


async def test_an_answer_that_has_begun_may_take_the_time_of_all(first, second):
    caller = await caller_of(first, second, model_timeout_s=6)
    with ModelServer(script=[say("one two three four five six seven eight")]) as server:
        server.slow(between_chunks_s=0.5)
        caller.own_options["api_base"] = server.url
        outcome = await caller.call()
    assert (outcome.content, outcome.model) == ("one two three four five six seven eight", "")


async def test_a_provider_that_asks_for_a_long_pause_is_not_waited_for(first, second):
    first.fail(429, times=None, retry_after=50)
    caller = await caller_of(first, second)
    assert (await asyncio.wait_for(caller.call(), 20)).content == "second"
    assert len(first.requests) == 1


async def test_live_text_of_a_model_that_broke_off_never_mixes_with_the_next_ones(first, second):
    with ModelServer(script=lambda _: say("a long answer of which half is missing")) as broken:
        broken.end_stream(after_chunks=4, times=None)
        caller = await caller_of(broken, second, retries=1)
        assert (await caller.call()).content == "second"
    by_attempt = {}
    for _, _, attempt, _, text in caller.live:
        by_attempt[attempt] = by_attempt.get(attempt, "") + text
    assert [one[2] for one in caller.live] == sorted(one[2] for one in caller.live)
    assert by_attempt.pop(3) == "second"
    assert set(by_attempt) == {1, 2}
    assert all("a long answer of which half is missing".startswith(text) for text in by_attempt.values())


async def test_an_open_breaker_passes_the_model_over_and_one_probe_of_many_calls_closes_it(first, second):
    first.fail(503, times=None)
    terms = Breaker(failures=2, cooldown_s=0.5)
    caller = await caller_of(first, second, retries=1, breaker=terms)
    assert (await caller.call()).content == "second"
    assert len(first.requests) == 2
    # when it is open, it is not asked
    assert (await caller.call()).content == "second"
    assert len(first.requests) == 2
    assert counted(caller, metrics.PASSED_ON)["openai/gpt-4o-mini", "breaker"] == 1
    # then after the cooldown one probe of many calls at once asks it
    first.clear()
    first.slow(first_token_s=0.5)
    async with asyncio.timeout(20):
        while caller.breakers.shown()[0]["state"] != "half_open":
            await asyncio.sleep(0.02)
    outcomes = await asyncio.gather(*(caller.call() for _ in range(10)))
    assert sorted(one.content for one in outcomes) == ["first", *["second"] * 9]
    assert not caller.breakers.shown()
    assert (await caller.call()).content == "first"


async def test_if_all_are_passed_over_the_call_fails_at_once_and_says_for_how_long(first, second):
    first.fail(503, times=None)
    second.fail(503, times=None)
    caller = await caller_of(first, second, retries=0, breaker=Breaker(failures=1, cooldown_s=60))
    await caller.call()
    outcome = await caller.call()
    assert outcome.reason is FailureReason.MODEL_UNAVAILABLE
    assert outcome.error.count("is not asked for another") == 2
    assert (len(first.requests), len(second.requests)) == (1, 1)


async def test_more_retries_than_the_breaker_lets_through_end_with_the_models_own_error(first):
    first.fail(503, times=None)
    caller = await Caller.of(first, retries=10, breaker=Breaker(failures=3, cooldown_s=60))
    outcome = await caller.call()
    assert outcome.reason is FailureReason.MODEL_ERROR
    assert len(first.requests) == 3


async def test_a_refused_request_shows_that_the_provider_works(first):
    caller = await Caller.of(first, retries=0, breaker=Breaker(failures=2, cooldown_s=60))
    for status in (503, 400, 503):
        first.fail(status)
        await caller.call()
    assert isinstance(await caller.call(), ModelReplied)


async def test_a_call_that_nobody_awaits_any_more_fails_no_breaker(first):
    first.slow(first_token_s=30)
    caller = await Caller.of(first, retries=0, breaker=Breaker(failures=1, cooldown_s=60))
    calling = asyncio.create_task(caller.call())
    async with asyncio.timeout(20):
        while not first.requests:
            await asyncio.sleep(0.02)
    calling.cancel()
    await asyncio.gather(calling, return_exceptions=True)
    assert not caller.breakers.shown()


async def test_a_hanging_model_without_a_fallback_counts_as_failed(first):
    first.slow(first_token_s=30)
    caller = await Caller.of(first, retries=0, breaker=Breaker(failures=1, cooldown_s=60), model_timeout_s=1)
    assert (await caller.call()).reason is FailureReason.MODEL_TIMEOUT
    assert (await caller.call()).reason is FailureReason.MODEL_UNAVAILABLE


async def test_a_fallback_that_cannot_take_a_part_of_the_turn_is_skipped_and_the_error_says_so(first, second):
    caller = await caller_of(first, second, other="anthropic/claude-sonnet-4-5", retries=0)
    await caller.turn()
    await caller.send((FilePart.of(b"\x89PNG\r\n\x1a\n" + bytes(20)),))
    first.fail(503, times=None)
    outcome = await caller.call()
    assert isinstance(outcome, ModelFailed)
    assert outcome.reason is FailureReason.MODEL_ERROR
    assert "anthropic/claude-sonnet-4-5 cannot be sent a part of this turn" in outcome.error
    assert not second.requests


async def test_a_first_model_that_cannot_take_a_part_gives_way_to_one_that_can(first, second):
    caller = await caller_of(first, second, model="openai/o3-mini", other="openai/gpt-4o-mini")
    await caller.turn()
    await caller.send((ImagePart.of(b"\x89PNG\r\n\x1a\n" + bytes(20)),))
    outcome = await caller.call()
    assert (outcome.content, outcome.model) == ("second", "openai/gpt-4o-mini")
    assert len(first.requests) == 1
    assert counted(caller, metrics.PASSED_ON) == {("openai/o3-mini", "part"): 1}


async def test_the_store_chooses_no_destination_for_a_fallback(first, second):
    first.fail(503, times=None)
    caller = await caller_of(first, second, retries=0)
    stored = caller.spec.model_copy(update={"fallbacks": (ModelSpec(model="huggingface/http://127.0.0.1:9"),)})
    outcome = await caller.call(asked=stored)
    assert "only the app may say where a model is called" in outcome.error
    assert not second.requests


async def test_a_fallback_that_takes_less_says_so(first, second):
    first.fail(503, times=None)
    second.fail(400, message=MAPPED["llama.cpp"], times=None)
    outcome = await (await caller_of(first, second, retries=0)).call()
    assert outcome.reason is FailureReason.CONTEXT_OVERFLOW
