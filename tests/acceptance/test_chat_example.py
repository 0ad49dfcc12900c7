"""A page on the real stack: the example's chat in a real browser, and a page whose server is killed."""

import asyncio
import contextlib
import json
import re
import signal
import subprocess
import sys
from pathlib import Path

from browser import Mishaps, browsing
from holdfast_page import expect, opened, refused, waited
from server_process import serving
from stack_fixture import runs_of
from tcp_proxy import TcpProxy

from holdfast.testing import call

EXAMPLES = Path(__file__).parents[2] / "examples"
WITHIN_S = 60


@contextlib.asynccontextmanager
async def chat(stack):
    """The example as a user starts it; its URL."""
    process = stack.python("-m", "chat.server", "--port", "0", cwd=EXAMPLES)
    try:
        line = await asyncio.wait_for(asyncio.to_thread(process.stdout.readline), WITHIN_S)
        found = re.search(r"http://127\.0\.0\.1:\d+/", line)
        if found is None:
            process.kill()
            raise AssertionError(line + process.communicate()[1])
        yield found[0]
    finally:
        process.kill()
        process.communicate()
        keys = ("-m", "holdfast.cli", "keys")  # the stack is others' too: the example's key goes with it
        for key in json.loads(stack.python(*keys, "list", "--json").communicate()[0])["items"]:
            stack.python(*keys, "revoke", key["key_id"]).communicate()


async def test_a_visitor_is_asked_answers_approves_and_has_it_done(stack):
    ordering = call("order", {"item": "Darjeeling", "quantity": 2, "day": "Friday"})
    asking = call("ask_day", {"question": "On which day shall it come?"})
    stack.scenarios.add("Order", call("cart", {}), asking, ordering, "It will be\nwith you on Friday.", "You are welcome.")
    async with chat(stack) as url, browsing() as browser:
        page = await browser.new_page()
        mishaps = Mishaps(page)
        page.set_default_timeout(WITHIN_S * 1000)
        await page.goto(url)
        question = page.locator("holdfast-elicitation")
        await expect(question.get_by_text("On which day shall it come?")).to_be_visible(timeout=WITHIN_S * 1000)
        await page.reload()  # nothing is lost, and nothing is looked up twice
        await question.get_by_label("Friday").check()
        await question.get_by_role("button", name="Send answer").click()
        approval = page.locator("holdfast-approval")
        await expect(approval.get_by_text("Order 2 x Darjeeling for Friday?")).to_be_visible(timeout=WITHIN_S * 1000)
        await approval.get_by_role("button", name="Approve").click()
        messages = page.locator("holdfast-messages")
        await expect(messages.get_by_text("with you on Friday.")).to_be_visible(timeout=WITHIN_S * 1000)
        await page.get_by_label("Message").fill("Thank you!")
        await page.get_by_role("button", name="Send").click()
        await expect(messages.get_by_text("You are welcome.")).to_be_visible(timeout=WITHIN_S * 1000)
        await expect(messages.get_by_text("cart · done")).to_have_count(1)

        cookies = {one["name"]: one for one in await page.context.cookies()}
        assert cookies["visitor"]["httpOnly"]
        stranger = await page.request.post(f"{url}token", headers={"Sec-Fetch-Site": "cross-site"})
        assert stranger.status == 403
        assert mishaps == []


def test_the_model_that_is_played_without_a_key_goes_through_the_same_steps():
    code = """
from chat.server import played
said = [{"role": "system"}, {"role": "user"}]
for _ in range(4):
    message = played({"messages": said})
    print([call["function"]["name"] for call in message.get("tool_calls") or []] or message["content"])
    said += [{"role": "assistant"}, {"role": "tool"}]
"""
    printed = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=EXAMPLES).stdout
    assert printed.splitlines()[:3] == ["['cart']", "['ask_day']", "['order']"]
    assert "on Friday" in printed


async def test_a_server_is_killed_while_a_page_is_open_and_nothing_is_lost_or_done_twice(stack):
    refund = call("refund", {"order": "A1", "amount": 42})
    text = stack.scenarios.add("killed-page", call("where", {}), refund, "It is done.")
    async with (
        serving(stack) as first,
        serving(stack) as second,
        TcpProxy(first.http.base_url.port) as proxy,
        browsing() as browser,
    ):
        body = {"agent": "support", "text": text, "conversation_id": "page-1"}
        await first("POST", "/v1/conversations", 201, json=body)
        page = await browser.new_page()
        page.mishaps = Mishaps(page)
        page.set_default_timeout(WITHIN_S * 1000)
        await opened(page, proxy.url, "page-1")
        await page.evaluate(
            """() => {
                window.seen = []; window.runs = 0;
                (async () => { for await (const { seq } of conversation.events({ live: false })) seen.push(seq); })();
                conversation.attach({ where: () => ({ runs: ++runs }) });
            }"""
        )
        approve = page.locator("holdfast-approval").get_by_role("button", name="Approve")
        await expect(approve).to_be_visible(timeout=WITHIN_S * 1000)
        proxy.lose, proxy.only = 1, b"/resolve"
        await approve.click()
        await asyncio.to_thread(first.end, signal.SIGKILL)
        await proxy.go()
        proxy.upstream = second.http.base_url.port
        proxy.come()
        await expect(page.locator("holdfast-approval").get_by_text("Approved by you")).to_be_visible(timeout=WITHIN_S * 1000)
        await expect(page.locator("holdfast-messages").get_by_text("It is done.")).to_have_count(1, timeout=WITHIN_S * 1000)
        state = await second("GET", "/v1/conversations/page-1?wait_s=30")
        await waited(page, "seen", list(range(1, state["seq"] + 1)))
        assert [run["kind"] for run in runs_of(stack, "page-1")] == ["refund"]
        assert await page.evaluate("runs") == 1
        refused(page)
        assert page.mishaps == []
