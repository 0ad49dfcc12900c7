"""`up`, `down` and `doctor`."""

import re
import shutil
import tempfile
from pathlib import Path

import pytest
import redis
from redis_server import RedisServer

from holdfast.embedded.home import Home
from holdfast.embedded.local_ray import running_ray, stop_ray
from holdfast.embedded.local_redis import running_redis, stop_redis


@pytest.fixture
def other():
    """A home of its own."""
    folder = Path(tempfile.mkdtemp(prefix="hf-", dir="/tmp"))
    home = Home.open(folder / "home")
    yield home
    stop_ray(home)
    stop_redis(home)
    shutil.rmtree(home.runtime, ignore_errors=True)
    shutil.rmtree(folder, ignore_errors=True)


BINDING = "{holdfast:meta}:cluster"


def raw(server) -> redis.Redis:
    return redis.Redis(unix_socket_path=str(server.socket))


def by_name(said) -> dict[str, dict]:
    found = {check["name"]: check for check in said.json()["checks"]}
    assert re.search(r"load \d+ on \d+ core", found.pop("load")["said"])
    found.pop("node load", None)  # the machine that runs this test may be overloaded
    return found


def test_down_stops_this_homes_stack_and_nothing_else(cli, inside, stack, other):
    said = cli("up", "--home", str(other.path), HOLDFAST_APP="")

    assert str(running_ray(other).address) in said.out
    assert "embedded" in said.out
    assert said.err.count("holdfast: started") == 2
    assert inside("down", "--home", str(other.path)).out == f"Stopped the Ray and the Redis of {other.path}.\n"
    assert running_ray(other) is None
    assert running_redis(other) is None
    assert running_ray(stack.home) is not None
    assert running_redis(stack.home) is not None
    assert inside("down", "--home", str(other.path)).out == f"Nothing runs for {other.path}.\n"


def test_who_only_reads_starts_redis_alone_and_the_data_outlives_down(inside, other):
    first = inside("pending", "--home", str(other.path))
    store_id = other.record().store_id

    assert first.out == "Nothing is pending.\n"
    assert first.err == f"holdfast: started a Redis server for {other.path}\n"
    assert running_ray(other) is None
    assert inside("down", "--home", str(other.path)).out == f"Stopped the Redis of {other.path}.\n"
    inside("list", "--home", str(other.path))
    assert other.record().store_id == store_id


def test_up_with_an_app_has_its_workers_ready_and_says_where(cli, stack):
    said = cli("up")

    lines = {line.split()[0]: line for line in said.out.splitlines()}
    assert stack.redis_url in lines["Redis"]
    assert running_ray(stack.home).address in lines["Ray"]
    assert "shop_app:app (agents: support, clerk, scholar, phone, buyer, reader; workers: " in lines["app"]
    assert said.err == ""


def test_up_says_when_workers_cannot_run_the_app_and_so_do_doctor_and_show(cli, inside, stack, monkeypatch):
    (stack.runs / "picky_app.py").write_text(
        "import os\nfrom holdfast.agent import Agent, App\n"
        "if 'RAY_RAYLET_PID' in os.environ: raise RuntimeError('not in a worker')\n"
        "app = App(agents=[Agent(name='picky', instructions='x')])\n"
    )
    path = cli.file({"agent": "picky", "messages": ["hello"], "conversation_id": "picky-1"}, name="picky.jsonl")

    own = ("--namespace", "picky")  # so that nobody else's doctor fails for it

    up = cli("up", "--app", "picky_app:app", *own, code=2)
    submitted = cli("submit", path, "--app", "picky_app:app", "--timeout", "2", *own, code=5)
    monkeypatch.syspath_prepend(stack.runs)
    elsewhere = ("--redis-url", stack.redis_url, "--ray-address", "127.0.0.1:1")  # which is quicker than to join
    doctor = inside("doctor", "--app", "picky_app:app", *elsewhere, *own, "--json", code=4)

    assert "not in a worker" in up.err
    assert submitted.out.startswith("picky-1  generating")
    assert "no worker can run the app" in submitted.err
    assert "not in a worker" in by_name(doctor)["workers"]["said"]
    assert by_name(doctor)["apps"]["status"] == "fail"
    assert "not in a worker" in inside("show", "picky-1", *own).out


def test_doctor_finds_nothing_wrong_with_the_embedded_default_and_an_app_from_where_it_runs(cli, stack):
    project = stack.runs / "project"
    (project / "packaging").mkdir(parents=True)  # which is installed too, and must not be taken from here, not even in workers
    (project / "packaging/__init__.py").write_text("raise RuntimeError('not the one that is installed')\n")
    (project / "here_app.py").write_text(
        "import packaging.version\nfrom holdfast.agent import Agent, App\n"
        "app = App(agents=[Agent(name='here', instructions='x')])\n"
    )
    inside_it = f"cd {project} && unset HOLDFAST_APP PYTHONPATH && export HOLDFAST_NAMESPACE=sound &&"

    up = cli.shell(f"{inside_it} holdfast up --app here_app:app")
    said = cli.shell(f"{inside_it} holdfast doctor --app here_app:app --json", code=None)

    assert "here_app:app (agents: here; workers: " in up.out
    checks = by_name(said)
    assert {name: check["said"] for name, check in checks.items() if check["status"] != "ok"} == {}
    expected = {"home", "home disk", "redis server", "redis", "redis version", "redis auth", "redis tls", "redis memory"}
    expected |= {"redis disk", "persistence", "eviction", "replicas", "namespace", "clock", "paused", "lists", "stored"}
    expected |= {"apps", "lost runs", "quarantine", "conversations", "hung actors", "grants", "outbox", "deadlines"}
    expected |= {"ray", "ray version", "ray token", "ray auth", "binding", "release", "sweeper", "app", "workers"}
    assert expected | {"nodes", "node redis", "node clocks", "node imports"} == checks.keys()
    assert checks["app"]["said"] == "here_app:app: here (0 tools)"
    assert checks["node imports"]["said"] == "1 of 1 nodes import here_app:app"
    assert re.search(r"^[345] ports were tried without a token, and refused", checks["ray auth"]["said"])
    assert (said.code, said.json()["schema"], said.json()["status"] in ("ok", "warn")) == (0, 1, True)


@pytest.mark.gate
def test_down_frees_the_store_at_once_and_leaves_another_clusters_binding_alone_whatever_its_address(cli, inside, other):
    with RedisServer(appendonly="yes", appendfsync="always") as server:
        where = ("--home", str(other.path), "--redis-url", server.url)
        found = raw(server)
        cli("up", *where, HOLDFAST_APP="")
        ray = running_ray(other)
        bound = found.hgetall(BINDING)
        assert (bound[b"cluster"].decode(), bound[b"address"].decode()) == (ray.cluster_id, ray.address)

        inside("down", *where)

        assert not found.exists(BINDING)
        cli("up", *where, HOLDFAST_APP="")
        foreign = {"cluster": "another", "address": running_ray(other).address, "at": 10**15}
        found.hset(BINDING, mapping=foreign)  # another container's Ray, which has the same address there
        inside("down", *where)
        assert found.hget(BINDING, "cluster") == b"another"


@pytest.mark.parametrize("at", ["soon", None])
def test_doctor_says_that_a_binding_cannot_be_read_and_the_fix(inside, other, at):
    with RedisServer(appendonly="yes", appendfsync="always") as server:
        raw(server).hset(BINDING, mapping={"cluster": "x", "address": "a"} | ({"at": at} if at else {}))
        said = inside("doctor", "--redis-url", server.url, "--home", str(other.path), "--json", code=1)

    check = by_name(said)["binding"]
    assert "cannot be read" in check["said"]
    assert BINDING in check["fix"]


def test_doctor_says_that_a_newer_release_serves_the_store(inside, other):
    with RedisServer(appendonly="yes", appendfsync="always") as server:
        raw(server).hset("{holdfast:meta}:release", "release", "1000.0")
        said = inside("doctor", "--redis-url", server.url, "--home", str(other.path), "--json", code=1)

    check = by_name(said)["release"]
    assert (check["status"], "1000.0 serves the store" in check["said"]) == ("fail", True)
    assert "holdfast up --roll-back" in check["fix"]


def test_doctor_starts_nothing(inside, other):
    checks = by_name(inside("doctor", "--home", str(other.path), "--json"))
    drawn = inside("doctor", "--home", str(other.path), "--app", "no_such_module:app", code=1).out

    assert {check["status"] for check in checks.values()} == {"ok"}, checks
    assert running_redis(other) is None
    assert running_ray(other) is None
    assert "fail  app            no_such_module:app: " in drawn
    assert "-> start it from the directory" in drawn


def test_doctor_says_what_is_wrong_with_a_redis_and_the_fix(inside, other):
    with RedisServer(appendonly="no", maxmemory="100mb", maxmemory_policy="allkeys-lru") as server:
        said = inside("doctor", "--redis-url", server.url, "--home", str(other.path), "--json", code=1)

    checks = by_name(said)
    assert {name for name, check in checks.items() if check["status"] == "fail"} == {"persistence", "eviction"}
    assert "CONFIG SET appendonly yes" in checks["persistence"]["fix"]
    assert "noeviction" in checks["eviction"]["fix"]
    assert checks["namespace"]["said"] == "holdfast: nothing was ever stored in it"


def test_a_redis_that_may_lose_what_it_acknowledged_is_warned_of_in_a_line(cli):
    with RedisServer(appendonly="no") as server:
        said = cli("pending", "--redis-url", server.url)

    assert said.out == "Nothing is pending.\n"
    assert said.err.startswith("holdfast: Redis keeps no append-only file")
    assert said.err.count("\n") == 1


def test_doctor_says_what_does_not_answer_and_hides_passwords(inside):
    said = inside(
        "doctor",
        "--redis-url",
        "redis://:secret@127.0.0.1:1/0",
        "--ray-address",
        "127.0.0.1:1",
        "--json",
        code=4,
    )

    checks = by_name(said)
    assert {name for name, check in checks.items() if check["unreachable"]} == {"redis", "ray"}
    assert checks["ray auth"]["status"] == "warn"
    assert "secret" not in said.out + said.err
