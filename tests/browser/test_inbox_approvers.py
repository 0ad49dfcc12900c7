"""The inbox in a real browser, of calls that several people decide: votes in place, edits, several at once."""

import pytest
from deciding_people import behind_a_proxy, for_two, signed_in
from playwright.async_api import expect
from writer import escalate

from holdfast.backoff import wall_ms
from holdfast.client import Principal, Proof
from holdfast.conversation import Approvers

CY = Principal("cy", roles=["support"], proof=Proof.PROXY)


@pytest.fixture
def server():
    with behind_a_proxy() as running:
        yield running
        running.drain()


async def opened(page, server, who, name):
    """Somebody's inbox, with the call of a conversation open."""
    await signed_in(page, who)
    await page.goto(f"{server.url}/inbox")
    await page.locator(".row", has_text=name).locator("a").click()
    await expect(page.locator("article.call")).to_be_visible()
    return page


def votes(writer):
    return [event.principal.id for event in writer.events if event.kind == "vote_cast"]


async def test_a_vote_is_said_in_place_and_the_call_still_waits_for_the_others(server, browser, page):
    writer = for_two(server, "v-1")
    await opened(page, server, "bo", "v-1")
    await expect(page.locator("#decide")).to_contain_text("0 of 2 have agreed.")
    await expect(page.get_by_text("Also allow later calls")).to_have_count(
        0
    )  # of what several decide, nothing runs without asking
    await page.get_by_text("Add a reason").first.click()
    await page.get_by_label("Reason, for the log").first.fill("it is due")
    await page.get_by_role("button", name="Approve", exact=True).click()

    await expect(page.locator("#decide [role=status]")).to_have_text(
        "1 of 2 have agreed: bo. You have agreed; others must agree too. You can still deny it."
    )
    await expect(page.locator("#decide [role=status]")).to_be_focused()
    await expect(page.locator(".row .noted")).to_have_text("1 of 2 have agreed")
    await expect(page.locator(".row .ended")).to_have_count(0)
    await expect(page.locator(".row.settled, article.settled, .row.sending")).to_have_count(0)
    await expect(page.locator("#notice > p")).to_have_count(0)
    await expect(page.get_by_role("button", name="Deny", exact=True)).to_be_enabled()

    await expect(page.get_by_role("button", name="Approve", exact=True)).to_have_count(0)
    await expect(page.get_by_role("link", name="Edit the arguments, to approve them")).to_be_visible()
    assert votes(writer) == ["bo"]

    context = await browser.new_context()
    hers = await opened(await context.new_page(), server, "eve", "v-1")
    await expect(hers.locator("#decide [role=status]")).to_have_text("1 of 2 have agreed: bo.")
    await hers.get_by_role("button", name="Approve", exact=True).click()
    await expect(hers.locator(".outcome")).to_contain_text("Your decision is recorded")
    await expect(page.locator(".row .ended")).to_contain_text("approved by eve")
    await expect(page.locator("#decide .outcome")).to_contain_text("This call no longer waits")
    await context.close()


async def test_what_others_say_shows_while_the_call_is_open_and_what_is_typed_stays(server, browser, page):
    writer = for_two(server, "v-5")
    await opened(page, server, "bo", "v-5")
    await page.get_by_label("Reason, for the agent").fill("not yet")
    await page.get_by_label("Comment, for the others").fill("half a thought")

    context = await browser.new_context()
    hers = await opened(await context.new_page(), server, "eve", "v-5")
    await hers.get_by_role("button", name="I'm on it").click()
    await expect(page.locator("#together")).to_contain_text("eve has taken it on.")
    await expect(page.locator(".row .noted")).to_have_text("eve is on it")
    await hers.get_by_label("Comment, for the others").fill("Which order?")
    await hers.get_by_role("button", name="Comment", exact=True).click()
    await expect(page.locator("#together li")).to_contain_text("Which order?")
    await hers.get_by_role("button", name="Approve", exact=True).click()

    await expect(page.locator("#agreed")).to_have_text("1 of 2 have agreed: eve.")
    await expect(page.locator(".row .noted")).to_have_text("1 of 2 have agreed · eve is on it · 1 comment")
    await expect(page.get_by_label("Comment, for the others")).to_be_focused()
    await expect(page.get_by_label("Comment, for the others")).to_have_value("half a thought")
    await expect(page.get_by_label("Reason, for the agent")).to_have_value("not yet")
    await page.get_by_role("button", name="Approve", exact=True).click()
    await expect(page.locator(".outcome")).to_contain_text("Your decision is recorded")
    assert votes(writer) == ["eve"]
    await context.close()


async def test_whom_a_call_is_escalated_to_sees_its_form_and_its_new_deadline_on_an_open_page(server, browser, page):
    writer = for_two(server, "v-6", now=wall_ms() - 60_000)
    (suspension_id,) = writer.suspension_ids
    await opened(page, server, "bo", "v-6")
    context = await browser.new_context()
    hers = await signed_in(await context.new_page(), "cy", "support")
    await hers.goto(f"{server.url}/inbox")
    await hers.locator(".row a").click()
    await expect(hers.locator("#decide")).to_contain_text("You may not decide this")
    row, left = hers.locator(f"#row-{suspension_id}"), hers.locator("article .line time")
    before = await row.get_attribute("data-expires")
    await expect(left).to_have_attribute("data-until", before)

    await page.get_by_text("Let others decide").click()
    await page.get_by_label("Roles and ids").fill("role:support, id:zoe")
    await page.get_by_role("button", name="Let them decide").click()
    await expect(page.locator("#decide")).to_contain_text("You may not decide this")

    await expect(hers.get_by_role("button", name="Approve", exact=True)).to_be_visible()
    await expect(hers.locator("#said")).to_contain_text("It was escalated")
    await expect(row.locator(".noted")).to_have_text("escalated to 2 of role:support, id:zoe, but not who asked")
    after = await row.get_attribute("data-expires")
    assert int(after) > int(before)
    for shown in (left, row.locator("time.left")):
        await expect(shown).to_have_attribute("data-until", after)
    await hers.get_by_label("Reason, for the agent").fill("half a thought")
    server.run(writer.do(escalate(Approvers("id:cy").terms, principal=CY)))
    await expect(hers.locator("#said")).to_contain_text("id:cy")
    await expect(left).to_have_attribute("data-until", await row.get_attribute("data-expires"))
    await expect(hers.get_by_label("Reason, for the agent")).to_have_value("half a thought")
    await context.close()


async def test_a_call_that_somebody_hides_elsewhere_leaves_their_open_lists_until_its_time_comes(server, browser, page):
    for_two(server, "v-7")
    for_two(server, "v-8")
    await signed_in(page, "bo")
    await page.goto(f"{server.url}/inbox")
    context = await browser.new_context()
    others = await signed_in(await context.new_page(), "eve")
    await others.goto(f"{server.url}/inbox")
    tab = await opened(await page.context.new_page(), server, "bo", "v-7")

    await tab.get_by_role("button", name="Not now").click()
    for shown in (page, tab):
        await expect(shown.locator("#rows .row")).to_have_count(1)
        await expect(shown.locator("[data-count]")).to_have_text("1")
    await tab.get_by_role("button", name="Show it again").click()
    for shown in (page, tab):
        await expect(shown.locator("#rows .row")).to_have_count(2)

    await tab.evaluate("document.querySelector('#snooze-for option').value = '1'")  # no option is so short
    await tab.get_by_role("button", name="Not now").click()
    for number in (1, 2):
        for shown in (page, tab):
            await expect(shown.locator("#rows .row")).to_have_count(number)
    await expect(others.locator("#rows .row")).to_have_count(2)
    await context.close()


async def test_an_edit_with_a_vote_leads_to_the_call_with_the_edited_arguments(server, page):
    writer = for_two(server, "v-2", arguments='{"order":"A1042","amount":40}')
    (before,) = writer.suspension_ids
    await opened(page, server, "bo", "v-2")
    await page.get_by_role("link", name="Edit the arguments").click()
    await page.get_by_label("amount").fill("12")
    await page.get_by_role("button", name="Show what changes").click()
    await page.get_by_role("button", name="Approve these arguments").click()

    await expect(page.locator("#decide [role=status]")).to_contain_text("1 of 2 have agreed: bo.")
    (after,) = writer.suspension_ids
    assert after != before
    await expect(page.locator("article.call")).to_have_attribute("data-id", after)
    await expect(page.locator("article.call .work")).to_contain_text("12")
    assert after in page.url
    await expect(page.locator(f"#row-{before} .ended")).to_contain_text("asked anew")
    await page.mouse.move(1270, 700)
    await expect(page.locator(f"#row-{after}")).to_be_visible()
    await expect(page.locator("article.settled")).to_have_count(0)


async def test_several_at_once_say_which_decisions_were_votes(server, page):
    for_two(server, "v-3")
    writer = for_two(server, "v-4")
    await signed_in(page, "bo")
    await page.goto(f"{server.url}/inbox")
    for box in await page.locator("#rows input").all():
        await box.check()
    await page.locator("#several-button").click()
    await page.get_by_role("button", name="Approve (2)").click()

    await expect(page.locator("h1")).to_have_text("0 of 2 approved, 2 wait for others")
    await expect(page.locator("tbody tr").first).to_contain_text("you have agreed, and it still waits: 1 of 2 have agreed")
    assert votes(writer) == ["bo"]
