"""The declarations of a user: agents, their tools, and the app that holds them.

A declaration is checked where it stands, so a wrong one fails at import, with an error that names the field and the fix.
"""

from holdfast.conversation import AgentSpec, Approval, Executor, Limits, OnLost, ToolSpec

from .agent import Agent
from .app import App
from .callback import InvalidArguments
from .context import Report, ToolContext
from .digest import code_digest
from .path import cipher_path, load, main_file, path_of, python_path
from .suspend import Suspend
from .tool import Tool, tool

__all__ = [
    "Agent",
    "AgentSpec",
    "App",
    "Approval",
    "Executor",
    "InvalidArguments",
    "Limits",
    "OnLost",
    "Report",
    "Suspend",
    "Tool",
    "ToolContext",
    "ToolSpec",
    "cipher_path",
    "code_digest",
    "load",
    "main_file",
    "path_of",
    "python_path",
    "tool",
]
