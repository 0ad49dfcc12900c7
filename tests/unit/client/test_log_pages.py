"""Pages of messages and turns: nothing is lost or told twice, and of the log that part is read which a page is made of."""

import pytest
from stores import InMemory
from writer import Writer, begin, call, finish, interrupt, reply, send, start, withdraw

from holdfast.client import AsyncClient, ConversationNotFound, InvalidInput, log_pages
from holdfast.client.stack_gateway import StackGateway
from holdfast.persistence import MemoryStore


@pytest.fixture
def store():
    return MemoryStore()


@pytest.fixture
def conversation(store):
    return AsyncClient(StackGateway(InMemory(store), timeout_s=30)).conversation("c-1")


async def talk(store, turns):
    """A conversation of so many turns, each of two rounds; its message is sent during the turn before."""
    writer = await Writer.of(store, "c-1")
    await writer.do(start("0", message_id="m-0"), begin())
    for number in range(turns):
        await writer.do(send(f"{number + 1}"), call("lookup", "lookup", content=f"looking {number}"))
        for one in reversed(writer.state.calls):  # the later call has its result first
            await writer.do(finish(one.effect_id, content=f"{number} of {one.tool_call_id}"))
        await writer.do(reply(f"done {number}"), begin())
    return writer


async def paged(read, limit):
    """All items, and how many there were in each page."""
    page = await read(limit=limit)
    items, sizes = list(page.items), [len(page.items)]
    while page.next is not None:
        page = await read(limit=limit, after=page.next)
        items, sizes = [*items, *page.items], [*sizes, len(page.items)]
    return items, sizes


async def paged_back(read, limit):
    """As `paged`, from the end on; the sizes from the last page on."""
    page = await read(limit=limit, before="end")
    items, sizes = list(page.items), [len(page.items)]
    while page.previous is not None:
        page = await read(limit=limit, before=page.previous)
        items, sizes = [*page.items, *items], [*sizes, len(page.items)]
    return items, sizes


def sizes_of(items, limit):
    """How many items full pages have, and the last one."""
    return [min(limit, len(items) - begin) for begin in range(0, len(items), limit)]


def counted(store, monkeypatch):
    """How many entries of the log are read from now on."""
    read, inner = [], store.read

    async def counting(conversation_id, **how):
        found = await inner(conversation_id, **how)
        read.append(len(found))
        return found

    monkeypatch.setattr(store, "read", counting)
    return read


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5, 7, 1000])
async def test_pages_of_any_size_lose_and_repeat_no_message_and_no_turn(store, conversation, limit):
    await talk(store, 6)

    messages, sizes = await paged(conversation.messages_page, limit)
    turns, _ = await paged(conversation.turns_page, limit)

    assert messages == await conversation.messages()
    assert set(sizes[:-1]) <= {limit}
    assert await paged_back(conversation.messages_page, limit) == (messages, sizes_of(messages, limit))
    assert await paged_back(conversation.turns_page, limit) == (turns, sizes_of(turns, limit))
    assert turns == await conversation.turns()
    assert turns[0].message_id == "m-0"
    assert (await conversation.messages_page(limit=limit, after="7")).items == messages[7 : 7 + limit]  # so many came before


@pytest.mark.parametrize("at_once", [1, 500])
@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5, 1000])
async def test_messages_that_join_a_turn_stand_in_pages_of_any_size(store, conversation, monkeypatch, limit, at_once):
    monkeypatch.setattr(log_pages, "READ_AT_ONCE", at_once)
    writer = await Writer.of(store, "c-1")
    await writer.do(start("0", message_id="m-0"), begin(), call("lookup"))
    for name in ("s-1", "s-2"):
        await writer.do(send(name, message_id=name, when="steer"))
    await writer.do(finish(), send("s-3", message_id="s-3", when="steer"), reply("and now?"))
    await writer.do(call("lookup"), finish(), reply("done"), send("no", message_id="m-no"))
    await writer.do(withdraw("m-no", writer.state.queue[0].seq), send("one", message_id="m-1"), interrupt("stop"), begin())

    messages, _ = await paged(conversation.messages_page, limit)
    turns, _ = await paged(conversation.turns_page, limit)

    assert messages == await conversation.messages()
    assert [one["content"] for one in messages if one["role"] == "user"] == ["0", "s-1", "s-2", "s-3", "stop"]
    assert turns == await conversation.turns()
    assert turns[0].joined == ("s-1", "s-2", "s-3")
    assert (await paged_back(conversation.messages_page, limit))[0] == messages
    assert (await paged_back(conversation.turns_page, limit))[0] == turns


async def test_what_follows_messages_that_joined_a_turn_is_read_behind_the_last_of_them(store, conversation):
    writer = await Writer.of(store, "c-1")
    await writer.do(start("0"), begin(), call("lookup"), send("s-1", when="steer"), send("s-2", when="steer"), finish())
    page = await conversation.messages_page()
    assert [message["content"] for message in page.items[-2:]] == ["s-1", "s-2"]
    await writer.do(reply("done"))

    later = await conversation.messages_page(after=page.again)

    assert [message["content"] for message in later.items] == ["s-2", "done"]


async def test_a_page_of_a_long_conversation_reads_what_it_is_made_of(store, conversation, monkeypatch):
    writer = await talk(store, 100)
    page = await conversation.messages_page(limit=400)
    turns = await conversation.turns_page(limit=50)
    read = counted(store, monkeypatch)

    assert (await conversation.messages_page(limit=1)).items == [{"role": "user", "content": "0"}]
    assert (await conversation.messages_page(limit=1, after=page.next)).items[0]["role"] == "user"
    assert [turn.turn_id for turn in (await conversation.turns_page(limit=1, after=turns.next)).items] == ["t51"]

    assert (await conversation.messages_page(limit=1, before="end")).items[0]["content"] == "100"
    assert [turn.turn_id for turn in (await conversation.turns_page(limit=1, before="end")).items] == ["t101"]
    assert (await conversation.turn("t73")).reply == "done 72"
    assert (await conversation.message("m-0")).reply == "done 0"

    assert writer.state.seq > 900
    assert sum(read) < 300


@pytest.mark.parametrize("long", [0, 3, 7])
async def test_a_turn_is_found_beside_one_that_is_much_longer_in_few_reads(store, conversation, monkeypatch, long):
    writer = await Writer.of(store, "c-1")
    await writer.do(start("0"), begin())
    for number in range(8):
        for _ in range(300 if number == long else 0):
            await writer.do(call("lookup"), finish())
        await writer.do(reply(f"done {number}"), send(), begin())
    turns = await conversation.turns()
    read = counted(store, monkeypatch)

    assert [await conversation.turn(f"t{number}") for number in range(1, 10)] == turns
    assert writer.state.seq > 900
    assert len(read) < 9 * 16


async def test_results_take_their_places_behind_the_cursor_again(store, conversation):
    writer = await talk(store, 2)
    await writer.do(call("lookup", "lookup"))
    first, second = writer.state.calls
    await writer.do(finish(second.effect_id, content="the second"))
    page = await conversation.messages_page(limit=100)
    assert [message["content"] for message in page.items[-2:]] == [None, "the second"]
    await writer.do(finish(first.effect_id, content="the first"))

    later = await conversation.messages_page(limit=100, after=page.again)

    assert [message["content"] for message in later.items] == [None, "the first", "the second"]
    assert later.again == page.again


async def test_a_page_of_long_messages_ends_before_they_are_too_large_together(store, conversation):
    writer = await Writer.of(store, "c-1")
    await writer.do(start("x" * 1_000_000), begin())
    for _ in range(10):
        await writer.do(reply("x" * 1_000_000), send("x" * 1_000_000), begin())

    messages, sizes = await paged(conversation.messages_page, 1000)

    assert len(messages) == 21
    assert max(sizes) == 8
    assert messages == await conversation.messages()
    assert await paged_back(conversation.messages_page, 1000) == (messages, [8, 8, 5])


async def test_a_page_has_one_message_whatever_it_weighs(store, conversation):
    writer = await Writer.of(store, "c-1")
    await writer.do(start("hello"), begin(), call("lookup"))
    await writer.do(finish(content="x" * 9_000_000), reply(), send(), begin())

    messages, sizes = await paged(conversation.messages_page, 1000)

    assert [message["role"] for message in messages] == ["user", "assistant", "tool", "assistant", "user"]
    assert sizes == [2, 1, 2]
    assert await paged_back(conversation.messages_page, 1000) == (messages, sizes)


async def test_a_page_of_very_long_turns_may_have_fewer_than_were_asked_for(store, conversation):
    writer = await Writer.of(store, "c-1")
    await writer.do(start("hello"), begin())
    for _ in range(3):
        for _ in range(6):
            await writer.do(call("lookup"))
            await writer.do(finish(content="x" * 9_000_000))
        await writer.do(reply(), send(), begin())

    turns, sizes = await paged(conversation.turns_page, 1000)

    assert turns == await conversation.turns()
    assert len(turns) == 4
    assert len(sizes) > 1
    assert (await paged_back(conversation.turns_page, 1000))[0] == turns


@pytest.mark.parametrize("cursor", ["", "x", "-1", "²", "1.", ".1", "1.2.3", "0.999999999", "t1", 7, "1" * 30])
async def test_what_is_no_cursor_is_refused(store, conversation, cursor):
    await talk(store, 1)
    for read in (conversation.messages_page, conversation.turns_page):
        with pytest.raises(InvalidInput, match=r"after: .* is not a cursor"):
            await read(after=cursor)
        with pytest.raises(InvalidInput, match=r"before: .* is not a cursor"):
            await read(before=cursor)
        with pytest.raises(InvalidInput, match=r"before: it cannot be combined"):
            await read(after="1.0", before="1.0")


async def test_a_cursor_beyond_the_end_has_an_empty_page_and_a_conversation_that_is_none_has_no_page(store, conversation):
    for read in (conversation.messages_page, conversation.turns_page):
        for where in ({}, {"after": "500.0"}, {"before": "end"}, {"before": "500.0"}, {"before": "0.0"}):
            with pytest.raises(ConversationNotFound):
                await read(**where)
    await talk(store, 1)
    for read in (conversation.messages_page, conversation.turns_page):
        page = await read(after="500.0")
        assert (page.items, page.next) == ([], None)
        page = await read(before="0.0")
        assert (page.items, page.previous) == ([], None)
