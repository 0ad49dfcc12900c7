import base64
import json
import math

import pytest

from holdfast.agent import Agent, Limits, Tool, tool
from holdfast.errors import ConfigurationError


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
        ({"api_base": "https://:pass@example.org/v1"}, ".api_base"),
        ({"extra_headers": {"Authorization": ["x"]}}, ".extra_headers.Authorization[0]"),
        ({"extra_headers": {"Ocp-Apim-Subscription-Key": "x"}}, ".extra_headers.Ocp-Apim-Subscription-Key"),
        ({"model_list": [{"litellm_params": {"api_key": "x"}}]}, ".model_list[0].litellm_params.api_key"),
        ({"extra_body": {"credentials": {"file": {"path": "x"}}}}, ".extra_body.credentials.file.path"),
        ({"extra_body": {"password": 12345678}}, ".extra_body.password"),
        ({"metadata": {"note": "the key is sk-abcdefghijklmnop1234, do not tell"}}, ".metadata.note"),
        ({"extra_body": {"x": ["eyJhbGciOiJI.eyJzdWIiOiIx.c2lnbmF0dXJl"]}}, ".extra_body.x[0]"),
        ({"extra_body": {"x": "-----BEGIN RSA PRIVATE KEY-----"}}, ".extra_body.x"),
        ({"extra_body": {"x": "AKIAIOSFODNN7EXAMPLE"}}, ".extra_body.x"),
        ({"user": "ghp_abcdefghijklmnopqrstuvwxyz"}, ".user"),
    ],
)
def test_credentials_are_refused_with_the_environment_as_the_fix(options, where):
    refused(f"agent 'support'.model_options{where}", "credential", "App(env=[...])", model_options=options)


def base64url(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


HEADERS = [
    b'{"alg":"HS256"}',
    b'{ "typ": "JWT", "alg": "none" }',
    b'{\n  "alg": "RS256"\n}',
    b'{\t"alg":"dir","enc":"A256GCM"}',
]


@pytest.mark.parametrize("header", HEADERS)
@pytest.mark.parametrize("rest", [".eyJzdWIiOiJhIn0.c2ln", ".eyAic3ViIjoiYSJ9.", "..c2ln.c2ln.c2ln", ".AbC_-9.c2ln.c2ln.c2ln"])
@pytest.mark.parametrize("around", ["{}", "user_{}", "a token: {}"])
def test_no_option_carries_a_token_of_the_caller_however_its_header_is_written(header, rest, around):
    token = around.format(base64url(header) + rest)
    for options, where in (({"user": token}, ".user"), ({"extra_body": {"x": [token]}}, ".extra_body.x[0]")):
        refused(f"agent 'support'.model_options{where}", "credential", "App(env=[...])", model_options=options)


@pytest.mark.parametrize("user", ["newyork-east-1.shop.example", "eyJ.a.b", "ewing-and-sons.co.uk", "eyebrow-studio.a.b"])
def test_a_user_that_only_begins_like_a_token_is_fine(user):
    assert Agent(name="support", model_options={"user": user}).spec.model_options == json.dumps(
        {"user": user}, separators=(",", ":")
    )


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
    agent = Agent(name="support", model_options=options)
    assert agent.spec.model_options
    assert agent.own_options == {"api_base": "https://example.org/v1"}


STAYS_WITH_THE_APP = {
    "api_base": "https://example.org/v1",
    "base_url": "https://example.org/v1",
    "api_version": "2026-01-01",
    "custom_llm_provider": "openai",
    "organization": "o",
    "headers": {"X-Team": "a"},
    "extra_headers": {"X-Team": "a"},
    "extra_body": {"guided_json": {"type": "object"}},
    "callbacks": ["langfuse"],
    "success_callback": ["langfuse"],
    "metadata": {"langfuse_host": "https://example.org"},
    "mock_response": "Done.",
    "fallbacks": ["openai/gpt-4o"],
    "model_list": [{"model_name": "x"}],
    "aws_region_name": "eu-central-1",
    "vertex_project": "p",
    "vertex_location": "europe-west4",
    "store": True,
    "an_option_that_comes_with_the_next_litellm": "x",
}


def test_what_says_where_a_call_goes_is_not_stored_and_stays_with_the_app():
    plain = Agent(name="support", model_options={"temperature": 0.1, "max_tokens": 5})
    agent = Agent(name="support", model_options={"temperature": 0.1} | STAYS_WITH_THE_APP | {"max_tokens": 5})
    assert agent.spec == plain.spec
    assert agent.spec.digest == plain.spec.digest
    assert agent.own_options == STAYS_WITH_THE_APP
    assert plain.own_options == {}


def test_an_agent_with_options_of_how_a_model_answers_alone_keeps_its_digest():
    text = '{"seed": 1,\n "temperature": 0.50}'
    assert Agent(name="support", model_options=text).spec.model_options == text
    digest = "214c8d93c367"  # as before some options were left out
    assert Agent(name="desk", model="m", model_options={"temperature": 0.1}).spec.digest.startswith(digest)


def test_limits_are_limits_and_bounded():
    refused("agent 'support'.limits", "Limits(...)", limits={"max_model_calls": 5})
    with pytest.raises(ValueError, match="run_timeout_s"):
        Limits(run_timeout_s=math.inf)


def test_a_call_for_clients_waits_for_five_seconds_unless_the_agent_says_otherwise():
    assert Agent(name="desk").spec.client_grace_s == 5
    assert Agent(name="desk", client_grace_s=0.5).spec.client_grace_s == 0.5
    assert Agent(name="desk", client_grace_s=None).spec.client_grace_s is None
    assert Agent(name="desk", client_grace_s=5.0).spec.digest == Agent(name="desk").spec.digest
    assert Agent(name="desk", client_grace_s=None).spec.digest != Agent(name="desk").spec.digest


@pytest.mark.parametrize("grace_s", [0, -1, math.inf, math.nan, "5", True])
def test_a_grace_is_a_time(grace_s):
    refused("agent 'support'.client_grace_s", client_grace_s=grace_s)
