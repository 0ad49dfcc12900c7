"""What a worker asks an app's functions, instead of a person, in a conversation that nobody attends."""

import pytest
from given_worker import GivenWorker, carried_out
from writer import DESK, Writer, begin, start
from writer import call as proposed

from holdfast import Agent, Answer, Approve, Deny, Rule, Rules, Tool, Unattended, ask_user_questions, tool
from holdfast.actors.workers import RunRequest
from holdfast.conversation import RunRuled, outstanding
from holdfast.conversation.terms.decisions import DecisionRecord
from holdfast.persistence import AppRecord, MemoryStore
from holdfast.testing import call, calls, run

QUIZ = {"questions": [{"id": "city", "text": "Where to?", "options": ["Rome", "Oslo"]}]}


@tool(approval="required", prompt=lambda arguments: f"Pay {arguments['amount']}?")
def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


@tool
def look(order: str) -> str:
    """Look at an order."""
    return f"looked at {order}"


@tool(executor="human")
def ask(question: str) -> str:
    """Ask."""
    return question


def desk(**unattended):
    return Agent(name="desk", tools=[pay, look, ask, ask_user_questions], unattended=Unattended(**unattended))


def small(asked):
    return Approve(reason="small") if asked.arguments["amount"] < 10 else Deny("too much")


def never(asked):
    pytest.fail(f"it was asked about {asked.tool}")


def ends(done):
    return [
        (event.data["by"], event.data["decision"], event.data["principal"])
        for event in done.events
        if event.kind == "suspension_settled"
    ]


async def test_approvals_go_to_a_function_that_sees_what_a_person_would():
    seen = []

    def decide(asked):
        seen.append((asked.tool, asked.prompt, asked.turn.context, asked.turn.attended, asked.questions))
        return small(asked)

    script = [calls(call("pay", {"amount": 5}), call("pay", {"amount": 50}), call("look", {"order": "A"})), "Done."]
    done = await run(desk(approvals=decide), "pay", model=script, context={"shop": 1}, attended=False)
    assert seen == [("pay", "Pay 5?", {"shop": 1}, False, None), ("pay", "Pay 50?", {"shop": 1}, False, None)]
    assert sorted(one.result for one in done.runs) == ["looked at A", "paid 5"]
    assert ends(done) == [("unattended", "approve", None), ("unattended", "deny", None)]
    assert not done.state.attended


async def test_in_an_attended_conversation_no_function_is_asked():
    done = await run(desk(approvals=never), "pay", model=[call("pay", {"amount": 5}), "Done."])
    assert [one.tool for one in done.state.pending] == ["pay"]


async def test_questions_go_to_a_function_that_is_given_them():
    decided = desk(
        questions=lambda asked: Answer({"city": asked.questions[0].options[-1]}) if asked.questions else Answer("yes")
    )
    script = [calls(call("ask_user_questions", QUIZ), call("ask", {"question": "Sure?"})), "Done."]
    done = await run(decided, "go", model=script, attended=False)
    results = [event.data["content"] for event in done.events if event.kind == "call_resolved"]
    assert results == ['{"ok":true,"result":{"answers":{"city":"Oslo"}}}', '{"ok":true,"result":"yes"}']


@pytest.mark.parametrize("decide", [lambda _: Answer({"city": "Paris"}), lambda _: 1 / 0, lambda _: None])
async def test_what_a_function_cannot_decide_waits_for_a_person(decide):
    done = await run(desk(questions=decide), "go", model=[call("ask_user_questions", QUIZ), "Done."], attended=False)
    assert [one.questions[0].id for one in done.state.pending] == ["city"]


async def test_questions_that_are_none_are_an_error_before_any_function_is_asked():
    wrong = {"questions": [{"id": "city", "text": "Where to?", "options": []}]}
    done = await run(desk(questions=never), "go", model=[call("ask_user_questions", wrong), "Done."], attended=False)
    [result] = [event.data["content"] for event in done.events if event.kind == "call_resolved"]
    assert "questions[0].options: there are 0; give 1 to 32" in result


async def test_a_rule_that_asks_is_answered_by_the_function_and_one_that_denies_is_not():
    seen = []

    def decide(asked):
        seen.append((asked.rule, asked.rule_reason))
        return Approve()

    rules = Rules(ask=[Rule("look", name="looks", reason="See who looks.")], deny=["pay"])
    agent = Agent(name="desk", tools=[pay, look], unattended=Unattended(approvals=decide), rules=rules)
    script = [calls(call("look", {"order": "A"}), call("pay", {"amount": 5})), "Done."]
    done = await run(agent, "go", model=script, attended=False)
    assert seen == [("looks", "See who looks.")]
    assert [one.result for one in done.runs] == ["looked at A"]


@pytest.mark.parametrize("attended", [True, False])
async def test_a_run_that_a_rule_asks_about_at_its_dispatch_goes_to_the_function(attended):
    store, rules = MemoryStore(), Rules(ask=["lookup"])
    record = AppRecord(app="shop:app", code="k", agents={"desk": DESK.digest}, rules={"desk": rules.digest})
    await store.put_app(record, [DESK], {rules.digest: rules.to_json()})
    writer = await Writer.of(store, "c-1")
    await writer.do(start("hello", attended=attended), begin(), proposed("lookup"))
    (effect,) = outstanding(writer.state)
    same = {
        name: getattr(effect, name) for name in ("effect_id", "tool_call_id", "tool", "attempt", "arguments_at", "message_seq")
    }
    request = RunRequest(
        code="k", conversation_id="c-1", agent="desk", spec_digest=effect.spec_digest, turn_id=writer.state.turn.turn_id, **same
    )
    agent = Agent(
        name="desk", tools=[Tool(name="lookup", callback=look)], unattended=Unattended(approvals=lambda _: Deny("no"))
    )
    worker = GivenWorker(store, agent)
    outcome = await carried_out(worker, request)
    assert isinstance(outcome, RunRuled)
    assert outcome.ruling == (None if attended else DecisionRecord.of(Deny("no")))
    await writer.do(lambda _: outcome)
    waits = [one.tool for one in writer.state.calls if one.suspension is not None]
    assert waits == (["lookup"] if attended else [])


async def test_modes_need_no_function():
    script = [calls(call("pay", {"amount": 5}), call("ask_user_questions", QUIZ), call("ask", {"question": "Sure?"})), "Done."]
    done = await run(desk(approvals="deny", questions="cancel"), "go", model=script, attended=False)
    assert done.reply == "Done."
    assert [by for by, *_ in ends(done)] == ["unattended"] * 3
