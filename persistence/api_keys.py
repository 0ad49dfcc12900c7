"""API keys as a store keeps them: whose they are, what they allow, and the digest of their secret, never the secret."""

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import NamedTuple, Protocol

from pydantic import Field

from holdfast.conversation import Principal, Proof
from holdfast.conversation.record import Record
from holdfast.conversation.terms.approvers import ApproverTerms
from holdfast.errors import CorruptStore, InvalidInput, NewerRecord

MOST_API_KEYS = 1_000
"""How many API keys may stand in a namespace: each is looked up by its id, and the list has all of them."""


MOST_QUOTA, MOST_TOKENS = 1_000_000, 10**12
"""The largest quotas; what is counted by request stands in the store for a day."""


class AccessScope(StrEnum):
    """What a caller of the server may do. Each scope stands for itself: none includes another."""

    READ = "read"  # look at conversations, pending calls, agents and events
    START = "start"  # start, send, cancel, end, retry
    UNATTENDED = "unattended"  # with `start`, start what nobody attends: the app's own word stands for people's
    DECIDE = "decide"  # decide pending calls; with `start`, cancel them and let the turn go on
    CLIENT = "client"  # carry out the calls of a client
    ADMIN = "admin"  # pause and resume


class Quotas(Record):
    """How much one key may use in a day, which begins with its first use; None: as much as it likes.

    Attributes:
        starts_per_day: How many messages it may send, first ones included: each starts a turn.
        conversations_per_day: How many conversations it may start.
        tokens_per_day: How many tokens the turns of its conversations may use until it is sent no more messages.
        cost_usd_per_day: What these may cost likewise, in US dollars, by the prices that litellm knows.
    """

    starts_per_day: int | None = Field(default=None, ge=1, le=MOST_QUOTA)
    conversations_per_day: int | None = Field(default=None, ge=1, le=MOST_QUOTA)
    tokens_per_day: int | None = Field(default=None, ge=1, le=MOST_TOKENS)
    cost_usd_per_day: float | None = Field(default=None, gt=0, le=MOST_QUOTA, allow_inf_nan=False)

    @property
    def of_usage(self) -> bool:
        """Whether any is of what turns use."""
        return self.tokens_per_day is not None or self.cost_usd_per_day is not None


class ApiKey(Record):
    """One API key. Times in integer milliseconds UTC.

    Attributes:
        key_id: The public part of the key.
        name: The name of whoever holds it: the `Principal.id` of what is done with it.
        digest: The SHA-256 of the secret, in hexadecimal. The secret has 256 random bits: a slow hash would add nothing.
        scopes: What the key allows.
        agents: The agents whose conversations it may touch; None for all.
        roles: The roles of the holder.
        created_at: When the key was made.
        expires_at: From when on it is refused; None: never.
        quotas: How much it may use.
        used_at: Roughly when it was last used, up to an hour early; None: not yet. Stored beside the key.
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
        """Whether its holder may decide calls of an agent that leave it to these terms, at a time in ms UTC."""
        allowed = AccessScope.DECIDE in self.scopes and (self.agents is None or agent in self.agents)
        holder = Principal(self.name, roles=self.roles, proof=Proof.KEY)
        return allowed and not self.expired(at) and (terms is None or terms.outsider(holder) is None)

    def expired(self, at: int) -> bool:
        """Whether the key is refused at a time, in ms UTC."""
        return self.expires_at is not None and at >= self.expires_at


class UnreadableApiKey(NamedTuple):
    """An API key whose record cannot be read, and `why`: it lets nobody in, and can be removed by its id."""

    key_id: str
    why: str


class ApiKeyList(NamedTuple):
    """All API keys of a namespace: those that can be read, the oldest first, and those that cannot."""

    keys: tuple[ApiKey, ...]
    unreadable: tuple[UnreadableApiKey, ...] = ()

    @classmethod
    def of(cls, read: Mapping[str, Callable[[], ApiKey]]) -> "ApiKeyList":
        """The list of the keys of these ids, each read by its function."""
        keys, unreadable = [], []
        for key_id, key in read.items():
            try:
                keys.append(key())
            except (CorruptStore, NewerRecord) as error:
                unreadable.append(UnreadableApiKey(key_id, str(error)))
        return cls(tuple(sorted(keys, key=lambda key: (key.created_at, key.key_id))), tuple(sorted(unreadable)))


def too_many_keys() -> InvalidInput:
    """The error that says that there is no room for another key."""
    return InvalidInput(
        "name", f"{MOST_API_KEYS} API keys stand already", "revoke those that nobody uses (`holdfast keys list`)"
    )


class ApiKeys(Protocol):
    """The verbs of a `Store` on API keys."""

    async def put_api_key(self, key: ApiKey) -> None:
        """Store a key under its id, but for `used_at`.

        Raises:
            InvalidInput: `MOST_API_KEYS` other keys stand.
        """

    async def api_key(self, key_id: str) -> ApiKey | None:
        """The key of that id, None if there is none."""

    async def api_keys(self) -> ApiKeyList:
        """All keys, also those that have expired. One whose record cannot be read does not hide the others."""

    async def remove_api_key(self, key_id: str) -> bool:
        """Remove a key; false if there was none before, whatever became of the replies to an operation that was repeated."""

    async def note_api_key_use(self, key_id: str, at: int) -> None:
        """Note when a key was used (ms UTC); nothing happens if the key is gone."""
