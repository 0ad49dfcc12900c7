"""The declaration of one operation, and the errors that many operations share."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeAlias, TypeVar

from holdfast.conversation import Command, Reply
from holdfast.errors import (
    CipherFailed,
    CipherMissing,
    ClusterStopped,
    ClusterUnavailable,
    ConfigurationError,
    ConversationEnded,
    ConversationNotFound,
    CorruptStore,
    HoldfastError,
    InvalidInput,
    NewerRecord,
    OlderRelease,
    OtherBuild,
    OutcomeUnknown,
    Overloaded,
    Quarantined,
    StoreUnavailable,
    WrongCluster,
    WrongStore,
)
from holdfast.persistence.api_keys import AccessScope

R = TypeVar("R")
Checks: TypeAlias = Mapping[str, Callable[[Any], Any]]
"""By argument, in their order: the function that checks the given value and returns the value to pass on."""

KEYS = ("message_id", "decision_id", "request_id")
"""The names of idempotency keys."""

READ_RAISES = (StoreUnavailable, WrongStore, CorruptStore, NewerRecord, ConfigurationError)
"""What every read may raise: the store does not answer, or cannot be opened or read."""
CONVERSATION_RAISES = (ConversationNotFound, CipherMissing, CipherFailed)
"""What every read of one conversation may also raise."""
COMMAND_RAISES = (
    ConversationEnded,
    OutcomeUnknown,
    Overloaded,
    Quarantined,
    ClusterUnavailable,
    ClusterStopped,
    WrongCluster,
    OlderRelease,
    OtherBuild,
)
"""What every command may also raise. `OutcomeUnknown` and `Overloaded` may be repeated with the same key."""


@dataclass(frozen=True, slots=True, eq=False)
class Verb(Generic[R]):
    """One operation.

    Attributes:
        name: The name of the method, of the client or of a conversation.
        route: The HTTP method and the path; `{name}` stands for an argument.
        operation: The operation's name in the description of the API.
        reply: The type of the result.
        what: What the operation asks for, in the words of an error.
        scope: The scope that a server's caller needs; None: no caller has to say who it is.
        also: Further scopes that a caller needs.
        checks: The checks of its arguments, in their order.
        raises: Its special errors; by default `InvalidInput`, for an argument that cannot be used.
        command: Makes the command of the arguments, where the operation is one command.
        read: Reads the reply from the store, where the operation is one read.
        under: The field of a server's reply that holds the result; None where the reply is the result.
    """

    name: str
    route: str
    operation: str
    reply: type[R]
    what: str
    scope: AccessScope | None = AccessScope.READ
    also: tuple[AccessScope, ...] = ()
    checks: Checks = field(default_factory=dict)
    raises: tuple[type[HoldfastError], ...] = (InvalidInput,)
    command: Callable[..., Command] | None = None
    read: Callable[..., Awaitable[Any]] | None = None
    under: str | None = None

    @property
    def method(self) -> str:
        """The HTTP method."""
        return self.route.partition(" ")[0]

    @property
    def path(self) -> str:
        """The path, with `{name}` for the arguments in it."""
        return self.route.partition(" ")[2]

    @property
    def key(self) -> str | None:
        """The argument that is the idempotency key; None where a repetition cannot be recognised."""
        return None if self.method == "GET" else next((name for name in KEYS if name in self.checks), None)

    def made(self, said: Mapping[str, Any]) -> Command:
        """The command of these arguments."""
        if self.command is None:
            raise NotImplementedError(self.name)
        return self.command(**said)

    def replied(self, reply: Reply) -> R:
        """The reply to the command, checked against the row's type."""
        if not isinstance(reply, self.reply):
            raise TypeError(self.name)
        return reply

    def checked(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments, checked, in the form that is passed on; each error names its argument."""
        return {name: check(given[name]) for name, check in self.checks.items() if name in given}
