"""The declarations of a user: agents, their tools, and the app that holds them.

A declaration is checked when it is made, so a wrong one fails at import: with a `ConfigurationError` (for a permission rule, an
`InvalidRule`) that names the field, the problem and the fix.
"""

import typing

from holdfast import lazy
from holdfast.conversation import AgentSpec as AgentSpec
from holdfast.conversation import Approval as Approval
from holdfast.conversation import Approvers as Approvers
from holdfast.conversation import Breaker as Breaker
from holdfast.conversation import Budget as Budget
from holdfast.conversation import Compact as Compact
from holdfast.conversation import Context as Context
from holdfast.conversation import Executor as Executor
from holdfast.conversation import Limits as Limits
from holdfast.conversation import OnLost as OnLost
from holdfast.conversation import Retain as Retain
from holdfast.conversation import Stop as Stop
from holdfast.conversation import ToolSpec as ToolSpec
from holdfast.conversation import TurnStats as TurnStats

from .agent import Agent as Agent
from .app import App as App
from .approving import TurnContext as TurnContext
from .callback import InvalidArguments as InvalidArguments
from .context import Report as Report
from .context import ToolContext as ToolContext
from .delegate import delegate as delegate
from .digest import code_digest as code_digest
from .models import Model as Model
from .notice import Notice as Notice
from .notify import Email as Email
from .notify import Notify as Notify
from .notify import Slack as Slack
from .notify import Webhook as Webhook
from .path import cipher_path as cipher_path
from .path import load as load
from .path import main_file as main_file
from .path import path_of as path_of
from .path import python_path as python_path
from .questions import ask_user_questions as ask_user_questions
from .rule import Rule as Rule
from .rule import RuleEffect as RuleEffect
from .rules import Rules as Rules
from .rules import Verdict as Verdict
from .suspend import Suspend as Suspend
from .tool import Tool as Tool
from .tool import tool as tool
from .unattended import Unattended as Unattended
from .unattended import UnattendedCall as UnattendedCall

if not typing.TYPE_CHECKING:
    __all__ = list(lazy.offered(globals()))
