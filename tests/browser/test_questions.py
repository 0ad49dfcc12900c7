"""Questions in a real browser: the form of the inbox, and that of an application's own page."""

import json

import pytest
from holdfast_page import opened as page_opened
from holdfast_page import the
from playwright.async_api import expect
from served import served
from waiting_calls import settled, waiting

from holdfast.conversation import AgentSpec, Executor, Limits, ToolSpec

TRIP = {
    "questions": [
        {"id": "10", "text": "Where to?", "options": ["Rome", "Oslo"]},
        {"id": "2", "text": "What else?", "options": ["meal", "bag", "seat"], "multiple": True, "default": ["bag"]},
        {"id": "why", "text": "Why <b>there</b>?"},
        {"id": "note", "text": "Anything to add?", "required": False},
    ]
}
DESK = AgentSpec(
    name="desk",
    model="test/model",
    tools=(ToolSpec(name="ask", executor=Executor.HUMAN, questions=True),),
    limits=Limits(answer_timeout_s=3600),
)
ANSWERS = {"10": "Oslo", "2": ["meal", "bag"], "why": "the fjords"}


@pytest.fixture
def server():
    with served() as running:
        yield running
        running.drain()


def answered(server, name):
    found = settled(server, name)
    return found.by, json.loads(found.body)


async def test_the_inbox_asks_each_question_and_says_what_is_wrong_beside_it(server, page):
    waiting(server, "c-1", "elicitation", TRIP, spec=DESK)
    await page.goto(f"{server.url}/inbox")
    await page.locator(".row", has_text="c-1").locator("a").click()
    await expect(page.get_by_role("heading", name="Where to? (and 3 more)")).to_be_visible()
    await expect(page.locator(".row .prompt")).to_have_text("Where to? (and 3 more)")
    form = page.locator("#decide")
    await expect(form.locator("legend")).to_have_text(["Answers", "Where to? (needed)", "What else? (needed)"])
    await expect(form.get_by_label("bag")).to_be_checked()
    await expect(form.get_by_text("Why <b>there</b>?")).to_be_visible()

    await form.get_by_label("meal").check()
    await form.get_by_role("button", name="Send the answer").click()
    where = form.get_by_role("group", name="Where to?")
    await expect(where.locator(".problem")).to_have_text("this is needed")
    await expect(form.get_by_label("meal")).to_be_checked()

    await where.get_by_label("Oslo").check()
    await form.get_by_role("button", name="Send the answer").click()
    await expect(form.locator(".field.wrong", has_text="Why")).to_contain_text("it is empty: answer it")
    await expect(where.get_by_label("Oslo")).to_be_checked()

    await form.get_by_label("Why").fill("the fjords")
    await form.get_by_role("button", name="Send the answer").click()
    await expect(page.locator(".outcome")).to_contain_text("Your decision is recorded")
    assert answered(server, "c-1") == ("answer", ANSWERS)
    page.mishaps.clear()  # what was refused is refused over HTTP, too


async def test_questions_are_cancelled_as_a_whole(server, page):
    waiting(server, "c-2", "elicitation", TRIP, spec=DESK)
    await page.goto(f"{server.url}/inbox")
    await page.locator(".row", has_text="c-2").locator("a").click()
    await page.locator("#decide summary", has_text="Cancel").click()
    await page.get_by_role("button", name="Cancel the call").click()
    await expect(page.locator(".outcome")).to_contain_text("Cancelled")
    assert settled(server, "c-2").by == "cancellation"


async def test_an_element_asks_in_the_models_order_and_shows_the_servers_word_beside_the_question(server, page):
    waiting(server, "c-3", "elicitation", TRIP, spec=DESK)
    await page_opened(page, server.url, "c-3")
    card = the(page, "elicitation").get_by_role("group", name="ask")
    await expect(card.locator(".group .group > legend, .group .field > label:not(.check)")).to_have_text(
        ["Where to?", "What else? (optional)", "Why <b>there</b>?", "Anything to add? (optional)"]
    )
    await expect(card.locator("pre.arguments")).to_have_count(0)
    await expect(card.get_by_label("bag")).to_be_checked()
    await card.get_by_role("button", name="Send answer").click()
    await expect(card.get_by_text("This is needed.")).to_have_count(2)

    await card.get_by_label("Oslo").check()
    await card.get_by_label("meal").check()
    await card.get_by_label("Why").fill("   ")
    await card.get_by_role("button", name="Send answer").click()
    await expect(card.get_by_text("it is empty: answer it")).to_be_visible()  # the server judges
    await expect(card.get_by_label("Why")).to_be_focused()
    await card.get_by_label("Why").fill("the fjords")
    await card.get_by_role("button", name="Send answer").click()
    await expect(card.get_by_role("status")).to_contain_text("Answered by you")
    assert answered(server, "c-3") == ("answer", ANSWERS)
    page.mishaps.clear()
