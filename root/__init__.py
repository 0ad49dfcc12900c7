"""The public API of Holdfast: every name that users import, and every error.

A name's module is imported at its first use, so `import holdfast` is cheap. This folder also holds the modules that all
packages share (errors, settings, redaction, the place of a cipher); it imports none of the packages.
"""

from typing import TYPE_CHECKING, Any

from .lazy import lazily

if TYPE_CHECKING:
    from holdfast.agent.agent import Agent as Agent
    from holdfast.agent.app import App as App
    from holdfast.agent.approving import TurnContext as TurnContext
    from holdfast.agent.context import Report as Report
    from holdfast.agent.context import ToolContext as ToolContext
    from holdfast.agent.delegate import delegate as delegate
    from holdfast.agent.models import Model as Model
    from holdfast.agent.notice import Notice as Notice
    from holdfast.agent.notify import Email as Email
    from holdfast.agent.notify import Notify as Notify
    from holdfast.agent.notify import Slack as Slack
    from holdfast.agent.notify import Webhook as Webhook
    from holdfast.agent.questions import ask_user_questions as ask_user_questions
    from holdfast.agent.rule import Rule as Rule
    from holdfast.agent.rules import Rules as Rules
    from holdfast.agent.suspend import Suspend as Suspend
    from holdfast.agent.tool import Tool as Tool
    from holdfast.agent.tool import tool as tool
    from holdfast.agent.unattended import Unattended as Unattended
    from holdfast.agent.unattended import UnattendedCall as UnattendedCall
    from holdfast.client.agents import AgentRow as AgentRow
    from holdfast.client.agents import BudgetRow as BudgetRow
    from holdfast.client.agents import ToolRow as ToolRow
    from holdfast.client.async_client import AsyncClient as AsyncClient
    from holdfast.client.attached import AsyncAttached as AsyncAttached
    from holdfast.client.audit import AuditReport as AuditReport
    from holdfast.client.blocking import Attached as Attached
    from holdfast.client.blocking import Client as Client
    from holdfast.client.blocking import Conversation as Conversation
    from holdfast.client.cautions import AppDiffersWarning as AppDiffersWarning
    from holdfast.client.cautions import DurabilityWarning as DurabilityWarning
    from holdfast.client.context_view import ContextView as ContextView
    from holdfast.client.conversation import AsyncConversation as AsyncConversation
    from holdfast.client.given import Given as Given
    from holdfast.client.given import GivenVote as GivenVote
    from holdfast.client.handlers import ClientContext as ClientContext
    from holdfast.client.list_events import AsyncListEvent as AsyncListEvent
    from holdfast.client.list_events import ListEvent as ListEvent
    from holdfast.client.list_events import ListEventKind as ListEventKind
    from holdfast.client.log_pages import MessagePage as MessagePage
    from holdfast.client.log_pages import TurnPage as TurnPage
    from holdfast.client.outbox import Undelivered as Undelivered
    from holdfast.client.results import AsyncPendingCall as AsyncPendingCall
    from holdfast.client.results import ConversationState as ConversationState
    from holdfast.client.results import Event as Event
    from holdfast.client.results import LateResult as LateResult
    from holdfast.client.results import Link as Link
    from holdfast.client.results import Page as Page
    from holdfast.client.results import PendingCall as PendingCall
    from holdfast.client.results import RunningCall as RunningCall
    from holdfast.client.results import Wait as Wait
    from holdfast.client.rule_check import RuleCheck as RuleCheck
    from holdfast.client.summary import Summary as Summary
    from holdfast.client.summary import SummaryStatus as SummaryStatus
    from holdfast.client.tree import Node as Node
    from holdfast.client.turns import Message as Message
    from holdfast.client.turns import MessageStatus as MessageStatus
    from holdfast.client.turns import QueuedMessage as QueuedMessage
    from holdfast.client.turns import Turn as Turn
    from holdfast.client.turns import TurnStatus as TurnStatus
    from holdfast.client.usage import Usage as Usage
    from holdfast.client.usage import UsageBy as UsageBy
    from holdfast.client.usage import UsageReport as UsageReport
    from holdfast.client.usage import UsageRow as UsageRow
    from holdfast.conversation.judging.judgement import Cancelled as Cancelled
    from holdfast.conversation.judging.judgement import ClaimReceipt as ClaimReceipt
    from holdfast.conversation.judging.judgement import Interrupted as Interrupted
    from holdfast.conversation.judging.judgement import Receipt as Receipt
    from holdfast.conversation.log.auditing import AuditEntry as AuditEntry
    from holdfast.conversation.log.chain import AuditBreak as AuditBreak
    from holdfast.conversation.records.event_base import FailureReason as FailureReason
    from holdfast.conversation.records.event_base import StopReason as StopReason
    from holdfast.conversation.records.input_commands import When as When
    from holdfast.conversation.records.input_events import Origin as Origin
    from holdfast.conversation.records.state import Status as Status
    from holdfast.conversation.terms.approvers import Approvers as Approvers
    from holdfast.conversation.terms.budget import Budget as Budget
    from holdfast.conversation.terms.context import Compact as Compact
    from holdfast.conversation.terms.context import Context as Context
    from holdfast.conversation.terms.context import Retain as Retain
    from holdfast.conversation.terms.decisions import Answer as Answer
    from holdfast.conversation.terms.decisions import Approve as Approve
    from holdfast.conversation.terms.decisions import Cancel as Cancel
    from holdfast.conversation.terms.decisions import Decision as Decision
    from holdfast.conversation.terms.decisions import Deny as Deny
    from holdfast.conversation.terms.decisions import Fail as Fail
    from holdfast.conversation.terms.decisions import Redispatch as Redispatch
    from holdfast.conversation.terms.decisions import Review as Review
    from holdfast.conversation.terms.decisions import ReviewVerdict as ReviewVerdict
    from holdfast.conversation.terms.decisions import SuspensionKind as SuspensionKind
    from holdfast.conversation.terms.delegation import Ancestor as Ancestor
    from holdfast.conversation.terms.grants import Grant as Grant
    from holdfast.conversation.terms.grants import Level as Level
    from holdfast.conversation.terms.grants import Scope as Scope
    from holdfast.conversation.terms.grants import Target as Target
    from holdfast.conversation.terms.models import Breaker as Breaker
    from holdfast.conversation.terms.overrides import Overrides as Overrides
    from holdfast.conversation.terms.parts import FilePart as FilePart
    from holdfast.conversation.terms.parts import ImagePart as ImagePart
    from holdfast.conversation.terms.parts import TextPart as TextPart
    from holdfast.conversation.terms.presence import OnDetach as OnDetach
    from holdfast.conversation.terms.principal import Principal as Principal
    from holdfast.conversation.terms.principal import Proof as Proof
    from holdfast.conversation.terms.questions import Question as Question
    from holdfast.conversation.terms.spec import Limits as Limits
    from holdfast.conversation.terms.spec import NoticeKind as NoticeKind
    from holdfast.conversation.terms.stages import Escalate as Escalate
    from holdfast.conversation.terms.stopping import Stop as Stop
    from holdfast.conversation.terms.turn_stats import TurnStats as TurnStats
    from holdfast.persistence import ConversationRow as ConversationRow
    from holdfast.persistence import Pause as Pause

    from .errors import *  # noqa: F403 - all errors
    from .errors import LinkProblem as LinkProblem
    from .errors import StaleReason as StaleReason

_imported = lazily(__name__, family=("holdfast.errors", "HoldfastError"))


def __getattr__(name: str) -> Any:
    match name:
        case "__version__":
            from importlib import metadata  # noqa: PLC0415 - half of the time of `import holdfast`

            return metadata.version("holdfast")
        case "__all__":
            return sorted([*_imported(name), "__version__"])
    return _imported(name)
