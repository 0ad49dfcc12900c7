"""The declarations of a user: agents, their tools, and the app that holds them.

A declaration is checked where it stands, so that a wrong one fails at import: with a `ConfigurationError` (for a permission
rule, an `InvalidRule`) that names the field, the problem and the fix.
"""

from holdfast.conversation import AgentSpec, Approval, Approvers, Executor, Limits, OnLost, ToolSpec

from .agent import Agent
from .app import App
from .approving import TurnContext
from .callback import InvalidArguments
from .context import Report, ToolContext
from .digest import code_digest
from .path import cipher_path, load, main_file, path_of, python_path
from .questions import ask_user_questions
from .rule import Rule, RuleEffect
from .rules import Rules, Verdict
from .suspend import Suspend
from .tool import Tool, tool
from .unattended import Unattended, UnattendedCall

__all__ = [
    "Agent",
    "AgentSpec",
    "App",
    "Approval",
    "Approvers",
    "Executor",
    "InvalidArguments",
    "Limits",
    "OnLost",
    "Report",
    "Rule",
    "RuleEffect",
    "Rules",
    "Suspend",
    "Tool",
    "ToolContext",
    "ToolSpec",
    "TurnContext",
    "Unattended",
    "UnattendedCall",
    "Verdict",
    "ask_user_questions",
    "cipher_path",
    "code_digest",
    "load",
    "main_file",
    "path_of",
    "python_path",
    "tool",
]
