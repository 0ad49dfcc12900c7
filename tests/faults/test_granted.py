"""Grants that are given and revoked while processes die: what one lets run runs once, and nothing begins by a revoked one.

The gate has the case of each test that tells most: nobody or both die, what is written is not yet known to the actor, and the
run is claimed.
"""

import signal

import pytest
from fault_stack import WITHIN_S, at_ease, host_pid
from stack_fixture import kill, open_gate

from holdfast.actors.steps import Step
from holdfast.client import Approve, Scope, Status
from holdfast.testing import call, calls

ASK = [step for step in Step if step.startswith("ask-")]
KILL, FREEZE = signal.SIGKILL, signal.SIGSTOP
PAYING = Scope("tool", "pay*", level="execute")


def gate(case):
    """A case that the gate has, too; without it the whole of this folder is slow."""
    return pytest.param(case, marks=pytest.mark.gate)


async def granted(stack, client, name, tool):
    """A conversation that has a grant for what its model asks for next, once somebody sends a message."""
    text = stack.scenarios.add(name, calls(call("pay", {})), "Done.", calls(call(tool, {})), "Done.")
    conversation = await client.start("till", text, conversation_id=name)
    open_gate(stack, name)
    (shown,) = (await conversation.wait(timeout_s=WITHIN_S)).pending
    receipt = await shown.resolve(Approve(scope=PAYING))
    await rests(conversation, receipt)
    return conversation


async def rests(conversation, receipt, status=Status.IDLE):
    """The state in which the conversation rests after a receipt."""
    state = await conversation.wait(after=receipt.seq, timeout_s=WITHIN_S)
    assert state.status is status
    return state


def ran(oracle, conversation):
    return [(body["kind"], body["attempt"]) for body in oracle.bodies(conversation.id)]


async def asks_and_then_runs_once(oracle, conversation, receipt):
    """After a revocation: the call waits for a person, nothing has run, and with an approval it runs."""
    state = await rests(conversation, receipt, Status.AWAITING_INPUT)
    (shown,) = state.pending
    assert (shown.kind, shown.tool) == ("approval", "pay")
    assert ran(oracle, conversation) == [("pay", 1)]
    await rests(conversation, await shown.resolve(Approve()))
    events = await oracle.at_rest(conversation.id)
    assert ran(oracle, conversation) == [("pay", 1)] * 2
    assert [event.grants for event in events if event.kind == "run_scheduled"][-1] == ()


async def frozen_before_its_claim(stack, client, traps, name):
    """A run by a grant whose worker stands still before it claims it; conversation, the grant's id and the worker's process."""
    conversation = await granted(stack, client, name, "pay")
    traps.arm(Step.RUN_1_ASKED, FREEZE)
    await conversation.send("more")
    worker = await traps.frozen(Step.RUN_1_ASKED)
    (grant,) = await conversation.grants()
    return conversation, grant.grant_id, worker


@pytest.mark.parametrize("dies", [gate("nobody"), "the worker", "the host", gate("both")])
async def test_after_a_revocation_nothing_begins_by_the_grant_whoever_dies(stack, client, store, oracle, traps, dies):
    conversation, grant_id, worker = await frozen_before_its_claim(stack, client, traps, f"revoked-{dies.replace(' ', '-')}")

    receipt = await conversation.revoke(grant_id, "no more")
    if dies in ("the host", "both"):
        await kill(await host_pid(store, conversation.id))
    if dies in ("the worker", "both"):
        await kill(worker)
    else:
        traps.thaw(worker)

    await asks_and_then_runs_once(oracle, conversation, receipt)


@pytest.mark.parametrize("step", [gate(step) if step is Step.ASK_3_WRITTEN else step for step in ASK])
async def test_an_actor_that_dies_while_it_judges_a_revocation_revokes_once(stack, client, store, oracle, traps, step):
    conversation, grant_id, worker = await frozen_before_its_claim(stack, client, traps, f"revoking-{step}")
    await at_ease(store, conversation.id)
    traps.arm(step, KILL)

    receipt = await conversation.revoke(grant_id, request_id="r-1")

    await traps.sprung(step)
    traps.thaw(worker)
    await oracle.acknowledged(conversation.id, receipt, by="r-1")
    await asks_and_then_runs_once(oracle, conversation, receipt)


@pytest.mark.gate
async def test_what_had_been_claimed_before_the_revocation_goes_on(stack, client, store, oracle, traps):
    conversation = await granted(stack, client, "claimed-then-revoked", "pay")
    (grant,) = await conversation.grants()
    traps.arm(Step.RUN_2_CLAIMED, FREEZE)
    await conversation.send("more")
    worker = await traps.frozen(Step.RUN_2_CLAIMED)

    receipt = await conversation.revoke(grant.grant_id)
    await kill(await host_pid(store, conversation.id))
    traps.thaw(worker)

    await rests(conversation, receipt)
    await oracle.at_rest(conversation.id)
    assert ran(oracle, conversation) == [("pay", 1)] * 2


@pytest.mark.parametrize("step", [gate(step) if step is Step.ASK_3_WRITTEN else step for step in ASK])
async def test_an_actor_that_dies_while_it_judges_an_approval_with_a_scope_lets_what_it_covers_run_once(
    stack, client, store, oracle, traps, step
):
    name = f"giving-{step}"
    open_gate(stack, name)
    text = stack.scenarios.add(name, calls(call("pay", {}), call("pay_once", {}), call("pay", {})), "Done.")
    conversation = await client.start("till", text, conversation_id=name)
    first, *_ = (await conversation.wait(timeout_s=WITHIN_S)).pending
    await at_ease(store, conversation.id)
    traps.arm(step, KILL)

    receipt = await client.resolve(first, Approve(scope=PAYING), decision_id="d-1")

    await traps.sprung(step)
    await rests(conversation, receipt)
    await oracle.acknowledged(conversation.id, receipt, by="d-1")
    events = await oracle.at_rest(conversation.id)
    assert sorted(ran(oracle, conversation)) == [("pay", 1), ("pay", 1), ("pay_once", 1)]
    (grant,) = await conversation.grants()
    settled = [(event.by, event.grants) for event in events if event.kind == "suspension_settled"]
    assert settled == [("approve", ()), ("grant", (grant.grant_id,)), ("grant", (grant.grant_id,))]


@pytest.mark.parametrize("step", [Step.RUN_1_ASKED, gate(Step.RUN_2_CLAIMED), Step.RUN_4_RECORDED])
@pytest.mark.parametrize("revoked", [False, True], ids=["granted", "revoked"])
async def test_a_worker_that_dies_in_a_run_by_a_grant_has_it_run_again_while_the_grant_stands(
    stack, client, store, oracle, traps, step, revoked
):
    """A run that was lost is another run: after a revocation it asks."""
    conversation = await granted(stack, client, f"lost-{step}-{revoked}", "pay_by_key")
    (grant,) = await conversation.grants()
    traps.arm(step, FREEZE)
    receipt = await conversation.send("more")
    worker = await traps.frozen(step)
    if revoked:
        receipt = await conversation.revoke(grant.grant_id)

    await kill(worker)

    asks = revoked and step is not Step.RUN_4_RECORDED
    state = await rests(conversation, receipt, Status.AWAITING_INPUT if asks else Status.IDLE)
    if asks:
        assert ran(oracle, conversation) == [("pay", 1)]
        await rests(conversation, await state.pending[0].resolve(Approve()))
    await oracle.at_rest(conversation.id)
    assert ran(oracle, conversation) == [("pay", 1), ("pay_by_key", 2 if step is Step.RUN_2_CLAIMED else 1)]
