"""`Agent(overridable=)`: what messages may override for their own turn, and what a spec is with it."""

import json

import pytest
from pydantic import ValidationError

from holdfast import Agent, Breaker, ConfigurationError, Context, InvalidMessage, Model, Overrides
from holdfast.conversation.terms.overrides import check_allowed, overrides_of

BOUNDS = {
    "model": ["openai/large", Model("anthropic/claude", {"top_k": 7}, retries=1), "openai/other"],
    "temperature": (0, 1),
    "max_tokens": 4096,
    "top_p": (0.1, 0.9),
    "reasoning_effort": ["low", "high"],
}
FIRST = Model("openai/small", {"temperature": 0.2, "max_completion_tokens": 100}, fallbacks=[Model("openai/other", retries=2)])


def desk(overridable, **more):
    return Agent(name="desk", model=FIRST, overridable=overridable, **more)


def test_an_agent_that_declares_none_has_the_spec_that_it_had():
    plain = Agent(name="desk", model="openai/small").spec
    for none in (None, [], {}):
        assert Agent(name="desk", model="openai/small", overridable=none).spec.digest == plain.digest
    assert "overridable" not in plain.model_dump(exclude_defaults=True)


@pytest.mark.parametrize(
    "given",
    [
        {"model": "openai/large"},
        {"model": "openai/other"},
        {"temperature": 0},
        {"temperature": 1.0},
        {"max_tokens": 4096},
        {"top_p": 0.9},
        {"reasoning_effort": "high"},
        {"model": "anthropic/claude", "temperature": 0.5},
    ],
    ids=str,
)
def test_what_is_within_the_bounds_is_allowed(given):
    check_allowed(desk(BOUNDS).spec.overridable, Overrides(**given))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            {"model": "openai/a"},
            "model='openai/a' is not allowed (openai/large, anthropic/claude, openai/other)",
        ),
        ({"temperature": 1.1}, "temperature=1.1 is not allowed (from 0 to 1)"),
        ({"max_tokens": 4097}, "max_tokens=4097 is not allowed (at most 4096)"),
        ({"top_p": 0.05}, "top_p=0.05 is not allowed (from 0.1 to 0.9)"),
        ({"reasoning_effort": "medium"}, "reasoning_effort='medium' is not allowed (low, high)"),
        ({"temperature": 0.5, "max_tokens": 5000}, "max_tokens=5000 is not allowed"),
    ],
    ids=str,
)
def test_what_is_beyond_them_is_refused_with_what_is_allowed(given, said):
    with pytest.raises(InvalidMessage) as refused:
        check_allowed(desk(BOUNDS).spec.overridable, Overrides(**given))
    assert refused.value.field == "overrides"
    assert said in refused.value.problem


@pytest.mark.parametrize("name", Overrides.model_fields)
def test_what_is_not_named_may_not_be_overridden(name):
    value = {"model": "openai/large", "max_tokens": 7, "reasoning_effort": "low"}.get(name, 0.5)
    others = {key: bound for key, bound in BOUNDS.items() if key != name}
    for agent in (Agent(name="desk"), desk(others)):
        with pytest.raises(InvalidMessage, match=f"{name} may not be overridden"):
            check_allowed(agent.spec.overridable, Overrides(**{name: value}))


def test_a_name_alone_allows_all_values():
    allowed = desk(["temperature", "top_p", "max_tokens", "reasoning_effort"]).spec.overridable
    check_allowed(allowed, Overrides(temperature=2, top_p=1, max_tokens=10_000_000, reasoning_effort="xhigh"))


def test_the_chosen_model_is_asked_first_with_its_own_options_and_then_the_fallbacks():
    agent = desk(BOUNDS)
    spec = agent.spec.overridden(Overrides(model="anthropic/claude", temperature=0.9, max_tokens=50))
    first, second = spec.models
    assert (first.model, json.loads(first.options), first.retries) == (
        "anthropic/claude",
        {"top_k": 7, "temperature": 0.9, "max_tokens": 50},
        1,
    )
    assert (second.model, json.loads(second.options)) == ("openai/other", {"temperature": 0.9, "max_tokens": 50})
    assert [one.model for one in agent.spec.overridden(Overrides(model="openai/other")).models] == ["openai/other"]
    assert agent.spec.overridden(Overrides(model="openai/other")).retries == 2


def test_without_a_model_the_first_one_keeps_its_options_but_for_the_overridden():
    first, _ = desk(BOUNDS).spec.overridden(Overrides(max_tokens=50)).models
    assert (first.model, json.loads(first.options)) == ("openai/small", {"temperature": 0.2, "max_completion_tokens": 50})


def test_options_that_say_where_a_call_goes_stay_with_the_app():
    agent = desk({"model": [Model("openai/elsewhere", {"api_base": "https://models.example", "seed": 7}, breaker=Breaker())]})
    assert agent.overridable_options == ({"api_base": "https://models.example"},)
    assert "models.example" not in agent.spec.model_dump_json()


def test_the_smallest_window_counts_those_of_models_that_may_be_chosen():
    large = Agent(name="desk", model="openai/gpt-4o", context=Context()).spec.context.budget
    small = Agent(name="desk", model="openai/gpt-4o", context=Context(), overridable={"model": ["openai/gpt-4"]}).spec.context
    assert small.budget < large


@pytest.mark.parametrize(
    ("given", "where"),
    [
        *[("temperature", "overridable"), (7, "overridable"), (["seed"], "overridable"), ({7: True}, "overridable")],
        *[(["model"], "[model]"), ({"model": "openai/large"}, "[model]"), ({"model": [7]}, "[model][0]")],
        ({"model": ["openai/large", "openai/large"]}, "[model][1]"),
        ({"model": [Model("openai/other")]}, "[model][0]"),
        ({"model": [Model("openai/large", fallbacks=["openai/b"])]}, "[model][0]"),
        ({"model": [f"openai/{number}" for number in range(17)]}, "[model]"),
        *[({"temperature": (1, 0)}, "overridable"), ({"temperature": (0, 3)}, "[temperature"), ({"temperature": 1}, "[temp")],
        *[({"max_tokens": 0}, "[max_tokens]"), ({"max_tokens": 10**9}, "[max_tokens]"), ({"top_p": (-1, 1)}, "[top_p")],
        ({"reasoning_effort": ["a lot"]}, "[reasoning_effort"),
        ({"temperature": (0, float("nan"))}, "[temperature"),
    ],
    ids=str,
)
def test_what_allows_nothing_sensible_is_refused_at_declaration(given, where):
    with pytest.raises(ConfigurationError) as refused:
        desk(given)
    assert where in refused.value.field


@pytest.mark.parametrize(
    "given",
    [
        *({"temperature": 2.1}, {"temperature": float("nan")}, {"top_p": -0.1}, {"max_tokens": 0}, {"max_tokens": 10**8}),
        *({"model": ""}, {"model": "x" * 201}, {"reasoning_effort": "A lot"}, {"seed": 7}),
    ],
    ids=str,
)
def test_overrides_that_are_none_are_refused_with_their_place(given):
    with pytest.raises(ValidationError):
        Overrides(**given)
    with pytest.raises(InvalidMessage) as refused:
        overrides_of(given)
    assert refused.value.field == f"overrides.{next(iter(given))}"


@pytest.mark.parametrize("none", [None, {}, Overrides(), {"model": None}], ids=str)
def test_overrides_of_nothing_are_none(none):
    assert overrides_of(none) is None


@pytest.mark.parametrize("other", [7, "model", ["model"], {7: 7}], ids=str)
def test_what_is_no_overrides_is_refused(other):
    with pytest.raises(InvalidMessage):
        overrides_of(other)
