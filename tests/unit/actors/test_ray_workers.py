"""The workers, in a cluster whose workers are fakes: what is asked of whom."""

import asyncio
import binascii
import dataclasses
import math
from functools import partial
from types import SimpleNamespace

import pytest
from writer import DESK, Writer, begin, call, start

from holdfast.actors import ray_workers, wire
from holdfast.actors.actor_settings import ActorSettings, StoreAddress
from holdfast.actors.ray_workers import RayWorkers, WorkerDied, WorkerUnavailable
from holdfast.actors.signature import sealed
from holdfast.actors.worker.attestation import EVERY_S, VALID_MS
from holdfast.actors.worker.refusals import AppBroken, Dropped, Succeeded
from holdfast.actors.workers import (
    Claimed,
    Delivered,
    DeliverRequest,
    Later,
    ModelRequest,
    NoOutcome,
    NoWorker,
    WorkerLost,
    WorkPaused,
)
from holdfast.conversation import ModelReplied, RunFinished
from holdfast.conversation.log.owed import Envelope
from holdfast.errors import ClusterStopped
from holdfast.persistence import EVERYWHERE, AppRecord, MemoryStore, codec

SETTINGS = ActorSettings(StoreAddress("redis://x", "holdfast", "store-1"))
REQUEST = ModelRequest(
    code="code-1", conversation_id="c-1", agent="desk", spec_digest="d", effect_id="t1.m1", upto_seq=3, attempt=1
)


KEY = b"k" * 32


class Workers(dict):
    """A cluster: the workers that there are, by name, and what its control store keeps: the key, and variables."""

    def __init__(self):
        super().__init__()
        self.now, self.variables, self.spawned, self.avoided = KEY, {}, [], []

    async def find(self, name):
        return self.get(name)

    async def spawn(self, settings, *, avoid):
        self.spawned.append(settings)
        self.avoided.append(set(avoid))
        return Process()

    async def key(self):
        return self.now

    async def environment(self, app, code):
        return self.variables.get((app, code), {})


async def published(store, **fields):
    """The record of an app in the store, as who has the key wrote it."""
    record = sealed(KEY, SETTINGS.store, AppRecord(**({"app": "shop:app"} | fields)))
    await store.put_app(record, [])
    return record


@pytest.fixture
def known():
    return Workers()


async def settled(workers):
    """Let what goes to the workers in the background arrive."""
    async with asyncio.timeout(10):
        while workers._background:
            await asyncio.sleep(0)


async def test_a_claim_is_dropped_at_the_worker_that_made_it_whether_or_not_it_was_ever_asked_from_here(known):
    dropped = []
    name = ray_workers.worker_name(SETTINGS, "shop:app", "code-1", "0")
    known[name] = SimpleNamespace(drop=dropped.append)
    workers = RayWorkers(MemoryStore(), SETTINGS, known)
    workers.drop(name, "process-1.abc")
    await settled(workers)
    assert dropped == ["process-1.abc"]


async def test_a_claim_of_a_worker_that_cannot_be_told_is_left_to_its_own_look(known, caplog):
    dropped = []
    known[f"{SETTINGS.family}0.0.1:worker:0123:0"] = SimpleNamespace(drop=dropped.append)
    workers = RayWorkers(MemoryStore(), SETTINGS, known)
    workers.drop(f"{SETTINGS.family}0.0.1:worker:0123:0", "process-1.abc")  # releases do not talk
    workers.drop(ray_workers.worker_name(SETTINGS, "shop:app", "code-1", "0"), "process-1.abc")  # it is gone
    await settled(workers)
    assert (dropped, caplog.records) == ([], [])

    async def nowhere(name):
        raise ClusterStopped("holdfast")

    known.find = nowhere
    workers.drop("worker-1", "process-1.abc")
    await settled(workers)
    assert ["process-1.abc of worker-1 is not dropped" in record.getMessage() for record in caplog.records] == [True]


async def test_a_run_of_another_releases_worker_goes_on_as_long_as_its_process_lives(known):
    async def process():
        return "process-1"

    name = f"{SETTINGS.family}0.0.1:worker:0123:0"
    known[name] = SimpleNamespace(process=process)
    workers = RayWorkers(MemoryStore(), SETTINGS, known)
    assert await workers.join(name, "process-1.abc", "c-1", "call_1#1") is Claimed.BEGUN
    assert await workers.join(name, "process-0.abc", "c-1", "call_1#1") is NoOutcome.GONE


# -- a run of another cluster's worker -----------------------------------------------------------------------------------


HERE = dataclasses.replace(SETTINGS, cluster="a" * 56, gone=("9" * 56,))
THERE = dataclasses.replace(SETTINGS, cluster="b" * 56)


@pytest.fixture
async def abroad(monkeypatch):
    """A store with a run that `process-1` has claimed, and each moment in which somebody looks at it."""
    now = 1_000_000
    store = MemoryStore(clock=lambda: now)
    writer = await Writer.of(store, "c-1")
    await writer.do(start("hello"), begin(), call("lookup"))
    (effect_id,) = writer.effect_ids
    looks = 0

    async def look(seconds):
        nonlocal looks, now
        looks += 1
        now += round(seconds * 1000)
        at = loop.time() + seconds
        monkeypatch.setattr(loop, "time", lambda: at)
        await asyncio.tasks.sleep(0)
        for happens in happening.pop(looks, ()):
            await happens()

    loop, happening = asyncio.get_running_loop(), {}
    monkeypatch.setattr(ray_workers.asyncio, "sleep", look)
    return SimpleNamespace(store=store, writer=writer, effect_id=effect_id, happening=happening)


async def claimed(abroad, settings):
    worker = ray_workers.worker_name(settings, "shop:app", "code-1", "0")
    await abroad.store.claim("c-1", abroad.effect_id, incarnation="process-1.abc", worker=worker)
    return worker, "process-1.abc", "c-1", abroad.effect_id


async def test_a_run_of_another_clusters_worker_goes_on_while_its_claims_are_attested(known, abroad):
    run = await claimed(abroad, THERE)
    await abroad.store.attest("process-1", VALID_MS)
    assert await RayWorkers(abroad.store, HERE, known).join(*run) is Claimed.BEGUN


async def test_a_run_of_another_clusters_worker_is_lost_once_its_claims_have_lapsed(known, abroad):
    run = await claimed(abroad, THERE)
    began = await abroad.store.now()
    assert await RayWorkers(abroad.store, HERE, known).join(*run) is NoOutcome.GONE
    assert await abroad.store.now() - began >= (ray_workers.SILENT_S - ray_workers.LOOK_ABROAD_S) * 1000


async def test_an_outcome_that_is_recorded_while_another_cluster_is_silent_is_looked_for_in_the_record(known, abroad):
    run = await claimed(abroad, THERE)
    outcome = codec.encode(RunFinished(effect_id=abroad.effect_id, ok=True, content="{}"))
    abroad.happening[2] = [partial(abroad.store.finish, "c-1", abroad.effect_id, incarnation="process-1.abc", outcome=outcome)]
    assert await RayWorkers(abroad.store, HERE, known).join(*run) is NoOutcome.NOT_MINE


async def test_a_store_that_forgot_the_attestation_is_told_again_in_time(known, abroad):
    run = await claimed(abroad, THERE)  # and what was attested is not there: the store was set back
    abroad.happening[math.ceil(EVERY_S) + 1] = [partial(abroad.store.attest, "process-1", VALID_MS)]
    assert await RayWorkers(abroad.store, HERE, known).join(*run) is Claimed.BEGUN


@pytest.mark.parametrize(
    "settings", [HERE, dataclasses.replace(HERE, cluster=HERE.gone[0]), dataclasses.replace(HERE, release="9")]
)
async def test_a_run_of_this_clusters_worker_or_of_one_that_is_proven_gone_is_lost_at_once(known, abroad, settings):
    run = await claimed(abroad, settings)
    await abroad.store.attest("process-1", VALID_MS)
    began = await abroad.store.now()
    assert await RayWorkers(abroad.store, HERE, known).join(*run) is NoOutcome.GONE
    assert await abroad.store.now() == began


def test_names_tell_the_cluster_and_those_of_releases_without_it_are_not_judged():
    assert HERE.judges(f"{HERE.prefix}actor:1")
    assert not HERE.judges(f"{THERE.prefix}actor:1")
    assert not HERE.judges(f"{HERE.family}{HERE.release}:actor:1")
    assert not HERE.judges("holdfast:other:store-1:actor:1")


# -- workers that die or send a call away: the record of the call says how far it came -----------------------------------


class Process:
    """A worker's processes: each dies of its next model call if it is told to, and Ray starts another under the same handle."""

    def __init__(self):
        self.number, self.dies, self.prepared, self.problems, self.refusals = 1, False, 0, [], []

    def restart(self):
        self.number += 1

    async def prepare(self):
        self.prepared += 1
        if self.problems:
            raise self.problems.pop(0)
        return f"process-{self.number}"

    async def process(self):
        return f"process-{self.number}"

    async def do(self, asked):
        if self.refusals:
            raise self.refusals.pop(0)
        if self.dies:
            self.restart()
            raise WorkerUnavailable("it died")
        return wire.pack(ModelReplied(effect_id="t1.m1", content="Hi."))

    async def keeps(self, incarnations):
        return [one.startswith(f"process-{self.number}.") for one in incarnations]


async def test_the_claim_of_a_process_that_died_is_gone_and_that_of_the_one_in_its_place_is_not(known):
    worker = Process()
    name = ray_workers.worker_name(SETTINGS, "shop:app", "code-1", "0")
    known[name] = worker
    workers = RayWorkers(MemoryStore(), SETTINGS, known)
    assert (await workers.do("shop:app", REQUEST)).content == "Hi."
    worker.restart()  # of something else; nobody tells these workers
    assert (await workers.do("shop:app", REQUEST)).content == "Hi."
    worker.dies = True
    with pytest.raises(NoWorker, match="it died"):
        await workers.do("shop:app", REQUEST)
    for process in ("process-1", "process-2"):
        assert await workers.join(name, f"{process}.abc", "c-1", "t1.m1") is NoOutcome.GONE
    assert await workers.join(name, "process-3.abc", "c-1", "t1.m1") is Claimed.BEGUN


async def test_work_of_a_worker_that_was_made_under_the_name_of_one_that_left_is_joined_there_and_not_lost(known):
    name = ray_workers.worker_name(SETTINGS, "shop:app", "code-1", "0")
    known[name] = Process()
    workers = RayWorkers(MemoryStore(), SETTINGS, known)
    assert (await workers.do("shop:app", REQUEST)).content == "Hi."
    known[name] = Process()  # the first has left, and somebody else had another made
    known[name].number = 7
    assert await workers.join(name, "process-7.abc", "c-1", "t1.m1") is Claimed.BEGUN


@pytest.mark.parametrize("said", [WorkerDied, WorkerUnavailable])
async def test_a_call_for_a_worker_that_has_left_is_for_another_one_the_next_time(known, said):
    store, worker = MemoryStore(), Process()
    await published(store, code="code-1")
    name = ray_workers.worker_name(SETTINGS, "shop:app", "code-1", "0")
    known[name] = worker
    workers = RayWorkers(store, SETTINGS, known)
    await workers.do("shop:app", REQUEST)
    worker.refusals = [said("it has left")]
    del known[name]
    with pytest.raises(NoWorker, match="it has left"):
        await workers.do("shop:app", REQUEST)
    assert known.spawned == []
    assert (await workers.do("shop:app", REQUEST)).content == "Hi."
    assert [made.name for made in known.spawned] == [name]


async def test_a_call_for_a_worker_that_has_left_is_for_the_one_that_has_its_name_by_now(known):
    worker, other = Process(), Process()
    name = ray_workers.worker_name(SETTINGS, "shop:app", "code-1", "0")
    known[name] = worker
    workers = RayWorkers(MemoryStore(), SETTINGS, known)
    await workers.do("shop:app", REQUEST)
    worker.refusals = [WorkerDied("it has left")]
    known[name] = other
    with pytest.raises(NoWorker, match="it has left"):
        await workers.do("shop:app", REQUEST)
    assert (await workers.do("shop:app", REQUEST)).content == "Hi."
    assert (worker.prepared, other.prepared) == (1, 1)


async def test_a_run_is_lost_with_a_worker_that_has_left_and_not_with_one_that_does_not_answer(known):
    answers = [WorkerUnavailable("it is started again"), WorkerDied("it has left")]

    async def keeps(incarnations):
        raise answers.pop(0)

    name = ray_workers.worker_name(SETTINGS, "shop:app", "code-1", "0")
    known[name] = SimpleNamespace(keeps=keeps)
    workers = RayWorkers(MemoryStore(), SETTINGS, known)
    with pytest.raises(NoWorker, match="started again"):
        await workers.join(name, "process-1.abc", "c-1", "call_1#1")
    assert await workers.join(name, "process-1.abc", "c-1", "call_1#1") is NoOutcome.GONE


async def test_a_call_whose_turn_has_not_come_is_no_trouble_of_its_worker(known):
    alone = dataclasses.replace(REQUEST, max_claims=1)
    worker = Process()
    for slot in range(SETTINGS.process_limits.alone):
        known[ray_workers.worker_name(SETTINGS, "shop:app", "code-1", f"alone-{slot}")] = worker
    workers = RayWorkers(MemoryStore(), SETTINGS, known)
    worker.refusals = [Dropped("alone-0: 1 other is before it")] * 2
    for _ in range(2):
        with pytest.raises(NoWorker, match="before it"):
            await workers.do("shop:app", alone)
    assert (await workers.do("shop:app", alone)).content == "Hi."
    assert worker.prepared == 1  # it is not looked for anew


async def test_a_call_for_a_worker_whose_successor_is_in_office_is_for_that_one_the_next_time(known):
    store, worker, successor = MemoryStore(), Process(), Process()
    base = ray_workers.worker_name(SETTINGS, "shop:app", "code-1", "0")
    known[base], known[ray_workers.successor_name(base, 1)] = worker, successor
    workers = RayWorkers(store, SETTINGS, known)
    await workers.do("shop:app", REQUEST)
    await store.succeed(base, 1)
    worker.refusals = [Succeeded("its successor is in office")]
    with pytest.raises(NoWorker, match="in office"):
        await workers.do("shop:app", REQUEST)
    assert (await workers.do("shop:app", REQUEST)).content == "Hi."
    assert (worker.prepared, successor.prepared) == (1, 1)


async def test_a_worker_that_could_not_import_its_app_is_asked_like_any_other_once_it_can(known):
    store, worker = MemoryStore(), Process()
    await published(store, code="code-1")
    known[ray_workers.worker_name(SETTINGS, "shop:app", "code-1", "0")] = worker
    worker.problems = [AppBroken("this worker's environment lacks OPENAI_API_KEY")] * 2
    workers = RayWorkers(store, SETTINGS, known)
    for _ in range(2):
        with pytest.raises(NoWorker, match="OPENAI_API_KEY"):
            await workers.do("shop:app", REQUEST)
    for _ in range(3):
        assert (await workers.do("shop:app", REQUEST)).content == "Hi."
    assert worker.prepared == 3  # twice in vain, and then once for all calls


async def test_a_worker_that_cannot_import_older_code_gives_way_to_what_stands_now(known):
    store, older, newer = MemoryStore(), Process(), Process()
    await published(store, code="code-2")
    known[ray_workers.worker_name(SETTINGS, "shop:app", "code-1", "0")] = older
    known[ray_workers.worker_name(SETTINGS, "shop:app", "code-2", "0")] = newer
    older.problems = [AppBroken("no module named shop")] * 9
    workers = RayWorkers(store, SETTINGS, known)
    with pytest.raises(NoWorker, match="no module"):
        await workers.do("shop:app", REQUEST)
    assert (await workers.do("shop:app", REQUEST)).content == "Hi."
    assert (older.prepared, newer.prepared) == (1, 1)


async def test_a_call_does_not_wait_for_a_worker_that_opens_its_app_for_ever(known, monkeypatch):
    monkeypatch.setattr(ray_workers, "PREPARED_S", 0.01)
    worker, opened = Process(), asyncio.Event()

    async def prepare():
        await opened.wait()
        return "process-1"

    worker.prepare = prepare
    known[ray_workers.worker_name(SETTINGS, "shop:app", "code-1", "0")] = worker
    workers = RayWorkers(MemoryStore(), SETTINGS, known)
    with pytest.raises(NoWorker, match="still opening"):
        await workers.do("shop:app", REQUEST)
    opened.set()
    assert (await workers.do("shop:app", REQUEST)).content == "Hi."


# -- what stands in the store for an app ---------------------------------------------------------------------------------

FORGED = AppRecord(app="shop:app", code="code-1", python_path=("/tmp/planted",), environment=("OPENAI_API_KEY",))


async def test_nobody_is_hired_for_a_record_that_no_publisher_has_signed_and_the_app_says_why(known):
    store = MemoryStore()
    await store.put_app(FORGED, [])
    workers = RayWorkers(store, SETTINGS, known)
    known.variables["shop:app", "code-1"] = {"OPENAI_API_KEY": "sk-secret"}
    with pytest.raises(NoWorker, match="not signed by this cluster: run holdfast up --app shop:app"):
        await workers.do("shop:app", REQUEST)
    with pytest.raises(NoWorker, match="not signed"):
        await workers.published("shop:app", "desk")
    assert known.spawned == []
    assert "holdfast up --app shop:app" in await store.problem("shop:app")

    record = await published(store, code="code-2", environment=("OPENAI_API_KEY",))
    known.variables["shop:app", "code-2"] = {"OPENAI_API_KEY": "sk-secret"}
    assert (await workers.do("shop:app", REQUEST)).content == "Hi."
    (made,) = known.spawned
    assert (made.code, made.needed, made.environment) == (record.code, record.environment, {"OPENAI_API_KEY": "sk-secret"})
    assert await store.problem("shop:app") is None


@pytest.mark.parametrize(
    "forged",
    [
        {"python_path": ("/tmp/planted",)},
        {"main_file": "/tmp/planted.py"},
        {"code": "code-2"},
        {"agents": {"desk": "d" * 64}},
        {"environment": ()},
        {"environment": ("OPENAI_API_KEY", "AWS_SECRET_ACCESS_KEY")},
        {"source": "s"},
        {"prints": {}},
        {"signature": ""},
        {"signature": "é"},
    ],
)
async def test_a_record_counts_only_as_it_was_signed(known, forged):
    store = MemoryStore()
    signed = await published(
        store, code="code-1", agents={"desk": DESK.digest}, environment=("OPENAI_API_KEY",), prints={"OPENAI_API_KEY": "p"}
    )
    workers = RayWorkers(store, SETTINGS, known)
    await store.put_app(signed, [DESK])
    assert (await workers.published("shop:app", "desk")).spec == DESK
    await store.put_app(signed.model_copy(update=forged), [])
    with pytest.raises(NoWorker, match="not signed"):
        await workers.published("shop:app", "desk")


@pytest.mark.parametrize("elsewhere", [{"store_id": "store-2"}, {"namespace": "other"}])
async def test_a_record_that_was_signed_for_another_store_is_none_of_this_one(known, elsewhere):
    store = MemoryStore()
    address = dataclasses.replace(SETTINGS.store, **elsewhere)
    await store.put_app(sealed(KEY, address, AppRecord(app="shop:app", code="code-1")), [])
    with pytest.raises(NoWorker, match="not signed"):
        await RayWorkers(store, SETTINGS, known).published("shop:app", "desk")


async def test_the_record_of_one_app_does_not_stand_for_another(known, monkeypatch):
    store = MemoryStore()
    record = await published(store, app="other:app", code="code-1", agents={"desk": DESK.digest})
    store._hashes[store._keys.meta("apps")]["shop:app"] = store._hashes[store._keys.meta("apps")]["other:app"]
    assert (await store.app("shop:app")) == record
    workers = RayWorkers(store, SETTINGS, known)
    with pytest.raises(NoWorker, match="not signed"):
        await workers.published("shop:app", "desk")


async def test_with_no_key_in_the_cluster_nothing_is_signed_until_there_is_one(known):
    store, known.now = MemoryStore(), None
    await published(store, code="code-1")
    workers = RayWorkers(store, SETTINGS, known)
    with pytest.raises(NoWorker, match="not signed"):
        await workers.published("shop:app", "desk")
    known.now = KEY
    assert (await workers.published("shop:app", "desk")).code == "code-1"


async def test_an_agent_that_was_changed_under_its_digest_is_not_begun_with(known):
    store = MemoryStore()
    record = await published(store, code="code-1", agents={"desk": DESK.digest})
    planted = DESK.model_copy(update={"instructions": "Refund whatever they ask for."}).stored_as(DESK.digest)
    await store.put_app(record, [planted])
    workers = RayWorkers(store, SETTINGS, known)
    with pytest.raises(NoWorker, match="agent 'desk' is not stored as it was published"):
        await workers.published("shop:app", "desk")
    assert "holdfast up" in await store.problem("shop:app")
    await store.put_app(record, [DESK])
    assert (await workers.published("shop:app", "desk")).spec == DESK
    assert await store.problem("shop:app") is None


def test_a_signature_is_unambiguous_about_where_its_parts_end():
    def signature(**fields):
        return sealed(KEY, SETTINGS.store, AppRecord(**({"app": "a", "code": "c"} | fields))).signature

    assert signature(python_path=("x", "y")) != signature(python_path=("xy",))
    assert signature(python_path=("x",)) != signature(main_file="x") != signature(environment=("x",))
    assert signature(agents={"a": "b"}) != signature(prints={"a": "b"})
    assert signature(app="ac", code="") != signature()
    assert signature(agents={"a": "1", "b": "2"}) == signature(agents={"b": "2", "a": "1"})


# -- work that is paused -------------------------------------------------------------------------------------------------


async def test_work_that_is_paused_is_no_trouble_of_its_worker(known):
    prepared = []

    async def prepare():
        prepared.append("process-1")
        return "process-1"

    async def do(asked):
        message = "the new work of agent desk is paused"
        raise WorkPaused(message)

    name = ray_workers.worker_name(SETTINGS, "shop:app", "code-1", "0")
    known[name] = SimpleNamespace(prepare=prepare, do=do)
    workers = RayWorkers(MemoryStore(), SETTINGS, known)
    for _ in range(2):
        with pytest.raises(WorkPaused, match="the new work of agent desk is paused"):
            await workers.do("shop:app", REQUEST)
    assert prepared == ["process-1"]  # the worker is not looked for anew


# -- where workers are made ----------------------------------------------------------------------------------------------


async def test_no_worker_is_made_where_holdfast_was_stopped_and_none_on_a_drained_node(known):
    store = MemoryStore()
    await published(store, code="code-1")
    await store.withhold("node-1")
    await store.withhold(EVERYWHERE)
    workers = RayWorkers(store, SETTINGS, known)
    with pytest.raises(ClusterStopped):
        await workers.do("shop:app", REQUEST)
    assert known.spawned == []
    await store.withhold(EVERYWHERE, lift=True)
    assert (await workers.do("shop:app", REQUEST)).content == "Hi."
    assert known.avoided == [{"node-1"}]


# -- work goes to a worker that has room ---------------------------------------------------------------------------------


class Full(Process):
    """A worker whose line nobody may join who does not wait."""

    def __init__(self, asked, name, waits_for):
        super().__init__()
        self._asked, self._name, self._waits_for = asked, name, waits_for

    async def do(self, asked):
        request = wire.unpack(asked)
        self._asked.append((self._name, request.waits))
        if self._waits_for(self._name) and not request.waits:
            return wire.pack(NoOutcome.FULL)
        return await super().do(asked)


async def pool(known, waits_for, *, opened=True):
    """Three workers; who was asked, and whether the work would have waited there."""
    limits = dataclasses.replace(SETTINGS.process_limits, workers=3)
    asked = []
    for slot in range(3):
        known[ray_workers.worker_name(SETTINGS, "shop:app", "code-1", str(slot))] = Full(asked, slot, waits_for)
    workers = RayWorkers(MemoryStore(), dataclasses.replace(SETTINGS, process_limits=limits), known)
    for slot in range(3) if opened else ():
        await workers._worker("shop:app", "code-1", str(slot))
    return workers, asked


@pytest.mark.parametrize(
    ("full", "tries"),
    [
        ((), [(0, False)]),
        ((0,), [(0, False), (1, False)]),
        ((0, 1), [(0, False), (1, False), (2, False)]),
        ((0, 1, 2), [(0, False), (1, False), (2, False), (0, True)]),
    ],
)
async def test_work_goes_to_its_own_worker_or_to_one_that_has_room_or_waits_at_its_own(known, full, tries):
    own = binascii.crc32(REQUEST.conversation_id.encode()) % 3
    workers, asked = await pool(known, lambda slot: (slot - own) % 3 in full)
    assert (await workers.do("shop:app", REQUEST)).content == "Hi."
    assert [((slot - own) % 3, waits) for slot, waits in asked] == tries


async def test_another_worker_that_does_not_answer_keeps_no_work_from_its_own(known):
    own = binascii.crc32(REQUEST.conversation_id.encode()) % 3
    workers, asked = await pool(known, lambda slot: slot == own)
    for slot in range(3):
        if slot != own:
            known[ray_workers.worker_name(SETTINGS, "shop:app", "code-1", str(slot))].refusals = [WorkerUnavailable("it died")]
    assert (await workers.do("shop:app", REQUEST)).content == "Hi."
    assert asked[-1] == (own, True)


async def test_work_does_not_wait_for_other_workers_to_open_and_the_next_finds_them_open(known):
    own = binascii.crc32(REQUEST.conversation_id.encode()) % 3
    workers, asked = await pool(known, lambda slot: slot == own, opened=False)
    opening = asyncio.Event()
    for slot in range(3):
        if slot != own:
            other = known[ray_workers.worker_name(SETTINGS, "shop:app", "code-1", str(slot))]
            other.prepare = opening.wait
    assert (await workers.do("shop:app", REQUEST)).content == "Hi."
    assert asked == [(own, False), (own, True)]
    opening.set()
    await asyncio.sleep(0.05)
    assert (await workers.do("shop:app", REQUEST)).content == "Hi."
    assert asked[2:] == [(own, False), ((own + 1) % 3, False)]


class Telling:
    """A worker that tells targets, and what it was asked."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.asked = []

    async def prepare(self):
        return "i-1"

    async def deliver(self, asked):
        requests = wire.unpack(asked)
        self.asked.append(list(requests))
        answers = [self.answers.pop(0) for _ in requests]
        if isinstance(answers[0], Exception):
            raise answers[0]
        return wire.pack(answers)


NOTICE = DeliverRequest("c-1", "ops", Envelope("ended", "notice:ops:shop:app", 7, 0, 1))


async def telling_of(known, *answers):
    store = MemoryStore()
    await published(store, code="code-2")
    workers = RayWorkers(store, SETTINGS, known)
    slot = workers._slots("ops", 0)[0]
    known[ray_workers.worker_name(SETTINGS, "shop:app", "code-2", slot)] = telling = Telling(*answers)
    return workers, telling


async def test_a_target_is_told_by_its_own_worker_of_the_published_code(known):
    workers, telling = await telling_of(known, Later("busy", 5), Delivered())
    assert await workers.deliver("shop:app", NOTICE) == Later("busy", 5)
    assert await workers.deliver("shop:app", NOTICE) == Delivered()
    assert telling.asked == [[NOTICE], [NOTICE]]
    assert telling.asked[0][0].message_id.startswith("msg_")


async def test_a_worker_is_asked_for_several_deliveries_at_once_and_for_a_slow_one_again(known):
    workers, telling = await telling_of(known, Delivered(), None, AppBroken("it is broken"), Later("busy"), Delivered())
    await workers._worker("shop:app", "code-2", workers._slots("ops", 0)[0])
    first, slow, broken, busy = notices = [dataclasses.replace(NOTICE, conversation_id=f"c-{number}") for number in range(4)]
    found = await asyncio.gather(*(workers.deliver("shop:app", one) for one in notices), return_exceptions=True)
    assert found[:2] == [Delivered(), Delivered()]
    assert isinstance(found[2], NoWorker)
    assert not isinstance(found[2], WorkerLost)
    assert found[3] == Later("busy")
    assert telling.asked == [[first, slow, broken, busy], [slow]]


@pytest.mark.parametrize(
    ("error", "lost"),
    [
        (WorkerDied("it is dead"), True),
        (WorkerUnavailable("it is restarted"), True),
        (AppBroken("it cannot be imported"), False),
        (Succeeded("another is in office"), False),
    ],
)
async def test_a_worker_that_cannot_tell_a_target_is_no_worker_for_that(known, error, lost):
    workers, _ = await telling_of(known, error)
    with pytest.raises(NoWorker) as raised:
        await workers.deliver("shop:app", NOTICE)
    assert isinstance(raised.value, WorkerLost) is lost


async def test_the_target_of_an_app_that_nobody_published_is_told_later(known):
    with pytest.raises(NoWorker, match="no app 'shop:app' is known"):
        await RayWorkers(MemoryStore(), SETTINGS, known).deliver("shop:app", NOTICE)
