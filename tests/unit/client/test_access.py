"""API keys through a client, over a store in memory: what a key may be, and what of it is kept."""

import hashlib

import pytest
from stores import InMemory
from writer import Writer, begin, start

from holdfast.client import (
    Ancestor,
    AsyncClient,
    Client,
    ConfigurationError,
    ConversationNotFound,
    InvalidConversationId,
    InvalidInput,
)
from holdfast.client.access import API_KEY, AccessScope, fits
from holdfast.client.stack_gateway import StackGateway
from holdfast.conversation import Approvers, Principal, Proof
from holdfast.persistence import MemoryStore


@pytest.fixture
def store():
    return MemoryStore(clock=lambda: 1_000)


@pytest.fixture
def access(store):
    return AsyncClient(StackGateway(InMemory(store), timeout_s=10)).access


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
    assert await access.place_of("c-1") == (Ancestor(conversation_id="c-1", agent="desk"),)
    with pytest.raises(ConversationNotFound):
        await access.place_of("c-2")
    with pytest.raises(InvalidConversationId):
        await access.place_of("c 2")


HIDDEN = ["\u202e", "\u200b", "\u2066", "\u00a0x", "\u202fx", "\ufe0f", "\U000e0041", "\u3164", "\u00ad"]


@pytest.mark.parametrize("hidden", HIDDEN, ids=ascii)
async def test_no_name_with_a_character_that_nobody_sees_comes_in_anywhere(store, access, hidden):
    name = f"ana{hidden}"
    client = AsyncClient(StackGateway(InMemory(store), timeout_s=10))
    with Client.connect(redis_url="unix:///nowhere", ray_address="auto") as blocking:
        for one in (client, blocking):
            for principal in (Principal(name), Principal("ana", roles=["finance", name])):
                with pytest.raises(InvalidInput, match="does not show whole"):
                    one.acting_as(principal)
    for given in ({"name": name}, {"name": "ana", "roles": [name]}):
        with pytest.raises(InvalidInput, match="does not show whole"):
            await access.create_key(**({"scopes": ["read"]} | given))
    for to in (name, Principal(name)):
        with pytest.raises(InvalidInput, match="is no name"):
            await client.conversation("c-1").assign("s-1", to)
    with pytest.raises(InvalidInput, match="approver"):
        await client.pending(approver=Principal(name))
    for who in (f"id:{name}", f"role:{name}"):
        with pytest.raises(ConfigurationError, match="invisible characters"):
            Approvers(who)


@pytest.mark.parametrize("proof", [proof for proof in Proof if proof is not Proof.STATED])
def test_a_program_states_who_it_acts_as_and_brings_no_proof(store, proof):
    kim = Principal("kim", roles=["cfo"], proof=proof)
    with Client.connect(redis_url="unix:///nowhere", ray_address="auto") as blocking:
        for client in (AsyncClient(StackGateway(InMemory(store), timeout_s=10)), blocking):
            with pytest.raises(InvalidInput, match=f"no server has proven 'kim' by {proof.value}; leave") as refused:
                client.acting_as(kim)
            assert refused.value.field == "principal.proof"
            client.acting_as(Principal("kim", roles=["cfo"]))
