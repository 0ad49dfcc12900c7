"""What cannot be taken up, on a real Redis: `holdfast doctor` names it, `holdfast retry` takes it up, unreadable or not."""

import asyncio
import json
import subprocess
import sys
from contextlib import aclosing

import pytest
import redis
from lacking import lacking
from redis_server import RedisServer, binaries
from store_suite.outbox import one_leased, owe
from writer import Writer, begin, call, lose, resolve, start

from holdfast.actors.actor_settings import StoreAddress
from holdfast.cli import app
from holdfast.cli.check import Outcome
from holdfast.cli.options import Where
from holdfast.cli.store_checks import Looked, problem_checks
from holdfast.conversation import Approve, Principal, Proof, Scope
from holdfast.persistence import RedisStore, Verdict
from holdfast.persistence.keys import Keys
from holdfast.settings import Settings


@pytest.fixture(scope="module")
def server():
    if not binaries():
        lacking("there is no Redis server on this machine")
    with RedisServer(appendonly="yes", appendfsync="always") as running:
        yield running


@pytest.fixture
async def store(server, request):
    opened = RedisStore(server.url, namespace=f"t{abs(hash(request.node.name)) % 10**9}")
    await opened.open()
    yield opened
    await opened.close()


def holdfast(store, *arguments):
    command = [sys.executable, "-m", "holdfast.cli", *arguments, "--redis-url", store.url, "--namespace", store.namespace]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


async def examined(store):
    """The checks of a store's problems, by name."""
    at = StoreAddress(store.url, store.namespace, store.store_id)
    async with aclosing(Looked(at, Settings.of(), Where())) as looked:
        return {check.name: check for check in await problem_checks(looked)}


async def test_doctor_names_what_cannot_be_taken_up_and_what_is_in_quarantine_with_the_reason(store):
    # given nothing wrong
    assert {check.status for check in (await examined(store)).values()} == {Outcome.OK}
    # when one cannot be taken up, and another is in quarantine
    await store.troubled("c-1", "no actor is free")
    writer = await Writer.of(store, "c-2")
    await writer.do(start(), begin(), call("ask"))
    await store.strike("c-2", writer.token, process="p-1", reason="it hangs", limit=1)
    # then both are named
    checks = await examined(store)
    assert {name for name, check in checks.items() if check.status is Outcome.FAIL} == {"conversations", "quarantine"}
    assert all(word in checks["conversations"].said for word in ("c-1", "no actor is free"))
    assert all(word in checks["quarantine"].said for word in ("c-2", "it hangs"))
    assert checks["quarantine"].fix.endswith("holdfast retry c-2")


async def test_doctor_names_some_of_many_and_counts_the_others(store):
    for number in range(25):
        await store.troubled(f"c-{number}", "away")
    said = (await examined(store))["conversations"].said
    assert said.startswith("25 conversations")
    assert said.endswith("; and 22 more")


@pytest.fixture
def inside(store, capsys):
    """Runs a command in this process, beside the test's loop: its exit code and what it printed."""

    async def run(*arguments):
        code = await asyncio.to_thread(app.run, [*arguments, "--redis-url", store.url, "--namespace", store.namespace])
        return code, capsys.readouterr().out

    return run


async def test_problems_lists_everything_in_one_place_with_since_when_and_what_helps(store, inside):
    # given nothing wrong
    code, said = await inside("problems", "--json")
    assert (code, json.loads(said)["problems"]) == (0, [])
    # when there is one of each
    now = await store.now()
    await store.put_problem("shop:app", "ModuleNotFoundError: shop")
    await store.troubled("c-1", "no actor is free")
    quarantined = await Writer.of(store, "c-2")
    await quarantined.do(start(), begin(), call("ask"))
    await store.strike("c-2", quarantined.token, process="p-1", reason="it hangs", limit=1)
    lost = await Writer.of(store, "c-3")
    await lost.do(start(), begin(), call("ship"), resolve(Approve()), lose())
    late = await Writer.of(store, "c-4")
    await late.do(start(), begin(), call("ask"), now=now - 3_700_000)
    await store.release("c-4", late.token)
    given = await Writer.of(store, "c-5")
    bo, scope = Principal("bo", proof=Proof.KEY), Scope("tool", "refund", level="execute")
    await given.do(start(), begin(), call("refund"), resolve(Approve(scope=scope), principal=bo))
    await owe(store, "c-6", "ended")
    await store.acknowledge(await one_leased(store), Verdict.ASIDE, reason="it answers 410")
    assert await store.heartbeat("a-1", limit=9)
    await store.hosts("a-1", "c-3")
    raw = redis.Redis.from_url(store.url)
    raw.zadd(Keys(store.namespace).meta("living"), {"a-1": now - 60_000})  # it was heard of long ago
    await store.bind("cluster-1", "127.0.0.1:1", 1_000)
    raw.hset(Keys(store.namespace).meta("cluster"), "at", now + 60_000)  # it goes on saying that it lives
    # then all are told
    code, said = await inside("problems", "--json")
    found = {problem["kind"]: problem for problem in json.loads(said)["problems"]}
    assert code == 1
    assert {kind: problem["count"] for kind, problem in found.items()} == dict.fromkeys(found, 1)
    named = {kind: problem["which"][0]["name"] for kind, problem in found.items()}
    assert named == {
        "app": "shop:app",
        "lost_run": "c-3",
        "quarantine": "c-2",
        "trouble": "c-1",
        "hung_actor": "a-1",
        "grant": f"c-5 {given.state.grants[0].grant_id}",
        "undelivered": "c-6 ops ended",
        "overdue": "c-4",
    }
    assert all(now - 3_700_001 <= problem["since"] <= now + 60_000 for problem in found.values() if problem["kind"] != "grant")
    assert found["hung_actor"]["since"] == now - 60_000
    for kind, words in {"app": "up --app shop:app", "lost_run": "pending --kind lost", "quarantine": "retry c-2"}.items():
        assert f"holdfast {words} --redis-url {store.url}" in found[kind]["fix"]
    _, drawn = await inside("problems")
    assert "hung actor: 1, for 1m" in drawn
    assert "it hosts c-3" in drawn
    assert {check.status for check in (await examined(store)).values()} == {Outcome.FAIL}
    # when the cluster that the actor lived in is gone, the actor does not hang: it is gone with it
    raw.hset(Keys(store.namespace).meta("cluster"), "at", now - 60_000)
    code, said = await inside("problems", "--json")
    assert (code, "hung_actor" in said) == (1, False)
    raw.close()


async def test_a_problem_that_cannot_be_read_is_one_and_hides_no_other(store):
    await store.put_problem("shop:app", "ImportError")
    raw = redis.Redis.from_url(store.url)
    raw.set(Keys(store.namespace).meta("troubles"), "not ours")
    checks = await examined(store)
    assert {name for name, check in checks.items() if check.status is Outcome.FAIL} == {"apps", "conversations"}
    assert "cannot be read" in checks["conversations"].said
    raw.close()


async def test_what_cannot_be_read_can_be_told_to_go_on_from_the_command_line(store):
    writer = await Writer.of(store, "c-1")
    await writer.do(start(), begin(), call("ask"))
    log = Keys(store.namespace).log("c-1")
    raw = redis.Redis.from_url(store.url)
    raw.rename(log, f"{log}:away")
    await store.strike("c-1", writer.token, process="p-1", reason="it cannot be read", limit=1)

    told = holdfast(store, "retry", "c-1", "--json")

    assert (told.returncode, json.loads(told.stdout)["lifted"]) == (0, True), told.stderr
    assert await store.quarantine("c-1") is None
    raw.rename(f"{log}:away", log)
    assert (await Writer.of(store, "c-1")).state == writer.state
    nobody = holdfast(store, "retry", "c-none")
    assert nobody.returncode != 0
    assert "never started" in nobody.stderr
    raw.close()


async def test_a_trouble_that_cannot_be_read_hides_no_other(store):
    await store.troubled("c-1", "the log lacks entry 4")
    await store._redis.hset(Keys(store.namespace).meta("troubles"), mapping={"c-2": "?", b"\xff": b"\xff|\xff"})
    assert [trouble.conversation_id for trouble in await store.troubles()] == ["c-1"]
