"""What a body may raise to have something reviewed, and what it may not."""

import pickle

import pytest
from pydantic import BaseModel

from holdfast import Agent, ConfigurationError, Suspend, Tool


class Order(BaseModel):
    id: str


def test_it_is_no_exception_and_says_its_title():
    assert not issubclass(Suspend, Exception)
    assert str(Suspend("Look")) == "Look"


def test_a_payload_is_whatever_pydantic_makes_json_of():
    assert Suspend("Look", payload=Order(id="A1")).terms.payload == '{"id":"A1"}'
    assert Suspend("Look", payload=[False, 0, "", None]).terms.payload == '[false,0,"",null]'
    assert Suspend("Look").terms.payload is None


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"title": ""}, "title"),
        ({"title": " "}, "title"),
        ({"title": "a\nb"}, "title"),
        ({"title": "pay\u3164"}, "title"),
        ({"title": "pay\u202e"}, "title"),
        ({"title": "pay\ufe0f"}, "title"),
        ({"title": "x" * 201}, "title"),
        ({"title": 7}, "title"),
        ({"message": None}, "message"),
        ({"report_md": b"x"}, "report_md"),
        ({"message": "\ud800"}, "message"),
        ({"payload": object()}, "payload"),
        ({"payload": float("nan")}, "payload"),
        ({"action": "x" * 41}, "action"),
        ({"action": "re\u200bview"}, "action"),
        ({"response_schema": {"type": "nothing"}}, "response_schema"),
        ({"response_schema": "{"}, "response_schema"),
        ({"resume": "replay"}, "resume"),
        ({"resume": "again"}, "resume"),
        ({"expires_s": 0}, "expires_s"),
        ({"expires_s": float("inf")}, "expires_s"),
        ({"expires_s": 1e12}, "expires_s"),
    ],
    ids=lambda given: "" if isinstance(given, str) else next(iter(given)),
)
def test_bad_input_names_the_field_and_the_fix(given, field):
    with pytest.raises(ConfigurationError) as refusal:
        Suspend(**{"title": "Look"} | given)
    assert refusal.value.field == f"Suspend.{field}"
    assert refusal.value.fix


def test_decisions_of_a_tool_are_checked_where_it_is_declared():
    def pay() -> None: ...

    gated = Tool(callback=pay, approval="required", decisions=["approve", "deny", "approve"])
    assert gated.spec.decisions == ("approve", "deny")
    for decisions in (["deny"], [], "approve", ["allow"], 7):
        with pytest.raises(ConfigurationError, match="decisions"):
            Tool(callback=pay, approval="required", decisions=decisions)
    with pytest.raises(ConfigurationError, match="decisions"):
        Tool(name="ask", executor="human", decisions=["approve"])


def test_what_a_decision_does_is_checked_where_the_tool_is_declared():
    def pay() -> None: ...

    assert Tool(callback=pay, approval="required", resume="pass_to_tool").spec.resume == "pass_to_tool"
    assert Tool(name="ask", executor="human", resume="use_as_result").spec.resume == "replay"
    for options in (
        {"callback": pay, "resume": "pass_to_tool"},
        {"callback": pay, "approval": "required", "resume": "use_as_result"},
        {"name": "ask", "executor": "human", "resume": "replay"},
        {"callback": pay, "resume": "later"},
    ):
        with pytest.raises(ConfigurationError, match="resume"):
            Tool(**options)


def test_an_agent_says_how_its_calls_are_carried_out():
    assert Agent(name="desk", execution="batch").spec.execution == "batch"
    assert Agent(name="desk").spec.digest == Agent(name="desk", execution="parallel").spec.digest
    with pytest.raises(ConfigurationError, match="execution"):
        Agent(name="desk", execution="serial")


def test_a_spec_from_before_has_the_digest_that_it_had():
    spec = Agent(name="desk", tools=[Tool(name="ask", executor="human")]).spec
    assert "decisions" not in spec.model_dump_json(exclude_defaults=True)
    assert pickle.loads(pickle.dumps(spec)) == spec  # noqa: S301 - our own
