"""Recording the outcome of a run or a model call."""

import logging

from holdfast.actors.work_requests import ModelRequest, RunRequest
from holdfast.backoff import Backoff
from holdfast.errors import CipherFailed, StoreUnavailable
from holdfast.persistence import Runs

logger = logging.getLogger("holdfast.worker")


async def deposit(
    store: Runs, request: ModelRequest | RunRequest, incarnation: str, outcome: bytes, *, keeps_late: bool = True
) -> bool:
    """Record the outcome, however long the store is away or the cipher fails; false if the work is settled or reclaimed."""
    conversation_id, effect_id = request.conversation_id, request.effect_id
    backoff = Backoff(0.1, 5)
    while True:
        try:
            known = await store.finish(
                conversation_id, effect_id, incarnation=incarnation, outcome=outcome, keeps_late=keeps_late
            )
        except (StoreUnavailable, CipherFailed) as error:
            logger.warning("%s of %s: its outcome is not recorded yet: %s", effect_id, conversation_id, error)
            await backoff.sleep()
        else:
            if not known:
                logger.warning("%s of %s ended late; nobody waits for it", effect_id, conversation_id)
            return known
