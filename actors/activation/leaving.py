"""Leaving a conversation: passivation, the last item of the queue. All its state stays in the store."""

import logging

from holdfast.actors.steps import Reached, Step
from holdfast.conversation.machine import busy
from holdfast.errors import StoreError
from holdfast.persistence import Store

from .mailbox import Mailbox
from .outstanding import Outstanding
from .taking_over import Tenure

logger = logging.getLogger("holdfast.actor")


QUEUED_LOOK_MS = 30_000
"""After how many ms a conversation is looked at whose work waits for its turn, or for an app: looking means asking again."""


async def release(
    store: Store, tenure: Tenure, effects: Outstanding, mailbox: Mailbox, reached: Reached, *, look_ms: int
) -> bool:
    """Give the conversation up if it rests; true if it was given up.

    A conversation rests where no command waits and no effect needs this activation: none is outstanding, or each is claimed
    by a worker or waits for the end of a pause. With claimed ones it is parked: it is looked at after `look_ms`, or as soon
    as an outcome is recorded. A release whose outcome is unknown counts as done: the lease ends, and then another activation
    can take the conversation over.
    """
    paused = effects.paused
    if (busy(tenure.state) and not effects.kept) or not mailbox.empty:
        return False
    if effects.queued:
        look_ms = max(look_ms, QUEUED_LOOK_MS)
    effects.left()
    effects.cancel_all()  # effects that wait for the end of a pause must not begin from now on
    reached(Step.PASSIVATE_1_BEGUN)
    try:
        await store.release(tenure.conversation_id, tenure.token, paused=paused, look_ms=look_ms)
    except StoreError as error:
        logger.warning("conversation %s: its release is unknown: %s", tenure.conversation_id, error)
    reached(Step.PASSIVATE_2_RELEASED)
    return True
