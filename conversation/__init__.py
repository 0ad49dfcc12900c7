"""The pure core of a conversation: messages, calls, decisions, events, specs and the state machine.

No I/O, no clock, no Ray: `decide` judges, `evolve` folds, `outstanding` lists the work that must be going on. Names that only
the inside of Holdfast needs are imported from their own modules.
"""

from .calls import SuspensionKind
from .commands import (
    CancelPending,
    CancelTurn,
    Command,
    Decided,
    End,
    ModelFailed,
    ModelReplied,
    Resolve,
    ResolveMany,
    RunFinished,
    RunRuled,
    RunSuspended,
    Send,
    Start,
    Wake,
)
from .decisions import Answer, Approve, Cancel, Decision, Deny, Fail, Redispatch, Review, ReviewVerdict
from .effects import BeginTurn, CallModel, Effect, RunTool
from .events import Event, FailureReason, SettledBy, StopReason
from .judgement import Cancelled, Judgement, Receipt, Receipts, Reply
from .machine import decide, evolve, outstanding
from .principal import Principal, Proof
from .spec import AgentSpec, Approval, Choice, Execution, Executor, Limits, OnLost, Resume, ToolSpec
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
    "CancelTurn",
    "Cancelled",
    "Choice",
    "Command",
    "Decided",
    "Decision",
    "Deny",
    "Effect",
    "End",
    "Event",
    "Execution",
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
    "Receipts",
    "Redispatch",
    "Reply",
    "Resolve",
    "ResolveMany",
    "Resume",
    "Review",
    "ReviewVerdict",
    "RunFinished",
    "RunRuled",
    "RunSuspended",
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
