"""A process forked from one that has used a client: it reads on connections of its own, and the parent's go on."""

import json
import os
import subprocess
import sys
import textwrap

import pytest
from redis_server import RedisServer
from writer import Writer, begin, reply, start

from holdfast.persistence import RedisStore

IN_CHILD = """
import asyncio, json, os, sys
from holdfast.client import AsyncClient, Client

def forked(work):
    \"\"\"What a forked child says.\"\"\"
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            said = work()
        except BaseException as error:
            said = f"{type(error).__name__}: {error}"
        os.write(write, json.dumps(said).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as source:
        said = json.loads(source.read())
    os.waitpid(pid, 0)
    return said

def ids(page):
    return [row.conversation_id for row in page.items]
"""


@pytest.fixture
def server():
    with RedisServer(appendonly="yes", appendfsync="always") as running:
        yield running


@pytest.fixture
async def conversation(server):
    store = RedisStore(server.url)
    await store.open()
    writer = await Writer.of(store, "c-1")
    await writer.do(start(), begin())
    await writer.do(reply("done"))
    yield "c-1"
    await store.close()


def ran(script, *arguments):
    """What a script prints, as JSON."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", IN_CHILD + textwrap.dedent(script), *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "HOLDFAST_APP": ""},
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_used_client_reads_in_a_forked_child_and_goes_on_in_the_parent(server, conversation):
    script = """
        client = Client.connect(redis_url=sys.argv[1], timeout_s=10)
        shown = client.conversation("c-1")
        before = ids(client.conversations())
        fresh = Client.connect(redis_url=sys.argv[1])
        child = forked(lambda: [ids(client.conversations()), shown.wait().reply, ids(fresh.conversations())])
        print(json.dumps([before, child, [ids(client.conversations()) for _ in range(3)]]))
    """

    before, child, after = ran(script, server.url)

    assert before == ["c-1"]
    assert child == [["c-1"], "done", ["c-1"]]
    assert after == [["c-1"]] * 3


def test_children_that_read_while_the_parent_does_share_no_connection_with_it(server, conversation):
    script = """
        import threading
        client = Client.connect(redis_url=sys.argv[1], timeout_s=10)
        client.conversations()
        stop, wrong = threading.Event(), []
        def read():
            while not stop.is_set():
                if ids(client.conversations()) != ["c-1"] or client.conversation("c-1").state().reply != "done":
                    wrong.append(1)
        threads = [threading.Thread(target=read) for _ in range(3)]
        for thread in threads:
            thread.start()
        said = [forked(lambda: [ids(client.conversations()) for _ in range(20)]) for _ in range(5)]
        stop.set()
        for thread in threads:
            thread.join(30)
        print(json.dumps([said, wrong, any(thread.is_alive() for thread in threads)]))
    """

    said, wrong, stuck = ran(script, server.url)

    assert said == [[["c-1"]] * 20] * 5
    assert not wrong
    assert not stuck


def test_an_async_client_reads_in_a_forked_child_on_a_loop_of_its_own_and_the_parents_goes_on(server, conversation):
    script = """
        async def main():
            async with AsyncClient.connect(redis_url=sys.argv[1], timeout_s=10) as client:
                before = ids(await client.conversations())
                waiting = asyncio.create_task(client.conversation("c-1").wait(after=1000, timeout_s=2))
                await asyncio.sleep(0)
                def work():
                    async def inside():
                        found = ids(await client.conversations())
                        await client.aclose()
                        return found
                    return asyncio.run(inside())
                child = forked(work)
                return [before, child, (await waiting).reply, ids(await client.conversations())]
        print(json.dumps(asyncio.run(main())))
    """

    assert ran(script, server.url) == [["c-1"], ["c-1"], "done", ["c-1"]]
