"""Counting one model call: duration, time to the first piece, tries, tokens, cost and quota."""

import logging
import math
import time

from holdfast import metrics
from holdfast.actors.workers import ModelOutcome
from holdfast.conversation import ModelFailed
from holdfast.counting import Counts
from holdfast.errors import HoldfastError
from holdfast.persistence.access import NANOS, QuotaStore


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

    def asked(self) -> None:
        """Note that a request goes out now."""
        self._asked_s, self._waits = time.monotonic(), True

    def answers(self) -> None:
        """Note that a piece of the answer has come; only the first of each request counts."""
        if self._waits:
            self._waits = False
            self._counts.observe(metrics.MODEL_FIRST_S, time.monotonic() - self._asked_s, self._model)

    def repeated(self) -> None:
        """Count a try that failed and is repeated."""
        self.tries += 1
        self._counts.add(metrics.MODEL_RETRIES, self._model)

    def cost(self, usd: float | None) -> None:
        """Count the cost of an answer in US dollars; None if unknown."""
        self.cost_usd = usd
        if usd is not None and 0 < usd < math.inf:
            self._counts.add(metrics.COST, self._model, by=usd)

    def ended(self, outcome: ModelOutcome) -> None:
        """Count the outcome."""
        self._counts.observe(metrics.MODEL_S, time.monotonic() - self._began_s, self._model)
        if isinstance(outcome, ModelFailed):
            self._counts.add(metrics.MODEL_CALLS, self._model, outcome.reason.value if outcome.reason is not None else "failed")
            return
        self._counts.add(metrics.MODEL_CALLS, self._model, "answered")
        for direction, tokens in (("input", outcome.input_tokens), ("output", outcome.output_tokens)):
            if tokens:
                self._counts.add(metrics.TOKENS, self._model, direction, by=tokens)


logger = logging.getLogger("holdfast.worker")


async def spend(store: QuotaStore, conversation_id: str, outcome: ModelOutcome, cost_usd: float | None) -> None:
    """Charge a model call to its quota. An error is logged, and the turn goes on."""
    tokens = 0 if isinstance(outcome, ModelFailed) else (outcome.input_tokens or 0) + (outcome.output_tokens or 0)
    cost = round(cost_usd * NANOS) if cost_usd is not None and 0 < cost_usd < math.inf else 0
    if not tokens and not cost:
        return
    try:
        await store.spend(conversation_id, tokens, cost)
    except HoldfastError as error:
        logger.warning("conversation %s: what a model call used is not counted: %s", conversation_id, error)
