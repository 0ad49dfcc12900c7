"""The pure core of a conversation: messages, calls, decisions, events, specs and the state machine.

No I/O, no clock, no Ray: `decide` judges a command, `evolve` folds an event, `outstanding` lists the work that must be going
on. Names that only Holdfast itself needs are imported from their own modules.
"""

from .judging.judgement import Cancelled, Judgement, Receipt, Receipts, Reply
from .judging.machine import decide, evolve, outstanding
from .judging.table import TABLE
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
from .records.effects import BeginTurn, CallModel, Effect, RunTool
from .records.endings import FailureReason, StopReason
from .records.events import Event, SettledBy
from .records.state import State, Status
from .terms.approvers import Approvers, ApproverTerms
from .terms.decisions import Answer, Approve, Cancel, Decision, Deny, Fail, Redispatch, Review, ReviewVerdict, SuspensionKind
from .terms.grants import CallTarget, Grant, Level, Scope, Target
from .terms.principal import Principal, Proof
from .terms.questions import Question
from .terms.spec import AgentSpec, Approval, Choice, Execution, Executor, Limits, OnLost, Resume, ToolSpec

__all__ = [
    "TABLE",
    "AgentSpec",
    "Answer",
    "Approval",
    "Approve",
    "ApproverTerms",
    "Approvers",
    "Assign",
    "BeginTurn",
    "CallModel",
    "CallTarget",
    "Cancel",
    "CancelPending",
    "CancelTurn",
    "Cancelled",
    "Choice",
    "Command",
    "Comment",
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
    "Redispatch",
    "Reply",
    "Resolve",
    "ResolveMany",
    "Resume",
    "Review",
    "ReviewVerdict",
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
    "SuspensionKind",
    "Target",
    "ToolSpec",
    "Wake",
    "decide",
    "evolve",
    "outstanding",
]
