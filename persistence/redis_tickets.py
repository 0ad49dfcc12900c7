"""Tickets in Redis: a string for each in the meta slot, which expires."""

from . import codec
from .redis_database import RedisDatabase
from .tickets import Ticket


class RedisTickets(RedisDatabase):
    """The verbs of `Tickets`, in Redis."""

    async def put_ticket(self, ticket: Ticket) -> None:
        place, data = self._ticket_place(ticket.digest), codec.encode(ticket)
        await self._do(lambda: self._redis.set(place, data, pxat=max(ticket.expires_at, 1)))

    async def ticket(self, digest: str) -> Ticket | None:
        data = await self._do(lambda: self._redis.get(self._ticket_place(digest)))
        return None if data is None else codec.decode(Ticket, data)

    async def remove_ticket(self, digest: str) -> bool:
        return bool(await self._do(lambda: self._redis.delete(self._ticket_place(digest))))

    def _ticket_place(self, digest: str) -> str:
        return self._keys.meta(f"ticket:{digest}")
