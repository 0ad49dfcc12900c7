"""The requests of actors to workers. Plain values: they travel as `wire` packs them."""

from dataclasses import dataclass

from holdfast.conversation import Event
from holdfast.conversation.approvers import ApproverTerms
from holdfast.trace_context import trace_id_of


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """Call the model with the transcript up to `upto_seq`; `attempt` counts the tries of this effect by one activation.

    `company` is how many claims the worker may have meanwhile, this one included, as a process has died of this conversation's
    work, perhaps; 0 for any number.
    Work that `waits` takes its place in the worker's line; other work is refused as `FULL` where it would have to.
    `log_tail` are the durable events that end at `upto_seq`, as many as the actor had: the worker reads those before them.
    `lineage` names the activation's log: with one lineage, a place in the log stands for one entry and all before it.
    `instead_of` is a claim of this effect whose process is gone: it gives way to the claim for this request.
    `message_seq` is the place of the turn's message.
    `request` is the id of the HTTP request that led here, for log lines alone; '' where there is none.
    `traceparent` is the trace context of the turn's span; None where there is none.
    """

    conversation_id: str
    agent: str
    spec_digest: str
    effect_id: str
    upto_seq: int
    attempt: int
    company: int = 0
    waits: bool = True
    log_tail: tuple[Event, ...] = ()
    lineage: str = ""
    instead_of: str = ""
    request: str = ""
    traceparent: str | None = None
    message_seq: int = 0

    @property
    def about(self) -> dict[str, str]:
        """What log lines of this work are about."""
        return _about(self)


@dataclass(frozen=True, slots=True)
class RunRequest:
    """Run a server call's callback with the arguments at the place `arguments_at` in the log; the rest as in `ModelRequest`.

    `message_seq` and `decided_at` are the places of the turn's message and of the decision that let the call run; 0 for none.
    `resumed` is how many of its runs so far followed a decision on what the run before had suspended itself for. `rule` names
    the permission rule by which the call runs without asking, `grants` are the grants: the run is claimed only in their
    epoch, and until the first of them ends. `granted_at` is the place of the decision that gave the first of them, `givers` are
    those given by holders of API keys, as pairs of the grant and the holder's name. `approvers` are those who might decide the
    call, `fulfilled` the terms by which people have approved it (none where anybody might, None where nobody has). `passed_at`
    is the place of the decision that the body is given; 0 for none.
    """

    conversation_id: str
    agent: str
    spec_digest: str
    effect_id: str
    turn_id: str
    tool_call_id: str
    tool: str
    attempt: int
    arguments_at: int
    company: int = 0
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

    @property
    def about(self) -> dict[str, str]:
        """What log lines of this work are about."""
        return _about(self)


def _about(request: ModelRequest | RunRequest) -> dict[str, str]:
    return {
        "conversation": request.conversation_id,
        "effect": request.effect_id,
        "request": request.request,
        "trace": trace_id_of(request.traceparent),
    }
