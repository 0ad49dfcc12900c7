"""The presence of clients in memory."""

from collections.abc import Sequence
from dataclasses import replace

from holdfast.conversation.terms.presence import GONE_MS, KEPT_MS, LEAVES_MS, MOST_CLIENTS, MOST_OF_ONE, OnDetach, Present
from holdfast.errors import ConversationNotFound, TooManyClients

from .memory_conversations import Client, MemoryConversations
from .presence import MOST_KNOWN, OF_PRINCIPAL, client_key, readable_clients


class MemoryPresence(MemoryConversations):
    """The verbs of `Presence`, in memory."""

    async def attach(self, conversation_id: str, present: Present, session: str = "") -> int:
        key = client_key(present.name)
        record = self.payloads.seal_client(conversation_id, key, present)
        if self.payloads.cipher is not None:
            await self._note_encryption()
        found, now = self._seen(conversation_id), self._clock()
        if not found.log:
            raise ConversationNotFound(conversation_id)
        others = {name: client for name, client in found.clients.items() if name != key}
        gone = {name for name, one in others.items() if one.until <= now and one.on_detach is OnDetach.KEEP}
        own = {name for name in others if name[:OF_PRINCIPAL] == key[:OF_PRINCIPAL]}
        many, many_own = len(others) >= MOST_KNOWN, len(own) >= MOST_OF_ONE
        full = sum(client.until > now for client in others.values()) >= MOST_CLIENTS
        if full or len(others.keys() - gone) >= MOST_KNOWN:
            raise TooManyClients(conversation_id, MOST_CLIENTS)
        if len(own - gone) >= MOST_OF_ONE:
            raise TooManyClients(conversation_id, MOST_OF_ONE)
        dropped = {name for name in gone if many or (many_own and name in own) or others[name].until + KEPT_MS <= now}
        found.clients = {name: client for name, client in others.items() if name not in dropped}
        found.clients[key] = Client(record, present.on_detach, session, now + GONE_MS)
        return now + GONE_MS

    async def renew_clients(self, clients: Sequence[tuple[str, Present]]) -> list[int]:
        return [self._renewed(conversation_id, present) for conversation_id, present in clients]

    def _renewed(self, conversation_id: str, present: Present) -> int:
        clients, key = self._seen(conversation_id).clients, client_key(present.name)
        client = clients.get(key)
        if client is None or not client.stays or client.on_detach is not present.on_detach:
            return 0
        clients[key] = replace(client, until=self._clock() + GONE_MS)
        return clients[key].until

    async def detach(self, conversation_id: str, name: str, session: str = "") -> None:
        clients, key = self._seen(conversation_id).clients, client_key(name)
        client = clients.get(key)
        if client is not None and session in ("", client.session):
            clients[key] = replace(client, until=min(client.until, self._clock()), stays=False)

    async def present(self, conversation_id: str) -> tuple[Present, ...]:
        clients = self._seen(conversation_id).clients
        until = {key: client.until for key, client in clients.items()}
        return readable_clients(self.payloads, conversation_id, {key: one.record for key, one in clients.items()}, until)

    async def forget_clients(self, conversation_id: str, names: Sequence[str]) -> None:
        clients, now = self._seen(conversation_id).clients, self._clock()
        for key in map(client_key, names):
            if key in clients and clients[key].until + LEAVES_MS <= now:
                del clients[key]
