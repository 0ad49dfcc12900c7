"""What may be declared to follow when nobody decides in time, of tools, rules and reviews."""

import json

import pytest

from holdfast import (
    Agent,
    Answer,
    App,
    Approve,
    Approvers,
    Cancel,
    Deny,
    Escalate,
    Limits,
    Rule,
    Rules,
    Suspend,
    Tool,
    ask_user_questions,
)
from holdfast.conversation.terms.stages import NOTHING, Default, OnTimeout, Stage
from holdfast.errors import ConfigurationError, InvalidRule

LEAD = Approvers("role:lead").terms


def body(amount: int) -> str:
    """Do it."""
    return str(amount)


def gated(**said):
    return Tool(callback=body, approval="required", **said)


def nested(depth, end="error"):
    for _ in range(depth):
        end = Escalate(["role:lead"], for_s=10, then=end)
    return end


def test_stages_default_and_reminders_are_stored_in_order():
    tool = gated(on_timeout=Escalate(["role:lead"], for_s=60, then=Deny("late")), reminders_s=[5, 10, 5])
    assert tool.spec.on_timeout == OnTimeout(
        stages=(Stage(approvers=LEAD, for_s=60),), default=Default(kind="deny", value='"late"'), reminders_s=(10, 5)
    )
    assert gated().spec.on_timeout == NOTHING
    assert len(gated(on_timeout=nested(8)).spec.on_timeout.stages) == 8


def test_a_tool_without_it_has_the_digest_that_it_always_had():
    assert "on_timeout" not in gated().spec.model_dump_json(exclude_defaults=True)


@pytest.mark.parametrize(
    ("said", "names"),
    [
        ({"on_timeout": Approve()}, "on_timeout"),
        ({"on_timeout": Cancel()}, "on_timeout"),
        ({"on_timeout": "deny"}, "on_timeout"),
        ({"on_timeout": None}, "on_timeout"),
        ({"on_timeout": Deny(7)}, "on_timeout"),
        ({"on_timeout": Deny("x" * 5000)}, "on_timeout"),
        ({"on_timeout": Answer("as if")}, "on_timeout"),
        ({"on_timeout": Answer({1, 2}), "decisions": ["answer"]}, "on_timeout"),
        ({"on_timeout": Answer("x"), "decisions": ["answer"], "response_schema": {"type": "integer"}}, "on_timeout"),
        ({"on_timeout": Answer("x"), "decisions": ["answer", "approve"], "resume": "pass_to_tool"}, "on_timeout"),
        ({"on_timeout": nested(9)}, "on_timeout"),
        ({"on_timeout": Escalate([], for_s=5)}, "on_timeout.to"),
        ({"on_timeout": Escalate("role:lead", for_s=5)}, "on_timeout.to"),
        ({"on_timeout": Escalate(["lead"], for_s=5)}, "on_timeout.to"),
        ({"on_timeout": Escalate(["role:lead"], for_s=0)}, "on_timeout.for_s"),
        ({"on_timeout": Escalate(["role:lead"], for_s=float("inf"))}, "on_timeout.for_s"),
        ({"on_timeout": Escalate(["role:lead"], for_s=10**10)}, "on_timeout.for_s"),
        ({"on_timeout": Escalate(["role:lead"], for_s=5, then=Approve())}, "on_timeout"),
        ({"reminders_s": 60}, "reminders_s"),
        ({"reminders_s": [0]}, "reminders_s"),
        ({"reminders_s": [-60]}, "reminders_s"),
        ({"reminders_s": ["60"]}, "reminders_s"),
        ({"reminders_s": [60], "approval_timeout_s": 60}, "reminders_s"),
        ({"reminders_s": list(range(1, 18))}, "reminders_s"),
    ],
)
def test_what_cannot_follow_is_refused_and_named(said, names):
    with pytest.raises(ConfigurationError) as refused:
        gated(**said)
    assert refused.value.field == f"tool 'body'.{names}"
    assert refused.value.fix


def test_a_reminder_that_a_later_stage_is_long_enough_for_is_fine():
    tool = gated(on_timeout=Escalate(["role:lead"], for_s=600), approval_timeout_s=60, reminders_s=[300])
    assert tool.spec.on_timeout.reminders_s == (300,)


def test_an_answer_of_a_person_is_checked_by_the_schema_and_questions_take_answers_by_id():
    human = {"name": "age", "description": "", "executor": "human", "response_schema": int}
    assert Tool(**human, on_timeout=Answer(7)).spec.on_timeout.default.value == "7"
    with pytest.raises(ConfigurationError, match="schema"):
        Tool(**human, on_timeout=Answer("old"))
    asked = ask_user_questions.with_deadline(on_timeout=Answer({}), reminders_s=[60])
    assert asked.spec.questions
    assert asked.spec.on_timeout.default.value == "{}"
    assert ask_user_questions.spec.on_timeout == NOTHING
    with pytest.raises(ConfigurationError, match="questions"):
        ask_user_questions.with_deadline(on_timeout=Answer("yes"))


def test_a_provider_tool_has_none():
    given = {"name": "search", "description": "", "executor": "provider", "definition": {"type": "web_search"}}
    for late in ({"on_timeout": Deny()}, {"reminders_s": [60]}):
        for declare in (lambda late: Tool(**given, **late), lambda late: Tool(**given).with_deadline(**late)):
            with pytest.raises(ConfigurationError, match="provider") as refused:
                declare(late)
            assert refused.value.field == "tool 'search'.on_timeout"
    assert Tool(**given).with_deadline().spec == Tool(**given).spec


def ask(**said):
    return Tool(name="age", description="", executor="human", **said)


@pytest.mark.parametrize(
    ("tool", "limits", "seconds"),
    [
        (gated(reminders_s=[60]), {"approval_timeout_s": 60}, 60),
        (Tool(callback=body, reminders_s=[60]), {"approval_timeout_s": 50, "answer_timeout_s": 90}, 50),
        (ask(reminders_s=[60]), {"answer_timeout_s": 60}, 60),
        (gated(reminders_s=[8 * 86400]), {}, 604800),
        (gated(reminders_s=[60], on_timeout=Escalate(["role:lead"], for_s=60)), {"approval_timeout_s": 10}, 60),
    ],
)
def test_a_reminder_that_no_stage_is_long_enough_for_is_refused_with_the_limits(tool, limits, seconds):
    with pytest.raises(ConfigurationError, match=f"waits for {seconds} s") as refused:
        Agent(name="desk", tools=[tool], limits=Limits(**limits))
    assert refused.value.field == f"tool {tool.name!r}.reminders_s"
    assert Agent(name="desk", tools=[tool], limits=Limits(approval_timeout_s=9 * 86400, answer_timeout_s=61))


def test_a_reminder_that_its_own_tool_or_a_later_stage_has_time_for_is_fine():
    later = gated(reminders_s=[60], on_timeout=Escalate(["role:lead"], for_s=61))
    for tool in (later, gated(reminders_s=[60], approval_timeout_s=61), ask(reminders_s=[60], answer_timeout_s=61)):
        assert Agent(name="desk", tools=[tool], limits=Limits(approval_timeout_s=10, answer_timeout_s=10))


def test_a_rules_reminder_is_judged_by_the_tools_that_it_may_ask_about():
    rules = Rules(
        ask=["other", Rule("bo*", on_timeout="error", reminders_s=[60]), Rule("no", on_timeout="error", reminders_s=[60])]
    )
    short, long = ({"approval_timeout_s": seconds} for seconds in (60, 61))
    for declare in (
        lambda limits: Agent(name="desk", tools=[body], rules=rules, limits=Limits(**limits)),
        lambda limits: App(agents=[Agent(name="desk", tools=[body], limits=Limits(**limits))], rules=rules),
    ):
        assert declare(long)
        with pytest.raises(InvalidRule, match="waits for 60 s") as refused:
            declare(short)
        assert refused.value.field == "ask[2].reminders_s"
    desks = [Agent(name=name, tools=[body], limits=Limits(**limits)) for name, limits in (("one", short), ("two", long))]
    assert App(agents=desks, rules=rules)
    assert Agent(name="desk", tools=[gated(approval_timeout_s=61)], rules=rules, limits=Limits(**short))


@pytest.mark.parametrize(
    "said",
    [
        {"on_timeout": Answer(1)},
        {"on_timeout": Answer("x"), "response_schema": {"type": "integer"}},
        {"on_timeout": Approve()},
        {"reminders_s": [60], "expires_s": 30},
    ],
)
def test_a_review_takes_what_its_schema_fits(said):
    with pytest.raises(ConfigurationError, match="Suspend"):
        Suspend("Look", **said)
    fine = Suspend("Look", response_schema={"type": "integer"}, on_timeout=Answer(1), expires_s=60, reminders_s=[30])
    assert fine.terms.on_timeout == OnTimeout(default=Default(kind="answer", value="1"), reminders_s=(30,))
    assert Suspend("Look").terms.on_timeout is None


def test_rules_say_it_for_what_they_ask_about_and_read_it_back():
    late = Escalate(Approvers("role:lead", minimum=2), for_s=60, then=Escalate(["id:ana"], for_s=5, then=Deny("late")))
    rules = Rules(ask=[Rule("pay(amount=*)", on_timeout=late, reminders_s=[10]), Rule("send", on_timeout="error"), "ship"])
    again = Rules.of_json(rules.to_json())
    assert again == rules
    assert again.digest == rules.digest
    terms = again.verdict("pay", {"amount": 4}).on_timeout
    assert [stage.for_s for stage in terms.stages] == [60, 5]
    assert (terms.default.kind, terms.reminders_s) == ("deny", (10,))
    assert rules.verdict("ship", {}).on_timeout is None
    assert rules.verdict("send", {}).on_timeout == NOTHING


@pytest.mark.parametrize(
    ("entry", "field"),
    [
        ({"on_timeout": "later"}, "on_timeout"),
        ({"on_timeout": {"deny": "x", "answer": 1}}, "on_timeout"),
        ({"on_timeout": {"approve": {}}}, "on_timeout"),
        ({"on_timeout": {"escalate": {"to": ["role:lead"]}}}, "on_timeout.escalate"),
        ({"on_timeout": {"escalate": {"to": ["lead"], "for_s": 5}}}, "on_timeout"),
        ({"on_timeout": {"escalate": {"to": ["role:lead"], "for_s": "5"}}}, "on_timeout.for_s"),
        ({"reminders_s": [0]}, "reminders_s"),
    ],
)
def test_a_file_of_rules_names_what_cannot_follow(tmp_path, entry, field):
    path = tmp_path / "rules.json"
    path.write_text(json.dumps({"ask": [{"pattern": "pay", **entry}]}))
    with pytest.raises(InvalidRule) as refused:
        Rules.load(path)
    assert field in refused.value.field


def test_only_a_rule_that_asks_waits_for_somebody():
    with pytest.raises(InvalidRule, match="asks"):
        Rules(deny=[Rule("pay", on_timeout=Deny("late"))])
