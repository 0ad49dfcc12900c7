"""The agents with which a client can start conversations, as they are listed."""

from typing import Any

from pydantic import Field

from holdfast.conversation import AgentSpec, Approval, Executor, ToolSpec
from holdfast.conversation.text import jsontext

from .results import Result


class ToolRow(Result):
    """One tool of an agent in a list."""

    name: str
    description: str = Field(description="What the model reads of it.")
    parameters: Any = Field(description="The JSON Schema of its arguments.")
    executor: Executor = Field(description="Who produces its results.")
    approval: Approval = Field(description="Whether a person confirms a call before it runs.")
    response_schema: Any = Field(default=None, description="The JSON Schema that an answer must fit, if there is one.")

    @classmethod
    def of(cls, spec: ToolSpec) -> "ToolRow":
        """The row of a tool."""
        return cls(
            name=spec.name,
            description=spec.description,
            parameters=jsontext.loads(spec.parameters),
            executor=spec.executor,
            approval=spec.approval,
            response_schema=None if spec.response_schema is None else jsontext.loads(spec.response_schema),
        )


class AgentRow(Result):
    """One agent in a list."""

    name: str = Field(description="The agent's name, which `start` takes.")
    model: str = Field(description="Its model, as litellm names it.")
    tools: tuple[ToolRow, ...] = Field(description="Its tools, in the order in which they are declared.")

    @classmethod
    def of(cls, spec: AgentSpec) -> "AgentRow":
        """The row of an agent. Its instructions are not shown."""
        return cls(name=spec.name, model=spec.model, tools=tuple(ToolRow.of(tool) for tool in spec.tools))
