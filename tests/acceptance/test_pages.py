"""The pages on the real stack: an approval arrives, is decided while the server dies and comes back, and the agent goes on."""

import asyncio
import os
import re
import signal
import subprocess
import sys

from browser import browsing
from playwright.async_api import expect
from server_process import WITHIN_S, serving
from stack_fixture import runs_of

from holdfast import AsyncClient
from holdfast.testing import call, calls


async def test_an_approval_arrives_and_is_decided_though_the_server_is_killed_meanwhile(stack):
    text = stack.scenarios.add(
        "pages", calls(call("refund", {"order": "A1", "amount": 42}), content="A moment."), "It is done."
    )
    async with browsing() as browser, serving(stack) as server:
        port = server.url.rpartition(":")[2]
        page = await (await browser.new_context(viewport={"width": 390, "height": 844})).new_page()
        page.set_default_timeout(WITHIN_S * 1000)
        expect.set_options(timeout=WITHIN_S * 1000)
        await page.goto(f"{server.url}/inbox?agent=support&q=pages-1")
        await expect(page.get_by_text("Nothing waits with these filters.")).to_be_visible()
        async with AsyncClient.connect(url=server.url, timeout_s=WITHIN_S) as client:
            await client.start("support", text, conversation_id="pages-1")
        await page.locator(".row", has_text="pages-1").locator("a").click()
        await expect(page.get_by_role("button", name="Approve")).to_be_visible()

        server.end(signal.SIGKILL)
        await expect(page.get_by_text("Connection lost: trying again")).to_be_visible()
        await page.get_by_role("button", name="Approve").click()
        await expect(page.get_by_text("the same decision counts once")).to_be_visible()
        async with serving(stack, "--port", port):
            await expect(page.locator("#connection")).to_be_hidden()
            await page.get_by_role("button", name="Approve").click()
            await expect(page.locator(".outcome")).to_contain_text("Your decision is recorded")
            await page.get_by_role("link", name="The conversation").click()
            await expect(page.locator(".messages")).to_contain_text("It is done.")
            await expect(page.locator(".decisions")).to_contain_text(re.compile("refund approved by local"))
    assert len(runs_of(stack, "pages-1")) == 1


async def test_the_demo_waits_in_the_inbox_until_somebody_decides(tmp_path):
    command = [sys.executable, "-m", "holdfast.cli", "demo", "--inbox", "--port", "0"]
    environ = {**os.environ, "TMPDIR": str(tmp_path), "COLUMNS": "300"}
    with subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, text=True) as process:  # noqa: ASYNC220 - as users do
        try:
            lines = [await asyncio.wait_for(asyncio.to_thread(process.stdout.readline), WITHIN_S) for _ in range(4)]
            async with browsing() as browser:
                page = await (await browser.new_context()).new_page()
                page.set_default_timeout(WITHIN_S * 1000)
                await page.goto(next(line.strip() for line in lines if "/signin/" in line))
                await page.get_by_role("button", name="Sign in").click()
                await expect(page.locator(".row", has_text="mugs-1003")).to_have_count(2)
                await page.locator(".row", has_text="mugs-1003").filter(has_text="Approval").locator("a").click()
                await page.get_by_role("button", name="Approve").click()
                await page.get_by_role("link", name="The conversation").click()
                await page.get_by_role("link", name="ask_customer").click()
                await page.get_by_label("Answer").select_option("card")
                await page.get_by_role("button", name="Send the answer").click()
                await page.get_by_role("link", name="The conversation").click()
                await expect(page.locator(".messages")).to_contain_text("is done.")
        finally:
            process.send_signal(signal.SIGINT)
            assert process.wait(WITHIN_S) == 0
    assert list(tmp_path.iterdir()) == []
