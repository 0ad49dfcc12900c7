"""What the benchmark of a turn counts: commands on their way to Redis, calls of replaced functions, orders, tool rounds."""

import argparse
import asyncio
import importlib
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from redis.asyncio.connection import Connection

ROOT = Path(__file__).parents[2]


@pytest.fixture
def bench(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    return lambda name: importlib.import_module(f"benchmarks.{name}")


@pytest.fixture
def counted(monkeypatch):
    monkeypatch.delenv("TURN_COUNTS", raising=False)
    spec = importlib.util.spec_from_file_location("counted", ROOT / "benchmarks" / "counted" / "sitecustomize.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_commands_are_named_and_scripts_by_their_digest_as_the_driver_packs_them(counted):
    packed = Connection().pack_commands(
        [("HGET", "k", "f"), ("EVALSHA", "0a1b", 1, "k", b"\r\n$3\r\n"), ("config get", "x" * 10_000), ("EVAL", "return 1", 0)]
    )
    named = list(counted.commands(b"".join(packed)))
    assert named == ["HGET", "script 0a1b", "CONFIG", "script e0e1f9fabfc9d4800c877a703b823ac0578ff8db"]
    counted.sent((None, packed), None)
    assert counted.counts["redis: round trips"] == counted.counts["redis: HGET"] == 1
    assert counted.counts["redis: bytes sent"] == len(b"".join(packed))


def test_a_replaced_function_still_does_what_it_did(counted):
    class Owner:
        def add(self, one, other):
            return one + other

    counted.around(Owner, "add", counted.one("added"))
    assert Owner().add(1, other=2) == 3
    assert counted.counts == {"added": 1}


PROGRAM = """
import os, pickle, time
from pathlib import Path
import pydantic, ray.actor, redis.asyncio.connection
from ray._private.serialization import SerializationContext

class Model(pydantic.BaseModel):
    number: int = 0

def replaced():  # looked up anew each time: they may not have been replaced yet
    return [redis.asyncio.connection.AbstractConnection.send_packed_command, ray.actor.ActorHandle._actor_method_call,
        SerializationContext._serialize_to_pickle5, SerializationContext._deserialize_pickle5_data, Model.__init__]

give_up = time.monotonic() + 30
while not all(hasattr(one, "__wrapped__") for one in replaced()):
    assert time.monotonic() < give_up, replaced()
    time.sleep(0.01)
time.sleep(0.2)
assert pickle.loads(pickle.dumps((Model(number=1).number, Model.model_validate({"number": "2"}).number))) == (1, 2)
while '"validated: __main__": 2' not in "".join(file.read_text() for file in Path(os.environ["TURN_COUNTS"]).glob("*.json")):
    assert time.monotonic() < give_up
    time.sleep(0.01)
"""


def test_a_process_counts_what_its_libraries_do_once_it_has_imported_them(bench, tmp_path):
    env = {**os.environ, "TURN_COUNTS": str(tmp_path), "PYTHONPATH": str(ROOT / "benchmarks" / "counted")}
    subprocess.run([sys.executable, "-c", PROGRAM], env=env, check=True)
    (file,) = tmp_path.glob("*.json")
    counts = json.loads(file.read_text())["counts"]
    assert counts["validated: __main__"] == 2
    assert counts["pickle: by Holdfast"] >= 1
    named = bench("turn").counts(tmp_path, int(file.stem))
    assert named["client; validated: __main__"] == 2


class Channel:
    """Gives orders, and keeps what it is told."""

    def __init__(self, *orders):
        self.orders = [*orders, {}]
        self.told = []

    async def mark(self, name, **found):
        self.told.append((name, found))
        return self.orders.pop(0) if name == "ready" else {}


async def test_an_order_is_for_so_many_conversations_of_which_so_many_go_on_at_once(bench):
    driving = bench("flight_driver")
    texts, now, most = [], 0, 0

    class Driver(driving.Driver):
        async def converse(self, text, acknowledged):
            nonlocal now, most
            texts.append(text)
            now, most = now + 1, max(most, now + 1)
            await asyncio.sleep(0)
            now -= 1
            acknowledged()
            return driving.ANSWER

    channel = Channel({"kind": "look", "level": 3, "count": 7}, {"kind": "flight", "level": 1, "count": 2})
    await driving.orders(Driver(argparse.Namespace(system="x")), channel)
    assert [name for name, _ in channel.told] == ["ready", "done", "ready", "done", "ready"]
    assert [found["ends"] for name, found in channel.told if name == "done"] == [{"answered": 7}, {"answered": 2}]
    assert [text.partition("-")[0] for text in texts] == ["look"] * 7 + ["flight"] * 2
    assert len(set(texts)) == 9
    assert most == 3


def test_the_stub_calls_a_tool_as_often_as_its_turn_has_rounds(bench):
    stub = bench("slow_stub")
    assert [b"tool_calls" in stub._stream("look", number) for number in range(4)] == [True, True, True, False]
    assert [b"tool_calls" in stub._stream("ask", number) for number in range(2)] == [True, False]
    assert b"tool_calls" not in stub._stream("", 0)


def window(count, ms, **more):
    return {"count": count, "per_s": 1000 / ms, "cpu_ms": {"client": ms / 2, "actor": ms / 2, "gcs": 1.0}, **more}


def test_goals_are_ratios_of_windows_side_by_side(bench):
    ours, floor = [window(10, 20.0), window(10, 60.0), window(10, 30.0)], [window(10, each) for each in (12.0, 42.0, 12.0)]
    raw = {
        "turns": [{"kind": kind, "level": 1, "ours": ours, "floor": floor} for kind in ("flight", "look")],
        "starts": [(window(100, 1.0), window(5, 4.0)), (window(100, 1.0), window(5, 2.0))],
        "flight": {"acknowledged_s": [0.2, 0.3, 0.4], "took_s": 3.0, "count": 3},
        "delay_s": 5.0,
        "counted": {
            "rest": {"sweeper; redis: PING": 1.0},
            "flight": {
                "client; redis: script load": 1.0,
                "worker; redis: script claim": 2.0,
                "sweeper; redis: script bind": 9.0,
            },
            "look": {"actor; redis: script append": 8.0},
            "ask": {},
        },
        "versions": {},
    }
    part = bench("turn_tables").part_of(raw)
    assert [(row.value, row.floor, round(row.ratio, 3), row.samples) for row in part.rows] == [
        (30.0, 12.0, 1.667, 30),
        (375.0, 1000.0, 0.375, 10),
        (0.3, 3.0, 0.1, 3),
    ]
    by_kind, rates, sums, names = part.tables
    assert by_kind.columns[1:3] == ["one call, 1 at once", "three tool rounds, 1 at once"]
    ratios = next(line for line in by_kind.rows if line[0] == "ratio")
    assert ratios[1:] == ["2.50", "0.625", ""]
    assert rates.rows[-1][1:] == ["375", "1,000", "333", "1,000", "10"]
    assert next(line for line in sums.rows if line[0] == "scripts run by it")[1:] == [
        "1.00",
        "0.000",
        "2.00",
        "3.00",
        "8.00",
        "0.000",
    ]
    assert ["sweeper", "redis: PING", "", "", "", "1.00"] in names.rows
