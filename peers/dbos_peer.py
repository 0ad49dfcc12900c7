"""DBOS: a workflow that calls the model in steps, says in an event what it asks, and waits for the answer in `recv`."""

import asyncio
from argparse import Namespace
from pathlib import Path
from typing import Any

import contender
import sqlalchemy
from contender import Contender, call_model, tool_message
from dbos import DBOS, DBOSConfig, SetWorkflowID

ANSWER_WITHIN_S = 7 * 86_400
POLL_S = 0.01


@DBOS.step()
async def model(messages: list[dict[str, Any]]) -> dict[str, Any]:
    """Ask the model."""
    return await call_model(messages)


@DBOS.workflow()
async def conversation(text: str) -> list[dict[str, Any]]:
    """The whole conversation, to its messages."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": text}]
    while True:
        messages.append(await model(messages))
        calls = messages[-1].get("tool_calls")
        if not calls:
            return messages
        (called,) = calls
        await DBOS.set_event_async("pending", called["function"])
        answer = await DBOS.recv_async("answer", timeout_seconds=ANSWER_WITHIN_S)
        await DBOS.set_event_async("pending", None)
        messages.append(tool_message(called["id"], answer))


class Dbos(Contender):
    """One executor."""

    packages = ("dbos", "sqlalchemy", "litellm")
    held_by = "the executor: a coroutine for each"

    def __init__(self, options: Namespace) -> None:
        super().__init__(options)
        self.mark = options.store.partition("host=")[2]
        self.postgres = options.store.startswith("postgresql")
        self.settings = (
            "async workflow and steps, LISTEN/NOTIFY (its default)"
            if self.postgres
            else f"async workflow and steps, notification_listener_polling_interval_sec={POLL_S} (default 1.0)"
        )
        self.file = Path(options.store.removeprefix("sqlite:///"))
        self.handles: dict[str, Any] = {}

    async def open(self) -> None:
        """Import litellm and launch, which also recovers what waits."""
        await contender.import_litellm()
        config: DBOSConfig = {"name": "bench", "system_database_url": self.options.store, "log_level": "ERROR"}
        if not self.postgres:
            config["notification_listener_polling_interval_sec"] = POLL_S
        DBOS(config=config)
        DBOS.launch()

    async def close(self) -> None:
        """Shut down."""
        DBOS.destroy()

    async def suspend(self, name: str) -> None:
        """Start the workflow and wait for its event."""
        with SetWorkflowID(name):
            self.handles[name] = await DBOS.start_workflow_async(conversation, contender.TEXT)
        asked = await DBOS.get_event_async(name, "pending", timeout_seconds=120)
        assert asked, asked

    async def resume(self, name: str, answer: str = contender.ANSWER) -> str:
        """Send the answer and wait for the result."""
        await DBOS.send_async(name, answer, "answer")
        return (await self.messages(name))[-1]["content"]

    async def messages(self, name: str) -> list[dict[str, Any]]:
        """The result of the workflow."""
        handle = self.handles.get(name) or await DBOS.retrieve_workflow_async(name)
        return await handle.get_result(polling_interval_sec=POLL_S)

    async def bytes_at_rest(self) -> dict[str, int]:
        """The database's size."""
        if self.postgres:
            engine = sqlalchemy.create_engine(self.options.store, isolation_level="AUTOCOMMIT")
            with engine.connect() as connection:
                connection.execute(sqlalchemy.text("CHECKPOINT"))
                size = connection.execute(sqlalchemy.text("SELECT pg_database_size(current_database())")).scalar_one()
            engine.dispose()
            return {"disk": size}
        return {"disk": (await asyncio.to_thread(self.file.stat)).st_size}

    async def pending(self) -> dict[str, Any]:
        """Which workflows have not ended is indexed; what each asks is an event to be read."""
        found = 0
        for status in await DBOS.list_workflows_async(status="PENDING", load_input=False, load_output=False):
            asked = await DBOS.get_event_async(status.workflow_id, "pending", timeout_seconds=0)
            found += asked is not None
        return {"found": found, "how": 'list_workflows(status="PENDING"), then get_event of each'}


if __name__ == "__main__":
    contender.main(Dbos)
