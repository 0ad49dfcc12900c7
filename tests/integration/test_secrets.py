"""No secret in Redis, in a model's request or in a log, whatever fails: a real Redis, a real worker, real litellm."""

import asyncio
import contextlib
import io
import json
import logging
import time
from urllib.parse import quote

import pytest
import redis
from hosted import FromStore
from lacking import lacking
from redis_server import RedisServer, binaries

from holdfast.actors import wire
from holdfast.actors.activation.activation import Activation
from holdfast.actors.activation.context import ActivationContext
from holdfast.actors.actor_settings import ActorSettings, StoreAddress, WorkerSettings
from holdfast.actors.admission import Admission
from holdfast.actors.worker import failover
from holdfast.actors.worker.refusals import AppBroken
from holdfast.actors.worker.worker import Worker
from holdfast.actors.workers import Claimed, NoOutcome, NoWorker
from holdfast.agent import load
from holdfast.conversation import Start, Status
from holdfast.persistence import AppRecord, RedisStore, TakeoverReason
from holdfast.settings import Timing
from holdfast.testing import ModelServer, call, calls

pytestmark = pytest.mark.filterwarnings("ignore:deprecated:UserWarning")
PASSWORD = "open/ses@me+77"  # noqa: S105 - made up
KEY = "wonder\"land'key-0815"
PROVIDERS_KEY = "looking-glass-key-0816"
SECRETS = {
    PASSWORD,
    quote(PASSWORD),
    KEY,
    repr(KEY)[1:-1],
    json.dumps(KEY)[1:-1],
    PROVIDERS_KEY,
    "ses@me",
    "land'key",
    "land\\'key",
}
APP = "leaky_app:app"


class InProcess(FromStore):
    """Workers, of which the only one is in this process."""

    def __init__(self, store, worker):
        self.store, self._worker = store, worker

    async def call_model(self, app, code, request):
        return await self._answered(self._worker.do(wire.pack(request)))

    async def run_tool(self, app, code, request):
        return await self._answered(self._worker.do(wire.pack(request)))

    async def join(self, worker, incarnation, conversation_id, effect_id):
        kept = (await self._worker.keeps([incarnation]))[0]
        return Claimed.BEGUN if kept else NoOutcome.FORGOTTEN

    def drop(self, conversation_id, effect_id):
        pass

    async def _answered(self, work):
        try:
            return wire.unpack(await work)
        except AppBroken as error:
            raise NoWorker(str(error)) from error


@pytest.fixture(scope="module")
def server():
    if not binaries():
        lacking("there is no Redis server on this machine")
    with RedisServer(appendonly="yes", appendfsync="always", requirepass=PASSWORD) as running:
        yield running


@pytest.fixture
def provider(monkeypatch):
    monkeypatch.setattr(failover, "FIRST_DELAY_S", 0.0)
    answers = [calls(call("query", {}), call("query_all", {}), call("order", {"number": "7"})), call("refund", {})]
    with ModelServer(script=answers) as running:
        monkeypatch.setenv("OPENAI_API_BASE", running.url)
        monkeypatch.setenv("OPENAI_API_KEY", PROVIDERS_KEY)
        monkeypatch.setenv("LEAKY_API_KEY", KEY)
        monkeypatch.setenv("LEAKY_DATABASE_URL", f"postgres://app:{PASSWORD}@db.internal:5432/shop")
        yield running


@pytest.fixture
def log():
    """All that is logged at INFO and above, as it is written."""
    written = io.StringIO()
    handler, root = logging.StreamHandler(written), logging.getLogger()
    level, filters = root.level, {}
    for name in list(logging.root.manager.loggerDict):
        filters[name] = list(logging.getLogger(name).filters)
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    yield written
    root.removeHandler(handler)
    root.setLevel(level)
    for name in list(logging.root.manager.loggerDict):
        logging.getLogger(name).filters[:] = filters.get(name, [])


@pytest.fixture
async def store(server, request):
    url = f"{server.url}{'&' if '?' in server.url else '?'}password={quote(PASSWORD, safe='')}"
    opened = RedisStore(url, namespace=f"t{abs(hash(request.node.name)) % 10**9}")
    await opened.open()
    agent = load(APP).agents[0]
    for app in (APP, "broken_app:app"):
        names = ("LEAKY_API_KEY", "LEAKY_DATABASE_URL", "OPENAI_API_KEY")
        record = AppRecord(app=app, code="k", agents={"leaky": agent.spec.digest}, environment=names)
        await opened.put_app(record, [agent.spec])
    yield opened
    await opened.close()


@contextlib.asynccontextmanager
async def worker_of(store, app):
    settings = ActorSettings(StoreAddress(store.url, store.namespace, store.store_id))
    worker = Worker(WorkerSettings(settings, "worker-0", app, "k", base="worker-0"))
    try:
        yield worker
    finally:
        if worker._drain is not None:
            worker._drain.cancel()
        await worker._close()
        await worker._store.close()


async def turn(store, worker, conversation_id):
    """Start a conversation, and see it through to where it rests; its state."""
    context = ActivationContext(
        store,
        InProcess(store, worker),
        Admission(store),
        actor="actor-1",
        timing=Timing(),
        clock=lambda: time.monotonic_ns() // 1_000_000,
        rested=asyncio.Event(),
        strikes=3,
    )
    hosting = await activated(context, conversation_id)
    spec = load(APP).agents[0].spec
    await hosting.ask(Start(agent="leaky", app=APP, text="hello", message_id="m-1", spec=spec))
    async with asyncio.timeout(60):
        while (state := await store.load(conversation_id)).status in (Status.GENERATING, Status.EXECUTING_TOOLS):
            await asyncio.sleep(0.01)
            if hosting.over:  # it left while the worker recorded an outcome: then an actor is told to take it up
                hosting = await activated(context, conversation_id)
    hosting._stop()
    return state


async def activated(context, conversation_id):
    hosting = Activation(context, conversation_id)
    await hosting.activate(seen_token="", because=TakeoverReason.ASKED, create=True)
    return hosting


def all_of(store):
    """Every value in Redis, as bytes."""
    raw = redis.Redis.from_url(store.url)
    found = []
    for key in raw.scan_iter(count=1000):
        match raw.type(key):
            case b"string":
                found.append(raw.get(key))
            case b"hash":
                found += [part for item in raw.hgetall(key).items() for part in item]
            case b"stream":
                found += [part for _, entry in raw.xrange(key) for item in entry.items() for part in item]
            case b"zset":
                found += raw.zrange(key, 0, -1)
            case b"set":
                found += raw.smembers(key)
            case other:
                pytest.fail(f"{key} is a {other}, which this test does not read")
        found.append(key)
    raw.close()
    return b"\n".join(found)


def nothing_of_it_in(text):
    assert [secret for secret in SECRETS if secret in text] == []


async def test_what_tools_raise_is_nowhere_with_its_secrets(store, provider, log, capfd):
    async with worker_of(store, APP) as worker:
        state = await turn(store, worker, "c-1")

    assert state.status is Status.AWAITING_INPUT  # the gated call, whose prompt could not be rendered
    results = [json.loads(said["content"]) for said in provider.requests[1].body["messages"] if said["role"] == "tool"]
    told = "ConnectionError: cannot connect to [LEAKY_DATABASE_URL] with '[LEAKY_API_KEY]'\nWARNING forged"
    assert results[0]["error"] == told
    assert results[1]["error"].startswith("ExceptionGroup: all of [LEAKY_DATABASE_URL]")
    assert results[2]["error"] == f"invalid arguments: $: a validator raised {told}"
    nothing_of_it_in(json.dumps([request.body for request in provider.requests]))
    nothing_of_it_in(json.dumps([request.body for request in provider.requests], ensure_ascii=False))
    nothing_of_it_in(all_of(store).decode("utf-8", "replace"))
    written = log.getvalue()
    assert "tool query of c-1 raised\n    Traceback" in written
    assert "tool query_all of c-1 raised\n    Traceback" in written
    assert "\n      + Exception Group Traceback" in written
    assert "the prompt of tool 'refund' could not be rendered" in written
    assert "\nWARNING forged" not in written
    nothing_of_it_in(written)
    nothing_of_it_in("".join(capfd.readouterr()))


async def test_what_a_provider_says_is_nowhere_with_its_secrets(store, provider, log, capfd):
    words = f"Incorrect API key provided: {PROVIDERS_KEY}\n{KEY}"
    provider.fail(500, message=words)
    provider.fail(401, message=words)
    async with worker_of(store, APP) as worker:
        state = await turn(store, worker, "c-1")

    assert state.status is Status.FAILED
    [failed] = [event for _, event in await store.read("c-1", after=0) if event.kind == "turn_failed"]
    assert "Incorrect API key provided: [OPENAI_API_KEY]" in failed.error
    assert len(provider.requests) == 2
    nothing_of_it_in(all_of(store).decode("utf-8", "replace"))
    written = log.getvalue()
    assert "try 1: InternalServerError" in written
    nothing_of_it_in(written)
    nothing_of_it_in("".join(capfd.readouterr()))


async def test_why_an_app_cannot_be_imported_is_nowhere_with_its_secrets(store, provider, log, monkeypatch):
    monkeypatch.setenv("BROKEN_API_KEY", "the app sets it")
    async with worker_of(store, "broken_app:app") as worker:
        with pytest.raises(AppBroken) as broken:
            await worker.prepare()

    problem = await store.problem("broken_app:app")
    assert "cannot connect to postgres://***@db.internal:5432/shop with '[LEAKY_API_KEY]'" in problem
    assert "[BROKEN_API_KEY]" in problem
    assert "cannot open its app" in log.getvalue()
    for text in (problem, str(broken.value), log.getvalue(), all_of(store).decode("utf-8", "replace")):
        nothing_of_it_in(text)
