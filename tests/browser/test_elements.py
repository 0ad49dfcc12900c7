"""The elements of `holdfast.js` in a real browser: what waits is decided, what runs and is said is shown."""

import asyncio
import json

import pytest
from holdfast_page import expect, held, left, opened, refused, the, waited
from served import served
from tcp_proxy import TcpProxy
from writer import begin, call, fail_model, finish, reply, resolve, send

from holdfast.client import AsyncClient
from holdfast.client.stack_gateway import StackGateway
from holdfast.conversation import Answer, Deny, Principal, Proof
from holdfast.conversation.records.commands import ProposedCall, Resolve
from holdfast.conversation.terms.decisions import DecisionRecord
from holdfast.conversation.terms.rule_verdict import RuleEffect, RuleVerdict
from holdfast.events import SuspensionSettled
from holdfast.persistence import codec

HOSTILE = "<script>mishap()</script><img src=x onerror=mishap()> \u202egnp.exe\u202c [x](javascript:mishap()) &amp; \u0000 "


@pytest.fixture(scope="module")
def server():
    with served(heartbeat_s=0.2) as running:
        yield running


def settled(writer):
    return [(event.by, event.body) for event in writer.events if isinstance(event, SuspensionSettled)]


def live(server, writer, kind, value, effect_id="t1.m1", attempt=1):
    payload = codec.pack([kind, effect_id, attempt, 5, value])
    assert server.run(server.store.publish(writer.conversation_id, payload))


async def test_an_approval_is_given_with_one_click_and_its_card_says_so(server, page):
    writer = held(
        server,
        "el-1",
        ("refund", '{"order":"A1","lines":[12345678901234567890]}'),
        ("refund", '{"order":"A2"}'),
        prompt="Refund it?",
    )
    await opened(page, server.url, "el-1")
    cards = the(page, "approval").get_by_role("group", name="refund")
    first, second = cards.nth(0), cards.nth(1)
    await expect(first.get_by_text("Refund it?")).to_be_visible()
    await expect(first.get_by_role("region", name="Arguments")).to_have_text(
        '{ "order": "A1", "lines": [ 12345678901234567890 ] }'
    )
    await second.get_by_role("button", name="Deny").click()
    await second.get_by_label("Reason (optional)").fill("half written")

    await first.get_by_role("button", name="Approve").dblclick()
    await expect(first.get_by_role("status")).to_contain_text("Approved by you")
    await expect(first.get_by_role("button", name="Approve")).to_have_count(0)
    await expect(second.get_by_label("Reason (optional)")).to_have_value("half written")
    assert settled(writer) == [("approve", None)]
    assert await page.evaluate("told") == [["resolved", {"decision": "approve"}, None]]

    await first.get_by_role("button", name="Dismiss").click()
    await expect(cards).to_have_count(1)


async def test_an_approval_that_a_rule_asks_for_says_which_and_why(server, page):
    asks = RuleVerdict(effect=RuleEffect.ASK, rule="large <b>refunds</b>", reason="Somebody else looks.")
    held(server, "el-ruled", ProposedCall(tool_call_id="call_a", name="refund", arguments='{"order":"A1"}', ruled=asks))
    await opened(page, server.url, "el-ruled")
    card = the(page, "approval").get_by_role("group", name="refund")
    await expect(card.get_by_text("Asked by the rule large <b>refunds</b>: Somebody else looks.")).to_be_visible()


async def test_the_keyboard_alone_denies_with_a_reason_and_keeps_its_place(server, page):
    writer = held(server, "el-2", ("refund", '{"order":"A1"}'))
    await opened(page, server.url, "el-2")
    element = the(page, "approval")
    await element.get_by_role("button", name="Approve").focus()
    await page.keyboard.press("Tab")
    await page.keyboard.press("Enter")
    await expect(element.get_by_label("Reason (optional)")).to_be_focused()
    await page.keyboard.press("Escape")
    await expect(element.get_by_role("button", name="Deny")).to_be_focused()
    await page.keyboard.press("Enter")
    await page.keyboard.type("not without the box")
    await page.keyboard.press("Tab")
    await page.keyboard.press("Enter")
    await expect(element.get_by_role("status").last).to_contain_text("Denied by you")
    await expect(element.get_by_role("status").last).to_be_focused()
    await expect(element.get_by_role("status").last).to_contain_text("not without the box")
    assert settled(writer) == [("deny", '"not without the box"')]


async def test_an_answer_is_written_in_a_form_of_the_schema(server, page):
    writer = held(server, "el-3", "survey", ("ask", '{"question":"Which colour?"}'))
    await opened(page, server.url, "el-3")
    survey = the(page, "elicitation").get_by_role("group", name="survey")
    await survey.get_by_role("button", name="Send answer").click()
    await expect(survey.get_by_text("This is needed.")).to_have_count(4)
    await expect(survey.get_by_label("Your name")).to_be_focused()
    await expect(survey.get_by_label("Your name")).to_have_attribute("aria-invalid", "true")
    await survey.get_by_label("Your name").fill("Ana")
    await survey.get_by_label("age").fill("1.5")
    await survey.get_by_role("group", name="member").get_by_label("No").check()
    await survey.get_by_role("group", name="colour").get_by_label("green").check()
    await survey.get_by_label("tags (optional)").fill("one\n\ntwo")
    await survey.get_by_label("more (optional)").fill("{no")
    await survey.get_by_role("button", name="Send answer").click()
    await expect(survey.get_by_text("no whole number")).to_be_visible()
    await expect(survey.get_by_text("This is no JSON")).to_be_visible()
    await survey.get_by_label("more (optional)").fill('{"deep": [1]}')
    await survey.get_by_label("age").fill("-1")
    await survey.get_by_role("button", name="Send answer").click()
    await expect(survey.get_by_role("alert")).to_contain_text("minimum")  # the server judges
    await survey.get_by_label("age").fill("0")
    await survey.get_by_role("button", name="Send answer").click()
    await expect(survey.get_by_role("status")).to_contain_text("Answered by you")
    value = {"name": "Ana", "age": 0, "member": False, "colour": "green", "tags": ["one", "two"], "more": {"deep": [1]}}
    ((by, body),) = settled(writer)
    assert (by, json.loads(body)) == ("answer", value)

    ask = the(page, "elicitation").get_by_role("group", name="ask")
    await expect(ask.get_by_text("Which colour?")).to_be_visible()
    await ask.get_by_label("Answer").fill("blue\nor green")
    await ask.get_by_role("button", name="Send answer").click()
    await expect(ask.get_by_role("status")).to_contain_text("Answered by you")
    assert settled(writer)[1:] == [("answer", '"blue\\nor green"')]
    refused(page)


async def test_who_does_not_want_to_answer_declines(server, page):
    writer = held(server, "el-4", ("ask", '{"question":"Which colour?"}'))
    await opened(page, server.url, "el-4")
    await the(page, "elicitation").get_by_role("button", name="Decline to answer").click()
    await expect(the(page, "elicitation").get_by_role("status").last).to_contain_text("Denied by you")
    assert settled(writer) == [("deny", '""')]


async def test_what_another_has_decided_is_said_with_who_and_how_and_the_slower_of_two_tabs_reads_it(server, page):
    writer = held(server, "el-5", "refund", "refund")
    other = await page.context.new_page()
    for tab in (page, other):
        await opened(tab, server.url, "el-5")
        await expect(the(tab, "approval").get_by_role("button", name="Approve")).to_have_count(2)
    first, second = (one for one in writer.state.calls)
    ruling = DecisionRecord.of(Deny("too much"))
    ana = Principal("ana", proof=Proof.OIDC)
    step = Resolve(
        tool_call_id=first.tool_call_id,
        ruling=ruling,
        suspension_id=first.suspension.suspension_id,
        decision_id="d-ana",
        principal=ana,
    )
    server.run(writer.do(lambda _: step))
    for tab in (page, other):
        await expect(the(tab, "approval").get_by_text("Denied by ana")).to_contain_text("too much")

    both = asyncio.Barrier(2)

    async def together(route):
        await both.wait()  # neither tab hears of the other before it has sent its own
        await route.continue_()

    for tab in (page, other):
        await tab.route("**/resolve", together)
        await the(tab, "approval").get_by_role("button", name="Approve").click()
    for tab in (page, other):
        await expect(the(tab, "approval").get_by_text("Approved")).to_be_visible()
    assert settled(writer) == [("deny", '"too much"'), ("approve", None)]
    for tab in (page, other):
        await waited(tab, "told.length", 1)
    outcomes = [(await tab.evaluate("told"))[-1][0] for tab in (page, other)]
    assert sorted(outcomes) == ["error", "resolved"]
    assert second.suspension is not None
    refused(page)


async def test_a_call_that_is_settled_while_its_form_is_fetched_shows_nothing_wrong(server, page):
    writer = held(server, "el-while", "refund")
    answered = asyncio.Event()
    page.on("response", lambda response: answered.set() if response.status == 409 else None)

    async def settle_first(route):
        server.run(writer.do(resolve(Deny("too much"))))
        await route.continue_()

    async def after_the_form(route):
        await answered.wait()
        await route.continue_()

    await page.route("**/form?*", settle_first)
    await page.route("**/events?*", after_the_form)
    await opened(page, server.url, "el-while")
    await expect(the(page, "approval").get_by_role("status").first).to_contain_text("Denied")
    await expect(the(page, "approval").get_by_role("alert")).to_have_count(0)
    assert answered.is_set()


async def test_what_runs_is_shown_with_its_progress_and_what_the_model_writes_as_it_comes(server, page):
    writer = held(server, "el-6")
    await opened(page, server.url, "el-6")
    running, messages = the(page, "running"), the(page, "messages")
    await expect(messages.get_by_text("Working…")).to_be_visible()
    await expect(running).to_have_attribute("phase", "live")
    live(server, writer, "text_delta", "It is ")
    live(server, writer, "text_delta", "so")
    await expect(messages.get_by_text("It is so")).to_be_visible()
    live(server, writer, "text_delta", "No: it ", attempt=2)
    await expect(messages.get_by_text("No: it")).to_be_visible()
    await expect(messages.get_by_text("It is so")).to_have_count(0)
    live(server, writer, "arguments_delta", json.dumps({"index": 0, "tool": "charge", "text": "{"}))
    await expect(running.get_by_text("is prepared")).to_be_visible()

    provider = json.dumps(
        {"blocks": [{"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "mugs"}}]}
    )
    server.run(writer.do(call("charge", "locate", content="No: it is not.", provider=provider)))
    await expect(messages.get_by_text("No: it is not.", exact=True)).to_be_visible()
    await expect(messages.get_by_text("No: it", exact=True)).to_have_count(0)
    await expect(running.get_by_text("by the model's provider")).to_be_visible()
    await expect(running.get_by_text('"query": "mugs"')).to_be_visible()
    await expect(running.get_by_text("waits for a client")).to_be_visible()
    (run, *_) = writer.effect_ids
    report = {"value": None, "message": "half of it", "status": "charging", "loaded": 3, "total": 6}
    live(server, writer, "progress", json.dumps(report), effect_id=run)
    await expect(running.get_by_role("progressbar")).to_have_attribute("value", "0.5")
    await expect(running.get_by_text("3 / 6 · half of it")).to_be_visible()
    await expect(running.get_by_text("charging")).to_be_visible()

    server.run(writer.do(finish(), resolve(Answer("here")), reply("All done.")))
    await expect(messages.get_by_text("All done.")).to_be_visible()
    await expect(messages.get_by_text("charge · done")).to_be_visible()
    await expect(running.get_by_text("Nothing runs.")).to_be_visible()

    server.run(writer.do(send("And now?"), begin()))
    server.run(writer.do(fail_model("the model is overloaded")))
    await expect(messages.get_by_role("alert")).to_have_text("the model is overloaded")


async def test_a_long_conversation_shows_its_last_messages_and_earlier_ones_on_demand(server, page):
    writer = held(server, "el-long", text="the first")

    async def long():
        for number in range(120):
            await writer.do(reply(f"done {number}."), send(f"next {number}."), begin())

    server.run(long())
    asked = []
    page.on("request", lambda request: asked.append(request.url) if "/messages?" in request.url else None)
    await opened(page, server.url, "el-long")
    messages = the(page, "messages")
    await expect(messages.get_by_text("next 119.", exact=True)).to_be_visible()
    await expect(messages.get_by_text("done 69.", exact=True)).to_have_count(0)
    assert [url.partition("?")[2] for url in asked] == ["limit=100&before=end"]

    server.run(writer.do(call("charge")))
    await expect(messages.get_by_text("→ charge")).to_be_visible()
    earlier = messages.get_by_role("button", name="Earlier messages")
    await earlier.click()
    await expect(messages.get_by_text("done 69.", exact=True)).to_have_count(1)
    server.run(writer.do(finish(), reply("All done.")))
    await expect(messages.get_by_text("charge · done")).to_have_count(1)
    await earlier.click()

    await expect(messages.get_by_text("the first", exact=True)).to_have_count(1)
    await expect(earlier).to_have_count(0)
    await expect(messages.get_by_text("All done.", exact=True)).to_have_count(1)
    said = await messages.locator(".message").evaluate_all("(nodes) => nodes.map((node) => node.textContent)")
    turns = [[f"done {number}.", f"next {number}."] for number in range(120)]
    assert said == ["the first", *(one for turn in turns for one in turn), "All done."]


async def test_hostile_text_is_text_everywhere(server, page):
    long = (HOSTILE + "x\n") * 1000 + "y" * (200 << 10)
    arguments = json.dumps({"order": HOSTILE, "<b>key</b>": long, "question": HOSTILE})
    calls = [("refund", arguments), ("ask", json.dumps({"question": HOSTILE})), ("locate", arguments), ("<b>tool</b>", "{}")]
    writer = held(server, "el-7", *calls, text=long, prompt=HOSTILE + "z" * 3000)
    await opened(page, server.url, "el-7")
    await page.evaluate("() => { window.mishap = () => { window.harmed = true; }; }")
    approval, messages = the(page, "approval"), the(page, "messages")
    await expect(approval.get_by_role("region", name="Arguments")).to_contain_text("<script>mishap()</script>")
    await expect(approval.get_by_role("region", name="Arguments")).to_contain_text("\\u202egnp.exe")
    await expect(approval.get_by_text("zzz")).to_contain_text("\\u202egnp.exe\\u202c")  # nothing turns what is approved around
    await expect(messages.locator(".user")).to_contain_text("<img src=x onerror=mishap()>")
    live(server, writer, "text_delta", HOSTILE)
    shown = await messages.locator(".user").evaluate("(node) => node.textContent")
    assert shown.count("\n") == 1000
    assert len(shown) > 256 << 10
    await approval.get_by_role("button", name="Approve").click()
    await expect(approval.get_by_role("status").last).to_contain_text("Approved")
    for name in ("approval", "messages", "running", "elicitation"):
        found = await the(page, name).evaluate(
            "(node) => node.shadowRoot.querySelectorAll('script, img, b, a, style, [onerror]').length"
        )
        assert found == 0
        box = await the(page, name).bounding_box()
        assert box is None or box["width"] <= 1280
    assert await page.evaluate("window.harmed") is None


async def test_an_application_may_turn_texts_into_nodes_of_its_own(server, page):
    held(server, "el-8", text="one **two**")
    await opened(page, server.url, "el-8")
    await expect(the(page, "messages").get_by_text("one **two**")).to_be_visible()
    await page.evaluate(
        """() => {
            const element = document.createElement("holdfast-messages");
            const strong = (textContent) => Object.assign(document.createElement("strong"), { textContent });
            element.render = (text, { role }) => strong(`${role}: ${text}`);
            element.id = "mine";
            element.conversation = conversation;
            document.querySelector("main").append(element);
        }"""
    )
    await expect(page.locator("#mine strong")).to_have_text("user: one **two**")


async def test_the_elements_say_that_they_load_are_empty_offline_or_have_failed(server, page):
    writer = held(server, "el-9")
    async with TcpProxy(server.port) as proxy:
        await opened(page, proxy.url, "el-9")
        approval = the(page, "approval")
        await expect(approval.get_by_text("Nothing waits for you.")).to_be_visible()
        await expect(approval).to_have_attribute("empty", "")
        await expect(approval).to_have_attribute("phase", "live")
        await proxy.go()
        await expect(approval.get_by_text("No connection.")).to_be_visible()
        server.run(writer.do(call("refund")))
        proxy.come()
        await expect(approval.get_by_role("button", name="Approve")).to_be_visible()
        await expect(approval.get_by_text("No connection.")).to_have_count(0)

        await page.goto(f"{proxy.url}/page?conversation=el-nobody")
        await expect(approval.get_by_text("It cannot be shown")).to_contain_text("never started")
        await waited(page, "told.length", 4)

        proxy.lose, proxy.only = 1000, b"/v1/"
        await page.goto(f"{proxy.url}/page?conversation=el-9")
        await expect(approval.get_by_text("No connection.")).to_be_visible()
        proxy.lose = 0
        await expect(approval.get_by_role("button", name="Approve")).to_be_visible()
    refused(page)


async def test_a_server_ends_while_a_page_is_open_and_another_goes_on_where_it_was(page):
    with served(heartbeat_s=0.2) as first:
        writer = held(first, "el-10", "refund", "refund")
        async with TcpProxy(first.port) as proxy:
            await opened(page, proxy.url, "el-10")
            await page.evaluate(
                """() => {
                    window.seen = [];
                    (async () => { for await (const { seq } of conversation.events({ live: false })) seen.push(seq); })();
                }"""
            )
            approval = the(page, "approval")
            await approval.get_by_role("button", name="Approve").first.click()
            await expect(approval.get_by_text("Approved by you")).to_be_visible()
            await proxy.go()
            first.__exit__(None, None, None)
            first.store._changed = asyncio.Condition()  # a store in memory waits in one loop alone: this is the second one's
            await approval.get_by_role("button", name="Approve").click()
            await expect(approval.get_by_text("Sending…")).to_be_visible()
            with served(AsyncClient(StackGateway(first.stack, timeout_s=30)), heartbeat_s=0.2) as second:
                proxy.upstream = second.port
                proxy.come()
                await expect(approval.get_by_text("Approved by you")).to_have_count(2)
                second.run(writer.do(finish(), finish(), reply("Both are done.")))
                await expect(the(page, "messages").get_by_text("Both are done.")).to_have_count(1)
                await waited(page, "seen", list(range(1, writer.state.seq + 1)))
                await left(page, second)
    assert settled(writer) == [("approve", None)] * 2
    refused(page)
