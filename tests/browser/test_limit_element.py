"""`<holdfast-limit>` in a real browser: a turn that asks whether it may go on, where the page may say so."""

import pytest
from holdfast_page import SPEC, expect, opened, the
from served import served
from writer import Writer, begin, call, start

from holdfast.conversation import Stop
from holdfast.events import SuspensionSettled

ASKS = SPEC.model_copy(update={"stop": Stop(tokens=100, then="ask")})


@pytest.fixture(scope="module")
def server():
    with served(heartbeat_s=0.2) as running:
        yield running


def asking(server, name):
    """The writer of a conversation whose turn asks."""

    async def written():
        writer = server.stack.writers[name] = await Writer.of(server.store, name)
        writer.spec = ASKS
        await writer.do(start("Hello.", spec=ASKS), begin())
        await writer.do(call("charge", output_tokens=120))
        return writer

    return server.run(written())


async def shown(page, server, name):
    """The card of the question, in a page that brings the element."""
    await opened(page, server.url, name)
    await page.evaluate(
        """() => {
          const node = document.createElement("holdfast-limit");
          document.querySelector("main").append(node);
          node.conversation = conversation;
        }"""
    )
    return the(page, "limit").get_by_role("group", name="holdfast.limit")


def settled(writer):
    return [(event.by, event.body) for event in writer.events if isinstance(event, SuspensionSettled)]


async def test_a_turn_goes_on_with_one_click(server, page):
    writer = asking(server, "goes-on")
    card = await shown(page, server, "goes-on")
    await expect(card.get_by_text("The turn has reached Stop(tokens=100): 120 so far")).to_be_visible()
    await expect(card.get_by_role("region", name="Arguments")).to_contain_text('"extends_by": { "tokens": 100 }')
    await card.get_by_role("button", name="Let it go on").click()
    await expect(card.get_by_role("status")).to_contain_text("Approved by you")
    assert settled(writer) == [("approve", None)]


async def test_a_turn_is_ended_with_a_reason(server, page):
    writer = asking(server, "ends")
    card = await shown(page, server, "ends")
    await card.get_by_role("button", name="End the turn").click()
    await card.get_by_label("Reason (optional)").fill("that will do")
    await card.get_by_role("button", name="End the turn").click()
    await expect(card.get_by_role("status")).to_contain_text("Denied by you")
    assert settled(writer) == [("deny", '"that will do"')]
    assert writer.events[-1].kind == "turn_completed"
