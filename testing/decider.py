"""The decisions of a rehearsal: by a function of the pending call, or by a mapping from tools to decisions."""

import inspect
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import TypeAlias, get_args

from holdfast.agent import Agent
from holdfast.client.results import AsyncPendingCall
from holdfast.conversation import Decision
from holdfast.conversation.terms.decisions import DECISIONS
from holdfast.conversation.terms.stopping import LIMIT_TOOL, Then
from holdfast.errors import ConfigurationError, InvalidDecision

Deciding: TypeAlias = Callable[[AsyncPendingCall], Decision | Awaitable[Decision | None] | None]
"""A function that decides a pending call, or leaves it waiting with None."""
Decide: TypeAlias = Deciding | Mapping[str, Decision | Deciding | None]
"""One function for all tools, or a decision or function for each."""

FIX = f"give {DECISIONS}, or None to leave the call waiting"


def _asks(agent: Agent) -> bool:
    return agent.spec.stop is not None and agent.spec.stop.then is Then.ASK


class Decider:
    """Decisions for conversations with `agents`; if `decide` is None, every call waits.

    Raises:
        ConfigurationError: `decide` is no function and no mapping, or names a tool that none of the agents has.
    """

    def __init__(self, agents: Collection[Agent], decide: Decide | None) -> None:
        if decide is not None and not callable(decide) and not isinstance(decide, Mapping):
            fix = 'give a function of the pending call, or a mapping such as {"refund": Approve()}'
            raise ConfigurationError("decide", f"{type(decide).__name__} is no function and no mapping", fix)
        if isinstance(decide, Mapping):
            known = ", ".join(dict.fromkeys(tool.name for agent in agents for tool in agent.tools)) or "none"
            asking = {LIMIT_TOOL} if any(_asks(agent) for agent in agents) else set()
            named = (name for name in decide if name not in asking)
            unknown = sorted(str(name) for name in named if not any(agent.tool(name) for agent in agents))
            if unknown:
                problem = f"agent {' or '.join(repr(agent.name) for agent in agents)} has no tool {', '.join(unknown)}"
                raise ConfigurationError("decide", problem, f"name one of its tools: {known}")
        self._decide = decide

    def decides(self, tool: str) -> bool:
        """Whether it may decide calls of this tool."""
        return tool in self._decide if isinstance(self._decide, Mapping) else self._decide is not None

    async def decision(self, call: AsyncPendingCall) -> Decision | None:
        """The decision on a pending call; None leaves it waiting.

        Errors of the function pass through; a value that is no decision raises `InvalidDecision`.
        """
        rule = self._decide.get(call.tool) if isinstance(self._decide, Mapping) else self._decide
        said = rule(call) if callable(rule) else rule
        decision = await said if inspect.isawaitable(said) else said
        if decision is not None and not isinstance(decision, get_args(Decision)):
            raise InvalidDecision("decide", f"it gave {decision!r:.60} for tool {call.tool}, which is no decision", FIX)
        return decision
