"""The presence of clients in Redis: of each conversation a hash of clients, and a sorted set by until when they are present."""

import time
from collections.abc import Sequence
from typing import Any

from holdfast.conversation.terms.presence import (
    GONE_MS,
    KEPT_MS,
    LEAVES_MS,
    MOST_CLIENTS,
    MOST_OF_ONE,
    RENEW_MS,
    OnDetach,
    Present,
)
from holdfast.errors import ConversationNotFound, StoreUnavailable, TooManyClients
from holdfast.store_clock import StoreClock, steady_ms

from .presence import MOST_KNOWN, OF_PRINCIPAL, client_key, readable_clients
from .redis_database import RedisDatabase

RENEWED_AT_ONCE = 256
"""How many clients are renewed in one round trip."""
RENEWED_AGAIN_S = 2 * RENEW_MS / 1000
"""Seconds after which each living client has renewed its presence, once the server answers again."""
LATEST = 10**15
"""The latest time (ms UTC) that is read."""
LETTERS = {OnDetach.KEEP: "k", OnDetach.CANCEL: "c"}
"""The first letter of a member of `here`, which says what the client's end does."""


class RedisPresence(RedisDatabase):
    """The verbs of `Presence`, in Redis. The renewal of a client whose end cancels nothing is one command."""

    _time: StoreClock | None = None

    async def attach(self, conversation_id: str, present: Present, session: str = "") -> int:
        if self.payloads.cipher is not None:
            await self._note_encryption()
        client = client_key(present.name)
        record = self.payloads.seal_client(conversation_id, client, present)
        said = client, LETTERS[present.on_detach], client_key(session), record
        bounds = GONE_MS, KEPT_MS, MOST_CLIENTS, MOST_KNOWN, LEAVES_MS, MOST_OF_ONE, OF_PRINCIPAL
        answer = await self._on(conversation_id, "attach", conversation_id, *said, *bounds)
        match answer[0]:
            case b"missing":
                raise ConversationNotFound(conversation_id)
            case b"full":
                raise TooManyClients(conversation_id, int(answer[1]))
        return int(answer[1])

    async def renew_clients(self, clients: Sequence[tuple[str, Present]]) -> list[int]:
        until: list[int] = []
        for first in range(0, len(clients), RENEWED_AT_ONCE):
            some = [(name, one.on_detach, client_key(one.name)) for name, one in clients[first : first + RENEWED_AT_ONCE]]
            kept = await self._kept([(name, client) for name, on_detach, client in some if on_detach is OnDetach.KEEP])
            left = await self._remain([(name, client) for name, on_detach, client in some if on_detach is OnDetach.CANCEL])
            until += [(kept if on_detach is OnDetach.KEEP else left)[name, client] for name, on_detach, client in some]
        return until

    async def _kept(self, clients: Sequence[tuple[str, str]]) -> dict[tuple[str, str], int]:
        """Until when clients are present whose end cancels nothing: one command for each."""
        if not clients:
            return {}
        clock = self._time = self._time or StoreClock(steady_ms)
        if not clock.fresh:
            clock.heard(await self._repeated(self._now))
        ends = clock.now() + GONE_MS
        here = self._keys.here
        found = await self._each(
            lambda pipe: [pipe.zadd(here(name), {f"ka{client}": ends}, xx=True, ch=True) for name, client in clients],
            idle=True,
        )
        until = {one: ends if changed == 1 else 0 for one, changed in zip(clients, found, strict=True)}
        unchanged = [one for one, at in until.items() if not at]  # not attached, or renewed in this very millisecond
        scores = await self._each(lambda pipe: [pipe.zscore(here(name), f"ka{client}") for name, client in unchanged])
        return until | {one: ends if at == ends else 0 for one, at in zip(unchanged, scores, strict=True)}

    async def _remain(self, clients: Sequence[tuple[str, str]]) -> dict[tuple[str, str], int]:
        """Until when clients are present whose departure is judged."""
        if not clients:
            return {}
        found = await self._scripts(
            "remain", [self._call(name, "remain", name, client, GONE_MS, LEAVES_MS) for name, client in clients]
        )
        return {one: _until(answer) for one, answer in zip(clients, found, strict=True)}

    async def detach(self, conversation_id: str, name: str, session: str = "") -> None:
        said = client_key(name), session and client_key(session)
        await self._on(conversation_id, "detach", conversation_id, *said, KEPT_MS, LEAVES_MS)

    async def present(self, conversation_id: str) -> tuple[Present, ...]:
        if time.monotonic() - self._away_at < RENEWED_AGAIN_S:
            raise StoreUnavailable("the server did not answer until a moment ago, and clients have yet to renew their presence")
        here, clients = self._keys.here(conversation_id), self._keys.clients(conversation_id)
        members, records = await self._pipe(
            lambda pipe: [pipe.zrange(here, 0, -1, withscores=True), pipe.hgetall(clients)], atomic=True
        )
        until = {member[2:].decode(errors="replace"): int(max(0, min(ends, LATEST))) for member, ends in members}
        stored = {client.decode(errors="replace"): record.partition(b"|")[2] for client, record in records.items()}
        return readable_clients(self.payloads, conversation_id, stored, until)

    async def forget_clients(self, conversation_id: str, names: Sequence[str]) -> None:
        await self._on(conversation_id, "forget_clients", conversation_id, LEAVES_MS, *map(client_key, names))


def _until(answer: list[Any] | Exception) -> int:
    """Until when a client is present, from the answer to its renewal; 0 if that failed: the client attaches again."""
    return int(answer[1]) if isinstance(answer, list) and answer[0] == b"ok" else 0
