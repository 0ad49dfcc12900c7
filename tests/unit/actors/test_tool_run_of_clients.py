"""The run of a client's call, which a worker only judges: nothing is claimed, and a verdict too late is made anew."""

from dataclasses import replace

import pytest
from given_worker import GivenWorker, bench_at, carried_out
from writer import APP, DESK, Writer, begin, call, resolve, start

from holdfast.actors.activation.effect_runner import request_of
from holdfast.actors.activation.guest import Guest
from holdfast.actors.published import unsigned
from holdfast.actors.worker import tool_run
from holdfast.actors.worker.bench import at_any_time
from holdfast.actors.worker.claims import Claims
from holdfast.actors.worker.gate import FixedRules
from holdfast.actors.workers import WorkPaused
from holdfast.agent import Agent, Rule, Rules, Tool
from holdfast.conversation import Approve, Limits, RunRuled, Status, SuspensionKind, outstanding
from holdfast.conversation.terms.rule_verdict import RuleEffect, RuleVerdict
from holdfast.persistence import MemoryStore, RunStatus, Visited, codec
from holdfast.testing import Faults, FaultyStore

LETS_GO = RuleVerdict(effect=RuleEffect.ALLOW)
SOON = 10**13
PATH = {"type": "object", "properties": {"path": {"type": "string"}}}
SHARE = Tool(name="share", executor="client", approval="required", parameters=PATH, primary="path")
AGENT = Agent(name="desk", model="m", tools=[SHARE])


async def approved(rules=None):
    """A store with a client's call that was approved, its writer, and the request for its run."""
    store, rules = MemoryStore(), Rules() if rules is None else rules
    await store.put_app(
        APP.model_copy(update={"app": "shop:app", "rules": {"desk": rules.digest}}), [DESK], {rules.digest: rules.to_json()}
    )
    writer = await Writer.of(store, "c-1")
    await writer.do(start(app="shop:app"), begin(), call("share"))
    await writer.do(resolve(Approve({"path": "secret"})))
    return store, writer, asked_for(writer)


def asked_for(writer):
    (effect,) = outstanding(writer.state)
    return request_of(effect, writer.state, None)


async def run(store, request, *, rules=None, until=None, **bench):
    class InForce(FixedRules):
        async def begin_by(self, agent):
            return await super().begin_by(agent) if until is None else (Rules(), until)

    inputs, claim = await tool_run.inputs_of(store, request), Claims("p-1").new(("c-1", request.effect_id))
    bench = bench_at(store, rules=InForce(rules or Rules()), **bench)
    return await tool_run.run(bench, request, inputs, agent=AGENT, limits=Limits(), claim=claim)


async def test_the_rules_in_force_let_it_go_and_nothing_is_claimed():
    store, _, request = await approved()
    watched = FaultyStore(store, Faults())

    outcome = await run(watched, request, until=SOON)

    assert outcome == RunRuled(effect_id=request.effect_id, ruled=LETS_GO, until_ms=SOON)
    assert (watched.calls["claim"], watched.calls["finish"], watched.calls["refuse"]) == (0, 0, 1)
    recorded = await store.run("c-1", request.effect_id)
    assert (recorded.status, codec.decode_outcome(recorded.outcome)) == (RunStatus.DONE, outcome)


@pytest.mark.parametrize("admitted", [SOON, None])
async def test_it_is_handed_over_by_the_earlier_time_of_rules_and_pauses(admitted):
    async def admits(agent):
        return admitted

    store, _, request = await approved()
    outcome = await run(store, request, until=SOON + 1, admit=admits)
    assert outcome.until_ms == (admitted or SOON + 1)


async def test_a_rule_that_was_published_meanwhile_denies_it():
    store, _, request = await approved(Rules(deny=[Rule("share", name="no-sharing", reason="Not today.")]))
    outcome = await carried_out(GivenWorker(store, AGENT), replace(request, code="k"))
    assert outcome.ruled == RuleVerdict(effect=RuleEffect.DENY, rule="no-sharing", reason="Not today.")


async def test_the_edited_arguments_are_judged():
    store, _, request = await approved()
    outcome = await run(store, request, rules=Rules(deny=["share(secret)"], default="allow"))
    assert outcome.ruled == RuleVerdict(effect=RuleEffect.DENY, rule="share(secret)")


async def test_new_work_that_is_paused_waits_for_its_end():
    async def paused(agent):
        raise WorkPaused(agent)

    store, _, request = await approved()
    with pytest.raises(WorkPaused):
        await run(store, request, admit=paused)
    assert (await store.run("c-1", request.effect_id)).status is RunStatus.RUNNABLE


# -- what the next writer makes of it ----------------------------------------------------------------------------------------


def guest_of(store):
    return Guest(store, admit=at_any_time, published=lambda app, agent: unsigned(store, app, agent))


async def left(store, writer):
    await store.release("c-1", writer.token, look_ms=60_000)
    kept, state = store._seen("c-1"), await store.load("c-1")
    return Visited(await store.now(), state, kept.append_id, kept.tail_bytes)


async def test_a_verdict_that_comes_in_time_hands_the_call_over():
    store, writer, request = await approved()
    outcome = RunRuled(effect_id=request.effect_id, ruled=LETS_GO, until_ms=SOON)
    await guest_of(store).judged("c-1", await left(store, writer), outcome)
    (view,) = await store.pending_of("c-1")
    assert (view.kind, view.arguments) == (SuspensionKind.CLIENT_EXEC, {"path": "secret"})


async def test_a_verdict_whose_write_comes_too_late_is_asked_for_again():
    """The writer froze between its judgement and its write: by then a rule may forbid what it was to hand over."""
    store, writer, request = await approved()
    visited = await left(store, writer)
    outcome = RunRuled(effect_id=request.effect_id, ruled=LETS_GO, until_ms=visited.now + 1000)
    store._clock = lambda: visited.now + 1000

    wrote = await guest_of(store).judged("c-1", visited, outcome)

    assert await store.pending_of("c-1") == []
    assert [one.attempt for one in wrote.requests()] == [2]
    assert (await store.load("c-1")).status is Status.EXECUTING_TOOLS


async def test_a_guest_that_carries_the_run_on_hands_the_call_over_itself():
    store, writer, request = await approved()
    await left(store, writer)
    watched = FaultyStore(store, Faults())

    await run(watched, replace(request, waits=False), guest=guest_of(store))

    assert (watched.calls["refuse"], await store.run("c-1", request.effect_id)) == (0, None)
    assert (await store.load("c-1")).status is Status.AWAITING_INPUT
    assert (await store.attention(9)).conversation_ids == []


async def test_a_guests_run_of_a_conversation_that_an_actor_has_is_recorded_for_it():
    store, _, request = await approved()
    await run(store, replace(request, waits=False), guest=guest_of(store))
    assert (await store.run("c-1", request.effect_id)).status is RunStatus.DONE
