"""The events of a tree in one stream: each conversation's in order, once, and resumed by one cursor."""

import asyncio

import pytest
from asgi_transport import AsgiTransport
from family import asking, begun, child_of, delegated
from stores import InMemory
from writer import DESK, call, cancel, end, reply

from holdfast.client import AsyncClient, ConversationNotFound, InvalidInput, tree_events
from holdfast.client.http_address import Address
from holdfast.client.http_gateway import HttpGateway
from holdfast.client.stack_gateway import StackGateway
from holdfast.conversation import Tell
from holdfast.errors import CorruptStore
from holdfast.persistence import MemoryStore, codec
from holdfast.server import Authentication, create_app

CLERK = DESK.model_copy(update={"name": "clerk"})


@pytest.fixture
def store():
    return MemoryStore()


@pytest.fixture(params=["stack", "http"])
def client(store, request):
    on_stack = AsyncClient(StackGateway(InMemory(store), timeout_s=10))
    if request.param == "stack":
        return on_stack
    app = create_app(on_stack, authentication=Authentication(anyone=True))
    return AsyncClient(HttpGateway(Address("http://127.0.0.1:8484"), timeout_s=10, transport=AsgiTransport(app)))


async def taken(client, until, *, root="root", **where):
    """The events of a tree up to one that `until` wants."""
    found = []
    async with asyncio.timeout(20):
        async for event in client.conversation(root).events(descendants=True, live=False, **where):
            found.append(event)
            if until(event):
                break
    return found


def ended(name):
    return lambda event: (event.conversation_id, event.kind) == (name, "conversation_ended")


def never(event):
    return False


async def grown(store):
    """A root, its child and its grandchild, all begun; the grandchild waits for a person."""
    root = await begun(store, "root", asking("root", "middle"))
    (first,) = await delegated(root, "middle")
    middle = await child_of(root, first, asking("middle", "clerk"))
    (second,) = await delegated(middle, "clerk")
    clerk = await child_of(middle, second, CLERK)
    await clerk.do(call("refund"))
    return root, middle, clerk


def told(parent, child):
    about = {"suspension_id": child.state.parent.suspension_id, "source": child.conversation_id}
    return lambda _: Tell(ok=True, content='"done"', **about)


async def over(root, middle, clerk):
    """The tree comes to its end, from below."""
    await clerk.do(cancel())
    await middle.do(told(middle, clerk), reply("fine"))
    await root.do(told(root, middle), reply("fine"), end())


async def test_each_conversations_events_come_in_order_and_once(client, store):
    writers = await grown(store)
    following = asyncio.ensure_future(taken(client, never))
    await over(*writers)
    found = await following
    for writer in writers:
        own = [(event.seq, event.kind) for event in found if event.conversation_id == writer.conversation_id]
        assert own == list(enumerate((event.kind for event in writer.events), 1))


async def test_a_stream_is_resumed_at_every_event_without_a_gap_and_without_a_repetition(client, store):
    writers = await grown(store)
    whole = len([event for writer in writers for event in writer.events])
    seen = []

    def enough(event):
        seen.append(event)
        return len(seen) == whole

    first = await taken(client, enough)
    places = {(event.conversation_id, event.seq) for event in first}
    assert len(places) == whole
    for number, event in enumerate(first[:-1], 1):
        left, rest = whole - number, []

        def all_of_it(one, rest=rest, left=left):
            rest.append(one)
            return len(rest) == left

        await taken(client, all_of_it, after=event.cursor)
        assert {(one.conversation_id, one.seq) for one in first[:number] + rest} == places


async def test_who_resumes_is_told_nothing_of_a_conversation_of_another_tree(client, store):
    await grown(store)
    stranger = await begun(store, "other", asking("root", "clerk"))
    (wait,) = await delegated(stranger, "clerk")
    child = await child_of(stranger, wait, CLERK)
    with pytest.raises(InvalidInput):
        await taken(client, ended("root"), after=f"1,{child.conversation_id}=1")
    for bad in ("x", "1,other=1", -1, "1," + ",".join(f"d-{'a' * 20}=1" for _ in range(64)), None):
        with pytest.raises(InvalidInput):
            await taken(client, ended("root"), after=bad)
    with pytest.raises(ConversationNotFound):
        await taken(client, ended("nobody"), root="nobody")


async def test_a_stranger_under_a_childs_id_is_not_followed(client, store):
    root = await begun(store, "root", asking("root", "clerk"))
    (wait,) = await delegated(root, "clerk")
    await begun(store, wait.source, CLERK)
    await root.do(cancel(), end())
    found = await taken(client, ended("root"))
    assert {event.conversation_id for event in found} == {"root"}


async def test_a_child_that_never_starts_leaves_the_cursor_with_its_wait(client, store):
    root = await begun(store, "root", asking("root", "clerk"))
    (wait,) = await delegated(root, "clerk")
    await root.do(cancel())
    found = await taken(client, lambda event: event.kind == "turn_cancelled")
    assert any(wait.source in event.cursor for event in found)
    assert found[-1].cursor == str(found[-1].seq)


async def test_a_child_that_could_not_be_started_holds_no_stream_open(client, store):
    root = await begun(store, "root", asking("root", "clerk"))
    (wait,) = await delegated(root, "clerk")
    failed = Tell(suspension_id=wait.suspension_id, source=wait.source, ok=False, content='"no such agent"', ended=False)
    await root.do(lambda _: failed, reply("fine"), end())
    found = await taken(client, never)
    assert [event.kind for event in found] == [event.kind for event in root.events]


async def test_a_quarantined_child_that_is_waited_for_no_longer_is_told_whole_and_holds_no_stream_open(client, store):
    root = await begun(store, "root", asking("root", "clerk"))
    (wait,) = await delegated(root, "clerk")
    clerk = await child_of(root, wait, CLERK)
    await clerk.do(call("refund"))
    owner = await store.owner(clerk.conversation_id)
    await store.strike(clerk.conversation_id, owner.token, process="p-1", reason="it dies again and again", limit=1)
    told = Tell(suspension_id=wait.suspension_id, source=wait.source, ok=False, content='"quarantined"', ended=False)
    await root.do(lambda _: told, reply("fine"), end())
    found = await taken(client, never)
    for writer in (root, clerk):
        own = [event.kind for event in found if event.conversation_id == writer.conversation_id]
        assert own == [event.kind for event in writer.events]
    resumed = await taken(client, never, after=f"{root.state.seq},{clerk.conversation_id}={clerk.state.seq - 1}")
    assert [event.seq for event in resumed] == [clerk.state.seq]


async def test_a_child_that_is_set_aside_after_its_parent_has_ended_holds_no_stream_open(client, store, monkeypatch):
    monkeypatch.setattr(tree_events, "LOOK_S", 0.05)
    root = await begun(store, "root", asking("root", "clerk"))
    (wait,) = await delegated(root, "clerk")
    clerk = await child_of(root, wait, CLERK)
    await clerk.do(call("refund"))
    await root.do(cancel(), end())
    told = []
    async with asyncio.timeout(20):
        async for event in client.conversation("root").events(descendants=True, live=False):
            told.append(event)
            if len(told) == len(root.events) + len(clerk.events):  # it goes on, since the child may do more
                owner = await store.owner(clerk.conversation_id)
                await store.strike(clerk.conversation_id, owner.token, process="p-1", reason="it dies again", limit=1)


async def test_a_child_that_cannot_be_read_ends_nothing(client, store, monkeypatch):
    root, middle, _ = await grown(store)
    read = store.read

    async def torn(name, **where):
        if name == middle.conversation_id:
            raise CorruptStore("entry 4 is torn")
        return await read(name, **where)

    monkeypatch.setattr(store, "read", torn)
    await root.do(cancel(), end())
    found = await taken(client, ended("root"))
    assert {event.conversation_id for event in found} == {"root"}


async def test_a_child_that_starts_later_is_followed_from_its_beginning(client, store):
    root = await begun(store, "root", asking("root", "clerk"))
    (wait,) = await delegated(root, "clerk")
    waiting = asyncio.ensure_future(
        taken(client, lambda event: event.kind == "call_suspended" and event.conversation_id != "root")
    )
    clerk = await child_of(root, wait, CLERK)
    await clerk.do(call("refund"))
    found = await waiting
    assert [event.seq for event in found if event.conversation_id == clerk.conversation_id] == [*range(1, clerk.state.seq + 1)]


async def test_what_a_child_does_live_comes_with_its_conversation(client, store):
    _, _, clerk = await grown(store)

    async def telling():
        while True:
            await store.publish(clerk.conversation_id, codec.pack(["text_delta", "t1.m1", 1, 5, "hello"]))
            await asyncio.sleep(0.01)

    speaking = asyncio.ensure_future(telling())
    async with asyncio.timeout(20):
        async for event in client.conversation("root").events(descendants=True):
            if event.seq is None:
                break
    speaking.cancel()
    assert (event.conversation_id, event.data["text"], event.cursor) == (clerk.conversation_id, "hello", None)
