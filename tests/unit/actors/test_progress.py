"""Progress: reports are published, the last is kept, at a bounded rate and in a bounded size."""

import asyncio

import pytest

from holdfast.actors.worker import live
from holdfast.actors.worker.live import Progress
from holdfast.actors.workers import RunRequest
from holdfast.conversation.text import jsontext
from holdfast.errors import StoreUnavailable
from holdfast.persistence import codec


class Kept:
    """A store that notes what it is told."""

    def __init__(self, *, lives=True, fails=0):
        self.published, self.kept, self.lives, self.fails = [], [], lives, fails

    async def publish(self, _conversation_id, payload):
        self.published.append(value_of(payload))

    async def keep_progress(self, _conversation_id, _effect_id, payload):
        if self.fails:
            self.fails -= 1
            raise StoreUnavailable("away")
        self.kept.append(value_of(payload))
        return self.lives


def value_of(payload):
    return jsontext.loads(codec.unpack(payload)[4])


def request():
    return RunRequest(
        code="k",
        conversation_id="c-1",
        agent="desk",
        spec_digest="",
        effect_id="call_1#1",
        turn_id="t-1",
        tool_call_id="call_1",
        tool="lookup",
        attempt=1,
        arguments_at=3,
    )


async def until(condition):
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.001)


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(live, "KEEP_EVERY_S", 0.01)


async def test_of_many_reports_the_last_is_published_and_few_are_kept_the_last_among_them():
    store = Kept()
    report = Progress(store, request(), asyncio.get_running_loop())

    for number in range(500):
        report(number, None)
    await until(lambda: store.kept and store.kept[-1]["value"] == 499)

    await until(lambda: store.published[-1]["value"] == 499)
    assert len(store.kept) < 100


async def test_a_report_that_is_large_is_published_whole_and_kept_in_short():
    store = Kept()

    Progress(store, request(), asyncio.get_running_loop())({"rows": "x" * 100_000}, "m" * 100_000)
    await until(lambda: store.kept)

    assert len(store.published[0]["value"]["rows"]) == 100_000
    assert store.kept == [{"value": None, "message": "m" * live.KEPT_TEXT, "truncated": True}]


async def test_a_store_that_is_away_costs_a_report_and_no_later_one():
    store = Kept(fails=1)
    report = Progress(store, request(), asyncio.get_running_loop())

    report(1, None)
    await until(lambda: not store.fails)
    report(2, None)
    await until(lambda: store.kept)

    assert store.kept[-1]["value"] == 2


async def test_nothing_is_kept_any_more_once_the_run_is_over():
    store = Kept(lives=False)
    report = Progress(store, request(), asyncio.get_running_loop())

    report(1, None)
    await until(lambda: report._keeping is not None and report._keeping.done())

    assert len(store.kept) == 1
