"""A provider's refusal of a request that is too long, over real HTTP and through real litellm, in each provider's words."""

import httpx
import pytest
from litellm.exceptions import BadRequestError
from litellm.litellm_core_utils.exception_mapping_utils import ExceptionCheckers, exception_type
from litellm.llms.base_llm.chat.transformation import BaseLLMException
from model_caller import Caller
from overflow_words import MAPPED, MAPPED_OF_ONE, MAPPED_OF_ONE_ALONE, OTHERWISE, UNMAPPED

from holdfast.actors.worker import model
from holdfast.conversation import FailureReason, ModelFailed
from holdfast.conversation.terms.models import ModelSpec
from holdfast.testing import ModelServer, say

OVERFLOWS = {
    **{f"{name}, mapped": words for name, words in MAPPED.items()},
    **{f"{name}, as of another": words for (name, _), words in MAPPED_OF_ONE.items()},
    **{f"{name}, not mapped": words for name, words in UNMAPPED.items()},
}


@pytest.fixture
def server():
    with ModelServer(script=lambda _: say("an answer")) as running:
        yield running


async def refused(server, status, words):
    """The outcome of a call with a fallback, whose first model refuses it so, and how many requests were made."""
    server.fail(status, message=words or " ", times=None)
    caller = await Caller.of(server, fallbacks=(ModelSpec(model="openai/gpt-4.1-mini", retries=0),), retries=0)
    caller.fallback_options = ({"api_base": server.url, "api_key": "sk-test"},)
    outcome = await caller.call()
    assert isinstance(outcome, ModelFailed)
    return outcome, len(server.requests)


@pytest.mark.parametrize("words", OVERFLOWS.values(), ids=OVERFLOWS)
async def test_a_request_that_is_too_long_fails_with_that_reason_and_is_asked_of_no_other(server, words):
    outcome, requests = await refused(server, 400, words)
    assert outcome.reason is FailureReason.CONTEXT_OVERFLOW
    assert "Agent(context=" in outcome.error
    assert requests == 1


@pytest.mark.parametrize("words", OTHERWISE.values(), ids=OTHERWISE)
async def test_another_refusal_is_an_error_of_the_model(server, words):
    outcome, _ = await refused(server, 400, words)
    assert outcome.reason is FailureReason.MODEL_ERROR


@pytest.mark.parametrize(("provider", "status"), [*MAPPED_OF_ONE, *MAPPED_OF_ONE_ALONE])
def test_each_provider_is_understood_in_its_own_words(provider, status):
    words = {**MAPPED_OF_ONE, **MAPPED_OF_ONE_ALONE}[provider, status]
    error = mapped(provider, status, words)
    assert isinstance(error, model.litellm.ContextWindowExceededError)
    assert model._overflows(error, str(error))
    assert not model._passes(error)


def test_each_phrase_by_which_litellm_tells_it_is_among_these():
    checked = ExceptionCheckers.is_error_str_context_window_exceeded
    code = checked.__code__.co_consts
    phrases = [one for const in code for one in (const if isinstance(const, tuple) else (const,)) if isinstance(one, str)]
    other = {"string_above_max_length", "invalid 'user'", "string too long", "tokens"}
    tried = [phrase for phrase in phrases if checked(phrase) and phrase not in other]
    said = [words.lower() for words in (*MAPPED.values(), OTHERWISE["an id"])]
    assert len(tried) >= 9
    assert [phrase for phrase in tried if not any(phrase in words for words in said)] == []


def mapped(provider, status, words):
    """What litellm makes of such an error."""
    request = httpx.Request("POST", "http://127.0.0.1/")
    response = httpx.Response(status, request=request)
    error = BaseLLMException(status_code=status, message=words, request=request, response=response)
    with pytest.raises(BadRequestError) as raised:
        exception_type(model="m", original_exception=error, custom_llm_provider=provider)
    return raised.value
