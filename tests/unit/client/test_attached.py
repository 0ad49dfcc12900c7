"""A client that carries out calls: what it claims, answers, gives back and leaves alone, over the stack and over HTTP."""

import asyncio
import threading
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from asgi_transport import AsgiTransport
from claiming import claim, give_back
from stores import WithActors
from writer import Writer, begin, call, cancel, start

from holdfast.client import (
    Answer,
    AsyncClient,
    ConversationNotFound,
    Fail,
    InvalidInput,
    OnDetach,
    OutcomeUnknown,
    StaleCall,
    TooManyClients,
    attached,
    client_work,
    handlers,
    stack_presence,
    verbs,
)
from holdfast.client.http_address import Address
from holdfast.client.http_gateway import HttpGateway
from holdfast.client.stack_gateway import StackGateway
from holdfast.conversation import Claim, GiveBack, Present, Principal, Resolve
from holdfast.conversation.terms import presence
from holdfast.persistence import MemoryStore
from holdfast.server import Authentication, create_app

ME = Principal("local")
"""Whom a loopback server takes its callers for."""


@pytest.fixture
def store():
    return MemoryStore()


@pytest.fixture
def stack(store):
    return WithActors(store)


@pytest.fixture
async def writer(store, stack):
    """The writer of a conversation in which two calls wait for a client."""
    writer = stack.writers["c-1"] = await Writer.of(store, "c-1")
    await writer.do(start(), begin(), call(("locate", '{"precise":true}'), ("locate", "{}")))
    return writer


@pytest.fixture(params=["stack", "http"])
async def client(stack, request):
    over_stack = AsyncClient(StackGateway(stack, timeout_s=30)).acting_as(ME)
    if request.param == "stack":
        yield over_stack
        await over_stack.aclose()
        return
    app = create_app(over_stack, authentication=Authentication(anyone=True))
    address = Address.of("http://127.0.0.1:1", None, plain_http=None)
    yield AsyncClient(HttpGateway(address, timeout_s=30, transport=AsgiTransport(app)))
    await over_stack.aclose()


@pytest.fixture
def conversation(client, writer):
    return client.conversation("c-1")


@asynccontextmanager
async def serving(conversation, handlers, **how):
    """A client that is attached, and carries calls out meanwhile."""
    async with conversation.attach(handlers, **how) as attached:
        work = asyncio.create_task(attached.serve())
        try:
            yield attached
        finally:
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)


async def until(condition, within_s=20):
    async with asyncio.timeout(within_s):
        while not (found := condition()):
            await asyncio.sleep(0.005)
    return found


def given(stack, kind):
    return [command for command in stack.delivered if isinstance(command, kind)]


def results(writer):
    return [event for event in writer.events if event.kind == "call_resolved"]


def results_due(writer):
    return [one.tool_call_id for one in writer.state.calls]


async def present(store):
    """The clients that are present."""
    now = await store.now()
    return [one.client_id for one in await store.present("c-1") if one.until > now]


async def lapses(store, client_id):
    """Until when a client is present."""
    return next(one.until for one in await store.present("c-1") if one.client_id == client_id)


async def left(store, number=0):
    """Wait until so many clients are present."""
    async with asyncio.timeout(20):
        while len(await present(store)) != number:
            await asyncio.sleep(0.005)


async def test_each_call_of_its_tool_is_claimed_carried_out_and_answered_as_the_client(conversation, stack, writer):
    seen = []

    async def locate(arguments, context):
        seen.append((arguments, context.attempt, context.call.tool, context.cancelled))
        return {"city": "Bonn"}

    async with serving(conversation, {"locate": locate}, client_id="phone"):
        await until(lambda: len(results(writer)) == 2)

    assert sorted(seen, key=str) == [({"precise": True}, 1, "locate", False), ({}, 1, "locate", False)]
    assert [(one.client_id, one.on_detach) for one in given(stack, Claim)] == [("phone", OnDetach.KEEP)] * 2
    assert [one.client_id for one in given(stack, Resolve)] == ["phone"] * 2
    assert '{"city":"Bonn"}' in results(writer)[0].content
    assert results(writer)[0].untrusted
    assert given(stack, GiveBack) == []


async def test_a_blocking_handler_runs_in_a_thread_beside_the_event_loop(conversation, writer):
    here, threads = threading.current_thread(), []

    def locate(arguments, context):
        threads.append(threading.current_thread())
        return 1

    async with serving(conversation, {"locate": locate}):
        await until(lambda: len(results(writer)) == 2)
    assert len(set(threads)) == 2
    assert here not in threads


def raising(_, __):
    raise ValueError("no signal, password=hunter22")


def exiting(_, __):
    raise SystemExit(3)


@pytest.mark.parametrize(
    ("handler", "said"),
    [
        (raising, "ValueError: no signal, password=***"),
        (exiting, "SystemExit"),
        (lambda _, __: {1, 2}, "the handler's result is no JSON"),
        (lambda _, __: float("nan"), "the handler's result is no JSON"),
        (lambda _, __: "x" * 400_000, "the handler's result cannot be taken: it has 400002 bytes, 262144 are allowed"),
        (lambda _, __: "x" * 800_000, "the handler's result has 800000 bytes, 500000 are allowed"),
        (lambda _, __: ["é" * 300_000], "the handler's result has 600004 bytes, 500000 are allowed"),
    ],
)
async def test_a_handler_that_gives_no_result_fails_its_call_and_no_other_one(conversation, writer, handler, said, monkeypatch):
    monkeypatch.setattr(handlers, "RESULT_BYTES", 500_000)

    def locate(arguments, context):
        return handler(arguments, context) if arguments else "Bonn"

    async with serving(conversation, {"locate": locate}):
        await until(lambda: len(results(writer)) == 2)
    failed, answered = sorted(results(writer), key=lambda one: one.ok)
    assert (failed.ok, answered.ok) == (False, True)
    assert said in failed.content
    assert "hunter22" not in failed.content


async def test_an_async_handler_that_is_cancelled_by_itself_fails_its_call(conversation, writer):
    async def locate(_, __):
        raise asyncio.CancelledError

    async with serving(conversation, {"locate": locate}):
        await until(lambda: len(results(writer)) == 2)
    assert all("the handler was cancelled" in one.content for one in results(writer))


async def test_of_two_clients_that_race_for_twenty_calls_one_acts_on_each(client, stack, store):
    writer = stack.writers["c-1"] = await Writer.of(store, "c-1")
    await writer.do(start(), begin(), call(*[("locate", f'{{"n":{n}}}') for n in range(20)]))
    acted, both = [], asyncio.Event()

    def handler(name):
        async def locate(arguments, context):
            acted.append((arguments["n"], name, context.attempt))
            if len({name for _, name, _ in acted}) == 2:
                both.set()
            await both.wait()
            return name

        return locate

    one, two = (client.conversation("c-1") for _ in range(2))
    async with serving(one, {"locate": handler("one")}), serving(two, {"locate": handler("two")}):
        await until(lambda: len(results(writer)) == 20)
    assert sorted(number for number, _, _ in acted) == list(range(20))
    assert {attempt for _, _, attempt in acted} == {1}
    assert {name for _, name, _ in acted} == {"one", "two"}


async def test_at_most_sixteen_calls_are_carried_out_at_once_and_the_rest_is_not_claimed(client, stack, store):
    writer = stack.writers["c-1"] = await Writer.of(store, "c-1")
    await writer.do(start(), begin(), call(*[("locate", f'{{"n":{n}}}') for n in range(20)]))
    go = asyncio.Event()

    async def locate(_, __):
        await go.wait()

    async with serving(client.conversation("c-1"), {"locate": locate}):
        await until(lambda: len(given(stack, Claim)) == attached.AT_ONCE)
        await asyncio.sleep(0.05)
        assert len(given(stack, Claim)) == attached.AT_ONCE
        go.set()
        await until(lambda: len(results(writer)) == 20)
    assert len(given(stack, Claim)) == 20


async def test_a_call_for_another_tool_or_of_another_client_is_left_alone(conversation, stack, writer):
    await writer.do(claim("tab-9"))

    async def locate(_, __):
        return 1

    async with serving(conversation, {"locate": locate, "share": locate}):
        await until(lambda: len(results(writer)) == 1)
        await writer.do(give_back("tab-9", began=False))
        await until(lambda: len(results(writer)) == 2)
    assert len(given(stack, Claim)) == 2


async def test_a_handler_sees_that_its_call_was_settled_and_its_result_is_not_sent(conversation, stack, writer):
    seen = []

    async def locate(arguments, context):
        await context.wait_cancelled()
        seen.append(context.cancelled)
        return "late"

    async with serving(conversation, {"locate": locate}):
        await until(lambda: len(given(stack, Claim)) == 2)
        await writer.do(cancel())
        await until(lambda: len(seen) == 2)
        await asyncio.sleep(0.02)
    assert given(stack, Resolve) == []
    assert given(stack, GiveBack) == []


async def test_a_client_that_has_lost_its_claim_sees_it_and_another_carries_on_with_the_next_attempt(
    conversation, stack, writer
):
    seen, _go = [], asyncio.Event()

    async def locate(arguments, context):
        seen.append((context.attempt, context.call.suspension_id))
        if context.attempt == 1 and len(seen) <= 2:
            await context.wait_cancelled()
        return context.attempt

    async with serving(conversation, {"locate": locate}, client_id="phone"):
        await until(lambda: len(seen) == 2)
        await writer.do(give_back("phone", principal=ME), give_back("phone", results_due(writer)[1], principal=ME))
        await until(lambda: len(results(writer)) == 2)
    assert sorted(attempt for attempt, _ in seen) == [1, 1, 2, 2]
    assert [one.client_id for one in given(stack, Resolve)] == ["phone"] * 2


@pytest.mark.parametrize("lost", [True, False])
async def test_a_claim_whose_receipt_came_late_runs_nothing(conversation, stack, writer, monkeypatch, lost):
    asked, attempts = client_work.asked, []

    async def late(gateway, verb, **given):
        receipt = await asked(gateway, verb, **given)
        if verb is verbs.CLAIM and given["tool_call_id"] == first and receipt.attempt == 1 and not receipt.duplicate:
            if lost:
                await writer.do(give_back("phone", principal=ME), claim("laptop"))
            raise OutcomeUnknown("the claim", given["request_id"])
        return receipt

    async def locate(arguments, context):
        attempts.append((context.call.tool_call_id, context.attempt))
        return 1

    first, second = results_due(writer)
    monkeypatch.setattr(client_work, "asked", late)
    async with serving(conversation, {"locate": locate}, client_id="phone"):
        await until(lambda: len(results(writer)) == 2 - lost)
        if lost:
            await until(lambda: [one for one in given(stack, GiveBack) if not one.began])
            waits = writer.state.calls.of(first)
            assert (waits.suspension.claim.client_id, waits.claims) == ("laptop", 2)
    assert sorted(attempts) == sorted([(second, 1)] if lost else [(second, 1), (first, 2)])


async def test_what_a_client_had_claimed_before_it_was_attached_is_given_back_as_begun_and_taken_up_again(
    conversation, stack, writer
):
    await writer.do(claim("phone", principal=ME))
    attempts = []

    async def locate(arguments, context):
        attempts.append(context.attempt)
        return 1

    async with serving(conversation, {"locate": locate}, client_id="phone"):
        await until(lambda: len(results(writer)) == 2)
    (back,) = given(stack, GiveBack)
    assert (back.client_id, back.began) == ("phone", True)
    assert back.request_id == f"back-{back.suspension_id}-1"
    assert sorted(attempts) == [1, 2]


async def test_an_exit_cancels_handlers_and_gives_their_calls_back(conversation, stack, writer, store):
    ended = []

    async def locate(arguments, context):
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(context.cancelled)

    async with serving(conversation, {"locate": locate}, client_id="phone"):
        await until(lambda: len(given(stack, Claim)) == 2)
        assert await present(store) == ["phone"]
        await asyncio.sleep(0.02)
    assert ended == [True, True]
    assert [(one.client_id, one.began) for one in given(stack, GiveBack)] == [("phone", True)] * 2
    await left(store)


async def test_a_client_whose_end_cancels_gives_nothing_back(conversation, stack, writer, store):
    async def locate(arguments, context):
        await asyncio.Event().wait()

    async with serving(conversation, {"locate": locate}, client_id="phone", on_detach="cancel"):
        await until(lambda: len(given(stack, Claim)) == 2)
    assert given(stack, GiveBack) == []
    await left(store)
    (known,) = await store.present("c-1")
    assert (known.client_id, known.on_detach) == ("phone", OnDetach.CANCEL)


async def test_a_client_that_leaves_with_its_calls_gives_none_back_though_news_of_them_comes(conversation, stack, writer):
    held, noted, begun = asyncio.Event(), asyncio.Event(), []

    async def locate(arguments, context):
        begun.append(context.call)
        try:
            await asyncio.Event().wait()
        finally:
            if arguments:  # it takes a while to clean up, and the other one does not
                held.set()
                await noted.wait()

    async def news(client):
        await held.wait()
        for waiting in (await conversation.state()).pending:
            client._show(waiting)  # as the event of its claim does, if that comes late
        noted.set()

    async with serving(conversation, {"locate": locate}, on_detach="cancel") as client:
        await until(lambda: len(begun) == 2)
        told = asyncio.ensure_future(news(client))
    await told
    assert given(stack, GiveBack) == []


async def test_serving_ends_with_the_conversation(conversation, writer):
    async def locate(_, __):
        return 1

    async with conversation.attach({"locate": locate}) as found, asyncio.timeout(20):
        work = asyncio.create_task(found.serve())
        await until(lambda: len(results(writer)) == 2)
        await conversation.end()
        await work
    async with client_of(conversation).attach({"locate": locate}) as found, asyncio.timeout(20):
        await found.serve()


def client_of(conversation):
    return conversation


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"handlers": None}, "handlers"),
        ({"handlers": {}}, "tools"),
        ({"handlers": {"locate": 3}}, "handlers"),
        ({"handlers": {7: print}}, "tools"),
        ({"handlers": {f"t{n}": print for n in range(129)}}, "tools"),
        ({"client_id": ""}, "client_id"),
        ({"client_id": "a b"}, "client_id"),
        ({"client_id": 7}, "client_id"),
        ({"on_detach": "stay"}, "on_detach"),
    ],
)
async def test_a_client_that_cannot_be_is_refused_at_once(conversation, given, field):
    with pytest.raises(InvalidInput, match=field):
        conversation.attach(**{"handlers": {"locate": print}, **given})


@pytest.mark.parametrize("most", [presence.MOST_CLIENTS, presence.MOST_OF_ONE])
async def test_one_client_too_many_is_refused_and_the_others_stay(conversation, store, writer, most):
    bo = Principal("bo")
    for number in range(most):
        of = bo if number >= presence.MOST_OF_ONE else ME
        await store.attach("c-1", Present(client_id=f"c-{number}", principal=of, tools=("locate",)))
    with pytest.raises(TooManyClients, match=str(most)):
        async with conversation.attach({"locate": print}, client_id="late"):
            pass
    async with conversation.attach({"locate": print}, client_id="c-1"):
        pass
    await left(store, most - 1)


async def test_a_conversation_that_never_began_has_no_clients(client, writer):
    with pytest.raises(ConversationNotFound):
        async with client.conversation("c-9").attach({"locate": print}):
            pass


async def test_a_client_is_present_as_long_as_it_is_attached_whatever_its_handlers_do(conversation, store, writer, monkeypatch):
    monkeypatch.setattr(stack_presence, "RENEW_MS", 20)

    def locate(_, context):
        while not context.cancelled:
            threading.Event().wait(0.01)

    async with serving(conversation, {"locate": locate}):
        (first,) = await store.present("c-1")
        until_ = first.until
        async with asyncio.timeout(20):
            while (await store.present("c-1"))[0].until <= until_ + 100:
                await asyncio.sleep(0.01)


async def test_one_reader_of_changes_wakes_all_clients_of_a_process(client, store, writer, monkeypatch):
    read, reading = MemoryStore.changes, []

    async def noted(self, place=None, *, block_ms=0):
        reading.extend([place] if block_ms else [])
        return await read(self, place, block_ms=block_ms)

    monkeypatch.setattr(MemoryStore, "changes", noted)
    async with AsyncExitStack() as attached:
        for name in ("phone", "tablet", "desk"):
            await attached.enter_async_context(client.conversation("c-1").attach({"other": str}, client_id=name))
        await left(store, 3)
        await until(lambda: reading)
        assert len(reading) == 1


async def test_a_client_that_attaches_while_the_last_other_one_leaves_is_renewed(conversation, store, writer, monkeypatch):
    monkeypatch.setattr(stack_presence, "RENEW_MS", 20)
    attach, asked, may_go_on = store.attach, asyncio.Event(), asyncio.Event()

    async def slowly(conversation_id, present, session):
        if present.client_id == "tablet":
            asked.set()
            await may_go_on.wait()
        return await attach(conversation_id, present, session)

    monkeypatch.setattr(store, "attach", slowly)
    async with conversation.attach({"other": str}, client_id="phone"):
        second = AsyncExitStack()
        joining = asyncio.create_task(second.enter_async_context(conversation.attach({"other": str}, client_id="tablet")))
        await asked.wait()
    await left(store)
    may_go_on.set()
    async with second:
        await joining
        first = await lapses(store, "tablet")
        async with asyncio.timeout(20):
            while await lapses(store, "tablet") == first:
                await asyncio.sleep(0.01)


async def test_a_client_that_the_store_has_forgotten_attaches_again(conversation, store, writer, monkeypatch):
    monkeypatch.setattr(stack_presence, "RENEW_MS", 20)
    async with conversation.attach({"locate": print}, client_id="phone"):
        (known,) = await store.present("c-1")
        await store.detach("c-1", known.name)
        await left(store, 1)


async def test_clients_are_renewed_though_one_renewal_breaks_off(conversation, store, writer, monkeypatch):
    monkeypatch.setattr(stack_presence, "RENEW_MS", 20)
    renew, broken = store.renew_clients, []

    async def breaks_off(clients):
        if broken:
            return await renew(clients)
        broken.append(clients)
        raise ValueError("no such answer")

    monkeypatch.setattr(store, "renew_clients", breaks_off)
    async with conversation.attach({"locate": print}, client_id="phone"):
        (first,) = await store.present("c-1")
        async with asyncio.timeout(20):
            while not broken or (await store.present("c-1"))[0].until <= first.until:
                await asyncio.sleep(0.01)


async def test_progress_comes_to_those_who_listen_and_only_from_the_claimant(conversation, store, writer):
    told, _listening = [], asyncio.Event()

    async def listen():
        events = conversation.events(after=writer.state.seq)
        told.append(await anext(event.data async for event in events if event.kind == "progress"))

    async def locate(arguments, context):
        while len(told) < 1:
            context.report_progress({"at": 1}, message="half", status="looking", loaded=1, total=2)
            await asyncio.sleep(0.02)
        return 1

    followed = asyncio.create_task(listen())
    async with serving(conversation, {"locate": locate}, client_id="phone"):
        await until(lambda: told)
        with pytest.raises(StaleCall):
            await conversation.report_progress(told[0]["effect_id"].partition("#")[0], "tab-9", 1)
    followed.cancel()
    assert told[0] == told[0] | {"value": {"at": 1}, "message": "half", "status": "looking", "loaded": 1, "total": 2}
    assert told[0]["effect_id"].endswith("#1")


async def test_a_report_that_is_none_is_the_handlers_own_error(conversation, writer):
    async def locate(arguments, context):
        context.report_progress({1, 2})

    async with serving(conversation, {"locate": locate}):
        await until(lambda: len(results(writer)) == 2)
    assert all("progress: it is not JSON" in one.content for one in results(writer))


async def test_a_claimed_call_takes_nobody_elses_result(conversation, writer):
    (call_, other) = await conversation.pending()
    receipt = await conversation.claim(call_, "phone", request_id="x-1")
    again = await conversation.claim(call_, "phone", request_id="x-1")
    assert (receipt.attempt, again.attempt, again.duplicate) == (1, 1, True)
    for late in ("phone", "tab"):
        with pytest.raises(StaleCall) as refused:
            await conversation.claim(call_, late)
        assert refused.value.reason == "claimed"
    shown = (await conversation.pending())[0]
    assert (shown.claimed.client_id, shown.attempt) == ("phone", 1)
    for client_id in (None, "tab"):
        with pytest.raises(StaleCall) as refused:
            await call_.resolve(Answer(1), client_id=client_id)
        assert refused.value.reason == "claimed"
    with pytest.raises(StaleCall):
        await conversation.give_back(call_, "tab")
    assert (await conversation.resolve(other.suspension_id, Fail("no"), client_id="phone")).settled
    decided = await conversation.resolve(call_.suspension_id, Answer(1), client_id="phone", decision_id="d-1")
    assert (await conversation.resolve(call_.suspension_id, Answer(1), client_id="phone", decision_id="d-1")).seq == decided.seq


async def test_what_is_claimed_by_a_client_that_left_is_cancelled_by_its_id(conversation, writer):
    first, _ = await conversation.pending()
    await conversation.claim(first, "phone", on_detach="cancel")
    done = await conversation.cancel_pending(client_id="phone", reason="I left")
    assert done.calls == (first.tool_call_id,)
    assert (await conversation.cancel_pending(client_id="phone")).calls == ()
