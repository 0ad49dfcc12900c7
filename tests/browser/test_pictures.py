"""The pictures of the pages in the docs: three widths, light and dark. `HOLDFAST_PICTURES=1` puts them into docs/pictures."""

import os
from pathlib import Path

import pytest
from deciding_people import behind_a_proxy, for_two, signed_in
from playwright.async_api import expect
from served import served
from waiting_calls import APP, waiting

from holdfast.client import Approve, Principal, Proof
from holdfast.client.async_client import acting_for
from holdfast.conversation import CallTarget

PICTURES = Path(__file__).parents[2] / "docs" / "pictures"
WIDTHS = {"wide": (1280, 800), "tablet": (820, 1100), "phone": (390, 844)}
REFUNDS = (
    ("A1042", 42.5, "The mug arrived broken; the customer sent a photo."),
    ("A1077", 18.0, "Delivered to the wrong address."),
    ("A1101", 240.0, "The whole set of six is missing its lids."),
    ("A1130", 9.9, "Charged twice for postage."),
)


REPORT = {
    "title": "Send the July report to 240 customers?",
    "message": "It goes out at once, and cannot be taken back.",
    "report_md": (
        "## July in three lines\n\n- **240** customers bought a mug, 12 more than in June\n"
        "- Refunds fell from 9 to **4**\n- One complaint is open: order `A2044`, lost on its way\n"
    ),
    "payload": '{"subject":"Your July report","recipients":240,"attachment":"july.pdf"}',
    "action": "send",
}


EDIT = {"path": "src/billing/invoice.py", "text": "total_cents = sum(line.cents for line in lines)"}
EDITED = (CallTarget(kind="path", value="src/billing/invoice.py", level="write"),)


@pytest.fixture
def server():
    with served() as running:
        running.stack._app = APP
        now = running.run(running.store.now())
        for number in range(36):
            order, amount, note = REFUNDS[number % len(REFUNDS)]
            arguments = {"order": f"{order[:-1]}{number}", "amount": amount, "note": note}
            prompt = f"Refund {amount:.2f} for order {arguments['order']}?"
            at = now - (52 - number) * 60_000
            waiting(
                running,
                f"order-{arguments['order']}",
                arguments=arguments,
                prompt=prompt,
                now=at,
                text=f"Hello, about **{order}**: {note}",
            )
        question = {"question": "Where should the money go?"}
        waiting(running, "order-A2099", "elicitation", question, prompt="Where should the money go?", now=now - 480_000)
        waiting(running, "order-A2044", "lost", {"order": "A2044", "address": "Elm Street 1"}, now=now - 900_000)
        waiting(
            running, "report-july", "review", {"month": "July"}, review=REPORT, now=now - 120_000, text="Send the July report."
        )
        waiting(
            running,
            "branch-rename",
            arguments=EDIT,
            prompt="Rename the total?",
            targets=EDITED,
            now=now - 60_000,
            text="Rename it.",
        )
        yield running
        running.drain()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
async def test_the_inbox_is_drawn(server, browser, tmp_path, width, scheme):
    folder = PICTURES if os.environ.get("HOLDFAST_PICTURES") == "1" else tmp_path
    wide, high = WIDTHS[width]
    page = await (await browser.new_context(viewport={"width": wide, "height": high}, color_scheme=scheme)).new_page()
    await page.goto(f"{server.url}/inbox")
    await page.locator(".row").nth(2).locator("a").click()
    await expect(page.locator("article.call")).to_be_visible()
    await page.mouse.move(wide - 5, high - 5)

    drawn = await page.screenshot(path=folder / f"inbox-{width}-{scheme}.png")

    assert len(drawn) > 20_000  # a blank page has a tenth of it
    assert await page.evaluate("document.documentElement.scrollWidth") <= wide
    ground = await page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    assert (ground == "rgb(246, 247, 248)") == (scheme == "light")


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_a_review_is_drawn(server, browser, tmp_path, scheme):
    folder = PICTURES if os.environ.get("HOLDFAST_PICTURES") == "1" else tmp_path
    page = await (await browser.new_context(viewport={"width": 1280, "height": 960}, color_scheme=scheme)).new_page()
    await page.goto(f"{server.url}/inbox")
    await page.locator(".row", has_text="report-july").locator("a").click()
    await expect(page.get_by_role("button", name="Send back")).to_be_visible()
    await page.mouse.move(1275, 955)

    drawn = await page.screenshot(path=folder / f"review-{scheme}.png")

    assert len(drawn) > 20_000
    seen = await page.get_by_role("button", name="Send back").bounding_box()
    assert seen["y"] + seen["height"] <= 960  # what decides a review of a common length is seen without scrolling


@pytest.fixture
def shared():
    """A server on which a call of two approvers has a vote, somebody who is on it, and comments."""
    with behind_a_proxy() as running:
        now = running.run(running.store.now())
        for number, (order, amount, note) in enumerate(REFUNDS):
            arguments = {"order": order, "amount": amount, "note": note}
            prompt = f"Refund {amount:.2f} for order {order}?"
            waiting(running, f"order-{order}", arguments=arguments, prompt=prompt, now=now - number * 400_000)
        arguments = '{"order":"A2044","amount":480,"note":"The whole order was lost on its way."}'
        name, prompt = "order-A2044", "Refund 480.00 for order A2044?"
        (suspension_id,) = for_two(running, name, arguments=arguments, prompt=prompt, now=now - 3_000_000).suspension_ids
        eve, bo = (acting_for(running.client, Principal(who, roles=["finance"], proof=Proof.PROXY)) for who in ("eve", "bo"))
        running.run(eve.resolve(suspension_id, Approve(), conversation_id=name))
        running.run(bo.conversation(name).assign(suspension_id))
        running.run(bo.conversation(name).comment(suspension_id, "Does the carrier's insurance pay for this one?"))
        running.run(eve.conversation(name).comment(suspension_id, "It does, up to 500. I have the form."))
        yield running
        running.drain()


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_an_approval_with_votes_and_comments_is_drawn(shared, browser, tmp_path, scheme):
    folder = PICTURES if os.environ.get("HOLDFAST_PICTURES") == "1" else tmp_path
    context = await browser.new_context(viewport={"width": 1280, "height": 960}, color_scheme=scheme)
    page = await signed_in(await context.new_page(), "bo")
    await page.goto(f"{shared.url}/inbox")
    await page.locator(".row", has_text="order-A2044").locator("a").click()
    await expect(page.locator("#decide [role=status]")).to_have_text("1 of 2 have agreed: eve.")
    await page.mouse.move(1275, 955)

    drawn = await page.screenshot(path=folder / f"approvers-{scheme}.png")

    assert len(drawn) > 20_000
    for part in (page.get_by_role("button", name="Approve", exact=True), page.get_by_text("I have the form.")):
        seen = await part.bounding_box()
        assert seen["y"] + seen["height"] <= 960  # votes, the buttons and what was written are seen at once


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_a_scope_is_drawn(server, browser, tmp_path, scheme):
    folder = PICTURES if os.environ.get("HOLDFAST_PICTURES") == "1" else tmp_path
    page = await (await browser.new_context(viewport={"width": 1280, "height": 960}, color_scheme=scheme)).new_page()
    await page.goto(f"{server.url}/inbox?q=branch-rename")
    await page.locator(".row a").click()
    await page.get_by_text("Also allow later calls").click()
    await page.get_by_text("Something else").click()
    await page.get_by_label("Pattern").fill("src/billing/**")
    await page.get_by_role("button", name="Approve, and allow this").scroll_into_view_if_needed()
    await page.mouse.move(1275, 955)

    drawn = await page.screenshot(path=folder / f"scope-{scheme}.png")

    assert len(drawn) > 20_000
    for name in ("Approve, and from now on", "Approve, and allow this"):  # a whole scope is seen at once
        seen = await page.get_by_role("button", name=name).bounding_box()
        assert seen["y"] >= 0
        assert seen["y"] + seen["height"] <= 960
