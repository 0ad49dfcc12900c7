"""The pages of operators: problems, and the agents with their tools."""

from dataclasses import replace

from starlette.responses import Response

from holdfast.client.problems import problems
from holdfast.redaction import PLAIN

from .visit import Page, Visit


async def all_problems(visit: Visit) -> Response:
    """The problems for a person to see. A caller limited to some agents gets none: problems concern the whole namespace."""
    found = []
    if visit.caller.agents is None:
        for problem in await problems(visit.client):
            which = [replace(one, reason=PLAIN.redacted(one.reason)) for one in problem.which]
            found.append(replace(problem, said=PLAIN.redacted(problem.said), fix=PLAIN.redacted(problem.fix), which=which))
    return visit.page("problems.html", problems=found)


async def agents(visit: Visit) -> Response:
    """The agents of the server's app, their tools, and the current pauses."""
    found = [agent for agent in await visit.client.agents() if visit.caller.touches(agent.name)]
    paused = [one for one in await visit.client.paused() if one.agent is None or visit.caller.touches(one.agent)]
    return visit.page("agents.html", agents=found, paused=paused)


PAGES = (Page("GET", "/problems", all_problems), Page("GET", "/agents", agents))
