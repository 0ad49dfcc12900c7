"""The routes for operators: agents, rules, pauses, the outbox, and whether the server is alive and ready."""

import logging
from collections.abc import Awaitable, Callable

from holdfast.client import verbs
from holdfast.client.access import AccessScope
from holdfast.client.outbox import Undelivered
from holdfast.client.replies import AgentsReply, FoundReply, HealthReply, PausesReply, ReadyReply, UnpausedReply
from holdfast.client.results import Page
from holdfast.client.rule_check import RuleCheck
from holdfast.errors import AppNotPublished, HoldfastError

from .bodies import Nothing, OutboxQuery, PauseBody, RulesCheckBody, UnpauseBody
from .error_responses import problem_of
from .operation import Asked, Operation, of
from .readiness import unready
from .refusal import Refusal

logger = logging.getLogger("holdfast.server")


async def agents(asked: Asked) -> AgentsReply:
    """The agents, their tools, and the pauses that stand."""
    touches = asked.caller.touches
    items = [agent for agent in await asked.client.agents() if touches(agent.name)]
    paused = [one for one in await asked.client.paused() if one.agent is None or touches(one.agent)]
    return AgentsReply(items=items, paused=paused)


async def check_rules(asked: Asked) -> RuleCheck:
    """What the permission rules in force say of a call, and by which rule; nothing is proposed or run."""
    body = asked.body
    asked.caller.check_agent(body.agent)
    try:
        return await asked.client.check_rules(body.agent, body.tool, body.arguments, app=body.app)
    except AppNotPublished as error:  # not an error here: there are no rules to judge by
        problem = {name: value for name, value in problem_of(error).items() if name != "status"}
        raise Refusal(404, problem["code"], problem["detail"], problem) from error


async def pauses(asked: Asked) -> PausesReply:
    """The pauses that stand."""
    paused = [one for one in await asked.client.paused() if one.agent is None or asked.caller.touches(one.agent)]
    return PausesReply(items=paused)


async def health(_: Asked) -> HealthReply:
    """Reply that the process is alive; nothing behind it is asked."""
    return HealthReply()


async def ready(asked: Asked) -> ReadyReply:
    """Whether commands can be carried out.

    Redis has to answer, and the store's cluster to have a living sweeper; a process that is drained is not ready.

    Anybody may ask, and is told which part is not ready; only an administrator of the whole namespace reads the reason.
    """
    if asked.serving.draining.is_set():
        raise Refusal(503, "draining", "this server is shutting down")
    try:
        await asked.serving.readiness.check()
    except HoldfastError as error:
        caller = await asked.known()
        whole = caller is not None and AccessScope.ADMIN in caller.scopes and caller.agents is None
        raise unready(error, whole=whole) from error
    return ReadyReply()


async def outbox(asked: Asked) -> Page[Undelivered]:
    """A page of what conversations owe and have not delivered; for callers of all agents."""
    asked.caller.check_agent(None)
    return await asked.client.outbox(**dict(asked.query))


async def redeliver(asked: Asked) -> FoundReply:
    """Have something in the outbox delivered now, also if it was set aside."""
    return await _found(asked, asked.client.redeliver, "has had delivered again")


async def drop(asked: Asked) -> FoundReply:
    """Remove something from the outbox undelivered."""
    return await _found(asked, asked.client.drop, "has dropped")


async def _found(asked: Asked, act: Callable[[str], Awaitable[bool]], what: str) -> FoundReply:
    """Act on something in the outbox; the log says who has, as no conversation's does."""
    asked.caller.check_agent(None)
    outbox_id = asked.path["outbox_id"]
    found = await act(outbox_id)
    if found:
        logger.info("%s %s %a", asked.caller.name, what, outbox_id)
    return FoundReply(found=found)


def _check(asked: Asked) -> None:
    asked.caller.check_agent(asked.body.agent)


OPERATIONS = (
    of(verbs.AGENTS, agents, reply=AgentsReply),
    of(verbs.CHECK_RULES, check_rules, body=RulesCheckBody, room=lambda limits: limits.reply_bytes),
    of(verbs.PAUSED, pauses, reply=PausesReply),
    of(verbs.PAUSE, "Stop new work of an agent, or of all agents.", check=_check, body=PauseBody),
    of(verbs.UNPAUSE, "Lift a pause.", check=_check, reply=UnpausedReply, body=UnpauseBody),
    of(verbs.OUTBOX, outbox, reply=Page[Undelivered], query=OutboxQuery),
    of(verbs.REDELIVER, redeliver, reply=FoundReply, body=Nothing),
    of(verbs.DROP, drop, reply=FoundReply, body=Nothing),
    Operation("GET", "/health", health, None, name="health", summary="Whether the process is alive.", reply=HealthReply),
    of(verbs.READY, ready, reply=ReadyReply),
)
