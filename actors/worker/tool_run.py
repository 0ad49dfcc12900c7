"""Running a server call's callback: claim, body, outcome, record. Whatever the body does, the model reads a result."""

import asyncio
import logging
from dataclasses import dataclass, fields
from typing import Any, TypeAlias

import pydantic_core

from holdfast.actors.steps import Step
from holdfast.actors.workers import GRACE_S, NoOutcome, RunOutcome, RunRequest
from holdfast.agent import Agent, InvalidArguments, Tool, ToolContext, TurnContext, timeouts
from holdfast.agent.callback import InThread
from holdfast.agent.disclosure import told
from holdfast.agent.read_result import ReadResult
from holdfast.agent.suspend import Terms, noticed, suspend_in
from holdfast.conversation import Decision, Event, Limits, Resume, RunFinished, RunRuled, RunSuspended
from holdfast.conversation.judging.granting import ENDED
from holdfast.conversation.records.events import ConversationStarted, MessageAccepted, SuspensionSettled
from holdfast.conversation.terms.decisions import DecisionRecord
from holdfast.conversation.terms.parts import Attachment, result_of, size_of
from holdfast.conversation.terms.rule_verdict import RuleEffect, RuleVerdict
from holdfast.conversation.terms.stages import NOTHING
from holdfast.conversation.text import jsontext
from holdfast.conversation.text.envelope import edited, failure, success
from holdfast.errors import ConfigurationError, InvalidInput, StoreError
from holdfast.persistence import Conversations, codec
from holdfast.persistence.views import arguments_in

from . import result_reading
from .bench import Bench
from .claims import Claim
from .deposit import deposit, judged_here
from .live import Progress
from .run_rules import decided_alone, earliest, judged
from .work_spans import run_span

logger = logging.getLogger("holdfast.worker")

LETS_GO = RuleVerdict(effect=RuleEffect.ALLOW)
"""The verdict on a call that is carried out elsewhere, if neither the rules nor the app's functions are against it."""
TOLD_S = 10.0
"""Seconds for the app's `errors=` function to say what the model is told of an exception."""
WENT_ON = "its body caught its own Suspend, and went on without a decision"
UNMADE = "the tool's body raised a Suspend whose constructor did not run, so it asks for nothing"


@dataclass(frozen=True, slots=True)
class Result:
    """The envelope that the model reads, and the images and files beside it."""

    content: str
    ok: bool = False
    attached: tuple[Attachment, ...] = ()


Said: TypeAlias = Result | Terms
"""The end of a body: its result, or what it asks for."""


@dataclass(frozen=True, slots=True)
class Inputs:
    """The log entries that determine a run: with other entries it is another run, even with the same ids."""

    started: Event | None
    source: Event | None
    message: Event | None = None
    decided: Event | None = None
    granted: Event | None = None
    passed: Event | None = None
    last: tuple[int, Event] | None = None


async def inputs_of(store: Conversations, request: RunRequest) -> Inputs:
    """The log entries at the places that the request names."""
    wanted = (1, request.arguments_at, request.message_seq, request.decided_at, request.granted_at, request.passed_at)
    places = {seq: None for seq in wanted if seq}
    found = dict(zip(places, await store.at(request.conversation_id, list(places)), strict=True))
    started, source, message, decided, granted, passed = (found.get(seq) for seq in wanted)
    last = max(((seq, event) for seq, event in found.items() if event is not None), key=lambda one: one[0], default=None)
    return Inputs(started, source, message, decided, granted, passed, last)


async def run(
    bench: Bench, request: RunRequest, inputs: Inputs, *, agent: Agent | None, limits: Limits, claim: Claim[Any]
) -> RunOutcome | NoOutcome:
    """Claim the run, run its body, record its outcome and return it; `NOT_MINE` if it was not runnable (in time).

    A run that the rules in force block is not claimed: their verdict is its outcome. So it is if they allow a call that is
    carried out elsewhere. If this raises, no body has run.
    """
    bench.reached(Step.RUN_1_ASKED)
    # Everything that can fail before the body does so before the claim.
    unreadable, context, arguments = None, None, dict[str, Any]()
    decision: Decision | None = None
    tool = agent.tool(request.tool) if agent is not None else None
    timeout_s = (tool.spec.run_timeout_s if tool is not None else None) or limits.run_timeout_s
    try:
        decision = _decision(tool, inputs)
        context = jsontext.loads(inputs.started.context) if isinstance(inputs.started, ConversationStarted) else None
        arguments = arguments_in(inputs.source, request.tool_call_id)
    except jsontext.NotJson as error:  # stored before this limit existed; a later try would fail as well
        unreadable = f"the tool did not run: its arguments or context cannot be read ({error})"
    turn = TurnContext(
        conversation_id=request.conversation_id,
        agent=request.agent,
        requester=inputs.message.principal if isinstance(inputs.message, MessageAccepted) else None,
        context=context,
        attended=inputs.started.attended if isinstance(inputs.started, ConversationStarted) else True,
    )

    async def unclaimed(ruled: RuleVerdict, until_ms: int | None = None) -> RunRuled | NoOutcome:
        asks = ruled.effect is RuleEffect.ASK and not turn.attended and unreadable is None
        ruling = await decided_alone(bench, request, agent, arguments, turn=turn, ruled=ruled) if asks else None
        outcome = RunRuled(effect_id=request.effect_id, ruled=ruled, ruling=ruling, until_ms=until_ms)
        return await _recorded(bench, request, inputs, claim.incarnation, outcome)

    known = None if unreadable is not None else arguments
    edits = isinstance(inputs.source, SuspensionSettled)
    ruled, in_force_until = await judged(bench, request, agent, known, turn, edits=edits)
    if ruled is not None:
        return await unclaimed(ruled)
    until = earliest(await bench.admit(request.agent), in_force_until, request.grants_until)
    if request.judges_only:
        return await unclaimed(LETS_GO, until)
    claimed = await bench.store.claim(
        request.conversation_id,
        request.effect_id,
        incarnation=claim.incarnation,
        worker=bench.worker,
        until=until,
        bound_ms=round((timeout_s + GRACE_S) * 1000),
        epoch=request.grants_epoch if request.grants else None,
        follows=inputs.last,
    )
    if not claimed:
        # Perhaps the grants have ended: the machine checks which still hold, and asks a person if none does.
        return await unclaimed(ENDED) if request.grants else NoOutcome.NOT_MINE
    claim.made()
    bench.reached(Step.RUN_2_CLAIMED)
    with run_span(request, arguments, bench.content) as span:
        result: Said
        if unreadable is not None:
            result = Result(failure(unreadable))
        elif agent is None or tool is None:
            result = Result(failure(f"the tool {request.tool} is not in the app any more; it did not run"))
        else:
            approved = inputs.decided or inputs.granted  # by a decision on the call, else by the grant that covers it
            given = ToolContext(
                conversation_id=request.conversation_id,
                turn_id=request.turn_id,
                tool_call_id=request.tool_call_id,
                attempt=request.attempt - request.resumed,
                requester=turn.requester,
                approver=approved.principal if isinstance(approved, SuspensionSettled) else None,
                decision=decision,
                context=context,
                resources=bench.room.resources,
                report=Progress(bench.store, request, asyncio.get_running_loop()) if tool.spec.streaming else None,
                cancellation=claim.cancellation,
            )
            result = await _body(bench, request, agent, tool, arguments, given=given, limits=limits, timeout_s=timeout_s)
        outcome = _outcome(request, inputs, result, limits)
        if isinstance(outcome, RunFinished):
            span.ended(outcome.content, ok=outcome.ok)
        else:
            span.suspended(outcome.title)
    bench.reached(Step.RUN_3_RETURNED)
    try:
        await deposit(bench, request, claim.incarnation, outcome)
    except StoreError:
        logger.exception("run %s of %s: its outcome cannot be recorded", request.effect_id, request.conversation_id)
    bench.reached(Step.RUN_4_RECORDED)
    return outcome


async def _recorded(
    bench: Bench, request: RunRequest, inputs: Inputs, incarnation: str, outcome: RunRuled
) -> RunRuled | NoOutcome:
    """Record the verdict on a run that was not claimed; `NOT_MINE` if the run is settled, or was claimed."""
    if inputs.last is not None and await inputs_of(bench.store, request) != inputs:
        return NoOutcome.NOT_MINE  # the log was restored meanwhile, and holds something else
    recorded = not request.waits and await judged_here(bench, request, outcome)
    recorded = recorded or await bench.store.refuse(
        request.conversation_id, request.effect_id, incarnation=incarnation, outcome=codec.encode(outcome)
    )
    bench.reached(Step.RUN_4_RECORDED)
    return outcome if recorded else NoOutcome.NOT_MINE


def _outcome(request: RunRequest, inputs: Inputs, result: Said, limits: Limits) -> RunFinished | RunSuspended:
    if isinstance(result, Terms):
        shown = (result.title, result.message, result.report_md, result.payload or "", result.response_schema or "")
        size = sum(map(jsontext.size_bytes, shown))
        if size <= limits.result_bytes:
            return RunSuspended(effect_id=request.effect_id, **{one.name: getattr(result, one.name) for one in fields(result)})
        problem = f"the review that {request.tool} asks for has {size} bytes, {limits.result_bytes} are allowed"
        result = Result(failure(f"{problem} (Limits.result_bytes)"))
    content = result.content
    if isinstance(inputs.source, SuspensionSettled):
        content = edited(content, inputs.source.body)
    return RunFinished(effect_id=request.effect_id, ok=result.ok, content=content, attached=result.attached)


def _decision(tool: Tool | None, inputs: Inputs) -> Decision | None:
    settled = inputs.passed
    if settled is None and tool is not None and tool.spec.resume is Resume.PASS_TO_TOOL:
        settled = inputs.decided
    if not isinstance(settled, SuspensionSettled) or settled.decision is None:
        return None
    return DecisionRecord(kind=settled.decision, body=settled.body, reason=settled.reason).decision


async def _body(
    bench: Bench,
    request: RunRequest,
    agent: Agent,
    tool: Tool,
    arguments: dict[str, Any],
    *,
    given: ToolContext,
    limits: Limits,
    timeout_s: float,
) -> Said:
    in_thread = bench.room.in_thread

    async def failed(error: BaseException, before: str = "") -> Result:
        said = f"{before}{await _told(agent, error, in_thread)}"
        return Result(failure(bench.redaction.redacted(said, limits.note_bytes)))

    try:
        async with bench.clock(timeout_s) as bound:
            if isinstance(tool, ReadResult):
                how = {"most_bytes": limits.result_bytes}
                return Result(await result_reading.read(bench, request, agent, tool, arguments, **how), ok=True)
            return await bench.room.run(_resulting(tool, arguments, given, limits, in_thread))
    except TimeoutError as error:
        if bound.expired():
            given.cancellation.set()  # a body that holds a thread goes on
            return Result(failure(f"the tool did not finish within {timeout_s:g} s"))
        return await failed(error)  # the body itself raised the error
    except result_reading.Unreadable as error:
        return Result(failure(bench.redaction.redacted(str(error), limits.note_bytes)))
    except InvalidArguments as error:
        return await failed(error, "invalid arguments: ")
    except _NoResult as error:
        problem = "the tool returned what cannot be a result: "
        return await failed(error.__cause__, problem) if error.__cause__ is not None else Result(failure(f"{problem}{error}"))
    except BaseException as error:
        task = asyncio.current_task()
        if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
            raise  # otherwise the body has cancelled itself, or awaited a cancelled task
        asked = suspend_in(error)
        if asked is not None:
            try:
                return _checked(asked.terms, tool, limits)
            except ConfigurationError as unfit:
                return await failed(unfit)
        logger.warning("tool %s of %s raised", request.tool, request.conversation_id, exc_info=error)
        return await failed(error)


def _checked(terms: object, tool: Tool, limits: Limits) -> Said:
    """What a body asks a person, or that it was never said; `ConfigurationError` for a reminder before the wait begins."""
    if not isinstance(terms, Terms):
        return Result(failure(UNMADE))
    timeouts.check_reminders(terms.on_timeout or NOTHING, "Suspend", terms.expires_s or timeouts.approval_s(tool.spec, limits))
    return terms


async def _told(agent: Agent, error: BaseException, in_thread: InThread) -> str:
    if not callable(agent.errors):
        return told(agent.errors, error)
    try:
        async with asyncio.timeout(TOLD_S):
            return str(await in_thread(told, agent.errors, error))
    except TimeoutError:
        logger.warning("errors= of %s did not say within %g s what is told of %s", agent.name, TOLD_S, type(error).__name__)
        return type(error).__name__


class _NoResult(Exception):
    """The value that a body returned cannot be a result; the message or the cause says why."""


async def _resulting(
    tool: Tool, arguments: dict[str, Any], context: ToolContext, limits: Limits, in_thread: InThread
) -> Result:
    """Run the body; its result, made where the body runs, since a large one takes a while."""
    with noticed() as raised:
        value = await tool.invoke(arguments, context, in_thread=in_thread)
    if raised.made:  # the body caught it, and may have done what should have waited
        raise _NoResult(WENT_ON)
    try:
        value, attached = result_of(value)
    except InvalidInput as error:
        raise _NoResult(str(error)) from None
    try:
        plain = value if isinstance(value, str) else pydantic_core.to_jsonable_python(value, inf_nan_mode="constants")
    except (ValueError, TypeError, pydantic_core.PydanticSerializationError) as error:
        raise _NoResult from error
    try:
        text = jsontext.dumps(plain)
    except jsontext.NotJson as error:
        raise _NoResult(str(error)) from None
    size = jsontext.size_bytes(text) + size_of(attached)
    if size > limits.result_bytes:
        raise _NoResult(f"{size} bytes from {tool.name}, {limits.result_bytes} are allowed (Limits.result_bytes)")
    return Result(success(text), ok=True, attached=attached)
