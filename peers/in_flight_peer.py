"""LangGraph's conversations in flight: a graph of one node that calls the model, over the SQLite saver."""

from collections.abc import Callable
from contextlib import AsyncExitStack
from operator import add
from typing import Annotated, Any, TypedDict

from benchmarks import flight_driver
from benchmarks.flight_driver import Driver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import END, START, StateGraph


class State(TypedDict):
    """The messages, appended to."""

    messages: Annotated[list[dict[str, Any]], add]


async def model(state: State) -> State:
    """Ask the model."""
    answer = await flight_driver.call_model(state["messages"][-1]["content"])
    return {"messages": [{"role": "assistant", "content": answer}]}


class LangGraph(Driver):
    """One compiled graph over one saver; nothing says when a start is durable."""

    packages = ("langgraph", "langgraph-checkpoint-sqlite", "litellm")
    settings = 'AsyncSqliteSaver (WAL, as its setup makes it), durability="sync"'

    async def open(self) -> None:
        """Open the saver as its documentation does."""
        self.stack = AsyncExitStack()
        saver = await self.stack.enter_async_context(AsyncSqliteSaver.from_conn_string("in-flight.db"))
        await saver.setup()
        builder = StateGraph(State)
        builder.add_node("model", model)
        builder.add_edge(START, "model")
        builder.add_edge("model", END)
        self.graph = builder.compile(checkpointer=saver)

    async def close(self) -> None:
        """Close the saver."""
        await self.stack.aclose()

    async def converse(self, text: str, acknowledged: Callable[[], None]) -> str:
        """Run the graph to its end."""
        start = {"messages": [{"role": "user", "content": text}]}
        result = await self.graph.ainvoke(start, {"configurable": {"thread_id": text}}, durability="sync")
        return result["messages"][-1]["content"]


if __name__ == "__main__":
    flight_driver.main({"langgraph": LangGraph})
