"""The app of the recorded conversations: the airline agent, and one agent for each parallel turn.

Every tool answers what its recording says, and writes down that it ran: one line a run, by idempotency key.
"""

import json
import os
from collections import Counter
from itertools import count
from pathlib import Path
from typing import Any

from holdfast.agent import Agent, App, Rule, Rules, Tool, ToolContext, delegate
from holdfast.client import ClientContext
from holdfast.conversation.terms.context import Context
from holdfast.conversation.terms.grants import Target
from holdfast.conversation.terms.spec import AgentSpec
from holdfast.conversation.window import budget_of, fixed_tokens, message_tokens

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


def _carried_out(entry: dict[str, Any], conversation_id: str, recording: str) -> str:
    """What the recording says that a call gives which a body or a client carries out; that it ran is written down."""
    log = RUNS / conversation_id
    ran = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    name, arguments, key = entry["name"], entry["arguments"], entry["key"]
    before = {run["key"] for run in ran if run["name"] == name and run["arguments"] == arguments}
    with log.open("a") as lines:
        lines.write(json.dumps(entry) + "\n")
    calls = calls_of(_RECORDINGS[recording]["messages"])
    return result_of(calls, key, name, arguments, len(before - {key}))


def _entry(name: str, key: str, attempt: int, arguments: dict[str, Any]) -> dict[str, Any]:
    return {"key": key, "attempt": attempt, "name": name, "arguments": arguments}


def _callback(name: str) -> Any:
    async def run(holdfast_context: ToolContext, **arguments: Any) -> str:
        entry = _entry(name, holdfast_context.tool_call_id, holdfast_context.attempt, arguments)
        conversation_id, context = holdfast_context.conversation_id, holdfast_context.context or {}
        return _carried_out(entry, conversation_id, context.get("recording") or recording_of(conversation_id))

    return run


def handlers(conversation_id: str) -> dict[str, Any]:
    """The handlers of a client that carries out all tools of a conversation, each as its body would."""

    def handler(name: str) -> Any:
        async def handle(arguments: dict[str, Any], context: ClientContext) -> str:
            entry = _entry(name, context.call.tool_call_id, context.attempt, arguments)
            return _carried_out(entry, conversation_id, recording_of(conversation_id))

        return handle

    return {spec["name"]: handler(spec["name"]) for spec in tools_of(_RECORDINGS[recording_of(conversation_id)])}


def tools_of(recording: dict[str, Any]) -> list[dict[str, Any]]:
    """The declarations of the tools that a recording's agent has."""
    return recording["tools"] if "tools" in recording else json.loads((DATA / "airline.agent.json").read_text())["tools"]


def is_gated(spec: dict[str, Any]) -> bool:
    """Whether somebody has to approve a call of the tool."""
    return bool(spec["approval"] == "required")


def touched(spec: dict[str, Any], arguments: dict[str, Any]) -> Target:
    """What a grant has to cover: of the airline's changes the reservation, else the tool."""
    if "reservation_id" in spec["parameters"]["properties"]:
        return Target("reservation", arguments["reservation_id"], level="write")
    return Target("tool", spec["name"])


def _tool(spec: dict[str, Any], *, targets: bool = False) -> Tool:
    callback = _callback(spec["name"]) if spec["executor"] == "server" else None
    says = targets and is_gated(spec) and "reservation_id" in spec["parameters"]["properties"]
    return Tool(
        name=spec["name"],
        description=spec["description"],
        parameters=spec["parameters"],
        executor=spec["executor"],
        approval=spec["approval"],
        callback=callback,
        targets=(lambda arguments: [touched(spec, arguments)]) if says else None,
    )


def _rules(specs: list[dict[str, Any]]) -> Rules:
    """Who is asked and what runs is said here, and nowhere else: what no rule is about does not run."""
    return Rules(
        allow=[spec["name"] for spec in specs if not is_gated(spec)],
        ask=[Rule(spec["name"], name=f"asks about {spec['name']}") for spec in specs if is_gated(spec)],
        deny=['*(user_id = "nobody")', "Bash(rm *)"],
        default="deny",
    )


_RECORDINGS = recordings() if DATA.is_dir() else {}


def _agents(way: str = "", **given: Any) -> list[Agent]:
    """An agent for all that the airline recorded, and one for each parallel turn."""
    if not _RECORDINGS:
        return []
    airline = json.loads((DATA / "airline.agent.json").read_text())
    held = {name: [recording] for name, recording in _RECORDINGS.items() if "tools" in recording}
    of_airline = [recording for name, recording in _RECORDINGS.items() if name not in held]
    agents = [_agent(f"{way}airline", airline["tools"], of_airline, instructions=airline["instructions"], **given)]
    return agents + [_agent(way + name, of_one[0]["tools"], of_one, **given) for name, of_one in held.items()]


def _agent(
    name: str,
    specs: list[dict[str, Any]],
    held: list[dict[str, Any]],
    *,
    instructions: str = "",
    execution: str = "parallel",
    targets: bool = False,
    ruled: bool = False,
    executor: str = "",
    windowed: bool = False,
) -> Agent:
    given = {"approval": "auto"} if ruled else {}
    given |= {"executor": executor} if executor else {}
    declared = [{**spec, **given} for spec in specs]
    said = {"name": name, "instructions": instructions, "tools": [_tool(spec, targets=targets) for spec in declared]}
    said |= {"execution": execution, "rules": _rules(specs) if ruled else None}
    agent = Agent(**said)
    return Agent(**said, context=_as_large_as(held, agent.spec)) if windowed else agent


def _as_large_as(held: list[dict[str, Any]], spec: AgentSpec) -> Context:
    """A window in which the longest of an agent's recordings has room, though the provider counts half as many tokens again."""
    longest = (fixed_tokens(spec) + max(sum(map(message_tokens, recording["messages"])) for recording in held)) * 3 // 2
    for budget in count(longest, 100):
        context = Context(budget=budget, keep=2, preview=None)
        if (budget_of(spec.model_copy(update={"context": context})) or 0) >= longest:
            return context
    raise AssertionError


WAYS: dict[str, dict[str, Any]] = {
    "ruled": {"ruled": True},
    "sequential": {"execution": "sequential"},
    "batched": {"execution": "batch"},
    "granted": {"targets": True},
    "attached": {"executor": "client"},
    "windowed": {"windowed": True},
}
"""Other ways to hold the same calls: permission rules ask instead of the tools; the calls of one answer go one after the other;
none of them runs before all are decided; tools say which reservation they change, so that grants can cover it; clients execute
all tools; no more is sent than the longest recording has."""


def agent_of(conversation_id: str) -> str:
    """The agent that holds a conversation again: its recording's, in the way that stands before the colon, if one does."""
    way, _, name = conversation_id.rpartition(":")
    agent = name if "tools" in _RECORDINGS[name] else "airline"
    return f"{way}-{agent}" if way in WAYS else agent


def asking(agent: str) -> str:
    """The name of the tool by which an agent is asked."""
    return f"ask_{agent}"[:64]


_ENVIRONMENT = ["*_API_KEY", "*_API_BASE", "HOLDFAST_TEST_*"]
app = App(agents=_agents(), env=_ENVIRONMENT)
ways = App(agents=[agent for way, how in WAYS.items() for agent in _agents(f"{way}-", **how)], env=_ENVIRONMENT)
"""The same agents in each of the other ways."""
_ASKED = _agents()
asker = Agent(name="asker", tools=[delegate(agent, name=asking(agent.name)) for agent in _ASKED])
delegated = App(agents=[asker, *_ASKED], env=_ENVIRONMENT)
"""The same agents, each asked by another one, whose conversation has the recording's name as its context."""
