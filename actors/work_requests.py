"""The requests of actors to workers: plain values that `wire` packs."""

from dataclasses import dataclass, fields
from typing import Any

from holdfast.conversation import Event, RunTool
from holdfast.conversation.terms.approvers import ApproverTerms
from holdfast.trace_context import trace_id_of


class _Request:
    __slots__ = ()
    conversation_id: str
    effect_id: str
    request: str
    traceparent: str | None

    @property
    def about(self) -> dict[str, str]:
        """The fields of log lines about this work."""
        return {
            "conversation": self.conversation_id,
            "effect": self.effect_id,
            "request": self.request,
            "trace": trace_id_of(self.traceparent),
        }


@dataclass(frozen=True, slots=True)
class ModelRequest(_Request):
    """Call the model with the transcript up to `upto_seq`; `attempt` counts the tries of this effect by one activation.

    Attributes:
        max_claims: How many claims the worker may have meanwhile, including this one, if a process may have died of this
            conversation's work; 0 for any number.
        waits: Whether the work may queue at the worker; if not, the worker refuses it as `FULL` when it is busy.
        log_tail: The durable events that end at `upto_seq`, as many as the actor had; the worker reads earlier ones.
        lineage: The id of the log as this activation writes it: a place in it stands for one entry and all before it.
        instead_of: A claim of this effect whose process is gone; the new claim replaces it.
        request: The id of the HTTP request that led here, for log lines; '' if there is none.
        traceparent: The trace context of the turn's span, if any.
        message_seq: The place of the turn's message in the log.
    """

    conversation_id: str
    agent: str
    spec_digest: str
    effect_id: str
    upto_seq: int
    attempt: int
    max_claims: int = 0
    waits: bool = True
    log_tail: tuple[Event, ...] = ()
    lineage: str = ""
    instead_of: str = ""
    request: str = ""
    traceparent: str | None = None
    message_seq: int = 0


@dataclass(frozen=True, slots=True)
class RunRequest(_Request):
    """Run a server call's callback. Its fields are those of `RunTool`, from which `of` makes it, and of `ModelRequest`."""

    conversation_id: str
    agent: str
    spec_digest: str
    effect_id: str
    turn_id: str
    tool_call_id: str
    tool: str
    attempt: int
    arguments_at: int
    max_claims: int = 0
    waits: bool = True
    request: str = ""
    traceparent: str | None = None
    message_seq: int = 0
    resumed: int = 0
    decided_at: int = 0
    rule: str = ""
    grants: tuple[str, ...] = ()
    grants_epoch: int = 0
    grants_until: int | None = None
    approvers: ApproverTerms | None = None
    fulfilled: tuple[ApproverTerms, ...] | None = None
    passed_at: int = 0
    granted_at: int = 0
    givers: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, effect: RunTool, **more: Any) -> "RunRequest":
        """The request for an effect."""
        shared = {one.name: getattr(effect, one.name) for one in fields(cls) if one.name in RunTool.model_fields}
        return cls(**shared, **more)
