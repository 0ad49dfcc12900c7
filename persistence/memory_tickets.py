"""Tickets in memory."""

from . import codec
from .memory_database import MemoryDatabase
from .tickets import Ticket


class MemoryTickets(MemoryDatabase):
    """The verbs of `Tickets`, in memory."""

    async def put_ticket(self, ticket: Ticket) -> None:
        self._tickets[ticket.digest] = ticket.expires_at, codec.encode(ticket)
        self._forget()

    async def ticket(self, digest: str) -> Ticket | None:
        self._forget()
        found = self._tickets.get(digest)
        return None if found is None else codec.decode(Ticket, found[1])

    async def remove_ticket(self, digest: str) -> bool:
        self._forget()
        return self._tickets.pop(digest, None) is not None

    def _forget(self) -> None:
        now = self._clock()
        for digest in [digest for digest, (expires_at, _) in self._tickets.items() if expires_at <= now]:
            del self._tickets[digest]
