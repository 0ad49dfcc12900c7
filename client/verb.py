"""The declaration of one operation."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeAlias, TypeVar

from holdfast.conversation import Command, Reply
from holdfast.errors import HoldfastError
from holdfast.persistence.api_keys import AccessScope

R = TypeVar("R")
Checks: TypeAlias = Mapping[str, Callable[[Any], Any]]
"""By argument, in their order: the function that checks the given value and returns the value to pass on."""

KEYS = ("message_id", "decision_id", "request_id")
"""The names of idempotency keys."""


@dataclass(frozen=True, slots=True, eq=False)
class Verb(Generic[R]):
    """One operation.

    Attributes:
        name: The name of the method, of the client or of a conversation.
        route: The HTTP method and the path; `{name}` stands for an argument.
        reply: The type of the result.
        what: What the operation asks for, in the words of an error.
        operation: Its name in the description of the API; by default the method's, in camel case.
        scope: The scope that a server's caller needs; None: no caller has to say who it is.
        also: Further scopes that a caller needs.
        checks: The checks of its arguments, in their order.
        raises: Its special errors.
        command: The command, where the operation is one command.
        renamed: The command's names of arguments, where they differ.
        read: Reads the reply from the store, where the operation is one read.
        under: The field of a server's reply that holds the result; None where the reply is the result.
    """

    name: str
    route: str
    reply: type[R]
    what: str
    scope: AccessScope | None = AccessScope.READ
    also: tuple[AccessScope, ...] = ()
    operation: str = ""
    checks: Checks = field(default_factory=dict)
    raises: tuple[type[HoldfastError], ...] = ()
    command: Callable[..., Command] | None = None
    renamed: Mapping[str, str] = field(default_factory=dict)
    read: Callable[..., Awaitable[Any]] | None = None
    under: str | None = None

    def __post_init__(self) -> None:
        first, *more = self.name.split("_")
        object.__setattr__(self, "operation", self.operation or first + "".join(map(str.capitalize, more)))

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
        return self.command(**{self.renamed.get(name, name): one for name, one in said.items()})

    def replied(self, reply: Reply) -> R:
        """The reply to the command, checked against the row's type."""
        if not isinstance(reply, self.reply):
            raise TypeError(self.name)
        return reply

    def checked(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments, checked, in the form that is passed on; each error names its argument."""
        return {name: check(given[name]) for name, check in self.checks.items() if name in given}
