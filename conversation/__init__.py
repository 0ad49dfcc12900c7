"""The pure core of a conversation: messages, calls, decisions, events, specs and the state machine.

No I/O, no clock, no Ray: `decide` judges a command, `evolve` folds an event, `outstanding` lists the work that must be going
on. Names that only Holdfast itself needs are imported from their own modules.
"""

import typing

from holdfast import lazy

from .judging.judgement import Cancelled as Cancelled
from .judging.judgement import ClaimReceipt as ClaimReceipt
from .judging.judgement import Interrupted as Interrupted
from .judging.judgement import Judgement as Judgement
from .judging.judgement import Receipt as Receipt
from .judging.judgement import Receipts as Receipts
from .judging.judgement import Reply as Reply
from .judging.machine import decide as decide
from .judging.machine import evolve as evolve
from .judging.machine import outstanding as outstanding
from .judging.table import TABLE as TABLE
from .log.work import BeginTurn as BeginTurn
from .log.work import CallModel as CallModel
from .log.work import Effect as Effect
from .log.work import RunTool as RunTool
from .records.commands import Assign as Assign
from .records.commands import CancelPending as CancelPending
from .records.commands import CancelTurn as CancelTurn
from .records.commands import Claim as Claim
from .records.commands import Command as Command
from .records.commands import Comment as Comment
from .records.commands import Decided as Decided
from .records.commands import End as End
from .records.commands import EscalateCall as EscalateCall
from .records.commands import GiveBack as GiveBack
from .records.commands import ModelFailed as ModelFailed
from .records.commands import ModelReplied as ModelReplied
from .records.commands import Resolve as Resolve
from .records.commands import ResolveMany as ResolveMany
from .records.commands import Revoke as Revoke
from .records.commands import RevokeGiven as RevokeGiven
from .records.commands import RunFinished as RunFinished
from .records.commands import RunRuled as RunRuled
from .records.commands import RunSuspended as RunSuspended
from .records.commands import Snooze as Snooze
from .records.commands import Summarized as Summarized
from .records.commands import Tell as Tell
from .records.commands import Wake as Wake
from .records.event_base import FailureReason as FailureReason
from .records.event_base import StopReason as StopReason
from .records.event_base import SummaryFailure as SummaryFailure
from .records.events import Event as Event
from .records.events import SettledBy as SettledBy
from .records.input_commands import CompactNow as CompactNow
from .records.input_commands import Interrupt as Interrupt
from .records.input_commands import Reschedule as Reschedule
from .records.input_commands import Send as Send
from .records.input_commands import Start as Start
from .records.input_commands import When as When
from .records.input_commands import Withdraw as Withdraw
from .records.input_events import Origin as Origin
from .records.rounds import WaitsFor as WaitsFor
from .records.state import State as State
from .records.state import Status as Status
from .terms.approvers import Approvers as Approvers
from .terms.approvers import ApproverTerms as ApproverTerms
from .terms.budget import Budget as Budget
from .terms.context import Compact as Compact
from .terms.context import Context as Context
from .terms.context import Retain as Retain
from .terms.decisions import *  # noqa: F403 - its `__all__` lists the decisions
from .terms.grants import CallTarget as CallTarget
from .terms.grants import Grant as Grant
from .terms.grants import Level as Level
from .terms.grants import Scope as Scope
from .terms.grants import Target as Target
from .terms.models import Breaker as Breaker
from .terms.presence import OnDetach as OnDetach
from .terms.presence import Present as Present
from .terms.principal import Principal as Principal
from .terms.principal import Proof as Proof
from .terms.questions import Question as Question
from .terms.spec import AgentSpec as AgentSpec
from .terms.spec import Approval as Approval
from .terms.spec import Choice as Choice
from .terms.spec import Execution as Execution
from .terms.spec import Executor as Executor
from .terms.spec import Limits as Limits
from .terms.spec import OnLost as OnLost
from .terms.spec import Resume as Resume
from .terms.spec import ToolSpec as ToolSpec
from .terms.stages import Escalate as Escalate
from .terms.stopping import Stop as Stop
from .terms.turn_stats import TurnStats as TurnStats

if not typing.TYPE_CHECKING:
    __all__ = list(lazy.offered(globals()))
