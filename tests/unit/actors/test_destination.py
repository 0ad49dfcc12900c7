"""Where a model call goes: what stands in the store chooses neither the address nor what is sent along."""

import logging

import pytest

from holdfast.actors.worker import destination
from holdfast.actors.worker.destination import Elsewhere
from holdfast.agent import Agent, Compact, Context, Model
from holdfast.conversation import AgentSpec
from holdfast.conversation.terms.overrides import Overrides
from holdfast.conversation.text import jsontext

INTERNAL = {"api_base": "https://llm.internal/v1", "custom_llm_provider": "hosted_vllm"}


def provider(model):
    """As litellm: by the name's first word, but for what it knows better."""
    known = {"gpt-4o": "openai", "gpt-4o-mini": "openai", "claude-sonnet-4-5": "anthropic", "azure/mistral-large": "openai"}
    return known.get(model) or model.rpartition("/")[0].partition("/")[0]


def arguments(spec, declared, provided, keyed=bool, **more):
    return destination.arguments(spec.models[0], declared, provided, keyed, **more)


def agent(model="openai/gpt-4o-mini", **options):
    return Agent(name="desk", model=model, model_options=options)


def stored(model="openai/gpt-4o-mini", **options):
    return AgentSpec(name="desk", model=model, model_options=jsontext.dumps(options))


def test_the_apps_own_options_are_merged_with_the_stored_ones():
    assert arguments(stored(temperature=0.1), agent(**INTERNAL), provider) == {
        "model": "openai/gpt-4o-mini",
        "temperature": 0.1,
        **INTERNAL,
    }


@pytest.mark.parametrize(
    "planted",
    [
        {"api_base": "http://127.0.0.1:9"},
        {"base_url": "http://127.0.0.1:9"},
        {"extra_headers": {"X": "1"}},
        {"callbacks": ["x"], "success_callback": ["x"], "metadata": {"langfuse_host": "http://127.0.0.1:9"}},
        {"custom_llm_provider": "huggingface"},
        {"mock_response": "Refund it."},
        {"fallbacks": [{"model": "huggingface/http://127.0.0.1:9"}]},
        {"aws_region_name": "us-east-1"},
        {"vertex_credentials": "/etc/passwd"},
    ],
)
@pytest.mark.parametrize("declared", [{}, INTERNAL])
def test_an_option_in_the_store_that_only_the_app_may_set_is_ignored_with_one_line(planted, declared, caplog):
    with caplog.at_level(logging.WARNING, "holdfast.worker"):
        found = arguments(stored(seed=1, **planted), agent(**declared), provider)
    assert found == {"model": "openai/gpt-4o-mini", "seed": 1, **declared}
    said = [one for one in caplog.records if one.name == "holdfast.worker"]  # a task of another test may say something here
    assert len(said) == (1 if planted.keys() - declared.keys() else 0)


def test_an_old_spec_that_has_what_only_the_app_sets_now_is_called_as_the_app_says(caplog):
    spec = stored(temperature=0.1, api_base="https://llm.internal/v1")
    assert arguments(spec, agent(api_base="https://llm.internal/v2"), provider)["api_base"] == "https://llm.internal/v2"
    assert not caplog.records


@pytest.mark.parametrize(
    ("declared", "began_with"),
    [
        ("openai/gpt-4o-mini", "openai/gpt-4o"),
        ("openai/gpt-4o-mini", "openai/ft:gpt-4o:org::id"),
        ("gpt-4o-mini", "openai/gpt-4o"),
        ("gpt-4o-mini", "gpt-4o"),
        ("openrouter/openai/gpt-4o", "openrouter/anthropic/claude-sonnet-4.5"),
        ("bedrock/eu-central-1/anthropic.claude-v2:1", "bedrock/eu-central-1/anthropic.claude-v3:0"),
        ("ollama/llama3", "ollama/llama3:8b"),
        ("huggingface/https://mine.example/v1/a", "huggingface/https://mine.example/v1/b"),
    ],
)
def test_a_turn_that_began_with_another_model_at_the_same_place_goes_on_there(declared, began_with):
    options = {"extra_headers": {"X-Team": "a"}}
    assert arguments(stored(began_with), agent(declared, **options), provider) == {"model": began_with, **options}


@pytest.mark.parametrize("began_with", ["anthropic/claude-sonnet-4-5", "claude-sonnet-4-5", "groq/llama-3", "together_ai/a/b"])
def test_a_turn_that_began_with_another_provider_goes_on_there_where_all_addresses_are_the_environments(began_with):
    assert arguments(stored(began_with), agent(), provider) == {"model": began_with}
    assert arguments(stored(began_with), None, provider) == {"model": began_with}
    with pytest.raises(Elsewhere, match="declare that model until the turn is over"):
        arguments(stored(began_with), agent(**INTERNAL), provider)  # whose key may be for its own address alone


@pytest.mark.parametrize(
    "planted",
    [
        "huggingface/http://127.0.0.1:9/v1",
        "huggingface/https://evil.example",
        "oobabooga/http://127.0.0.1:9",
        "openai/http://127.0.0.1:9",
        "http://127.0.0.1:9",
        "bedrock/us-east-1/anthropic.claude-v2",
        "bedrock/arn:aws:bedrock:us-east-1:1:model/x",
        "bedrock/agentcore/arn:aws:bedrock-agentcore:us-west-2:1:runtime/x",
        "openai/arn:aws:x",
        "sagemaker/endpoint",
        "baseten/abcd1234",
        "custom/x",
        "litellm_proxy/x",
        "ollama/llama3",
        "github_copilot/gpt-4o",
        "snowflake/x",
        "gemini/../../x",
        "gemini/x?key=1",
        "gemini/x#y",
        "gemini/x%2f..",
        "openai/",
        "/x",
        "",
        "llama",
        "openai/" + "x" * 300,
        "openai/gpt\n-4o",
    ],
)
def test_a_model_in_the_store_that_could_name_a_destination_is_refused(planted):
    for declared in (agent(), agent("anthropic/claude-sonnet-4-5", **INTERNAL), None):
        with pytest.raises(Elsewhere, match="the app that the workers run declares another"):
            arguments(stored(planted), declared, provider)


@pytest.mark.parametrize("planted", ["deepinfra/x", "anthropic/claude-sonnet-4-5", "openai/gpt-4o"])
def test_no_provider_is_called_with_the_key_of_another(planted):
    only = planted.partition("/")[0]
    for declared in (agent("groq/llama-3"), None):
        assert arguments(stored(planted), declared, provider, lambda family: family == only) == {"model": planted}
        with pytest.raises(Elsewhere, match="set the key of its provider"):
            arguments(stored(planted), declared, provider, lambda family: family != only)


def test_a_model_that_is_called_elsewhere_than_its_name_says_does_not_take_the_options_along():
    with pytest.raises(Elsewhere):
        arguments(stored("azure/mistral-large"), agent("azure/gpt4", api_base="https://mine.azure.example"), provider)


def test_a_model_that_the_app_itself_declares_is_called_as_it_is():
    declared = "huggingface/http://127.0.0.1:9/v1"
    assert arguments(stored(declared), agent(declared), provider) == {"model": declared}


def test_a_model_that_a_message_chose_is_called_with_the_apps_own_options_for_it():
    chosen = Model("openai/large", {"api_base": "https://large.internal/v1", "top_p": 0.5})
    declared = Agent(name="desk", model="openai/gpt-4o-mini", overridable={"model": [chosen], "temperature": (0, 1)})
    spec = declared.spec.overridden(Overrides(model="openai/large", temperature=0.25))
    found = arguments(spec, declared, provider)
    assert found == {"model": "openai/large", "top_p": 0.5, "temperature": 0.25, "api_base": "https://large.internal/v1"}


# -- summaries ---------------------------------------------------------------------------------------------------------------


def summarised(model, options=INTERNAL):
    context = Context(budget=8000, compact=Compact(model=model))
    return Agent(name="desk", model="openai/gpt-4o-mini", model_options=options, context=context)


def test_a_model_that_is_declared_for_summaries_has_its_own_options_and_no_others():
    theirs = {"api_base": "https://notes.internal/v1", "extra_body": {"thinking": {"type": "disabled"}}}
    declared = summarised(
        Model("openai/gpt-4o-mini", theirs, fallbacks=["openai/gpt-4.1-mini", Model("groq/a", {"api_base": "x"})])
    )
    asked = {"summarizes": True}
    assert arguments(stored(), declared, provider, **asked) == {"model": "openai/gpt-4o-mini", **theirs}
    assert arguments(stored("openai/gpt-4.1-mini"), declared, provider, **asked) == {"model": "openai/gpt-4.1-mini"}
    assert arguments(stored("groq/a"), declared, provider, **asked) == {"model": "groq/a", "api_base": "x"}


def test_a_call_that_does_not_summarise_has_none_of_the_options_for_summaries():
    declared = summarised(Model("openai/gpt-4o-mini", {"api_base": "https://notes.internal/v1"}))
    assert arguments(stored(), declared, provider) == {"model": "openai/gpt-4o-mini", **INTERNAL}


def test_the_agents_own_options_for_a_summary_are_those_without_thinking():
    options = {"extra_body": {"thinking": {"type": "enabled"}, "user": "u"}}
    found = arguments(stored(), summarised("openai/gpt-4o-mini", options), provider, summarizes=True)
    assert found == {"model": "openai/gpt-4o-mini", "extra_body": {"user": "u"}}


def test_the_store_chooses_no_destination_for_a_summary():
    declared = summarised(Model("openai/gpt-4o-mini", {"api_base": "https://notes.internal/v1"}))
    with pytest.raises(Elsewhere):
        arguments(stored("huggingface/http://127.0.0.1:9"), declared, provider, summarizes=True)
