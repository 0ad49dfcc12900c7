"""The app of the recorded conversations: the airline agent, and one agent for each parallel turn.

Every tool answers what its recording says, and writes down that it ran: one line a run, by idempotency key.
"""

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

from holdfast.agent import Agent, App, Tool, ToolContext

DATA = Path(os.environ.get("HOLDFAST_TEST_DATA", Path(__file__).parents[2] / ".." / "shared" / "data")).resolve()
RUNS = Path(os.environ.get("HOLDFAST_TEST_RUNS", "/nonexistent"))


def recordings() -> dict[str, dict[str, Any]]:
    """All recordings by conversation id."""
    found = {}
    for name in ("airline", "parallel"):
        with (DATA / f"{name}.conversations.jsonl").open() as lines:
            for line in lines:
                recording = json.loads(line)
                found[recording["conversation_id"]] = recording
    return found


def calls_of(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Each recorded call with its result, in order; `unique` says whether its id occurs once in the recording."""
    ids = Counter(call["id"] for message in messages for call in message.get("tool_calls") or [])
    found = []
    for position, message in enumerate(messages):
        for index, call in enumerate(message.get("tool_calls") or []):
            result = messages[position + 1 + index]
            assert result["role"] == "tool"
            found.append(
                {
                    "id": call["id"],
                    "unique": ids[call["id"]] == 1,
                    "name": call["function"]["name"],
                    "arguments": json.loads(call["function"]["arguments"]),
                    "content": result["content"],
                }
            )
    return found


def result_of(calls: list[dict[str, Any]], call_id: str, name: str, arguments: dict[str, Any], occurrence: int) -> str:
    """What the recording says that a call gives: by its id where that is unique, else by its occurrence."""
    for call in calls:
        if call["unique"] and call["id"] == call_id:
            return str(call["content"])
    same = [call["content"] for call in calls if call["name"] == name and call["arguments"] == arguments]
    return str(same[min(occurrence, len(same) - 1)])


def recording_of(conversation_id: str) -> str:
    """The recording that a conversation replays: its id, less what a test put before it."""
    return conversation_id.rpartition(":")[2]


def _callback(name: str) -> Any:
    async def run(holdfast_context: ToolContext, **arguments: Any) -> str:
        conversation_id = holdfast_context.conversation_id
        log = RUNS / conversation_id
        ran = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
        entry = {
            "key": holdfast_context.tool_call_id,
            "attempt": holdfast_context.attempt,
            "name": name,
            "arguments": arguments,
        }
        before = {run["key"] for run in ran if run["name"] == name and run["arguments"] == arguments}
        with log.open("a") as lines:
            lines.write(json.dumps(entry) + "\n")
        calls = calls_of(_RECORDINGS[recording_of(conversation_id)]["messages"])
        return result_of(calls, entry["key"], name, arguments, len(before - {entry["key"]}))

    return run


def _tool(spec: dict[str, Any]) -> Tool:
    callback = _callback(spec["name"]) if spec["executor"] == "server" else None
    return Tool(
        name=spec["name"],
        description=spec["description"],
        parameters=spec["parameters"],
        executor=spec["executor"],
        approval=spec["approval"],
        callback=callback,
    )


_RECORDINGS = recordings() if DATA.is_dir() else {}


def _agents(airline_execution: str = "parallel", execution: str = "parallel") -> list[Agent]:
    if not _RECORDINGS:
        return []
    airline = json.loads((DATA / "airline.agent.json").read_text())
    tools = [_tool(spec) for spec in airline["tools"]]
    agents = [Agent(name="airline", instructions=airline["instructions"], tools=tools, execution=airline_execution)]
    agents += [
        Agent(name=name, tools=[_tool(spec) for spec in recording["tools"]], execution=execution)
        for name, recording in _RECORDINGS.items()
        if "tools" in recording
    ]
    return agents


app = App(agents=_agents(), env=["*_API_KEY", "*_API_BASE", "HOLDFAST_TEST_*"])
in_turn = App(agents=_agents("sequential", "batch"), env=["*_API_KEY", "*_API_BASE", "HOLDFAST_TEST_*"])
"""The same, whose calls wait for one another: the airline's go one after the other, the others when all are decided."""
