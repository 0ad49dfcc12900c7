"""LangGraph: a graph of two nodes, `interrupt()` where a person is asked, `Command(resume=…)`, `durability="sync"`."""

from argparse import Namespace
from contextlib import AsyncExitStack
from operator import add
from pathlib import Path
from typing import Annotated, Any, TypedDict

import contender
from contender import Contender, call_model, tool_message
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, interrupt


class State(TypedDict):
    """The messages, appended to."""

    messages: Annotated[list[dict[str, Any]], add]


async def model(state: State) -> State:
    """Ask the model."""
    return {"messages": [await call_model(state["messages"])]}


def ask(state: State) -> State:
    """Suspend until a person has answered; the node runs again from its start then."""
    (called,) = state["messages"][-1]["tool_calls"]
    answer = interrupt({"tool": called["function"]["name"], "arguments": called["function"]["arguments"]})
    return {"messages": [tool_message(called["id"], answer)]}


def route(state: State) -> str:
    """To the tool while the model asks for it."""
    return "ask" if state["messages"][-1].get("tool_calls") else END


class LangGraph(Contender):
    """One compiled graph over one saver."""

    def __init__(self, options: Namespace) -> None:
        super().__init__(options)
        self.mark = options.store.partition("host=")[2]
        self.postgres = options.store.startswith("postgresql:")
        self.stack = AsyncExitStack()
        saver = "postgres" if self.postgres else "sqlite"
        self.packages = ("langgraph", f"langgraph-checkpoint-{saver}", "litellm")
        self.settings = (
            'AsyncPostgresSaver on a psycopg pool of 16, durability="sync"'
            if self.postgres
            else 'AsyncSqliteSaver (WAL, as its setup makes it), durability="sync"'
        )

    async def open(self) -> None:
        """Open the saver as its documentation does, for Postgres on a connection pool; and import litellm."""
        await contender.import_litellm()
        if self.postgres:
            from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
            from psycopg.rows import dict_row
            from psycopg_pool import AsyncConnectionPool

            settings = {"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row}
            pool = AsyncConnectionPool(self.options.store, min_size=4, max_size=16, open=False, kwargs=settings)
            self.pool = await self.stack.enter_async_context(pool)
            self.saver = AsyncPostgresSaver(self.pool)
        else:
            from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

            self.saver = await self.stack.enter_async_context(AsyncSqliteSaver.from_conn_string(self.options.store))
        await self.saver.setup()
        builder = StateGraph(State)
        builder.add_node("model", model)
        builder.add_node("ask", ask)
        builder.add_edge(START, "model")
        builder.add_conditional_edges("model", route, ["ask", END])
        builder.add_edge("ask", "model")
        self.graph = builder.compile(checkpointer=self.saver)

    async def close(self) -> None:
        """Close the saver."""
        await self.stack.aclose()

    async def suspend(self, name: str) -> None:
        """Run to the interrupt."""
        start = {"messages": [{"role": "user", "content": contender.TEXT}]}
        result = await self.graph.ainvoke(start, _config(name), durability="sync")
        assert result["__interrupt__"], result

    async def resume(self, name: str, answer: str = contender.ANSWER) -> str:
        """Resume with the answer."""
        result = await self.graph.ainvoke(Command(resume=answer), _config(name), durability="sync")
        return result["messages"][-1]["content"]

    async def messages(self, name: str) -> list[dict[str, Any]]:
        """The state of the thread."""
        return (await self.graph.aget_state(_config(name))).values["messages"]

    async def bytes_at_rest(self) -> dict[str, int]:
        """The database's size, its log written back."""
        if self.postgres:
            async with self.pool.connection() as connection:
                await connection.execute("CHECKPOINT")
                row = await (await connection.execute("SELECT pg_database_size(current_database()) AS size")).fetchone()
            return {"disk": row["size"]}
        async with self.saver.lock:
            await (await self.saver.conn.execute("PRAGMA wal_checkpoint(TRUNCATE)")).fetchall()
        files = [Path(f"{self.options.store}{end}") for end in ("", "-wal")]
        return {"disk": sum(file.stat().st_size for file in files if file.exists())}

    async def pending(self) -> dict[str, Any]:
        """There is no index of what waits: every checkpoint is read for the threads, then each thread's state."""
        threads = {each.config["configurable"]["thread_id"] async for each in self.saver.alist(None)}
        found = 0
        for thread in sorted(threads):
            snapshot = await self.graph.aget_state(_config(thread))
            found += bool(snapshot.interrupts)
        return {"found": found, "how": "no index: saver.alist(None) for the threads, then graph.aget_state of each"}


def _config(name: str) -> dict[str, Any]:
    return {"configurable": {"thread_id": name}}


if __name__ == "__main__":
    contender.main(LangGraph)
