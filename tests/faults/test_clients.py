"""Calls that clients carry out: an actor, a worker, a client, a server or Redis dies or freezes at each step of it.

A claim, what is given back, an answer, the check before a call is handed over, and the look that finds a client gone.
"""

import asyncio
import os
import signal

import httpx
import pytest
from at_clients import Programs, Waiting, present, taken_over
from fault_stack import WITHIN_S, at_ease, host_pid, trapped_stack, true
from ruling import under
from server_process import serving
from stack_fixture import kill

from holdfast.actors.steps import Step
from holdfast.client import AsyncClient, StaleCall, StaleReason, Status
from holdfast.errors import StoreUnavailable
from holdfast.testing import call, calls

ASK = [step for step in Step if step.startswith("ask-")]
APPEND = [Step.ASK_2_JUDGED, Step.ASK_3_WRITTEN]
ACTIVATE = [step for step in Step if step.startswith("activate-")]
PASSIVATE = [step for step in Step if step.startswith("passivate-")]
KILL, FREEZE = signal.SIGKILL, signal.SIGSTOP
LEASE_S = 3
AWAY_S = 30
"""For how many seconds Redis is away: clients that were present are not any more, and their claims are over."""


@pytest.fixture(scope="module")
def trapped(server):
    with trapped_stack(HOLDFAST_REDIS_URL=server.url) as found:
        yield found


WAYS = {"claim": (), "give_back": ("claim",), "answer": ("claim",)}
"""What a client asks for, and what comes before it."""


async def done(waiting, way, given):
    """Check that what a client asked for was done once, and have the call answered; the log."""
    assert await getattr(waiting, way)() == given.model_copy(update={"duplicate": True})
    if way == "give_back":
        assert (await waiting.shown()).claimed is None
        assert (await waiting.claim("tab-2", key="y-1")).attempt == 2
    by = "tab-2" if way == "give_back" else "tab-1"
    if way != "answer":
        assert (await waiting.shown()).claimed.client_id == by
        await waiting.answer(by, key="y-2")
    events = await waiting.ends(result=f'"{by}"')
    await waiting.oracle.acknowledged(waiting.name, given, by=waiting.key)
    return events


@pytest.fixture
def waiting(stack, client, oracle, request):
    """The conversation of this test."""
    name = f"w{request.node.name[-60:]}".translate({ord("["): "-", ord("]"): None})
    return Waiting(stack, client, oracle, name)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("step", ASK)
async def test_an_actor_that_dies_while_it_judges_what_a_client_asks_does_it_once(waiting, store, traps, step, way):
    await waiting.begin(*WAYS[way])
    await at_ease(store, waiting.name)
    traps.arm(step, KILL)
    given = await getattr(waiting, way)()
    await traps.sprung(step)
    await done(waiting, way, given)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("step", APPEND)
async def test_an_actor_that_thaws_after_another_has_judged_it_changes_nothing(waiting, store, traps, step, way):
    await waiting.begin(*WAYS[way])
    await at_ease(store, waiting.name)
    traps.arm(step, FREEZE)
    given = asyncio.create_task(getattr(waiting, way)())
    pid = await traps.frozen(step)
    before = await done(waiting, way, await given)
    traps.thaw(pid)
    await at_ease(store)
    assert await waiting.oracle.events(waiting.name) == before


@pytest.mark.parametrize("step", ASK)
async def test_of_two_clients_that_claim_at_once_one_acts_though_the_actor_dies(waiting, store, traps, step):
    await waiting.begin()
    await at_ease(store, waiting.name)
    traps.arm(step, KILL)
    clients = ["tab-1", "tab-2"]
    claims = await asyncio.gather(*(waiting.claim(one, key=f"x-{one}") for one in clients), return_exceptions=True)
    await traps.sprung(step)
    await one_has_it(waiting, clients, claims)


async def one_has_it(waiting, clients, claims):
    """Check that one of these two clients was given the call, which it then answers, and that the other one is told so."""
    (by,) = [one for one, said in zip(clients, claims, strict=True) if not isinstance(said, BaseException)]
    (stale,) = [said for said in claims if isinstance(said, StaleCall)]
    assert stale.reason is StaleReason.CLAIMED
    (other,) = set(clients) - {by}
    with pytest.raises(StaleCall, match="claimed"):
        await waiting.answer(other)
    await waiting.answer(by)
    await waiting.ends(result=f'"{by}"')


# -- handing over -----------------------------------------------------------------------------------------------------------


async def carried_out(waiting):
    """Have the call carried out by a client, once it is handed over; the log."""
    await waiting.handed_over()
    assert (await waiting.claim(key="y-0")).attempt == 1, "nothing has run yet"
    await waiting.answer(key="y-1")
    events = await waiting.ends(result='"tab-1"')
    handed = [event for event in events if event.kind == "call_suspended" and event.suspension_kind == "client_exec"]
    assert len(handed) == 1
    return events


@pytest.mark.parametrize("step", ASK)
async def test_an_actor_that_dies_while_it_judges_the_approval_of_a_clients_call_hands_it_over_once(
    waiting, store, traps, step
):
    waiting.tool = "camera"
    await waiting.begin()
    await at_ease(store, waiting.name)
    traps.arm(step, KILL)
    given = await waiting.approve()
    await traps.sprung(step)
    await carried_out(waiting)
    await waiting.oracle.acknowledged(waiting.name, given, by=waiting.key)


async def asked_at_a_worker(waiting, traps):
    """Have the call approved; the worker that is asked about it, which stands still."""
    waiting.tool = "camera"
    await waiting.begin()
    traps.arm(Step.RUN_1_ASKED, FREEZE)
    await waiting.approve()
    return await traps.frozen(Step.RUN_1_ASKED)


@pytest.mark.parametrize("step", [Step.RUN_1_ASKED, Step.RUN_4_RECORDED])
async def test_a_worker_that_dies_while_it_judges_a_clients_call_has_another_judge_it(waiting, traps, step):
    waiting.tool = "camera"
    await waiting.begin()
    traps.arm(step, KILL)
    await waiting.approve()
    await traps.sprung(step)
    events = await carried_out(waiting)
    assert "lost" not in [getattr(event, "suspension_kind", None) for event in events]


@pytest.mark.parametrize("step", ASK)
async def test_an_actor_that_dies_while_it_hands_a_call_over_hands_it_over_once(waiting, store, traps, step):
    worker = await asked_at_a_worker(waiting, traps)
    await at_ease(store, waiting.name)
    traps.arm(step, KILL)
    traps.thaw(worker)
    await traps.sprung(step)
    await carried_out(waiting)


async def kept(stack, client, oracle, name):
    """A call of the agent that stands under rules, as it waits for its approval."""
    waiting = Waiting(stack, client, oracle, name)
    text = stack.scenarios.add(name, calls(call("camera", {"mode": "wide"})), "Done.")
    waiting.conversation = await client.start("keeper", text, conversation_id=name)
    (waiting.call,) = (await waiting.conversation.wait(timeout_s=WITHIN_S)).pending
    return waiting


DENIES = {"deny": [{"pattern": "camera", "name": "private"}]}


async def denied(waiting):
    """Check that the call was denied and no client was given it; the log."""
    events = await waiting.ends(result="denied by the rule 'private'")
    assert not [event for event in events if getattr(event, "suspension_kind", None) == "client_exec"]
    return events


@pytest.mark.parametrize("dies", ["nobody", "the worker", "the host"])
async def test_a_deny_that_is_published_before_a_worker_judges_wins_whoever_dies(stack, store, oracle, traps, dies):
    async with under(stack) as client:
        waiting = await kept(stack, client, oracle, f"denied-{dies.replace(' ', '-')}")
        traps.arm(Step.RUN_1_ASKED, FREEZE)
        await waiting.approve()
        worker = await traps.frozen(Step.RUN_1_ASKED)
        async with under(stack, **DENIES):
            if dies == "the host":
                await kill(await host_pid(store, waiting.name))
            if dies == "the worker":
                await kill(worker)
            else:
                traps.thaw(worker)
            await denied(waiting)


@pytest.mark.parametrize("number", [KILL, FREEZE])
async def test_a_deny_that_is_published_while_the_hand_over_is_written_wins_over_the_verdict_of_before(
    stack, store, oracle, traps, number
):
    """The actor has judged the worker's verdict, and stands still or dies before it has written that."""
    async with under(stack) as client:
        waiting = await kept(stack, client, oracle, f"late-{number.name}")
        traps.arm(Step.RUN_1_ASKED, FREEZE)
        await waiting.approve()
        worker = await traps.frozen(Step.RUN_1_ASKED)
        traps.arm(Step.ASK_2_JUDGED, FREEZE)
        traps.thaw(worker)
        actor = await traps.frozen(Step.ASK_2_JUDGED)
        async with under(stack, **DENIES):
            if number == KILL:
                await kill(actor)
            else:
                traps.thaw(actor)
            await denied(waiting)
            await at_ease(store)


# -- a client that is gone --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", [*ACTIVATE, *ASK])
async def test_an_actor_that_dies_as_it_finds_a_client_gone_gives_its_call_back_once(waiting, store, traps, step):
    async with present(waiting):
        await at_ease(store)
        traps.arm(step, KILL)
    await traps.sprung(step)
    await taken_over(waiting)


@pytest.mark.parametrize("step", APPEND)
async def test_an_actor_that_thaws_after_another_has_given_a_call_back_changes_nothing(waiting, store, traps, step):
    async with present(waiting):
        await at_ease(store)
        traps.arm(step, FREEZE)
    pid = await traps.frozen(step)
    before = await taken_over(waiting)
    traps.thaw(pid)
    await at_ease(store)
    assert await waiting.oracle.events(waiting.name) == before


async def test_a_call_that_may_have_taken_effect_once_ends_with_an_error_though_the_actor_dies(waiting, store, traps):
    async with present(waiting, tool="stamp"):
        await at_ease(store)
        traps.arm(Step.ASK_3_WRITTEN, KILL)
    await traps.sprung(Step.ASK_3_WRITTEN)
    events = await waiting.ends(result="outcome unknown")
    assert [event.by for event in events if event.kind == "call_given_back"] == ["loss"]


# -- clients ----------------------------------------------------------------------------------------------------------------


@pytest.fixture
def programs(waiting):
    found = Programs(waiting)
    yield found
    found.close()


async def test_a_client_that_is_killed_in_its_handler_is_followed_by_another_one(waiting, programs):
    await waiting.begin()
    first = await programs.start("tab-1")
    assert await programs.handles(1) == [("tab-1", 1)]
    await programs.start("tab-2")
    first.kill()
    assert await programs.handles(2) == [("tab-1", 1), ("tab-2", 2)]
    programs.open("tab-2")
    await waiting.ends(result='"tab-2"')


async def test_a_client_that_thaws_after_another_has_its_call_changes_nothing(waiting, programs):
    await waiting.begin()
    first = await programs.start("tab-1")
    await programs.handles(1)
    await programs.start("tab-2")
    first.send_signal(FREEZE)
    assert await programs.handles(2) == [("tab-1", 1), ("tab-2", 2)]
    programs.open("tab-1")
    first.send_signal(signal.SIGCONT)
    programs.open("tab-2")
    await waiting.ends(result='"tab-2"')
    assert len(waiting.oracle.handled(waiting.name)) == 2


async def test_a_client_that_is_started_anew_with_its_id_takes_its_call_up_as_another_attempt(waiting, programs):
    await waiting.begin()
    first = await programs.start("tab-1")
    await programs.handles(1)
    first.kill()
    await programs.start("tab-1")
    assert await programs.handles(2) == [("tab-1", 1), ("tab-1", 2)]
    programs.open("tab-1")
    events = await waiting.ends(result='"tab-1"')
    assert [event.by for event in events if event.kind == "call_given_back"] == ["client"]


async def test_two_clients_carry_each_of_many_calls_out_once_though_actors_die(stack, client, store, oracle, waiting, programs):
    """Both claim all of them; whoever is late does nothing."""
    text = stack.scenarios.add(waiting.name, calls(*[call("locate", {})] * 12), "Done.")
    for one in ("tab-1", "tab-2"):
        programs.open(one)
    waiting.conversation = await client.start("counter", text, conversation_id=waiting.name)
    await waiting.conversation.wait(timeout_s=WITHIN_S)
    clients = [asyncio.create_task(programs.start(one)) for one in ("tab-1", "tab-2")]
    await asyncio.gather(*clients)
    await kill(await host_pid(store, waiting.name))
    state = await waiting.conversation.wait(timeout_s=WITHIN_S)
    while state.status is not Status.IDLE:
        state = await waiting.conversation.wait(after=state.seq, timeout_s=WITHIN_S)
    await oracle.at_rest(waiting.name)
    assert len(oracle.handled(waiting.name)) == 12


@pytest.mark.parametrize("number", [KILL, signal.SIGTERM], ids=["killed", "drained"])
async def test_a_client_whose_server_ends_stays_present_at_the_next_one_and_acts_once(waiting, store, programs, number):
    await waiting.begin()
    async with serving(waiting.stack) as server:
        await programs.start("tab-1", server.url)
        await programs.handles(1)
        (before,) = await store.present(waiting.name)
        server.end(number)
        (left,) = await store.present(waiting.name)
        assert left.until >= before.until, "a server that ends detaches nobody"
        async with serving(waiting.stack, "--port", str(httpx.URL(server.url).port)):

            async def renewed():
                return (await store.present(waiting.name))[0].until > left.until

            await true(renewed, "that the client is present at the next server")
            programs.open("tab-1")
            events = await waiting.ends(result='"tab-1"')
    assert "call_given_back" not in [event.kind for event in events]
    assert len(waiting.oracle.handled(waiting.name)) == 1


# -- actors and servers that leave -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("thaws", ["promptly", "later"])
@pytest.mark.parametrize("step", PASSIVATE)
async def test_a_claim_that_arrives_while_an_actor_leaves_is_made_once(waiting, store, traps, step, thaws):
    """The actor stands still, and goes on as the claim arrives, or once another one has judged that."""
    await at_ease(store)
    await waiting.begin()
    traps.arm(step, FREEZE)
    pid = await traps.frozen(step)
    claim = asyncio.create_task(waiting.claim())
    if thaws == "later":
        await claim
    traps.thaw(pid)
    assert (await claim).attempt == 1
    await done(waiting, "claim", await claim)


async def takes_nothing(server):
    """Whether a server takes no further request."""
    try:
        return (await server.http.get("/ready")).status_code == httpx.codes.SERVICE_UNAVAILABLE
    except httpx.TransportError:
        return True


@pytest.mark.parametrize("number", [KILL, signal.SIGTERM], ids=["killed", "drained"])
async def test_of_a_claim_under_way_and_one_that_arrives_while_their_server_ends_one_is_made(waiting, store, traps, number):
    await waiting.begin()
    await at_ease(store, waiting.name)
    clients = ["tab-1", "tab-2"]
    async with serving(waiting.stack) as server, AsyncClient.connect(url=server.url, timeout_s=WITHIN_S) as through:
        waiting.conversation = through.conversation(waiting.name)
        await waiting.shown()
        traps.arm(Step.ASK_2_JUDGED, FREEZE)
        claims = [asyncio.create_task(waiting.claim("tab-1", key="x-tab-1"))]
        pid = await traps.frozen(Step.ASK_2_JUDGED)
        ending = asyncio.create_task(asyncio.to_thread(server.end, number))
        await true(lambda: takes_nothing(server), "that the server takes nothing more")
        claims.append(asyncio.create_task(waiting.claim("tab-2", key="x-tab-2")))
        traps.thaw(pid)
        await ending
        async with serving(waiting.stack, "--port", str(httpx.URL(server.url).port)):
            await one_has_it(waiting, clients, await asyncio.gather(*claims, return_exceptions=True))


# -- Redis ------------------------------------------------------------------------------------------------------------------


async def of_each_way(stack, client, oracle, prefix):
    found = {}
    for way, before in WAYS.items():
        found[way] = await Waiting(stack, client, oracle, f"{prefix}-{way}").begin(*before)
    return found


async def test_what_clients_ask_while_redis_stands_still_is_done_once(stack, client, oracle, server):
    found = await of_each_way(stack, client, oracle, "still")
    os.kill(server._process.pid, FREEZE)
    tasks = [asyncio.create_task(getattr(one, way)()) for way, one in found.items()]
    await asyncio.sleep(2 * LEASE_S)
    os.kill(server._process.pid, signal.SIGCONT)
    for (way, one), given in zip(found.items(), await asyncio.gather(*tasks), strict=True):
        await done(one, way, given)


async def test_what_was_claimed_as_redis_died_is_claimed_for_nobody_else(waiting, programs, server):
    await waiting.begin()
    await programs.start("tab-1")
    await programs.handles(1)
    await programs.start("tab-2")
    server.kill()
    server.start()
    with pytest.raises(StaleCall, match="claimed"):
        await waiting.claim("tab-3")
    programs.open("tab-1")
    await waiting.ends(result='"tab-1"')
    assert len(waiting.oracle.handled(waiting.name)) == 1


@pytest.mark.parametrize("step", APPEND)
async def test_redis_dies_before_and_after_a_clients_request_is_written(stack, client, store, oracle, server, traps, step):
    found = await of_each_way(stack, client, oracle, f"died-{step}")
    await at_ease(store, *[one.name for one in found.values()])
    traps.arm(step, FREEZE)
    tasks = [asyncio.create_task(getattr(one, way)()) for way, one in found.items()]
    pid = await traps.frozen(step)
    server.kill()
    traps.thaw(pid)
    server.start()
    for (way, one), given in zip(found.items(), await asyncio.gather(*tasks), strict=True):
        await done(one, way, given)


@pytest.mark.parametrize("how", ["killed", "still"])
async def test_a_client_that_is_attached_carries_on_after_redis_was_away_for_long(
    stack, client, store, oracle, server, waiting, programs, how
):
    """Its handler ends meanwhile; the call may be handed to it once more, since it counts as gone by then."""
    call_it = calls(call("locate", {}))
    text = stack.scenarios.add(waiting.name, call_it, call_it, "Done.")
    waiting.conversation = await client.start("counter", text, conversation_id=waiting.name)
    process = await programs.start("tab-1")
    assert await programs.handles(1) == [("tab-1", 1)]
    if how == "killed":
        server.kill()
    else:
        os.kill(server._process.pid, FREEZE)
    programs.open("tab-1")
    await asyncio.sleep(AWAY_S)
    if how == "killed":
        server.start()
    else:
        os.kill(server._process.pid, signal.SIGCONT)

    async def replied():
        return (await waiting.conversation.state()).reply == "Done."

    await true(replied, "that both calls are answered")
    events = await oracle.at_rest(waiting.name)
    results = [event.content for event in events if event.kind == "call_resolved"]
    assert ['"tab-1"' in content for content in results] == [True, True]
    first, second = [one.tool_call_id for event in events if event.kind == "model_answered" for one in event.calls]
    handled = [one["key"] for one in oracle.handled(waiting.name)]
    assert handled in ([first, second], [first, first, second])

    async def is_present():
        try:
            (present,) = await store.present(waiting.name)
        except StoreUnavailable:  # clients are given time to renew
            return False
        return present.until > await store.now()

    await true(is_present, "that the client is present again")
    assert process.poll() is None
