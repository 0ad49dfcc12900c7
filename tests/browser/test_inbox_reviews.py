"""Reviews, reasons and calls of one answer in a real browser: the keyboard, a phone, no scripts, hostile words."""

import json

import pytest
from playwright.async_api import expect
from served import served
from waiting_calls import APP, all_waiting, narrowed, settled, waiting

HOSTILE = "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">[x](javascript:alert(1))"
SCHEMA = '{"type":"object","properties":{"subject":{"type":"string"}},"required":["subject"]}'


@pytest.fixture
def server():
    with served() as running:
        running.stack._app = APP
        yield running
        running.drain()


async def opened(page, server, name):
    """The inbox, with the first call of a conversation open."""
    await page.goto(f"{server.url}/inbox")
    await page.locator(".row", has_text=name).first.locator("a").click()
    await expect(page.locator("article.call")).to_be_visible()


def said(server, name):
    end = settled(server, name)
    return end.by.value, json.loads(end.body)


async def test_a_review_is_sent_back_in_place_once_it_has_notes(server, page):
    waiting(server, "c-1", "review")
    await opened(page, server, "c-1")
    await expect(page.get_by_role("heading", name="Publish the July report?")).to_be_visible()
    await expect(page.get_by_role("group", name="The report").locator("strong").last).to_have_text("Refunds")

    await page.get_by_role("button", name="Send back").click()
    await expect(page.locator("#decide .notice")).to_contain_text("what is to be revised")
    await expect(page.get_by_label("Notes, for the agent")).to_be_focused()
    await page.get_by_label("Notes, for the agent").fill("Leave the complaints out.\nThen ask again.")
    await page.get_by_role("button", name="Send back").click()

    await expect(page.locator(".outcome")).to_contain_text("Sent back")
    await expect(page.locator(".row .ended")).to_contain_text("by you")
    notes = "Leave the complaints out.\nThen ask again."
    assert said(server, "c-1") == ("review", {"verdict": "review", "notes": notes})
    page.mishaps.clear()  # the refusal of no notes is one of HTTP, too


async def test_the_keyboard_alone_allows_blocks_and_writes_notes(server, page):
    now = server.run(server.store.now())
    waiting(server, "c-1", "review", now=now, review={"response_schema": SCHEMA})
    waiting(server, "c-2", "review", now=now + 1)
    await opened(page, server, "c-1")

    await page.keyboard.press("a")
    await expect(page.get_by_role("button", name="Allow")).to_be_focused()
    await page.keyboard.press("Enter")
    await expect(page.locator(".outcome")).to_contain_text("Allowed")
    await page.keyboard.press("n")
    await expect(page.locator("article.call")).to_contain_text("c-2")
    await page.keyboard.press("d")
    await expect(page.get_by_label("Notes, for the agent")).to_be_focused()
    await page.keyboard.type("not yet")
    await page.keyboard.press("Enter")  # a new line, and no verdict
    await page.keyboard.press("Tab")
    await page.keyboard.press("Tab")
    await expect(page.get_by_role("button", name="Block")).to_be_focused()
    await page.keyboard.press("Enter")
    await expect(page.locator(".outcome")).to_contain_text("Blocked")

    assert said(server, "c-1") == ("review", {"verdict": "allow", "notes": ""})
    assert said(server, "c-2") == ("review", {"verdict": "block", "notes": "not yet\n"})


async def test_on_a_phone_a_review_fits_and_its_verdicts_are_as_wide_as_each_other(browser, server):
    long = "x" * 4000 + "\n\n| a | b |\n|-|-|\n|" + "wide" * 200 + "|2|\n" + "line\n\n" * 400
    waiting(server, "c-1", "review", review={"report_md": long, "payload": json.dumps({"x" * 300: "y" * 3000})})
    context = await browser.new_context(viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    page = await context.new_page()
    await page.goto(f"{server.url}/inbox")

    await page.locator(".row a").tap()
    boxes = [await page.get_by_role("button", name=name).bounding_box() for name in ("Allow", "Block", "Send back")]
    width = await page.evaluate("document.documentElement.scrollWidth")
    report = await page.get_by_role("group", name="The report").bounding_box()
    await page.get_by_role("button", name="Allow").tap()
    await expect(page.locator(".outcome")).to_contain_text("Allowed")

    assert width <= 390
    assert report["height"] < 500  # bounded, however long it is
    assert len({round(box["width"]) for box in boxes}) == 1
    assert min(box["height"] for box in boxes) >= 44
    await context.close()


async def test_without_scripts_a_review_is_sent_back_and_a_call_cancelled_with_a_reason(browser, server):
    waiting(server, "c-1", "review")
    waiting(server, "c-2")
    context = await browser.new_context(java_script_enabled=False)
    page = await context.new_page()
    await page.goto(f"{server.url}/inbox?q=c-1")
    await page.locator(".row a").click()
    await page.get_by_label("Notes, for the agent").fill("Leave the complaints out.")
    await page.get_by_role("button", name="Send back").click()
    await expect(page.locator(".outcome")).to_contain_text("Sent back")

    await page.goto(f"{server.url}/inbox?q=c-2")
    await page.locator(".row a").click()
    await expect(page.get_by_role("button", name="Cancel the call")).to_be_hidden()
    await page.get_by_text("Cancel instead").click()
    await page.get_by_label("Reason of the cancellation").fill("It came twice.")
    await page.get_by_role("button", name="Cancel the call").click()
    await expect(page.locator(".outcome")).to_contain_text("Cancelled")

    assert said(server, "c-1")[1]["notes"] == "Leave the complaints out."
    end = settled(server, "c-2")
    assert (end.by.value, end.reason) == ("cancellation", "It came twice.")
    await context.close()


async def test_what_was_typed_into_each_form_of_a_call_is_there_again_in_its_own(server, page):
    waiting(server, "c-1", spec=narrowed("approve", "edit", "deny", "answer", response_schema=SCHEMA))
    waiting(server, "c-2")
    await opened(page, server, "c-1")
    await page.get_by_label("subject").fill("an answer")
    await page.get_by_label("Reason, for the agent", exact=True).fill("a denial")
    await page.get_by_text("Cancel instead").click()
    await page.get_by_label("Reason of the cancellation").fill("a cancellation")
    await page.get_by_text("Add a reason").first.click()
    await page.get_by_label("Reason, for the log").first.fill("an approval")

    await page.locator(".row", has_text="c-2").locator("a").click()
    await expect(page.locator("article.call")).to_contain_text("c-2")
    await page.locator(".row", has_text="c-1").locator("a").click()

    await expect(page.get_by_label("subject")).to_have_value("an answer")
    await expect(page.get_by_label("Reason, for the agent", exact=True)).to_have_value("a denial")
    await expect(page.get_by_label("Reason of the cancellation")).to_have_value("a cancellation")
    await expect(page.get_by_label("Reason, for the log").first).to_have_value("an approval")
    await expect(page.get_by_role("button", name="Cancel the call")).to_be_visible()
    await page.keyboard.press("Escape")
    await page.keyboard.press("a")
    await expect(page.get_by_role("button", name="Approve", exact=True)).to_be_focused()
    await page.keyboard.press("Enter")
    await expect(page.locator(".outcome")).to_contain_text("an approval")
    assert (settled(server, "c-1").by.value, settled(server, "c-1").reason) == ("approve", "an approval")


async def test_the_calls_of_one_answer_are_opened_and_decided_from_one_of_them(server, page):
    all_waiting(server, "c-1", calls=3, prompt="Refund it?")
    await opened(page, server, "c-1")

    await expect(page.get_by_role("heading", name="2 more of the same answer")).to_be_visible()
    await page.get_by_role("region", name="Of the same answer").get_by_role("link").last.click()
    await expect(page.locator("article.call")).to_be_visible()
    await page.get_by_role("button", name="Look at all 3 together").click()
    await expect(page.locator("article.card")).to_have_count(3)
    await page.get_by_text("Add a reason").click()
    await page.get_by_label("Reason, for the log").fill("all of them are broken")
    await page.get_by_role("button", name="Approve (3)").click()

    await expect(page.get_by_role("heading", name="3 of 3 approved")).to_be_visible()
    assert settled(server, "c-1").reason == "all of them are broken"


async def test_hostile_words_of_a_tool_are_shown_and_do_nothing(server, page):
    long = HOSTILE + "\n\n" + "<b>" * 2000 + "\n" * 50 + "end of the report \u202eabc"
    payload = json.dumps({HOSTILE: [HOSTILE], "rtl": "\u05d0 \u202eabc", "long": "z" * 100_000})
    review = {"title": HOSTILE[:190], "message": HOSTILE, "report_md": long, "payload": payload, "action": "<b>x</b>"}
    waiting(server, "c-1", "review", review=review)
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    await opened(page, server, "c-1")

    await expect(page.get_by_role("group", name="The report")).to_contain_text("end of the report \\u202eabc")
    await expect(page.get_by_role("group", name="The data")).to_contain_text("<script>")
    await expect(page.locator("article.call h2")).to_contain_text("<script>")
    allow = await page.get_by_role("button", name="Allow").bounding_box()
    await page.get_by_label("Notes, for the agent").fill(HOSTILE)
    await page.get_by_role("button", name="Block").click()
    await expect(page.locator(".outcome")).to_contain_text("Blocked")
    await page.goto(f"{server.url}/conversations/c-1")
    await expect(page.locator(".decisions")).to_contain_text("<script>")

    assert allow["y"] < 1800
    assert (await page.title()).startswith("c-1 ")
    assert await page.locator("a[href^='javascript']").count() == 0
    assert all(url.startswith(server.url) for url in asked)
    assert said(server, "c-1") == ("review", {"verdict": "block", "notes": HOSTILE})


async def test_after_a_refusal_enter_decides_nothing(server, page):
    waiting(server, "c-1", "review")
    await opened(page, server, "c-1")
    await page.get_by_label("Notes, for the agent").fill("Я" * 2_500)  # more bytes than a note may have
    await page.get_by_role("button", name="Block").click()

    await expect(page.locator("#decide .notice")).to_contain_text("are allowed")
    await expect(page.locator("#decide .notice")).to_be_focused()
    await page.get_by_label("Notes, for the agent").evaluate("field => { field.value = 'no' }")
    await page.keyboard.press("Enter")
    await expect(page.locator(".row .ended")).to_have_count(0)
    await expect(page.get_by_role("button", name="Block")).to_be_visible()
    page.mishaps.clear()  # the refusal is one of HTTP, too
