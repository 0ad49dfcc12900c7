"""Each numbered step of a command, a run, an activation, a passivation: a process dies there, or freezes and comes back."""

import asyncio
import json
import signal

import pytest
from fault_stack import WITHIN_S, at_ease, full, host_pid, named, true
from ruling import under
from stack_fixture import eventually, host_of, kill, open_gate, pid_of, sweeper_of

from holdfast import AlreadyVoted
from holdfast.actors.answers import NotHosted, Replied
from holdfast.actors.steps import Step
from holdfast.actors.wire import pack, unpack
from holdfast.client import Answer, Approve, Cancel, Deny, Principal, Redispatch, Review, StaleCall, StaleReason, Status
from holdfast.conversation import Resolve
from holdfast.conversation.terms.decisions import DecisionRecord
from holdfast.testing import call, calls

ASK = [step for step in Step if step.startswith("ask-")]
RUN = [step for step in Step if step.startswith("run-")]
MODEL = [step for step in Step if step.startswith("model-")]  # in test_parking.py
MESSAGE = [step for step in Step if step.startswith("message-")]  # in test_guests.py and test_delegation_by_guests.py
GUEST = [step for step in Step if step.startswith("guest-")]  # in test_guests.py
ACTIVATE = [step for step in Step if step.startswith("activate-")]
PASSIVATE = [step for step in Step if step.startswith("passivate-")]
OWED = [step for step in Step if step.startswith("owed-")]  # in test_delegation.py
KILL, FREEZE = signal.SIGKILL, signal.SIGSTOP


def test_every_step_has_its_tests():
    assert [*ASK, *RUN, *MODEL, *MESSAGE, *GUEST, *ACTIVATE, *PASSIVATE, *OWED] == list(Step)


async def paying(stack, client, name, tool="pay", *more):
    """A conversation in which a gated call waits for approval; the call, and the others that wait."""
    text = stack.scenarios.add(name, calls(call(tool, {"question": "?"} if tool == "ask" else {}), *more), "Done.")
    conversation = await client.start("till", text, conversation_id=name)
    state = await conversation.wait(timeout_s=WITHIN_S)
    return conversation, *state.pending


async def done(conversation, receipt):
    """The conversation's state once it rests, and waits for nobody."""
    state = await conversation.wait(after=receipt.seq, timeout_s=WITHIN_S)
    while state.status is Status.AWAITING_INPUT:
        state = await conversation.wait(after=state.seq, timeout_s=WITHIN_S)
    assert (state.status, state.reply) == (Status.IDLE, "Done.")


async def results(conversation):
    return [json.loads(message["content"]) for message in await conversation.messages() if message["role"] == "tool"]


async def bodies(oracle, conversation, count):
    return await asyncio.to_thread(eventually, lambda: len(oracle.bodies(conversation.id)) >= count and True, WITHIN_S)


# -- a command ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", ASK)
async def test_an_actor_that_dies_while_it_judges_a_decision_loses_nothing(stack, client, store, oracle, traps, step):
    conversation, pay, ask = await paying(stack, client, f"resolve-{step}", "pay", call("ask", {"question": "?"}))
    await ask.resolve(Answer(False))
    open_gate(stack, conversation.id)
    await at_ease(store, conversation.id)
    traps.arm(step, KILL)

    receipt = await client.resolve(pay, Approve(), decision_id="d-1")

    await traps.sprung(step)
    await done(conversation, receipt)
    await oracle.acknowledged(conversation.id, receipt, by="d-1")
    await oracle.at_rest(conversation.id)
    assert await results(conversation) == [{"ok": True, "result": "pay is done"}, {"ok": True, "result": False}]
    assert len(oracle.bodies(conversation.id)) == 1


@pytest.mark.parametrize("step", ASK)
async def test_an_actor_that_dies_while_it_judges_an_outcome_takes_it_from_its_record_or_asks_again(
    stack, client, store, oracle, traps, step
):
    """Of a run, whose body must not run again; and of a model call, whose answer is the same."""
    running, pay = await paying(stack, client, f"run-outcome-{step}")
    receipt = await pay.resolve(Approve())
    await bodies(oracle, running, 1)
    text = stack.scenarios.add(f"model-outcome-{step}", "Done.")
    stack.model.hold(times=1)
    try:
        asking = await client.start("till", text, conversation_id=f"model-outcome-{step}")
        await stack.model.held(1, WITHIN_S)
        await at_ease(store, running.id, asking.id)
        traps.arm(step, KILL)
        open_gate(stack, running.id)
        died = [await traps.sprung(step)]
        traps.arm(step, KILL)
    finally:
        stack.model.release()
    died.append(await traps.sprung(step))

    await done(running, receipt)
    await done(asking, asking.receipt)
    assert len(set(died)) == 2
    for conversation in (running, asking):
        await oracle.at_rest(conversation.id)
    assert await results(running) == [{"ok": True, "result": "pay is done"}]
    assert len(oracle.bodies(running.id)) == 1
    assert [message["role"] for message in await asking.messages()] == ["user", "assistant"]


@pytest.mark.parametrize("step", ASK)
async def test_an_actor_that_dies_while_it_judges_that_a_body_suspends_shows_it_once(stack, client, store, oracle, traps, step):
    text = stack.scenarios.add(f"suspends-{step}", calls(call("pay_reviewed", {})), "Done.")
    conversation = await client.start("till", text, conversation_id=f"suspends-{step}")
    await bodies(oracle, conversation, 1)
    await at_ease(store, conversation.id)
    traps.arm(step, KILL)
    open_gate(stack, conversation.id)
    await traps.sprung(step)

    (review,) = (await conversation.wait(timeout_s=WITHIN_S)).pending
    assert (review.kind, review.title, review.payload) == ("review", "Pay?", {"amount": 5})
    receipt = await review.resolve(Review("allow"))

    await done(conversation, receipt)
    await oracle.at_rest(conversation.id)
    assert await results(conversation) == [{"ok": True, "result": "pay_reviewed is done: allow"}]
    assert attempts(oracle, conversation) == [1, 1]


@pytest.mark.parametrize("step", ASK)
async def test_an_actor_that_dies_while_it_judges_a_review_loses_nothing(stack, client, store, oracle, traps, step):
    name = f"reviewed-{step}"
    open_gate(stack, name)
    conversation, review = await paying(stack, client, name, "pay_reviewed")
    await at_ease(store, conversation.id)
    traps.arm(step, KILL)

    receipt = await client.resolve(review, Review("block", "no"), decision_id="d-1")

    await traps.sprung(step)
    await done(conversation, receipt)
    await oracle.acknowledged(conversation.id, receipt, by="d-1")
    await oracle.at_rest(conversation.id)
    assert await results(conversation) == [{"ok": True, "result": "pay_reviewed is done: block"}]
    assert attempts(oracle, conversation) == [1, 1]


@pytest.mark.parametrize("step", ASK)
async def test_an_actor_that_dies_while_it_judges_a_vote_counts_it_once(stack, client, store, oracle, traps, step):
    """The vote that settles nothing is as durable as the one that settles: another actor goes on from it."""
    name = f"voted-{step}"
    open_gate(stack, name)
    conversation, shown = await paying(stack, client, name, "pay_by_two")
    ana, bo = (client.acting_as(Principal(who)) for who in ("ana", "bo"))
    await at_ease(store, conversation.id)
    traps.arm(step, KILL)

    first = await ana.resolve(shown, Approve(), decision_id="v-1")
    await traps.sprung(step)

    assert (first.settled, first.votes, first.needed) == (False, 1, 2)
    with pytest.raises(AlreadyVoted):
        await ana.resolve(shown, Approve(), decision_id="v-2")
    assert attempts(oracle, conversation) == []
    last = await bo.resolve(shown, Approve(), decision_id="v-3")
    assert (last.settled, last.votes, last.needed) == (True, 2, 2)
    await done(conversation, last)
    events = await oracle.at_rest(conversation.id)
    assert [event.principal.id for event in events if event.kind == "vote_cast"] == ["ana"]
    assert attempts(oracle, conversation) == [1]


@pytest.mark.parametrize("step", ASK)
@pytest.mark.parametrize("due", ["call_reminded", "call_escalated", "suspension_settled"])
async def test_an_actor_that_dies_while_it_judges_what_is_due_does_each_thing_once(
    stack, client, store, oracle, traps, step, due
):
    conversation, late = await paying(stack, client, f"{due}-{step}", "pay_in_time")
    acted = {"call_reminded": 0, "call_escalated": 1, "suspension_settled": 3}[due]  # things that are done before it

    async def kinds():
        found = [event.kind for _, event in await store.read(conversation.id)]
        return [kind for kind in found if kind in ("call_reminded", "call_escalated", "suspension_settled")]

    while len(await kinds()) < acted:
        await asyncio.sleep(0.1)
    traps.arm(step, KILL)
    await traps.sprung(step)

    state = await conversation.wait(after=conversation.receipt.seq, timeout_s=WITHIN_S)
    while state.status is Status.AWAITING_INPUT:
        state = await conversation.wait(after=state.seq, timeout_s=WITHIN_S)
    assert state.reply == "Done."
    found = await kinds()
    once = ["call_reminded", "call_escalated", "call_reminded", "suspension_settled"]
    assert [kind for kind in found if kind != "call_reminded"] == ["call_escalated", "suspension_settled"]
    assert found in ([*once], once[1:], [*once[:2], once[3]], [once[1], once[3]])  # a reminder that comes too late is left out
    with pytest.raises(StaleCall) as stale:
        await client.resolve(late, Approve())
    assert (stale.value.reason, stale.value.settled_by) == (StaleReason.EXPIRED, "expiry")
    await oracle.at_rest(conversation.id)
    assert (await results(conversation))[0]["error"].endswith("too late")
    assert not oracle.bodies(conversation.id)


@pytest.mark.parametrize("step", ASK)
async def test_an_actor_that_dies_while_it_judges_many_decisions_takes_all_or_none(stack, client, store, oracle, traps, step):
    conversation, pay, ask, other = await paying(
        stack, client, f"many-{step}", "pay", call("ask", {"question": "?"}), call("pay", {})
    )
    open_gate(stack, conversation.id)
    await at_ease(store, conversation.id)
    traps.arm(step, KILL)
    decisions = {pay.suspension_id: Approve(), ask.suspension_id: Answer(0), other.suspension_id: Cancel("once is enough")}

    receipts = await conversation.resolve_many(decisions, decision_id="d-1")

    await traps.sprung(step)
    await done(conversation, receipts[-1])
    again = await conversation.resolve_many(decisions, decision_id="d-1")
    assert [(one.seq, one.duplicate) for one in again] == [(one.seq, True) for one in receipts]
    await oracle.at_rest(conversation.id)
    paid, told, cancelled = await results(conversation)
    assert (paid["result"], told["result"], cancelled["ok"]) == ("pay is done", 0, False)
    assert len(oracle.bodies(conversation.id)) == 1


# -- a run --------------------------------------------------------------------------------------------------------------


async def approved_until_its_worker_dies(stack, client, traps, step, tool):
    """A run whose worker dies at a step; whoever runs it again finds the gate open."""
    conversation, pay = await paying(stack, client, f"{step}-{tool}", tool)
    open_gate(stack, conversation.id)
    traps.arm(step, KILL)
    receipt = await pay.resolve(Approve())
    await traps.sprung(step)
    return conversation, receipt


@pytest.mark.parametrize("step", [Step.RUN_1_ASKED, Step.RUN_4_RECORDED])
async def test_a_worker_that_dies_before_the_claim_or_after_the_record_loses_no_run(stack, client, store, oracle, traps, step):
    conversation, receipt = await approved_until_its_worker_dies(stack, client, traps, step, "pay")
    await done(conversation, receipt)
    await oracle.at_rest(conversation.id)
    assert await results(conversation) == [{"ok": True, "result": "pay is done"}]
    assert attempts(oracle, conversation) == [1]


BETWEEN = [Step.RUN_2_CLAIMED, Step.RUN_3_RETURNED]


def attempts(oracle, conversation):
    return [body["attempt"] for body in oracle.bodies(conversation.id)]


def began(step):
    """The attempts whose body had begun when the worker died."""
    return [1] if step is Step.RUN_3_RETURNED else []


@pytest.mark.parametrize("step", BETWEEN)
async def test_a_lost_run_means_what_its_tool_says(stack, client, store, oracle, traps, step):
    """A person is asked, the model reads that the outcome is unknown, or it runs again with the same key."""
    asked, told, again = [
        await approved_until_its_worker_dies(stack, client, traps, step, tool) for tool in ("pay", "pay_once", "pay_by_key")
    ]

    (lost,) = (await asked[0].wait(after=asked[1].seq, timeout_s=WITHIN_S)).pending
    assert lost.kind == "lost"
    assert attempts(oracle, asked[0]) == began(step)
    answer, more = (Redispatch(), [2]) if step is Step.RUN_2_CLAIMED else (Answer("pay is done"), [])
    receipt = await client.resolve(lost, answer, decision_id="d-2")
    await done(asked[0], receipt)
    await oracle.acknowledged(asked[0].id, receipt, by="d-2")
    assert await results(asked[0]) == [{"ok": True, "result": "pay is done"}]
    assert attempts(oracle, asked[0]) == [*began(step), *more]

    await done(*told)
    (result,) = await results(told[0])
    assert result["ok"] is False
    assert "outcome unknown" in result["error"]
    assert attempts(oracle, told[0]) == began(step)

    await done(*again)
    assert await results(again[0]) == [{"ok": True, "result": "pay_by_key is done"}]
    assert attempts(oracle, again[0]) == [*began(step), 2]
    assert len({body["key"] for body in oracle.bodies(again[0].id)}) == 1
    for conversation, _ in (asked, told, again):
        await oracle.at_rest(conversation.id)


@pytest.mark.parametrize("step", RUN)
async def test_a_worker_that_dies_as_its_body_suspends_has_it_asked_once(stack, client, store, oracle, traps, step):
    name = f"suspending-{step}"
    open_gate(stack, name)
    traps.arm(step, KILL)
    conversation, review = await paying(stack, client, name, "pay_reviewed")
    await traps.sprung(step)

    receipt = await review.resolve(Review("allow"))

    await done(conversation, receipt)
    await oracle.at_rest(conversation.id)
    assert await results(conversation) == [{"ok": True, "result": "pay_reviewed is done: allow"}]
    attempt = 2 if step in BETWEEN else 1  # the run that suspended, and the one that went on
    assert attempts(oracle, conversation) == [*(began(step) if step in BETWEEN else []), attempt, attempt]
    assert [event.kind async for event in recorded(conversation)].count("call_suspended") == 1


async def recorded(conversation):
    """The events of a conversation up to where it stands."""
    seq = (await conversation.state()).seq
    async for event in conversation.events(live=False):
        yield event
        if event.seq == seq:
            return


async def test_host_worker_and_sweeper_die_at_once_and_others_take_their_places(stack, client, store, oracle):
    conversation, pay = await paying(stack, client, "all-at-once", "pay_by_key")
    receipt = await pay.resolve(Approve())
    await bodies(oracle, conversation, 1)
    (body,) = oracle.bodies(conversation.id)
    sweeper = await pid_of(named(sweeper_of(store)))
    for pid in (sweeper, body["pid"], await host_pid(store, conversation.id)):
        await kill(pid)
    open_gate(stack, conversation.id)
    await done(conversation, receipt)
    await oracle.at_rest(conversation.id)
    assert await results(conversation) == [{"ok": True, "result": "pay_by_key is done"}]
    assert attempts(oracle, conversation) == [1, 2]


# -- a run that a rule denies -------------------------------------------------------------------------------------------

FREEZES = [{"pattern": "shell(deploy *)", "name": "freeze", "reason": "Not now."}]
DENIED = {"ok": False, "error": "denied by the rule 'freeze': Not now; it did not run"}


async def deploying(stack, client, name):
    """A conversation in which a call waits for an approval that no rule denies yet; the call."""
    text = stack.scenarios.add(name, calls(call("shell", {"command": "deploy now"})), "Done.")
    conversation = await client.start("keeper", text, conversation_id=name)
    (shown,) = (await conversation.wait(timeout_s=WITHIN_S)).pending
    return conversation, shown


async def denied_once(oracle, conversation, receipt):
    """Check that the approval stands in the log, that the call was denied once after it, and that its body never ran."""
    await done(conversation, receipt)
    await oracle.acknowledged(conversation.id, receipt, by="d-1")
    events = await oracle.at_rest(conversation.id)
    assert [(event.by, event.rule) for event in events if event.kind == "call_resolved"] == [("rule", "freeze")]
    assert await results(conversation) == [DENIED]
    assert oracle.bodies(conversation.id) == []


@pytest.mark.parametrize("step", [Step.RUN_1_ASKED, Step.RUN_4_RECORDED])
async def test_a_worker_that_dies_before_or_after_it_records_a_denial_has_the_call_denied_once(
    stack, store, oracle, traps, step
):
    async with under(stack) as client:
        conversation, shown = await deploying(stack, client, f"denied-{step}")
        async with under(stack, deny=FREEZES) as later:
            traps.arm(step, KILL)
            receipt = await later.resolve(shown, Approve(), decision_id="d-1")
            await traps.sprung(step)
            await denied_once(oracle, conversation, receipt)


async def approved_then_frozen(stack, client, traps, name):
    """An approved run whose worker stands still before it looks at the rules; conversation, receipt and process."""
    conversation, shown = await deploying(stack, client, name)
    traps.arm(Step.RUN_1_ASKED, FREEZE)
    receipt = await client.resolve(shown, Approve(), decision_id="d-1")
    return conversation, receipt, await traps.frozen(Step.RUN_1_ASKED)


@pytest.mark.parametrize("step", ASK)
async def test_an_actor_that_dies_while_it_judges_a_denial_has_the_call_denied_once(stack, store, oracle, traps, step):
    async with under(stack) as client:
        conversation, receipt, worker = await approved_then_frozen(stack, client, traps, f"denial-{step}")
        async with under(stack, deny=FREEZES):
            await at_ease(store, conversation.id)
            traps.arm(step, KILL)
            traps.thaw(worker)
            await traps.sprung(step)
            await denied_once(oracle, conversation, receipt)


async def test_a_deny_after_an_approval_holds_for_those_who_take_the_places_of_the_host_and_the_worker(
    stack, store, oracle, traps
):
    async with under(stack) as client:
        conversation, receipt, worker = await approved_then_frozen(stack, client, traps, "approve-deny-kill")
        async with under(stack, deny=FREEZES):
            for pid in (worker, await host_pid(store, conversation.id)):
                await kill(pid)
            await denied_once(oracle, conversation, receipt)


# -- activation and passivation -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", ACTIVATE)
async def test_an_actor_that_dies_while_it_takes_a_conversation_over_is_followed_by_another(
    stack, client, store, oracle, traps, step
):
    conversation, ask = await paying(stack, client, f"revived-{step}", "ask")
    await at_ease(store)
    traps.arm(step, KILL)
    receipt = await client.resolve(ask, Answer(""), decision_id="d-1")
    await traps.sprung(step)
    await done(conversation, receipt)
    await oracle.acknowledged(conversation.id, receipt, by="d-1")
    await oracle.at_rest(conversation.id)
    assert await results(conversation) == [{"ok": True, "result": ""}]


@pytest.mark.parametrize("step", ACTIVATE)
async def test_an_actor_that_dies_while_it_takes_work_over_is_followed_by_another_which_joins_the_run(
    stack, client, store, oracle, traps, step
):
    conversation, pay = await paying(stack, client, f"taken-over-{step}")
    receipt = await pay.resolve(Approve())
    await bodies(oracle, conversation, 1)
    await at_ease(store)
    traps.arm(step, KILL)
    taking = asyncio.create_task(host_of(store, conversation.id))
    await traps.sprung(step)
    open_gate(stack, conversation.id)
    await asyncio.gather(taking, return_exceptions=True)
    await done(conversation, receipt)
    await oracle.at_rest(conversation.id)
    assert await results(conversation) == [{"ok": True, "result": "pay is done"}]
    assert len(oracle.bodies(conversation.id)) == 1


@pytest.mark.parametrize("step", PASSIVATE)
async def test_an_actor_that_dies_while_it_leaves_a_conversation_leaves_it_to_the_next(
    stack, client, store, oracle, traps, step
):
    stack.model.hold(times=1)
    try:
        beginning = asyncio.create_task(paying(stack, client, f"left-{step}", "ask"))
        await stack.model.held(1, WITHIN_S)
        await at_ease(store, f"left-{step}")
        await true(lambda: full(store), "that enough actors are warm")
        traps.arm(step, KILL)
    finally:
        stack.model.release()
    conversation, ask = await beginning
    await traps.sprung(step)
    receipt = await client.resolve(ask, Answer(None), decision_id="d-1")
    await done(conversation, receipt)
    await oracle.acknowledged(conversation.id, receipt, by="d-1")
    await oracle.at_rest(conversation.id)
    assert await results(conversation) == [{"ok": True, "result": None}]


# -- a zombie -----------------------------------------------------------------------------------------------------------


async def at_work(stack, client, store, oracle, name):
    """A conversation in which one call runs for as long as the gate is closed, and another waits for approval."""
    conversation, first, second = await paying(stack, client, name, "pay_by_key", call("pay", {}))
    await first.resolve(Approve())
    await bodies(oracle, conversation, 1)
    await at_ease(store)
    return conversation, second


def decide(conversation, shown, ruling, decision_id):
    """A decision as an actor is asked for it."""
    ruling = DecisionRecord.of(ruling)
    return pack(
        (
            conversation.id,
            Resolve(tool_call_id=shown.tool_call_id, ruling=ruling, decision_id=decision_id, suspension_id=shown.suspension_id),
        )
    )


def nonsense(conversation):
    """A decision that whoever hosts the conversation refuses for good."""
    return pack((conversation.id, Resolve(tool_call_id="none", ruling=DecisionRecord.of(Approve()), decision_id="nonsense")))


async def goes_on(stack, store, oracle, conversation, epoch):
    """After a zombie came back: it is the owner only by another takeover, and the conversation ends as it would have."""
    assert (await store.owner(conversation.id)).epoch >= epoch
    open_gate(stack, conversation.id)
    async with asyncio.timeout(WITHIN_S):
        while (await store.load(conversation.id)).status is not Status.IDLE:
            await asyncio.sleep(0.05)
    return await oracle.at_rest(conversation.id)


@pytest.mark.parametrize(
    "step",
    [pytest.param(step, marks=pytest.mark.gate) if step in (Step.ASK_2_JUDGED, Step.ASK_3_WRITTEN) else step for step in ASK],
)
async def test_promise_4_an_actor_that_froze_in_a_decision_and_comes_back_writes_and_answers_nothing(
    stack, client, store, oracle, traps, step
):
    conversation, pay = await at_work(stack, client, store, oracle, f"frozen-{step}")
    zombie = await host_of(store, conversation.id)
    host = await pid_of(zombie)
    await at_ease(store)
    before = await store.owner(conversation.id)
    traps.arm(step, FREEZE)
    late = zombie.ask.remote(decide(conversation, pay, Approve(), "of-the-zombie"))
    pid = await traps.frozen(step)
    assert pid == host
    written = step >= Step.ASK_3_WRITTEN

    denied = client.resolve(pay, Deny("no"), decision_id="of-the-living")
    if written:
        with pytest.raises(StaleCall) as stale:
            await denied
        assert stale.value.reason is StaleReason.ALREADY_RESOLVED
        await bodies(oracle, conversation, 2)  # its successor has it run
    else:
        receipt = await denied
    after = await store.owner(conversation.id)
    assert after.epoch > before.epoch
    refusal = zombie.ask.remote(nonsense(conversation))
    traps.thaw(pid)

    refused = unpack(await refusal)  # if nobody owns the conversation by then, whoever is asked may take it over and refuse
    assert refused == NotHosted() or isinstance(refused.error, StaleCall)
    answer = unpack(await late)
    if written:
        assert isinstance(answer, Replied)  # what it says is true: it had been written in time
        await oracle.acknowledged(conversation.id, answer.reply, by="of-the-zombie")
    else:
        assert answer == NotHosted()
        await oracle.acknowledged(conversation.id, receipt, by="of-the-living")
    events = await goes_on(stack, store, oracle, conversation, after.epoch)
    decided = [event.decision_id for event in events if event.kind == "suspension_settled"]
    assert decided[1:] == (["of-the-zombie"] if written else ["of-the-living"])
    assert len(oracle.bodies(conversation.id)) == (2 if written else 1)


async def test_an_actor_that_froze_in_a_refusal_and_comes_back_does_not_say_no(stack, client, store, oracle, traps):
    conversation, pay = await at_work(stack, client, store, oracle, "frozen-refusal")
    zombie = await host_of(store, conversation.id)
    await at_ease(store)
    traps.arm(Step.ASK_2_JUDGED, FREEZE)
    late = zombie.ask.remote(nonsense(conversation))
    pid = await traps.frozen(Step.ASK_2_JUDGED)
    receipt = await pay.resolve(Approve())
    after = await store.owner(conversation.id)
    traps.thaw(pid)
    assert unpack(await late) == NotHosted()
    await bodies(oracle, conversation, 2)
    assert receipt.seq
    await goes_on(stack, store, oracle, conversation, after.epoch)


@pytest.mark.parametrize("step", ACTIVATE)
async def test_an_actor_that_froze_while_it_took_work_over_and_comes_back_starts_nothing(
    stack, client, store, oracle, traps, step
):
    conversation, pay = await at_work(stack, client, store, oracle, f"frozen-{step}")
    traps.arm(step, FREEZE)
    taking = asyncio.create_task(host_of(store, conversation.id))
    pid = await traps.frozen(step)
    receipt = await client.resolve(pay, Approve(), decision_id="d-1")
    await bodies(oracle, conversation, 2)
    after = await store.owner(conversation.id)
    traps.thaw(pid)
    await asyncio.gather(taking, return_exceptions=True)
    await oracle.acknowledged(conversation.id, receipt, by="d-1")
    await goes_on(stack, store, oracle, conversation, after.epoch)
    assert len(oracle.bodies(conversation.id)) == 2


@pytest.mark.parametrize("step", [Step.RUN_1_ASKED, Step.RUN_3_RETURNED])
async def test_a_worker_that_froze_in_a_run_and_comes_back_after_its_cancellation_changes_nothing(
    stack, client, store, oracle, traps, step
):
    conversation, pay = await paying(stack, client, f"frozen-{step}")
    open_gate(stack, conversation.id)
    await at_ease(store, conversation.id)
    traps.arm(step, FREEZE)
    await pay.resolve(Approve())
    pid = await traps.frozen(step)
    assert (await conversation.cancel()).calls == (pay.tool_call_id,)
    before = await oracle.events(conversation.id)
    traps.thaw(pid)
    receipt = await conversation.send("go on")
    await done(conversation, receipt)  # by the same worker, which has come back
    assert (await oracle.at_rest(conversation.id))[: len(before)] == before
    assert len(oracle.bodies(conversation.id)) == (0 if step is Step.RUN_1_ASKED else 1)
