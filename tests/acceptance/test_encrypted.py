"""Encryption across processes: client, actors, workers and the sweeper have the cipher; whoever has none changes nothing."""

import shutil
import sys

import pytest
import ray
import toy_cipher
from stack_fixture import runs_of

from holdfast.actors.actor_settings import RAY_NAMESPACE
from holdfast.client import Approve, AsyncClient, CipherMissing
from holdfast.testing import call

MARK = "Marie-Curie"
NAMESPACE = "encrypted"
MODULE = "cipher_of_a_test"


@pytest.fixture
def cipher(tmp_path, monkeypatch):
    """A cipher in a module of the working directory; what names it."""
    shutil.copy(toy_cipher.__file__, tmp_path / f"{MODULE}.py")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOLDFAST_NAMESPACE", NAMESPACE)
    monkeypatch.setenv("HOLDFAST_STANDBY", "0")  # nothing here needs a spare process
    yield f"{MODULE}:cipher"
    sys.modules.pop(MODULE, None)


@pytest.mark.gate
async def test_a_namespace_that_begins_to_encrypt_goes_on_and_those_without_the_cipher_stay_out(stack, cipher, monkeypatch):
    again = stack.scenarios.add("Encrypted", call("refund", {"order": MARK, "amount": 5}), f"Paid, {MARK}.", f"Bye, {MARK}.")
    plain = AsyncClient.connect("shop_app:app", timeout_s=60)
    # given a conversation from before there was a cipher, which waits
    old = await plain.start("support", f"{again} now", conversation_id="enc-old")
    await old.wait(timeout_s=60)
    assert not await (await plain.gateway.stack.store()).encrypted()

    # when a client connects that has the cipher
    monkeypatch.setenv("HOLDFAST_CIPHER", cipher)
    async with AsyncClient.connect("shop_app:app", timeout_s=60) as client:
        new = await client.start("support", f"{again} for {MARK}", conversation_id="enc-new")
        (pending,) = (await new.wait(timeout_s=60)).pending
        assert pending.arguments == {"order": MARK, "amount": 5}
        receipt = await pending.resolve(Approve())
        assert (await new.wait(after=receipt.seq, timeout_s=60)).reply == f"Paid, {MARK}."

        # then the old conversation goes on, and nothing of the new one stands in Redis
        (waiting,) = (await client.conversation("enc-old").wait(timeout_s=60)).pending
        receipt = await waiting.resolve(Approve())
        assert (await client.conversation("enc-old").wait(after=receipt.seq, timeout_s=60)).reply == f"Paid, {MARK}."
        assert [run["order"] for run in runs_of(stack, "enc-new")] == [MARK]
        store = await client.gateway.stack.store()
        redis = store._redis
        for key in [key async for key in redis.scan_iter(f"{{{NAMESPACE}:*c:enc-new:*", count=1000)]:
            kind = await redis.type(key)
            held = await (redis.hgetall(key) if kind == b"hash" else redis.xrange(key))
            assert MARK not in str(held), key
        prefix = (await client.gateway.stack.transport()).settings.prefix
        names = [one["name"] for one in ray.util.list_named_actors(all_namespaces=True) if one["namespace"] == RAY_NAMESPACE]
        assert {name for name in names if f":{NAMESPACE}:" in name and name.endswith(":sweeper")} == {f"{prefix}sweeper"}

        # and whoever has no cipher, from before or new, is told what it lacks; the actors stay
        with pytest.raises(CipherMissing, match="HOLDFAST_CIPHER"):
            await plain.conversation("enc-new").send("and I?")
        monkeypatch.delenv("HOLDFAST_CIPHER")
        async with AsyncClient.connect("shop_app:app", timeout_s=60) as blind:
            with pytest.raises(CipherMissing, match="HOLDFAST_CIPHER"):
                await blind.conversation("enc-new").send("and I?")
            page = await blind.conversations()
            assert {row.conversation_id: row.problem for row in page.items} == {"enc-old": None, "enc-new": None}
        receipt = await client.conversation("enc-new").send("and I?")
        assert (await new.wait(after=receipt.seq, timeout_s=60)).reply == f"Bye, {MARK}."
        owner = await store.owner("enc-new")
        assert (owner.token, owner.quarantine) == ("", None)  # its client and a worker have written, both with the cipher

    await plain.aclose()
