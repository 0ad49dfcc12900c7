"""The inbox in a real browser: every kind decided, rows that come and go, two people at once, the keyboard alone, a phone."""

import re

import pytest
from claiming import claim, give_back
from playwright.async_api import expect
from served import served
from waiting_calls import APP, events_of, settled, waiting

from holdfast.client import Approve, Deny
from holdfast.client.async_client import acting_for
from holdfast.conversation import Principal, Proof

HOSTILE = "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">[x](javascript:alert(1))\u202e"


@pytest.fixture
def server():
    with served() as running:
        running.stack._app = APP
        yield running
        running.drain()


async def opened(page, server, name=None):
    """The inbox, with the call of a conversation open."""
    await page.goto(f"{server.url}/inbox")
    if name is not None:
        await page.locator(".row", has_text=name).locator("a").click()
        await expect(page.locator("article.call")).to_be_visible()
    return page


DECIDED = [
    ("approval", [("click", "Approve", None)], "approve"),
    ("approval", [("fill", "Reason, for the agent", "too much"), ("click", "Deny", None)], "deny"),
    ("elicitation", [("fill", "Answer", "to my card"), ("click", "Send the answer", None)], "answer"),
    ("client_exec", [("fill", "What went wrong, for the agent", "no gps"), ("click", "Mark as failed", None)], "fail"),
    ("lost", [("click", "Run it again", None)], "redispatch"),
    ("limit", [("click", "Let it go on", None)], "approve"),
    ("limit", [("fill", "Why it ends, for the log", "enough"), ("click", "End the turn", None)], "deny"),
]


@pytest.mark.parametrize(("kind", "steps", "by"), DECIDED, ids=[f"{kind}-{by}" for kind, _, by in DECIDED])
async def test_each_kind_is_decided_in_place(server, page, kind, steps, by):
    waiting(server, "c-1", kind)
    await opened(page, server, "c-1")

    for what, label, text in steps:
        if what == "fill":
            await page.get_by_label(label, exact=True).fill(text)
        else:
            await page.get_by_role("button", name=label, exact=True).click()

    await expect(page.locator(".outcome")).to_contain_text("Your decision is recorded")
    await expect(page.locator(".row .ended")).to_contain_text("by you")
    await expect(page).to_have_title(re.compile(r"^\(0\) Inbox"))
    assert settled(server, "c-1").by == by


async def test_arguments_are_edited_and_what_changes_is_shown_before_it_counts(server, page):
    waiting(server, "c-1", arguments={"order": "A1042", "amount": 40})
    await opened(page, server, "c-1")

    await page.get_by_role("link", name="Edit the arguments").click()
    await page.get_by_label("amount").fill("900")
    await page.get_by_role("button", name="Show what changes").click()
    await expect(page.locator("#decide .notice")).to_contain_text("900 is greater than the maximum of 500")
    await page.get_by_label("amount").fill("12")
    await page.get_by_role("button", name="Show what changes").click()
    await expect(page.locator(".difference .removed")).to_contain_text('"amount": 40')
    await expect(page.locator(".difference .added")).to_contain_text('"amount": 12')
    await page.get_by_role("button", name="Approve these arguments").click()

    await expect(page.locator(".outcome")).to_contain_text("Approved")
    assert settled(server, "c-1").body == '{"order":"A1042","amount":12}'
    page.mishaps.clear()  # the refusal of 900 is one of HTTP, too


async def test_what_comes_appears_and_what_others_settle_says_so_and_stays_until_it_is_read(server, page):
    first, second = waiting(server, "c-1"), waiting(server, "c-2")
    await opened(page, server, "c-1")
    await page.mouse.move(900, 600)

    waiting(server, "c-3", "elicitation")
    await expect(page.locator(".row")).to_have_count(3)
    await expect(page).to_have_title(re.compile(r"^\(3\) Inbox"))
    ana = acting_for(server.client, Principal("ana", proof=Proof.KEY))
    server.run(ana.resolve(second, Deny(), conversation_id="c-2"))
    server.run(ana.resolve(first, Approve(), conversation_id="c-1"))

    await expect(page.locator(".row", has_text="c-2").locator(".ended")).to_have_text(re.compile(r"^denied by ana, \d+ s ago$"))
    await expect(page.locator("#decide")).to_contain_text("It was approved by ana")
    await expect(page.get_by_role("button", name="Approve")).to_have_count(0)
    await expect(page.locator(".row")).to_have_count(3)
    await expect(page).to_have_title(re.compile(r"^\(1\) Inbox"))
    await page.get_by_role("link", name="Next call").click()
    await expect(page.locator("article.call")).to_contain_text("c-3")


async def test_an_open_call_says_which_client_claims_it(server, page):
    waiting(server, "c-1", "client_exec")
    await opened(page, server, "c-1")
    server.run(server.stack.writers["c-1"].do(claim("laptop", principal=Principal("bo"))))
    await expect(page.locator("#together")).to_contain_text("The client laptop of bo claimed it")
    await expect(page.locator(".row .noted")).to_have_text("laptop runs it")
    server.run(server.stack.writers["c-1"].do(give_back("laptop", principal=Principal("bo"))))
    await expect(page.locator(".row .noted")).to_have_count(0)


async def test_rows_that_come_wait_while_the_pointer_is_in_the_list(server, page):
    waiting(server, "c-1")
    await opened(page, server)
    await page.locator(".row").hover()

    waiting(server, "c-2")

    await expect(page.get_by_role("button", name="1 more waits: show it")).to_be_visible()
    await expect(page.locator(".row")).to_have_count(1)
    await page.get_by_role("button", name="1 more waits: show it").click()
    await expect(page.locator(".row")).to_have_count(2)


async def test_two_people_race_for_one_call_and_the_second_is_told(browser, server):
    suspension_id = waiting(server, "c-1")
    pages = [await (await browser.new_context()).new_page() for _ in range(2)]
    for one in pages:
        await one.route("**/inbox-feed*", lambda route: route.abort())  # they do not hear of each other
        await one.goto(f"{server.url}/inbox/{suspension_id}?conversation_id=c-1")

    await pages[0].get_by_role("button", name="Approve").click()
    await expect(pages[0].locator(".outcome")).to_contain_text("Your decision is recorded")
    await pages[1].get_by_role("button", name="Deny").click()

    await expect(pages[1].locator(".outcome")).to_contain_text("It was decided before")
    await expect(pages[1].locator(".outcome")).to_contain_text("changed nothing")
    assert settled(server, "c-1").by == "approve"


async def test_a_lost_answer_is_asked_for_again_and_the_decision_counts_once(server, page):
    waiting(server, "c-1")
    await opened(page, server, "c-1")
    lost = []

    async def lose(route):
        if route.request.method == "POST" and not lost:
            lost.append(await route.fetch())  # the server has recorded it
            await route.abort()
        else:
            await route.continue_()

    await page.route("**/inbox-feed*", lambda route: route.abort())
    await page.reload()
    await page.route("**/inbox/*", lose)
    await page.get_by_role("button", name="Approve").click()
    await expect(page.locator("#notice")).to_contain_text("the same decision counts once")
    await page.get_by_role("button", name="Approve").click()

    await expect(page.locator(".outcome")).to_contain_text("Your decision is recorded")
    assert [event.kind for event in events_of(server, "c-1")].count("suspension_settled") == 1
    page.mishaps.clear()  # the connection that was cut


async def test_the_keyboard_alone_is_enough(server, page):
    now = server.run(server.store.now())
    for number in range(3):
        waiting(server, f"c-{number}", now=now + number)
    await opened(page, server)

    await page.keyboard.press("j")
    await page.keyboard.press("j")
    await page.keyboard.press("Enter")
    await expect(page.locator("article.call")).to_contain_text("c-1")
    await page.keyboard.press("a")
    await expect(page.get_by_role("button", name="Approve")).to_be_focused()
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("link", name="Next call")).to_be_focused()
    await page.keyboard.press("Enter")
    await expect(page.locator("article.call")).to_contain_text("c-2")
    await page.keyboard.press("d")
    await page.keyboard.type("not now")
    await page.keyboard.press("Enter")
    await expect(page.locator(".outcome")).to_contain_text("Denied")
    await page.keyboard.press("n")
    await expect(page.locator("article.call")).to_contain_text("c-0")
    await page.keyboard.press("e")
    await expect(page.get_by_label("order")).to_be_focused()
    await page.keyboard.press("Escape")
    await page.keyboard.press("?")
    await expect(page.get_by_role("dialog")).to_be_visible()
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("dialog")).to_be_hidden()
    await page.keyboard.press("/")
    await page.keyboard.type("c-0")
    await expect(page.locator(".row:not([hidden])")).to_have_count(1)

    assert [settled(server, name).by for name in ("c-1", "c-2")] == ["approve", "deny"]


async def test_keys_can_be_turned_off_and_do_nothing_while_somebody_types(server, page):
    waiting(server, "c-1")
    await opened(page, server, "c-1")

    await page.get_by_label("Reason, for the agent").fill("")
    await page.keyboard.type("jade?")
    await expect(page.get_by_label("Reason, for the agent")).to_have_value("jade?")
    await page.get_by_role("button", name="Keys").click()
    await page.get_by_label("Keys without modifiers are on").uncheck()
    await page.get_by_role("button", name="Close").click()
    await page.keyboard.press("a")
    await expect(page.get_by_role("button", name="Approve")).not_to_be_focused()


async def test_the_filters_narrow_the_list_and_stand_in_the_url(server, page):
    waiting(server, "c-1", arguments={"order": "zebra"})
    waiting(server, "c-2", "elicitation")
    await opened(page, server)

    await page.get_by_label("Search").fill("zebra")
    await expect(page.locator(".row:visible")).to_have_count(1)
    await expect(page).to_have_url(re.compile(r"/inbox\?q=zebra$"))
    await page.get_by_label("Search").fill("")
    await page.get_by_label("Any kind").select_option("elicitation")
    await expect(page).to_have_url(re.compile(r"/inbox\?kind=elicitation$"))
    await expect(page.locator(".row")).to_have_count(1)
    await page.reload()
    await expect(page.locator(".row")).to_contain_text("c-2")
    waiting(server, "c-3")
    waiting(server, "c-4", "elicitation")
    await expect(page.locator(".row", has_text="c-4")).to_be_visible()
    await expect(page.locator(".row", has_text="c-3")).to_have_count(0)


async def test_several_are_marked_listed_and_decided(server, page):
    for number in range(3):
        waiting(server, f"c-{number}")
    await opened(page, server)

    for number in (0, 2):
        await page.get_by_role("checkbox", name=f"of c-{number}").check()
    await page.get_by_role("button", name="Decide the 2 that are marked").click()
    await expect(page.locator("article.card")).to_have_count(2)
    await page.get_by_role("button", name="Approve (2)").click()

    await expect(page.get_by_role("heading", name="2 of 2 approved")).to_be_visible()
    await page.get_by_role("link", name="To the inbox").click()
    await expect(page.locator(".row")).to_have_count(1)


async def test_on_a_phone_the_list_leads_to_the_call_and_back(browser, server):
    waiting(server, "c-1")
    waiting(server, "c-2")
    context = await browser.new_context(viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    page = await context.new_page()
    await page.goto(f"{server.url}/inbox")

    await page.locator(".row", has_text="c-1").locator("a").tap()
    await expect(page.locator(".side")).to_be_hidden()
    width = await page.evaluate("document.documentElement.scrollWidth")
    await page.get_by_role("button", name="Approve").tap()
    await expect(page.locator(".outcome")).to_contain_text("Approved")
    await page.go_back()
    await expect(page.locator(".side")).to_be_visible()

    assert width <= 390
    assert settled(server, "c-1").by == "approve"


async def test_without_scripts_a_call_is_found_edited_and_approved(browser, server):
    waiting(server, "c-1", arguments={"order": "A1042", "amount": 40})
    context = await browser.new_context(java_script_enabled=False)
    page = await context.new_page()
    await page.goto(f"{server.url}/inbox")

    await page.get_by_label("Search").fill("A1042")
    await page.get_by_role("button", name="Filter").click()
    await page.locator(".row a").click()
    await page.get_by_role("link", name="Edit the arguments").click()
    await page.get_by_label("amount").fill("12")
    await page.get_by_role("button", name="Approve these arguments").click()

    await expect(page.locator(".outcome")).to_contain_text("Your decision is recorded")
    assert settled(server, "c-1").body == '{"order":"A1042","amount":12}'


async def test_hostile_text_in_every_field_is_shown_and_does_nothing(server, page):
    long = "<b>" * 1000 + "\n".join(f"line {number}" for number in range(1000)) + "x" * 200_000
    arguments = {"order": HOSTILE, HOSTILE: [HOSTILE], "long": long, "rtl": "\u05d0\u05d1\u05d2 \u202eabc"}
    waiting(server, "c-1", arguments=arguments, prompt=HOSTILE, text=HOSTILE)
    await opened(page, server, "c-1")
    asked = []
    page.on("request", lambda request: asked.append(request.url))

    await expect(page.locator("article.call h2")).to_contain_text("<script>")
    await expect(page.locator("article.call .arguments")).to_contain_text("line 999")
    box = await page.locator("article.call .arguments").bounding_box()
    approve = await page.get_by_role("button", name="Approve").bounding_box()
    await page.goto(f"{server.url}/conversations/c-1")
    await expect(page.locator(".messages")).to_contain_text("<script>")

    assert box["height"] < 500  # bounded, however long they are, so that the buttons are near
    assert approve["y"] < 1200
    assert (await page.title()).startswith("c-1 ")
    assert await page.locator("a[href^='javascript']").count() == 0
    assert all(url.startswith(server.url) for url in asked)


async def test_a_conversation_that_is_open_follows_what_happens(server, page):
    waiting(server, "c-1")
    await page.goto(f"{server.url}/conversations/c-1")

    await expect(page.get_by_text("It waits for 1 decision")).to_be_visible()
    server.run(server.client.acting_as(Principal("ana")).conversation("c-1").cancel())
    await expect(page.locator(".decisions")).to_contain_text("cancelled by ana")
    await page.get_by_label("Send a message as the user").fill("And **now**?")
    await page.get_by_role("button", name="Send").click()
    await expect(page.get_by_text("It is recorded")).to_be_visible()
    await expect(page.locator("#events")).to_contain_text("message_accepted")
    await page.get_by_text("End this conversation").click()
    await page.get_by_label("It ends for good").check()
    await page.get_by_role("button", name="End it").click()

    await expect(page.locator(".status-ended")).to_be_visible()
