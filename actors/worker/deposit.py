"""Recording outcomes. If nobody owns the conversation, the worker judges the outcome itself, as a guest."""

import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeVar

from holdfast.actors.activation.guest import LOOK_MS, TRIES, Guest
from holdfast.actors.steps import Step
from holdfast.actors.workers import ModelRequest, RunRequest, WorkOutcome
from holdfast.backoff import Backoff
from holdfast.conversation import RunFinished, RunRuled, RunSuspended, SuspensionKind
from holdfast.conversation.records.events import CallResolved, CallSuspended
from holdfast.conversation.text import jsontext
from holdfast.errors import CipherFailed, Fenced, SettledBy, StoreError, StoreUnavailable
from holdfast.persistence import Conversations, Visited, codec

from .bench import Bench

logger = logging.getLogger("holdfast.worker")

MOST_BYTES = 256 << 10
"""The largest snapshot with its log tail that a guest reads for a verdict."""
_T = TypeVar("_T")


async def deposit(
    bench: Bench, request: ModelRequest | RunRequest, incarnation: str, outcome: WorkOutcome, *, keeps_late: bool = True
) -> bool:
    """Record the outcome, however long the store is away or the cipher fails; false if the work is settled or reclaimed.

    If nobody owns the conversation, the outcome is judged, too: at once and in one write, if the request says how the
    conversation stands. Else it is recorded first, and whatever keeps the guest from judging it, an actor does.
    """
    guest = bench.guest
    if guest is None or not guest.allowed:
        return await _kept(bench, request, incarnation, codec.encode(outcome), keeps_late=keeps_late, late=True)
    visit = partial(_visited, bench, request, incarnation, codec.encode(outcome))
    # While other outcomes of this conversation are judged, or wait for that, this one is recorded meanwhile.
    recorded, others = False, request.conversation_id in guest.turns
    turn = guest.turn(request.conversation_id)
    if others:
        found = await visit(keeps_late=keeps_late)
        if isinstance(found, bool):
            return found
        recorded = True
    async with turn:
        judged = partial(_judged, bench, guest, request, outcome, incarnation)
        return await judged(visit=visit, recorded=recorded, keeps_late=keeps_late)


async def judged_here(bench: Bench, request: RunRequest, outcome: RunRuled) -> bool:
    """Judge a verdict on a run that nobody has claimed as a guest; false if it was not written, so that it must be recorded."""
    guest = bench.guest
    if guest is None or not guest.allowed:
        return False
    async with guest.turn(request.conversation_id):
        found = guest.known(request) or await bench.store.visit(request.conversation_id, most_bytes=MOST_BYTES)
        if found is None:
            return False
        # Another worker may have claimed the run, which the log does not tell.
        return await _tried(bench, guest, request, outcome, found, claim=(request.effect_id, "")) is True


async def _visited(
    bench: Bench, request: ModelRequest | RunRequest, incarnation: str, outcome: bytes, *, keeps_late: bool, late: bool = True
) -> Visited | bool:
    """Record the outcome; how the conversation stands if nobody owns it, else whether the outcome is recorded."""
    said: dict[str, Any] = {"incarnation": incarnation, "outcome": outcome, "keeps_late": keeps_late, "look_ms": LOOK_MS}
    visit = partial(bench.store.finish_as_guest, request.conversation_id, request.effect_id, **said)
    return await _told(request, visit, late=late)


async def _judged(
    bench: Bench,
    guest: Guest,
    request: ModelRequest | RunRequest,
    outcome: WorkOutcome,
    incarnation: str,
    *,
    visit: Callable[..., Awaitable[Visited | bool]],
    recorded: bool,
    keeps_late: bool,
) -> bool:
    judged = partial(_tried, bench, guest, request, outcome)
    kept = partial(_kept, bench, request, incarnation, codec.encode(outcome))
    known, unanswered = None if recorded else guest.known(request), False
    if known is not None:
        said = await judged(known, claim=(request.effect_id, incarnation))
        if said is True:
            return True
        unanswered = isinstance(said, StoreUnavailable)
    # A writer that settled the work after this outcome was recorded knew it: then the outcome is not late.
    late = known is None and not recorded  # else it may have been written, even if it was fenced: if only the reply was lost
    for _ in range(TRIES if guest.allowed else 0):
        found = await visit(keeps_late=keeps_late and late, late=late)
        if isinstance(found, bool):
            if found or recorded or late:
                return found or recorded
            break
        recorded, late = True, False
        bench.reached(Step.GUEST_1_READ)
        said = await judged(found)
        if said is not False:
            if said is True:
                return True
            break
    if known is not None and not recorded:
        if await kept(keeps_late=False, late=False):
            return True
        written = partial(_written, bench.store, request, outcome, known.state.seq + 1, unanswered=unanswered)
        if await _told(request, written, late=False):
            return True
    return await kept(keeps_late=keeps_late and not recorded, late=not recorded) or recorded


async def _tried(
    bench: Bench,
    guest: Guest,
    request: ModelRequest | RunRequest,
    outcome: WorkOutcome,
    found: Visited,
    *,
    claim: tuple[str, str] | None = None,
) -> bool | Exception:
    """Whether the outcome was judged and written; false if another writer came first."""
    try:
        wrote = await guest.judged(request.conversation_id, found, outcome, claim=claim)
        bench.reached(Step.GUEST_2_WRITTEN)
        for further in wrote.requests():
            bench.carry_on(further)
    except Fenced:
        return False
    except Exception as error:  # noqa: BLE001 - an actor judges the outcome, and handles the error
        logger.info("%s of %s is not judged here: %s", request.effect_id, request.conversation_id, error)
        return error
    return True


async def _kept(
    bench: Bench, request: ModelRequest | RunRequest, incarnation: str, outcome: bytes, *, keeps_late: bool, late: bool
) -> bool:
    """Record the outcome for an actor; whether it is recorded."""
    said: dict[str, Any] = {"incarnation": incarnation, "outcome": outcome, "keeps_late": keeps_late}
    return await _told(request, partial(bench.store.finish, request.conversation_id, request.effect_id, **said), late=late)


async def _written(
    store: Conversations, request: ModelRequest | RunRequest, outcome: WorkOutcome, seq: int, *, unanswered: bool
) -> bool:
    """Whether the log has that outcome of a run at this place; of a model call, whether that may be."""
    if isinstance(request, ModelRequest):
        return unanswered
    try:
        (event,) = await store.at(request.conversation_id, [seq])
    except StoreUnavailable:
        raise
    except StoreError:
        return False
    if not isinstance(event, CallResolved | CallSuspended) or event.tool_call_id != request.tool_call_id:
        return False
    if isinstance(event, CallSuspended):
        return isinstance(outcome, RunSuspended) and event.suspension_kind is SuspensionKind.REVIEW
    said = (outcome.ok, jsontext.clean(outcome.content), outcome.attached) if isinstance(outcome, RunFinished) else None
    return event.by is SettledBy.RUN and (event.ok, event.content, event.attached) == said


async def _told(request: ModelRequest | RunRequest, record: Callable[[], Awaitable[_T]], *, late: bool = True) -> _T:
    """The store's answer, however long it takes. With `late`, an outcome that the store refuses is logged as late."""
    backoff = Backoff(0.1, 5)
    while True:
        try:
            found = await record()
        except (StoreUnavailable, CipherFailed) as error:
            logger.warning("%s of %s: its outcome is not recorded yet: %s", request.effect_id, request.conversation_id, error)
            await backoff.sleep()
        else:
            if found is False and late:
                logger.warning("%s of %s ended late; nobody waits for it", request.effect_id, request.conversation_id)
            return found
