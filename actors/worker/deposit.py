"""Recording outcomes. If nobody owns the conversation, the worker judges the outcome itself, as a guest."""

import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeVar

from holdfast.actors.activation.guest import LOOK_MS, TRIES, Guest
from holdfast.actors.steps import Step
from holdfast.actors.workers import ModelRequest, RunRequest, WorkOutcome
from holdfast.backoff import Backoff
from holdfast.conversation import SuspensionKind
from holdfast.conversation.records.events import CallResolved, CallSuspended
from holdfast.errors import CipherFailed, CorruptStore, Fenced, NewerRecord, SettledBy, StoreUnavailable
from holdfast.persistence import Conversations, Visited, codec

from .bench import Bench

logger = logging.getLogger("holdfast.worker")

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
        said: dict[str, Any] = {"incarnation": incarnation, "outcome": codec.encode(outcome), "keeps_late": keeps_late}
        return await _told(request, partial(bench.store.finish, request.conversation_id, request.effect_id, **said))
    visit = partial(_visited, bench, request, incarnation, codec.encode(outcome), keeps_late=keeps_late)
    # While other outcomes of this conversation are judged, or wait for that, this one is recorded meanwhile.
    recorded, others = False, request.conversation_id in guest.turns
    turn = guest.turn(request.conversation_id)
    if others:
        found = await visit(recorded=False)
        if isinstance(found, bool):
            return found
        recorded = True
    async with turn:
        return await _judged(bench, guest, request, outcome, incarnation, visit=visit, recorded=recorded)


async def _visited(
    bench: Bench, request: ModelRequest | RunRequest, incarnation: str, outcome: bytes, *, keeps_late: bool, recorded: bool
) -> Visited | bool:
    """Record the outcome; how the conversation stands if nobody owns it, else whether the outcome is recorded.

    A writer that settled the work after this outcome was recorded knew it: then the outcome is not late.
    """
    said: dict[str, Any] = {"incarnation": incarnation, "outcome": outcome, "keeps_late": keeps_late and not recorded}
    visit = partial(bench.store.finish_as_guest, request.conversation_id, request.effect_id, **said, look_ms=LOOK_MS)
    found = await _told(request, visit, late=not recorded)
    return found or recorded if isinstance(found, bool) else found


async def _judged(
    bench: Bench,
    guest: Guest,
    request: ModelRequest | RunRequest,
    outcome: WorkOutcome,
    incarnation: str,
    *,
    visit: Callable[..., Awaitable[Visited | bool]],
    recorded: bool,
) -> bool:
    async def judged(found: Visited, claim: tuple[str, str] | None = None) -> bool:
        """Whether it was judged and written; false if another writer came first."""
        try:
            wrote = await guest.judged(request.conversation_id, found, outcome, claim=claim)
        except Fenced:
            return False
        bench.reached(Step.GUEST_2_WRITTEN)
        for further in wrote.requests():
            bench.carry_on(further)
        return True

    known = None if recorded else guest.known(request)
    if known is not None:
        try:
            if await judged(known, (request.effect_id, incarnation)):
                return True
        except Exception as error:  # noqa: BLE001 - it is recorded, and judged anew
            recorded = isinstance(error, StoreUnavailable) and isinstance(request, ModelRequest)  # perhaps, and then not late
            logger.info("%s of %s is recorded first: %s", request.effect_id, request.conversation_id, error)
        if isinstance(request, RunRequest):
            written = partial(_written, bench.store, request, known.state.seq + 1)
            if await _told(request, written, late=False):  # only the reply was lost
                return True
    for _ in range(TRIES):
        found = await visit(recorded=recorded)
        if isinstance(found, bool):
            return found
        recorded = True
        bench.reached(Step.GUEST_1_READ)
        try:
            if await judged(found):
                return True
        except Exception as error:  # noqa: BLE001 - an actor judges the outcome, and handles the error
            logger.info("%s of %s is left to an actor: %s", request.effect_id, request.conversation_id, error)
            break
    work = (request.conversation_id, request.effect_id)
    said: dict[str, Any] = {"incarnation": incarnation, "outcome": codec.encode(outcome)}
    return await _told(request, partial(bench.store.finish, *work, **said, keeps_late=False), late=False) or recorded


async def _written(store: Conversations, request: RunRequest, seq: int) -> bool:
    """Whether the log has the run's outcome at this place."""
    try:
        (event,) = await store.at(request.conversation_id, [seq])
    except (CorruptStore, NewerRecord):
        return False
    if not isinstance(event, CallResolved | CallSuspended) or event.tool_call_id != request.tool_call_id:
        return False
    return event.by is SettledBy.RUN if isinstance(event, CallResolved) else event.suspension_kind is SuspensionKind.REVIEW


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
