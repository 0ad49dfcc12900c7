"""Fakes that users get too: a model server, a fault-injecting store, the store conformance suite."""

from .model_server import ModelServer, Request
from .transcripts import NoAnswer, Replay, call, calls, read_script, say

__all__ = ["ModelServer", "NoAnswer", "Replay", "Request", "call", "calls", "read_script", "say"]
