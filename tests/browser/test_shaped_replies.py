"""Replies in a shape in a real browser: what the model is told of a text that does not fit is nobody's message."""

import pytest
from holdfast_page import SPEC, expect, held, opened, the
from served import served
from writer import reply


@pytest.fixture(scope="module")
def server():
    with served(heartbeat_s=0.2) as running:
        yield running


async def test_a_repair_is_not_shown_as_the_users_words_and_the_value_is_there(server, page):
    spec = SPEC.model_copy(update={"reply": '{"type":"object","required":["order"]}'})
    writer = held(server, "shaped-1", text="Which order?", spec=spec)
    server.run(writer.do(reply("Seven."), reply('{"order":7}')))
    await opened(page, server.url, "shaped-1")
    messages = the(page, "messages")
    await expect(messages.get_by_text('{"order":7}', exact=True)).to_be_visible()
    said = await messages.locator(".message").evaluate_all("(nodes) => nodes.map((node) => node.textContent)")
    assert said == ["Which order?", "Seven.", '{"order":7}']
    assert (await page.evaluate("conversation.state().then((state) => state.value)")) == {"order": 7}
