"""The pure core of a conversation: messages, calls, decisions, events, specs and the state machine.

No I/O, no clock, no Ray: `decide` judges a command, `evolve` folds an event, `outstanding` lists the work that must be going
on. Names that only Holdfast itself needs are imported from their own modules.
"""

from .judging.judgement import Cancelled, Judgement, Receipt, Receipts, Reply
from .judging.machine import decide, evolve, outstanding
from .judging.table import TABLE
from .log.work import BeginTurn, CallModel, Effect, RunTool
from .records.commands import (
    Assign,
    CancelPending,
    CancelTurn,
    Command,
    Comment,
    Decided,
    End,
    ModelFailed,
    ModelReplied,
    Resolve,
    ResolveMany,
    Revoke,
    RevokeGiven,
    RunFinished,
    RunRuled,
    RunSuspended,
    Send,
    Start,
    Wake,
)
from .records.event_base import FailureReason, StopReason
from .records.events import Event, SettledBy
from .records.state import State, Status
from .terms import decisions
from .terms.approvers import Approvers, ApproverTerms
from .terms.decisions import *  # noqa: F403 - its `__all__` lists the decisions
from .terms.grants import CallTarget, Grant, Level, Scope, Target
from .terms.principal import Principal, Proof
from .terms.questions import Question
from .terms.spec import AgentSpec, Approval, Choice, Execution, Executor, Limits, OnLost, Resume, ToolSpec

__all__ = [
    "TABLE",
    "AgentSpec",
    "Approval",
    "ApproverTerms",
    "Approvers",
    "Assign",
    "BeginTurn",
    "CallModel",
    "CallTarget",
    "CancelPending",
    "CancelTurn",
    "Cancelled",
    "Choice",
    "Command",
    "Comment",
    "Decided",
    "Effect",
    "End",
    "Event",
    "Execution",
    "Executor",
    "FailureReason",
    "Grant",
    "Judgement",
    "Level",
    "Limits",
    "ModelFailed",
    "ModelReplied",
    "OnLost",
    "Principal",
    "Proof",
    "Question",
    "Receipt",
    "Receipts",
    "Reply",
    "Resolve",
    "ResolveMany",
    "Resume",
    "Revoke",
    "RevokeGiven",
    "RunFinished",
    "RunRuled",
    "RunSuspended",
    "RunTool",
    "Scope",
    "Send",
    "SettledBy",
    "Start",
    "State",
    "Status",
    "StopReason",
    "Target",
    "ToolSpec",
    "Wake",
    "decide",
    "evolve",
    "outstanding",
]

__all__ += decisions.__all__
