"""The routes of whoever operates: agents, pauses, and whether the server is alive and of use."""

from .bodies import PauseBody, ResumeBody
from .operation import Asked, Operation
from .refusal import Refusal
from .replies import AgentsReply, HealthReply, PauseReply, PausesReply, ReadyReply, ResumedReply


async def agents(asked: Asked) -> AgentsReply:
    """The agents of the client's app, and the pauses that stand."""
    items, paused = await asked.client.agents(), await asked.client.paused()
    return AgentsReply.model_validate({"items": items, "paused": paused}, from_attributes=True)


async def pause(asked: Asked) -> PauseReply:
    """Stop new work."""
    return PauseReply.model_validate(await asked.client.pause(asked.body.agent, asked.body.reason))


async def pauses(asked: Asked) -> PausesReply:
    """The pauses that stand."""
    return PausesReply.model_validate({"items": await asked.client.paused()}, from_attributes=True)


async def resume(asked: Asked) -> ResumedReply:
    """Let new work go on."""
    lifted = await asked.client.resume(asked.body.agent)
    return ResumedReply.model_validate({"resumed": lifted}, from_attributes=True)


async def health(_: Asked) -> HealthReply:
    """The process answers; nothing behind it is asked."""
    return HealthReply()


async def ready(asked: Asked) -> ReadyReply:
    """Redis answers, and a cluster whose sweeper lives serves the store; not while this process is drained."""
    if asked.serving.draining.begun:
        raise Refusal(503, "draining", "this server stops")
    await asked.client.ready()
    return ReadyReply()


OPERATIONS = (
    Operation("GET", "/v1/agents", "listAgents", "The agents, their tools, and the pauses that stand.", agents, AgentsReply),
    Operation("GET", "/v1/pause", "listPauses", "The pauses that stand.", pauses, PausesReply),
    Operation("POST", "/v1/pause", "pause", "Stop new work of an agent, or of all.", pause, PauseReply, body=PauseBody),
    Operation("POST", "/v1/resume", "resume", "Lift a pause.", resume, ResumedReply, body=ResumeBody),
    Operation("GET", "/health", "health", "Whether the process is alive.", health, HealthReply),
    Operation("GET", "/ready", "ready", "Whether commands can be carried out.", ready, ReadyReply),
)
"""The operations on the whole."""
