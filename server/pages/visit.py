"""One request for a page: its caller and input, and errors as pages for people."""

import asyncio
import logging
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import quote

from pydantic import BaseModel, ConfigDict, model_validator
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from holdfast.client import verbs
from holdfast.client.access import AccessScope
from holdfast.client.agents import AgentRow
from holdfast.client.inbox.form import Form
from holdfast.client.stack_gateway import at_stack
from holdfast.errors import HoldfastError
from holdfast.server.arrived import root_of
from holdfast.server.caller import Caller
from holdfast.server.error_responses import problem_of, unexpected
from holdfast.server.intake import Room, query_of
from holdfast.server.operation import Checked, Endpoint, Serving, of_decision
from holdfast.server.refusal import Refusal
from holdfast.server.streams import EventStream

from .form_body import form_of
from .templates import html, page, rendered

UNAUTHENTICATED = 401

logger = logging.getLogger("holdfast.server")


@dataclass(frozen=True, slots=True)
class Visit(Checked):
    """A checked request for a page, at `now` (ms UTC). Only a `POST` has fields in its `form`.

    `fragment` says whether a script of the page sends the request, and gets a part of a page in place of a whole one.
    """

    form: Form
    fragment: bool
    now: int

    def may(self, scope: str) -> bool:
        """Whether the caller has a scope, by its name."""
        return AccessScope(scope) in self.caller.scopes

    @property
    def makes_links(self) -> bool:
        """Whether the caller may make links, and the server has keys for them."""
        keys = at_stack(self.serving.client.gateway).stack.settings.link_keys
        return bool(keys) and all(scope in self.caller.scopes for scope in (AccessScope.DECIDE, *verbs.LINK.also))

    async def agents(self) -> list[AgentRow]:
        """The agents of the server's app that the caller may touch; none without an app."""
        try:
            return [agent for agent in await self.client.agents() if self.caller.touches(agent.name)]
        except HoldfastError:
            return []

    def rendered(self, template: str, **values: Any) -> str:
        """A template's text."""
        return rendered(template, visit=self, caller=self.caller, query=self.query, root=self.root, now=self.now, **values)

    def page(self, template: str, *, status: int = 200, **values: Any) -> Response:
        """A page of a template, or a part of one."""
        return html(self.rendered(template, **values), status=status)

    async def drawn(self, template: str, *, status: int = 200, **values: Any) -> Response:
        """A page that is rendered outside the event loop, since its content may be long."""
        return await asyncio.to_thread(partial(self.page, template, status=status, **values))

    def to(self, path: str) -> Response:
        """A redirect to another page of this application, after a form was accepted."""
        return RedirectResponse(f"{self.root}{path}", status_code=303)


class Query(BaseModel):
    """The query of a page. A form sends each of its fields; an empty one counts as absent."""

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _unless_empty(cls, given: dict[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in given.items() if value != ""}


@dataclass(frozen=True, slots=True)
class Page(Endpoint):
    """One page, or one form; a form with a decision has what was typed, and what it was made from."""

    room: Room = lambda limits: 2 * of_decision(limits)


async def answered(by_method: Mapping[str, Page], serving: Serving, request: Request) -> Response:
    """The response to a request for a page."""
    wanted = by_method["GET" if request.method == "HEAD" else request.method]
    request.scope["state"]["path"] = wanted.path  # for `Watch`
    root = root_of(request.scope)
    fragment = request.headers.get("hx-request") == "true" and request.headers.get("hx-history-restore-request") != "true"
    caller: Caller | None = None
    try:
        serving.requests.check()
        with serving.requests.one(), ExitStack() as held:
            caller = request.scope["state"]["caller"] = await serving.callers.of(request.scope)
            wanted.check(caller)
            held.enter_context(serving.requests.share(*caller.shares))
            if "conversation_id" in request.path_params:
                await serving.reach.check(caller, request.path_params["conversation_id"])
            query = None if wanted.query is None else query_of(request, wanted.query, serving.bounds)
            if "suspension_id" in request.path_params:
                named = getattr(query, "conversation_id", None)
                await serving.reach.check_suspension(caller, request.path_params["suspension_id"], named)
            form = Form({})
            if wanted.method == "POST":
                form = await form_of(request, partial(serving.read, request, caller, wanted.room))
            visited = serving, caller, root, request.path_params, request.headers, query
            found: Response = await wanted.run(Visit(*visited, form, fragment, round(time.time() * 1000)))
    except Refusal as refusal:
        if refusal.status == UNAUTHENTICATED and "text/event-stream" not in request.headers.get("accept", ""):
            return _signing_in(request, root, fragment=fragment)
        return failed(refusal, root, caller, fragment=fragment)
    except HoldfastError as error:
        return failed(error, root, caller, fragment=fragment)
    except Exception:  # a bug of ours: its traceback is for the log alone
        logger.exception("%s %s failed", request.method, wanted.path)
        return failed(None, root, caller, fragment=fragment)
    if isinstance(found, EventStream):
        found.belongs_to(caller, partial(serving.callers.stands, request.scope, caller))
    return found


def failed(error: HoldfastError | None, root: str, caller: Caller | None, *, fragment: bool) -> Response:
    """The page of an error, or a notice for a page that is already open; None stands for a bug in the server."""
    problem = unexpected() if error is None else problem_of(error)
    headers = {}
    if fragment:  # a notice, whatever part the request was for
        headers = {"HX-Retarget": "#notice", "HX-Reswap": "innerHTML"}
    values = {"problem": problem, "root": root, "caller": caller}
    return page("notice.html" if fragment else "error.html", status=problem["status"], headers=headers, **values)


def _signing_in(request: Request, root: str, *, fragment: bool) -> Response:
    """The redirect to the sign-in page, which leads back to the requested page."""
    if fragment:  # the page shows a notice, and keeps what was typed
        return Response(status_code=401)
    wanted = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    onward = f"?next={quote(wanted, safe='/')}" if request.method == "GET" else ""
    return RedirectResponse(f"{root}/signin{onward}", status_code=303)
