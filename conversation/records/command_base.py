"""The bases of the machine's commands: what a shell stamps on each, and what a request and an outcome have."""

from collections.abc import Iterable, Mapping
from typing import Annotated, Self

from pydantic import Field, GetCoreSchemaHandler
from pydantic_core import CoreSchema
from pydantic_core.core_schema import any_schema

from holdfast.conversation.record import Record
from holdfast.conversation.terms.presence import Present
from holdfast.conversation.terms.principal import Principal, Proof
from holdfast.conversation.terms.spec import AgentSpec, Limits

from .events import Event
from .idempotency import IdempotencyRecord, decision_key, message_key, request_key
from .state import State

_KEYS = {"message_id": message_key, "decision_id": decision_key, "request_id": request_key}


class _Stamped:
    """Marks a field that only Holdfast sets: it is not validated, and its large schema is not built for each command."""

    @classmethod
    def __get_pydantic_core_schema__(cls, _: object, __: GetCoreSchemaHandler) -> CoreSchema:
        return any_schema()


class CommandBase(Record, defer_build=True):
    """A command, with what only the shell knows of it (see `stamped`)."""

    now: int = 0
    spec: Annotated[AgentSpec | None, _Stamped] = None
    known: Annotated[Mapping[str, IdempotencyRecord], _Stamped] = Field(default_factory=dict)
    trace: str | None = None
    read: Annotated[Mapping[int, Event], _Stamped] = Field(default_factory=dict)
    salt: str = ""

    def stamped(
        self,
        now: int,
        spec: AgentSpec | None,
        known: Mapping[str, IdempotencyRecord],
        trace: str | None = None,
        read: Mapping[int, Event] | None = None,
        *,
        salt: str = "",
    ) -> Self:
        """The same command with what only the shell knows; `salt` is the random text for the audit chain's salts."""
        said = {"now": now, "spec": spec, "known": known, "trace": trace, "read": read or {}, "salt": salt}
        return self.model_copy(update=said)

    @property
    def limits(self) -> Limits:
        """The limits of the spec, else the defaults."""
        return Limits() if self.spec is None else self.spec.limits

    def lookups(self) -> tuple[str, ...]:
        """The keys of the idempotency records by which the command is judged; if the store has none, its id is new."""
        return ()

    def reads(self, state: State, spec: AgentSpec | None) -> tuple[int, ...]:
        """The `seq` of the log entries by which the command is judged: bodies that neither the state nor the spec has."""
        del state, spec
        return ()

    def reasons(self) -> tuple[str, ...]:
        """The keys of idempotency records that explain a refusal; only a refusal looks them up."""
        return ()

    def looks(self, state: State, now: int) -> bool:
        """Whether the command is judged by the clients that are attached (see `Looking`)."""
        del state, now
        return False


class Advancing(CommandBase):
    """A command after which held calls may go on."""

    def reads(self, state: State, spec: AgentSpec | None) -> tuple[int, ...]:
        """The `seq` of held calls' prompts."""
        return state.places_of_prompts(spec, settles=None)


class Looking(CommandBase):
    """A command that may depend on the attached clients; `present` None: they are not known, so nothing that does is done."""

    present: Annotated[tuple[Present, ...] | None, _Stamped] = None

    def seeing(self, present: Iterable[Present]) -> Self:
        """The same command with the clients of the conversation that the store knows, the gone ones included."""
        return self.model_copy(update={"present": tuple(present)})


class Request(CommandBase):
    """A request from outside; `principal` is its sender, `traceparent` the sender's trace context, None if unknown.

    `signature` is a server's proof of the principal, which the shell checks before the command is judged.
    """

    principal: Principal | None = None
    traceparent: str | None = None
    signature: str = ""

    @property
    def proven(self) -> Principal | None:
        """The principal, if it claims to be proven; else None."""
        return None if self.principal is None or self.principal.proof is Proof.STATED else self.principal

    @property
    def of_machine(self) -> bool:
        """Whether only another conversation may send it, by the courier, which signs it."""
        return False

    def lookups(self) -> tuple[str, ...]:
        """The key of the request's receipt, by its idempotency key."""
        said = vars(self)
        return tuple([key(said[name]) for name, key in _KEYS.items() if name in said])


class Numbered(Request):
    """A request whose idempotency key is `request_id`."""

    request_id: str


class Outcome(CommandBase):
    """The outcome of an effect."""

    effect_id: str
