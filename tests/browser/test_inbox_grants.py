"""Scopes and grants in a real browser: one click for what a call touches, fields for the rest, and the end of what stands."""

import pytest
from playwright.async_api import expect
from served import served
from waiting_calls import APP, events_of, waiting
from writer import call, finish

from holdfast.conversation import CallTarget

PATH = CallTarget(kind="path", value="src/a.py", level="write")


@pytest.fixture
def server():
    with served() as running:
        running.stack._app = APP
        yield running
        running.drain()


def given(server, name):
    return [(event.grant.kind, event.grant.pattern, event.grant.level) for event in of_kind(server, name, "grant_given")]


def of_kind(server, name, kind):
    return [event for event in events_of(server, name) if event.kind == kind]


async def opened(page, server, name):
    """The inbox, with a call open and what else may be allowed unfolded."""
    await page.goto(f"{server.url}/inbox?q={name}")
    await page.locator(".row a").click()
    await page.get_by_text("Also allow later calls").click()


async def test_what_the_call_touches_is_allowed_with_one_click(server, page):
    waiting(server, "c-1", targets=(PATH,))
    await opened(page, server, "c-1")

    await page.get_by_role("button", name="Approve, and from now on src/a.py").click()

    await expect(page.locator(".outcome")).to_contain_text("Later calls run without asking, too: src/a.py (path, up to write)")
    assert given(server, "c-1") == [("path", "src/a.py", "write")]


async def test_a_bad_pattern_is_told_beside_its_field_and_what_was_typed_stays(server, page):
    waiting(server, "c-1", targets=(PATH,))
    await opened(page, server, "c-1")
    await page.get_by_text("Something else").click()
    await page.get_by_label("Pattern").fill("**")
    await page.get_by_label("Pattern").press("Enter")  # in a field, it gives nothing
    await expect(page.locator("#decide .notice")).to_contain_text("choose what later calls may do")

    await page.get_by_text("Something else").click()
    await page.get_by_role("button", name="Approve, and allow this").click()
    pattern = page.get_by_label("Pattern")
    await expect(page.locator("#scope-pattern-problem")).to_contain_text("covers every path")
    await expect(pattern).to_be_focused()
    await expect(pattern).to_have_value("**")
    assert given(server, "c-1") == []

    await pattern.fill("src/**")
    await page.get_by_role("button", name="Approve, and allow this").click()
    await expect(page.locator(".outcome")).to_contain_text("src/**")
    assert given(server, "c-1") == [("path", "src/**", "write")]
    page.mishaps.clear()  # the refusals are some of HTTP, too


async def test_a_scope_that_was_begun_is_there_again_when_its_call_is(server, page):
    waiting(server, "c-1", targets=(PATH,))
    waiting(server, "c-2")
    await page.goto(f"{server.url}/inbox")
    await page.locator(".row", has_text="c-1").locator("a").click()
    await page.get_by_text("Also allow later calls").click()
    await page.get_by_text("Something else").click()
    await page.get_by_label("Pattern").fill("src/**")

    await page.locator(".row", has_text="c-2").locator("a").click()
    await expect(page.locator("article.call")).to_contain_text("c-2")
    await page.locator(".row", has_text="c-1").locator("a").click()

    await expect(page.get_by_label("Pattern")).to_be_visible()
    await expect(page.get_by_label("Pattern")).to_have_value("src/**")


async def test_a_grant_is_revoked_beside_a_call_and_on_the_page_of_its_conversation(server, page):
    waiting(server, "c-1", targets=(PATH,))
    await opened(page, server, "c-1")
    await page.get_by_role("button", name="Approve, and from now on src/a.py").click()
    await expect(page.locator(".outcome")).to_be_visible()
    server.run(server.stack.writers["c-1"].do(finish(), call("refund")))
    await opened(page, server, "c-1")
    await page.get_by_role("button", name="Approve, and all calls of refund").click()
    await expect(page.locator(".outcome")).to_be_visible()
    server.run(server.stack.writers["c-1"].do(finish(), call("ship")))

    await page.goto(f"{server.url}/conversations/c-1")
    await page.get_by_role("button", name="Revoke refund").click()
    await expect(page.get_by_role("button", name="Revoke refund")).to_have_count(0)
    await page.get_by_role("button", name="Revoke src/a.py").click()
    await expect(page.get_by_role("region", name="Grants")).to_have_count(0)

    assert len(of_kind(server, "c-1", "grant_revoked")) == 2


async def test_on_a_phone_the_scope_fits_and_the_keyboard_alone_gives_one(browser, server):
    long = CallTarget(kind="path", value="src/" + "x" * 240, level="write")
    waiting(server, "c-1", targets=(long,))
    context = await browser.new_context(viewport={"width": 390, "height": 844})
    page = await context.new_page()
    await opened(page, server, "c-1")
    await page.get_by_text("Something else").click()

    assert await page.evaluate("document.documentElement.scrollWidth") <= 390
    await page.get_by_role("button", name="Approve, and from now on").focus()
    await page.keyboard.press("Enter")
    await expect(page.locator(".outcome")).to_contain_text("Later calls run without asking, too")

    assert given(server, "c-1") == [("path", long.value, "write")]
    assert await page.evaluate("document.documentElement.scrollWidth") <= 390
    await context.close()
