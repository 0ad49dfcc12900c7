"""What counting asks of Redis: nothing in a turn, and one script when a process that has counted keeps house."""

import contextlib
import re
from collections import Counter

from hosted import GATED, START, FakeWorkers, activated, until
from writer import call, reply, resolve, send

from holdfast import metrics
from holdfast.actors.telling import tell
from holdfast.conversation import Approve, Status
from holdfast.counting import Counts, families
from holdfast.persistence import AppRecord, RedisStore

COMMAND = re.compile(rb"\*\d+\r\n\$\d+\r\n([A-Za-z]+)\r\n")
TURNS = 5


@contextlib.asynccontextmanager
async def opened(url, namespace, **more):
    store = RedisStore(url, namespace=namespace, **more)
    try:
        await store.open()
        yield store
    finally:
        await store.close()


async def played(store, seen, counts, sent):
    """Have an actor play a turn with a decision and some without, on a store whose commands `sent` tells; `seen` looks on."""
    await store.put_app(AppRecord(app="shop:app", code="k", agents={"desk": GATED.digest}), [GATED])
    workers = FakeWorkers(call("refund"), *[reply("done")] * (TURNS + 1))
    workers.gate.set()
    activation = await activated(store, workers, counts=counts, lease_ms=600_000)
    before = sent()
    await activation.ask(START)
    waiting = await until(seen, lambda state: state.status is Status.AWAITING_INPUT)
    await activation.ask(resolve(Approve(), decision_id="d-1")(waiting))
    for number in range(TURNS):
        state = await until(seen, lambda state, over=number + 1: state.status is Status.IDLE and state.turns >= over)
        await activation.ask(send(message_id=f"more-{number}")(state))
    await until(seen, lambda state: state.status is Status.IDLE and state.turns > TURNS)
    activation._stop()
    return sent() - before


async def test_a_turn_sends_no_command_more_with_counting_and_telling_is_one_script(server, proxy, namespace):
    def sent():
        return Counter(name for request in proxy.requests for name in COMMAND.findall(request))

    found = []
    for counts in (None, None, Counts()):  # the first time, the server learns the scripts
        name = f"{namespace}-{len(found)}"
        async with opened(proxy.url, name, counts=counts) as store, opened(server.url, name) as seen:
            found.append(await played(store, seen, counts, sent))
            await seen.count({"holdfast_fenced_writes_total": 1})
            if counts is not None:
                before = sent()
                await tell(store, counts)
                assert sent() - before == {b"EVALSHA": 1}
                told = {family.metric: family.values for family in families((await seen.survey()).counts, metrics.COUNTED)}

    assert found[1] == found[2]
    assert found[2][b"EVALSHA"] > TURNS
    assert told[metrics.TURNS] == {("desk", "completed"): TURNS + 1}
    assert sum(told[metrics.REDIS_S][()].buckets) > 0
