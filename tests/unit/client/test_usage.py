"""What the models' answers used, by model, tool or agent: of one conversation, and of all in pages."""

import pytest
from stores import InMemory
from writer import DESK, Writer, begin, call, fail_model, finish, reply, send, start

from holdfast.client import AsyncClient, ConversationNotFound, InvalidInput, Usage
from holdfast.client import usage as module
from holdfast.client.stack_gateway import StackGateway
from holdfast.conversation import ModelReplied
from holdfast.persistence import AppRecord, MemoryStore

SMALL = {"input_tokens": 100, "output_tokens": 10, "cost_usd": 0.1, "duration_ms": 500}
LARGE = {
    "input_tokens": 1000,
    "output_tokens": 200,
    "cached_tokens": 900,
    "reasoning_tokens": 150,
    "cost_usd": 0.2,
    "duration_ms": 1500,
    "first_token_ms": 70,
}


@pytest.fixture
def store():
    return MemoryStore()


@pytest.fixture
def client(store):
    return AsyncClient(StackGateway(InMemory(store), timeout_s=30))


async def written(store, name="c-1", spec=DESK):
    """A conversation of two turns: two answers of the agent's model, one of a fallback that asks for two calls."""
    writer = await Writer.of(store, name)
    writer.spec = spec
    await store.put_app(AppRecord(app="shop:app", code="k", agents={spec.name: spec.digest}), [spec])
    await writer.do(start(agent=spec.name, spec=spec), begin(), call("lookup", "missing", model="openai/other", **LARGE))
    await writer.do(finish(), reply("Found.", **SMALL))
    await writer.do(send(), begin(), reply("Bye.", **SMALL))
    return writer


def rows(found):
    return {
        row.name: (row.usage.model_calls, row.usage.input_tokens, row.usage.cost_usd, row.tool_calls, row.tool_errors)
        for row in found.rows
    }


async def test_a_turn_sums_its_answers_over_fallbacks(store, client):
    await written(store)
    first, second = await client.conversation("c-1").turns()
    assert first.usage == Usage(
        model_calls=2,
        input_tokens=1100,
        output_tokens=210,
        cached_tokens=900,
        reasoning_tokens=150,
        cost_usd=0.3,
        model_ms=2000,
    )
    assert second.usage == Usage(model_calls=1, input_tokens=100, output_tokens=10, cost_usd=0.1, model_ms=500)


@pytest.mark.parametrize("name", ["cost_usd", "duration_ms", "input_tokens"])
async def test_a_sum_is_unknown_if_one_of_its_answers_is(store, client, name):
    writer = await Writer.of(store, "c-1")
    await writer.do(start(), begin(), call("lookup", **SMALL), finish(), reply("Found.", **SMALL | {name: None}))
    (turn,) = await client.conversation("c-1").turns()
    used = {"cost_usd": turn.usage.cost_usd, "duration_ms": turn.usage.model_ms, "input_tokens": turn.usage.input_tokens}
    assert used == {"cost_usd": 0.2, "duration_ms": 1000, "input_tokens": 200} | {name: None}


async def test_a_conversations_usage_by_model_tool_and_agent(store, client):
    await written(store)
    conversation = client.conversation("c-1")
    by_model, by_tool, by_agent = [await conversation.usage(by) for by in ("model", "tool", "agent")]
    assert rows(by_model) == {DESK.model: (2, 200, 0.2, 0, 0), "openai/other": (1, 1000, 0.2, 2, 1)}
    assert rows(by_tool) == {
        "": (2, 200, 0.2, 0, 0),
        "lookup": (1, 1000, 0.2, 1, 0),
        "missing": (1, 1000, 0.2, 1, 1),
    }
    assert rows(by_agent) == {DESK.name: (3, 1200, 0.4, 2, 1)}
    for found in (by_model, by_tool, by_agent):
        assert (found.total.model_calls, found.total.cost_usd, found.turns, found.conversations) == (3, 0.4, 2, 1)


async def test_an_outcome_that_comes_twice_counts_once(store, client):
    writer = await Writer.of(store, "c-1")
    await writer.do(start(), begin(), call("lookup", **LARGE))
    again = ModelReplied(effect_id="t1.m1", content="the same, deposited once more", **SMALL)
    await writer.do(lambda _: again, finish(), lambda _: again, reply("Found.", **SMALL), lambda _: again)
    (turn,) = await client.conversation("c-1").turns()
    assert turn.usage.model_calls == (await client.conversation("c-1").usage()).total.model_calls == 2
    assert turn.usage.cost_usd == 0.3


async def test_a_call_that_failed_has_no_answer_and_an_unknown_spec_no_name(store, client):
    writer = await Writer.of(store, "c-1")
    await writer.do(start(), begin(), fail_model("down"), send(), begin(), reply("Here.", **SMALL))
    found = await client.conversation("c-1").usage()
    assert (rows(found), found.turns) == ({"": (1, 100, 0.1, 0, 0)}, 2)


async def test_pages_of_conversations_are_summed_and_an_unreadable_one_stops_no_other(store, client):
    other = DESK.model_copy(update={"name": "clerk", "model": "openai/clerk"})
    for name, spec in (("c-1", DESK), ("c-2", DESK), ("c-3", other)):
        await written(store, name, spec)
    store._conversations["c-2"].log[3] = b"rubbish"

    first = await client.usage(limit=2)
    assert (first.conversations, first.unreadable, first.total.model_calls) == (1, ["c-2"], 3)
    second = await client.usage(limit=2, after=first.next)
    assert (second.conversations, second.unreadable, second.next) == (1, [], None)
    assert rows(second) == {"openai/clerk": (2, 200, 0.2, 0, 0), "openai/other": (1, 1000, 0.2, 2, 1)}
    assert rows(await client.usage("agent")) == {DESK.name: (3, 1200, 0.4, 2, 1), "clerk": (3, 1200, 0.4, 2, 1)}
    assert rows(await client.usage("agent", agent="clerk")).keys() == {"clerk"}


async def test_a_page_ends_after_a_bound_of_entries_and_a_report_has_a_bound_of_rows(store, client, monkeypatch):
    for name in ("c-1", "c-2"):
        await written(store, name)
    monkeypatch.setattr(module, "MOST_ENTRIES", 5)
    monkeypatch.setattr(module, "READ_AT_ONCE", 2)
    first = await client.usage()
    second = await client.usage(after=first.next)
    assert [(one.conversations, one.turns) for one in (first, second)] == [(1, 2), (1, 2)]

    monkeypatch.setattr(module, "MOST_ROWS", 1)
    made_up = rows(await client.conversation("c-1").usage("tool"))
    assert len(made_up) == 2
    assert made_up["other"][3] == 1


async def test_what_cannot_be_asked_is_a_typed_error(client):
    with pytest.raises(ConversationNotFound):
        await client.conversation("c-1").usage()
    for asked in (client.usage("hour"), client.usage(limit=0), client.usage(after="x"), client.conversation("c-1").usage("")):
        with pytest.raises(InvalidInput):
            await asked
