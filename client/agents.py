"""The agents that a client can start conversations with, as they are shown."""

from dataclasses import dataclass
from typing import Any

from holdfast.conversation import AgentSpec, Approval, Executor, ToolSpec, jsontext


@dataclass(frozen=True, slots=True)
class ToolRow:
    """One tool of an agent in a list.

    Attributes:
        name: The tool's name.
        description: What the model reads of it.
        parameters: The JSON Schema of its arguments.
        executor: Who produces its results.
        approval: Whether a person confirms a call before it runs.
        response_schema: The JSON Schema that an answer must fit, if there is one.
    """

    name: str
    description: str
    parameters: Any
    executor: Executor
    approval: Approval
    response_schema: Any = None

    @classmethod
    def of(cls, spec: ToolSpec) -> "ToolRow":
        """The row of a tool."""
        schema = None if spec.response_schema is None else jsontext.loads(spec.response_schema)
        return cls(spec.name, spec.description, jsontext.loads(spec.parameters), spec.executor, spec.approval, schema)


@dataclass(frozen=True, slots=True)
class AgentRow:
    """One agent in a list.

    Attributes:
        name: The agent's name, which `start` takes.
        model: Its model, as litellm names it.
        tools: Its tools, in the order in which they are declared.
    """

    name: str
    model: str
    tools: tuple[ToolRow, ...]

    @classmethod
    def of(cls, spec: AgentSpec) -> "AgentRow":
        """The row of an agent. Its instructions are not shown."""
        return cls(spec.name, spec.model, tuple(ToolRow.of(tool) for tool in spec.tools))
