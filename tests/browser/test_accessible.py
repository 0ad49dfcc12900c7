"""What assistive technology finds on every page and in every state, light and dark: axe knows no violation."""

import pytest
from axe_playwright_python.async_playwright import Axe
from holdfast_page import held, opened, the
from playwright.async_api import expect
from served import served
from waiting_calls import APP, waiting
from writer import Writer, begin, call, fail_model, finish, start

from holdfast.client import Principal
from holdfast.server import Authentication

RULES = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}


@pytest.fixture
def server():
    with served() as running:
        running.stack._app = APP
        yield running
        running.drain()


async def check(page, what):
    found = (await Axe().run(page, options=RULES)).response["violations"]
    said = [f"{what}: {one['id']}: {node['target']}: {node['failureSummary']}" for one in found for node in one["nodes"]]
    assert not said, "\n".join(said)


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_every_page_and_state(server, browser, scheme):
    page = await (await browser.new_context(color_scheme=scheme)).new_page()
    await page.goto(f"{server.url}/inbox")
    await check(page, "an empty inbox")
    kinds = ["approval", "elicitation", "client_exec", "lost", "review", "limit"]
    ids = {kind: waiting(server, f"c-{kind}", kind, prompt="Do it?" if kind == "approval" else None) for kind in kinds}

    async def failed():
        writer = server.stack.writers["c-failed"] = await Writer.of(server.store, "c-failed")
        await writer.do(start("# hi\n\n- a\n- b\n\n|a|b|\n|-|-|\n|1|2|"), begin(), fail_model())

    server.run(failed())
    await page.goto(f"{server.url}/inbox")
    await expect(page.locator(".row")).to_have_count(6)
    await page.locator(".row input").first.check()
    await check(page, "an inbox")
    for kind in kinds:
        await page.goto(f"{server.url}/inbox/{ids[kind]}?conversation_id=c-{kind}")
        for folded in await page.locator("#decide summary, #together summary").all():
            await folded.click()
        await check(page, kind)
    await page.goto(f"{server.url}/inbox/{ids['review']}?conversation_id=c-review")
    await page.get_by_role("button", name="Send back").click()
    await expect(page.locator("#decide .notice")).to_be_visible()
    await check(page, "a review without notes")
    await page.goto(f"{server.url}/inbox/{ids['approval']}?conversation_id=c-approval&edit=1")
    await page.get_by_label("amount").fill("9000")
    await page.get_by_role("button", name="Show what changes").click()
    await expect(page.locator("#decide .notice")).to_be_visible()
    await check(page, "a form with a problem")
    await page.get_by_label("amount").fill("9")
    await page.get_by_role("button", name="Show what changes").click()
    await expect(page.locator(".difference")).to_be_visible()
    await check(page, "a difference")
    await page.keyboard.press("Escape")
    await page.get_by_role("button", name="Keys").click()
    await check(page, "the help")
    await page.get_by_role("button", name="Close").click()
    await page.get_by_role("button", name="Deny").click()
    await expect(page.locator(".outcome")).to_be_visible()
    await check(page, "a decided call")
    for path in ("/conversations", "/conversations/c-elicitation", "/conversations/c-approval", "/conversations/c-failed"):
        await page.goto(server.url + path)
        await check(page, path)
    for path in (
        "/problems",
        "/agents",
        "/conversations/none",
        "/conversations?agent=nobody",
        f"/inbox/{ids['approval']}?conversation_id=c-approval",
    ):
        await page.goto(server.url + path)
        await check(page, path)
    await page.goto(f"{server.url}/inbox")
    for row in await page.locator(".row input").all():
        await row.check()
    await page.locator("#several-button").click()
    await expect(page.get_by_role("heading", level=1)).to_contain_text("at once")
    await check(page, "several")


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_scopes_and_grants(server, browser, scheme):
    page = await (await browser.new_context(color_scheme=scheme)).new_page()
    await page.goto(f"{server.url}/inbox/{waiting(server, 'c-1')}?conversation_id=c-1")
    await page.get_by_text("Also allow later calls").click()
    await page.get_by_text("Something else").click()
    await page.get_by_label("Pattern").fill("*")
    await page.get_by_role("button", name="Approve, and allow this").click()
    await expect(page.locator("#decide .problem")).to_be_visible()
    await check(page, "a scope with a problem")
    await page.get_by_role("button", name="Approve, and all calls of refund").click()
    await expect(page.locator(".outcome")).to_be_visible()
    await check(page, "an approval with a scope")

    server.run(server.stack.writers["c-1"].do(finish(), call("ship")))
    (beside,) = [view.suspension_id for view in server.run(server.store.pending_of("c-1"))]
    for path in ("/conversations/c-1", f"/inbox/{beside}?conversation_id=c-1"):
        await page.goto(server.url + path)
        await expect(page.get_by_role("button", name="Revoke refund")).to_be_visible()
        await check(page, path)


async def test_the_elements_in_a_page_of_an_application(server, page):
    held(server, "c-1", "refund", "survey", "ask")
    await opened(page, server.url, "c-1")
    survey = the(page, "elicitation").get_by_role("group", name="survey")
    await survey.get_by_role("button", name="Send answer").click()
    await expect(survey.get_by_text("This is needed.")).to_have_count(4)
    await the(page, "approval").get_by_text("Also allow later calls").click()
    await the(page, "approval").get_by_text("Something else").click()
    await check(page, "the forms of the elements")


async def test_the_page_that_signs_in(browser):
    with served(authentication=Authentication()) as server:
        page = await (await browser.new_context()).new_page()
        await page.goto(f"{server.url}/inbox")
        await check(page, "signing in")
        await page.get_by_label("API key").fill("hf_nothing")
        await page.get_by_role("button", name="Sign in").click()
        await expect(page.get_by_role("alert")).to_be_visible()
        await check(page, "a key that is none")


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_the_page_of_a_link(server, browser, scheme):
    keys = {"link_keys": {"k1": b"1" * 32}, "public_url": server.url}
    server.stack.settings = server.stack.settings.model_copy(update=keys)
    page = await (await browser.new_context(color_scheme=scheme, viewport={"width": 380, "height": 700})).new_page()
    for kind in ("approval", "elicitation", "client_exec", "lost", "review"):
        suspension_id = waiting(server, f"l-{kind}", kind)
        link = server.run(server.client.link(suspension_id, to=Principal("ana", roles=["finance"])))
        await page.goto(link.url)
        await check(page, f"a link: {kind}")
    await page.get_by_role("button", name="Send back").click()
    await check(page, "a link: a review without notes")
    await page.get_by_role("button", name="Allow").click()
    await expect(page.get_by_role("status")).to_contain_text("recorded: allowed")
    await check(page, "a decision by a link")
    await page.goto(f"{link.url}x")
    await check(page, "no link")
    await page.goto(f"{server.url}/inbox/{waiting(server, 'l-inbox')}?conversation_id=l-inbox")
    await page.get_by_text("Have somebody decide by a link").click()
    await check(page, "the form that makes a link")
    await page.get_by_label("Who decides by it").fill("ana")
    await page.get_by_role("button", name="Make a link").click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("A link for ana")
    await check(page, "a link that was made")
