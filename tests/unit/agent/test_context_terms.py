"""`Agent(context=)`: what is checked when it is declared."""

import pytest
from pydantic import ValidationError

from holdfast import Agent, Compact, ConfigurationError, Context, Retain
from holdfast.agent import model_table


def declared(model="openai/gpt-4o-mini", **given):
    return Agent(name="desk", model=model, **given).spec


def test_without_a_budget_it_is_the_models_window_by_litellms_table():
    assert declared(context=Context()).context == Context(budget=128_000)
    assert declared(model="anthropic/claude-sonnet-4-5", context=Context(keep=3)).context == Context(budget=200_000, keep=3)


def test_an_agent_that_declares_nothing_has_the_digest_that_it_had():
    assert "context" not in declared().model_dump(exclude_defaults=True)


def test_a_model_that_the_table_does_not_know_needs_a_budget(monkeypatch):
    with pytest.raises(ConfigurationError, match=r"agent 'desk'\.context\.budget: .*'own/model'.* give Context\(budget="):
        declared(model="own/model", context=Context())
    assert declared(model="own/model", context=Context(budget=9000)).context.budget == 9000
    monkeypatch.setattr(model_table, "_FILE", "missing.json")
    model_table._table.cache_clear()
    try:
        assert model_table.window_tokens("openai/gpt-4o-mini") is None
    finally:
        model_table._table.cache_clear()


def test_the_table_names_the_provider_of_a_bare_name_and_the_models_that_take_no_images():
    names = ("openai/a", "gpt-4o-mini", "claude-sonnet-4-5", "unknown")
    assert model_table.provider("gemini-2.5-flash") == "vertex_ai"
    assert [model_table.provider(name) for name in names] == ["openai", "openai", "anthropic", ""]
    blind = ("openai/o3-mini", "o3-mini", "openai/gpt-4o-mini", "openai/unknown")
    assert [model_table.takes_no_images(name) for name in blind] == [True, True, False, False]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"context": Context(budget=100), "instructions": "x" * 1000}, "instructions and tools have about 305"),
        ({"context": Context(budget=4000), "model_options": {"max_tokens": 5000}}, "5000 tokens of it are the answer's, and 0"),
    ],
)
def test_a_budget_without_room_for_messages_is_refused_with_the_numbers(given, words):
    with pytest.raises(ConfigurationError, match=words):
        declared(**given)


def test_a_summary_that_could_not_save_enough_is_refused_with_the_numbers():
    with pytest.raises(ConfigurationError, match=r"compact\.max_tokens: a summary of 5000 tokens .* give at most 31\d\d"):
        declared(context=Context(budget=8000, compact=Compact(max_tokens=5000)))
    assert declared(context=Context(budget=8000, compact=Compact(max_tokens=3000))).context.compact.max_tokens == 3000
    assert declared(context=Context(budget=200, preview=None, compact=Compact())).context.compact == Compact()


NO_COMPACT = [{"at": 0.05}, {"at": 1.1}, {"at": float("nan")}, {"keep": 0}, {"max_tokens": 0}, {"model": ""}, {"timeout_s": 0}]


@pytest.mark.parametrize("terms", NO_COMPACT, ids=str)
def test_what_is_no_compact_is_refused(terms):
    with pytest.raises(ValidationError):
        Compact(**terms)


def test_what_is_no_context_is_refused():
    with pytest.raises(ConfigurationError, match="int is not Context"):
        declared(context=8000)
    for terms in ({}, {"never": True, "count": 1}, {"count": 0}, {"age": -1}):
        with pytest.raises(ValidationError):
            Retain(**terms)
    for terms in ({"budget": 0}, {"budget": 10**9}, {"keep": 0}, {"retain": {"a": {}}}):
        with pytest.raises(ValidationError):
            Context(**terms)


def test_a_model_that_takes_less_than_what_it_summarises_is_refused():
    with pytest.raises(ConfigurationError, match=r"context.compact.model: .*takes 16385 tokens") as refused:
        Agent(name="desk", model="openai/gpt-4o", context=Context(budget=60_000, compact=Compact(model="openai/gpt-3.5-turbo")))
    assert "give a smaller budget" in str(refused.value)
    Agent(name="desk", model="openai/gpt-4o", context=Context(budget=12_000, compact=Compact(model="openai/gpt-3.5-turbo")))
