"""Conversations whose last turn was stopped, over HTTP and as a client lists them."""

import pytest
from writer import Writer, begin, reply, start

from holdfast.client import InvalidInput, StopReason


@pytest.fixture
async def stopped(store):
    """Two conversations with an agent, of which the first was cut off."""
    for name, finish_reason in (("c-1", "length"), ("c-2", "stop")):
        writer = await Writer.of(store, name)
        await writer.do(start(message_id=f"m-{name}"), begin())
        await writer.do(reply("half of", finish_reason=finish_reason))


async def test_they_are_listed_apart_with_why(api, client, stopped):
    page = await api("GET", "/v1/conversations?stopped=true")
    assert [(row["conversation_id"], row["stopped"]) for row in page["items"]] == [("c-1", "length")]
    for query in ("", "?stopped=false"):
        page = await api("GET", f"/v1/conversations{query}")
        assert [(row["conversation_id"], row["stopped"]) for row in page["items"]] == [("c-1", "length"), ("c-2", None)]
    rows = (await client.conversations(stopped=True, agent="desk")).items
    assert [(row.conversation_id, row.stopped) for row in rows] == [("c-1", StopReason.LENGTH)]
    assert (await client.conversations(stopped=True, status="failed")).items == []
    assert len((await client.conversations(stopped=False)).items) == 2


async def test_the_filter_is_a_boolean(api, client, stopped):
    with pytest.raises(InvalidInput, match="'rounds' is not a boolean"):
        await client.conversations(stopped="rounds")
    assert "stopped" in str(await api("GET", "/v1/conversations?stopped=maybe", 422))
