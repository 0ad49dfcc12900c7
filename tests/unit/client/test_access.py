"""API keys through a client, over a store in memory: what a key may be, and what of it is kept."""

import hashlib

import pytest
from stores import InMemory

from holdfast.client import AsyncClient, ConversationNotFound, InvalidConversationId, InvalidInput
from holdfast.client.access import API_KEY, AccessScope, fits
from holdfast.conversation import Principal, Proof
from holdfast.persistence import MemoryStore
from holdfast.testing.writer import Writer, begin, start


@pytest.fixture
def store():
    return MemoryStore(clock=lambda: 1_000)


@pytest.fixture
def access(store):
    return AsyncClient(InMemory(store), timeout_s=10).access


async def test_a_key_is_shown_once_and_its_secret_is_kept_as_a_digest(access):
    key, text = await access.create_key(
        "ana", ["decide", "read", "read"], agents=["desk", "desk"], expires_s=60, roles=["lead"]
    )
    key_id, secret = API_KEY.fullmatch(text).groups()

    assert (key.key_id, key.digest) == (key_id, hashlib.sha256(secret.encode()).hexdigest())
    assert (key.scopes, key.agents, key.roles) == ((AccessScope.READ, AccessScope.DECIDE), ("desk",), ("lead",))
    assert (key.created_at, key.expires_at, key.used_at) == (1_000, 61_000, None)
    assert await access.key(key_id) == key
    assert fits(key, secret)
    assert not fits(key, secret[:-1])
    assert not fits(key, key.digest)
    _, other = await access.create_key("ana", ["read"])
    assert other[:15] != text[:15]
    assert len(await access.keys()) == 2


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"name": ""}, "principal.id"),
        ({"name": "ana\n"}, "principal.id"),
        ({"scopes": []}, "scopes"),
        ({"scopes": ["everything"]}, "scopes"),
        ({"scopes": ["READ"]}, "scopes"),
        ({"agents": []}, "agents"),
        ({"agents": [None]}, "agents"),
        ({"agents": ["no agent"]}, "agent"),
        ({"agents": [f"a{number}" for number in range(65)]}, "agents"),
        ({"name": "ana\u202e"}, "principal.id"),
        ({"roles": [""]}, "principal.roles"),
        ({"roles": ["lead\u200b"]}, "principal.roles"),
        ({"expires_s": 0}, "expires_s"),
        ({"expires_s": float("nan")}, "expires_s"),
        ({"expires_s": 1e12}, "expires_s"),
    ],
)
async def test_what_is_no_key_is_refused(access, given, field):
    with pytest.raises(InvalidInput) as refused:
        await access.create_key(**({"name": "ana", "scopes": ["read"]} | given))
    assert refused.value.field == field
    assert await access.keys() == []


async def test_a_conversation_tells_whose_it_is(access, store):
    writer = await Writer.of(store, "c-1")
    await writer.do(start(agent="desk"), begin())
    assert await access.agent_of("c-1") == "desk"
    with pytest.raises(ConversationNotFound):
        await access.agent_of("c-2")
    with pytest.raises(InvalidConversationId):
        await access.agent_of("c 2")


async def test_nobody_acts_under_a_name_that_does_not_show_whole_unless_it_was_verified(store):
    client = AsyncClient(InMemory(store), timeout_s=10)
    with pytest.raises(InvalidInput, match="does not show whole"):
        client.acting_as(Principal("ana\u202e"))
    client.acting_as(Principal("ana\u202e", proof=Proof.KEY))  # of a key that was made before names were checked
