"""`holdfast.js` in a real browser against a real server: events, commands, the tools of the client."""

import pytest
from family import asking, begun, child_of, delegated
from holdfast_page import ALONE, held, left, opened, refused, waited
from served import served
from tcp_proxy import TcpProxy
from writer import DESK, call, finish, reply, send, suspend

from holdfast.events import SuspensionSettled

FOLLOW = """async (after) => {
  window.seen = [];
  for await (const event of conversation.events({ after })) seen.push(event.live ? event.text : event.seq);
  seen.push("end");
}"""


@pytest.fixture(scope="module")
def server():
    with served(heartbeat_s=0.2) as running:
        yield running


@pytest.fixture
async def proxy(server):
    async with TcpProxy(server.port) as standing:
        yield standing


def settled(writer):
    return [event for event in writer.events if isinstance(event, SuspensionSettled)]


async def test_a_page_reads_sends_follows_and_decides(server, page):
    writer = held(server, "js-1", ("refund", '{"order":"A1"}'))
    await opened(page, server.url, "js-1")
    await page.evaluate(f"() => {{ ({FOLLOW})(0) }}")
    sent = await page.evaluate("conversation.send('And then?', { messageId: 'm-2' })")
    again = await page.evaluate("conversation.send('And then?', { messageId: 'm-2' })")
    assert (again["seq"], again["duplicate"]) == (sent["seq"], True)

    await waited(page, "seen", list(range(1, sent["seq"] + 1)))
    state = await page.evaluate("conversation.state()")
    receipt = await page.evaluate("(call) => conversation.resolve(call, holdfast.approve())", state["pending"][0])
    twice = await page.evaluate("(call) => conversation.resolve(call, holdfast.approve())", state["pending"][0])
    assert (twice["seq"], twice["decision_id"], twice["duplicate"]) == (receipt["seq"], receipt["decision_id"], True)
    late = await page.evaluate(
        """(call) => conversation.resolve(call, holdfast.deny('no')).catch((error) => [
            error instanceof holdfast.StaleCall, error.code, error.status, error.reason, error.settledBy,
            error.settledAt > 0])""",
        state["pending"][0],
    )
    assert late == [True, "stale_call", 409, "already_resolved", "approve", True]
    assert len(settled(writer)) == 1

    server.run(writer.do(finish(), reply("It is done.")))
    messages = await page.evaluate("conversation.messages()")
    assert [one["role"] for one in messages][-2:] == ["tool", "assistant"]
    cancelled = await page.evaluate("conversation.cancel({ requestId: 'stop-1' })")
    assert cancelled["turn_id"] == "t2"
    refused(page)


async def test_a_page_has_every_call_whole_and_reads_the_last_exchange_alone_again(server, page):
    writer = held(server, "js-large", *["charge"] * 40)
    for run in [one.effect_id for one in writer.state.calls]:
        server.run(writer.do(suspend(run, report_md="r" * 250_000)))
    await opened(page, server.url, "js-large")

    state = await page.evaluate("conversation.state()")
    found = await page.evaluate("conversation.messagesFrom()")
    again = await page.evaluate("(cursor) => conversation.messagesFrom(cursor)", found["again"])

    assert [len(one["report_md"]) for one in state["pending"]] == [250_000] * 40
    assert (found["at"], len(found["items"])) == (1, 2)
    assert again == {"items": found["items"][1:], "again": found["again"], "at": 0}


async def test_a_page_reads_messages_from_the_end_and_what_follows_steered_ones_once(server, page):
    writer = held(server, "js-ends", "charge")
    server.run(writer.do(send("one", when="steer"), send("two", when="steer"), finish()))
    await opened(page, server.url, "js-ends")
    last = await page.evaluate("conversation.messagesBefore('end', { limit: 2 })")
    before = await page.evaluate("(cursor) => conversation.messagesBefore(cursor)", last["previous"])
    assert [one["content"] for one in last["items"]] == ["one", "two"]
    assert [one["role"] for one in before["items"]] == ["user", "assistant", "tool"]
    assert (before["previous"], last["next"], last["at"]) == (None, None, 1)

    await page.evaluate("() => { conversation.watch((now) => { window.view = now; }); }")
    await waited(page, "view.messages.length", 5)
    server.run(writer.do(reply("It is done.")))
    await waited(page, "view.messages.at(-1).content", "It is done.")
    assert await page.evaluate("view.messages.map(({ role }) => role)") == [
        "user",
        "assistant",
        "tool",
        "user",
        "user",
        "assistant",
    ]


async def test_a_page_reads_the_tree_of_its_conversation_and_decides_below_it(server, page):
    async def below():
        root = await begun(server.store, "js-tree", asking("lead", "clerk", "other"))
        first, _ = await delegated(root, "clerk", "other")
        child = await child_of(root, first, DESK.model_copy(update={"name": "clerk"}))
        await child.do(call("refund"))
        server.stack.writers[child.conversation_id] = child
        return child

    child = server.run(below())
    await opened(page, server.url, "js-tree")
    tree = await page.evaluate("conversation.tree()")
    assert [tree["agent"], *(one["agent"] for one in tree["children"])] == ["lead", "clerk", "other"]
    first, second = tree["children"]
    assert (first["conversation_id"], first["status"], first["pending"]) == (child.conversation_id, "awaiting_input", 1)
    assert (second["status"], second["problem"]) == (None, "it has not started yet")
    await page.evaluate(
        """async (id) => {
            const below = client.conversation(id), [call] = (await below.state()).pending;
            await below.resolve(call, holdfast.approve());
        }""",
        child.conversation_id,
    )
    assert [event.by for event in settled(child)] == ["approve"]
    refused(page)


async def test_errors_are_typed_and_name_the_field(server, page):
    held(server, "js-2")
    await opened(page, server.url, "js-2")
    told = """(work) => work.catch((error) =>
        [error instanceof holdfast.HoldfastError, error.code, error.status, error.fields.field ?? null])"""
    assert await page.evaluate(f"({told})(client.conversation('nobody').state())") == [
        True,
        "conversation_not_found",
        404,
        None,
    ]
    assert (await page.evaluate(f"({told})(conversation.send('x', {{ messageId: 'a b' }}))"))[:3] == [
        True,
        "invalid_message",
        422,
    ]
    with pytest.raises(Exception, match="name it by its id"):
        await page.evaluate("client.conversation('../pending')")
    with pytest.raises(Exception, match="the token has a field of its own"):
        await page.evaluate("holdfast.connect({ url: 'https://desk.example/?token=secret' })")
    refused(page)


async def test_events_come_once_and_in_order_over_connections_that_are_cut(server, proxy, page):
    writer = held(server, "js-3")
    await opened(page, proxy.url, "js-3")
    await page.evaluate(f"() => {{ ({FOLLOW})(0) }}")
    for number in range(4):
        await waited(page, "seen.at(-1)", writer.state.seq)
        await (proxy.go() if number % 2 else proxy.cut())
        server.run(writer.do(call("charge"), finish()))
        proxy.come()
    await waited(page, "seen.at(-1)", writer.state.seq)
    assert await page.evaluate("seen") == list(range(1, writer.state.seq + 1))
    refused(page)


async def test_a_stream_that_falls_silent_is_opened_again_and_the_network_that_is_back_is_used_at_once(proxy, page):
    with served(heartbeat_s=3600) as silent:
        writer = held(silent, "js-10")
        proxy.upstream = silent.port
        await page.clock.install(time=0)
        await page.clock.pause_at(1000)  # from here on, time goes by only as it is told to
        await opened(page, proxy.url, "js-10", script=ALONE)
        await page.evaluate(
            """() => {
                window.seen = []; window.connection = null;
                const onConnection = (now) => { connection = now; };
                const events = holdfast.connect().conversation("js-10").events({ onConnection });
                (async () => { for await (const { seq } of events) seen.push(seq); })();
            }"""
        )
        await waited(page, "window.seen?.at(-1)", writer.state.seq)
        streams = proxy.requests(b"/events")
        await page.clock.run_for(44_000)
        assert proxy.requests(b"/events") == streams
        while proxy.requests(b"/events") == streams:  # what is aborted ends in time of its own
            await page.clock.run_for(500)
        silent.run(writer.do(call("charge")))
        await waited(page, "seen.at(-1)", writer.state.seq)
        assert proxy.requests(b"/events") == streams + 1

        await proxy.go()
        await waited(page, "connection", "offline")
        proxy.come()
        silent.run(writer.do(finish()))
        await page.evaluate("window.dispatchEvent(new Event('online'))")  # no time goes by: nothing else ends the wait
        await waited(page, "seen.at(-1)", writer.state.seq)
        assert await page.evaluate("seen") == list(range(1, writer.state.seq + 1))
        await proxy.go()
        await left(page, silent)
    refused(page)


async def test_a_decision_whose_answer_is_lost_is_sent_again_and_recorded_once(server, proxy, page):
    writer = held(server, "js-4", ("refund", '{"order":"A1"}'))
    await opened(page, proxy.url, "js-4")
    proxy.lose, proxy.only = 1, b"/resolve"
    call_ = (await page.evaluate("conversation.state()"))["pending"][0]
    receipts = await page.evaluate(
        """(call) => {
            const decide = () => conversation.resolve(call, holdfast.approve());
            return Promise.all([decide(), decide()]);
        }""",
        call_,
    )
    assert proxy.lose == 0
    assert receipts[0] == receipts[1]
    assert receipts[0]["duplicate"]
    assert [event.decision_id for event in settled(writer)] == [receipts[0]["decision_id"]]
    refused(page)


async def test_a_token_is_asked_for_once_and_again_when_the_server_takes_it_no_more(server, page):
    held(server, "js-5")
    seen = []

    async def answered(route):
        given = route.request.headers.get("authorization")
        seen.append(given)
        if given == "Bearer one":
            await route.fulfill(
                status=401, json={"code": "unauthenticated", "status": 401, "detail": "no", "type": "x", "title": "x"}
            )
        else:
            await route.continue_()

    await opened(page, server.url, "js-5", script=ALONE)
    await page.route("**/v1/**", answered)
    states = await page.evaluate(
        """async () => {
            const given = ["one", { token: "two", expires_at: Date.now() + 3600000 }, "three"];
            window.asked = 0;
            const conversation = holdfast.connect({ token: async () => given[asked++] }).conversation("js-5");
            const later = conversation.state().then(() => conversation.state());
            return Promise.all([conversation.state(), conversation.state(), later]);
        }"""
    )
    assert [state["conversation_id"] for state in states] == ["js-5"] * 3
    assert await page.evaluate("asked") == 2
    assert set(seen) == {"Bearer one", "Bearer two"}
    refused(page)


async def test_a_tool_of_the_client_runs_in_the_page_and_its_result_is_the_answer(server, page):
    writer = held(server, "js-6", ("locate", '{"precise":true,"id":12345678901234567890}'), "stamp")
    await opened(page, server.url, "js-6")
    await page.evaluate(
        """() => {
            window.outcomes = [];
            conversation.attach(
                { locate: async ({ precise, id }) => ({ precise, id, zone: "Europe/Berlin" }), stamp: () => 0 },
                { onSettled: ({ call, outcome }) => outcomes.push([call.tool, outcome]) },
            );
        }"""
    )
    await waited(page, "outcomes.toSorted()", [["locate", "answer"], ["stamp", "answer"]])
    results = [event.content for event in writer.events if event.kind == "call_resolved" and event.by == "answer"]
    assert any('"precise":true,"id":12345678901234567890,"zone":"Europe/Berlin"' in one for one in results)

    server.run(writer.do(call(("locate", '{"precise":false}'))))
    await waited(page, "outcomes.length", 3)


NO_RESULT = {
    "() => { throw new Error('no permission') }": "no permission",
    "() => new Promise(() => {})": "took longer than 0.1 s",
    "() => 'x'.repeat(300000)": "262144 are allowed",
    "() => () => 1": "no JSON value",
    "() => 'no number'": "the result was not taken",
    "() => { throw 'y'.repeat(100000) }": "yyyy",
}


async def test_a_handler_that_gives_no_result_fails_the_call_with_the_reason(server, page):
    writers = [held(server, f"js-7-{number}", "stamp") for number in range(len(NO_RESULT))]
    await opened(page, server.url, "js-7-0")
    await page.evaluate("window.outcomes = []")
    for writer, (handler, said) in zip(writers, NO_RESULT.items(), strict=True):
        detach = f"""() => {{
            const onSettled = ({{ outcome }}) => {{ outcomes.push(outcome); attached.detach(); }};
            const conversation = client.conversation("{writer.conversation_id}");
            const attached = conversation.attach({{ stamp: {handler} }}, {{ timeoutMs: 100, onSettled }});
        }}"""
        await page.evaluate(detach)
        await waited(page, "outcomes", ["fail"])
        await page.evaluate("outcomes.splice(0)")
        (ended,) = settled(writer)
        assert (ended.by, said in ended.body, len(ended.body) < 1200) == ("fail", True, True), ended.body
    refused(page)


async def test_of_two_tabs_that_may_not_claim_and_answer_at_once_one_is_told_that_it_was_too_late(server, page):
    writer = held(server, "js-11", "locate")
    other = await page.context.new_page()
    lacking = {"code": "not_permitted", "status": 403, "title": "x", "detail": "the scope client is missing", "scope": "client"}
    await page.context.route("**/attach?*", lambda route: route.fulfill(status=403, json=lacking))
    await other.route("**/events?*", lambda _: None)  # it hears of the other's answer by the refusal of its own alone
    for tab in (page, other):
        await opened(tab, server.url, "js-11")
        await tab.evaluate(
            """() => {
                window.outcomes = [];
                const onSettled = ({ outcome, error }) => {
                    outcomes.push([outcome, error?.code ?? null, error?.settledBy ?? null]);
                };
                const locate = () => new Promise((resolve) => { window.give = resolve; });
                conversation.attach({ locate }, { onSettled });
            }"""
        )
        await waited(tab, "window.give !== undefined", True)
    await page.evaluate("give('first')")
    await waited(page, "outcomes", [["answer", None, None]])
    await other.evaluate("give('second')")
    await waited(other, "outcomes", [["stale", "stale_call", "answer"]])
    assert [event.body for event in settled(writer)] == ['"first"']
    await other.unroute_all(behavior="ignoreErrors")
    refused(page)


async def test_a_result_that_comes_as_the_connection_is_cut_arrives_once(server, proxy, page):
    writer = held(server, "js-9", "locate")
    await opened(page, proxy.url, "js-9")
    proxy.lose, proxy.only = 1, b"/resolve"
    await page.evaluate(
        """() => {
            window.runs = 0; window.outcomes = [];
            conversation.attach({ locate: () => ++runs }, { onSettled: ({ outcome }) => outcomes.push(outcome) });
        }"""
    )
    await waited(page, "outcomes", ["answer"])
    await proxy.go()
    server.run(writer.do(call("locate")))
    proxy.come()
    await waited(page, "outcomes", ["answer", "answer"])
    assert await page.evaluate("runs") == 2
    assert [event.body for event in settled(writer)] == ["1", "2"]
    refused(page)
