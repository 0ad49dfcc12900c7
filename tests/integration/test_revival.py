"""The embedded Redis dies under those who use it: whoever needs it starts it again, once."""

import asyncio
import os
import signal
import time

import pytest
import redis
from writer import Writer, begin, reply, start

from holdfast.client import AsyncClient, Client, StoreUnavailable
from holdfast.embedded import local_redis as embedded
from holdfast.embedded import revival
from holdfast.embedded.home import Home
from holdfast.embedded.local_redis import ensure_redis, running_redis, stop_redis
from holdfast.embedded.revival import Revival
from holdfast.persistence import RedisStore


@pytest.fixture
def home(tmp_path):
    opened = Home.open(tmp_path / "home")
    yield opened
    stop_redis(opened)
    if opened.runtime.exists():
        opened.runtime.rmdir()


@pytest.fixture
async def client(home):
    async with AsyncClient.connect(home=home.path, timeout_s=30) as opened:
        yield opened


@pytest.fixture
async def writer(home):
    store = RedisStore(ensure_redis(home))
    await store.open()
    begun = await Writer.of(store, "c-1")
    await begun.do(start(), begin())
    yield begun
    await store.close()


def pid_of(home):
    return int((home.path / "redis.pid").read_text())


def kill(home):
    """End the server as a crash does; returns when it is gone."""
    pid = pid_of(home)
    os.kill(pid, signal.SIGKILL)
    give_up = time.monotonic() + 30
    while embedded._is_server(home, pid):
        assert time.monotonic() < give_up
        time.sleep(0.01)
    return pid


async def test_a_living_client_starts_the_redis_that_died_again(home, client, writer):
    assert (await client.conversations()).items
    killed = kill(home)

    (row,) = (await client.conversations()).items

    assert row.conversation_id == "c-1"
    assert pid_of(home) != killed
    assert (await client.conversation("c-1").state()).status == "generating"


def test_a_living_blocking_client_starts_it_again_too(home):
    with Client.connect(home=home.path) as client:
        assert client.pending().items == []
        killed = kill(home)

        assert client.pending().items == []
    assert pid_of(home) != killed


async def test_a_wait_in_progress_starts_it_again_and_ends_as_it_should(home, client, writer):
    waiting = asyncio.create_task(client.conversation("c-1").wait())
    with redis.Redis(unix_socket_path=str(home.socket("redis.sock"))) as raw:
        while not any("xread" in one["cmd"] for one in raw.client_list()):
            await asyncio.sleep(0.01)
    await asyncio.to_thread(kill, home)
    await asyncio.to_thread(_until, lambda: running_redis(home) is not None)  # nobody else asks for it

    await writer.do(reply("done"))

    assert (await asyncio.wait_for(waiting, 30)).reply == "done"


async def test_events_in_progress_start_it_again_and_go_on_without_a_gap(home, client, writer):
    kinds, seqs = [], []

    async def listen():
        async for event in client.conversation("c-1").events(live=False):
            kinds.append(event.kind)
            seqs.append(event.seq)
            if event.kind == "turn_completed":
                return

    listening = asyncio.create_task(listen())
    while len(kinds) < 3:
        await asyncio.sleep(0.01)
    await asyncio.to_thread(kill, home)
    await asyncio.to_thread(_until, lambda: running_redis(home) is not None)

    await writer.do(reply("done"))
    await asyncio.wait_for(listening, 30)

    assert seqs == list(range(1, len(seqs) + 1))


async def test_hundreds_who_miss_it_at_once_start_it_once(home, client, writer, monkeypatch):
    await client.pending()
    started = []
    real = revival.revive_redis
    monkeypatch.setattr(revival, "revive_redis", lambda *args, **kwargs: started.append(1) or real(*args, **kwargs))
    await asyncio.to_thread(kill, home)

    pages = await asyncio.gather(*(client.conversations() for _ in range(300)))

    assert all(len(page.items) == 1 for page in pages)
    assert len(started) == 1


async def test_a_server_that_dies_again_and_again_is_started_at_growing_intervals(home, monkeypatch):
    starts = []
    monkeypatch.setattr(revival, "redis_stopped", lambda _: False)
    monkeypatch.setattr(revival, "revive_redis", lambda *_args, **_kwargs: starts.append(1))
    clock = [1000.0]
    revive = Revival(lambda: home, deadline_s=1)
    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: clock[0])

    tried = []
    for _ in range(100):
        tried.append(await revive())
        clock[0] += 0.25

    assert tried[0]
    assert len(starts) == sum(tried) == 6  # after 0, 0.5, 1.5, 3.5, 7.5, 15.5 seconds


async def test_what_was_stopped_on_purpose_stays_down_for_a_wait_and_comes_back_for_the_next_call(home, client, writer):
    waiting = asyncio.create_task(client.conversation("c-1").wait())
    with redis.Redis(unix_socket_path=str(home.socket("redis.sock"))) as raw:
        while not any("xread" in one["cmd"] for one in raw.client_list()):
            await asyncio.sleep(0.01)
    await asyncio.to_thread(stop_redis, home)

    with pytest.raises(StoreUnavailable, match="holdfast up"):
        await asyncio.wait_for(waiting, 30)
    assert running_redis(home) is None

    assert len((await client.conversations()).items) == 1


async def test_a_server_that_comes_back_with_other_data_is_refused(home, client, writer):
    await client.pending()
    await asyncio.to_thread(kill, home)
    for file in (home.path / "redis").rglob("*.aof*"):
        file.unlink()

    with pytest.raises(Exception, match=r"restore|holds the conversations"):
        await client.pending()


async def test_a_home_that_lost_its_record_is_not_begun_anew(home, client, writer):
    await client.pending()
    await asyncio.to_thread(kill, home)
    (home.path / "home.json").unlink()

    with pytest.raises(Exception, match=r"home\.json"):
        await client.pending()
    assert running_redis(home) is None


async def test_where_nothing_may_be_started_the_error_names_the_command(home):
    url = ensure_redis(home)
    async with AsyncClient.connect(redis_url=url, embedded=False, timeout_s=30) as client:
        await client.pending()
        await asyncio.to_thread(kill, home)

        with pytest.raises(StoreUnavailable, match="holdfast up"):
            await client.pending()
    assert running_redis(home) is None


def _until(condition):
    give_up = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < give_up
        time.sleep(0.02)
