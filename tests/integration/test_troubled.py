"""What cannot be taken up, on a real Redis: `holdfast doctor` names it, `holdfast retry` takes it up, unreadable or not."""

import json
import subprocess
import sys

import pytest
import redis
from lacking import lacking

from holdfast.actors.settings import StoreAddress
from holdfast.cli.check import Outcome
from holdfast.cli.conversation_checks import conversation_checks
from holdfast.persistence import RedisStore
from holdfast.persistence.keys import Keys
from holdfast.testing.activation import Activation, begin, call, start
from holdfast.testing.redis_server import RedisServer, binaries


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


async def test_doctor_names_what_cannot_be_taken_up_and_what_is_in_quarantine_with_the_reason(store):
    # given nothing wrong
    assert [check.outcome for check in await conversation_checks(StoreAddress(store.url, store.namespace, store.store_id))] == [
        Outcome.OK
    ]
    # when one cannot be taken up, and another is in quarantine
    await store.troubled("c-1", "no actor is free")
    activation = await Activation.of(store, "c-2")
    await activation.do(start(), begin(), call("ask"))
    await store.strike("c-2", activation.token, process="p-1", reason="it hangs", limit=1)
    # then both are named
    said = {
        check.detail: check for check in await conversation_checks(StoreAddress(store.url, store.namespace, store.store_id))
    }
    assert [check.outcome for check in said.values()] == [Outcome.WARN] * 2
    troubled, quarantined = said
    assert all(word in troubled for word in ("c-1", "no actor is free"))
    assert all(word in quarantined for word in ("c-2", "it hangs"))
    assert said[quarantined].fix.endswith("holdfast retry c-2")


async def test_doctor_names_some_of_many_and_counts_the_others(store):
    for number in range(25):
        await store.troubled(f"c-{number}", "away")
    said = [check.detail for check in await conversation_checks(StoreAddress(store.url, store.namespace, store.store_id))]
    assert len(said) == 21
    assert said[-1].startswith("5 more")


async def test_what_cannot_be_read_can_be_told_to_go_on_from_the_command_line(store):
    activation = await Activation.of(store, "c-1")
    await activation.do(start(), begin(), call("ask"))
    log = Keys(store.namespace).log("c-1")
    raw = redis.Redis.from_url(store.url)
    raw.rename(log, f"{log}:away")
    await store.strike("c-1", activation.token, process="p-1", reason="it cannot be read", limit=1)

    told = holdfast(store, "retry", "c-1", "--json")

    assert (told.returncode, json.loads(told.stdout)["lifted"]) == (0, True), told.stderr
    assert await store.quarantine("c-1") is None
    raw.rename(f"{log}:away", log)
    assert (await Activation.of(store, "c-1")).state == activation.state
    nobody = holdfast(store, "retry", "c-none")
    assert nobody.returncode != 0
    assert "never started" in nobody.stderr
    raw.close()


async def test_a_trouble_that_cannot_be_read_hides_no_other(store):
    await store.troubled("c-1", "the log lacks entry 4")
    await store._redis.hset(Keys(store.namespace).meta("troubles"), mapping={"c-2": "?", b"\xff": b"\xff|\xff"})
    assert [trouble.conversation_id for trouble in await store.troubles()] == ["c-1"]
