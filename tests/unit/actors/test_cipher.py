"""A cipher that fails for a while: what was done waits, what was asked is refused, and nothing is set aside."""

import asyncio

import pytest
from given_worker import GivenWorker, carried_out
from hosted import GATED, OPEN, START, FakeWorkers, activated, decided, stored, until
from toy_cipher import ToyCipher
from writer import DESK, Writer, begin, call, reply, start

from holdfast.actors import actor_settings, build
from holdfast.actors.activation import activation as activation_module
from holdfast.actors.actor_settings import ActorSettings, StoreAddress, release_with
from holdfast.actors.build import build_of, this_release
from holdfast.actors.published import Published
from holdfast.actors.signature import sealed
from holdfast.actors.workers import NoWorker, RunRequest
from holdfast.agent import Agent, tool
from holdfast.cipher import CipherAt
from holdfast.conversation import Approve, Status
from holdfast.errors import CipherFailed
from holdfast.persistence import AppRecord, MemoryStore, RunStatus, Takeover, TakeoverReason
from holdfast.registry.releases import older


class Failing(ToyCipher):
    """A cipher whose key can be taken away, for writing or reading."""

    def __init__(self):
        super().__init__()
        self.writes = self.reads = True
        self.refused = 0

    def encrypt(self, data, context):
        if not self.writes:
            self.refused += 1
            raise RuntimeError("the key is gone")
        return super().encrypt(data, context)

    def decrypt(self, data, context):
        if not self.reads:
            self.refused += 1
            raise RuntimeError("the key is gone")
        return super().decrypt(data, context)


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    monkeypatch.setattr(activation_module, "CIPHER_AGAIN_S", 0.01)


async def refused(cipher, times):
    """Wait until the cipher has refused so many times more."""
    until_then = cipher.refused + times
    async with asyncio.timeout(20):
        while cipher.refused < until_then:
            await asyncio.sleep(0.001)


async def hosted(spec, *answers):
    """A conversation on a store whose cipher can fail."""
    cipher = Failing()
    store, workers = await stored(spec), FakeWorkers(*answers)
    store.payloads.cipher = cipher
    await store.put_app(await store.app("shop:app"), [spec])
    return store, workers, cipher, await activated(store, workers)


async def test_a_command_is_refused_while_nothing_can_be_encrypted_and_the_same_is_done_after():
    store, _, cipher, active = await hosted(GATED, call("refund"), reply())
    await active.ask(START)
    state = await until(store, lambda state: state.status is Status.AWAITING_INPUT)
    cipher.writes = False

    with pytest.raises(CipherFailed, match="encrypt raised RuntimeError"):
        await active.ask(decided(state, Approve()))
    assert (await store.load("c-1")).seq == state.seq
    cipher.writes = True
    receipt = await active.ask(decided(state, Approve()))

    assert receipt.seq > state.seq
    assert await store.quarantine("c-1") is None


async def test_a_models_answer_waits_until_it_can_be_encrypted_and_the_model_is_not_asked_again():
    store, workers, cipher, active = await hosted(GATED)
    await active.ask(START)
    await until(store, lambda state: state.turn is not None)
    while not workers.calls:
        await asyncio.sleep(0)
    cipher.writes = False
    workers.answers.append(reply())
    workers.gate.set()
    await refused(cipher, 5)
    assert await store.quarantine("c-1") is None

    cipher.writes = True
    state = await until(store, lambda state: state.status is Status.IDLE)

    assert state.last.outcome == "completed"
    assert len(workers.calls) == 1
    taken = await store.acquire(
        "c-1", Takeover(seen_token=active._owned.token, new_token="t", because=TakeoverReason.DIED, actor="h", lease_ms=1)
    )
    assert taken.blame.crash_count == 0


async def test_what_cannot_be_decrypted_for_a_while_is_no_strike_and_goes_on_after():
    store, workers, cipher, active = await hosted(OPEN, call("refund"), reply())
    cipher.reads = False
    asking = asyncio.ensure_future(active.ask(START.model_copy(update={"spec": OPEN})))
    await refused(cipher, 2)
    assert await store.quarantine("c-1") is None

    cipher.reads = True
    workers.gate.set()
    await asking
    assert (await until(store, lambda state: state.status is Status.IDLE)).last.outcome == "completed"


async def test_an_outcome_that_cannot_be_encrypted_is_recorded_once_it_can_be_and_the_body_runs_once():
    ran, cipher = [], Failing()

    @tool
    async def lookup() -> str:
        """Look something up."""
        ran.append("lookup")
        cipher.writes = False
        return "found"

    store = MemoryStore(cipher=cipher)
    await store.put_app(AppRecord(app="shop:app", code="k", agents={"desk": DESK.digest}), (DESK,))
    writer = await Writer.of(store, "c-1")
    await writer.do(start("hello"), begin(), call("lookup"))
    (called,) = writer.state.calls
    request = RunRequest(
        code="k",
        conversation_id="c-1",
        agent="desk",
        spec_digest=DESK.digest,
        effect_id=called.effect_id,
        turn_id=writer.state.turn.turn_id,
        tool_call_id=called.tool_call_id,
        tool="lookup",
        attempt=1,
        arguments_at=called.arguments_at,
    )
    worker = GivenWorker(store, Agent(name="desk", model="m", tools=[lookup]))
    running = asyncio.ensure_future(carried_out(worker, request))
    await refused(cipher, 1)
    assert (await store.run("c-1", called.effect_id)).status is RunStatus.CLAIMED
    cipher.writes = True
    outcome = await running

    assert ran == ["lookup"]
    assert outcome.ok
    assert (await store.run("c-1", called.effect_id)).status is RunStatus.DONE


def test_actors_of_another_cipher_count_as_those_of_another_release_and_neither_is_older():
    address = StoreAddress("redis://x", "here", "s-1")
    one, other, none = (release_with(where) for where in (CipherAt("a:cipher"), CipherAt("b:cipher"), None))

    assert none == this_release()
    assert len({one, other, none}) == 3
    assert release_with(CipherAt("a:cipher", "/elsewhere")) == one
    assert [build_of(release) for release in (one, other, none)] == [none] * 3
    for mine, serving in ((one, other), (other, one), (one, none), (none, one)):
        assert not older(mine, serving)
        assert not ActorSettings(address, release=serving).sweeper_name.startswith(ActorSettings(address, release=mine).prefix)


@pytest.mark.parametrize("version", ["0.1.0", "0.1.0+local", "0.1.0+x.cipher", "0.1.0+x.cipher.abcdefgh"])
def test_a_build_is_known_again_in_a_release_whatever_its_version_is_called(monkeypatch, version):
    monkeypatch.setattr(build.metadata, "version", lambda _: version)
    here = this_release.__wrapped__()
    monkeypatch.setattr(actor_settings, "this_release", lambda: here)

    assert release_with(None) == build_of(here) == here
    assert release_with(CipherAt("a:cipher")).startswith(f"{here}.cipher.")
    assert build_of(release_with(CipherAt("a:cipher"))) == here
    assert not older(release_with(CipherAt("a:cipher")), "0.1.0")
    assert older(release_with(CipherAt("a:cipher")), "0.1.1")


async def test_why_an_app_waits_is_taken_back_also_where_it_could_not_be_encrypted():
    cipher, key, address = Failing(), b"k" * 32, StoreAddress("redis://x", "here", "s-1")
    store = MemoryStore(cipher=cipher)
    record = AppRecord(app="shop:app", code="k", agents={"desk": DESK.digest})
    await store.put_app(record, (DESK,))

    async def known():
        return key

    published = Published(store, address, known)
    cipher.writes = False
    with pytest.raises(NoWorker, match="was not signed"):
        await published.record("shop:app")
    ((broken,), cipher.writes) = (await store.broken_apps(), True)
    assert "could not be encrypted" in broken.problem

    await store.put_app(sealed(key, address, record), (DESK,))
    assert (await published.record("shop:app")).code == "k"
    assert await store.broken_apps() == []
