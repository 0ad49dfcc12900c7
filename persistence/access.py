"""Who may use the server: API keys, tickets (short-lived proofs of identity), and the use of quotas. No secret is stored."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, Protocol

from pydantic import Field

from holdfast.conversation import Principal, Proof, SuspensionKind
from holdfast.conversation.record import Record
from holdfast.conversation.terms.approvers import ApproverTerms
from holdfast.conversation.terms.budget import DaySpent
from holdfast.errors import InvalidInput

MOST_API_KEYS = 1_000
"""The most API keys of a namespace: each listing reads all of them."""


MOST_QUOTA, MOST_TOKENS = 1_000_000, 10**12
"""The largest quotas: of requests and US dollars, and of tokens. Each counted request is stored for a day."""


class AccessScope(StrEnum):
    """What a caller of the server may do. No scope includes another."""

    READ = "read"  # look at conversations, pending calls, agents and events
    START = "start"  # start, send, cancel, end, retry
    UNATTENDED = "unattended"  # with `start`, start unattended conversations: there the app decides in people's place
    DECIDE = "decide"  # decide pending calls; with `start`, cancel them and let the turn go on
    CLIENT = "client"  # carry out the calls of a client
    ADMIN = "admin"  # pause and unpause


class Quotas(Record):
    """How much one key may use in a day, which begins with its first use. None means no quota.

    Each message sent starts a turn, the first one included. Tokens and cost (in US dollars, by the prices that litellm knows)
    are those of its conversations' turns: once they are used up, it may send no more messages.
    """

    starts_per_day: int | None = Field(default=None, ge=1, le=MOST_QUOTA)
    conversations_per_day: int | None = Field(default=None, ge=1, le=MOST_QUOTA)
    tokens_per_day: int | None = Field(default=None, ge=1, le=MOST_TOKENS)
    cost_usd_per_day: float | None = Field(default=None, gt=0, le=MOST_QUOTA, allow_inf_nan=False)

    @property
    def of_usage(self) -> bool:
        """Whether a quota limits what turns use: tokens or cost."""
        return self.tokens_per_day is not None or self.cost_usd_per_day is not None


class ApiKey(Record):
    """One API key. Times in integer milliseconds UTC.

    `name` is the holder's: the `Principal.id` of the holder's actions. `digest` is the SHA-256 of the secret in hexadecimal;
    the secret has 256 random bits, so a slow hash would add nothing. `agents` are those whose conversations the key may touch;
    None for all. The key is refused from `expires_at` on; None: never. `used_at` is its last use, up to an hour early; None:
    never used. It is stored beside the key.
    """

    key_id: str
    name: str
    digest: str = Field(repr=False)
    scopes: tuple[AccessScope, ...]
    agents: tuple[str, ...] | None = None
    roles: tuple[str, ...] = ()
    created_at: int
    expires_at: int | None = None
    quotas: Quotas = Quotas()
    used_at: int | None = None

    def may_decide(self, agent: str, terms: ApproverTerms | None, at: int) -> bool:
        """Whether the holder may decide an agent's calls under these approver terms, at a time in ms UTC."""
        allowed = AccessScope.DECIDE in self.scopes and (self.agents is None or agent in self.agents)
        holder = Principal(self.name, roles=self.roles, proof=Proof.KEY)
        return allowed and not self.expired(at) and (terms is None or terms.outsider(holder) is None)

    def expired(self, at: int) -> bool:
        """Whether the key has expired at a time in ms UTC."""
        return self.expires_at is not None and at >= self.expires_at


class UnreadableApiKey(NamedTuple):
    """An API key with an unreadable record, and `why`: it admits nobody, and can be removed by its id."""

    key_id: str
    why: str


class ApiKeyList(NamedTuple):
    """All API keys of a namespace: the readable ones, oldest first, and the unreadable ones."""

    keys: tuple[ApiKey, ...]
    unreadable: tuple[UnreadableApiKey, ...] = ()


def too_many_keys() -> InvalidInput:
    """The error for a key beyond `MOST_API_KEYS`."""
    return InvalidInput(
        "name", f"there are {MOST_API_KEYS} API keys already", "revoke those that nobody uses (`holdfast keys list`)"
    )


class ApiKeys(Protocol):
    """The verbs of a `Store` on API keys."""

    async def put_api_key(self, key: ApiKey) -> None:
        """Store a key under its id, without `used_at`.

        Raises:
            InvalidInput: The namespace has `MOST_API_KEYS` other keys.
        """

    async def api_key(self, key_id: str) -> ApiKey | None:
        """The key of that id; None if there is none."""

    async def api_keys(self) -> ApiKeyList:
        """All keys, expired ones included. An unreadable record does not hide the others."""

    async def remove_api_key(self, key_id: str) -> bool:
        """Remove a key; false if there was none. Repetitions after a lost reply do not change this answer."""

    async def note_api_key_use(self, key_id: str, at: int) -> None:
        """Note when a key was used (ms UTC); does nothing if the key is gone."""


class TicketKind(StrEnum):
    """The purpose of a ticket, the only one for which it is valid."""

    SESSION = "session"  # a signed-in browser
    PAGE = "page"  # a page of an application, for one conversation
    SIGNING_IN = "signing_in"  # a browser on its way to the identity provider and back


class Ticket(Record):
    """One ticket. Times in integer milliseconds UTC.

    It is stored under `digest`, the SHA-256 (hexadecimal) of a secret of 256 random bits. `principal` is the identity that it
    proves, and how that was proven; None before the sign-in. `scopes` are what it allows; `agents`, `conversation_id` and
    `kinds` (of suspensions to decide) narrow that, None being no bound; `tree` adds the conversations below that one.
    `key_id` is the API key without which it is invalid, if any. `maker` made a page's ticket: an API key by its id, or a
    principal with how it was proven. `next_path` is where the browser goes after the sign-in. The store forgets the ticket at
    `expires_at`.
    """

    digest: str = Field(pattern=r"^[0-9a-f]{64}$", repr=False)
    kind: TicketKind
    principal: Principal | None = None
    scopes: tuple[AccessScope, ...] = ()
    agents: tuple[str, ...] | None = None
    conversation_id: str | None = None
    tree: bool = False
    kinds: tuple[SuspensionKind, ...] | None = None
    key_id: str | None = None
    maker: str = ""
    next_path: str = ""
    created_at: int
    expires_at: int


class Tickets(Protocol):
    """The verbs of a `Store` on tickets."""

    async def put_ticket(self, ticket: Ticket) -> None:
        """Store a ticket under its digest, until it expires by the store's clock."""

    async def ticket(self, digest: str) -> Ticket | None:
        """The ticket of that digest; None if there is none (any more)."""

    async def remove_ticket(self, digest: str) -> bool:
        """Remove a ticket. True for at most one caller; for none if the reply to the removal is lost."""


WINDOW_MS = 24 * 3_600_000
"""How long (ms) use counts, from the first use on."""
STARTS, CONVERSATIONS, TOKENS, COST = "starts_per_day", "conversations_per_day", "tokens_per_day", "cost_usd_per_day"


class Want(NamedTuple):
    """A request's use of a quota, and the quota's limit; a use of 0 asks whether anything is left."""

    quota: str
    amount: int
    most: int


@dataclass(frozen=True, slots=True)
class Used:
    """A key's use by quota, and when (ms UTC) it expires; all 0 if there was none of late."""

    amounts: Mapping[str, int] = field(default_factory=dict)
    until: int = 0


class Exceeded(NamedTuple):
    """The quota that a request would exceed, its use so far, and when (ms UTC) that expires."""

    quota: str
    used: int
    until: int


class QuotaStore(Protocol):
    """The verbs of a `Store` on quotas."""

    async def use(self, key_id: str, request: str, wants: Sequence[Want]) -> Exceeded | None:
        """Count a request's use, all or nothing: returns the first quota that it would exceed, None if it was counted.

        `request` makes this idempotent: a request counts once.
        """

    async def used(self, key_ids: Sequence[str]) -> Sequence[Used]:
        """The use by each of these keys."""

    async def charge(self, conversation_id: str, key_id: str) -> None:
        """Charge the model calls of a conversation to a key; the first key named stays."""

    async def spend(self, conversation_id: str, tokens: int, nano_usd: int) -> None:
        """Count a model call for the conversation's key, if any. After `StoreUnavailable` a repetition may count it twice."""

    async def spent(self, agent: str) -> DaySpent:
        """What an agent's turns have used today, by the store's clock, toward its budget for each day (`Append.spent`)."""
