"""Replies in a shape, over HTTP: the object in the state, and whose words the page shows."""

import re

from writer import DESK, Writer, begin, reply, start


async def test_the_state_has_the_value_and_the_page_says_that_the_word_on_a_reply_is_holdfasts(api, store):
    writer = await Writer.of(store, "c-1")
    writer.spec = DESK.model_copy(update={"reply": '{"type":"object","required":["order"]}'})
    await writer.do(start("Which?", spec=writer.spec), begin(), reply("Seven."), reply('{"order":7}'))
    state = await api("GET", "/v1/conversations/c-1")
    assert (state["reply"], state["value"]) == ('{"order":7}', {"order": 7})
    page = (await api.http.get("/conversations/c-1")).text
    assert re.findall(r'<span class="role">(\w+)</span>', page) == ["User", "Agent", "Holdfast", "Agent"]
