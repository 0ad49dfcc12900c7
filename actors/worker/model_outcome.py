"""Outcomes of model calls and their counts: from litellm's stream in a worker, from a script in `holdfast.testing.run`."""

import logging
import time
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Any

from holdfast import metrics
from holdfast.actors.workers import AnswerOutcome, ModelOutcome, ModelRequest
from holdfast.agent import Agent, Rules, Tool, TurnContext
from holdfast.agent.delegate import UNTOLD, Delegate
from holdfast.conversation import (
    AgentSpec,
    FailureReason,
    Limits,
    ModelFailed,
    ModelReplied,
    Summarized,
    SummaryFailure,
    compaction,
)
from holdfast.conversation.ids import may_be_child
from holdfast.conversation.records.event_base import Reached
from holdfast.conversation.records.events import ConversationStarted, MessageAccepted
from holdfast.conversation.records.proposed_call import ProposedCall
from holdfast.conversation.terms.grants import CallTarget
from holdfast.conversation.terms.money import MOST_USD, nanos
from holdfast.conversation.terms.overrides import problem_of
from holdfast.conversation.terms.reply import FINAL_ANSWER
from holdfast.conversation.terms.rule_verdict import RuleEffect
from holdfast.conversation.text import jsontext, schema
from holdfast.conversation.window import Window
from holdfast.counting import Counts
from holdfast.errors import HoldfastError
from holdfast.persistence import Conversations, Store
from holdfast.persistence.views import path_of
from holdfast.redaction import Redaction

from .asking import Ask, at_once, here
from .gate import deciders, proposed
from .model_answer import AnswerCall, ModelAnswer, TooMuch
from .run_rules import alone
from .transcripts import Reading

UNVALIDATED = "$: a validator did not answer"
"""What the model is told of arguments whose validators hang, or fail without a message."""
WORDS = 2000
"""How many characters of a provider's error are kept."""


def replied(
    effect_id: str,
    answer: ModelAnswer,
    calls: tuple[ProposedCall, ...],
    *,
    route: str,
    model: str = "",
    counts: "ModelCounts | None" = None,
    misfit: str | None = None,
    reached: Reached | None = None,
) -> ModelReplied:
    """The outcome of a call that was answered; `model` is the fallback that did it, if one did.

    `misfit` is what the app's validators find wrong with it as the agent's reply, `reached` the bound of its `Stop` that the
    worker has found.

    `counts` says what the answer cost and how long it took; without them that is unknown.
    """
    input_tokens, output_tokens = answer.tokens
    cached_tokens, reasoning_tokens = answer.token_details
    return ModelReplied(
        effect_id=effect_id,
        content=answer.content,
        calls=calls,
        finish_reason=answer.finish_reason,
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        reasoning=answer.reasoning,
        provider=answer.provider(route),
        model=model,
        cached_tokens=cached_tokens,
        reasoning_tokens=reasoning_tokens,
        misfit=misfit,
        reached=reached,
        **({} if counts is None else counts.measured),
    )


def asked(request: ModelRequest, spec: AgentSpec, reading: Reading) -> tuple[AgentSpec, Window] | ModelFailed | Summarized:
    """The spec with the overrides of the turn's message, and what is sent of the conversation; else the outcome of the call."""
    effect_id = request.effect_id
    by = reading.overrides
    problem = None if by is None else problem_of(spec.overridable, by)
    if problem is not None:
        error = f"the message of this turn overrides what its agent does not allow: {problem} (Agent.overridable)"
        return ModelFailed(effect_id=effect_id, error=error, reason=FailureReason.NOT_OVERRIDABLE)
    own = spec if by is None else spec.overridden(by)
    found = reading.window(own, request.stopped, by_hand=request.compact)
    if request.compact and found.due is None:
        return compaction.failed(effect_id, SummaryFailure.NOT_ASKED, compaction.nothing(own))
    return (own, found) if found.fits else _overflowing(effect_id, found)


def to_send(own: AgentSpec, asked: Window) -> tuple[AgentSpec, list[dict[str, Any]]]:
    """The spec and the messages of the request: those of the window, or of the summary that is due before it."""
    return (own, asked.messages) if asked.due is None else (compaction.summarizer(own), compaction.request(asked.due))


def concluded(outcome: AnswerOutcome, own: AgentSpec, asked: Window, reading: Reading, stopped: str = "") -> ModelOutcome:
    """The outcome of a call whose request was made of this window: of one that summarised, the verdict on the summary."""
    return (
        _reducible(outcome, own, reading, stopped)
        if asked.due is None
        else compaction.verdict(outcome, asked.due, reading.origins)
    )


def _reducible(outcome: AnswerOutcome, spec: AgentSpec, reading: Reading, stopped: str = "") -> AnswerOutcome:
    """The outcome of a call, which says so if its request was refused for its length and less can be sent."""
    overflows = isinstance(outcome, ModelFailed) and outcome.reason is FailureReason.CONTEXT_OVERFLOW
    if not overflows or spec.context is None:
        return outcome
    sent, smaller = reading.window(spec, stopped), reading.window(spec, stopped, too_long=True)
    less = smaller.due is not None or (smaller.fits and smaller.tokens < sent.tokens)
    return outcome.model_copy(update={"reducible": less})


def answered_by(outcome: AnswerOutcome, asked: AgentSpec, spec: AgentSpec) -> AnswerOutcome:
    """The outcome of a call under an overridden spec, with the model that answered if it is not the first one of `spec`."""
    if isinstance(outcome, ModelFailed) or outcome.model or asked.model == spec.model:
        return outcome
    return outcome.model_copy(update={"model": asked.model})


def overdue(effect_id: str, limits: Limits) -> ModelFailed:
    """The outcome of a call that exceeded its time limit."""
    error = f"the model did not answer within {limits.model_timeout_s:g} s (Limits.model_timeout_s)"
    return ModelFailed(effect_id=effect_id, error=error, reason=FailureReason.MODEL_TIMEOUT)


def _overflowing(effect_id: str, asked: Window) -> ModelFailed:
    """The outcome of a call that has to send more than its agent allows; nothing was sent."""
    error = (
        f"what has to be sent has about {asked.tokens} tokens, {asked.budget} are left of Context.budget for a request "
        "(instructions, tools and the last messages)"
    )
    return ModelFailed(effect_id=effect_id, error=error, reason=FailureReason.CONTEXT_OVERFLOW)


def excessive(effect_id: str, excess: TooMuch, redaction: Redaction) -> ModelFailed:
    """The outcome of a call whose answer exceeds the agent's limits."""
    return ModelFailed(effect_id=effect_id, error=redaction.redacted(str(excess), WORDS), reason=excess.reason)


async def turn_of(store: Conversations, request: ModelRequest, agent: Agent | None) -> Callable[[], Awaitable[TurnContext]]:
    """Give the turn of a model call, with its requester and context if a function of the app may look at them.

    The log entries for it are read now, before the model is called, so that no error of the store can spoil an answer later.
    """
    named = partial(TurnContext, conversation_id=request.conversation_id, agent=request.agent)
    started, message = None, None
    if agent is not None and (agent.unattended.by_function or any(map(_looks, agent.tools))):
        started, message = await store.at(request.conversation_id, [1, request.message_seq])

    async def turn() -> TurnContext:
        return named(
            requester=message.principal if isinstance(message, MessageAccepted) else None,
            context=jsontext.loads(started.context) if isinstance(started, ConversationStarted) else None,
            attended=started.attended if isinstance(started, ConversationStarted) else True,
        )

    return turn


def _looks(tool: Tool) -> bool:
    """Whether a function of a tool looks at the turn, or at the conversation's context."""
    return tool.approves_by_turn or (isinstance(tool, Delegate) and tool.context is not None)


def judged(
    agent: Agent | None,
    spec: AgentSpec,
    calls: Iterable[AnswerCall],
    redaction: Redaction,
    *,
    rules: Rules | None,
    turn: TurnContext,
    asking: Callable[[int], Ask] = here,
) -> tuple[ProposedCall, ...]:
    """The calls with the app's verdicts, given by app code that may take long, or raise any error."""

    def judged_one(call: AnswerCall, ask: Ask) -> ProposedCall:
        name, arguments, declared = call.name, call.arguments, spec.tool(call.name)
        problem: str | None = None
        shown: str | None = None
        tool = agent.tool(name) if agent is not None else None
        try:
            found = jsontext.loads(arguments) if arguments.strip() else {}
        except jsontext.NotJson:
            found = None  # the machine reports the error
        value = found if isinstance(found, dict) else None
        if agent is not None and tool is not None and declared is not None and value is not None:
            validate = partial(tool.validate, value, errors=agent.errors, redaction=redaction)
            problem = ask(f"a validator of {name}", validate, UNVALIDATED if tool.validates else None)
            shown = ask(f"prompt= of {name}", partial(tool.render, value), tool.spec.prompt)
        context: str | None = None
        if problem is None and isinstance(tool, Delegate):
            untold_context: tuple[str | None, str | None] = None, UNTOLD
            context, problem = ask(f"context= of {name}", partial(tool.child_context, turn.context), untold_context)
        made = partial(ProposedCall, tool_call_id=call.tool_call_id, name=name, problem=problem, prompt=shown, context=context)
        if problem is not None or declared is None:
            return made(arguments=arguments)
        ruled = proposed(rules, agent, name, value, turn, ask=ask)
        terms, untold = deciders(tool, value, ask)
        if untold is not None and (ruled is None or ruled.effect is not RuleEffect.DENY):
            ruled = untold
        targets = _touched(tool, value, ask)
        ruling = ask("unattended=", partial(alone, agent, declared, value, turn, ruled, prompt=shown), None)
        return made(arguments=arguments, ruled=ruled, targets=targets, approvers=terms, ruling=ruling)

    return tuple(judged_one(call, asking(place)) for place, call in enumerate(calls))


def reply_to_validate(agent: Agent | None, spec: AgentSpec, answer: ModelAnswer) -> dict[str, Any] | None:
    """The value of an answer that may be the agent's reply, if its type has validators; what no schema fits is left out."""
    reply = None if agent is None else agent.reply
    if reply is None or not reply.validates or reply.schema != spec.reply:
        return None
    match answer.calls():
        case []:
            text = answer.content or ""
        case [call] if call.name == FINAL_ANSWER:
            text = call.arguments
        case _:
            return None
    try:
        value = jsontext.loads(text)
    except jsontext.NotJson:  # the machine says so
        return None
    return value if isinstance(value, dict) and schema.problem(spec.reply, value) is None else None


def misfit(agent: Agent | None, value: dict[str, Any], redaction: Redaction, *, ask: Ask = at_once) -> str | None:
    """What the app's validators find wrong with a reply; None if nothing."""
    if agent is None or agent.reply is None:
        return None
    otherwise: str | None = UNVALIDATED
    validate = partial(agent.reply.problem, value, errors=agent.errors, redaction=redaction)
    return ask("a validator of reply=", validate, otherwise)


def _touched(tool: Tool | None, arguments: dict[str, Any] | None, ask: Ask) -> tuple[CallTarget, ...] | None:
    """The targets of a call; none, which no grant covers, if the app no longer has the tool."""
    if tool is None or arguments is None:
        return ()
    otherwise: tuple[CallTarget, ...] | None = () if tool.touches_by_function else None
    return ask(f"targets= of {tool.name}", partial(tool.touched, arguments), otherwise)


class ModelCounts:
    """The counts of one model call, from now on."""

    def __init__(self, counts: Counts, model: str) -> None:
        self._counts = counts
        self._model = model
        self._began_s = self._asked_s = time.monotonic()
        self._waits = False
        self.tries = 1
        """How many tries there were, including the current one."""
        self.cost_usd: float | None = None
        """The cost of the answer in US dollars; None if unknown."""
        self._first_s: float | None = None
        self._took_s: float | None = None

    def turns_to(self, model: str) -> None:
        """Count for this model from now on."""
        self._model = model

    def passed_on(self, why: str) -> None:
        """Count that a fallback is asked in place of the current model."""
        self._counts.add(metrics.PASSED_ON, self._model, why)

    def asked(self) -> None:
        """Note that a request goes out now."""
        self._asked_s, self._waits = time.monotonic(), True

    def answers(self) -> None:
        """Note that a piece of the answer has come; only the first of each request counts."""
        if self._waits:
            self._waits, self._first_s = False, time.monotonic() - self._asked_s
            self._counts.observe(metrics.MODEL_FIRST_S, self._first_s, self._model)

    def repeated(self) -> None:
        """Count a try that failed and is repeated."""
        self.tries += 1
        self._counts.add(metrics.MODEL_RETRIES, self._model)

    def whole(self, cost_usd: float | None) -> None:
        """Note that the answer is whole, and count its cost in US dollars; None if unknown."""
        self._took_s = time.monotonic() - self._began_s
        self.cost_usd = None if cost_usd is None or not 0 <= cost_usd < MOST_USD else round(cost_usd, 9)
        if self.cost_usd:
            self._counts.add(metrics.COST, self._model, by=self.cost_usd)

    @property
    def measured(self) -> dict[str, Any]:
        """What the answer cost and how long it took, as fields of `ModelReplied`; None what is unknown."""
        times = {"duration_ms": self._took_s, "first_token_ms": self._first_s}
        rounded = {name: None if seconds is None else round(seconds * 1000) for name, seconds in times.items()}
        return {"cost_usd": self.cost_usd, **rounded}

    def ended(self, outcome: AnswerOutcome) -> None:
        """Count the outcome."""
        self._counts.observe(metrics.MODEL_S, time.monotonic() - self._began_s, self._model)
        if isinstance(outcome, ModelFailed):
            self._counts.add(metrics.MODEL_CALLS, self._model, outcome.reason.value if outcome.reason is not None else "failed")
            return
        self._counts.add(metrics.MODEL_CALLS, self._model, "answered")
        for direction, tokens in (("input", outcome.input_tokens), ("output", outcome.output_tokens)):
            if tokens:
                self._counts.add(metrics.TOKENS, self._model, direction, by=tokens)
        for kind, tokens in (("cached", outcome.cached_tokens), ("reasoning", outcome.reasoning_tokens)):
            if tokens:
                self._counts.add(metrics.TOKENS_OF, self._model, kind, by=tokens)


logger = logging.getLogger("holdfast.worker")


async def spend(store: Store, conversation_id: str, outcome: AnswerOutcome, cost_usd: float | None) -> None:
    """Charge a model call to the quota of its conversation, or of the root above it. An error is logged, the turn goes on."""
    tokens = 0 if isinstance(outcome, ModelFailed) else (outcome.input_tokens or 0) + (outcome.output_tokens or 0)
    cost = nanos(cost_usd)
    if not tokens and not cost:
        return
    try:
        above = path_of(await store.at(conversation_id, [1])) if may_be_child(conversation_id) else ()
        await store.spend(above[0].conversation_id if above else conversation_id, tokens, cost)
    except HoldfastError as error:
        logger.warning("conversation %s: what a model call used is not counted: %s", conversation_id, error)
