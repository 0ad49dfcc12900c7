"""A run by grants: it is claimed in the epoch in which they stand and until the first ends; else the machine is asked again."""

import asyncio
from dataclasses import replace

import pytest
from given_worker import GivenWorker, carried_out
from writer import DESK, Writer, begin, call, finish, resolve, revoke, start

from holdfast.actors.worker.gate import UNREADABLE
from holdfast.actors.workers import NoOutcome, RunRequest
from holdfast.agent import Agent, Rule, Rules, Tool, ToolContext
from holdfast.conversation import Approve, Principal, Proof, RunFinished, RunRuled, outstanding
from holdfast.conversation.terms.grants import Scope
from holdfast.conversation.terms.rule_verdict import RuleEffect, RuleVerdict
from holdfast.errors import CorruptStore, StoreUnavailable
from holdfast.persistence import AppRecord, MemoryStore, RunStatus, codec
from holdfast.testing import Delay, FailAfter, FailBefore, Faults, FaultyStore

RAN = []
REFUNDS = Scope("tool", "refund", level="execute")
ENDED = RuleVerdict(effect=RuleEffect.ASK, reason="the grant by which it was to run has ended")


async def refund() -> str:
    """Give money back."""
    RAN.append("refund")
    return "paid"


@pytest.fixture(autouse=True)
def nothing_ran():
    RAN.clear()


def desk(approval="required"):
    return Agent(name="desk", model="m", tools=[Tool(callback=refund, approval=approval)])


async def published(store, rules=None):
    rules = Rules() if rules is None else rules
    record = AppRecord(app="shop:app", code="k", agents={"desk": DESK.digest}, rules={"desk": rules.digest})
    await store.put_app(record, [DESK], {rules.digest: rules.to_json()})


async def granted(*, rules=None, ends_s=None, now=None, by=None):
    """The writer of a conversation in which a grant has let a refund run, the store, and the request for that run."""
    store = MemoryStore()
    if now is not None:
        now[0] = await store.now()
        store._clock = lambda: now[0]
    await published(store, rules)
    writer = await Writer.of(store, "c-1")
    approve = resolve(Approve(scope=Scope("tool", "refund", level="execute", ends_s=ends_s)))
    await writer.do(start("hello"), begin(), call("refund"))
    await writer.do(lambda state: approve(state).model_copy(update={"principal": by}), finish(), call("refund"))
    return writer, store, asked_for(writer)


def asked_for(writer):
    """The request for the outstanding run, as the conversation's actor makes it."""
    (effect,) = outstanding(writer.state)
    return RunRequest(
        code="k",
        conversation_id="c-1",
        agent="desk",
        spec_digest=effect.spec_digest,
        effect_id=effect.effect_id,
        turn_id=writer.state.turn.turn_id,
        tool_call_id=effect.tool_call_id,
        tool=effect.tool,
        attempt=effect.attempt,
        arguments_at=effect.arguments_at,
        message_seq=effect.message_seq,
        resumed=effect.resumed,
        decided_at=effect.decided_at,
        fulfilled=effect.fulfilled,
        passed_at=effect.passed_at,
        rule=effect.rule,
        grants=effect.grants,
        grants_epoch=effect.grants_epoch,
        grants_until=effect.grants_until,
        granted_at=effect.granted_at,
    )


async def revoked(writer):
    (grant,) = writer.state.grants
    await writer.do(revoke(grant.grant_id))


async def run(store, request, agent=None):
    """What a worker that has never seen the run makes of it."""
    worker = GivenWorker(store, desk() if agent is None else agent)
    return await carried_out(worker, request)


async def stands(store, request):
    return (await store.run("c-1", request.effect_id)).status


class Claiming(FaultyStore):
    """Notes how claims are made."""

    asked = ()

    async def claim(self, *args, **kwargs):
        self.asked = (*self.asked, (kwargs["epoch"], kwargs["until"]))
        return await self.inner.claim(*args, **kwargs)


# -- what is claimed ----------------------------------------------------------------------------------------------------------


async def test_a_run_by_grants_is_claimed_in_its_epoch_and_until_the_first_of_them_ends():
    writer, store, request = await granted(ends_s=0.001, now=[0])
    assert request.grants == (writer.state.grants[0].grant_id,)
    claiming = Claiming(store, Faults())

    assert (await run(claiming, request)).ok

    assert claiming.asked == ((0, writer.state.grants[0].ends_at),)
    assert RAN == ["refund"]


async def test_a_run_that_needs_no_grant_is_claimed_in_any_epoch():
    writer, store, request = await granted()
    await revoked(writer)
    claiming = Claiming(store, Faults())

    assert (await run(claiming, replace(request, grants=(), grants_epoch=0, grants_until=None, decided_at=3))).ok
    assert [epoch for epoch, _ in claiming.asked] == [None]


async def test_a_run_whose_grant_was_revoked_never_begins_and_says_so():
    writer, store, request = await granted()
    await revoked(writer)
    watched = FaultyStore(store, Faults())

    outcome = await run(watched, request)

    assert outcome == RunRuled(effect_id=request.effect_id, ruled=ENDED)
    assert (watched.calls["claim"], watched.calls["refuse"], watched.calls["finish"]) == (1, 1, 0)
    recorded = await store.run("c-1", request.effect_id)
    assert (recorded.status, codec.decode_outcome(recorded.outcome)) == (RunStatus.DONE, outcome)
    assert RAN == []
    assert await run(store, request) is NoOutcome.NOT_MINE, "it is done"


async def test_a_run_that_is_asked_for_after_the_revocation_never_begins_either():
    """An actor that has come up since knows the epoch of now, which is not that of the grant."""
    writer, store, before = await granted()
    await revoked(writer)
    revived = await writer.succeeded()
    request = asked_for(revived)
    assert (request.grants, request.effect_id) == (before.grants, before.effect_id)

    assert await run(store, request) == RunRuled(effect_id=request.effect_id, ruled=ENDED)
    assert RAN == []


async def test_what_the_machine_makes_of_a_run_that_could_not_be_claimed_is_a_question_to_a_person():
    writer, store, request = await granted()
    await revoked(writer)
    outcome = await run(store, request)

    await writer.do(lambda _: outcome)
    (waiting,) = [one for one in writer.state.calls if one.suspension is not None]
    assert waiting.suspension.kind == "approval"
    await writer.do(resolve(Approve()))
    approved = asked_for(writer)
    assert (approved.grants, approved.attempt - approved.resumed) == ((), 1)

    assert isinstance(await run(store, approved), RunFinished)
    assert RAN == ["refund"]


@pytest.mark.parametrize("later", [0, 1])
async def test_a_run_whose_grant_has_ended_never_begins(later):
    now = [0]
    _, store, request = await granted(ends_s=60, now=now)
    now[0] = request.grants_until + later

    assert (await run(store, request)).ruled == ENDED
    assert RAN == []


async def test_a_run_that_a_frozen_worker_asks_for_again_after_the_revocation_never_begins():
    writer, store, request = await granted()
    asked, thawed = asyncio.Event(), asyncio.Event()

    class Freezing(FaultyStore):
        def __getattr__(self, name):
            if name == "claim":
                asked.set()
            return super().__getattr__(name)

    worker = GivenWorker(Freezing(store, Faults(claim=Delay(until=thawed))), desk())
    running = asyncio.create_task(carried_out(worker, request))
    await asked.wait()
    await revoked(writer)
    thawed.set()

    assert (await running).ruled == ENDED
    assert RAN == []


# -- what another has, and what cannot be told --------------------------------------------------------------------------------


@pytest.mark.parametrize("since", [False, True], ids=["grant in force", "revoked since"])
async def test_a_run_that_another_worker_has_claimed_is_not_mine(since):
    writer, store, request = await granted()
    assert await store.claim("c-1", request.effect_id, incarnation="other.1", worker="worker-2", epoch=0)
    if since:
        await revoked(writer)

    assert await run(store, request) is NoOutcome.NOT_MINE

    record = await store.run("c-1", request.effect_id)
    assert (record.status, record.incarnation) == (RunStatus.CLAIMED, "other.1")
    assert RAN == []


@pytest.mark.parametrize("fault", [FailBefore(), FailAfter()], ids=["not refused", "refused, answer lost"])
async def test_a_refusal_with_an_unknown_outcome_runs_nothing_and_is_found_or_made_anew(fault):
    writer, store, request = await granted()
    await revoked(writer)

    with pytest.raises(StoreUnavailable):
        await run(FaultyStore(store, Faults(refuse=fault)), request)

    if isinstance(fault, FailAfter):
        assert await stands(store, request) is RunStatus.DONE
    else:
        assert await stands(store, request) is RunStatus.RUNNABLE
        assert (await run(store, request)).ruled == ENDED
    assert RAN == []


# -- who let it run -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("by", [Principal("ana", roles=("finance",), proof=Proof.KEY), None])
async def test_a_body_that_runs_by_a_grant_is_told_who_gave_it(by):
    _, store, request = await granted(by=by)
    told = []

    async def refund(context: ToolContext):
        told.append((context.approver, context.decision))

    assert (await run(store, request, Agent(name="desk", model="m", tools=[Tool(callback=refund, approval="required")]))).ok

    assert told == [(by, None)]


# -- grants and rules ---------------------------------------------------------------------------------------------------------


async def test_a_rule_that_asks_is_satisfied_by_a_grant():
    _, store, request = await granted(rules=Rules(ask=["refund"]))
    assert (await run(store, request)).ok
    assert RAN == ["refund"]


async def test_a_rule_that_denies_wins_over_a_grant():
    _, store, request = await granted(rules=Rules(deny=[Rule("refund", name="no-refunds", reason="Not today.")]))
    watched = FaultyStore(store, Faults())

    outcome = await run(watched, request)

    assert outcome.ruled == RuleVerdict(effect=RuleEffect.DENY, rule="no-refunds", reason="Not today.")
    assert watched.calls["claim"] == 0
    assert RAN == []


async def test_where_the_rules_cannot_be_read_a_person_is_asked_whatever_grant_stands():
    _, store, request = await granted()
    unreadable = FaultyStore(store, Faults(rules=FailBefore(CorruptStore("the rules are no text"))))
    assert (await run(unreadable, request)).ruled == UNREADABLE
    assert RAN == []


async def test_a_function_that_wants_an_approval_is_not_asked_again_about_a_run_by_a_grant():
    called = []
    _, store, request = await granted(rules=Rules(ask=["refund"]))

    assert (await run(store, replace(request, rule="refund"), desk(lambda _: called.append(1) or True))).ok
    assert (called, RAN) == ([], ["refund"])
