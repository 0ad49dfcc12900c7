"""A rehearsal asks an agent's models as a worker does: after errors, behind breakers, with what each of them takes."""

import asyncio
import copy

import pytest

from holdfast import Agent, App, Breaker, FailureReason, ImagePart, Limits, Model, Status, delegate
from holdfast.errors import ConfigurationError
from holdfast.testing import ProviderError, Rehearsal, call, say

DESK = Agent(name="desk", model=Model("openai/a", fallbacks=["openai/b", "openai/c"]))
PATIENT = Agent(name="desk", model=Model("openai/a", breaker=None, fallbacks=[Model("openai/b", breaker=None)]))
PNG = ImagePart.of(b"\x89PNG\r\n\x1a\n" + bytes(20))


def answers(result):
    return [(one.body.content, one.body.model) for one in result.events if one.body.kind == "model_answered"]


def reason(result):
    return result.status, result.state.failed


async def test_the_next_reply_is_the_fallbacks_and_the_event_names_it():
    script = [ConnectionError("down"), TimeoutError("down"), say("Hello."), say("Again.")]
    agent = Agent(name="desk", model=Model("openai/a", breaker=None, fallbacks=[Model("openai/b", breaker=None), "openai/c"]))
    async with Rehearsal(agent, model=script) as rehearsal:
        await rehearsal.send("hello")
        result = await rehearsal.send("hello again")
    assert answers(result) == [("Hello.", "openai/c"), ("Again.", "")]
    assert len(result.prompts) == 2


async def test_if_all_are_down_the_turn_fails():
    async with Rehearsal(DESK, model=[ConnectionError("down")] * 3) as rehearsal:
        failed = await rehearsal.send("hello")
    assert reason(failed) == (Status.FAILED, FailureReason.MODEL_ERROR)
    assert failed.error.count("ConnectionError: down") == 3


@pytest.mark.parametrize("error", [ProviderError(status) for status in (408, 429, 500, 529, 401, 402, 403, 404)], ids=str)
async def test_a_status_that_passes_or_that_refuses_the_key_asks_the_next_model(error):
    async with Rehearsal(PATIENT, model=[error, say("Hello.")]) as rehearsal:
        assert answers(await rehearsal.send("hello")) == [("Hello.", "openai/b")]


@pytest.mark.parametrize("error", [ValueError("refused"), *(ProviderError(status) for status in (400, 413, 422))], ids=str)
async def test_an_error_that_is_no_outage_asks_no_other_model(error):
    async with Rehearsal(PATIENT, model=[error, say("Hello.")]) as rehearsal:
        failed = await rehearsal.send("hello")
    assert reason(failed) == (Status.FAILED, FailureReason.MODEL_ERROR)
    assert failed.replies_left == 1


@pytest.mark.parametrize("error", [ValueError, lambda words: ProviderError(400, words)], ids=["no status", "400"])
async def test_a_request_that_is_too_long_has_a_reason_of_its_own(error):
    async with Rehearsal(DESK, model=[error("prompt is too long: 210000 tokens > 200000 maximum")]) as rehearsal:
        failed = await rehearsal.send("hello")
    assert reason(failed) == (Status.FAILED, FailureReason.CONTEXT_OVERFLOW)
    assert "Agent(context=Context(...)) bounds what is sent" in failed.error


async def test_words_of_a_limit_that_passes_are_no_overflow():
    async with Rehearsal(PATIENT, model=[ProviderError(429, "too many tokens"), say("Hello.")]) as rehearsal:
        assert answers(await rehearsal.send("hello")) == [("Hello.", "openai/b")]


async def test_an_open_breaker_passes_its_model_over_until_its_cooldown_and_an_answer_closes_it():
    terms = Breaker(failures=4, cooldown_s=60)
    agent = Agent(name="desk", model=Model("openai/a", retries=1, breaker=terms, fallbacks=[Model("openai/b", breaker=None)]))
    script = [ProviderError(503), "1", ProviderError(503), "2", "3", ProviderError(503), "4", "5", "6", "7"]
    async with Rehearsal(agent, model=script) as rehearsal:
        for text in ("one", "two", "three"):  # each error is two failed tries, and four open it
            await rehearsal.send(text)
        await rehearsal.advance(60)
        await rehearsal.send("four")  # a probe, which fails
        await rehearsal.send("five")
        await rehearsal.advance(60)
        await rehearsal.send("six")  # a probe, which is answered
        result = await rehearsal.send("seven")
    assert [model for _, model in answers(result)] == [*["openai/b"] * 5, "", ""]
    assert result.replies_left == 0


async def test_if_all_are_passed_over_the_turn_fails_at_once_with_that_reason():
    agent = Agent(name="desk", model=Model("openai/a", retries=0, breaker=Breaker(failures=1, cooldown_s=60)))
    async with Rehearsal(agent, model=[ProviderError(503, "overloaded"), say("Hello.")]) as rehearsal:
        first = await rehearsal.send("hello")
        second = await rehearsal.send("hello?")
        assert (first.error, first.state.failed) == ("ProviderError: 503 overloaded", FailureReason.MODEL_ERROR)
        assert second.state.failed is FailureReason.MODEL_UNAVAILABLE
        assert "not asked for another 60 s" in second.error
        await rehearsal.advance(60)
        assert (await rehearsal.send("now?")).reply == "Hello."


async def test_the_conversations_of_a_rehearsal_share_the_breakers():
    model = Model("openai/a", retries=0, breaker=Breaker(failures=1), fallbacks=[Model("openai/b", breaker=None)])
    shop = Agent(name="shop", model=model)
    desk = Agent(name="desk", model=model, tools=[delegate(shop)])
    scripts = {"desk": [ProviderError(503), call("ask_shop", {"task": "Look."}), "Done."], "shop": ["Seen."]}
    async with Rehearsal(desk, model=scripts, app=App(agents=[desk, shop])) as rehearsal:
        result = await rehearsal.send("Look it up.")
    assert result.reply == "Done."
    assert answers(result.children[0]) == [("Seen.", "openai/b")]


async def test_a_model_that_hangs_gives_way_when_its_part_of_the_time_is_over():
    asked = []

    async def model(messages):
        asked.append(messages)
        if len(asked) == 1:
            await asyncio.Event().wait()
        return "Hello."

    agent = Agent(
        name="desk",
        model=Model("openai/a", breaker=Breaker(failures=1, cooldown_s=600), fallbacks=["openai/b"]),
        limits=Limits(model_timeout_s=100),
    )
    async with Rehearsal(agent, model=model) as rehearsal:
        await rehearsal.post("hello")
        assert answers(await rehearsal.advance(49)) == []
        assert answers(await rehearsal.advance(1)) == [("Hello.", "openai/b")]
        assert answers(await rehearsal.send("again"))[1:] == [("Hello.", "openai/b")]
    assert len(asked) == 3


async def test_the_last_model_has_the_rest_of_the_time():
    async def model(_messages):
        await asyncio.Event().wait()

    agent = Agent(name="desk", model=Model("openai/a", fallbacks=["openai/b"]), limits=Limits(model_timeout_s=100))
    async with Rehearsal(agent, model=model) as rehearsal:
        await rehearsal.post("hello")
        assert (await rehearsal.advance(99)).status is not Status.FAILED
        assert reason(await rehearsal.advance(1)) == (Status.FAILED, FailureReason.MODEL_TIMEOUT)


async def test_a_first_model_that_cannot_take_a_part_gives_way_to_one_that_can():
    agent = Agent(name="desk", model=Model("openai/o3-mini", fallbacks=["openai/gpt-4o-mini"]))
    async with Rehearsal(agent, model=["Hello.", "A picture.", "You are welcome."]) as rehearsal:
        await rehearsal.send("hello")
        await rehearsal.send([PNG])
        result = await rehearsal.send("thanks")
    assert [model for _, model in answers(result)] == ["", "openai/gpt-4o-mini", ""]
    sent, later = result.prompts[1][-1]["content"], result.prompts[2][-3]["content"]
    assert sent[0]["type"] == "image_url"
    assert later == [{"type": "text", "text": "[left out: the model takes no images]"}]


async def test_a_part_that_no_model_takes_fails_the_turn_and_the_script_is_not_asked():
    async with Rehearsal(Agent(name="desk", model="o3-mini"), model=["Hello."]) as rehearsal:
        failed = await rehearsal.send([PNG])
    assert reason(failed) == (Status.FAILED, FailureReason.UNSUPPORTED_PART)
    assert (failed.replies_left, failed.prompts) == (1, [])


async def test_an_answer_that_is_none_is_asked_of_the_next_model():
    async with Rehearsal(PATIENT, model=[say("", finish_reason="error"), "Hello."]) as rehearsal:
        assert answers(await rehearsal.send("hello"))[-1:] == [("Hello.", "openai/b")]


async def test_a_mistake_of_the_test_is_raised_and_no_error_of_a_model():
    def model(_messages):
        raise ConnectionError("in the test itself")

    async with Rehearsal(PATIENT, model=model) as rehearsal:
        with pytest.raises(ConnectionError, match="in the test itself"):
            await rehearsal.send("hello")
    async with Rehearsal(PATIENT, model=lambda _: 7) as rehearsal:
        with pytest.raises(Exception, match="reply of the model's function"):
            await rehearsal.send("hello")


async def test_a_mistake_of_the_test_stays_one_whatever_fails_behind_it():
    def answers_next(messages):
        if len(messages) == 1:
            raise AssertionError("in the test itself")
        return ProviderError(400, "no")

    async with Rehearsal(PATIENT, model=answers_next) as rehearsal:
        await rehearsal.post("hello")
        await rehearsal.post("and you?")
        with pytest.raises(AssertionError, match="in the test itself"):
            await rehearsal.rest()


@pytest.mark.parametrize("status", ["503", None, 99, 600, True])
def test_what_is_no_status_is_refused(status):
    with pytest.raises(ConfigurationError, match="status_code"):
        ProviderError(status)


def test_a_providers_error_has_its_status_and_words_also_as_a_copy():
    error = copy.copy(ProviderError(503, "overloaded"))
    assert (error.status_code, error.message, str(error)) == (503, "overloaded", "503 overloaded")
    assert str(ProviderError(404)) == "404"
