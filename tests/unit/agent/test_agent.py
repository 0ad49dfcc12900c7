import math

import pytest

from holdfast.agent import Agent, Limits, Tool, tool
from holdfast.conversation import ConfigurationError


@tool
def lookup(order: str) -> str:
    """Find an order."""
    return order


def refused(field, *words, **options):
    with pytest.raises(ConfigurationError) as caught:
        Agent(**{"name": "support", **options})
    assert caught.value.field == field
    for word in words:
        assert word in f"{caught.value.problem}; {caught.value.fix}"


def test_an_agents_spec_is_all_a_turn_needs_but_the_callbacks():
    agent = Agent(name="support", instructions="Help.", tools=[lookup], model_options={"temperature": 0, "seed": 1})
    assert agent.spec.model == "openai/gpt-4o-mini"
    assert agent.spec.model_options == '{"temperature":0,"seed":1}'
    assert agent.spec.tools == (lookup.spec,)
    assert agent.spec.limits == Limits()
    assert agent.tool("lookup") is lookup
    assert agent.tool("nope") is None


def test_the_same_declaration_has_the_same_digest_and_another_another():
    assert Agent(name="a", tools=[lookup]).spec.digest == Agent(name="a", tools=[lookup]).spec.digest
    assert Agent(name="a", tools=[lookup]).spec.digest != Agent(name="a").spec.digest


def test_a_plain_function_becomes_a_server_tool():
    def refund(order: str) -> str:
        return order

    found = Agent(name="support", tools=[refund]).tool("refund")
    assert isinstance(found, Tool)
    assert found.spec.executor == "server"


def test_two_tools_of_one_name_are_refused():
    refused("agent 'support'.tools", "'lookup'", "rename", tools=[lookup, Tool(name="lookup", executor="human")])


@pytest.mark.parametrize("name", ["", "-a", "a b", "a" * 65, "a\n", None])
def test_an_ill_formed_name_is_refused(name):
    refused(f"agent {name!r}.name", "1 to 64", name=name)


@pytest.mark.parametrize("tools", [lookup, "lookup", 5, {"lookup": lookup}, ["lookup"], [None]])
def test_tools_that_are_none_are_refused(tools):
    refused("agent 'support'.tools", tools=tools)


@pytest.mark.parametrize("model", ["", " ", 5, "\ud800"])
def test_a_model_is_a_name(model):
    refused("agent 'support'.model", model=model)


def test_instructions_are_text():
    refused("agent 'support'.instructions", "not text", instructions=["Help."])


@pytest.mark.parametrize("options", [5, "[]", {"x": {1}}, {"temperature": math.nan}])
def test_model_options_are_a_json_object(options):
    refused("agent 'support'.model_options", model_options=options)


@pytest.mark.parametrize("name", ["messages", "tools", "stream", "model", "num_retries", "max_retries", "timeout"])
def test_model_options_may_not_set_what_holdfast_sets(name):
    refused(f"agent 'support'.model_options.{name}", "Holdfast sets it", model_options={name: 1})


@pytest.mark.parametrize(
    ("options", "where"),
    [
        ({"api_key": "x"}, ".api_key"),
        ({"aws_secret_access_key": "x"}, ".aws_secret_access_key"),
        ({"aws_session_token": "x"}, ".aws_session_token"),
        ({"azure_ad_token": "x"}, ".azure_ad_token"),
        ({"vertex_credentials": "x"}, ".vertex_credentials"),
        ({"extra_headers": {"Authorization": "x"}}, ".extra_headers.Authorization"),
        ({"extra_headers": {"X-Api-Key": "x"}}, ".extra_headers.X-Api-Key"),
        ({"extra_body": [{"password": "x"}]}, ".extra_body[0].password"),
        ({"extra_headers": {"X-Custom": "Bearer abcdefghijkl"}}, ".extra_headers.X-Custom"),
        ({"extra_body": {"key": "sk-abcdefghijklmnop1234"}}, ".extra_body.key"),
        ({"api_base": "https://user:pass@example.org/v1"}, ".api_base"),
    ],
)
def test_credentials_are_refused_with_the_environment_as_the_fix(options, where):
    refused(f"agent 'support'.model_options{where}", "credential", "App(env=[...])", model_options=options)


def test_options_that_only_sound_like_credentials_are_fine():
    schema = {"type": "object", "properties": {"password": {"type": "string"}}, "required": ["password"]}
    options = {
        "max_tokens": 5,
        "max_completion_tokens": 5,
        "logit_bias": {"50256": -100},
        "api_base": "https://example.org/v1",
        "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}},
        "user": "Basic user",
    }
    assert Agent(name="support", model_options=options).spec.model_options


def test_limits_are_limits_and_bounded():
    refused("agent 'support'.limits", "Limits(...)", limits={"max_model_calls": 5})
    with pytest.raises(ValueError, match="run_timeout_s"):
        Limits(run_timeout_s=math.inf)
