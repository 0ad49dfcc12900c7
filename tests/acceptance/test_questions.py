"""Questions and conversations that nobody attends, on the real thing."""

import pytest
from stack_fixture import kill_host, results, runs_of

from holdfast.client import Answer, AsyncClient, Cancel, InvalidDecision, StaleCall, Status
from holdfast.testing import call, calls

APP = "asking_app:app"
WITHIN_S = 60
PACE = {"id": "pace", "text": "How fast?", "options": ["slow", "fast"], "default": "slow"}
CITY = {"id": "city", "text": "Where to?", "options": ["Rome", "Oslo"]}
NOTE = {"id": "note", "text": "Anything to add?", "required": False}


@pytest.fixture
async def client(stack):
    del stack
    async with AsyncClient.connect(APP, timeout_s=90) as connected:
        yield connected


def asking(*questions):
    return call("ask_user_questions", {"questions": list(questions)})


async def begun(stack, client, agent, name, *answers, **options):
    text = stack.scenarios.add(name, *answers)
    conversation = await client.start(agent, text, conversation_id=name, **options)
    return conversation, await conversation.wait(timeout_s=WITHIN_S)


async def test_questions_wait_through_the_death_of_their_actor_and_are_judged_by_what_was_asked(stack, client, store):
    conversation, state = await begun(stack, client, "host", "trip-1", asking(CITY, PACE, NOTE), "Off we go.")
    assert state.status is Status.AWAITING_INPUT
    (waiting,) = state.pending
    assert [one.id for one in waiting.questions] == ["city", "pace", "note"]
    with pytest.raises(InvalidDecision, match=r"decision\.value\.city: 'Paris' is not offered"):
        await waiting.resolve(Answer({"city": "Paris"}))

    await kill_host(store, conversation.id)
    with pytest.raises(InvalidDecision, match=r"decision\.value\.town: there is no question 'town'"):
        await waiting.resolve(Answer({"city": "Oslo", "town": "x"}))
    receipt = await waiting.resolve(Answer({"city": "Oslo"}), decision_id="d-1")

    state = await conversation.wait(after=receipt.seq, timeout_s=WITHIN_S)
    assert (state.status, state.reply) == (Status.IDLE, "Off we go.")
    read = results(await conversation.messages())
    assert read == [{"ok": True, "result": {"answers": {"city": "Oslo", "pace": "slow"}}}]
    assert (await waiting.resolve(Answer({"city": "Oslo"}), decision_id="d-1")).duplicate
    with pytest.raises(StaleCall):
        await waiting.resolve(Cancel())


async def test_a_model_that_asks_badly_is_told_and_asks_again(stack, client):
    wrong = {"id": "city", "text": "Where to?", "options": ["Rome", "Rome"]}
    conversation, state = await begun(stack, client, "host", "trip-2", asking(wrong), asking(CITY), "Thank you.")
    (waiting,) = state.pending
    receipt = await waiting.resolve(Cancel("not now"))
    state = await conversation.wait(after=receipt.seq, timeout_s=WITHIN_S)
    assert state.reply == "Thank you."
    told, cancelled = results(await conversation.messages())
    assert told["error"] == "invalid arguments: questions[0].options: one stands there twice; give each once"
    assert "not now" in cancelled["error"]


async def test_unattended_questions_take_defaults_and_approvals_are_denied(stack, client, store):
    answers = (calls(asking(PACE), asking(CITY), call("pay", {"amount": 5})), "All done.")
    conversation, state = await begun(stack, client, "clerk", "night-1", *answers, attended=False)
    assert (state.status, state.reply, state.attended) == (Status.IDLE, "All done.", False)
    taken, cancelled, denied = results(await conversation.messages())
    assert taken == {"ok": True, "result": {"answers": {"pace": "slow"}}}
    assert cancelled["error"] == "nobody attends this conversation, so this call was cancelled"
    assert denied["error"] == "nobody attends this conversation, so this call was denied"
    settled = [event for _, event in await store.read("night-1", after=0) if event.kind == "suspension_settled"]
    assert [(event.by, event.principal) for event in settled] == [("unattended", None)] * 3
    assert runs_of(stack, "night-1") == []


async def test_functions_of_the_app_decide_in_a_worker_and_what_they_cannot_decide_waits_for_a_person(stack, client):
    payments = [call("pay", {"amount": amount}) for amount in (5, 500, 5_000)]
    conversation, state = await begun(
        stack, client, "night", "night-2", calls(*payments, asking(CITY)), "Done.", attended=False
    )
    while [one.arguments for one in state.pending] != [{"amount": 5_000}]:
        state = await conversation.wait(after=state.seq, timeout_s=WITHIN_S)
    receipt = await state.pending[0].resolve(Cancel("look at it tomorrow"))
    state = await conversation.wait(after=receipt.seq, timeout_s=WITHIN_S)
    assert state.reply == "Done."
    paid, denied, _, answered = results(await conversation.messages())
    assert paid == {"ok": True, "result": "paid 5"}
    assert denied["error"].endswith("this call was denied: too much for a night")
    assert answered["result"] == {"answers": {"city": "Rome"}}
    assert [one["amount"] for one in runs_of(stack, "night-2")] == [5]


async def test_the_same_agent_asks_where_somebody_attends(stack, client):
    _, state = await begun(stack, client, "clerk", "day-1", calls(asking(PACE), call("pay", {"amount": 5})), "Done.")
    assert [one.kind for one in state.pending] == ["elicitation", "approval"]
