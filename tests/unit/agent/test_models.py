"""`Agent(model=Model(...))`: what is checked when it is declared, and what is stored."""

import pytest
from pydantic import ValidationError

from holdfast import Agent, Breaker, Compact, ConfigurationError, Context, Model
from holdfast.conversation import AgentSpec
from holdfast.conversation.terms.models import ModelChain, ModelSpec

FIRST, SECOND, THIRD = "openai/gpt-4o-mini", "anthropic/claude-sonnet-4-5", "mistral/mistral-large-latest"


def declared(model, **more):
    return Agent(name="desk", model=model, **more)


def test_it_is_stored_with_the_spec_and_what_only_the_app_may_set_is_not():
    agent = declared(
        Model(
            FIRST,
            {"temperature": 0.1, "api_base": "https://a.example"},
            retries=1,
            fallbacks=[SECOND, Model(THIRD, {"seed": 1, "api_base": "https://b.example"}, retries=0, breaker=None)],
        )
    )
    spec = agent.spec
    assert (spec.model, spec.model_options, spec.retries, spec.breaker) == (FIRST, '{"temperature":0.1}', 1, Breaker())
    assert spec.fallbacks == (
        ModelSpec(model=SECOND, breaker=Breaker()),
        ModelSpec(model=THIRD, options='{"seed":1}', retries=0),
    )
    assert agent.own_options == {"api_base": "https://a.example"}
    assert agent.fallback_options == ({}, {"api_base": "https://b.example"})
    assert [one.model for one in spec.models] == [FIRST, SECOND, THIRD]


def test_a_model_without_anything_declared_has_the_digest_of_its_name():
    assert declared(Model(FIRST, breaker=None)).spec.digest == declared(FIRST).spec.digest
    assert not {"retries", "breaker", "fallbacks"} & declared(FIRST).spec.model_dump(exclude_defaults=True).keys()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Model(FIRST, fallbacks=[FIRST]), r"model 'openai/gpt-4o-mini'\.fallbacks\[0\]: .*asked before.* name each"),
        (lambda: Model(FIRST, fallbacks=[SECOND, SECOND]), r"fallbacks\[1\]: .*asked before"),
        (lambda: Model(FIRST, fallbacks=[Model(SECOND, fallbacks=[THIRD])]), r"fallbacks\[0\]: .*fallbacks of its own"),
        (lambda: Model(FIRST, fallbacks=[f"x/{n}" for n in range(9)]), "more than 8"),
        (lambda: Model(FIRST, fallbacks=SECOND), "no list of models"),
        (lambda: Model(FIRST, fallbacks=[7]), r"fallbacks\[0\]: int is no model"),
        (lambda: Model(FIRST, retries=11), r"retries: 11 .* from 0 to 10"),
        (lambda: Model(FIRST, retries=True), "retries: True"),
        (lambda: Model(FIRST, retries=-1), "retries: -1"),
        (lambda: Model(FIRST, {"api_key": "sk-0123456789abcdef"}), r"options\.api_key: it is a credential"),
        (lambda: Model(FIRST, {"model": SECOND}), r"options\.model: Holdfast sets it"),
        (lambda: Model(FIRST, "temperature=1"), "options: it is not JSON"),
        (lambda: Model(FIRST, breaker=5), r"breaker: int is not Breaker"),
        (lambda: Model(" "), r"model\.name: it is empty"),
        (lambda: Model(7), r"model\.name: int is not text"),
        (lambda: declared(7), r"agent 'desk'\.model: int is not text"),
        (lambda: declared(Model(FIRST), model_options={"seed": 1}), r"agent 'desk'\.model_options: .*Model\(name, options="),
        (lambda: declared(Model(FIRST, fallbacks=["own/model"]), context=Context()), r"context\.budget: .*'own/model'"),
    ],
)
def test_what_is_no_model_is_refused_with_field_and_fix(make, words):
    with pytest.raises(ConfigurationError, match=words):
        make()


@pytest.mark.parametrize("given", [{"failures": 0}, {"cooldown_s": 0}, {"cooldown_s": float("inf")}, {"probes": 0}])
def test_a_breaker_has_bounds(given):
    with pytest.raises(ValidationError, match=next(iter(given))):
        Breaker(**given)


def test_without_a_budget_the_smallest_window_of_the_models_counts():
    assert declared(Model(SECOND, fallbacks=[FIRST]), context=Context()).spec.context.budget == 128_000


# -- models for summaries ----------------------------------------------------------------------------------------------------


def summarised(model, budget=8000):
    return declared(FIRST, context=Context(budget=budget, compact=Compact(model=model)))


def test_a_model_for_summaries_is_stored_with_its_fallbacks_and_without_what_only_the_app_may_set():
    other = Model(THIRD, {"api_base": "https://b.example"}, breaker=None)
    model = Model(SECOND, {"seed": 1, "api_base": "https://a.example"}, retries=1, fallbacks=[other, FIRST])
    agent = summarised(model)
    assert agent.spec.context.compact.model == ModelChain(
        model=SECOND,
        options='{"seed":1}',
        retries=1,
        breaker=Breaker(),
        fallbacks=(ModelSpec(model=THIRD), ModelSpec(model=FIRST, breaker=Breaker())),
    )
    assert agent.summary_options == ({"api_base": "https://a.example"}, {"api_base": "https://b.example"}, {})
    text = agent.spec.model_dump_json(exclude_defaults=True)
    assert "example" not in text
    assert AgentSpec.model_validate_json(text) == agent.spec


def test_what_is_declared_for_summaries_may_be_declared_for_several_agents():
    terms = Context(budget=8000, compact=Compact(model=Model(SECOND)))
    one, other = (Agent(name=name, model=FIRST, context=terms) for name in "ab")
    assert one.spec.context == other.spec.context
    assert Compact.model_validate_json(terms.compact.model_dump_json()) == one.spec.context.compact


def test_a_name_for_summaries_is_stored_as_the_text_that_it_is():
    agent = summarised(SECOND)
    assert agent.spec.context.compact.model_dump(exclude_defaults=True) == {"model": SECOND}
    assert agent.summary_options == ()


def test_all_models_that_may_be_asked_are_known():
    compact = Compact(model=Model(THIRD, fallbacks=["groq/a"]))
    agent = declared(
        Model(FIRST, fallbacks=[SECOND]), overridable={"model": ["groq/b"]}, context=Context(budget=8000, compact=compact)
    )
    assert [one.model for one in agent.spec.askable] == [FIRST, SECOND, "groq/b", THIRD, "groq/a"]
    assert [one.model for one in summarised(SECOND).spec.askable] == [FIRST]


def test_each_model_for_summaries_takes_as_much_as_the_agent_sends():
    small = Model(FIRST, fallbacks=["openai/gpt-3.5-turbo"])
    with pytest.raises(ConfigurationError, match=r"compact.model: 'openai/gpt-3.5-turbo' takes 16385 tokens"):
        summarised(small, budget=60_000)
    summarised(small, budget=12_000)


def test_a_model_for_summaries_that_would_think_until_nothing_is_left_for_one_is_refused():
    thinks = {"thinking": {"type": "enabled", "budget_tokens": 1600}}
    with pytest.raises(ConfigurationError, match="is to think 1600 tokens, and has 1524 for that and a summary"):
        summarised(Model(FIRST, fallbacks=[Model(SECOND, thinks)]))
    summarised(Model(SECOND, {"thinking": {"type": "disabled"}}))
    summarised(Model(SECOND, {"thinking": {"type": "enabled", "budget_tokens": 1500}}))


def test_what_is_stored_of_a_model_for_summaries_is_none_to_declare():
    with pytest.raises(ConfigurationError, match=r"context\.compact\.model: .* stay with the app; give a name or Model"):
        summarised(summarised(Model(SECOND)).spec.context.compact.model)
