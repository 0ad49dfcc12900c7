"""The permission rules in force, as a worker knows them: which are read, how old they may be, and what cannot be read."""

import asyncio
import hashlib
import logging

import pytest

from holdfast.actors import admission
from holdfast.actors.admission import FRESH_S, LAG_S
from holdfast.actors.worker.gate import CallRules, FixedRules, Gate
from holdfast.actors.workers import NoApp
from holdfast.agent import Rules, TurnContext
from holdfast.conversation import ToolSpec
from holdfast.errors import CorruptStore, NewerRecord, StoreUnavailable
from holdfast.persistence import PAUSE_LAG_MS, AppRecord, MemoryStore
from holdfast.testing import Delay, FailBefore, Faults, FaultyStore

FIRST, SECOND = Rules(deny=["delete_*"]), Rules(ask=["delete_*"], default="allow")


async def publish(store, rules, **others):
    """Publish the app with these rules of its desk."""
    found = others if rules is None else {"desk": rules, **others}
    record = AppRecord(app="shop:app", code="k", rules={name: one.digest for name, one in found.items()})
    await store.put_app(record, [], {one.digest: one.to_json() for one in found.values()})


def gate_of(store):
    return Gate(store, lambda: store.app("shop:app"))


@pytest.fixture(autouse=True)
def skip(monkeypatch):
    """Lets so many seconds of the gate's clock pass at once. Else it stands still: a machine that stalls makes no rules old."""
    passed = [0.0]
    monkeypatch.setattr(admission, "now_s", lambda: sum(passed))
    return passed.append


@pytest.fixture
def store():
    return FaultyStore(MemoryStore(), Faults())


async def test_each_agent_has_its_own_rules_and_one_without_any_has_none(store):
    await publish(store, FIRST, bar=SECOND)
    gate = gate_of(store)

    assert await gate.rules("desk") == FIRST
    assert await gate.rules("bar") == SECOND
    assert await gate.rules("kitchen") == Rules()
    assert (store.calls["app"], store.calls["rules"]) == (1, 2)


async def test_of_an_app_that_nobody_published_no_rules_can_be_told(store):
    assert await gate_of(store).rules("desk") is None


async def test_callers_at_one_time_share_a_reading_and_so_do_those_soon_after(store, skip):
    await publish(store, FIRST)
    gate = gate_of(store)

    found = await asyncio.gather(*(gate.rules("desk") for _ in range(50)))
    assert found == [FIRST] * 50
    assert store.calls["app"] == 1

    skip(FRESH_S * 0.9)
    await gate.rules("desk")
    assert store.calls["app"] == 1
    skip(FRESH_S * 0.2)
    await gate.rules("desk")
    assert store.calls["app"] == 2


async def test_rules_that_are_known_are_not_read_again(store, skip):
    await publish(store, FIRST)
    gate = gate_of(store)
    for _ in range(3):
        assert await gate.rules("desk") is await gate.rules("desk")
        skip(LAG_S)

    assert (store.calls["app"], store.calls["rules"]) == (3, 1)


async def test_a_new_publication_is_seen_within_the_lag_and_what_it_leaves_out_does_not_hold_any_more(store, skip):
    await publish(store, FIRST)
    gate = gate_of(store)
    assert await gate.rules("desk") == FIRST

    await publish(store, SECOND, bar=FIRST)
    assert await gate.rules("desk") == FIRST
    skip(FRESH_S)
    assert (await gate.rules("desk"), await gate.rules("bar")) == (SECOND, FIRST)

    await publish(store, None)
    skip(FRESH_S)
    assert (await gate.rules("desk"), await gate.rules("bar")) == (Rules(), Rules())


async def test_work_begins_within_the_lag_of_the_stores_time_before_the_reading(skip):
    now = [1_700_000_000_000]
    store = MemoryStore(clock=lambda: now[0])
    await publish(store, FIRST)

    async def published():
        now[0] += 300  # reading takes its time
        return await store.app("shop:app")

    gate = Gate(store, published)
    assert await gate.begin_by("desk") == (FIRST, 1_700_000_000_000 + PAUSE_LAG_MS)
    assert await gate.begin_by("kitchen") == (Rules(), 1_700_000_000_000 + PAUSE_LAG_MS)

    skip(FRESH_S)
    assert (await gate.begin_by("desk"))[1] == 1_700_000_000_300 + PAUSE_LAG_MS


async def test_what_was_long_on_its_way_is_read_anew(store, skip):
    await publish(store, FIRST)
    on_its_way = asyncio.Event()
    store.policy = Faults(app={1: Delay(until=on_its_way)})
    gate = gate_of(store)
    asked = [asyncio.create_task(gate.rules("desk")) for _ in range(2)]
    async with asyncio.timeout(10):
        while not store.calls["app"]:
            await asyncio.sleep(0)

    skip(LAG_S)  # rules that were published meanwhile count by now
    await publish(store, SECOND)
    on_its_way.set()

    assert [await one for one in asked] == [SECOND] * 2
    assert store.calls["app"] == 2


@pytest.mark.parametrize("verb", ["now", "app", "rules"])
async def test_a_store_that_does_not_answer_lets_nothing_begin_and_nothing_is_forgotten(store, skip, verb):
    await publish(store, FIRST)
    gate = gate_of(store)
    assert await gate.rules("desk") == FIRST
    await publish(store, SECOND)

    skip(FRESH_S)
    store.policy = Faults(**{verb: FailBefore()})
    for _ in range(2):
        with pytest.raises(StoreUnavailable):
            await gate.begin_by("desk")
    store.policy = Faults()

    assert await gate.rules("desk") == SECOND


async def test_a_caller_who_gives_up_ends_nobody_elses_reading(store):
    await publish(store, FIRST)
    on_its_way = asyncio.Event()
    store.policy = Faults(app={1: Delay(until=on_its_way)})
    gate = gate_of(store)
    first, second = (asyncio.create_task(gate.rules("desk")) for _ in range(2))
    async with asyncio.timeout(10):
        while not store.calls["app"]:
            await asyncio.sleep(0)
    first.cancel()
    await asyncio.wait([first])
    on_its_way.set()

    assert await second == FIRST
    assert store.calls["app"] == 1


# -- what cannot be read ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "digest"),
    [
        (None, "0" * 64),
        (FIRST.to_json(), Rules(deny=["Bash"]).digest),
        ('{"version":2}', None),
        ('{"version":1,"deny":["Bash()"]}', None),
        ('{"version":1,"allow":"*"}', None),
        ("nonsense", None),
    ],
    ids=["missing", "of another digest", "newer", "a bad pattern", "no list", "no JSON"],
)
async def test_rules_that_cannot_be_read_are_none_and_are_looked_for_again(store, skip, caplog, text, digest):
    await publish(store, SECOND)
    gate = gate_of(store)
    assert await gate.rules("desk") == SECOND
    digest = digest or hashlib.sha256(text.encode()).hexdigest()
    record = AppRecord(app="shop:app", code="k", rules={"desk": digest, "bar": SECOND.digest})
    await store.put_app(record, [], {} if text is None else {digest: text})

    skip(FRESH_S)
    with caplog.at_level(logging.WARNING, "holdfast.worker"):
        assert await gate.rules("desk") is None
    assert "permission rules in force cannot be read" in caplog.text
    assert await gate.rules("bar") == SECOND, "those of others can"
    assert (await gate.begin_by("desk"))[1] is not None

    await publish(store, FIRST)
    skip(FRESH_S)
    assert await gate.rules("desk") == FIRST


async def test_rules_whose_text_comes_later_hold_from_then_on(store, skip):
    record = AppRecord(app="shop:app", code="k", rules={"desk": FIRST.digest})
    await store.put_app(record, [])
    gate = gate_of(store)
    assert await gate.rules("desk") is None

    await store.put_app(record, [], {FIRST.digest: FIRST.to_json()})
    skip(FRESH_S)
    assert await gate.rules("desk") == FIRST


@pytest.mark.parametrize("error", [CorruptStore("the rules are no text"), NewerRecord("permission rules", 9, 1)])
async def test_rules_that_the_store_cannot_read_are_none(store, error):
    await publish(store, FIRST)
    store.policy = Faults(rules=FailBefore(error))
    assert await gate_of(store).rules("desk") is None


@pytest.mark.parametrize(
    "error", [NoApp("the record of shop:app was not signed here"), CorruptStore("no record"), NewerRecord("app", 9, 1)]
)
async def test_where_the_app_cannot_be_told_no_agents_rules_are_known(store, skip, caplog, error):
    await publish(store, FIRST)
    wrong = []

    async def published():
        if wrong:
            raise wrong[0]
        return await store.app("shop:app")

    gate = Gate(store, published)
    assert await gate.rules("desk") == FIRST
    wrong.append(error)
    skip(FRESH_S)

    with caplog.at_level(logging.WARNING, "holdfast.worker"):
        assert (await gate.rules("desk"), await gate.rules("kitchen")) == (None, None)
    assert "every call is asked about" in caplog.text
    wrong.clear()
    skip(FRESH_S)
    assert (await gate.rules("desk"), await gate.rules("kitchen")) == (FIRST, Rules())


async def test_a_record_that_is_gone_leaves_what_was_known(store, skip):
    await publish(store, FIRST)
    gone = []

    async def published():
        return None if gone else await store.app("shop:app")

    gate = Gate(store, published)
    assert await gate.rules("desk") == FIRST
    gone.append(True)
    for _ in range(2):
        skip(LAG_S)
        assert (await gate.rules("desk"), await gate.rules("kitchen")) == (FIRST, Rules())


# -- one model call -----------------------------------------------------------------------------------------------------------


async def nowhere():
    return TurnContext(conversation_id="c-1", agent="desk")


async def test_a_model_is_not_told_of_what_is_denied_whatever_its_arguments_are(store):
    rules = CallRules(FixedRules(FIRST), Rules(deny=["delete_*", "Bash(rm *)"]), "desk", nowhere)
    assert [rules.hides(ToolSpec(name=name)) for name in ("delete_file", "Bash", "Read")] == [True, False, False]
    assert not CallRules(FixedRules(FIRST), None, "desk", nowhere).hides(ToolSpec(name="delete_file"))
    assert await FixedRules(FIRST).begin_by("desk") == (FIRST, None)


async def test_the_rules_at_the_end_of_a_model_call_judge_and_those_of_its_beginning_where_they_cannot_be_told(store, skip):
    await publish(store, FIRST)
    gate = gate_of(store)
    rules = CallRules(gate, await gate.rules("desk"), "desk", nowhere)
    await publish(store, SECOND)
    skip(FRESH_S)

    store.policy = Faults(app=FailBefore())
    assert await rules.now() == FIRST
    store.policy = Faults()
    assert await rules.now() == SECOND
    assert rules.hides(ToolSpec(name="delete_file")), "as the model was told"
