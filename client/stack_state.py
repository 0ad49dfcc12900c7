"""The state of a conversation as a client shows it, and the details of its calls: their arguments, start and progress."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from holdfast.conversation import Event, ModelFailed, Receipt, RunRuled, RunSuspended, State, Status, Summarized, SuspensionKind
from holdfast.conversation.log.transcript import reply_of
from holdfast.conversation.records.calls import CallStatus, run_effect_id
from holdfast.conversation.records.events import CallSuspended, ModelAnswered, RunScheduled, TurnCompleted, TurnFailed
from holdfast.conversation.records.idempotency import suspension_key
from holdfast.conversation.text import jsontext
from holdfast.errors import CorruptStore, NewerRecord, StaleCall, StaleReason, StoreError
from holdfast.persistence import Conversations, ConversationsAndRuns, Directory, Late, Runs, Store, codec
from holdfast.persistence.conversations import NO_EVENTS
from holdfast.persistence.views import arguments_in, arguments_text

from .results import ConversationState, LateResult, PendingCall, RunningCall, Wait

SHORT_LENGTH = 500
SHOWN_ARGUMENTS_BYTES = 1 << 20
READ_AT_ONCE = 500

logger = logging.getLogger("holdfast.client")


async def shown(
    store: Store,
    state: State,
    resolve: Callable[..., Awaitable[Receipt]],
    *,
    followed: Mapping[int, Event] = NO_EVENTS,
    runs: bool = True,
) -> ConversationState[Awaitable[Receipt]]:
    """A state as a client shows it; `resolve` decides its pending calls.

    `followed` are events that this client has just seen, without `runs` all since the start, among them no run. If one of them
    completed or suspended the turn, less is read: a worker has just run the app, and a conversation in quarantine takes no
    events. Without runs no result is late.
    """
    name, last, reply, end = state.conversation_id, state.last, None, None
    seqs = [] if last is None else [last.reply_seq or last.seq, last.seq]
    entries: Sequence[Event | None] = [followed.get(seq) for seq in seqs]
    quarantine, late, problem = None, list[LateResult](), None
    waits = [one.seq for call in state.calls if (one := call.suspension) is not None and not one.source]
    if (followed.keys() & waits and None not in entries) or (
        entries and state.turn is None and not state.busy and _completed(*entries)
    ):
        late = await late_results(store, name) if runs else late
    else:
        quarantine, entries, late, problem = await asyncio.gather(  # in one round trip
            store.quarantine(name), store.at(name, seqs), late_results(store, name), problem_of(store, state.app)
        )
    if entries:
        answer, end = entries
        reply = reply_of(answer) if isinstance(answer, ModelAnswered) else None
    error = end.error if isinstance(end, TurnFailed) else None
    views = await store.pending_in(state, known=followed) if waits else []
    turn = state.turn if state.turn is not None and not state.turn.compacts else last
    return ConversationState(
        conversation_id=name,
        status=state.status if quarantine is None else Status.QUARANTINED,
        turn_id=None if turn is None else turn.turn_id,
        reply=reply,
        value=_value(answer, end) if entries else None,
        error=error if quarantine is None else quarantine.reason,
        pending=[PendingCall.of(view, resolve) for view in views],
        running=await running_calls(store, state),
        seq=state.seq,
        stopped=end.stopped if isinstance(end, TurnCompleted) else None,
        detail=end.detail if isinstance(end, TurnCompleted) else "",
        failed=end.reason if isinstance(end, TurnFailed) else None,
        agent=state.agent,
        app=state.app,
        created_at=state.created_at,
        updated_at=state.updated_at,
        problem=problem,
        late=late,
        attended=state.attended,
        waits_for=state.waits_for,
        waits=[
            Wait(
                tool_call_id=call.tool_call_id,
                tool=call.tool,
                conversation_id=one.source,
                since=one.created_at,
                expires_at=one.expires_at,
            )
            for call in state.calls.awaiting()
            if (one := call.suspension) is not None and one.kind is SuspensionKind.DELEGATE
        ],
    )


def _value(answer: Event | None, end: Event | None) -> dict[str, Any] | None:
    """The object in a reply of its agent's shape; None if it has none, or cannot be read by this release."""
    if not (isinstance(answer, ModelAnswered) and answer.shaped and isinstance(end, TurnCompleted) and end.stopped is None):
        return None
    try:
        value = jsontext.loads(reply_of(answer) or "")
    except jsontext.NotJson:
        return None
    return value if isinstance(value, dict) else None


def _completed(reply: Event | None, end: Event | None) -> bool:
    return isinstance(reply, ModelAnswered) and isinstance(end, TurnCompleted)


async def running_calls(store: ConversationsAndRuns, state: State) -> list[RunningCall]:
    """The running calls of a state, in the model's order."""
    calls = [call for call in state.calls if call.status is CallStatus.RUNNING]
    if not calls or state.turn is None:
        return []
    since = await _scheduled(store, state, state.turn.answered_at)
    reported = await store.progress(state.conversation_id)
    sources = {seq: await _source(store, state.conversation_id, seq) for seq in {call.arguments_at for call in calls}}
    return [
        RunningCall(
            tool_call_id=call.tool_call_id,
            tool=call.tool,
            arguments=_short(arguments_text(sources[call.arguments_at], call.tool_call_id)),
            since=since.get(call.effect_id, state.updated_at),
            attempt=call.attempt,
            executor=call.executor,
            progress=_progress(reported.get(call.effect_id)),
            grants=call.grants,
        )
        for call in calls
    ]


async def late_results(store: Runs, conversation_id: str) -> list[LateResult]:
    """The results that came after their calls were settled, oldest first."""
    try:
        late = await store.late(conversation_id)
    except CorruptStore as error:
        logger.warning("the late outcomes of %s cannot be read: %s", conversation_id, error)
        return []
    return [_late(effect_id, one) for effect_id, one in sorted(late.items(), key=lambda entry: (entry[1].at, entry[0]))]


async def problem_of(store: Directory, app: str) -> str | None:
    """Why workers cannot run an app; None if they can, or if no readable reason is known."""
    try:
        return await store.problem(app)
    except CorruptStore as error:
        logger.warning("the problem of %s cannot be read: %s", app, error)
        return None


async def abandoned_calls(store: Runs, conversation_id: str, calls: Sequence[str]) -> tuple[str, ...]:
    """The settled calls whose bodies still run on living workers."""
    claims = await store.abandoned(conversation_id)
    named = [(effect_id.partition("#")[0], incarnation.partition(".")[0]) for effect_id, incarnation in claims.items()]
    wanted = [(call, process) for call, process in named if call in calls]
    live = {process: await store.attested(process) for process in {process for _, process in wanted}}
    return tuple(sorted({call for call, process in wanted if live[process]}))


async def settled(store: Conversations, suspension_id: str, conversation_id: str | None) -> StaleCall:
    """The error that says why a suspension is not open."""
    if conversation_id is None:
        return StaleCall("", suspension_id, StaleReason.UNKNOWN)
    key = suspension_key(suspension_id)
    record = (await store.known(conversation_id, [key])).get(key)
    if record is None:
        return StaleCall(conversation_id, suspension_id, StaleReason.UNKNOWN)
    return StaleCall(conversation_id, record.tool_call_id or "", record.reason, record.by, record.at)


def waiting(state: State, suspension_id: str) -> str | None:
    """The id of an open suspension's call."""
    ids = {call.suspension.suspension_id: call.tool_call_id for call in state.calls if call.suspension is not None}
    return ids.get(suspension_id)


async def call_of(store: Conversations, suspension_id: str, conversation_id: str) -> str:
    """The id of a suspension's call, settled ones included: the decision may be a repetition. `StaleCall` if there is none."""
    found = waiting(await store.load(conversation_id), suspension_id)
    if found is None:
        stale = await settled(store, suspension_id, conversation_id)
        if stale.settled_at is None:
            raise stale
        found = stale.tool_call_id
    return found


async def shown_arguments(store: Conversations, conversation_id: str, suspended: CallSuspended) -> dict[str, Any] | None:
    """The arguments of a suspended call; None if they cannot be read, or are too large for a stream."""
    try:
        (source,) = await store.at(conversation_id, [suspended.arguments_at])
        if jsontext.size_bytes(arguments_text(source, suspended.tool_call_id)) > SHOWN_ARGUMENTS_BYTES:
            return None
        return arguments_in(source, suspended.tool_call_id)
    except (CorruptStore, NewerRecord, jsontext.NotJson) as error:
        logger.warning("the arguments of %s in %s cannot be read: %s", suspended.tool_call_id, conversation_id, error)
        return None


async def _scheduled(store: Conversations, state: State, after: int) -> dict[str, int]:
    """When each run since the model's last answer was scheduled, by effect id."""
    found: dict[str, int] = {}
    while after < state.seq:
        entries = await store.read(state.conversation_id, after=after, limit=READ_AT_ONCE)
        if not entries:
            break
        after = entries[-1][0]
        runs = [event for _, event in entries if isinstance(event, RunScheduled)]
        found |= {run_effect_id(event.tool_call_id, event.attempt): event.at for event in runs}
    return found


async def _source(store: Conversations, conversation_id: str, seq: int) -> Event | None:
    try:
        (event,) = await store.at(conversation_id, [seq])
    except (CorruptStore, NewerRecord) as error:
        logger.warning("entry %d of %s cannot be read: %s", seq, conversation_id, error)
        return None
    return event


def _late(effect_id: str, late: Late) -> LateResult:
    try:
        outcome = codec.decode_outcome(late.outcome)
    except StoreError as error:
        return LateResult(effect_id=effect_id, at=late.at, content=None, problem=str(error))
    match outcome:
        case ModelFailed():
            content: str | None = outcome.error
        case Summarized():
            content = outcome.summary or outcome.error
        case RunSuspended():
            content = f"it asked for a review: {outcome.title}"
        case RunRuled():
            content = f"it did not begin: {outcome.ruled.denial}"
        case _:
            content = outcome.content
    return LateResult(effect_id=effect_id, at=late.at, content=None if content is None else _short(content))


def _short(text: str) -> str:
    return text if len(text) <= SHORT_LENGTH else text[:SHORT_LENGTH] + "…"


def _progress(payload: bytes | None) -> Mapping[str, Any] | None:
    if payload is None:
        return None
    try:
        _, _, _, at, text = codec.unpack(payload)
        value = jsontext.loads(text)
    except (ValueError, TypeError, CorruptStore, jsontext.NotJson):
        return None
    return {**value, "at": at} if isinstance(value, dict) else None
