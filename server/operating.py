"""The routes of whoever operates: agents, pauses, and whether the server is alive and of use."""

from holdfast.client import Pause
from holdfast.client.access import AccessScope
from holdfast.client.replies import AgentsReply, HealthReply, PausesReply, ReadyReply, ResumedReply
from holdfast.client.rule_check import RuleCheck
from holdfast.errors import AppNotPublished, HoldfastError

from .bodies import PauseBody, ResumeBody, RulesCheckBody
from .operation import Asked, Operation
from .problems import problem_of
from .readiness import unready
from .refusal import Refusal


async def agents(asked: Asked) -> AgentsReply:
    """The agents of the client's app, and the pauses that stand."""
    touches = asked.caller.touches
    items = [agent for agent in await asked.client.agents() if touches(agent.name)]
    paused = [one for one in await asked.client.paused() if one.agent is None or touches(one.agent)]
    return AgentsReply(items=items, paused=paused)


async def check_rules(asked: Asked) -> RuleCheck:
    """What the rules that are published say of a call."""
    body = asked.body
    asked.caller.check_agent(body.agent)
    try:
        return await asked.client.check_rules(body.agent, body.tool, body.arguments, app=body.app)
    except AppNotPublished as error:  # nothing is amiss here: there is nothing to judge by
        problem = {name: value for name, value in problem_of(error).items() if name != "status"}
        raise Refusal(404, problem["code"], problem["detail"], problem) from error


async def pause(asked: Asked) -> Pause:
    """Stop new work."""
    asked.caller.check_agent(asked.body.agent)
    return await asked.client.pause(asked.body.agent, asked.body.reason)


async def pauses(asked: Asked) -> PausesReply:
    """The pauses that stand."""
    paused = [one for one in await asked.client.paused() if one.agent is None or asked.caller.touches(one.agent)]
    return PausesReply(items=paused)


async def resume(asked: Asked) -> ResumedReply:
    """Let new work go on."""
    asked.caller.check_agent(asked.body.agent)
    return ResumedReply(resumed=await asked.client.resume(asked.body.agent))


async def health(_: Asked) -> HealthReply:
    """The process answers; nothing behind it is asked."""
    return HealthReply()


async def ready(asked: Asked) -> ReadyReply:
    """Redis answers, and a cluster whose sweeper lives serves the store; not while this process is drained.

    Anybody may ask, and is told which part is not ready; the reason is for who administers the whole.
    """
    if asked.serving.draining.begun:
        raise Refusal(503, "draining", "this server stops")
    try:
        await asked.serving.readiness.check()
    except HoldfastError as error:
        caller = await asked.known()
        raise unready(error, whole=caller is not None and caller.administers) from error
    return ReadyReply()


OPERATIONS = (
    Operation(
        "GET",
        "/v1/agents",
        "listAgents",
        "The agents, their tools, and the pauses that stand.",
        agents,
        AgentsReply,
        scope=AccessScope.READ,
    ),
    Operation(
        "POST",
        "/v1/rules/check",
        "checkRules",
        "What the permission rules in force say of a call, and by which rule; nothing is proposed or run.",
        check_rules,
        RuleCheck,
        body=RulesCheckBody,
        room=lambda limits: limits.reply_bytes,
        scope=AccessScope.READ,
    ),
    Operation(
        "GET",
        "/v1/pause",
        "listPauses",
        "The pauses that stand.",
        pauses,
        PausesReply,
        scope=AccessScope.READ,
    ),
    Operation(
        "POST",
        "/v1/pause",
        "pause",
        "Stop new work of an agent, or of all.",
        pause,
        Pause,
        body=PauseBody,
        scope=AccessScope.ADMIN,
    ),
    Operation("POST", "/v1/resume", "resume", "Lift a pause.", resume, ResumedReply, body=ResumeBody, scope=AccessScope.ADMIN),
    Operation("GET", "/health", "health", "Whether the process is alive.", health, HealthReply, scope=None),
    Operation("GET", "/ready", "ready", "Whether commands can be carried out.", ready, ReadyReply, scope=None),
)
"""The operations on the whole."""
