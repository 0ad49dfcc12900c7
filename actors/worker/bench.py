"""The bench: the store, the rules, the threads and the like with which a worker carries out a run or a model call."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from holdfast.actors.activation.guest import Guest
from holdfast.actors.steps import Reached, logged
from holdfast.actors.workers import ModelRequest, RunRequest
from holdfast.agent.callback import InThread
from holdfast.persistence import Store
from holdfast.redaction import PLAIN, Redaction

from .gate import GrantGivers, RulesInForce
from .work_spans import NO_CONTENT, Content

_T = TypeVar("_T")
CLAIMED_AT_ONCE = 32
"""How many model calls are claimed at once: among a thousand, each claim would come too late for what was read of pauses."""


class Room(Protocol):
    """Where the app's code runs; see `AppLoop`."""

    resources: Any

    @property
    def in_thread(self) -> InThread:
        """Runs a plain function in a thread for bodies."""

    async def run(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Run a body's coroutine; its result."""

    async def asked(self, agent: str, what: str, function: Callable[[], _T], otherwise: _T) -> _T:
        """The answer of one of an agent's functions about a call; `otherwise` if there is none."""


async def at_any_time(agent: str) -> None:
    """Let the agent's new work begin at any time."""
    del agent


@dataclass(frozen=True, slots=True)
class Bench:
    """The means by which a worker carries out a run or a model call.

    Attributes:
        clock: Limits a body's time: given seconds, returns a context manager like `asyncio.timeout`.
        admit: Called just before a claim: the time by which an agent's work must begin, in ms UTC by the store's clock (None:
            any time); raises if new work is paused.
        givers: The API-key holders who gave grants; None if there are no keys.
        guest: Judges outcomes of conversations without an owner; None: actors do.
        claiming: Entered while a model call is claimed.
        carry_on: Begins, in this worker, work that such an outcome has made outstanding.
    """

    store: Store
    worker: str
    rules: RulesInForce
    room: Room
    clock: Callable[[float], AbstractAsyncContextManager[asyncio.Timeout]] = asyncio.timeout
    admit: Callable[[str], Awaitable[int | None]] = at_any_time
    givers: GrantGivers | None = None
    guest: Guest | None = None
    claiming: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(CLAIMED_AT_ONCE))
    carry_on: Callable[[ModelRequest | RunRequest], object] = lambda _: None
    reached: Reached = logged
    redaction: Redaction = PLAIN
    content: Content = NO_CONTENT
