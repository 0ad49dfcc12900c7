"""Tools for users' tests: conversations without a stack, a model server, and a fault-injecting store.

Names are imported on first use: pytest loads the plugin of this package in every project.
"""

from typing import TYPE_CHECKING

from holdfast.lazy import lazily

if TYPE_CHECKING:
    from .anthropic_messages import blocks
    from .blocking_rehearsal import BlockingRehearsal, run_sync
    from .faulty_store import Delay, FailAfter, FailBefore, Fault, Faults, FaultyStore
    from .model_server import ModelServer
    from .redis_server import RedisServer
    from .rehearsal import NeverRested, Rehearsal, run
    from .rehearsal_result import RehearsalResult, ToolRun
    from .toy_cipher import ToyCipher
    from .transcripts import NoAnswer, Replay, Request, call, calls, events, read_script, say

_HOMES = {
    "anthropic_messages": ("blocks",),
    "blocking_rehearsal": ("BlockingRehearsal", "run_sync"),
    "faulty_store": ("Delay", "FailAfter", "FailBefore", "Fault", "Faults", "FaultyStore"),
    "model_server": ("ModelServer",),
    "redis_server": ("RedisServer",),
    "rehearsal": ("NeverRested", "Rehearsal", "run"),
    "rehearsal_result": ("RehearsalResult", "ToolRun"),
    "toy_cipher": ("ToyCipher",),
    "transcripts": ("NoAnswer", "Replay", "Request", "call", "calls", "events", "read_script", "say"),
}

__all__ = [
    "BlockingRehearsal",
    "Delay",
    "FailAfter",
    "FailBefore",
    "Fault",
    "Faults",
    "FaultyStore",
    "ModelServer",
    "NeverRested",
    "NoAnswer",
    "RedisServer",
    "Rehearsal",
    "RehearsalResult",
    "Replay",
    "Request",
    "ToolRun",
    "ToyCipher",
    "blocks",
    "call",
    "calls",
    "events",
    "read_script",
    "run",
    "run_sync",
    "say",
]

__getattr__ = lazily(__name__, _HOMES)
