"""`<holdfast-review>` in a real browser: a tool's review with its verdicts, where the page may give them; calls held back."""

import json

import pytest
from holdfast_page import SPEC, expect, held, opened, refused, the, waited
from served import served
from writer import Writer, begin, call, finish, resolve, start, suspend

from holdfast.conversation import AgentSpec, Approval, Cancel, Choice, Execution, Review, ToolSpec
from holdfast.events import SuspensionSettled

HOSTILE = "<script>mishap()</script><img src=x onerror=mishap()>**b** [x](javascript:mishap()) &amp; "
REVIEW = {
    "title": "Publish the July report?",
    "message": "It goes to 240 customers.",
    "report_md": "# July\n\n- **Refunds** are up",
    "payload": '{"recipients": 240}',
    "action": "publish",
}
MORE = {"title", "action", "report_md", "payload", "decisions", "batch_id"}


@pytest.fixture(scope="module")
def server():
    with served(heartbeat_s=0.2) as running:
        yield running


@pytest.fixture
async def page(page):
    yield page
    await page.unroute_all(behavior="ignoreErrors")  # what is on its way when a page closes has no answer


def asked(server, name, **review):
    writer = held(server, name, ("charge", '{"order":"A1"}'))
    server.run(writer.do(suspend(**(REVIEW | review))))
    return writer


def settled(writer):
    return [(event.by, event.body) for event in writer.events if isinstance(event, SuspensionSettled)]


async def shown(page, server, writer, *, kinds=None):
    """A page with the element, over a server that says all of a review and takes its verdicts."""
    name = writer.conversation_id

    async def state(route):
        found = await (await route.fetch(headers=without_token(route))).json()
        views = {view.suspension_id: view for view in server.run(server.store.pending_of(name))}
        for pending in found["pending"]:
            view = views.get(pending["suspension_id"])
            pending.update({} if view is None else view.model_dump(mode="json", include=MORE))
        await route.fulfill(json=found)

    async def decided(route):
        sent = json.loads(route.request.post_data)
        reply = server.run(writer.do(resolve(decision_of(sent), suspension_id=sent["suspension_id"])))
        await route.fulfill(json={**reply.model_dump(), "decision_id": "d-1"})

    async def bare(route):
        await route.continue_(headers=without_token(route))

    await page.route(f"{server.url}/v1/**", bare)
    await page.route(f"{server.url}/v1/conversations/{name}", state)
    await page.route(f"{server.url}/v1/conversations/{name}/resolve", decided)
    await opened(page, server.url, name)
    await page.evaluate(
        """([name, kinds]) => {
            const token = async () => ({ token: "lent", ...(kinds && { scopes: ["read", "decide"], kinds }) });
            window.lent = holdfast.connect({ token }).conversation(name);
            const element = document.createElement("holdfast-review");
            element.conversation = window.lent;
            document.querySelector("main").append(element);
        }""",
        [name, kinds],
    )
    return the(page, "review")


def without_token(route):
    return {name: value for name, value in route.request.headers.items() if name != "authorization"}


def decision_of(sent):
    return Review(sent["verdict"], sent["notes"]) if sent["decision"] == "review" else Cancel(sent["reason"])


VERDICTS = [("Allow", "allow", "", "Allowed by you"), ("Block", "block", "not yet", "Blocked by you")]


@pytest.mark.parametrize(("button", "verdict", "notes", "says"), VERDICTS)
async def test_a_review_shows_what_is_asked_and_takes_a_verdict(server, page, button, verdict, notes, says):
    writer = asked(server, f"rv-{verdict}")
    element = await shown(page, server, writer)
    card = element.get_by_role("group", name="charge")
    await expect(card.get_by_text("Publish the July report?")).to_be_visible()
    await expect(card.get_by_text("It goes to 240 customers.")).to_be_visible()
    await expect(card.get_by_role("region", name="Report")).to_contain_text("- **Refunds** are up")
    await expect(card.get_by_role("region", name="Data")).to_contain_text('"recipients": 240')
    await expect(card.get_by_role("region", name="Arguments")).to_contain_text('"order": "A1"')

    await card.get_by_label("Notes").fill(notes)
    await card.get_by_role("button", name=button).click()

    await expect(card.get_by_role("status")).to_contain_text(says)
    await expect(card.get_by_role("status")).to_contain_text(notes)
    assert [(by, json.loads(body)) for by, body in settled(writer)] == [("review", {"verdict": verdict, "notes": notes})]


async def test_what_is_sent_back_needs_notes_with_the_keyboard_alone(server, page):
    writer = asked(server, "rv-back")
    element = await shown(page, server, writer)
    await element.get_by_role("button", name="Block").focus()
    await page.keyboard.press("Tab")
    await page.keyboard.press("Enter")
    await expect(element.get_by_text("Say what is to be revised.")).to_be_visible()
    await expect(element.get_by_label("Notes")).to_be_focused()
    assert settled(writer) == []

    await page.keyboard.type("Leave the complaints out.")
    await element.get_by_role("button", name="Send back").press("Enter")

    await expect(element.get_by_role("status").last).to_contain_text("Sent back by you")
    await expect(element.get_by_role("status").last).to_contain_text("Leave the complaints out.")
    assert json.loads(settled(writer)[0][1]) == {"verdict": "review", "notes": "Leave the complaints out."}


async def test_a_page_whose_token_decides_no_reviews_shows_one_as_waiting(server, page):
    writer = asked(server, "rv-waits")
    element = await shown(page, server, writer, kinds=["elicitation", "client_exec"])

    await expect(element.get_by_text("Publish the July report?")).to_be_visible()
    await expect(element.get_by_text("It waits for somebody who may decide it.")).to_be_visible()
    await expect(element.get_by_role("button")).to_have_count(0)

    server.run(writer.do(resolve(Review("block", "not yet"))))
    await expect(element.get_by_role("status").last).to_contain_text("Blocked")
    await expect(element.get_by_role("status").last).to_contain_text("not yet")


async def test_hostile_words_of_a_tool_are_text(server, page):
    payload = json.dumps({HOSTILE: HOSTILE + "\u202e"})
    writer = asked(
        server, "rv-hostile", title=HOSTILE, message=HOSTILE, report_md=HOSTILE + "\u202e", payload=payload, action="<b>x</b>"
    )
    element = await shown(page, server, writer)
    await page.evaluate("() => { window.mishap = () => { window.harmed = true; }; }")

    await expect(element.get_by_role("region", name="Report")).to_contain_text("<script>mishap()</script>")
    await expect(element.get_by_role("region", name="Report")).to_contain_text("\\u202e")
    await expect(element.get_by_role("region", name="Data")).to_contain_text("\\u202e")
    count = "(node) => node.shadowRoot.querySelectorAll('script, img, b, a, style, [onerror]').length"
    assert await element.evaluate(count) == 0
    assert await page.evaluate("window.harmed") is None


async def test_an_application_draws_reports_itself(server, page):
    writer = asked(server, "rv-render")
    element = await shown(page, server, writer, kinds=["review"])
    await expect(element.get_by_role("region", name="Report")).to_contain_text("**Refunds**")
    await page.evaluate(
        """() => {
            const mine = document.createElement("holdfast-review");
            mine.render = (text, call) => Object.assign(document.createElement("strong"), { textContent: call.tool });
            mine.id = "mine";
            mine.conversation = window.lent;
            document.querySelector("main").append(mine);
        }"""
    )
    await expect(page.locator("#mine strong")).to_have_text("charge")


async def test_an_approval_has_the_buttons_of_what_its_tool_lets_a_person_say(server, page):
    tools = [
        ToolSpec(name=name, approval=Approval.REQUIRED, decisions=(choice,))
        for name, choice in (("plain", Choice.APPROVE), ("careful", Choice.EDIT))
    ]

    async def begun():
        writer = server.stack.writers["rv-narrow"] = await Writer.of(server.store, "rv-narrow")
        writer.spec = AgentSpec(name="desk", model="test/model", tools=tuple(tools))
        await writer.do(start("Hello.", spec=writer.spec), begin(), call(("plain", "{}"), ("careful", "{}")))

    server.run(begun())
    await opened(page, server.url, "rv-narrow")
    plain, careful = (the(page, "approval").get_by_role("group", name=name) for name in ("plain", "careful"))
    await expect(plain.get_by_role("button", name="Approve", exact=True)).to_be_visible()
    await expect(plain.get_by_role("button", name="Deny")).to_have_count(0)
    await expect(careful.get_by_text("It waits for somebody who may decide it.")).to_be_visible()
    await expect(careful.get_by_role("button")).to_have_count(0)


async def test_a_call_that_is_held_waits_its_turn_among_what_runs(server, page):
    async def begun():
        writer = server.stack.writers["rv-held"] = await Writer.of(server.store, "rv-held")
        writer.spec = SPEC.model_copy(update={"execution": Execution.SEQUENTIAL})
        await writer.do(start("Hello.", spec=writer.spec), begin())
        return writer

    writer = server.run(begun())
    await opened(page, server.url, "rv-held")
    running = the(page, "running")
    await expect(running).to_have_attribute("phase", "live")

    server.run(writer.do(call(("charge", '{"n":1}'), ("charge", '{"n":2}'))))
    await expect(running.get_by_text("waits its turn")).to_have_count(1)
    await waited(page, "told.length", 0)
    server.run(writer.do(finish()))

    await expect(running.get_by_text("waits its turn")).to_have_count(0)
    await expect(running.locator(".card")).to_have_count(1)
    refused(page)
