"""A log that cannot be read where its snapshot does not reach: it is tried a few times, then set aside with the reason."""

import asyncio

import pytest
import redis
from fault_stack import WITHIN_S, true

from holdfast.client import Answer, Status
from holdfast.errors import Quarantined
from holdfast.persistence.keys import Keys
from holdfast.testing import call, calls


async def test_a_turn_whose_log_cannot_be_read_ends_in_quarantine_and_goes_on_once_it_is_mended(stack, client, store):
    # given a conversation that waits, and whose first message is not readable any more
    text = stack.scenarios.add("unreadable", calls(call("ask", {"question": "Which?"})), "Thank you.")
    conversation = await client.start("till", text, conversation_id="unreadable-1")
    await conversation.wait(timeout_s=WITHIN_S)
    (pending,) = await conversation.pending()
    raw = redis.Redis.from_url(stack.redis_url)
    keys = Keys(store.namespace)
    log = keys.log(conversation.id)
    entries = raw.xrange(log)
    raw.delete(log)
    for entry_id, fields in entries:
        raw.xadd(log, {b"e": b"not ours"} if entry_id == b"2-0" else fields, id=entry_id)
    await _workers_forget(store)
    # when its answer comes, which needs only the snapshot
    receipt = await pending.resolve(Answer("this one"), decision_id="d-1")
    # then the model call that needs all of it ends in quarantine, with the reason
    found = await true(lambda: store.quarantine(conversation.id), "that it is in quarantine")
    assert "CorruptStore" in found.reason
    assert (await conversation.wait(timeout_s=WITHIN_S)).status is Status.QUARANTINED
    again = await pending.resolve(Answer("this one"), decision_id="d-1")
    assert again == receipt.model_copy(update={"duplicate": True})
    with pytest.raises(Quarantined):
        await conversation.send("Hello?")
    # and goes on when it is mended and told to
    after = raw.xrange(log)
    raw.delete(log)
    mended = dict(entries)
    for entry_id, fields in after:
        raw.xadd(log, mended.get(entry_id, fields), id=entry_id)
    raw.close()
    assert await conversation.retry()
    state = await conversation.wait(timeout_s=WITHIN_S, after=receipt.seq)
    assert (state.status, state.reply) == (Status.IDLE, "Thank you.")


async def _workers_forget(store):
    """What the workers keep of the conversation goes with their processes."""
    import ray  # noqa: PLC0415 - the stack of this module has started it

    from holdfast.actors.ray_launcher import find, named  # noqa: PLC0415 - as above

    workers = [
        name for name in await asyncio.to_thread(named, f"holdfast:{store.namespace}:{store.store_id}:") if ":worker:" in name
    ]
    assert workers
    for name in workers:
        ray.kill(find(name), no_restart=False)
