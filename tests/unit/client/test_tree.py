"""The tree of a conversation, and the calls that wait in it: walked from its root, cut by nothing that cannot be read."""

import pytest
from family import asking, begun, child_of, delegated, three_levels
from stores import InMemory
from writer import DESK, call, end, reply

from holdfast.client import Ancestor, AsyncClient, ConversationNotFound, InvalidInput, Status
from holdfast.client import tree as trees
from holdfast.client.stack_gateway import StackGateway
from holdfast.conversation import Principal, Tell
from holdfast.errors import CorruptStore
from holdfast.persistence import MemoryStore

DESK_BELOW = DESK.model_copy(update={"name": "clerk"})


@pytest.fixture
def store():
    return MemoryStore()


@pytest.fixture
def client(store):
    return AsyncClient(StackGateway(InMemory(store), timeout_s=10))


@pytest.fixture
async def family(store):
    """A root that waits for two children: the first for a person and a child of its own, and the second has not begun."""
    return await three_levels(store, "refund", "ask")


def word(parent, child, **said):
    about = {"suspension_id": child.state.parent.suspension_id, "source": child.conversation_id}
    return lambda _: Tell(ok=True, content='"done"', **about | said)


async def test_a_tree_has_the_conversations_below_with_what_waits_in_each(client, family):
    _, middle, clerk = family
    node = await client.conversation("root").tree()
    assert (node.agent, node.status, node.pending, node.tool_call_id) == ("root", Status.AWAITING_INPUT, 0, "")
    first, second = node.children
    assert (first.conversation_id, first.agent, first.pending, first.waited_for) == (middle.conversation_id, "middle", 1, True)
    assert [one.conversation_id for one in first.children] == [clerk.conversation_id]
    assert (first.children[0].agent, first.children[0].pending) == ("clerk", 2)
    assert (second.agent, second.status, second.problem) == ("other", None, trees.NOT_STARTED)
    assert [one.agent for one in node.walk()] == ["root", "middle", "clerk", "other"]


async def test_a_tree_begins_at_any_of_its_conversations(client, family):
    _, middle, clerk = family
    node = await client.conversation(middle.conversation_id).tree()
    assert [one.conversation_id for one in node.walk()] == [middle.conversation_id, clerk.conversation_id]


async def test_children_that_are_over_stay_in_the_tree_until_the_next_turn_begins(client, family):
    root, middle, clerk = family
    await clerk.do(end())
    await middle.do(word(middle, clerk))
    await middle.do(end())
    await root.do(word(root, middle))
    node = await client.conversation("root").tree()
    assert [(one.agent, one.status, one.waited_for) for one in node.walk()] == [
        ("root", Status.AWAITING_INPUT, False),
        ("middle", Status.ENDED, False),
        ("clerk", Status.ENDED, False),
        ("other", None, True),
    ]


async def test_the_last_turns_children_are_found_in_the_log(client, store):
    root = await begun(store, "root", asking("root", "clerk"))
    (wait,) = await delegated(root, "clerk")
    clerk = await child_of(root, wait, DESK_BELOW)
    await clerk.do(reply("fine"))
    await root.do(word(root, clerk), reply("all done"))
    node = await client.conversation("root").tree()
    assert [(one.agent, one.status) for one in node.walk()] == [("root", Status.IDLE), ("clerk", Status.ENDED)]


async def test_a_child_that_cannot_be_read_hides_no_other(client, store, family, monkeypatch):
    _, middle, _ = family
    loaded = store.load

    async def load(name):
        if name == middle.conversation_id:
            raise CorruptStore("the head is torn")
        return await loaded(name)

    monkeypatch.setattr(store, "load", load)
    node = await client.conversation("root").tree()
    first, second = node.children
    assert (first.agent, first.status, first.children) == ("middle", None, [])
    assert "the head is torn" in first.problem
    assert second.problem == trees.NOT_STARTED
    assert (await client.pending(root="root")).items == []


async def test_a_log_that_cannot_be_read_leaves_the_children_that_are_waited_for(client, store, family, monkeypatch):
    read = store.read

    async def torn(name, **where):
        if name == "root":
            raise CorruptStore("entry 4 is torn")
        return await read(name, **where)

    monkeypatch.setattr(store, "read", torn)
    node = await client.conversation("root").tree()
    assert "entry 4 is torn" in node.problem
    assert [one.status for one in node.children] == [Status.AWAITING_INPUT, None]


async def test_a_conversation_that_somebody_started_under_a_childs_id_is_no_child(client, store):
    root = await begun(store, "root", asking("root", "clerk"))
    (wait,) = await delegated(root, "clerk")
    stranger = await begun(store, wait.source, DESK_BELOW.model_copy(update={"name": "stranger"}))
    await stranger.do(call("refund"))
    (child,) = (await client.conversation("root").tree()).children
    assert (child.agent, child.status, child.pending, child.problem) == ("clerk", None, 0, trees.ANOTHER)
    assert (await client.pending(root="root")).items == []


async def test_a_large_tree_says_what_it_leaves_out(client, store, monkeypatch):
    monkeypatch.setattr(trees, "MOST_NODES", 4)
    agents = [f"clerk-{number}" for number in range(6)]
    root = await begun(store, "root", asking("root", *agents))
    for wait in (await delegated(root, *agents))[:2]:
        await child_of(root, wait, DESK_BELOW)
    node = await client.conversation("root").tree()
    assert (len(list(node.walk())), node.left_out) == (4, 3)


async def test_the_calls_of_a_tree_are_listed_page_by_page_with_the_conversations_above_each(client, family):
    _, middle, clerk = family
    found, after = [], None
    while True:
        page = await client.pending(root="root", limit=2, after=after)
        found += page.items
        after = page.next
        if after is None:
            break
    root = Ancestor(conversation_id="root", agent="root")
    between = Ancestor(conversation_id=middle.conversation_id, agent="middle")
    assert sorted((one.agent, one.tool, one.path) for one in found) == [
        ("clerk", "ask", (root, between)),
        ("clerk", "refund", (root, between)),
        ("middle", "refund", (root,)),
    ]
    assert [one.suspension_id for one in found] == [one.suspension_id for one in (await client.pending()).items]
    (of_clerk,) = {one.conversation_id for one in (await client.pending(root=clerk.conversation_id)).items}
    assert of_clerk == clerk.conversation_id


async def test_a_trees_calls_are_filtered_as_any_list_is(client, family):
    asked = {"tool": "refund", "kind": "approval", "agent": "clerk", "approver": Principal("ana"), "expires_within_s": 7200}
    assert [one.tool for one in (await client.pending(root="root", **asked)).items] == ["refund"]
    assert (await client.pending(root="root", older_than_s=3600)).items == []
    assert (await client.pending(root="root", expires_within_s=1)).items == []


async def test_calls_of_a_conversation_that_nobody_delegated_to_have_no_path(client, store):
    alone = await begun(store, "d-like-a-child", DESK)
    await alone.do(call("refund"))
    (listed,) = (await client.pending()).items
    (shown,) = await client.conversation("d-like-a-child").pending()
    assert listed.path == shown.path == ()


async def test_one_call_has_the_path_of_the_list(client, family):
    *_, clerk = family
    listed = (await client.conversation(clerk.conversation_id).pending())[0]
    assert [one.agent for one in listed.path] == ["root", "middle"]


async def test_a_parents_state_says_which_call_waits_for_which_child(client, family):
    root, middle, _ = family
    state = await client.conversation("root").state()
    assert [(one.tool, one.conversation_id) for one in state.waits] == [
        (one.tool, one.suspension.source) for one in root.state.calls
    ]
    below = await client.conversation(middle.conversation_id).state()
    assert [one.tool for one in below.waits] == ["clerk"]


async def test_a_tree_of_nothing_is_a_typed_error(client):
    with pytest.raises(ConversationNotFound):
        await client.conversation("nobody").tree()
    with pytest.raises(ConversationNotFound):
        await client.pending(root="nobody")
    with pytest.raises(InvalidInput):
        await client.pending(root="not an id")
