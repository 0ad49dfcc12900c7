import subprocess
import sys

import pytest

import holdfast.agent


def test_the_public_names_are_these():
    assert holdfast.agent.__all__ == [
        "Agent",
        "AgentSpec",
        "App",
        "Approval",
        "Approvers",
        "Breaker",
        "Budget",
        "Compact",
        "Context",
        "Email",
        "Executor",
        "InvalidArguments",
        "Limits",
        "Model",
        "Notice",
        "Notify",
        "OnLost",
        "Report",
        "Retain",
        "Rule",
        "RuleEffect",
        "Rules",
        "Slack",
        "Stop",
        "Suspend",
        "Tool",
        "ToolContext",
        "ToolSpec",
        "TurnContext",
        "TurnStats",
        "Unattended",
        "UnattendedCall",
        "Verdict",
        "Webhook",
        "ask_user_questions",
        "cipher_path",
        "code_digest",
        "delegate",
        "load",
        "main_file",
        "path_of",
        "python_path",
        "tool",
    ]
    assert callable(holdfast.agent.tool)


@pytest.mark.parametrize("module", ["ray", "redis", "litellm"])
def test_declaring_imports_no_infrastructure(module):
    code = f"import sys, holdfast.agent; sys.exit({module!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
