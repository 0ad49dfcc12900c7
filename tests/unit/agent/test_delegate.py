"""A tool that asks another agent: what it declares, what is refused and why, and what the other agent is given."""

import json

import pytest

from holdfast import Agent, App, ConfigurationError, Deny, Limits, Rule, Rules, SuspensionKind, delegate
from holdfast.agent import Executor
from holdfast.conversation.terms.delegation import MOST_DEPTH, USUAL_DEPTH

OTHER = Agent(name="other.one")


async def coroutine(context):
    return context


def test_it_is_a_tool_that_takes_a_task_and_waits_for_another_agent():
    spec = delegate(OTHER, description="Ask it.", deadline_s=60).spec
    assert (spec.name, spec.description, spec.agent) == ("ask_other_one", "Ask it.", "other.one")
    assert (spec.executor, spec.answer_timeout_s, spec.max_depth) == (Executor.AGENT, 60.0, USUAL_DEPTH)
    parameters = json.loads(spec.parameters)
    assert (parameters["required"], parameters["additionalProperties"]) == (["task"], False)
    assert delegate("other.one").spec == delegate(OTHER).spec
    assert SuspensionKind.DELEGATE.value == "delegate"


def test_its_description_names_the_agent_and_its_name_is_one_that_providers_take():
    spec = delegate("a." + "b" * 62).spec
    assert repr("a." + "b" * 62) in spec.description
    assert spec.name == "ask_a_" + "b" * 58
    assert delegate(OTHER, name="look").spec.name == "look"


def test_a_tool_of_another_kind_has_the_digest_that_it_always_had():
    spec = Agent(name="a", tools=[delegate("b")]).spec.tools[0]
    assert spec.model_dump(exclude_defaults=True).keys() >= {"agent", "executor"}
    assert "agent" not in Agent(name="a").spec.model_dump_json(exclude_defaults=True)


@pytest.mark.parametrize(
    ("agent", "said", "field", "problem"),
    [
        (7, {}, "delegate.agent", "7 is no agent"),
        (None, {}, "delegate.agent", "None is no agent"),
        ("", {}, "delegate.agent", "'' is no agent"),
        ("no name", {}, "delegate.agent", "'no name' is no agent"),
        ("other", {"name": "no name"}, "tool 'no name'.name", "name"),
        ("other", {"max_depth": 0}, "tool 'ask_other'.max_depth", "0 is no number of levels"),
        ("other", {"max_depth": MOST_DEPTH + 1}, "tool 'ask_other'.max_depth", "9 is no number of levels"),
        ("other", {"max_depth": True}, "tool 'ask_other'.max_depth", "True is no number of levels"),
        ("other", {"max_depth": 1.5}, "tool 'ask_other'.max_depth", "1.5 is no number of levels"),
        ("other", {"deadline_s": 0}, "tool 'ask_other'.deadline_s", "0 is no time limit"),
        ("other", {"deadline_s": -1}, "tool 'ask_other'.deadline_s", "-1 is no time limit"),
        ("other", {"deadline_s": "soon"}, "tool 'ask_other'.deadline_s", "'soon' is not a number"),
        ("other", {"deadline_s": float("inf")}, "tool 'ask_other'.deadline_s", "inf is no time limit"),
        ("other", {"context": {}}, "tool 'ask_other'.context", "no plain function of the conversation's context"),
        ("other", {"context": coroutine}, "tool 'ask_other'.context", "no plain function of the conversation's context"),
        ("other", {"context": lambda: None}, "tool 'ask_other'.context", "no plain function of the conversation's context"),
        ("other", {"approval": "maybe"}, "tool 'ask_other'.approval", "maybe"),
        ("other", {"approvers": ["finance"]}, "tool 'ask_other'.approvers", "'finance'"),
        ("other", {"reminders_s": [-5]}, "tool 'ask_other'.reminders_s", "-5"),
        ("other", {"on_timeout": 7}, "tool 'ask_other'.on_timeout", "int does not follow"),
    ],
)
def test_what_cannot_be_used_is_refused_and_named(agent, said, field, problem):
    with pytest.raises(ConfigurationError, match=problem) as refused:
        delegate(agent, **said)
    assert refused.value.field == field


def test_its_description_and_its_options_are_those_of_a_tool():
    with pytest.raises(ConfigurationError, match="description"):
        delegate("other", description=7)
    with pytest.raises(ConfigurationError, match="only a server or client tool's run can be lost"):
        delegate("other", on_lost="ask")
    with pytest.raises(ConfigurationError, match="Holdfast does not run a tool that delegates; use deadline_s"):
        delegate("other", run_timeout_s=5)
    with pytest.raises(ConfigurationError, match="no person answers a tool that delegates; use deadline_s"):
        delegate("other", answer_timeout_s=5)
    with pytest.raises(TypeError):
        delegate("other", approve="required")
    asked = delegate("other", approval="required", approvers=["role:lead"], on_timeout=Deny("late"), reminders_s=[5]).spec
    assert (asked.approval, asked.on_timeout.reminders_s) == ("required", (5,))


@pytest.mark.parametrize(
    ("agents", "field", "problem"),
    [
        ([Agent(name="a", tools=[delegate("b")])], "agent 'a': tool 'ask_b'.agent", "the app has no agent 'b'"),
        ([Agent(name="a", tools=[delegate("a")])], "agent 'a': tool 'ask_a'.agent", "an agent cannot ask itself"),
    ],
)
def test_an_app_has_all_the_agents_that_its_agents_ask(agents, field, problem):
    with pytest.raises(ConfigurationError, match=problem) as refused:
        App(agents=agents)
    assert refused.value.field == field


def test_two_agents_may_ask_each_other():
    """Whether one of them already works above the other is seen when a call is proposed."""
    App(agents=[Agent(name="a", tools=[delegate("b")]), Agent(name="b", tools=[delegate("a")])])


@pytest.mark.parametrize("given", [0, -1, 1.5, "many", None])
def test_the_limit_of_conversations_below_a_turn_is_a_number(given):
    with pytest.raises(ValueError, match="descendants"):
        Limits(descendants=given)


def test_the_child_gets_the_context_of_its_parent_or_what_a_function_makes_of_it():
    given = {"order": ["A-1"]}

    def order(context):
        context["order"].append("changed")
        return context

    assert delegate("b").child_context(given) == (None, None)
    made, problem = delegate("b", context=order).child_context(given)
    assert (json.loads(made), problem) == ({"order": ["A-1", "changed"]}, None)
    assert given == {"order": ["A-1"]}, "the function has a copy"


@pytest.mark.parametrize("function", [lambda context: context["none"], lambda _: object(), lambda _: float("nan")])
def test_a_context_that_cannot_be_made_fails_the_call(function):
    assert delegate("b", context=function).child_context({}) == (None, "its context could not be made")


def test_rules_name_it_like_any_other_tool():
    Agent(name="a", tools=[delegate("b", name="ask")], rules=Rules(ask=[Rule("ask", approvers=["role:lead"])]))
