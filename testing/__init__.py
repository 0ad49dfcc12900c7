"""Fakes that users get too: a model server, a fault-injecting store, the store conformance suite."""

from .faulty_store import Delay, FailAfter, FailBefore, Fault, Faults, FaultyStore
from .model_server import ModelServer, Request
from .redis_server import RedisServer
from .transcripts import NoAnswer, Replay, call, calls, read_script, say

__all__ = [
    "Delay",
    "FailAfter",
    "FailBefore",
    "Fault",
    "Faults",
    "FaultyStore",
    "ModelServer",
    "NoAnswer",
    "RedisServer",
    "Replay",
    "Request",
    "call",
    "calls",
    "read_script",
    "say",
]
