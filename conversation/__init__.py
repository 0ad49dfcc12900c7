"""The pure core of a conversation: messages, calls, decisions, events, specs and the state machine.

No I/O, no clock, no Ray: `decide` judges, `evolve` folds, `outstanding` lists the work that must be going on. Names that only
the inside of Holdfast needs are imported from their own modules.
"""

from .calls import SuspensionKind
from .commands import Cancel, CancelPending, Command, End, ModelFailed, ModelReplied, Resolve, RunFinished, Send, Start, Wake
from .decisions import Answer, Approve, Decision, Deny, Fail, Redispatch
from .effects import BeginTurn, CallModel, Effect, RunTool
from .events import Event, FailureReason, SettledBy, StopReason
from .judgement import Cancelled, Judgement, Receipt, Reply
from .machine import decide, evolve, outstanding
from .principal import Principal, Proof
from .spec import AgentSpec, Approval, Executor, Limits, OnLost, ToolSpec
from .state import State, Status
from .table import TABLE

__all__ = [
    "TABLE",
    "AgentSpec",
    "Answer",
    "Approval",
    "Approve",
    "BeginTurn",
    "CallModel",
    "Cancel",
    "CancelPending",
    "Cancelled",
    "Command",
    "Decision",
    "Deny",
    "Effect",
    "End",
    "Event",
    "Executor",
    "Fail",
    "FailureReason",
    "Judgement",
    "Limits",
    "ModelFailed",
    "ModelReplied",
    "OnLost",
    "Principal",
    "Proof",
    "Receipt",
    "Redispatch",
    "Reply",
    "Resolve",
    "RunFinished",
    "RunTool",
    "Send",
    "SettledBy",
    "Start",
    "State",
    "Status",
    "StopReason",
    "SuspensionKind",
    "ToolSpec",
    "Wake",
    "decide",
    "evolve",
    "outstanding",
]
