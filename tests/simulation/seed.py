"""Running one seed: everything that could differ from run to run is drawn from it."""

import contextlib
import gc
import logging
import os
import random
import re
import uuid
from dataclasses import dataclass
from unittest import mock

from holdfast import store_clock
from holdfast.actors import host, logs, memory
from holdfast.actors.worker import succession, worker
from holdfast.agent import Rules
from holdfast.conversation.judging import granting
from holdfast.persistence import conversations
from holdfast.registry import courier

from . import oracles, publisher
from .clocks import Clocks
from .workers import SimRuntime
from .world import World


@dataclass(slots=True)
class Outcome:
    """What became of one seed."""

    seed: int
    problems: list
    trace: list
    turns: int
    seconds: float


def simulate(seed, *, traced=False):
    """The outcome of a seed; with its trace if something is broken, or if asked for."""
    with _seeded(seed):
        world = World(seed)
        logs.guard()  # as every process of ours
        logger = logging.getLogger("holdfast")
        watch = _Watch(world)
        before = logger.level, logger.propagate
        logger.addHandler(watch)
        logger.setLevel(logging.WARNING)
        logger.propagate = False
        try:
            world.loop.run(world.live())
            oracles.judge(world)
            _no_task_failed(world)
            problems = list(world.ledger.problems)
            lines = world.trace.lines() if traced or problems else []
        finally:
            world.loop.close()
            logger.removeHandler(watch)
            logger.level, logger.propagate = before
    return Outcome(seed, problems, lines, world.loop.turns, world.loop.time())


WATCH = re.compile(
    r"\S+ has answered nothing for \d+ s: it is ended, and what ran in it is lost|conversation \S+ made \S+ hang: .*"
)
"""What the watch says of processes that hang."""


class _Watch(logging.Handler):
    """Puts the product's warnings into the trace; an error or a traceback in its log is a broken promise."""

    def __init__(self, world):
        super().__init__()
        self._world = world

    def handle(self, record):
        said = record.getMessage()
        expected = self._world.ledger.times_set_back or (self._world.watched and WATCH.fullmatch(said))
        if record.levelno >= logging.ERROR and not expected:  # a log that lost its end is one, and so is a process that hangs
            self._world.ledger.wrong("logged: %s (%s)", said, record.exc_text)
        else:
            self._world.trace.note("%s", said)
        return True


def _no_task_failed(world):
    for process, task in world.loop.tasks:
        if process.dead or process.stopped or process.ready:  # whoever waits for the task may not have had its turn
            continue
        if task.done() and not task.cancelled() and task._log_traceback:
            world.ledger.wrong("a task failed and nobody knows: %r in %s", task.exception(), task)


@contextlib.contextmanager
def _seeded(seed):
    drawn = random.Random(seed)
    state, uuid4, collecting = random.getstate(), uuid.uuid4, gc.isenabled()
    random.seed(seed)
    uuid.uuid4 = lambda: uuid.UUID(int=drawn.getrandbits(128), version=4)
    gc.disable()
    try:
        with contextlib.ExitStack() as given:
            for module in (memory, host, succession):
                given.enter_context(mock.patch.object(module, "resident_mb", _weightless))
            for module in (store_clock, worker, succession):
                given.enter_context(mock.patch.object(module, "time", Clocks()))
            given.enter_context(mock.patch.object(worker, "AppRuntime", SimRuntime))
            given.enter_context(mock.patch.object(os, "getloadavg", _idle))
            given.enter_context(mock.patch.object(Rules, "of_json", publisher.read))
            small = 1 if seed % 4 == 0 else conversations.FEW_CLAIMS  # else no process here has many claims
            given.enter_context(mock.patch.object(conversations, "FEW_CLAIMS", small))
            most = 2 if seed % 3 == 0 else granting.MOST_GRANTS  # else no conversation here has so many
            given.enter_context(mock.patch.object(granting, "MOST_GRANTS", most))
            short = 3_000 if seed % 2 else courier.LEASE_MS  # leases end while whoever has them is frozen or waits
            given.enter_context(mock.patch.object(courier, "LEASE_MS", short))
            yield
    finally:
        random.setstate(state)
        uuid.uuid4 = uuid4
        if collecting:
            gc.enable()


def _weightless():
    return 0.0


def _idle():
    return 0.0, 0.0, 0.0
