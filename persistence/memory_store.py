"""The store in memory, for unit tests. It passes `RedisStore`'s conformance suite, with the same codec."""

from collections.abc import Mapping, Sequence

from holdfast.conversation.terms.budget import DAY_MS, DaySpent, Spent

from . import codec
from .access import COST, MOST_API_KEYS, TOKENS, WINDOW_MS, ApiKey, Exceeded, Ticket, Used, Want, too_many_keys
from .directory import Binding, Living
from .memory_lists import MemoryLists
from .memory_outbox import MemoryOutbox
from .memory_presence import MemoryPresence
from .memory_runs import MemoryRuns


def _id(cluster: str) -> str:
    """A cluster's id, without the machine id that an older release appended."""
    return cluster.partition("@")[0]


class MemoryStore(MemoryRuns, MemoryLists, MemoryOutbox, MemoryPresence):
    """The verbs of `Store`, in this process's memory."""

    async def offer(self, actor: str, since: int | None) -> bool:
        stood = self._standby.pop(actor, None) is not None
        if since is not None:
            self._standby[actor] = since
        return stood or since is not None

    async def take(self, most: int = 1, *, kept: bool = False) -> Sequence[str]:
        now = self._clock()
        found = [name for name, since in self._standby.items() if kept or since <= now]
        taken = sorted(found, key=lambda name: (self._standby[name], name))[:most]
        for actor in taken:
            del self._standby[actor]
        return taken

    async def offers(self) -> int:
        return len(self._standby)

    async def heartbeat(self, actor: str, *, limit: int) -> bool:
        if actor not in self._living and len(self._living) >= limit:
            return False
        self._living[actor] = self._clock()
        return True

    async def deregister(self, actor: str) -> None:
        self._living.pop(actor, None)
        await self.hosts(actor, None)

    async def live(self, *, quiet_ms: int = 0) -> Mapping[str, Living]:
        quiet = [(at, name) for name, at in self._living.items() if at <= self._clock() - quiet_ms]
        return {name: Living(at, await self.hosted(name)) for at, name in sorted(quiet)}

    async def bind(self, cluster: str, address: str, stale_ms: int, *, gone: Sequence[str] = ()) -> Binding | None:
        key, now, bound = self._keys.meta("cluster"), self._clock(), await self.binding()
        if bound is not None and _id(bound.cluster) not in map(_id, (cluster, *gone)):
            if bound.age_ms == 0:  # the clock may have been set back: the binding's age counts from now
                await self._put((key, "at", now))
            if bound.age_ms < stale_ms:
                return bound
        await self._put((key, "cluster", cluster), (key, "address", address), (key, "at", now))
        return None

    async def unbind(self, cluster: str) -> None:
        bound = await self.binding()
        if bound is not None and bound.cluster == cluster:
            self._hashes.pop(self._keys.meta("cluster"))

    async def serve(self, release: str, *, before: str | None) -> bool:
        if await self.serving() not in (before, release):
            return False
        await self._put((self._keys.meta("release"), "release", release))
        return True

    async def put_api_key(self, key: ApiKey) -> None:
        place = self._of_keys[0]
        (found,) = await self._all(place)
        if key.key_id not in found and len(found) >= MOST_API_KEYS:
            raise too_many_keys()
        await self._put((place, key.key_id, codec.encode(key)))

    async def note_api_key_use(self, key_id: str, at: int) -> None:
        key, used = self._of_keys
        if (await self._get((key, key_id)))[0] is not None:
            await self._put((used, key_id, at))

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

    async def use(self, key_id: str, request: str, wants: Sequence[Want]) -> Exceeded | None:
        until, amounts, requests = self._used_now(key_id)
        again = bool(request) and request in requests
        for want in wants:
            if again and want.amount:
                continue
            if amounts.get(want.quota, 0) + max(want.amount, 1) > want.most:
                return Exceeded(want.quota, amounts.get(want.quota, 0), until)
        if not again:
            self._add(key_id, {want.quota: want.amount for want in wants}, request)
        return None

    async def used(self, key_ids: Sequence[str]) -> Sequence[Used]:
        found = [self._quotas_used.get(key_id, (0, {}, set())) for key_id in key_ids]
        return [Used(dict(amounts), until) if until > self._clock() else Used() for until, amounts, _ in found]

    async def charge(self, conversation_id: str, key_id: str) -> None:
        found = self._conversations[conversation_id]
        found.charged_to = found.charged_to or key_id

    async def spend(self, conversation_id: str, tokens: int, nano_usd: int) -> None:
        found = self._seen(conversation_id)
        if found.charged_to:
            self._add(found.charged_to, {TOKENS: tokens, COST: nano_usd}, "")

    async def spent(self, agent: str) -> DaySpent:
        day = self._clock() // DAY_MS
        return DaySpent(day, self._spent.get((agent, day), Spent()))

    def _used_now(self, key_id: str) -> tuple[int, dict[str, int], set[str]]:
        until, amounts, requests = self._quotas_used.get(key_id, (0, {}, set()))
        now = self._clock()
        return (until, amounts, requests) if until > now else (now + WINDOW_MS, {}, set())

    def _add(self, key_id: str, more: dict[str, int], request: str) -> None:
        if not any(more.values()):
            return
        until, amounts, requests = self._used_now(key_id)
        for quota, amount in more.items():
            amounts[quota] = amounts.get(quota, 0) + amount
        self._quotas_used[key_id] = until, amounts, requests | ({request} if request else set())
