"""A rehearsal runs the conversations to which an agent delegates calls, in the same process."""

import json

import pytest

from holdfast import (
    Agent,
    App,
    Approve,
    Cancel,
    ConfigurationError,
    ConversationEnded,
    ConversationNotFound,
    Deny,
    Limits,
    NotPermitted,
    Principal,
    Proof,
    delegate,
    tool,
)
from holdfast.testing import BlockingRehearsal, NoAnswer, Rehearsal, call, calls, run


@tool(approval="required", approval_timeout_s=100)
async def refund(order: str) -> str:
    """Refund an order."""
    return f"refunded {order}"


PAYMENTS = Agent(name="payments", tools=[refund])
COMPLIANCE = Agent(name="compliance", tools=[delegate(PAYMENTS, name="pay", context=lambda given: {"for": given})])
DESK = Agent(name="desk", tools=[delegate(COMPLIANCE, name="check", deadline_s=60)])
SHOP = App(agents=[DESK, COMPLIANCE, PAYMENTS])
MODELS = {
    "desk": [call("check", {"task": "May A-1 be refunded?"}), "It is done."],
    "compliance": [call("pay", {"task": "Refund A-1."}), "Checked."],
    "payments": [call("refund", {"order": "A-1"}), "Paid."],
}
THREE = [MODELS["desk"][0], MODELS["compliance"][0], MODELS["payments"][0], "Paid.", "Checked.", "It is done."]


def read_by(result):
    """What the model read as the results of calls."""
    return [json.loads(one["content"]) for one in result.messages if one["role"] == "tool"]


@pytest.mark.parametrize("model", [MODELS, THREE])
async def test_what_is_approved_in_the_third_level_comes_back_to_the_first(model):
    async with Rehearsal(DESK, app=SHOP, model=model, context={"order": "A-1"}) as conversation:
        waits = await conversation.send("Refund A-1")
        (waiting,) = waits.pending
        assert (waiting.agent, waiting.tool, waiting.arguments) == ("payments", "refund", {"order": "A-1"})
        assert (waits.status, waits.state.pending) == ("awaiting_input", [])
        result = await conversation.resolve(waiting, Approve())
    assert (result.reply, result.runs, result.replies_left) == ("It is done.", [], 0)
    (child,) = result.children
    assert (child.state.agent, child.status, child.reply) == ("compliance", "ended", "Checked.")
    (grandchild,) = child.children
    assert [ran.result for ran in grandchild.runs] == ["refunded A-1"]
    assert grandchild.events[0].body.context == '{"for":{"order":"A-1"}}'
    assert read_by(result) == [{"ok": True, "result": "Checked.", "conversation": child.state.conversation_id}]


async def test_decide_decides_what_waits_below_too():
    result = await run(DESK, "Refund A-1", app=SHOP, model=MODELS, decide={"refund": Deny("not today")})
    (grandchild,) = result.children[0].children
    assert "not today" in read_by(grandchild)[0]["error"]
    assert result.reply == "It is done."


def test_a_plain_test_decides_and_moves_time_below():
    with BlockingRehearsal(DESK, app=SHOP, model=MODELS) as conversation:
        (waiting,) = conversation.send("Refund A-1").pending
        (below,) = conversation.result().children[0].children
        assert below.pending == [waiting]
        assert conversation.child(below.state.conversation_id).result().status == "awaiting_input"
        waiting.resolve(Approve())
        assert conversation.rest().reply == "It is done."


def test_the_fixtures_of_pytest_rehearse_children(holdfast_run, holdfast_rehearsal):
    assert holdfast_run(DESK, "Refund A-1", app=SHOP, model=MODELS, decide={"refund": Approve()}).reply == "It is done."
    (waiting,) = holdfast_rehearsal(DESK, app=SHOP, model=MODELS).send("Refund A-1").pending
    assert waiting.tool == "refund"


async def test_the_deadline_of_the_wait_ends_all_below():
    async with Rehearsal(DESK, app=SHOP, model=MODELS) as conversation:
        (waiting,) = (await conversation.send("Refund A-1")).pending
        assert waiting.expires_at == conversation.now + 60_000
        result = await conversation.advance(60)
        assert (result.pending, result.replies_left) == ([], 2)
        assert not read_by(result)[0]["ok"]
        (child,) = result.children
        assert [child.status, child.children[0].status] == ["ended", "ended"]
        with pytest.raises(ConversationEnded):
            await conversation.resolve(waiting, Approve())


async def test_who_cancels_the_call_ends_all_below():
    async with Rehearsal(DESK, app=SHOP, model=MODELS) as conversation:
        await conversation.send("Refund A-1")
        result = await conversation.cancel()
        assert [child.status for child in (result.children[0], result.children[0].children[0])] == ["ended", "ended"]
        assert result.pending == []


async def test_a_child_that_somebody_ends_is_an_error_of_its_call():
    async with Rehearsal(DESK, app=SHOP, model=MODELS) as conversation:
        child = (await conversation.send("Refund A-1")).children[0].state.conversation_id
        ended = await conversation.child(child).end()
        assert (ended.state.conversation_id, ended.status) == (child, "ended")
        (told,) = read_by(await conversation.result())
        assert told == {"ok": False, "error": "the agent 'compliance' was cancelled before it answered", "conversation": child}
        with pytest.raises(ConversationNotFound):
            conversation.child("another")


async def test_what_is_decided_below_is_asked_of_those_who_may():
    @tool(approval="required", approvers=["role:finance"])
    async def pay(order: str) -> str:
        """Pay."""
        return order

    payer = Agent(name="payer", tools=[pay])
    desk = Agent(name="desk", tools=[delegate(payer)])
    models = {"desk": [call("ask_payer", {"task": "Pay."}), "Done."], "payer": [call("pay", {"order": "1"}), "Paid."]}
    async with Rehearsal(desk, app=App(agents=[desk, payer]), model=models) as conversation:
        ana = conversation.acting_as(Principal("ana", proof=Proof.KEY))
        (waiting,) = (await ana.send("Pay")).pending
        assert waiting.requester.id == "ana"
        with pytest.raises(NotPermitted):
            await ana.resolve(waiting, Approve())
        bob = conversation.acting_as(Principal("bob", roles=["finance"], proof=Proof.KEY))
        assert (await bob.resolve(waiting, Approve())).reply == "Done."


RESEARCHER = Agent(name="researcher", limits=Limits(result_bytes=200))
LEAD = Agent(name="lead", tools=[delegate(RESEARCHER, name="research")], limits=Limits(result_bytes=200))


async def test_ten_side_by_side_come_back_in_the_order_of_the_calls():
    def research(messages):
        task = messages[-1]["content"]
        return RuntimeError("overloaded") if task == "topic 3" else "x" * 500 if task == "topic 4" else f"about {task}"

    model = {"lead": [calls(*(call("research", {"task": f"topic {n}"}) for n in range(10))), "Read."], "researcher": research}
    result = await run(LEAD, "Ten topics", app=App(agents=[LEAD, RESEARCHER]), model=model)
    told = read_by(result)
    assert [one["ok"] for one in told] == [number != 3 for number in range(10)]
    assert (told[9]["result"], told[3]["error"]) == ("about topic 9", "the agent 'researcher' failed: RuntimeError: overloaded")
    assert told[4]["cut_from_bytes"] == 502
    assert [child.state.conversation_id for child in result.children] == [one["conversation"] for one in told]


async def test_a_child_in_quarantine_is_an_error_of_its_call():
    @tool(on_lost="redispatch")
    async def crash() -> str:
        """End the worker."""
        return "crashed"

    crasher = Agent(name="crasher", tools=[crash])
    lead = Agent(name="lead", tools=[delegate(crasher)])
    models = {"lead": [call("ask_crasher", {"task": "Go."}), "It failed."], "crasher": [call("crash", {})]}
    result = await run(lead, "Go", app=App(agents=[lead, crasher]), model=models, lose={"crash": 9})
    assert (result.reply, result.children[0].status) == ("It failed.", "quarantined")
    assert "quarantined" in read_by(result)[0]["error"]


async def test_a_call_is_cancelled_while_its_child_waits():
    async with Rehearsal(DESK, app=SHOP, model=MODELS) as conversation:
        (waiting,) = (await conversation.send("Refund A-1")).pending
        result = await conversation.resolve(waiting, Cancel("no"))
        assert result.reply == "It is done."


async def test_an_agent_without_a_script_is_named():
    with pytest.raises(NoAnswer, match="the script of agent 'payments' has 0 replies"):
        await run(DESK, "Refund", app=SHOP, model={name: MODELS[name] for name in ("desk", "compliance")})


async def test_a_mistake_below_is_the_one_that_is_raised():
    def research(messages):
        assert messages[-1]["content"] == "tin", "the wrong words"

    model = {"lead": [call("research", {"task": "zinc"})], "researcher": research}
    with pytest.raises(AssertionError, match="the wrong words"):
        await run(LEAD, "Zinc", app=App(agents=[LEAD, RESEARCHER]), model=model)


@pytest.mark.parametrize(
    ("more", "field", "said"),
    [
        ({"app": None}, "app", "tool 'check' of agent 'desk' asks the agent 'compliance', and no app has it"),
        ({"decide": {"refnud": Approve()}}, "decide", "no tool refnud; name one of its tools: check, pay, refund"),
        ({"lose": {"refnud": 1}}, "lose", "agent 'desk' or 'compliance' or 'payments' has no tool 'refnud'"),
        ({"model": {"desk": [], "payment": []}}, "model", "dict is no script"),
        ({"model": {"desk": 7}}, "model", "int is no script"),
    ],
)
async def test_arguments_that_cannot_be_used_are_named(more, field, said):
    with pytest.raises(ConfigurationError, match=said) as refused:
        await run(DESK, "Refund", **{"app": SHOP, "model": MODELS} | more)
    assert refused.value.field == field
