"""The courier, against a store in memory: at least once, in order, and nothing that hangs or fails delays what does not."""

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from store_suite.outbox import AUDIT, CHILD, OPS, ids, owe, owe_more
from writer import Writer, start

from holdfast import metrics
from holdfast.actors.answers import Replied
from holdfast.actors.steps import Step
from holdfast.actors.workers import Delivered, Later, NoWorker, SetAside, WorkerLost
from holdfast.conversation import End
from holdfast.conversation.log.owed import Envelope, notice_target, own_target
from holdfast.counting import Counts
from holdfast.errors import (
    AppNotPublished,
    CipherMissing,
    ConversationEnded,
    ConversationNotFound,
    CorruptStore,
    Fenced,
    InvalidInput,
    NewerRecord,
    NotPermitted,
    Overloaded,
    QueueFull,
    StaleCall,
    StaleReason,
    StoreUnavailable,
)
from holdfast.persistence import Lane, MemoryStore, OutboxState, OwedFigures
from holdfast.persistence.keys import bucket_of
from holdfast.persistence.outbox import ASIDE_MS
from holdfast.registry import courier as couriers
from holdfast.registry.courier import AT_ONCE, Courier, backoff_ms
from holdfast.registry.own_deliveries import own_deliveries
from holdfast.registry.registry import Refused, Unknown, Unsent
from holdfast.testing import FailAfter, FailBefore, Faults, FaultyStore

WITHIN_S = 20


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    for name, value in {"GATHER_S": 0, "FIRST_MS": 1, "LONGEST_MS": 20, "LOOK_S": 0.01}.items():
        monkeypatch.setattr(couriers, name, value)


class Targets:
    """Notification targets, which answer as they are told to: an answer, an error, or what to wait for, by name."""

    def __init__(self, **answers):
        self.answers = {name: list(given) for name, given in answers.items()}
        self.told = []
        self.at_once = self.most_at_once = 0

    async def __call__(self, app, request):
        self.at_once += 1
        self.most_at_once = max(self.at_once, self.most_at_once)
        try:
            given = self.answers.get(request.target, [])
            answer = (given.pop(0) if len(given) > 1 else given[0]) if given else Delivered()
            if isinstance(answer, asyncio.Event):
                await answer.wait()
                answer = Delivered()
            if isinstance(answer, Exception):
                raise answer
            self.told.append((request.conversation_id, request.target, request.envelope.kind))
            return answer
        finally:
            self.at_once -= 1

    def kinds(self, conversation_id, target="ops"):
        return [kind for name, to, kind in self.told if (name, to) == (conversation_id, target)]


@asynccontextmanager
async def running(store, targets, own=None, **more):
    courier = Courier(store, targets, own or {}, **more)
    task = asyncio.create_task(courier.run())
    try:
        yield courier
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await courier.close()


async def until(condition):
    async with asyncio.timeout(WITHIN_S):
        while not condition():
            await asyncio.sleep(0.001)


async def emptied(store):
    async with asyncio.timeout(WITHIN_S):
        while any(lane.queues for lane in (await store.outbox_figures()).lanes.values()):
            await asyncio.sleep(0.001)


async def test_what_is_owed_is_delivered_once_and_in_order():
    store, targets = MemoryStore(), Targets()
    for number in range(30):
        writer = await owe(store, f"c-{number}", "suspended", "settled")
        await owe_more(writer, "ended")
        await owe_more(writer, "turn_completed", target=AUDIT)
    async with running(store, targets):
        await emptied(store)
    for number in range(30):
        assert targets.kinds(f"c-{number}") == ["suspended", "settled", "ended"]
        assert targets.kinds(f"c-{number}", "audit") == ["turn_completed"]
    assert len(targets.told) == 120
    assert targets.most_at_once <= 2 * AT_ONCE


class Names(MemoryStore):
    """A store whose news name the lane, and which counts looks at all of them; after the first they find nothing."""

    looks = 0

    def __init__(self):
        super().__init__()
        self.news = asyncio.Queue()

    async def lanes(self):
        self.looks += 1
        now, lanes = await super().lanes()
        return now, [] if self.looks > 1 else lanes

    async def owed_news(self):
        while True:
            yield await self.news.get()


async def test_news_that_name_a_lane_need_no_look_at_the_others():
    store, targets = Names(), Targets()
    async with running(store, targets):
        await until(lambda: store.looks > 1)
        for number in range(40):
            await owe(store, f"c-{number}", "suspended")
            store.news.put_nowait(Lane(bucket_of(f"c-{number}"), OPS, 0))
        await emptied(store)
    assert len(targets.told) == 40


async def test_news_that_come_while_their_bucket_is_leased_are_not_lost():
    store, targets = Names(), Targets()
    lease, held, going = store.lease, asyncio.Event(), asyncio.Event()

    async def slow(lane, **more):
        found = await lease(lane, **more)
        held.set()
        await going.wait()
        return found

    store.lease = slow
    same = [name for name in map("c-{}".format, range(10_000)) if bucket_of(name) == bucket_of("c-0")][:2]
    async with running(store, targets):
        await until(lambda: store.looks > 1)
        for name in same:
            await owe(store, name, "suspended")
            store.news.put_nowait(Lane(bucket_of(name), OPS, 0))
            await held.wait()
        await until(store.news.empty)
        going.set()
        await emptied(store)


async def test_news_of_lanes_of_another_release_are_left_alone():
    store, targets = Names(), Targets()
    async with running(store, targets) as courier:
        await until(lambda: store.looks > 1)
        store.news.put_nowait(Lane(0, "sms:1", 0))
        await until(store.news.empty)
        await asyncio.sleep(0)
        assert "sms:1" not in courier._lanes


async def test_what_becomes_owed_is_delivered_at_once(monkeypatch):
    monkeypatch.setattr(couriers, "LOOK_S", 3600)
    store, targets = MemoryStore(), Targets()
    async with running(store, targets):
        await until(lambda: store._owed.listeners)
        writer = await owe(store, "c-1", "suspended")
        await until(lambda: targets.told)
        await owe_more(writer, "ended")
        await emptied(store)
    assert targets.kinds("c-1") == ["suspended", "ended"]


async def test_a_target_that_hangs_delays_no_other_and_has_so_many_at_once():
    gate = asyncio.Event()
    store, targets = MemoryStore(), Targets(ops=[gate])
    for number in range(3 * AT_ONCE):
        await owe(store, f"c-{number}", "suspended")
    async with running(store, targets):
        await until(lambda: targets.at_once == AT_ONCE)
        for number in range(20):
            await owe(store, f"d-{number}", "ended", target=AUDIT)
            await owe(store, f"e-{number}", "ended", target=notice_target("ops", "other:app"))
        await until(lambda: sum(target == "audit" for _, target, _ in targets.told) == 20)
        assert not targets.kinds("c-0")
        gate.set()
        await emptied(store)
    assert len(targets.told) == 3 * AT_ONCE + 40


async def test_two_apps_have_targets_of_one_name_apart():
    gate, told = asyncio.Event(), []

    async def notify(app, request):
        if app == "shop.app:app":
            await gate.wait()
        told.append(app)
        return Delivered()

    store = MemoryStore()
    for number in range(2 * AT_ONCE):
        await owe(store, f"c-{number}", "suspended")
    async with running(store, notify):
        await owe(store, "d-1", "ended", target=notice_target("ops", "other:app"))
        await until(lambda: told == ["other:app"])
        gate.set()
        await emptied(store)


async def test_what_is_refused_for_now_is_tried_again_and_stays_the_first():
    counts = Counts()
    store = MemoryStore()
    targets = Targets(ops=[Later("it answers 503"), NoWorker("none lives"), TimeoutError(), RuntimeError("odd"), Delivered()])
    await owe(store, "c-1", "suspended", "settled")
    async with running(store, targets, counts=counts):
        await emptied(store)
    assert targets.kinds("c-1") == ["suspended", "suspended", "settled"]
    standing = counts.standing()
    assert standing[f"{metrics.DELIVERIES.name}|ops|later"] == 4
    assert standing[f"{metrics.DELIVERIES.name}|ops|delivered"] == 2


async def test_a_target_says_when_it_is_to_be_tried_again(monkeypatch):
    monkeypatch.setattr(couriers, "LONGEST_MS", 3_600_000)
    now = [1_700_000_000_000]
    store, targets = MemoryStore(clock=lambda: now[0]), Targets(ops=[Later("busy", 120_000), Delivered()])
    await owe(store, "c-1", "suspended")
    async with running(store, targets):
        await until(lambda: targets.told and not targets.at_once)
        now[0] += 119_000
        await asyncio.sleep(0.05)
        assert len(targets.told) == 1
        now[0] += 2_000
        await emptied(store)
    assert len(targets.told) == 2


async def test_what_was_set_aside_is_dropped_after_thirty_days_and_counted(caplog):
    now, counts = [1_700_000_000_000], Counts()
    store, targets = MemoryStore(clock=lambda: now[0]), Targets(ops=[SetAside("it answers 410")])
    await owe(store, "c-1", "suspended", "ended")
    async with running(store, targets, counts=counts):
        await emptied(store)
        now[0] += ASIDE_MS - 1
        await asyncio.sleep(0.05)
        assert len(await ids(store, OutboxState.SET_ASIDE)) == 2
        now[0] += 1
        await until(lambda: f"{metrics.DELIVERIES.name}|ops|dropped" in counts.standing())
        assert await ids(store, OutboxState.SET_ASIDE) == []
    assert counts.standing()[f"{metrics.DELIVERIES.name}|ops|dropped"] == 2
    assert f"{OPS}: 2 were dropped" in caplog.text


async def test_what_a_target_refuses_for_good_is_set_aside_and_the_next_goes():
    store, targets = MemoryStore(), Targets(ops=[SetAside("it answers 410"), Delivered()])
    await owe(store, "c-1", "suspended", "ended")
    async with running(store, targets):
        await emptied(store)
        assert targets.kinds("c-1") == ["suspended", "ended"]
        assert (await store.outbox_figures()).lanes == {OPS: OwedFigures(set_aside=1)}
        (row,) = (await store.outbox(OutboxState.SET_ASIDE, limit=10)).items
        assert row.reason == "it answers 410"
        (name,) = await ids(store, OutboxState.SET_ASIDE)
        await store.redeliver(name)
        await until(lambda: len(targets.told) == 3)


async def test_secrets_in_errors_are_not_kept(monkeypatch):
    monkeypatch.setattr(couriers, "FIRST_MS", 3_600_000)
    store = MemoryStore()
    targets = Targets(ops=[RuntimeError("no answer from https://ana:hunter2@hooks.example/x?token=hunter2")])
    await owe(store, "c-1", "suspended")
    async with running(store, targets):
        async with asyncio.timeout(WITHIN_S):
            while not (await store.outbox(OutboxState.OWED, limit=1)).items[0].reason:
                await asyncio.sleep(0.001)
        (row,) = (await store.outbox(OutboxState.OWED, limit=1)).items
    assert "hunter2" not in row.reason


@pytest.mark.parametrize(
    ("target", "state", "reason"),
    [
        (CHILD, OutboxState.OWED, "this release delivers no 'start'"),
        ("own:no id !", OutboxState.SET_ASIDE, "'own:no id !' is no target"),
        ("notice:x", OutboxState.OWED, ""),
        ("else", OutboxState.OWED, ""),
    ],
)
async def test_what_this_release_cannot_deliver_stops_nothing(target, state, reason):
    store, targets = MemoryStore(), Targets()
    await owe(store, "c-1", "start", target=target)
    await owe(store, "c-2", "ended")
    async with running(store, targets):
        await until(lambda: targets.told)
        async with asyncio.timeout(WITHIN_S):
            while not any(row.reason.startswith(reason) for row in (await store.outbox(state, limit=2)).items):
                await asyncio.sleep(0.001)
    assert targets.told == [("c-2", "ops", "ended")]


async def test_what_one_conversation_owes_others_begins_together(monkeypatch):
    monkeypatch.setattr(couriers, "OWN_AT_ONCE", 2)
    store, begun, go_on = MemoryStore(), [], asyncio.Event()
    for name in ("c-1", "c-2"):
        writer = await Writer.of(store, name)
        write = writer.judged(start(), now=await store.now())
        owed = [Envelope("start", own_target(f"{name}-{n}"), write.after.seq, n, 0) for n in range(5)]
        await store.append(name, replace(write, owed=owed))

    async def own(_, leased):
        begun.append(leased.conversation_id)
        await go_on.wait()
        return Delivered()

    async with running(store, Targets(), {"start": own}):
        await until(lambda: len(begun) == 5)
        await asyncio.sleep(0.05)
        assert len(set(begun)) == 1
        assert len(begun) == 5
        go_on.set()
        await emptied(store)
    assert sorted(begun) == ["c-1"] * 5 + ["c-2"] * 5


async def test_nothing_is_begun_while_it_may_not():
    store, targets, may = MemoryStore(), Targets(), []
    await owe(store, "c-1", "suspended")
    async with running(store, targets, may=lambda: bool(may)):
        await asyncio.sleep(0.05)
        assert not targets.told
        may.append(True)
        await emptied(store)


@pytest.mark.parametrize("step", [Step.OWED_1_LEASED, Step.OWED_2_DELIVERED, Step.OWED_3_ACKNOWLEDGED])
async def test_what_a_courier_leaves_at_any_step_another_one_delivers(monkeypatch, step):
    monkeypatch.setattr(couriers, "LEASE_MS", 20)
    store, targets = MemoryStore(), Targets()
    await owe(store, "c-1", "suspended", "ended")
    dead = []

    def reached(at):
        if at is step:
            dead.append(at)
            raise asyncio.CancelledError

    async with running(store, targets, may=lambda: not dead, reached=reached):
        await until(lambda: dead)
    async with running(store, targets):
        await emptied(store)
    again = step is Step.OWED_2_DELIVERED
    assert targets.kinds("c-1") == ["suspended"] * (1 + again) + ["ended"]


@pytest.mark.parametrize("answers", [[], [SetAside("too late")], [Later("too late")]])
async def test_a_courier_that_thaws_neither_rewinds_nor_overtakes(monkeypatch, answers):
    monkeypatch.setattr(couriers, "LEASE_MS", 20)
    store = MemoryStore()
    frozen, thaw = asyncio.Event(), asyncio.Event()

    async def slow(app, request):
        frozen.set()
        await thaw.wait()
        return (answers or [Delivered()])[0]

    writer = await owe(store, "c-1", "suspended", "settled")
    targets = Targets()
    awake = [True]
    async with running(store, slow, may=lambda: awake[0]):
        await frozen.wait()
        awake[0] = False
        async with running(store, targets):
            await emptied(store)
            assert targets.kinds("c-1") == ["suspended", "settled"]
            gate = asyncio.Event()
            targets.answers["ops"] = [gate]
            await owe_more(writer, "ended")
            await until(lambda: targets.at_once)
            thaw.set()
            await asyncio.sleep(0.05)
            (row,) = (await store.outbox(OutboxState.OWED, limit=10)).items
            assert row.envelope.kind == "ended"
            gate.set()
            await emptied(store)
    assert targets.kinds("c-1")[-1] == "ended"
    assert await ids(store, OutboxState.SET_ASIDE) == []


@pytest.mark.parametrize("fault", [FailBefore(StoreUnavailable("away")), FailAfter(StoreUnavailable("away"))])
@pytest.mark.parametrize("verb", ["lanes", "lease", "acknowledge"])
async def test_a_store_that_is_away_for_a_moment_loses_nothing(monkeypatch, fault, verb):
    monkeypatch.setattr(couriers, "LEASE_MS", 20)
    inner, targets = MemoryStore(), Targets()
    store = FaultyStore(inner, Faults(**{verb: {1: fault, 3: fault}}))
    for number in range(4):
        await owe(inner, f"c-{number}", "suspended", "ended")
    async with running(store, targets):
        await emptied(inner)
    for number in range(4):
        told = targets.kinds(f"c-{number}")
        assert told.index("ended") == told.count("suspended")
        assert set(told) == {"suspended", "ended"}


@pytest.mark.parametrize("error", [CorruptStore("a key has another type"), RuntimeError("odd")])
async def test_a_bucket_that_cannot_be_read_stops_no_other_of_its_lane(monkeypatch, error):
    monkeypatch.setattr(couriers, "LOOK_S", 3600)
    store, targets, asked = MemoryStore(), Targets(), []
    bad = bucket_of("c-0")
    names = [name for name in (f"c-{number}" for number in range(20)) if bucket_of(name) != bad]
    for name in ("c-0", *names):
        await owe(store, name, "suspended")
    lease = store.lease

    async def partly(lane, **more):
        asked.append(lane.bucket)
        if lane.bucket == bad:
            raise error
        return await lease(lane, **more)

    monkeypatch.setattr(store, "lease", partly)
    async with running(store, targets) as courier:
        await until(lambda: len(targets.told) == len(names) and not courier._lanes[OPS].due)
        await asyncio.sleep(0.05)
    assert 1 <= asked.count(bad) <= 2 + len(names)  # once for each look, and each end of a delivery leads to one at most


async def test_what_kills_its_worker_again_and_again_is_set_aside_and_the_next_goes():
    store, targets = MemoryStore(), Targets(ops=[WorkerLost("it is dead")] * 3 + [Delivered()])
    await owe(store, "c-1", "suspended", "ended")
    async with running(store, targets):
        await emptied(store)
    assert targets.kinds("c-1") == ["ended"]
    (row,) = (await store.outbox(OutboxState.SET_ASIDE, limit=10)).items
    assert (row.envelope.kind, row.reason) == ("suspended", "WorkerLost: it is dead")


async def test_what_dies_with_another_one_is_tried_again_alone():
    store, deaths, told = MemoryStore(), [asyncio.Event()], []

    async def notify(app, request):
        dead = deaths[-1]
        if request.target == "ops":
            await asyncio.sleep(0.005)
            deaths.append(asyncio.Event())
            dead.set()
        try:
            async with asyncio.timeout(0.05):
                await dead.wait()
        except TimeoutError:
            told.append(request.conversation_id)
            return Delivered()
        raise WorkerLost("it is dead")

    await owe(store, "c-1", "suspended")
    for name in ("d-1", "d-2"):
        await owe(store, name, "suspended", target=AUDIT)
    async with running(store, notify) as courier:
        await emptied(store)
        assert not courier._suspects
    assert sorted(told) == ["d-1", "d-2"]
    (row,) = (await store.outbox(OutboxState.SET_ASIDE, limit=10)).items
    assert row.conversation_id == "c-1"


async def unsigned(conversation_id, command):
    return command


class Sent:
    """A registry that answers a delivery as it is told to."""

    def __init__(self, result):
        self.result = result
        self.commands = []

    async def deliver(self, delivery):
        self.commands.append((delivery.conversation_id, delivery.command))
        return self.result


@pytest.mark.parametrize(
    ("result", "state"),
    [
        (Replied(None), None),
        (Refused(ConversationEnded("c-child")), None),
        (Unsent(ConversationNotFound("c-child")), OutboxState.OWED),
        (Refused(InvalidInput("f", "p", "x")), OutboxState.SET_ASIDE),
        (Refused(NotPermitted("c-child", "call_1", "it is another's")), OutboxState.SET_ASIDE),
        (Refused(StaleCall("c-child", "call_1", StaleReason.ALREADY_RESOLVED)), None),
        (Refused(Fenced("c-child")), OutboxState.OWED),
        (Refused(QueueFull("c-child", 3)), OutboxState.OWED),
        (Refused(NewerRecord("log", 8, 7)), OutboxState.OWED),
        (Refused(CipherMissing("the log")), OutboxState.OWED),
        (Refused(AppNotPublished("shop.app:app")), OutboxState.OWED),
        (Unsent(Overloaded("c-child", 1000)), OutboxState.OWED),
        (Unknown(TimeoutError()), OutboxState.OWED),
    ],
)
async def test_a_conversation_is_ended_by_what_another_owes(result, state):
    store, registry = MemoryStore(), Sent(result)
    await owe(store, "c-1", "end", target=own_target("c-child"))
    async with running(store, Targets(), own_deliveries(registry, store, unsigned)):
        await until(lambda: registry.commands)
        async with asyncio.timeout(WITHIN_S):
            while any(queue.nonce for queue in store._owed.queues.values()):
                await asyncio.sleep(0.001)
    to, command = registry.commands[0]
    assert (to, type(command)) == ("c-child", End)
    assert command.request_id.startswith("msg_")
    found = [one for one in OutboxState if (await store.outbox(one, limit=1)).items]
    assert found == ([] if state is None else [state])
    assert {request.request_id for _, request in registry.commands} == {command.request_id}


def test_pauses_grow_from_a_second_to_an_hour(monkeypatch):
    monkeypatch.undo()
    pauses = [backoff_ms(tries) for tries in range(1, 40)]
    assert 1_000 <= pauses[0] <= 1_250
    assert all(pause == 3_600_000 for pause in pauses[12:])
    assert pauses == sorted(pauses)
