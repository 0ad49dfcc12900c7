"""The event classes of a conversation: `Event.body` is an object of one of them.

`Conversation.events()` yields `Event`. A name's module is imported at its first use.
"""

# ruff: noqa: PLC0414 - `X as X` says to type checkers that a name is offered
from typing import TYPE_CHECKING

from .lazy import lazily

if TYPE_CHECKING:
    from holdfast.client.results import Event as Event
    from holdfast.client.results import EventBody as EventBody
    from holdfast.conversation.records.event_base import FailureReason as FailureReason
    from holdfast.conversation.records.event_base import StopReason as StopReason
    from holdfast.conversation.records.event_base import SummaryFailure as SummaryFailure
    from holdfast.conversation.records.events import CallAssigned as CallAssigned
    from holdfast.conversation.records.events import CallClaimed as CallClaimed
    from holdfast.conversation.records.events import CallCommented as CallCommented
    from holdfast.conversation.records.events import CallEscalated as CallEscalated
    from holdfast.conversation.records.events import CallGivenBack as CallGivenBack
    from holdfast.conversation.records.events import CallHeld as CallHeld
    from holdfast.conversation.records.events import CallReminded as CallReminded
    from holdfast.conversation.records.events import CallResolved as CallResolved
    from holdfast.conversation.records.events import CallSnoozed as CallSnoozed
    from holdfast.conversation.records.events import CallSuspended as CallSuspended
    from holdfast.conversation.records.events import Compacted as Compacted
    from holdfast.conversation.records.events import CompactionRequested as CompactionRequested
    from holdfast.conversation.records.events import CompactionStarted as CompactionStarted
    from holdfast.conversation.records.events import ContextOverflowed as ContextOverflowed
    from holdfast.conversation.records.events import ConversationStarted as ConversationStarted
    from holdfast.conversation.records.events import Ended as Ended
    from holdfast.conversation.records.events import GivenRevoked as GivenRevoked
    from holdfast.conversation.records.events import GrantGiven as GrantGiven
    from holdfast.conversation.records.events import GrantRevoked as GrantRevoked
    from holdfast.conversation.records.events import InputDue as InputDue
    from holdfast.conversation.records.events import InputJoined as InputJoined
    from holdfast.conversation.records.events import InputRescheduled as InputRescheduled
    from holdfast.conversation.records.events import InputSuperseded as InputSuperseded
    from holdfast.conversation.records.events import InputWithdrawn as InputWithdrawn
    from holdfast.conversation.records.events import MessageAccepted as MessageAccepted
    from holdfast.conversation.records.events import ModelAnswered as ModelAnswered
    from holdfast.conversation.records.events import NothingCancelled as NothingCancelled
    from holdfast.conversation.records.events import Origin as Origin
    from holdfast.conversation.records.events import PendingCancelled as PendingCancelled
    from holdfast.conversation.records.events import RequestedCall as RequestedCall
    from holdfast.conversation.records.events import RunScheduled as RunScheduled
    from holdfast.conversation.records.events import SettledBy as SettledBy
    from holdfast.conversation.records.events import StopReached as StopReached
    from holdfast.conversation.records.events import SummaryFailed as SummaryFailed
    from holdfast.conversation.records.events import SuspensionSettled as SuspensionSettled
    from holdfast.conversation.records.events import TurnCancelled as TurnCancelled
    from holdfast.conversation.records.events import TurnCompleted as TurnCompleted
    from holdfast.conversation.records.events import TurnFailed as TurnFailed
    from holdfast.conversation.records.events import TurnStarted as TurnStarted
    from holdfast.conversation.records.events import VoteCast as VoteCast
    from holdfast.conversation.records.live import ArgumentsDelta as ArgumentsDelta
    from holdfast.conversation.records.live import ProgressReported as ProgressReported
    from holdfast.conversation.records.live import ReasoningDelta as ReasoningDelta
    from holdfast.conversation.records.live import TextDelta as TextDelta
    from holdfast.conversation.terms.approvers import ApproverTerms as ApproverTerms
    from holdfast.conversation.terms.decisions import DecisionKind as DecisionKind
    from holdfast.conversation.terms.decisions import SuspensionKind as SuspensionKind
    from holdfast.conversation.terms.grants import CallTarget as CallTarget
    from holdfast.conversation.terms.grants import Grant as Grant
    from holdfast.conversation.terms.grants import Level as Level
    from holdfast.conversation.terms.presence import OnDetach as OnDetach
    from holdfast.conversation.terms.principal import Principal as Principal
    from holdfast.conversation.terms.principal import Proof as Proof
    from holdfast.conversation.terms.spec import Approval as Approval
    from holdfast.conversation.terms.spec import Choice as Choice
    from holdfast.conversation.terms.spec import Executor as Executor
    from holdfast.conversation.terms.spec import OnLost as OnLost
    from holdfast.conversation.terms.spec import Resume as Resume

__getattr__ = lazily(__name__)
