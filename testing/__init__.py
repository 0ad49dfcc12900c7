"""Fakes that users get too: a model server, a fault-injecting store, a toy cipher, the store conformance suite."""

from .anthropic_messages import blocks
from .faulty_store import Delay, FailAfter, FailBefore, Fault, Faults, FaultyStore
from .model_server import ModelServer, Request
from .redis_server import RedisServer
from .toy_cipher import ToyCipher
from .transcripts import NoAnswer, Replay, call, calls, events, read_script, say

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
    "ToyCipher",
    "blocks",
    "call",
    "calls",
    "events",
    "read_script",
    "say",
]
