"""Carrying out a model call: claim, call, outcome, record."""

import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace

from holdfast.actors.admission import FRESH_S
from holdfast.actors.steps import Step
from holdfast.actors.workers import GRACE_S, ModelOutcome, ModelRequest, NoOutcome
from holdfast.conversation import Event, FailureReason, ModelFailed, Summarized, SummaryFailure, compaction
from holdfast.errors import StoreError
from holdfast.redaction import PLAIN

from .asking import JUDGING_S
from .bench import Bench
from .claims import Claim
from .deposit import deposit

logger = logging.getLogger("holdfast.worker")

TRIES = 3
"""How often a claim is made, if it comes too late each time: on a busy machine."""


async def run(
    bench: Bench,
    request: ModelRequest,
    call: Callable[[], Awaitable[ModelOutcome]],
    *,
    follows: tuple[int, Event] | None = None,
    claim: Claim[ModelOutcome | NoOutcome],
    timeout_s: float,
) -> ModelOutcome | NoOutcome:
    """Claim the call, call the model, record the outcome and return it; `NOT_MINE` if it is not runnable (any more)."""
    bench.reached(Step.MODEL_1_ASKED)
    async with bench.claiming:
        for _ in range(TRIES):
            asked_at_s = time.monotonic()
            claimed = await bench.store.claim(
                request.conversation_id,
                request.effect_id,
                incarnation=claim.incarnation,
                worker=bench.worker,
                until=await bench.admit(request.agent),
                bound_ms=round((timeout_s + JUDGING_S + GRACE_S) * 1000),
                instead_of=request.instead_of,
                follows=follows,
            )
            if claimed or time.monotonic() - asked_at_s < FRESH_S:
                break  # else it may only have come too late for what was admitted
    if not claimed:
        return NoOutcome.NOT_MINE
    claim.made()
    bench.reached(Step.MODEL_2_CLAIMED)
    outcome = await call()
    bench.reached(Step.MODEL_3_ANSWERED)
    claim.ends = False  # from here on this worker itself may settle the call, as a guest
    try:
        counts = await deposit(bench, request, claim.incarnation, outcome, keeps_late=False)
    except (StoreError, ValueError, TypeError, OverflowError) as error:  # the answer is paid for; another would be like it
        logger.exception("model call %s of %s: its outcome cannot be recorded", request.effect_id, request.conversation_id)
        problem = f"the model's answer cannot be recorded: {PLAIN.said(error, 300)}"
        if isinstance(outcome, Summarized):
            outcome = compaction.failed(request.effect_id, SummaryFailure.UNUSABLE, problem)
        else:
            outcome = ModelFailed(effect_id=request.effect_id, error=problem, reason=FailureReason.UNUSABLE)
        counts = await deposit(replace(bench, guest=None), request, claim.incarnation, outcome, keeps_late=False)
    bench.reached(Step.MODEL_4_RECORDED)
    return outcome if counts else NoOutcome.NOT_MINE
