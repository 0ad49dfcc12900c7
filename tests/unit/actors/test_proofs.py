"""Who counts as proven: a server signs the commands of those whom it has verified, and an actor takes no other proof."""

from dataclasses import replace

import pytest
from hosted import START, FakeWorkers

from holdfast.actors.actor_settings import StoreAddress
from holdfast.actors.answers import Failed, Hosted, Replied
from holdfast.actors.host import Host
from holdfast.actors.proofs import Proofs, signed
from holdfast.conversation import Principal, Proof, Send, Start, Tell
from holdfast.conversation.records.commands import COMMANDS, CancelTurn
from holdfast.conversation.terms.delegation import Ancestor, Parent
from holdfast.errors import ClusterUnavailable, InvalidInput
from holdfast.persistence import MemoryStore, TakeoverReason
from holdfast.settings import ProcessLimits, Timing

STORE = StoreAddress("redis://x", "holdfast", "store-1")
KEY = b"k" * 32
KIM = Principal("kim", roles=["cfo"], proof=Proof.KEY)


async def key():
    return KEY


def hosting(store, **more):
    workers = FakeWorkers()
    workers.store = store
    settled = {"timing": Timing(tick_ms=10), "process_limits": ProcessLimits(), "clock": lambda: 0, "leave": lambda: None}
    return Host(store, workers, name="actor-1", **settled, **more)


async def log(store):
    owner = await store.owner("c-1")
    return await store.read("c-1") if owner is not None and owner.started else []


def by(principal, command):
    return command.model_copy(update={"principal": principal})


async def asked(host, command, name="c-1"):
    """What a hosted conversation answers to a command."""
    await host.activate(name, "", TakeoverReason.ASKED, create=True)
    return await host.ask(name, command)


@pytest.mark.parametrize("checks", [{}, {"check_proof": Proofs(STORE, key).check}], ids=["by nobody", "by servers"])
async def test_a_proof_that_no_server_has_signed_is_refused_and_nothing_is_written(checks):
    store = MemoryStore()
    answer = await asked(hosting(store, **checks), by(KIM, START))
    assert isinstance(answer, Failed)
    assert isinstance(answer.error, InvalidInput)
    assert answer.error.field == "principal.proof"
    assert "holdfast serve" in answer.error.fix
    assert not (await store.owner("c-1")).started


async def test_a_proof_that_comes_with_the_takeover_is_looked_at_as_well():
    store = MemoryStore()
    taken_up = await hosting(store).activate("c-1", "", TakeoverReason.ASKED, create=True, first=by(KIM, START))
    assert isinstance(taken_up, Hosted)
    assert isinstance(taken_up.first, Failed)
    assert not (await store.owner("c-1")).started


async def test_what_a_server_has_signed_counts_as_proven_and_what_is_stated_needs_no_signature():
    store = MemoryStore()
    host = hosting(store, check_proof=Proofs(STORE, key).check)
    assert isinstance(await asked(host, signed(KEY, STORE, "c-1", by(KIM, START))), Replied)
    (message,) = await store.at("c-1", [2])
    assert message.principal == KIM
    stated = Send(text="And?", message_id="m-2", principal=Principal("kim"))
    assert isinstance(await host.ask("c-1", stated), Replied)
    assert isinstance(await host.ask("c-1", Send(text="And?", message_id="m-3")), Replied)


@pytest.mark.parametrize(
    ("changed", "elsewhere"),
    [
        ({"principal": Principal("kim", roles=["cfo"], proof=Proof.OIDC)}, {}),
        ({"principal": Principal("kim", roles=["ceo"], proof=Proof.KEY)}, {}),
        ({"principal": Principal("ana", roles=["cfo"], proof=Proof.KEY)}, {}),
        ({"text": "pay"}, {}),
        ({"message_id": "m-9"}, {}),
        ({"signature": ""}, {}),
        ({"signature": "\udcff"}, {}),
        ({}, {"conversation_id": "c-2"}),
        ({}, {"key": b"o" * 32}),
        ({}, {"store": replace(STORE, store_id="store-2")}),
        ({}, {"store": replace(STORE, namespace="other")}),
    ],
    ids=str,
)
async def test_a_signature_is_for_one_request_of_one_principal_in_one_conversation_of_one_store(changed, elsewhere):
    given = {"key": KEY, "store": STORE, "conversation_id": "c-1", "command": by(KIM, Send(text="look", message_id="m-2"))}
    proofs = Proofs(STORE, key)
    await proofs.check("c-1", signed(*given.values()))
    made = signed(*(given | elsewhere).values())
    with pytest.raises(InvalidInput, match="no server has proven"):
        await proofs.check("c-1", made.model_copy(update=changed))


async def test_what_the_way_and_the_actor_add_to_a_request_is_not_signed():
    made = signed(KEY, STORE, "c-1", by(KIM, START))
    stamped = made.stamped(7, START.spec, {}, "trace", {}, salt="s").model_copy(update={"traceparent": "00-1-2-01"})
    await Proofs(STORE, key).check("c-1", stamped)


async def test_text_that_no_utf8_can_hold_can_be_signed_since_its_judge_refuses_it():
    odd = by(KIM, CancelTurn(request_id="\udcff", turn_id="\x00"))
    await Proofs(STORE, key).check("c-1", signed(KEY, STORE, "c-1", odd))


PARENT = Parent(
    suspension_id="susp_1",
    path=(Ancestor(conversation_id="c-0", agent="boss"),),
    depth=1,
    descendants=1,
    must_end_by=1_000,
)
OF_MACHINES = [
    START.model_copy(update={"parent": PARENT}),
    Tell(suspension_id="susp_1", source="c-child", ok=True, content='"fine"'),
]


@pytest.mark.parametrize("checks", [{}, {"check_proof": Proofs(STORE, key).check}], ids=["without-servers", "with-servers"])
@pytest.mark.parametrize("command", OF_MACHINES, ids=lambda one: one.kind)
@pytest.mark.parametrize("signature", ["", "made up", "of another conversation"])
async def test_what_only_a_conversation_may_send_is_refused_unless_the_courier_has_signed_it(checks, command, signature):
    store = MemoryStore()
    host = hosting(store, **checks)
    if command.kind == "tell":
        await asked(host, START)
    before = await log(store)
    other = signed(KEY, STORE, "c-2", command).signature
    forged = command.model_copy(update={"signature": other if signature == "of another conversation" else signature})
    answer = await asked(host, forged)
    assert isinstance(answer, Failed)
    assert isinstance(answer.error, InvalidInput)
    assert answer.error.field == "signature"
    assert (await store.owner("c-1")).started == (command.kind == "tell")
    assert await log(store) == before


@pytest.mark.parametrize("command", OF_MACHINES, ids=lambda one: one.kind)
async def test_what_the_courier_has_signed_is_judged(command):
    host = hosting(MemoryStore(), check_proof=Proofs(STORE, key).check)
    answer = await asked(host, signed(KEY, STORE, "c-1", command))
    assert not isinstance(getattr(answer, "error", None), InvalidInput)


@pytest.mark.parametrize(
    "changed", [{"parent": None}, {"parent": PARENT.model_copy(update={"depth": 8})}, {"text": "pay"}], ids=str
)
async def test_a_start_for_a_parent_is_signed_whole(changed):
    made = signed(KEY, STORE, "c-1", by(KIM, OF_MACHINES[0]))
    with pytest.raises(InvalidInput, match="no server has proven"):
        await Proofs(STORE, key).check("c-1", made.model_copy(update=changed))


@pytest.mark.parametrize(
    "changed", [{"suspension_id": "susp_2"}, {"source": "c-9"}, {"ok": False}, {"content": '"pay"'}, {"ended": False}], ids=str
)
async def test_a_word_is_signed_whole(changed):
    made = signed(KEY, STORE, "c-1", OF_MACHINES[1])
    with pytest.raises(InvalidInput, match="no conversation has sent this"):
        await Proofs(STORE, key).check("c-1", made.model_copy(update=changed))


async def test_where_the_vault_cannot_be_read_the_request_fails_and_is_not_judged():
    async def unreachable():
        what = "its control store does not answer"
        raise ClusterUnavailable(what)

    store = MemoryStore()
    host = hosting(store, check_proof=Proofs(STORE, unreachable).check)
    answer = await asked(host, signed(KEY, STORE, "c-1", by(KIM, START)))
    assert isinstance(answer, Failed)
    assert isinstance(answer.error, ClusterUnavailable)
    assert not (await store.owner("c-1")).started


def test_every_command_that_can_name_a_principal_can_be_signed():
    for command in COMMANDS:
        assert ("principal" in command.model_fields) == ("signature" in command.model_fields)
    assert by(KIM, START).proven == KIM
    assert by(Principal("kim"), START).proven is None
    assert isinstance(START, Start)
    assert START.proven is None
