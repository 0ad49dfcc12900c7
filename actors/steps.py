"""The numbered steps of actors and workers.

At each step a process may die, freeze, or outlive its replacement; the fault tests and the simulation force that at every step.
In production each step is a log line of level DEBUG.
"""

import logging
import os
from collections.abc import Callable
from enum import StrEnum
from importlib.metadata import entry_points
from pathlib import Path
from typing import TypeAlias


class Step(StrEnum):
    """The step that a process has reached."""

    ASK_1_RECEIVED = "ask-1-received"  # a command is the loop's next item; nothing is judged
    ASK_2_JUDGED = "ask-2-judged"  # decided; nothing is written
    ASK_3_WRITTEN = "ask-3-written"  # durable; the actor has not adopted the state
    ASK_4_REPLIED = "ask-4-replied"  # the caller is answered; nothing that follows has been started
    ASK_5_STARTED = "ask-5-started"  # the outstanding effects have been started
    RUN_1_ASKED = "run-1-asked"  # a worker has the request; nothing is claimed
    RUN_2_CLAIMED = "run-2-claimed"  # claimed; the body has not begun
    RUN_3_RETURNED = "run-3-returned"  # the body is over; its outcome is not recorded
    RUN_4_RECORDED = "run-4-recorded"  # the outcome is recorded; the actor has not heard of it
    MODEL_1_ASKED = "model-1-asked"  # a worker has the request; nothing is claimed
    MODEL_2_CLAIMED = "model-2-claimed"  # claimed; the model has not been called
    MODEL_3_ANSWERED = "model-3-answered"  # the model has answered; the outcome is not recorded
    MODEL_4_RECORDED = "model-4-recorded"  # the outcome is recorded; the actor has not heard of it
    MESSAGE_1_READ = "message-1-read"  # a resting conversation without an owner is read, for a message; nothing is written
    MESSAGE_2_WRITTEN = "message-2-written"  # a start or message is durable, without an owner; its sender has not heard of it
    GUEST_1_READ = "guest-1-read"  # an outcome is recorded, and the conversation without an owner read; nothing is judged
    GUEST_2_WRITTEN = "guest-2-written"  # the outcome is judged and durable, without an owner
    ACTIVATE_1_ASKED = "activate-1-asked"  # an actor is to host a conversation; it does not own that yet
    ACTIVATE_2_ACQUIRED = "activate-2-acquired"  # the store knows the actor as the owner; no effect is started
    ACTIVATE_3_STARTED = "activate-3-started"  # the outstanding effects have been started; the caller has not heard of it
    PASSIVATE_1_BEGUN = "passivate-1-begun"  # leaving is the last item of the queue; the conversation is still owned
    PASSIVATE_2_RELEASED = "passivate-2-released"  # nobody owns the conversation; the actor has not dropped its activation
    PASSIVATE_3_OFFERED = "passivate-3-offered"  # the actor is on offer again
    OWED_1_LEASED = "owed-1-leased"  # a courier has leased something that is owed; nothing is delivered
    OWED_2_DELIVERED = "owed-2-delivered"  # the target has answered; the store has not heard of it
    OWED_3_ACKNOWLEDGED = "owed-3-acknowledged"  # the store has heard of it


Reached: TypeAlias = Callable[[Step], None]
"""A function that is called with each step."""

logged: Reached = logging.getLogger("holdfast.step").debug
"""The step listener of a process without traps."""

TRAPS = "HOLDFAST_TRAPS"
"""The variable that names a folder of traps, in tests of faults."""
LISTENERS = "holdfast.traps"
"""The entry points by which a package of tests makes a process's step listener from that folder."""


def reached_here() -> Reached:
    """The step listener of this process: its log, unless `HOLDFAST_TRAPS` is set.

    The variable names a folder, never code: the listener is one that an installed package has registered.
    """
    folder = os.environ.get(TRAPS)
    if not folder:
        return logged
    (registered,) = entry_points(group=LISTENERS)
    listener: Reached = registered.load()(Path(folder))
    return listener
