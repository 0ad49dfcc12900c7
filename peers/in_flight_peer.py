"""LangGraph's conversations in flight: a graph of one node that calls the model, over its SQLite or its Postgres saver.

Conversations whose text begins with `look` go through another graph, of a model and a tool that runs as often as it asks.

The variable IN_FLIGHT_STORE has the URL of a Postgres database; without it, the saver is that of SQLite.
"""

import os
from collections.abc import Callable
from contextlib import AsyncExitStack
from operator import add
from typing import Annotated, Any, TypedDict

import contender
from benchmarks import flight_driver
from benchmarks.flight_driver import Driver
from langgraph.graph import END, START, StateGraph

STORE = os.environ.get("IN_FLIGHT_STORE")
LOOK = [{**tool, "function": {**tool["function"], "name": "look", "description": "Look it up."}} for tool in contender.TOOLS]


class State(TypedDict):
    """The messages, appended to."""

    messages: Annotated[list[dict[str, Any]], add]


async def model(state: State) -> State:
    """Ask the model."""
    answer = await flight_driver.call_model(state["messages"][-1]["content"])
    return {"messages": [{"role": "assistant", "content": answer}]}


async def asking(state: State) -> State:
    """Ask the model, which may call the tool."""
    return {"messages": [await contender.call_model(state["messages"], LOOK)]}


async def look(state: State) -> State:
    """Run the tool."""
    return {"messages": [contender.tool_message(one["id"], "It is there.") for one in state["messages"][-1]["tool_calls"]]}


def route(state: State) -> str:
    """To the tool while the model calls it."""
    return "look" if state["messages"][-1].get("tool_calls") else END


class LangGraph(Driver):
    """One compiled graph over one saver; nothing says when a start is durable."""

    packages = ("langgraph", f"langgraph-checkpoint-{'postgres' if STORE else 'sqlite'}", "litellm")
    settings = (
        'AsyncPostgresSaver on a psycopg pool of 16, durability="sync"; its server is not counted'
        if STORE
        else 'AsyncSqliteSaver (WAL, as its setup makes it), durability="sync"'
    )

    async def open(self) -> None:
        """Open the saver as its documentation does, for Postgres on a connection pool."""
        self.stack = AsyncExitStack()
        saver: Any
        if STORE:
            from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
            from psycopg.rows import dict_row
            from psycopg_pool import AsyncConnectionPool

            settings = {"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row}
            pool = AsyncConnectionPool(STORE, min_size=4, max_size=16, open=False, kwargs=settings)
            saver = AsyncPostgresSaver(await self.stack.enter_async_context(pool))
        else:
            from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

            saver = await self.stack.enter_async_context(AsyncSqliteSaver.from_conn_string("in-flight.db"))
        await saver.setup()
        builder = StateGraph(State)
        builder.add_node("model", model)
        builder.add_edge(START, "model")
        builder.add_edge("model", END)
        self.graph = builder.compile(checkpointer=saver)
        rounds = StateGraph(State)
        rounds.add_node("asking", asking)
        rounds.add_node("look", look)
        rounds.add_edge(START, "asking")
        rounds.add_conditional_edges("asking", route, ["look", END])
        rounds.add_edge("look", "asking")
        self.rounds = rounds.compile(checkpointer=saver)

    async def close(self) -> None:
        """Close the saver."""
        await self.stack.aclose()

    async def converse(self, text: str, acknowledged: Callable[[], None]) -> str:
        """Run the graph to its end."""
        start = {"messages": [{"role": "user", "content": text}]}
        graph = self.rounds if text.startswith("look") else self.graph
        result = await graph.ainvoke(start, {"configurable": {"thread_id": text}}, durability="sync")
        return result["messages"][-1]["content"]


if __name__ == "__main__":
    flight_driver.main({"langgraph": LangGraph})
