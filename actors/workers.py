"""The interface of the workers that an activation runs against: requests, answers and refusals, as `wire` packs them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol, TypeAlias

from holdfast.conversation import AgentSpec, Event, ModelFailed, ModelReplied, RunFinished, RunRuled, RunSuspended, Summarized
from holdfast.conversation.log.owed import Envelope
from holdfast.conversation.log.work import CallModel, RunTool
from holdfast.persistence import Visited
from holdfast.work_context import trace_id_of

AnswerOutcome: TypeAlias = ModelReplied | ModelFailed
ModelOutcome: TypeAlias = AnswerOutcome | Summarized
RunOutcome: TypeAlias = RunFinished | RunSuspended | RunRuled
WorkOutcome: TypeAlias = ModelOutcome | RunOutcome
GRACE_S = 30.0
"""Seconds beyond the time limit of a run or model call for which its claim stands and its worker may still answer."""


@dataclass(frozen=True, kw_only=True)
class _Request:
    """The part of a request that an actor adds to an effect.

    Attributes:
        max_claims: The most claims, this one included, that the worker may have while it does this work; 0: any number. It is
            limited if a process may have died of the conversation's work.
        waits: Whether the work may queue at the worker; if not, the worker refuses it as `FULL` when it is busy.
        request: The id of the HTTP request that led here, for log lines; '' if there is none.
        visited: The conversation as the guest that asks for this work has written it; None if more work is outstanding.
    """

    conversation_id: str
    agent: str
    max_claims: int = 0
    waits: bool = True
    request: str = ""
    traceparent: str | None = None
    visited: Visited | None = None


@dataclass(frozen=True, kw_only=True)
class ModelRequest(CallModel, _Request):
    """Call the model; `attempt` counts the tries of this effect by one activation.

    Attributes:
        log_tail: The durable events that end at `upto_seq`, as many as a guest had; the worker reads earlier ones.
        instead_of: A claim of this effect whose process is gone; the new claim replaces it.
    """

    attempt: int
    log_tail: tuple[Event, ...] = ()
    instead_of: str = ""


@dataclass(frozen=True)
class RunRequest(RunTool, _Request):
    """Run a server call's callback."""


def log_fields(request: ModelRequest | RunRequest) -> dict[str, str]:
    """The fields of log lines about a request's work."""
    return {
        "conversation": request.conversation_id,
        "effect": request.effect_id,
        "request": request.request,
        "trace": trace_id_of(request.traceparent),
    }


@dataclass(frozen=True, slots=True)
class PublishedAgent:
    """The code and spec that a turn begins with; `spec` is None if the app has no such agent.

    `until_ms` is the time by which the turn must begin (ms UTC by the store's clock), if new work was admitted before this was
    read.
    """

    code: str
    spec: AgentSpec | None
    until_ms: int | None = None


class NoWorker(Exception):
    """No worker can carry the effect out now; ask again after a moment. The message says why."""


class NoApp(NoWorker):
    """No worker can carry the effect out until the app is repaired: it is not as published, or cannot be opened."""


class WorkerLost(NoWorker):
    """The worker's process was gone before it answered: what it was asked may have ended it."""


class WorkPaused(Exception):
    """The work is new, and new work is paused until the pause is over. The message says whose work waits."""


class Claimed(StrEnum):
    """A living worker has the work, and there is no outcome yet."""

    BEGUN = "begun"  # the worker has claimed it
    QUEUED = "queued"  # it is in the worker's queue, and claimed when its turn comes


class NoOutcome(StrEnum):
    """Why a worker has no outcome of a run or model call."""

    FULL = "full"  # the work may not queue here; another worker may have room
    NOT_MINE = "not_mine"  # the work was not runnable: another incarnation has claimed it, or it is settled
    GONE = "gone"  # the incarnation that claimed the work is gone
    FORGOTTEN = "forgotten"  # the incarnation lives, but its work has ended since the caller read the record


WorkAnswer: TypeAlias = ModelOutcome | RunOutcome | Claimed | NoOutcome


@dataclass(frozen=True, slots=True)
class DeliverRequest:
    """Tell an app's notification target of one event.

    `target` is the target's name in the app; the body of the notice is in the conversation's log, but for its `links`: whoever
    has one can decide, and no worker can make one. They do not count when requests are compared: it is the same message.
    """

    conversation_id: str
    target: str
    envelope: Envelope
    links: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)

    @property
    def message_id(self) -> str:
        """The id by which the receiver recognises a repetition."""
        return self.envelope.message_id(self.conversation_id)


@dataclass(frozen=True, slots=True)
class Delivered:
    """The target has accepted the message."""


@dataclass(frozen=True, slots=True)
class Later:
    """The target has not accepted the message now. It is tried again after `after_ms`; None: after the usual pause.

    The reason is shown to operators, and has no secrets.
    """

    reason: str
    after_ms: int | None = None


@dataclass(frozen=True, slots=True)
class SetAside:
    """The message cannot be delivered by repetition: it is set aside for an operator, and the next one is delivered.

    The reason is shown to operators, and has no secrets.
    """

    reason: str


DeliverAnswer: TypeAlias = Delivered | Later | SetAside


class Workers(Protocol):
    """The workers that run effects."""

    async def published(self, app: str, agent: str) -> PublishedAgent | None:
        """The published code and spec that a turn of an app's agent begins with; None if the app is unknown."""

    async def do(self, app: str, request: ModelRequest | RunRequest) -> WorkAnswer:
        """Have a worker claim the work, do it, record the outcome and return it; `Claimed` if that takes longer.

        Raises:
            WorkPaused: The work was not claimed, since new work waits.
            NoWorker: The worker died or cannot import the app; the work's record says how far it came.
        """

    async def join(self, worker: str, incarnation: str, conversation_id: str, effect_id: str) -> Claimed | NoOutcome:
        """What became of a claim: `Claimed.BEGUN` while its work goes on, else why it does not; an outcome is in its record."""

    def drop(self, worker: str, incarnation: str) -> None:
        """Tell a worker that nobody awaits this incarnation's outcome any more."""
