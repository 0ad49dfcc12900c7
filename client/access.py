"""Access of a server's callers: API keys and tickets of a namespace, and the agent of each conversation."""

import contextlib
import hashlib
import hmac
import re
import secrets
from collections.abc import Collection, Sequence

from holdfast.conversation import Limits, Principal
from holdfast.conversation.ids import check_conversation_id
from holdfast.errors import CipherFailed, CipherMissing, CorruptStore, InvalidInput, NewerRecord
from holdfast.persistence import Store
from holdfast.persistence.api_keys import AccessScope, ApiKey, ApiKeyList, Quotas
from holdfast.persistence.quotas import Used
from holdfast.persistence.tickets import Ticket, TicketKind

from .arguments import is_time, pausable
from .connection import Connection
from .quotas import used_up, wants_of

API_KEY = re.compile(r"hf_([0-9a-f]{12})_([0-9a-f]{64})")
"""The text of an API key: its id, and its secret of 256 bits."""
MOST_AGENTS = 64
LONGEST_S = 10 * 366 * 86_400

__all__ = ["API_KEY", "Access", "AccessScope", "ApiKey", "ApiKeyList", "Quotas", "Ticket", "TicketKind", "fits"]


class Access:
    """API keys and tickets of a namespace; see `AsyncClient.access`. Every method raises what a read raises (`READ_RAISES`)."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def create_key(
        self,
        name: str,
        scopes: Collection[AccessScope | str],
        *,
        agents: Collection[str] | None = None,
        roles: Sequence[str] = (),
        expires_s: float | None = None,
        quotas: Quotas | None = None,
    ) -> tuple[ApiKey, str]:
        """A new key and its text. The text is shown only here: the store keeps the secret's digest.

        `name` is the holder's name, the `Principal.id` of everything done with the key; `roles` are the holder's roles. The key
        may touch conversations of `agents` alone, at most 64 (None: all); after `expires_s` seconds it is refused (None:
        never).

        Raises:
            InvalidInput: A value cannot be used, or the namespace has the most keys allowed.
        """
        holder = Principal(name, roles=tuple(roles)).check_visible()
        of_agents = None if agents is None else tuple(sorted({_agent(agent) for agent in agents}))
        if of_agents is not None and not 1 <= len(of_agents) <= MOST_AGENTS:
            raise InvalidInput("agents", f"there are {len(of_agents)}", f"name 1 to {MOST_AGENTS}, or leave them out for all")
        if expires_s is not None and not (is_time(expires_s) and 0 < expires_s <= LONGEST_S):
            raise InvalidInput("expires_s", f"{expires_s!r:.40} is no time", "give seconds, more than 0 and at most ten years")
        allowed = scopes_of(scopes)
        now = await self._connection.read(lambda store: store.now())
        secret = secrets.token_hex(32)
        key = ApiKey(
            key_id=secrets.token_hex(6),
            name=holder.id,
            digest=_digest(secret),
            scopes=allowed,
            agents=of_agents,
            roles=holder.roles,
            created_at=now,
            expires_at=None if expires_s is None else now + round(expires_s * 1000),
            quotas=quotas or Quotas(),
        )
        await self._connection.read(lambda store: store.put_api_key(key))
        return key, f"hf_{key.key_id}_{secret}"

    async def keys(self) -> list[ApiKey]:
        """All keys that can be read, oldest first, expired ones included."""
        return list((await self.listed()).keys)

    async def listed(self) -> ApiKeyList:
        """The keys as in `keys`, and those whose records cannot be read, with the reason."""
        return await self._connection.read(lambda store: store.api_keys())

    async def key(self, key_id: str) -> ApiKey | None:
        """The key of that id; None if there is none."""
        return await self._connection.read(lambda store: store.api_key(key_id))

    async def revoke_key(self, key_id: str) -> bool:
        """Remove a key, so that servers refuse it within seconds; false if there was none."""
        return await self._connection.read(lambda store: store.remove_api_key(key_id))

    async def note_use(self, key_id: str, at: int) -> None:
        """Record when a key was used, in integer milliseconds UTC."""
        await self._connection.read(lambda store: store.note_api_key_use(key_id, at))

    async def use(self, key_id: str, quotas: Quotas, request: str, *, starts: bool) -> None:
        """Count a message (named by `request`; `starts`: it starts a conversation) against a key's quotas, once.

        Raises:
            QuotaUsedUp: A quota does not allow the message.
        """
        wants = wants_of(quotas, starts=starts)
        named = request if any(want.amount for want in wants) else ""
        if wants and (exceeded := await self._connection.read(lambda store: store.use(key_id, named, wants))) is not None:
            raise used_up(exceeded, wants)

    async def charge(self, conversation_id: str, key_id: str) -> None:
        """Count what a conversation uses against a key."""
        await self._connection.read(lambda store: store.charge(conversation_id, key_id))

    async def used(self, keys: Sequence[ApiKey]) -> Sequence[Used]:
        """How much of its quotas each of these keys has used."""
        return await self._connection.read(lambda store: store.used([key.key_id for key in keys]))

    async def put_ticket(self, ticket: Ticket) -> None:
        """Store a ticket until it expires."""
        await self._connection.read(lambda store: store.put_ticket(ticket))

    async def ticket(self, digest: str) -> Ticket | None:
        """The ticket of that digest; None if it does not exist or has expired."""
        return await self._connection.read(lambda store: store.ticket(digest))

    async def remove_ticket(self, digest: str) -> bool:
        """Remove a ticket; true for at most one caller."""
        return await self._connection.read(lambda store: store.remove_ticket(digest))

    async def now(self) -> int:
        """The time by the store's clock, in integer milliseconds UTC."""
        return await self._connection.read(lambda store: store.now())

    async def largest_limits(self) -> Limits:
        """For each limit in bytes, the largest of any published agent, and at least the default."""
        return await self._connection.read(_largest_limits)

    async def agent_of(self, conversation_id: str) -> str:
        """The name of the conversation's agent, which never changes.

        Raises:
            InvalidConversationId: The id is empty, too long or ill-formed.
            ConversationNotFound: The conversation was never started.
            HoldfastError: The conversation cannot be read.
        """
        name = check_conversation_id(conversation_id)
        return (await self._connection.read(lambda store: store.load(name))).agent


async def _largest_limits(store: Store) -> Limits:
    found = [Limits()]
    for digest in {digest for record in await store.apps() for digest in record.agents.values()}:
        with contextlib.suppress(CorruptStore, NewerRecord, CipherMissing, CipherFailed):
            spec = await store.spec(digest)
            found += [] if spec is None else [spec.limits]
    sizes = ("message_bytes", "result_bytes", "note_bytes", "reply_bytes")
    return Limits(**{name: max(getattr(limits, name) for limits in found) for name in sizes})


def fits(key: ApiKey, secret: str) -> bool:
    """Whether a secret is the key's; compared in constant time."""
    return hmac.compare_digest(_digest(secret), key.digest)


def scopes_of(names: Collection[AccessScope | str]) -> tuple[AccessScope, ...]:
    """The scopes of these names, each once; `InvalidInput` if a name is no scope's, or there is no name."""
    known = [scope.value for scope in AccessScope]
    for name in names:
        if name not in known:
            raise InvalidInput("scopes", f"{name!r:.40} is no scope", f"use {', '.join(known)}")
    if not names:
        raise InvalidInput("scopes", "there is none", f"name one at least: {', '.join(known)}")
    return tuple(scope for scope in AccessScope if scope.value in names)


def _agent(name: str) -> str:
    if name is None:
        raise InvalidInput("agents", "None is no agent's name", "give names, or leave them out for all")
    return str(pausable(name))


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
