"""A run that the rules in force do not let begin: nothing is claimed, no body runs, and the verdict is its outcome."""

import asyncio
import threading
from dataclasses import replace

import pytest
from given_worker import GivenWorker, bench_at, carried_out, runnable
from writer import DESK

from holdfast.actors.worker import asking, tool_run
from holdfast.actors.worker.claims import Claims
from holdfast.actors.worker.gate import UNREADABLE, FixedRules
from holdfast.actors.workers import NoOutcome
from holdfast.agent import Agent, Rule, Rules, Tool
from holdfast.conversation import Limits, RunFinished, RunRuled
from holdfast.conversation.terms.rule_verdict import RuleEffect, RuleVerdict
from holdfast.errors import CorruptStore, StoreUnavailable
from holdfast.persistence import PAUSE_LAG_MS, AppRecord, RunStatus, codec
from holdfast.testing import Delay, FailAfter, FailBefore, Faults, FaultyStore

RAN = []
DENIES = Rules(deny=[Rule("lookup", name="no-lookups", reason="Not today.")])
DENIED = RuleVerdict(effect=RuleEffect.DENY, rule="no-lookups", reason="Not today.")


async def lookup() -> str:
    """Look something up."""
    RAN.append("lookup")
    return "found"


@pytest.fixture(autouse=True)
def nothing_ran():
    RAN.clear()


def desk(approval="auto"):
    return Agent(name="desk", model="m", tools=[Tool(callback=lookup, approval=approval)])


async def publish(store, rules):
    record = AppRecord(app="shop:app", code="k", agents={"desk": DESK.digest}, rules={"desk": rules.digest})
    await store.put_app(record, [DESK], {rules.digest: rules.to_json()})


async def run(store, request, agent=None):
    """What a worker that has never seen the run makes of it."""
    worker = GivenWorker(store, desk() if agent is None else agent)
    return await carried_out(worker, request)


async def stands(store, request):
    return (await store.run("c-1", request.effect_id)).status


async def test_a_run_that_is_denied_is_never_claimed_and_its_body_never_runs():
    store, request = await runnable()
    await publish(store, DENIES)
    watched = FaultyStore(store, Faults())

    outcome = await run(watched, request)

    assert outcome == RunRuled(effect_id=request.effect_id, ruled=DENIED)
    assert (watched.calls["claim"], watched.calls["finish"], watched.calls["refuse"]) == (0, 0, 1)
    recorded = await store.run("c-1", request.effect_id)
    assert recorded.status is RunStatus.DONE
    assert codec.decode_outcome(recorded.outcome) == outcome
    assert RAN == []
    assert await run(store, request) is NoOutcome.NOT_MINE, "it is done"


async def test_a_deny_wins_over_an_approval_given_before():
    store, request = await runnable()
    await publish(store, DENIES)
    assert (await run(store, replace(request, decided_at=3, fulfilled=()), desk("required"))).ruled == DENIED
    assert RAN == []


async def test_a_run_that_is_asked_about_begins_once_somebody_has_decided():
    store, request = await runnable()
    await publish(store, Rules(ask=["lookup"]))

    assert (await run(store, request)).ruled == RuleVerdict(effect=RuleEffect.ASK, rule="lookup")
    assert RAN == []

    store, request = await runnable()
    await publish(store, Rules(ask=["lookup"]))
    assert (await run(store, replace(request, decided_at=3, fulfilled=()))).ok
    assert RAN == ["lookup"]


@pytest.mark.parametrize("grants", [(), ("g1",)], ids=["by its declaration", "by a grant"])
@pytest.mark.parametrize("rule", ["", "lookup"], ids=["", "by a rule"])
async def test_a_worker_that_starts_anew_asks_about_every_run_where_the_text_of_the_rules_is_gone(grants, rule):
    store, request = await runnable()
    await publish(store, Rules(deny=["lookup"], default="allow"))
    store._hashes[store._keys.meta("rules")].clear()

    assert (await run(store, replace(request, grants=grants, rule=rule))).ruled == UNREADABLE
    assert RAN == []


async def test_a_run_that_no_rule_is_about_begins():
    store, request = await runnable()
    await publish(store, Rules(deny=["delete_*"], default="allow"))
    assert isinstance(await run(store, request), RunFinished)
    assert RAN == ["lookup"]


async def test_rules_that_are_published_while_a_worker_lives_are_those_that_judge(skip):
    store, request = await runnable()
    worker = GivenWorker(store, desk())
    assert await worker._bench_at(store, worker._runtime).rules.rules("desk") == Rules()
    await publish(store, DENIES)
    skip(PAUSE_LAG_MS / 1000)

    assert (await carried_out(worker, request)).ruled == DENIED
    assert RAN == []


async def test_a_worker_that_freezes_between_its_look_at_the_rules_and_its_claim_claims_nothing():
    store, request = await runnable()
    asked, thawed = asyncio.Event(), asyncio.Event()

    class Freezing(FaultyStore):
        def __getattr__(self, name):
            if name == "claim":
                asked.set()
            return super().__getattr__(name)

    now = [await store.now()]
    store._clock = lambda: now[0]
    running = asyncio.create_task(GivenWorker(Freezing(store, Faults(claim=Delay(until=thawed))), desk())._tool_run(request))
    await asked.wait()
    await publish(store, DENIES)
    now[0] += PAUSE_LAG_MS + 1
    thawed.set()

    assert await running is NoOutcome.NOT_MINE
    assert await stands(store, request) is RunStatus.RUNNABLE
    assert RAN == []


# -- by when it must begin ----------------------------------------------------------------------------------------------------


class Claiming(FaultyStore):
    """Notes by when a claim is to be made."""

    until = ()

    async def claim(self, *args, until=None, **kwargs):
        self.until = (*self.until, until)
        return await self.inner.claim(*args, until=until, **kwargs)


SOON, LATER = 10**13, 10**14


@pytest.mark.parametrize(
    ("admitted", "in_force", "until"), [(SOON, LATER, SOON), (LATER, SOON, SOON), (None, SOON, SOON), (None, None, None)]
)
async def test_a_run_begins_by_the_earlier_time_of_both(admitted, in_force, until):
    store, request = await runnable()
    claiming = Claiming(store, Faults())

    async def admits(agent):
        return admitted

    class InForce(FixedRules):
        async def begin_by(self, agent):
            return Rules(), in_force

    bench = bench_at(claiming, rules=InForce(Rules()), admit=admits)
    inputs, claim = await tool_run.inputs_of(store, request), Claims("p-1").new(("c-1", request.effect_id))
    outcome = await tool_run.run(bench, request, inputs, agent=desk(), limits=Limits(), claim=claim)

    assert outcome.ok
    assert claiming.until == (until,)


async def test_a_function_that_takes_longer_than_rules_may_be_old_holds_no_run_for_ever(skip):
    """Its word comes first, and the rules are read after it: what was read before could not be claimed by then."""
    store, request = await runnable()
    await publish(store, Rules(allow=["lookup"]))
    loop, now = asyncio.get_running_loop(), [await store.now()]
    store._clock = lambda: now[0]

    def slowly(_arguments):
        now[0] += PAUSE_LAG_MS + 1
        loop.call_soon_threadsafe(skip, PAUSE_LAG_MS / 1000 + 0.001)
        return True

    assert (await run(store, replace(request, rule="lookup"), desk(slowly))).ok
    assert RAN == ["lookup"]


@pytest.mark.parametrize(("rules", "ran"), [(Rules(allow=["lookup"]), ["lookup"]), (Rules(allow=["look*"]), [])])
async def test_a_function_that_does_not_say_in_time_counts_as_one_that_wants_an_approval(monkeypatch, rules, ran):
    monkeypatch.setattr(asking, "FUNCTION_S", 0.05)
    store, request = await runnable()
    await publish(store, rules)
    over = threading.Event()

    try:
        outcome = await run(store, replace(request, rule="lookup"), desk(lambda _: over.wait(30)))
    finally:
        over.set()

    assert ran == RAN
    assert isinstance(outcome, RunFinished if ran else RunRuled)


async def test_a_function_that_hangs_holds_no_run_that_somebody_has_approved():
    store, request = await runnable()
    await publish(store, Rules(ask=["lookup"]))
    called = threading.Event()
    agent = desk(lambda _: called.set() or called.wait(30))

    assert (await run(store, replace(request, rule="lookup", decided_at=3, fulfilled=()), agent)).ok
    assert not called.is_set()


# -- what another has, and what cannot be told --------------------------------------------------------------------------------


async def test_a_refusal_of_a_run_that_another_has_claimed_is_not_mine():
    store, request = await runnable()
    await publish(store, DENIES)
    assert await store.claim("c-1", request.effect_id, incarnation="other.1", worker="worker-2")

    assert await run(store, request) is NoOutcome.NOT_MINE

    record = await store.run("c-1", request.effect_id)
    assert (record.status, record.incarnation) == (RunStatus.CLAIMED, "other.1")


async def test_a_refusal_of_a_run_that_is_settled_is_not_mine():
    store, request = await runnable()
    await publish(store, DENIES)
    other = RunRuled(effect_id=request.effect_id, ruled=RuleVerdict(effect=RuleEffect.ASK))
    assert await store.refuse("c-1", request.effect_id, incarnation="other.1", outcome=codec.encode(other))

    assert await run(store, request) is NoOutcome.NOT_MINE
    assert codec.decode_outcome((await store.run("c-1", request.effect_id)).outcome) == other


@pytest.mark.parametrize("fault", [FailBefore(), FailAfter()], ids=["not refused", "refused, answer lost"])
async def test_a_refusal_with_an_unknown_outcome_runs_nothing_and_is_found_or_made_anew(fault):
    store, request = await runnable()
    await publish(store, DENIES)

    with pytest.raises(StoreUnavailable):
        await run(FaultyStore(store, Faults(refuse=fault)), request)

    assert RAN == []
    if isinstance(fault, FailAfter):
        assert await stands(store, request) is RunStatus.DONE
    else:
        assert await stands(store, request) is RunStatus.RUNNABLE
        assert (await run(store, request)).ruled == DENIED


@pytest.mark.parametrize("verb", ["app", "rules"])
async def test_where_the_rules_in_force_cannot_be_told_now_nothing_is_claimed(verb):
    store, request = await runnable()
    await publish(store, Rules(allow=["lookup"]))
    watched = FaultyStore(store, Faults(**{verb: FailBefore()}))

    with pytest.raises(StoreUnavailable):
        await run(watched, request)

    assert (watched.calls["claim"], watched.calls["refuse"]) == (0, 0)
    assert await stands(store, request) is RunStatus.RUNNABLE
    assert RAN == []
    watched.policy = Faults()
    assert (await run(watched, request)).ok


async def test_where_the_rules_in_force_cannot_be_read_a_person_is_asked_and_what_was_approved_runs():
    store, request = await runnable()
    await publish(store, Rules(allow=["lookup"]))
    unreadable = FaultyStore(store, Faults(rules=FailBefore(CorruptStore("the rules are no text"))))

    assert (await run(unreadable, request)).ruled.effect is RuleEffect.ASK
    assert RAN == []

    store, request = await runnable()
    await publish(store, Rules(allow=["lookup"]))
    unreadable = FaultyStore(store, Faults(rules=FailBefore(CorruptStore("the rules are no text"))))
    assert (await run(unreadable, replace(request, decided_at=3, fulfilled=()))).ok


async def test_a_record_that_cannot_be_read_asks_about_every_run():
    store, request = await runnable()
    outcome = await run(FaultyStore(store, Faults(app=FailBefore(CorruptStore("no record")))), request)
    assert outcome.ruled.effect is RuleEffect.ASK
    assert RAN == []
