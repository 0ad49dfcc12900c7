"""What a server needs to judge its callers: the namespace's API keys, quotas and tickets, and each conversation's agent."""

import contextlib
import hashlib
import hmac
import re
import secrets
from collections.abc import Awaitable, Callable, Collection, Coroutine, Sequence
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from pydantic import ValidationError

from holdfast.conversation import Limits, Principal
from holdfast.conversation.ids import check_conversation_id
from holdfast.conversation.terms.delegation import Ancestor
from holdfast.conversation.terms.money import NANOS
from holdfast.errors import CipherFailed, CipherMissing, CorruptStore, InvalidInput, NewerRecord, QuotaUsedUp
from holdfast.persistence import Store
from holdfast.persistence.access import (
    CONVERSATIONS,
    COST,
    STARTS,
    TOKENS,
    AccessScope,
    ApiKey,
    ApiKeyList,
    Exceeded,
    Quotas,
    Ticket,
    TicketKind,
    Used,
    Want,
)

from .operation import is_time, pausable
from .stack import Reads

API_KEY = re.compile(r"hf_([0-9a-f]{12})_([0-9a-f]{64})")
"""The text of an API key: its id, and its secret of 256 bits."""
MOST_AGENTS = 64
LONGEST_S = 10 * 366 * 86_400
P = ParamSpec("P")
R = TypeVar("R")

__all__ = ["API_KEY", "Access", "AccessScope", "ApiKey", "ApiKeyList", "Quotas", "Ticket", "TicketKind", "Used", "fits"]


def _reading(method: Callable[Concatenate[Any, P], Awaitable[R]]) -> Callable[Concatenate["Access", P], Coroutine[Any, Any, R]]:
    """A method of the store, carried out within the deadline of a call."""

    @wraps(method)
    async def read(access: "Access", /, *args: P.args, **kwargs: P.kwargs) -> R:
        found: R = await access.on.read(lambda store: getattr(store, method.__name__)(*args, **kwargs))
        return found

    return read


class Access:
    """API keys and tickets of a namespace; see `AsyncClient.access`. Every method raises what every read raises."""

    def __init__(self, on: Reads) -> None:
        self.on = on

    listed = _reading(Store.api_keys)
    key = _reading(Store.api_key)
    revoke_key = _reading(Store.remove_api_key)
    note_use = _reading(Store.note_api_key_use)
    charge = _reading(Store.charge)
    used = _reading(Store.used)
    put_ticket = _reading(Store.put_ticket)
    ticket = _reading(Store.ticket)
    remove_ticket = _reading(Store.remove_ticket)
    now = _reading(Store.now)

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
        never). `InvalidInput` if a value cannot be used, or the namespace has the most keys allowed.
        """
        holder = Principal(name, roles=tuple(roles)).check_visible()
        of_agents = None if agents is None else tuple(sorted({_agent(agent) for agent in agents}))
        if of_agents is not None and not 1 <= len(of_agents) <= MOST_AGENTS:
            raise InvalidInput("agents", f"there are {len(of_agents)}", f"name 1 to {MOST_AGENTS}, or leave them out for all")
        if expires_s is not None and not (is_time(expires_s) and 0 < expires_s <= LONGEST_S):
            raise InvalidInput("expires_s", f"{expires_s!r:.40} is no time", "give seconds, more than 0 and at most ten years")
        allowed = scopes_of(scopes)
        now = await self.on.read(lambda store: store.now())
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
        await self.on.read(lambda store: store.put_api_key(key))
        return key, f"hf_{key.key_id}_{secret}"

    async def keys(self) -> list[ApiKey]:
        """All keys that can be read, oldest first, expired ones included."""
        return list((await self.listed()).keys)

    async def use(self, key_id: str, quotas: Quotas, request: str, *, starts: bool) -> None:
        """Count a message, named by `request`, against a key's quotas, once; `QuotaUsedUp` if one does not allow it."""
        wants = wants_of(quotas, starts=starts)
        named = request if any(want.amount for want in wants) else ""
        if wants and (exceeded := await self.on.read(lambda store: store.use(key_id, named, wants))) is not None:
            raise used_up(exceeded, wants)

    async def largest_limits(self) -> Limits:
        """For each limit in bytes, the largest of any published agent, and at least the default."""
        return await self.on.read(_largest_limits)

    async def place_of(self, conversation_id: str) -> tuple[Ancestor, ...]:
        """The conversations above this one, the root first, and last itself, each with its agent: that never changes."""
        name = check_conversation_id(conversation_id)
        state = await self.on.read(lambda store: store.load(name))
        above = () if state.parent is None else state.parent.path
        return (*above, Ancestor(conversation_id=name, agent=state.agent))


def quotas_of(**most: float | None) -> Quotas:
    """The quotas of these values, checked: a bad one raises `InvalidInput`."""
    try:
        return Quotas.model_validate(most)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        problem = f"{first['input']!r:.40} is no quota: {first['msg']}"
        raise InvalidInput(str(first["loc"][0]), problem, "give a number above 0, or leave it out") from None


def wants_of(quotas: Quotas, *, starts: bool) -> Sequence[Want]:
    """How much of these quotas a message uses; `starts`: it starts a conversation, which counts too."""
    every = (
        (STARTS, 1, quotas.starts_per_day),
        (CONVERSATIONS, 1, quotas.conversations_per_day if starts else None),
        (TOKENS, 0, quotas.tokens_per_day),
        (COST, 0, None if quotas.cost_usd_per_day is None else max(round(quotas.cost_usd_per_day * NANOS), 1)),
    )
    return [Want(quota, amount, most) for quota, amount, most in every if most is not None]


def amounts_of(quotas: Quotas, used: Used) -> dict[str, float]:
    """How much of each existing quota was used; a cost in US dollars."""
    return {name: _shown(name, used.amounts.get(name, 0)) for name, most in quotas.model_dump().items() if most is not None}


def used_up(exceeded: Exceeded, wants: Sequence[Want]) -> QuotaUsedUp:
    """The error of a message that a quota refuses."""
    name = exceeded.quota
    most = next(want.most for want in wants if want.quota == name)
    return QuotaUsedUp(name, _shown(name, exceeded.used), _shown(name, most), exceeded.until)


def _shown(quota: str, amount: int) -> float:
    return amount / NANOS if quota == COST else amount


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
