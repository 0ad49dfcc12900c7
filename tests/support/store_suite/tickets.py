"""Cases of tickets: what is stored is read until it expires by the store's clock, and is removed once."""

import asyncio
import uuid
from hashlib import sha256

from holdfast.conversation import Principal, Proof
from holdfast.persistence import AccessScope, Store, Ticket, TicketKind

from .waiting import until


def ticket(now: int, *, ends: int = 60_000, digest: str | None = None) -> Ticket:
    """A ticket with every field."""
    return Ticket(
        digest=digest or sha256(uuid.uuid4().bytes).hexdigest(),
        kind=TicketKind.PAGE,
        principal=Principal("ana", roles=("finance",), proof=Proof.KEY),
        scopes=(AccessScope.READ, AccessScope.DECIDE),
        agents=("desk",),
        conversation_id="c-1",
        tree=True,
        key_id="k1",
        next_path="/inbox",
        created_at=now,
        expires_at=now + ends,
    )


class Ticketing:
    """Tickets are kept by their digest, for their time."""

    async def test_a_ticket_is_read_as_it_was_stored(self, store: Store, other: Store) -> None:
        made = ticket(await store.now())
        assert await store.ticket(made.digest) is None
        await store.put_ticket(made)
        assert await other.ticket(made.digest) == made

    async def test_a_ticket_that_is_stored_again_is_the_later_one(self, store: Store, other: Store) -> None:
        made = ticket(await store.now())
        await store.put_ticket(made)
        await other.put_ticket(made.model_copy(update={"scopes": (AccessScope.READ,)}))
        found = await store.ticket(made.digest)
        assert found is not None
        assert found.scopes == (AccessScope.READ,)

    async def test_a_ticket_is_gone_when_its_time_is_over_by_the_stores_clock(self, store: Store, other: Store) -> None:
        now = await store.now()
        short, late, lasting = ticket(now, ends=30), ticket(now, ends=-1), ticket(now)
        for one in (short, late, lasting):
            await store.put_ticket(one)
        assert await other.ticket(late.digest) is None

        async def gone() -> bool:
            return await other.ticket(short.digest) is None

        await until(gone)
        assert await store.now() >= short.expires_at
        assert not await store.remove_ticket(short.digest)
        assert await other.ticket(lasting.digest) == lasting

    async def test_a_ticket_is_removed_by_one_alone(self, store: Store, other: Store) -> None:
        made = ticket(await store.now())
        await store.put_ticket(made)
        removed = await asyncio.gather(*(one.remove_ticket(made.digest) for one in (store, other) * 5))
        assert removed.count(True) == 1
        assert await store.ticket(made.digest) is None
