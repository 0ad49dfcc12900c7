"""The way of a decision: how many files of the product execute from `resolve` to the append of the log, in one process.

The client, its transport, the registry, the handle of an actor, the actor and its host are the real ones; the store is memory,
and Ray's remote call is a call. A file counts if one of its functions is called on the way; module code, which runs with the
import, does not count.
"""

import asyncio
import sys
import threading
import time

import pytest
from hosted import GATED, FakeWorkers, stored
from writer import call

from holdfast import Approve, AsyncClient
from holdfast.actors.activation.guest import GUESTS
from holdfast.actors.actor_settings import ActorSettings, StoreAddress
from holdfast.actors.conversation_actor import ConversationActor
from holdfast.actors.host import Host
from holdfast.client.stack_gateway import at_stack
from holdfast.client.transport import RayTransport
from holdfast.conversation import Start
from holdfast.persistence import MemoryStore
from holdfast.registry import ray_actors
from holdfast.registry.cluster import Cluster
from holdfast.settings import ProcessLimits, Timing

MOST = {"actors": 6, "client": 5, "conversation": 16, "persistence": 3, "registry": 2, "root": 2}
"""How many files of each room execute at most. Whoever needs fewer writes down the lower number."""


class Remote:
    """A method of an actor as Ray calls it."""

    def __init__(self, method):
        self.remote = lambda *args: asyncio.ensure_future(method(*args))


class Actor:
    """An actor's handle, whose remote calls stay in this process."""

    def __init__(self, actor):
        self._actor = actor

    def __getattr__(self, name):
        return Remote(getattr(self._actor, name))


class Way:
    """The files that execute while it is walked: up to the end of the store's append, in every thread."""

    def __init__(self, monkeypatch):
        self.files, self._walked, append = {}, False, MemoryStore.append

        async def last(store, conversation_id, write):
            try:
                return await append(store, conversation_id, write)
            finally:
                self._walked = False

        monkeypatch.setattr(MemoryStore, "append", last)

    def _called(self, frame, event, _):
        package, _, name = str(frame.f_globals.get("__name__")).partition(".")  # wherever the package is installed
        code = frame.f_code
        written = code.co_filename.endswith(".py") and code.co_name != "<module>"
        if self._walked and event == "call" and package == "holdfast" and written:
            room = name if name.split(".")[0] in MOST else f"root.{name}"
            self.files.setdefault(room, set()).add(code.co_qualname)

    def __enter__(self):
        self._walked = True
        threading.setprofile(self._called)
        sys.setprofile(self._called)
        return self

    def __exit__(self, *_):
        sys.setprofile(None)
        threading.setprofile(None)


@pytest.fixture
async def hosted(monkeypatch):
    """A client, one actor that hosts a conversation with a pending call, and that call."""
    store = await stored(GATED, clock=lambda: time.time_ns() // 1_000_000)  # as Redis has a clock of its own
    settings = ActorSettings(StoreAddress("redis://x", "holdfast", "store-1"))
    workers, name = FakeWorkers(call("refund")), f"{settings.prefix}actor:a1"
    workers.store = store
    actor = ConversationActor(settings, name)
    actor._host = Host(
        store,
        workers,
        name=name,
        timing=Timing(),
        process_limits=ProcessLimits(),
        clock=lambda: 0,
        leave=lambda: None,
    )
    await actor._host.offer_blank()
    monkeypatch.setattr(ray_actors, "find", {name: Actor(actor)}.get)
    monkeypatch.setenv(GUESTS, "0")  # no worker would take what a start makes outstanding
    client = AsyncClient.connect(redis_url="redis://nowhere", ray_address="nowhere:1")
    connection = at_stack(client.gateway)
    stack = connection.stack
    stack._store, joined = store, Cluster("c", "nowhere:1", joined_here=False)
    stack._transport = RayTransport(store, settings, joined, publishes=True)
    start = Start(agent="desk", app="shop:app", text="hi", message_id="m-1", spec=GATED)
    await connection.reply_to("c-1", start, what="the start", retry_id="m-1", create=True)
    async with asyncio.timeout(10):
        while not (pending := (await client.pending()).items):
            await asyncio.sleep(0.01)
    actor._host._housekeeping.cancel()  # it would walk files of its own
    return pending[0]


async def test_a_decision_walks_no_more_files_than_it_did(hosted, monkeypatch):
    with Way(monkeypatch) as way:
        receipt = await hosted.resolve(Approve())
    assert receipt.settled
    walked = {room: sorted(name for name in way.files if name.startswith(f"{room}.")) for room in MOST}
    assert all(walked.values())
    assert {room: len(names) for room, names in walked.items() if len(names) > MOST[room]} == {}, walked
