"""A call that a client claims, carries out and answers, until the next model request; against a decision until the next one."""

import asyncio
import statistics
import time
from pathlib import Path

from rich.progress import track

from benchmarks import stack
from benchmarks.result import Part, Row, Table, percentile
from holdfast.client import Answer, AsyncClient, AsyncConversation, AsyncPendingCall
from holdfast.testing import ModelServer, call, say

APP = "benchmarks.claiming_app:app"
TOOLS = {"asks": "ask", "locates": "locate"}
"""The agents, and the tool that each one's model calls once in each turn."""
DEVICE, ANSWER = "device", "here"
WARM_UP = 3


def script(request: dict) -> dict:
    """Call the agent's only tool, and end the turn with its result."""
    if request["messages"][-1]["role"] == "tool":
        return say("Thank you.")
    return call(request["tools"][0]["function"]["name"], {"question": "where?"})


async def settle(conversation: AsyncConversation, shown: AsyncPendingCall, agent: str) -> None:
    """Decide what waits for a person; claim, carry out and answer what waits for a client."""
    if agent == "asks":
        await shown.resolve(Answer(ANSWER))
        return
    await conversation.claim(shown, DEVICE)
    await conversation.resolve(shown, Answer(handled(**shown.arguments)), client_id=DEVICE)


def handled(question: str) -> str:
    """What the client does: nothing that takes time."""
    return ANSWER if question else ""


async def measured(home: Path, model: ModelServer, rounds: int) -> dict[str, list[float]]:
    """Turns of both in turns, so that the machine treats them alike; in ms."""
    found: dict[str, list[float]] = {agent: [] for agent in TOOLS}
    async with AsyncClient.connect(APP, home=home, publish=True, timeout_s=120) as client:
        conversations = {agent: await client.start(agent, "go", conversation_id=agent) for agent in TOOLS}
        seqs = dict.fromkeys(TOOLS, 0)
        for turn in track(range(rounds + WARM_UP), "turns", console=stack.console, transient=True):
            for agent, conversation in conversations.items():
                if turn:
                    seqs[agent] = (await conversation.send("go")).seq
                state = await conversation.wait(after=seqs[agent], timeout_s=120)
                (shown,) = state.pending
                began_s = time.time()
                await settle(conversation, shown, agent)
                state = await conversation.wait(after=state.seq, timeout_s=120)
                while state.running:
                    state = await conversation.wait(after=state.seq, timeout_s=120)
                assert state.reply == "Thank you.", state
                if turn >= WARM_UP:
                    found[agent].append((model.requests[-1].arrived_at_s - began_s) * 1000)
    return found


def measure(*, quick: bool) -> Part:
    """One row."""
    rounds = 20 if quick else 200
    with stack.home() as home, ModelServer(script=script) as model:
        stack.use_model(model.url)
        found = asyncio.run(measured(home, model, rounds))
    middle = {agent: statistics.median(samples) for agent, samples in found.items()}
    names = {
        "locates": "from the claim of a call to the model request with its result",
        "asks": "from a decision to the model request with its result",
    }
    return Part(
        rows=[
            Row(
                f"{names['locates']}, against {names['asks']} (p50)",
                middle["locates"],
                "ms",
                middle["asks"],
                middle["locates"] / middle["asks"],
                1.5,
                rounds,
            )
        ],
        tables=[
            Table(
                "A call of a client",
                ["what", "p50", "p95"],
                [
                    [names[agent], f"{middle[agent]:.1f} ms", f"{percentile(samples, 95):.1f} ms"]
                    for agent, samples in found.items()
                ],
            )
        ],
        raw=found,
    )
