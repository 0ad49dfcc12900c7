"""One request for a page: its caller and input, and errors as pages for people."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import quote

from pydantic import BaseModel, ConfigDict, model_validator
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from holdfast.client import AsyncClient
from holdfast.client.access import AccessScope
from holdfast.client.proving import acting_for
from holdfast.conversation import Limits
from holdfast.errors import HoldfastError
from holdfast.server.caller import Caller
from holdfast.server.intake import Room, query_of
from holdfast.server.operation import Serving, of_decision
from holdfast.server.problems import problem_of, unexpected
from holdfast.server.refusal import Refusal
from holdfast.server.streams import EventStream

from .form_body import Form, form_of
from .templates import html, page, rendered

UNAUTHENTICATED, NOT_PERMITTED = 401, 403

logger = logging.getLogger("holdfast.server")


@dataclass(frozen=True, slots=True)
class Visit:
    """One checked request.

    Attributes:
        serving: What all requests of the server share.
        caller: The caller.
        root: The path under which the application is mounted.
        path: The parts of the path.
        query: The query as its model; None if the page takes none.
        form: The form, for a `POST`.
        fragment: Whether a script of the page sends the request, and gets a part of a page in place of a whole one.
        headers: The request's headers.
        now: The time, in integer milliseconds UTC.
    """

    serving: Serving
    caller: Caller
    root: str
    path: Mapping[str, str]
    query: Any
    form: Form
    fragment: bool
    headers: Mapping[str, str]
    now: int

    @property
    def client(self) -> AsyncClient:
        """The client, acting for the caller."""
        return acting_for(self.serving.client, self.caller.principal)

    def may(self, scope: str) -> bool:
        """Whether the caller has a scope, by its name."""
        return AccessScope(scope) in self.caller.scopes

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


def _of_form(limits: Limits) -> int:
    """The bytes that a form with a decision may have: what was typed, and what it was made from."""
    return 2 * of_decision(limits)


class Query(BaseModel):
    """The query of a page. A form sends each of its fields; an empty one counts as absent."""

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _unless_empty(cls, given: dict[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in given.items() if value != ""}

    def set_of(self, *names: str) -> dict[str, str]:
        """Those of these fields that are set, as in the URL."""
        return {name: str(value) for name in names if (value := getattr(self, name))}


@dataclass(frozen=True, slots=True)
class Page:
    """One page, or one form.

    Attributes:
        method: `GET` or `POST`.
        path: The path; `{name}` stands for a part.
        run: The function that answers.
        scope: The scope that a caller needs.
        query: The model of its query.
        streams: Whether it answers with an event stream.
        room: How many bytes the fields of its form may have together.
    """

    method: str
    path: str
    run: Callable[[Visit], Awaitable[Response]]
    scope: AccessScope = AccessScope.READ
    query: type[BaseModel] | None = None
    streams: bool = False
    room: Room = _of_form


def routes_of(pages: Sequence[Page], serving: Serving) -> list[Route]:
    """The routes of pages, one for each path."""
    found = []
    for path in dict.fromkeys(one.path for one in pages):
        by_method = {one.method: one for one in pages if one.path == path}
        route = Route(path, partial(_answered, by_method, serving), methods=list(by_method))
        if route.methods is not None and any(one.streams for one in by_method.values()):
            route.methods.discard("HEAD")  # the head of an endless stream would never end
        found.append(route)
    return found


async def _answered(by_method: Mapping[str, Page], serving: Serving, request: Request) -> Response:
    wanted = by_method["GET" if request.method == "HEAD" else request.method]
    request.scope["state"]["path"] = wanted.path  # for `Watch`
    root: str = request.scope.get("root_path", "")
    fragment = request.headers.get("hx-request") == "true" and request.headers.get("hx-history-restore-request") != "true"
    caller: Caller | None = None
    try:
        serving.requests.check()
        with serving.requests.one(), ExitStack() as held:
            caller = request.scope["state"]["caller"] = await serving.callers.of(request.scope)
            _check(caller, wanted)
            held.enter_context(serving.requests.share(*caller.shares))
            if "conversation_id" in request.path_params:
                await serving.reach.check(caller, request.path_params["conversation_id"])
            query = None if wanted.query is None else query_of(request, wanted.query, serving.bounds)
            if "suspension_id" in request.path_params:
                named = getattr(query, "conversation_id", None)
                await serving.reach.check_suspension(caller, request.path_params["suspension_id"], named)
            form = (
                await form_of(request, partial(_read, request, serving, caller, wanted))
                if wanted.method == "POST"
                else Form({})
            )
            visit = Visit(
                serving,
                caller,
                root,
                request.path_params,
                query,
                form,
                fragment,
                request.headers,
                round(time.time() * 1000),
            )
            found = await wanted.run(visit)
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
        found.shares = caller.shares
        found.only_while(partial(serving.callers.stands, request.scope, caller))
    return found


async def _read(request: Request, serving: Serving, caller: Caller, wanted: Page) -> bytes:
    raw = await serving.intake.read(request, wanted.room)
    serving.callers.charge_bytes(caller, len(raw))
    return raw


def _check(caller: Caller, wanted: Page) -> None:
    if caller.conversation_id is not None:
        raise Refusal(403, "not_permitted", "a page token is for a page of its own, and not for these")
    caller.check_scope(wanted.scope)


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
    wanted = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    target = f"{root}/signin"
    if request.method == "GET" and not fragment:
        target += f"?next={quote(wanted, safe='/')}"
    if fragment:  # the page shows a notice, and keeps what was typed
        return Response(status_code=401)
    return RedirectResponse(target, status_code=303)
