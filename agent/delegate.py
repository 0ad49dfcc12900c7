"""Delegation: a tool whose calls another agent of the app answers, in a conversation of its own."""

import copy
import logging
import re
from collections.abc import Callable, Sequence
from typing import Any, TypedDict, Unpack

from holdfast.conversation.terms.delegation import MOST_DEPTH, USUAL_DEPTH
from holdfast.conversation.terms.spec import Executor
from holdfast.conversation.text.jsontext import JsonText, dumps
from holdfast.errors import ConfigurationError

from . import checks
from .agent import NAME, Agent
from .approving import Needs
from .functions import DecidedBy, Touched, UntoldError, asked, is_async, takes
from .timeouts import Declared
from .tool import Prompt, Tool

UNTOLD = "its context could not be made"
"""What the model is told if `context` fails."""
_PARAMETERS = {
    "type": "object",
    "properties": {
        "task": {"type": "string", "minLength": 1, "description": "What to do, in words: the agent knows nothing else of this."}
    },
    "required": ["task"],
    "additionalProperties": False,
}
_LOG = logging.getLogger("holdfast.agent")


class Options(TypedDict, total=False):
    """The options of `delegate` that are those of `Tool`: about the approval of a call, before the other agent is asked."""

    approval: str | Needs
    approvers: DecidedBy | None
    approval_timeout_s: float | None
    decisions: Sequence[str] | None
    on_timeout: Declared
    primary: str | None
    prompt: Prompt | None
    reminders_s: Sequence[float]
    targets: Touched | None


class Delegate(Tool):
    """See `delegate`."""

    def __init__(
        self,
        agent: str,
        *,
        name: str,
        description: str,
        deadline_s: float | None,
        max_depth: int,
        context: Callable[[Any], Any] | None,
        **options: Unpack[Options],
    ) -> None:
        super().__init__(name=name, description=description, parameters=_PARAMETERS, executor=Executor.AGENT, **options)
        field = f"tool {self.name!r}"
        if isinstance(max_depth, bool) or not isinstance(max_depth, int) or not 1 <= max_depth <= MOST_DEPTH:
            problem = f"{max_depth!r:.60} is no number of levels"
            raise ConfigurationError(f"{field}.max_depth", problem, f"give 1 to {MOST_DEPTH}")
        if context is not None and (not callable(context) or is_async(context) or not takes(context, None)):
            problem = "it is no plain function of the conversation's context"
            fix = "give a function (not async) that takes the context and returns what the other agent gets"
            raise ConfigurationError(f"{field}.context", problem, fix)
        deadline = checks.seconds(deadline_s, f"{field}.deadline_s")
        self.spec = self.spec.model_copy(update={"agent": agent, "max_depth": max_depth, "answer_timeout_s": deadline})
        self.context = context

    def child_context(self, context: Any) -> tuple[JsonText | None, str | None]:
        """The JSON text of the child's context, None if it is the conversation's own, and why it could not be made."""
        if self.context is None:
            return None, None
        function = self.context
        try:
            return asked(lambda: function(copy.deepcopy(context)), dumps, f"{self.name}: {UNTOLD}"), None
        except UntoldError:
            return None, UNTOLD


def delegate(
    agent: str | Agent,
    *,
    name: str | None = None,
    description: str | None = None,
    deadline_s: float | None = None,
    max_depth: int = USUAL_DEPTH,
    context: Callable[[Any], Any] | None = None,
    **options: Unpack[Options],
) -> Tool:
    """A tool for the `tools=` of an agent, whose calls another agent of the app answers, in a conversation of its own.

    The model gives a `task` as text; the other agent's reply to it is the result, or the error that says why there is none. The
    call waits for it without a process. The other conversation, the child, ends with its reply; it ends before if the call, its
    turn or its conversation does. Its own agent's rules and approvals apply to it, and no grant of this conversation does.

    Args:
        agent: The other agent, or its name.
        name: The tool's name; `ask_` and the agent's name by default.
        description: The text that the model reads about the tool: what the other agent is for.
        deadline_s: How long the answer may take, in seconds, and whatever waits below; `Limits.answer_timeout_s` by default.
        max_depth: How many levels of conversations may stand below this one, by this tool; at most 8. Agents never delegate to
            one that already works above them.
        context: A plain function, run in a worker, of this conversation's context; it returns that of the child, a JSON value.
            Without it, the child gets the same context. If it fails, the call does.
        options: Options of `Tool`, about who approves a call before the other agent is asked.

    Raises:
        ConfigurationError: One of them cannot be used.
    """
    named = agent.name if isinstance(agent, Agent) else agent
    if not isinstance(named, str) or not NAME.fullmatch(named):
        raise ConfigurationError("delegate.agent", f"{named!r:.60} is no agent", "give an agent of the app, or its name")
    usual = f"Ask the agent {named!r} to do a task. It answers once it is done, which may take long."
    return Delegate(
        named,
        name=f"ask_{re.sub(r'[^a-zA-Z0-9_-]', '_', named)}"[:64] if name is None else name,
        description=usual if description is None else description,
        deadline_s=deadline_s,
        max_depth=max_depth,
        context=context,
        **options,
    )
