"""What `holdfast doctor` makes of what it has seen: each judgement of given facts."""

import asyncio
import json
import os
import shlex
import sys
import tempfile
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

from holdfast.agent import Agent, Breaker, Compact, Context, Model
from holdfast.cli import doctor, headroom, known_holes, problems, redis_checks, redis_doors
from holdfast.cli.check import Outcome, bounded, fail, failed, judged, ok, warn
from holdfast.cli.display import to_json
from holdfast.cli.hints import command
from holdfast.cli.options import Where
from holdfast.cli.ray_checks import auth, has_breakers, link_check, metrics, model_check, node_checks
from holdfast.cli.redis_checks import clock
from holdfast.cli.redis_url import anonymous, own_socket
from holdfast.cli.store_checks import NAMES, checks
from holdfast.client.problems import Kind, Problem, Which, problems_of
from holdfast.errors import CorruptStore
from holdfast.machine_load import MachineLoad
from holdfast.persistence import Census, MemoryStore
from holdfast.redaction import Redaction
from holdfast.registry import doors
from holdfast.registry.doors import Door, Knocked, Manner
from holdfast.registry.inventory import Work
from holdfast.registry.node_look import NodeLook
from holdfast.settings import Timing

OK, WARN, FAIL = Outcome.OK, Outcome.WARN, Outcome.FAIL
NOW = 1_700_000_000_000
GIB = 1 << 30


# -- the load of machines


def test_a_machine_that_has_more_to_do_than_it_can_is_a_warning_with_its_figures():
    assert headroom.load(None).status is OK
    assert (
        headroom.load(MachineLoad(1.2, 2, 0.05)).said
        == "load 1 on 2 cores; something waited for a core 5% of the last ten seconds"
    )
    found = headroom.load(MachineLoad(14.2, 2))
    assert (found.name, found.status, bool(found.fix)) == ("load", WARN, True)
    assert found.said == "this machine is overloaded: load 14 on 2 cores, 2 for each is too much"


def test_nodes_that_are_overloaded_are_named():
    looks = [
        NodeLook("10.0.0.1", load=MachineLoad(14.2, 2)),
        NodeLook("10.0.0.2", load=MachineLoad(1, 2)),
        NodeLook("10.0.0.3"),
    ]
    (found,) = [check for check in node_checks(looks, 3, app=None, with_store=False) if check.name == "node load"]
    assert (found.status, found.said) == (WARN, "1 of 3 nodes are overloaded: 10.0.0.1: load 14 on 2 cores")
    assert [check.name for check in node_checks(looks[1:], 2, app=None, with_store=False)] == ["nodes"]


# -- one check hides no other


async def test_a_check_that_hangs_or_fails_is_a_check_of_its_own():
    async def hang():
        await asyncio.Event().wait()

    async def break_down():
        raise ZeroDivisionError

    async def refuse():
        raise CorruptStore("the layout is no hash")

    (hung,) = await bounded("a", hang(), within_s=0.01)
    assert (hung.name, hung.status, hung.unreachable) == ("a", FAIL, True)
    (broken,) = await bounded("b", break_down(), within_s=1)
    assert (broken.name, broken.status, "ZeroDivisionError" in broken.said) == ("b", FAIL, True)
    (refused,) = await bounded("c", refuse(), within_s=1)
    assert "the layout is no hash" in refused.said
    misjudged = judged("d", lambda: int("not a number"))
    assert (misjudged.name, misjudged.status) == ("d", FAIL)


async def test_what_failed_is_cut_after_it_is_without_secrets(monkeypatch):
    monkeypatch.setenv("RAY_AUTH_TOKEN", "the-token-of-this-cluster")
    monkeypatch.setenv("HOLDFAST_REDIS_URL", "redis://:pass-word@h:1")
    for secret, label in {
        "the-token-of-this-cluster": "[RAY_AUTH_TOKEN]",
        "pass-word": "[HOLDFAST_REDIS_URL]",
        "redis://:a-pass-word@h:1": "redis://***@h:1",
    }.items():
        for before in (0, 270, 280, 290):
            check = failed("a", ValueError("x" * before + secret))
            assert check.said == "it could not be looked at: " + f"ValueError: {'x' * before}{label}"[:300]


# -- what monitoring reads


@pytest.mark.parametrize(("found", "status"), [([OK], "ok"), ([OK, WARN], "warn"), ([WARN, FAIL, OK], "fail"), ([], "ok")])
def test_monitoring_reads_the_worst_status_and_each_check(found, status):
    made = {OK: ok("a", "fine"), WARN: warn("b", "hm", "do this"), FAIL: fail("c", "bad", "do that", unreachable=True)}
    said = json.loads(to_json(doctor.as_dict([made[one] for one in found], at=NOW)))
    assert (said["schema"], said["status"], said["at"]) == (1, status, NOW)
    assert all({"name", "status", "said", "fix"} <= check.keys() for check in said["checks"])
    assert [check["status"] for check in said["checks"]] == [one.value for one in found]


def test_no_password_and_no_token_is_shown(monkeypatch):
    monkeypatch.setenv("RAY_AUTH_TOKEN", "the-token")
    secrets = Redaction.of_process(os.environ, urls=["redis://me:s%40cret@h:1/0?password=another"])
    said = "redis://me:s%40cret@h:1 refused s@cret, another and the-token"
    shown = doctor._presentable(fail("redis", said, f"try {said}"), secrets)
    for secret in ("s%40cret", "s@cret", "another", "the-token"):
        assert secret not in f"{shown.said} {shown.fix}"
    assert shown.said.endswith("refused ***, *** and [RAY_AUTH_TOKEN]")
    assert shown.fix.startswith("try redis://USER:PASSWORD@h:1 ")  # it is to be copied


# -- Redis


@pytest.mark.parametrize(
    ("server", "version", "has", "lacks"),
    [
        ("Redis", "6.2.14", {"CVE-2024-46981", "CVE-2025-49844", "CVE-2026-63639"}, {"CVE-2025-62507", "CVE-2026-23479"}),
        ("Redis", "6.2.23", set(), {"CVE-2025-49844"}),
        ("Redis", "7.0.15", {"CVE-2025-49844", "CVE-2024-46981"}, {"CVE-2026-23479"}),
        ("Redis", "7.4.6", {"CVE-2026-23479", "CVE-2026-63639"}, {"CVE-2025-49844"}),
        ("Redis", "7.4.10", set(), {"CVE-2026-63639"}),
        ("Redis", "8.0.4", {"CVE-2026-23479"}, {"CVE-2025-49844", "CVE-2025-62507"}),
        ("Redis", "8.2.2", {"CVE-2025-62507"}, {"CVE-2025-49844"}),
        ("Redis", "9.0.0", set(), {"CVE-2026-63639"}),
        ("Valkey", "8.1.3", {"CVE-2025-49844"}, set()),
        ("Valkey", "9.0.0", {"CVE-2026-23479"}, {"CVE-2025-49844"}),
        ("Valkey", "9.1.1", set(), {"CVE-2026-63639"}),
        ("Ray", "2.51.2", {"CVE-2025-62593", "CVE-2026-27482"}, set()),
        ("Ray", "2.60.0", set(), {"CVE-2025-62593", "CVE-2026-27482"}),
        ("Redis", "unstable", set(), {"CVE-2025-49844"}),
    ],
)
def test_a_release_has_the_holes_that_were_mended_after_it(server, version, has, lacks):
    found = set(known_holes.holes_of(server, version))
    assert has <= found
    assert not lacks & found
    assert bool(has) is bool(found)


@pytest.mark.parametrize(
    ("server", "version", "to"),
    [
        ("Redis", "6.2.14", "6.2.23"),
        ("Redis", "7.0.1", "7.2.15"),
        ("Redis", "8.0.4", "8.2.8"),
        ("Valkey", "8.0.1", "8.0.10"),
        ("Ray", "2.40.0", "2.54.0"),
    ],
)
def test_the_nearest_release_without_known_holes_is_named_and_has_none(server, version, to):
    assert known_holes.mended(server, version) == to
    assert known_holes.holes_of(server, to) == []


def test_an_old_server_is_warned_of_unless_only_this_user_reaches_it():
    old, new = {"redis_version": "6.2.14"}, {"redis_version": "7.2.4", "valkey_version": "9.1.1"}
    beyond, private = redis_checks.version(old, private=False), redis_checks.version(old, private=True)
    assert (beyond.status, private.status) == (WARN, OK)
    assert all("CVE-2025-49844" in check.said and known_holes.AS_OF in check.said for check in (beyond, private))
    assert "6.2.23" in beyond.fix
    assert redis_checks.version(new, private=False).said.startswith("Valkey 9.1.1")


@pytest.mark.parametrize(
    ("loopback", "open_", "status"),
    [(True, True, WARN), (False, True, FAIL), (True, False, OK), (False, False, OK), (False, None, WARN)],
)
def test_a_redis_that_asks_for_no_password_is_named(loopback, open_, status):
    assert redis_doors.auth(loopback=loopback, open_=open_).status is status


@pytest.mark.parametrize(
    ("url", "loopback", "status"),
    [
        ("redis://127.0.0.1:6379", True, OK),
        ("redis://10.0.0.1:6379", False, WARN),
        ("rediss://10.0.0.1:6379", False, OK),
        ("rediss://10.0.0.1:6379?ssl_cert_reqs=none", False, WARN),
        ("rediss://10.0.0.1:6379?ssl_check_hostname=false", False, WARN),
        ("rediss://10.0.0.1:6379?ssl_check_hostname=No", False, WARN),
        ("rediss://10.0.0.1:6379?ssl_check_hostname=true", False, OK),
        ("unix:///run/redis.sock", True, OK),
    ],
)
def test_a_connection_that_leaves_this_machine_without_tls_is_named(url, loopback, status):
    assert redis_doors.tls(url, loopback=loopback).status is status


def test_a_stranger_has_the_address_and_nothing_that_says_who_comes():
    url = "rediss://me:secret@h:1/2?password=x&ssl_certfile=c&ssl_keyfile=k&ssl_ca_certs=ca"
    assert anonymous(url) == "rediss://h:1/2?ssl_ca_certs=ca"
    assert anonymous("unix://me:secret@/run/r.sock?db=1") == "unix:///run/r.sock?db=1"


def test_a_socket_is_this_users_alone_if_it_or_a_folder_above_it_is(tmp_path):
    closed, opened = tmp_path / "closed", tmp_path / "opened"
    for folder, mode in ((closed, 0o700), (opened, 0o755)):
        folder.mkdir()
        (folder / "redis.sock").touch(0o666)
        folder.chmod(mode)
    tmp_path.chmod(0o755)
    assert own_socket(f"unix://{closed}/redis.sock")
    assert own_socket(f"unix://{opened}/redis.sock") is any(not one.stat().st_mode & 0o077 for one in tmp_path.parents)
    assert not own_socket(f"unix://{closed}/none.sock")
    assert not own_socket("redis://127.0.0.1:6379")


def test_a_link_in_a_private_folder_makes_no_socket_private(tmp_path):
    tmp_path.chmod(0o700)
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:  # pytest's own are in one that nobody else gets into
        public = Path(folder)
        public.chmod(0o755)
        (public / "redis.sock").touch()
        (public / "redis.sock").chmod(0o777)
        (tmp_path / "link.sock").symlink_to(public / "redis.sock")
        (tmp_path / "circle.sock").symlink_to(tmp_path / "circle.sock")
        assert not own_socket(f"unix://{public}/redis.sock")
        assert not own_socket(f"unix://{tmp_path}/link.sock")
        assert not own_socket(f"unix://{tmp_path}/circle.sock")


@pytest.mark.parametrize(
    ("used", "limit", "machine", "status"),
    [(1, 0, 10, OK), (8, 10, 100, WARN), (95, 100, 1000, FAIL), (95, 0, 100, FAIL), (5, 0, 0, OK), (74, 100, 1, OK)],
)
def test_memory_that_runs_out_is_named(used, limit, machine, status):
    info = {"used_memory": used * GIB, "maxmemory": limit * GIB, "total_system_memory": machine * GIB}
    assert headroom.memory(info).status is status


@pytest.mark.parametrize(
    ("free", "needed", "status"),
    [(2 * GIB, 0, OK), (GIB // 2, 0, WARN), (50 << 20, 0, FAIL), (3 * GIB, 4 * GIB, WARN), (GIB // 2, 4 * GIB, FAIL)],
)
def test_a_disk_that_runs_full_is_named(monkeypatch, free, needed, status):
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=free))
    assert headroom.disk("redis disk", Path("/data"), needed=needed).status is status


def test_what_is_stored_is_said_with_its_growth_and_when_that_fills_the_memory():
    census = Census(conversations=1000, begun=100, fullest=30, pending=7, lost=0, quarantined=0)
    info = {"used_memory": 2 * GIB, "used_memory_dataset": GIB, "maxmemory": 4 * GIB}
    steady = headroom.stored(info, census)
    assert (steady.status, "1,000 conversations, 7 pending calls; 1.1 GB" in steady.said) == (OK, True)
    assert "100 started within a day, at most about 107.4 MB" in steady.said
    soon = headroom.stored(info | {"maxmemory": int(2.5 * GIB)}, census)
    assert (soon.status, "full in 5 days" in soon.said) == (WARN, True)
    assert headroom.stored({}, Census(0, 0, 0, 0, 0, 0)).status is OK


# -- Ray and its nodes


def knocked(*manners):
    return [Knocked(Door(f"door {number}", f"10.0.0.{number}:1"), manner) for number, manner in enumerate(manners)]


@pytest.mark.parametrize(
    ("manners", "local", "status"),
    [
        ((Manner.REFUSED, Manner.REFUSED), False, OK),
        ((Manner.REFUSED, Manner.UNREACHED), False, OK),
        ((Manner.REFUSED, Manner.OPEN), False, FAIL),
        ((Manner.REFUSED, Manner.OPEN), True, WARN),
        ((Manner.REFUSED, Manner.UNCLEAR), True, WARN),
        ((Manner.UNREACHED,), True, WARN),
        ((), True, WARN),
    ],
)
def test_only_ports_that_refused_a_stranger_are_said_to_be_closed(manners, local, status):
    found = knocked(*manners)
    check = auth(found, {one.door.address: local for one in found})
    assert check.status is status
    if Manner.OPEN in manners:
        assert "door 1" in check.said


def test_nodes_whose_ports_were_not_tried_are_counted(monkeypatch):
    for manner in Manner:
        found = knocked(manner)
        local = {one.door.address: False for one in found}
        assert auth(found, local, 3).said == auth(found, local).said + "; on 3 more nodes none was tried"
    ray = SimpleNamespace(nodes=lambda: [{"Alive": number > 4} for number in range(72)])
    monkeypatch.setitem(sys.modules, "ray", ray)
    assert doors.untried() == 67 - doors.NODES
    ray.nodes = lambda: [{"Alive": True}]
    assert doors.untried() == 0


def test_links_in_messages_need_keys_and_an_address_that_readers_reach():
    missing, here, fine = (link_check(["email", "slack"], url) for url in (None, "http://127.0.0.1:8484", "https://x.example"))
    assert [one.status for one in (missing, here, fine)] == [WARN, WARN, OK]
    assert all("email, slack" in one.said for one in (missing, here, fine))
    assert "HOLDFAST_LINK_KEYS" in missing.fix
    assert "HOLDFAST_PUBLIC_URL" in here.fix


def test_metrics_that_others_read_are_named():
    found = knocked(Manner.OPEN)
    assert [check.status for check in metrics(found, {"10.0.0.0:1": False})] == [WARN]
    assert [check.status for check in metrics(found, {"10.0.0.0:1": True})] == [OK]
    assert metrics([], {}) == []


@pytest.mark.parametrize(
    ("ahead", "uncertain", "status"), [(10, 1, OK), (-2_500, 1, WARN), (2_500, 900, OK), (60_000, 5, WARN)]
)
def test_a_clock_that_does_not_go_with_redis_is_named(ahead, uncertain, status):
    assert clock(ahead, uncertain).status is status


def test_each_node_that_runs_nothing_or_lacks_something_is_named():
    looks = [
        NodeLook("10.0.0.1", 3, 1),
        NodeLook("10.0.0.2", 90_000, 1, app="no module 'shop'"),
        NodeLook("10.0.0.3", store="no Redis answers there"),
        NodeLook("10.0.0.4", failed="it said nothing within 30 s"),
    ]
    found = {check.name: check for check in node_checks(looks, 9, app="shop:app", with_store=True)}
    assert {name: check.status for name, check in found.items()} == {
        "nodes": FAIL,
        "node redis": FAIL,
        "node clocks": WARN,
        "node imports": FAIL,
    }
    words = {
        "nodes": "10.0.0.4: it said nothing",
        "node redis": "10.0.0.3",
        "node clocks": "10.0.0.2",
        "node imports": "10.0.0.2: no module",
    }
    assert all(word in found[name].said for name, word in words.items())
    assert "5 more were not looked at" in found["nodes"].said
    fine = node_checks([NodeLook("10.0.0.1", 3, 1)], 1, app=None, with_store=False)
    assert [(check.name, check.status) for check in fine] == [("nodes", OK)]


# -- problems


def test_each_kind_of_problem_has_a_check_whether_or_not_there_is_one():
    assert set(NAMES) == set(Kind)
    assert {check.status for check in checks([], NOW)} == {OK}
    one = Problem(Kind.OVERDUE, 1, "conversations whose deadline passed", "holdfast up")
    assert [check.said for check in checks([one], NOW) if check.status is FAIL] == ["1 conversation whose deadline passed"]
    many = Problem(
        Kind.LOST_RUN, 30, "runs that were lost", "holdfast pending", [Which(f"c-{n}", NOW - 60_000) for n in range(20)]
    )
    found = {check.name: check for check in checks([many], NOW)}
    assert {name for name, check in found.items() if check.status is FAIL} == {"lost runs"}
    assert found["lost runs"].said == ("30 runs that were lost: c-0 (for 1m); c-1 (for 1m); c-2 (for 1m); and 27 more")


def test_problems_are_drawn_harmless_with_how_many_since_when_and_what_helps():
    hostile = Problem(
        Kind.APP, 21, "apps", "run: holdfast up", [Which("shop:app", NOW - 3_600_000, "\x1b[31mImportError\n" * 99)]
    )
    said = "\n".join(problems.drawn([hostile], NOW))
    assert "\x1b" not in said
    assert said.startswith("app: 21, for 1h. apps\n")
    assert "and 20 more" in said
    assert said.endswith("-> run: holdfast up")
    assert problems.drawn([], NOW) == ["There are no problems."]
    assert problems.as_dict(hostile)["since"] == NOW - 3_600_000


async def test_no_password_is_in_a_problem_or_in_the_command_that_helps():
    url = "redis://:s3cret@127.0.0.1:6379/0"
    store = MemoryStore()
    await store.put_problem("shop:app", f"ConnectionError: {url}")
    secrets = Redaction(urls=[url])
    found = [
        problems.without_secrets(one, secrets)
        for one in await problems_of(store, Timing(), partial(command, where=Where(redis_url=url)))
    ]
    said = json.dumps([problems.as_dict(one) for one in found]) + "".join(problems.drawn(found, NOW))
    assert "--redis-url" in said
    assert "s3cret" not in said
    assert "USER:PASSWORD@" in said


async def test_a_store_without_problems_has_none_and_silence_of_a_dead_cluster_is_no_hanging():
    clock_ms = [NOW]
    store = MemoryStore(clock=lambda: clock_ms[0])
    assert await store.heartbeat("a-1", limit=9)
    await store.bind("cluster-1", "a", 1)
    assert await problems_of(store, Timing(), shlex.join) == []
    clock_ms[0] += Timing().stale_ms
    assert await problems_of(store, Timing(), shlex.join) == [], "its cluster has been silent too"
    await store.bind("cluster-1", "a", 1)
    (hung,) = await problems_of(store, Timing(), shlex.join)
    assert (hung.kind, hung.count, hung.since, hung.which[0].name) == (Kind.HUNG_ACTOR, 1, NOW, "a-1")


def test_workers_that_pass_a_model_over_are_named():
    fine = model_check({"w:0": Work(known=True)})
    open_for = {"model": "openai/a", "state": "open", "for_s": 12.4}
    told = model_check({"w:0": Work(known=True), "w:1": Work(known=True, breakers=(open_for,))})
    assert (fine.status, told.status) == (Outcome.OK, Outcome.WARN)
    assert "openai/a in w:1 (open, for 12 s yet)" in told.said


@pytest.mark.parametrize(
    ("agent", "expected"),
    [
        ({"model": "openai/a"}, False),
        ({"model": Model("openai/a", breaker=None, fallbacks=[Model("openai/b", breaker=None)])}, False),
        ({"model": "openai/a", "overridable": {"model": [Model("openai/b", breaker=None)], "max_tokens": 100}}, False),
        ({"model": Model("openai/a")}, True),
        ({"model": Model("openai/a", breaker=None, fallbacks=[Model("openai/b", breaker=Breaker(failures=1))])}, True),
        ({"model": "openai/a", "overridable": {"model": ["openai/b"]}}, True),
        ({"model": "openai/a", "context": Context(budget=8000, compact=Compact(model="openai/b"))}, False),
        ({"model": "openai/a", "context": Context(budget=8000, compact=Compact(model=Model("openai/b")))}, True),
    ],
)
def test_breakers_are_looked_for_in_each_model_that_a_turn_may_ask(agent, expected):
    bare = Agent(name="bare", model="openai/a").spec
    assert has_breakers([bare, Agent(name="shop", **agent).spec]) is expected
    assert not has_breakers([bare])
