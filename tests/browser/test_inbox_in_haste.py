"""Somebody who is quick, on a slow network: what is decided is what is shown, and what became of each decision is said."""

import asyncio
import re

import pytest
from playwright.async_api import expect
from served import served
from waiting_calls import APP, events_of, settled, waiting

from holdfast.client import Deny
from holdfast.client.async_client import acting_for
from holdfast.conversation import Principal, Proof
from holdfast.server import Authentication


@pytest.fixture
def server():
    with served() as running:
        running.stack._app = APP
        now = running.run(running.store.now())
        running.ids = {f"c-{number}": waiting(running, f"c-{number}", now=now + number) for number in range(4)}
        yield running
        running.drain()


def row(page, name):
    return page.locator(".row", has_text=name)


async def shown(page, name):
    await row(page, name).locator("a").click()
    await expect(page.locator("article.call")).to_contain_text(name)


def held(page, pattern, method):
    """Hold the first request of a kind back until the event that is returned is set."""
    free = asyncio.Event()

    async def hold(route):
        if route.request.method == method and not free.is_set():
            await free.wait()
        await route.continue_()

    return free, page.route(pattern, hold)


def undecided(server, *names):
    return all(events_of(server, name)[-1].kind == "call_suspended" for name in names)


async def test_while_a_call_is_fetched_no_other_can_be_decided(server, page):
    await page.goto(f"{server.url}/inbox")
    await shown(page, "c-0")
    free, routing = held(page, f"**/inbox/{server.ids['c-1']}*", "GET")
    await routing

    await row(page, "c-1").locator("a").click()
    await expect(page.locator("#detail")).to_have_text("Loading …")
    await page.keyboard.press("a")
    await page.keyboard.press("Enter")
    await row(page, "c-2").locator("a").click()
    await expect(page.locator("article.call")).to_contain_text("c-2")
    free.set()
    await page.evaluate("fetch('/health')")  # what comes late has come by then

    await expect(page.locator("article.call")).to_contain_text("c-2")
    await expect(page).to_have_url(re.compile(server.ids["c-2"]))
    assert undecided(server, *server.ids)


async def test_a_call_that_cannot_be_fetched_says_so_in_its_place(server, page):
    await page.goto(f"{server.url}/inbox")
    await shown(page, "c-0")
    await page.route(f"**/inbox/{server.ids['c-1']}*", lambda route: route.abort())

    await row(page, "c-1").locator("a").click()
    await expect(page.locator("#detail")).to_contain_text("could not be fetched")
    await page.unroute(f"**/inbox/{server.ids['c-1']}*")
    await page.get_by_role("button", name="Try again").click()

    await expect(page.locator("article.call")).to_contain_text("c-1")
    assert undecided(server, *server.ids)
    page.mishaps.clear()  # the requests that were cut


async def test_the_keys_decide_the_row_that_has_the_focus_and_no_other(server, page):
    await page.goto(f"{server.url}/inbox")
    await shown(page, "c-0")

    await page.keyboard.press("j")
    await page.keyboard.press("a")
    await expect(page.get_by_role("button", name="Approve")).to_be_focused()
    await expect(page.locator("article.call")).to_contain_text("c-1")
    await page.keyboard.press("Enter")

    await expect(page.locator(".outcome")).to_contain_text("Approved")
    assert settled(server, "c-1").by == "approve"
    assert undecided(server, "c-0", "c-2", "c-3")


async def test_enter_in_the_reason_for_several_denies_them(server, page):
    await page.goto(f"{server.url}/inbox")
    for name in ("c-0", "c-1"):
        await row(page, name).get_by_role("checkbox").check()
    await page.get_by_role("button", name="Decide the 2 that are marked").click()

    await page.get_by_label("Reason, for the agents").fill("fraud")
    await page.keyboard.press("Enter")

    await expect(page.get_by_role("heading", name="2 of 2 denied")).to_be_visible()
    assert [(settled(server, name).by, settled(server, name).body) for name in ("c-0", "c-1")] == [("deny", '"fraud"')] * 2


async def test_a_decision_that_comes_too_late_is_said_although_somebody_is_elsewhere_by_now(server, browser):
    page = await (await browser.new_context()).new_page()
    await page.route("**/inbox-feed*", lambda route: route.abort())
    await page.goto(f"{server.url}/inbox")
    await shown(page, "c-0")
    free, routing = held(page, f"**/inbox/{server.ids['c-0']}*", "POST")
    await routing

    await page.get_by_role("button", name="Approve").click()
    await expect(row(page, "c-0")).to_contain_text("being decided")
    await shown(page, "c-1")
    ana = acting_for(server.client, Principal("ana", proof=Proof.KEY))
    await asyncio.to_thread(lambda: server.run(ana.resolve(server.ids["c-0"], Deny(), conversation_id="c-0")))
    free.set()

    await expect(page.locator("#notice")).to_contain_text(
        "refund: your decision was not accepted, since it was denied by ana before."
    )
    await expect(row(page, "c-0").locator(".ended")).to_contain_text("denied")
    await expect(page.locator("article.call")).to_contain_text("c-1")


async def test_a_decision_that_is_lost_is_said_on_its_row_and_led_back_to(server, browser):
    page = await (await browser.new_context()).new_page()
    free = asyncio.Event()

    async def lose(route):
        if route.request.method != "POST" or free.is_set():
            await route.continue_()
        else:
            await free.wait()
            await route.abort()

    await page.route(f"**/inbox/{server.ids['c-0']}*", lose)
    await page.goto(f"{server.url}/inbox")
    await shown(page, "c-0")
    await page.get_by_role("button", name="Approve").click()
    await shown(page, "c-1")
    free.set()

    await expect(page.locator("#notice")).to_contain_text("refund: The server was not reached")
    await expect(row(page, "c-0")).to_contain_text("not decided")
    await page.get_by_role("link", name="Show it").click()
    await expect(page.locator("article.call")).to_contain_text("c-0")
    await page.get_by_role("button", name="Approve").click()

    await expect(page.locator(".outcome")).to_contain_text("Your decision is recorded")
    await expect(page.locator("#notice")).to_be_hidden()
    assert settled(server, "c-0").by == "approve"


async def test_what_was_typed_into_a_call_is_there_again_and_marks_outlast_a_filter(server, page):
    await page.goto(f"{server.url}/inbox")
    await row(page, "c-2").get_by_role("checkbox").check()
    await shown(page, "c-0")
    await page.get_by_label("Reason, for the agent").fill("half a sentence")
    await shown(page, "c-1")
    await page.get_by_label("Any tool").select_option("refund")
    await expect(page).to_have_url(re.compile("c-1|tool=refund"))
    await shown(page, "c-0")

    await expect(page.get_by_label("Reason, for the agent")).to_have_value("half a sentence")
    await expect(page.get_by_role("button", name="Decide the 1 that are marked")).to_be_visible()
    await expect(row(page, "c-2").get_by_role("checkbox")).to_be_checked()


async def test_an_answer_takes_the_focus_from_nobody_who_types(server, page):
    await page.goto(f"{server.url}/inbox")
    await shown(page, "c-0")
    free, routing = held(page, f"**/inbox/{server.ids['c-0']}*", "POST")
    await routing

    await page.get_by_role("button", name="Approve").click()
    await page.get_by_label("Search").focus()
    free.set()
    await expect(page.locator(".outcome")).to_be_visible()

    await expect(page.get_by_label("Search")).to_be_focused()


async def test_who_was_signed_out_is_told_and_keeps_what_was_typed(browser):
    with served(authentication=Authentication()) as server:
        suspension_id = waiting(server, "c-1")
        _, key = server.run(server.client.access.create_key("ana", ["read", "decide"]))
        page = await (await browser.new_context()).new_page()
        await page.goto(f"{server.url}/inbox/{suspension_id}?conversation_id=c-1")
        await page.get_by_label("API key").fill(key)
        await page.get_by_role("button", name="Sign in").click()
        await page.get_by_label("Reason, for the agent").fill("it was delivered")
        await page.context.clear_cookies()
        await page.keyboard.press("Enter")

        await expect(page.locator("#notice")).to_contain_text("You are signed out")
        await expect(page.get_by_label("Reason, for the agent")).to_have_value("it was delivered")
        await expect(page.get_by_role("link", name="Sign in again")).to_have_attribute("href", re.compile(suspension_id))
        assert undecided(server, "c-1")
        server.drain()


async def test_long_runs_of_nothing_and_look_alike_names_are_seen(server, page):
    memo = "Refund for the mug." + "\n" * 120 + "and send 100000 to MALLORY"
    waiting(server, "c-9", arguments={"order": memo, "amount": "100", "amount ": 100_000, "note": ""})
    await page.goto(f"{server.url}/inbox")
    await shown(page, "c-9")

    arguments = page.locator("article.call .arguments")
    await expect(arguments).to_contain_text("119 empty lines")
    await expect(arguments).to_contain_text("121 lines")
    await expect(arguments.get_by_text("and send 100000 to MALLORY")).to_be_in_viewport()
    await expect(arguments).to_contain_text('"amount "')
    await expect(arguments).to_contain_text('"100"')
    await expect(arguments).to_contain_text('""')


async def test_many_tabs_leave_the_server_reachable(server, browser):
    context = await browser.new_context()
    pages = []
    for _ in range(8):
        page = await context.new_page()
        await page.goto(f"{server.url}/inbox")
        await page.evaluate(HIDE, arg=True)
        pages.append(page)
    page = pages[0]
    await page.evaluate(HIDE, arg=False)

    await shown(page, "c-0")
    await page.get_by_role("button", name="Approve").click()
    await expect(page.locator(".outcome")).to_contain_text("Your decision is recorded")
    await pages[5].evaluate(HIDE, arg=False)
    await expect(row(pages[5], "c-0")).to_have_count(0)


HIDE = """(hidden) => {
    Object.defineProperty(document, "hidden", { configurable: true, get: () => hidden });
    document.dispatchEvent(new Event("visibilitychange"));
}"""
"""A tab of a headless browser is never hidden by itself."""
