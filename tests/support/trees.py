"""Trees of conversations for fault tests: an orchestrator asks compliance, which has payments refund once a person approves."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Collection
from functools import partial
from typing import Any

from fault_stack import WITHIN_S, true
from oracle import Oracle

from holdfast.actors.proofs import Proofs
from holdfast.actors.vault import Vault
from holdfast.actors.workers import DeliverAnswer
from holdfast.client import Approve, AsyncClient, AsyncConversation, PendingCall, Status
from holdfast.conversation.log.owed import OWN
from holdfast.daemon import in_daemon
from holdfast.persistence import Leased, OutboxState, RedisStore
from holdfast.persistence.keys import BUCKETS
from holdfast.registry.courier import Courier, Own
from holdfast.registry.own_deliveries import own_deliveries
from holdfast.testing import call


class Tree:
    """One tree of three levels; its conversations' first messages, and so their scenarios, are named after it."""

    def __init__(self, stack: Any, client: AsyncClient, oracle: Oracle, name: str) -> None:
        self.stack, self.client, self.oracle, self.name = stack, client, oracle, name
        self.store: RedisStore = oracle.store
        scripts = stack.scenarios
        scripts.add(f"{name}-pay", call("refund", {}), "Paid.")
        scripts.add(f"{name}-check", call("pay_back", {"task": f"{name}-pay it back"}), "Checked.")
        scripts.add(name, call("check", {"task": f"{name}-check it"}), "Done.")

    @property
    def root(self) -> AsyncConversation:
        """The orchestrator's conversation."""
        return self.client.conversation(self.name)

    async def start(self) -> None:
        """Ask the orchestrator."""
        await self.client.start("orchestrator", self.name, conversation_id=self.name)

    async def ids(self) -> list[str]:
        """The conversations of the tree, the root first, also those that do not stand yet."""
        found = [self.name]
        for one in found:
            if await self.stands(one):
                found += [source for event in await self.oracle.events(one) if (source := getattr(event, "source", None))]
        return found

    async def stands(self, conversation_id: str) -> bool:
        """Whether a conversation was started."""
        owner = await self.store.owner(conversation_id)
        return owner is not None and owner.started

    async def waiting(self) -> PendingCall:
        """The refund that waits for a person, in the third level."""

        async def third() -> str | None:
            ids = await self.ids()
            return ids[2] if len(ids) == 3 and await self.stands(ids[2]) else None

        child = self.client.conversation(await true(third, f"the third level of {self.name}"))
        (pending,) = (await child.wait(timeout_s=WITHIN_S)).pending
        return pending

    async def approve(self) -> None:
        """Approve the refund."""
        await (await self.waiting()).resolve(Approve())

    async def done(self, *, asked_again: Collection[str] = ()) -> None:
        """Wait for the orchestrator's answer, and check that everything happened once and rests.

        The models of the scenarios in `asked_again` were asked once more.
        """

        async def answered() -> bool:
            return (await self.root.state()).reply == "Done."

        await true(answered, f"the answer of {self.name}")
        await emptied(self.store)
        root, *below = await self.ids()
        assert len(below) == 2
        await self.oracle.at_rest(root)
        for child in below:
            await self.oracle.at_rest(child, status=Status.ENDED)
        assert [body["kind"] for body in self.oracle.bodies(below[1])] == ["refund"]
        assert self.asked_models() - Counter(asked_again) == {self.name: 2, f"{self.name}-check": 2, f"{self.name}-pay": 2}

    async def over(self) -> None:
        """Check that nothing of a tree goes on whose root was cancelled, and that nothing was refunded."""
        await emptied(self.store)

        async def ended() -> bool:
            below = [one for one in (await self.ids())[1:] if await self.stands(one)]
            return all([(await self.store.load(one)).ended for one in below])

        await true(ended, f"the end of all below {self.name}")
        await emptied(self.store)
        root, *below = await self.ids()
        await self.oracle.at_rest(root)
        for child in below:
            if await self.stands(child):
                await self.oracle.at_rest(child, status=Status.ENDED)
            assert self.oracle.bodies(child) == []

    def asked_models(self) -> Counter[str]:
        """How many model calls there were for each conversation of the tree, by scenario."""
        texts = [
            next(message["content"] for message in request.body["messages"] if message["role"] == "user").split()[0]
            for request in self.stack.model.requests
        ]
        return Counter(text for text in texts if text in {self.name, f"{self.name}-check", f"{self.name}-pay"})


async def emptied(store: RedisStore) -> None:
    """Wait until nothing is owed, and check that nothing was set aside."""

    async def none() -> bool:
        return not (await store.outbox(OutboxState.OWED, limit=1)).items

    await true(none, "that nothing is owed")
    assert (await store.outbox(OutboxState.SET_ASIDE, limit=1)).items == []


async def run_leases_out(store: RedisStore) -> None:
    """Have the time come at which the leases of deliveries to conversations are over: another courier may deliver them."""
    keys = store._keys
    for bucket in range(BUCKETS):
        queues = keys.lane(bucket, "owed", OWN)
        if members := await store._redis.zrange(queues, 0, -1):
            await store._redis.zadd(queues, dict.fromkeys(members, 0))
            await store._redis.zadd(keys.owed(bucket), {OWN: 0})
    await store._redis.publish(keys.meta("owed"), "")


@contextlib.asynccontextmanager
async def another_courier(client: AsyncClient, store: RedisStore) -> AsyncIterator[list[str]]:
    """A courier in this process, beside the stack's own; the kinds of what it has delivered."""
    transport = await client.gateway.stack.transport()
    address = transport.settings.store
    proofs = Proofs(address, partial(in_daemon, Vault(address).servers_key))
    delivered: list[str] = []

    def noted(kind: str, deliver: Own) -> Own:
        async def noting(to: str, leased: Leased) -> DeliverAnswer:
            answer = await deliver(to, leased)
            delivered.append(kind)
            return answer

        return noting

    own = own_deliveries(transport._registry, store, proofs.signed)
    courier = Courier(store, None, {kind: noted(kind, deliver) for kind, deliver in own.items()})
    task = asyncio.create_task(courier.run())
    try:
        yield delivered
    finally:
        task.cancel()
        await courier.close()
        await run_leases_out(store)  # of what it was about to deliver
