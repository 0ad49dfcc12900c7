"""What a model call used, for the quotas of the API key that its conversation is charged to."""

import logging
import math

from holdfast.actors.workers import ModelOutcome
from holdfast.conversation import ModelFailed
from holdfast.errors import HoldfastError
from holdfast.persistence.quotas import NANOS, QuotaStore

logger = logging.getLogger("holdfast.worker")


async def spend(store: QuotaStore, conversation_id: str, outcome: ModelOutcome, cost_usd: float | None) -> None:
    """Count a model call. What cannot be counted is logged: its turn goes on."""
    tokens = 0 if isinstance(outcome, ModelFailed) else (outcome.input_tokens or 0) + (outcome.output_tokens or 0)
    cost = round(cost_usd * NANOS) if cost_usd is not None and 0 < cost_usd < math.inf else 0
    if not tokens and not cost:
        return
    try:
        await store.spend(conversation_id, tokens, cost)
    except HoldfastError as error:
        logger.warning("conversation %s: what a model call used is not counted: %s", conversation_id, error)
