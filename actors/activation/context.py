"""The surroundings of an activation."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from holdfast.actors.admission import Admission
from holdfast.actors.published import SpecCache
from holdfast.actors.steps import Reached, logged
from holdfast.actors.workers import Workers
from holdfast.counting import Counts
from holdfast.persistence import Store
from holdfast.settings import Timing, TraceSettings


@dataclass(frozen=True, slots=True)
class ActivationContext:
    """What an actor gives to each of its activations.

    Attributes:
        clock: A monotonic clock, in milliseconds since an arbitrary moment.
        rested: Set when the conversation comes to rest.
        strikes: The crash count at which a conversation is put in quarantine.
    """

    store: Store
    workers: Workers
    admission: Admission
    actor: str
    timing: Timing
    clock: Callable[[], int]
    rested: asyncio.Event
    strikes: int
    specs: SpecCache = field(default_factory=SpecCache)
    counts: Counts = field(default_factory=Counts)
    traces: TraceSettings = field(default_factory=TraceSettings)
    reached: Reached = logged
