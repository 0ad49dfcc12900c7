"""The agent's spec and its tools, which a turn runs with: stored by digest and without credentials."""

import hashlib
from collections.abc import Mapping
from enum import StrEnum
from functools import cached_property
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from holdfast.conversation.record import Record
from holdfast.conversation.text.jsontext import JsonText

from .budget import Budget, DaySpent, Exceeded, Per, Spent
from .context import Context
from .delegation import USUAL_DEPTH
from .models import MOST_FALLBACKS, MOST_RETRIES, RETRIES, Breaker, ModelSpec
from .overrides import Overridable, Overrides
from .principal import Principal
from .stages import NOTHING, OnTimeout, Seconds
from .stopping import Stop

STORED_OPTIONS = frozenset(
    {
        *("temperature", "top_p", "top_k", "min_p", "n", "stop", "seed", "max_tokens", "max_completion_tokens"),
        *("presence_penalty", "frequency_penalty", "repetition_penalty", "logit_bias", "logprobs", "top_logprobs"),
        *("response_format", "modalities", "audio", "prediction", "reasoning_effort", "thinking", "verbosity"),
        *("tool_choice", "parallel_tool_calls", "web_search_options", "service_tier", "safety_settings"),
        *("safety_identifier", "user", "prompt_cache_key", "prompt_cache_retention"),
    }
)
"""The options of a model call that a spec may hold: none names the call's destination, its credentials or further recipients.

`metadata` is excluded, since litellm reads settings of callbacks there, and so is `store`, which keeps answers elsewhere."""


class Executor(StrEnum):
    """The producer of a call's result."""

    SERVER = "server"  # a callback of the app, in a worker
    HUMAN = "human"  # a person: the answer is the result
    CLIENT = "client"  # the user's own device; its result is untrusted
    PROVIDER = "provider"  # the model's provider, in its own stream
    AGENT = "agent"  # another agent of the app, in a conversation of its own


class Approval(StrEnum):
    """Whether a person confirms a call before it runs."""

    AUTO = "auto"  # the call runs at once
    REQUIRED = "required"  # the call waits for an `Approve`


class OnLost(StrEnum):
    """What happens to a lost run: its worker is gone and has reported no outcome."""

    REDISPATCH = "redispatch"  # the call runs again, with the same idempotency key and `attempt` + 1
    ERROR = "error"  # the model reads "outcome unknown"
    ASK = "ask"  # a person decides: the call runs again, or gets this result or error


class Resume(StrEnum):
    """What a decision does with its suspended call."""

    REPLAY = "replay"  # an approved call runs, with the arguments that were approved
    USE_AS_RESULT = "use_as_result"  # the decision is the call's result
    PASS_TO_TOOL = "pass_to_tool"  # the body runs from its start, with the decision in its context  # noqa: S105


class Execution(StrEnum):
    """The order in which the calls of one model answer are carried out."""

    PARALLEL = "parallel"  # side by side; a call that asks nobody does not wait for the others
    SEQUENTIAL = "sequential"  # one after the other, in the model's order
    BATCH = "batch"  # none begins until every call that asks somebody is decided


class Choice(StrEnum):
    """A decision that a tool allows about its calls that need an approval."""

    APPROVE = "approve"  # run it as it is
    EDIT = "edit"  # run it with other arguments
    DENY = "deny"  # do not run it
    ANSWER = "answer"  # give its result


class UnattendedApprovals(StrEnum):
    """What happens to an approval in an unattended conversation."""

    ASK = "ask"  # it still waits for a person
    DENY = "deny"  # it is denied at once


class UnattendedQuestions(StrEnum):
    """What happens to a question in an unattended conversation."""

    ASK = "ask"  # it still waits for a person
    CANCEL = "cancel"  # it is cancelled at once
    DEFAULTS = "defaults"  # its defaults are the answers; it is cancelled if a required answer has none


class NoticeKind(StrEnum):
    """An event of a conversation that a notification can be about."""

    SUSPENDED = "suspended"  # a call began to wait for somebody outside
    REMINDED = "reminded"  # a call still waits, and its deadline comes near
    ESCALATED = "escalated"  # others decide a call from now on
    SETTLED = "settled"  # a call was decided or cancelled, and waits no longer
    EXPIRED = "expired"  # the deadline of a call passed
    LOST_RUN = "lost_run"  # a run's worker is gone, and a person has to say what becomes of the call
    QUARANTINED = "quarantined"  # the conversation was set aside
    TURN_COMPLETED = "turn_completed"  # a turn ended with the model's answer
    TURN_FAILED = "turn_failed"  # a turn ended with an error
    ENDED = "ended"  # the conversation ended for good


class NotifySpec(Record):
    """A notification target of the app, and the events that it is told of; the app alone has its address and secrets.

    `decider` is whom the links in its messages decide as; None: its messages have no links.
    """

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
    events: tuple[NoticeKind, ...]
    decider: Principal | None = None


class UnattendedSpec(Record):
    """What the agent does with questions and approvals in unattended conversations; its functions are not stored."""

    approvals: UnattendedApprovals = UnattendedApprovals.ASK
    questions: UnattendedQuestions = UnattendedQuestions.ASK


class Limits(Record):
    """The bounds of an agent's conversations. Times in seconds, sizes in bytes of UTF-8.

    `max_model_calls` bounds the model calls of one turn, `max_calls` the tool calls of one model answer, `reply_bytes` the
    text, reasoning and calls of one model answer together, `queued` the messages that wait during a turn, `descendants` the
    conversations that one turn may delegate to, theirs included.
    """

    max_model_calls: int = Field(default=50, ge=1)
    approval_timeout_s: Seconds = 7 * 86400
    answer_timeout_s: Seconds = 7 * 86400
    client_timeout_s: Seconds = 60
    run_timeout_s: Seconds = 600
    model_timeout_s: Seconds = 600
    message_bytes: int = Field(default=1024 * 1024, ge=1)
    result_bytes: int = Field(default=256 * 1024, ge=1)
    note_bytes: int = Field(default=4 * 1024, ge=1)
    max_calls: int = Field(default=128, ge=1)
    reply_bytes: int = Field(default=1024 * 1024, ge=1)
    queued: int = Field(default=100, ge=1)
    descendants: int = Field(default=100, ge=1)


class ToolSpec(Record):
    """A tool as the machine knows it.

    `agent` is the agent that the calls of a delegating tool are for; below the conversation there may be `max_depth` levels.
    """

    name: str
    description: str = ""
    parameters: JsonText = '{"type":"object","properties":{}}'
    executor: Executor = Executor.SERVER
    approval: Approval = Approval.AUTO
    prompt: str | None = None
    response_schema: JsonText | None = None
    definition: JsonText | None = None
    streaming: bool = False
    strict: bool = False
    on_lost: OnLost = OnLost.REDISPATCH
    approval_timeout_s: Seconds | None = None
    answer_timeout_s: Seconds | None = None
    run_timeout_s: Seconds | None = None
    decisions: tuple[Choice, ...] = (Choice.APPROVE, Choice.EDIT, Choice.DENY)
    resume: Resume = Resume.REPLAY
    questions: bool = False
    on_timeout: OnTimeout = NOTHING
    agent: str = ""
    max_depth: int = USUAL_DEPTH

    @model_validator(mode="after")
    def _legal(self) -> Self:
        if self.questions and self.executor is not Executor.HUMAN:
            raise ValueError(f"executor={self.executor} answers no questions")
        if self.approval is Approval.REQUIRED and self.executor in (Executor.HUMAN, Executor.PROVIDER):
            raise ValueError(f"executor={self.executor} cannot be gated")
        return self


class AgentSpec(Record):
    """An agent as the machine knows it: everything a turn needs except the callbacks.

    A call for a client fails `client_grace_s` seconds after nobody is attached who has its tool; None: it waits. `context` says
    how much of a conversation is sent to the model; None: all of it. `stop` says when a turn ends though its model would go
    on. `retries` and `breaker` are those of `model`, as in `ModelSpec`; where it cannot answer, `fallbacks` are asked, one
    after the other. `overridable` says what a message may override for its own turn; None: nothing. `reply` is the JSON Schema
    of an object that each turn's reply has to fit; None: a reply is any text. `budgets` say how much may be used before no
    further turn begins: at most one for each `Per`, in its order.
    """

    version: Literal[1] = 1
    name: str
    model: str
    instructions: str = ""
    model_options: JsonText = "{}"
    tools: tuple[ToolSpec, ...] = ()
    limits: Limits = Limits()
    execution: Execution = Execution.PARALLEL
    unattended: UnattendedSpec = UnattendedSpec()
    notify: tuple[NotifySpec, ...] = ()
    client_grace_s: Seconds | None = 5
    context: Context | None = None
    stop: Stop | None = None
    retries: int = Field(default=RETRIES, ge=0, le=MOST_RETRIES)
    breaker: Breaker | None = None
    fallbacks: tuple[ModelSpec, ...] = Field(default=(), max_length=MOST_FALLBACKS)
    overridable: Overridable | None = None
    reply: JsonText | None = None
    budgets: tuple[Budget, ...] = ()

    def overridden(self, by: Overrides) -> Self:
        """The spec of a turn whose message has these overrides, which the agent allows: another digest, the same tools.

        The chosen model is asked first, then the fallbacks; all with the overridden options.
        """
        chosen = None if by.model is None or self.overridable is None else self.overridable.model(by.model)
        first = chosen or self.models[0]
        models = (first, *(one for one in self.fallbacks if one.model != first.model))
        first, *others = (one.model_copy(update={"options": by.options(one.options)}) for one in models)
        said = {"model": first.model, "model_options": first.options, "retries": first.retries, "breaker": first.breaker}
        return self.model_copy(update={**said, "fallbacks": tuple(others)})

    @property
    def models(self) -> tuple[ModelSpec, ...]:
        """The models in the order in which they are asked."""
        first = ModelSpec(model=self.model, options=self.model_options, retries=self.retries, breaker=self.breaker)
        return (first, *self.fallbacks)

    @property
    def declared_models(self) -> tuple[ModelSpec, ...]:
        """Every model that a turn may ask: the agent's own, and those that a message may choose."""
        return (*self.models, *(self.overridable.models if self.overridable is not None else ()))

    @property
    def askable(self) -> tuple[ModelSpec, ...]:
        """Every model that a call may ask: those of turns, and those that are declared for summaries."""
        compact = None if self.context is None else self.context.compact
        chain = None if compact is None else compact.chain
        return (*self.declared_models, *(() if chain is None else chain.models))

    @cached_property
    def digest(self) -> str:
        """The name of this exact spec: the SHA-256 of its JSON, in hexadecimal; a stored spec keeps its stored digest.

        The JSON omits defaults, so a field that a later release adds changes no digest of specs without it.
        """
        return hashlib.sha256(self.model_dump_json(exclude_defaults=True).encode()).hexdigest()

    def stored_as(self, digest: str) -> Self:
        """The same spec under the digest that it is stored as, whatever release computed the digest."""
        copied = self.model_copy()
        copied.__dict__["digest"] = digest
        return copied

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """A copy of the spec, whose digest is computed anew."""
        copied = super().model_copy(update=update, deep=deep)
        copied.__dict__.pop("digest", None)
        return copied

    @property
    def budgeted(self) -> tuple[Per, ...]:
        """What its budgets are for."""
        return tuple(one.per for one in self.budgets)

    def over(self, spent: Spent, today: DaySpent | None) -> Exceeded | None:
        """The first of its budgets that is used up if the conversation has used so much, and the agent today."""
        return next((over for one in self.budgets if (over := one.over(spent, today)) is not None), None)

    def tool(self, name: str) -> ToolSpec | None:
        """The tool of that name; None if the agent has none."""
        return next((tool for tool in self.tools if tool.name == name), None)
