"""The page of a link: it shows one call to the person whom the link was made for, and its forms decide it.

Looking changes nothing, so that no preview and no mail scanner decides. A form counts only if it comes from the page itself.
Programs send a decision as JSON to the same address.
"""

import asyncio
import hmac
import logging
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from holdfast.client import Link, PendingCall, Principal, Receipt, Review, links, verbs
from holdfast.client.filters import ROLES_BETWEEN
from holdfast.client.inbox.choices import ANSWER, APPROVE, REDISPATCH, REVIEW, settled_as
from holdfast.client.inbox.filled import Filled, blank, read
from holdfast.client.inbox.form import Form
from holdfast.client.inbox.history import Settled, history_of
from holdfast.client.inbox.kinds import offered
from holdfast.client.stack_gateway import at_stack
from holdfast.conversation.terms.link import LinkTerms
from holdfast.errors import (
    AlreadyVoted,
    ConfigurationError,
    HoldfastError,
    InvalidDecision,
    InvalidLink,
    LinkProblem,
)
from holdfast.server.arrived import root_of
from holdfast.server.bodies import LinkBody
from holdfast.server.decision_bodies import RedeemBody
from holdfast.server.error_responses import headers_of, problem_of, response_of, unexpected
from holdfast.server.intake import read_body
from holdfast.server.operation import Asked, Checked, Operation, Serving, of, of_decision
from holdfast.server.refusal import Refusal
from holdfast.server.slots import Share, Slots

from .destinations import path_of
from .elements import Drawn
from .form_body import FORM, form_of
from .templates import page
from .visit import Page, Visit

MOST_AT_ONCE = 200
MOST_OF_AN_ADDRESS = 40
"""The most requests with links handled at once, in all and from one address; they take no places of known callers."""
HEADERS = {"X-Robots-Tag": "noindex, nofollow", "Cache-Control": "no-store"}
FORM_TOKEN = "form"  # noqa: S105 - the name of the field
SAYS = {
    LinkProblem.MALFORMED: "This link is not whole, or is not from here. Open it again as it was sent.",
    LinkProblem.KEY: "This link is no longer accepted. Ask for a new one.",
    LinkProblem.EXPIRED: "This link has expired. Ask for a new one, if the call still waits.",
    LinkProblem.USED: "Another decision was made by this link, and it takes no second one.",
    LinkProblem.NOT_PERMITTED: "The person whom this link was made for may not decide this call, or not so.",
    LinkProblem.SETTLED: "This call does not wait any more.",
}

logger = logging.getLogger("holdfast.server")


async def make(asked: Asked) -> Link:
    """Make a link by which one principal decides the call; it speaks for whomever it names."""
    body = asked.body
    to = Principal(body.to.id, roles=tuple(body.to.roles))
    given = {"decisions": body.decisions, "expires_s": body.expires_s, "conversation_id": body.conversation_id}
    return await _made(asked, to, **given)


async def redeem(asked: Asked) -> Receipt:
    """Decide the call of a link as its principal. The link is all that is needed; the same decision has the same receipt."""
    return await asked.serving.client.redeem(asked.path["token"], asked.body.root.decided())


async def made(visit: Visit) -> Response:
    """Make a link for the person whom the form names, and show it."""
    suspension_id, form = visit.path["suspension_id"], visit.form
    conversation_id = form.get("conversation_id")
    await visit.serving.reach.check(visit.caller, conversation_id)
    to = Principal(form.get("to").strip(), roles=tuple(filter(None, map(str.strip, form.get("roles").split(ROLES_BETWEEN)))))
    link = await _made(visit, to, conversation_id=conversation_id)
    return visit.page("link_made.html", link=link, to=to, back=path_of(suspension_id, conversation_id))


async def _made(checked: Checked, to: Principal, **given: Any) -> Link:
    """The link to the call of a request, whose maker the server's log names: the conversation's names its principal alone."""
    suspension_id = checked.path["suspension_id"]
    link = await checked.client.link(suspension_id, to=to, **given)
    logger.info("%s has made a link by which %a decides %s", checked.caller.name, to.id, suspension_id)
    return link


PAGES = (Page("POST", "/inbox/{suspension_id}/link", made, verbs.LINK.scope, also=verbs.LINK.also),)
MAKE = of(verbs.LINK, make, reply=Link, body=LinkBody, status=201)
REDEEM = of(verbs.REDEEM, redeem, reply=Receipt, body=RedeemBody, room=of_decision)
OPERATIONS: tuple[Operation, ...] = (MAKE, REDEEM)


class LinkPages:
    """The pages of links. `by_api` answers a decision that a program sends."""

    def __init__(self, serving: Serving, by_api: Callable[[Request], Awaitable[Response]]) -> None:
        self._serving = serving
        self._gateway = at_stack(serving.client.gateway)
        self._by_api = by_api
        self._slots = Slots(MOST_AT_ONCE, code="too_many_requests", what="links", retry_s=1)

    def route(self) -> Route:
        """The route of all links."""
        return Route(verbs.REDEEM.path, self._answered, methods=["GET", "POST"])

    async def _answered(self, request: Request) -> Response:
        request.scope["state"]["path"] = verbs.REDEEM.path  # for `Watch`, which must not see the link
        token, sends = request.path_params["token"], request.method == "POST"
        by_form = request.headers.get("content-type", "").partition(";")[0].strip().lower() == FORM
        try:
            self._slots.check()
            address = self._serving.callers.address_of(request.scope)
            with self._slots.one(), self._slots.share(Share(address, MOST_OF_AN_ADDRESS / MOST_AT_ONCE)):
                terms = await self._opened(token)  # before a body is read
                if sends and not by_form:
                    return await self._by_api(request)
                return await (self._decided if sends else self._shown)(request, token, terms)
        except HoldfastError as error:
            if sends and not by_form:
                return response_of(error)
            problem = problem_of(error)
            says = SAYS[error.reason] if isinstance(error, InvalidLink) else problem["detail"]
            return _page(request, status=problem["status"], headers=headers_of(error), says=says)
        except Exception:  # a bug of ours: its traceback is for the log alone
            logger.exception("a link failed")
            return _page(request, status=500, says=unexpected()["detail"])

    async def _opened(self, token: str) -> LinkTerms:
        try:
            return await links.opened(self._gateway, token)
        except ConfigurationError:
            raise InvalidLink(LinkProblem.KEY, "this server has no keys of links") from None

    async def _shown(self, request: Request, token: str, terms: LinkTerms) -> Response:
        try:
            call = await links.looked_at(self._gateway, terms)
        except InvalidLink as error:
            return await self._over(request, terms, error)
        return await self._form(request, token, terms, call, _blank(call, terms))

    async def _decided(self, request: Request, token: str, terms: LinkTerms) -> Response:
        limits = self._serving.bounds
        form = await form_of(request, partial(read_body, request, limits, limits.body_bytes))
        right = (await links.keys(self._gateway)).form_token(token)
        if not (request.state.arrived.ambient and hmac.compare_digest(form.get(FORM_TOKEN).encode(), right.encode())):
            raise Refusal(403, "cross_site", "a link is decided on its own page: open it, and press a button there")
        try:
            call = await links.looked_at(self._gateway, terms)
        except InvalidLink as error:
            return await self._over(request, terms, error, form)
        drawn = _blank(call, terms)
        if form.get("decision") not in drawn.offered:
            raise InvalidLink(LinkProblem.NOT_PERMITTED)
        filled, decision = read(call, True, form, drawn.filled)
        if decision is None:
            return await self._form(request, token, terms, call, drawn, status=422)
        try:
            receipt = await self._serving.client.redeem(token, decision)
        except (InvalidDecision, AlreadyVoted) as error:
            filled.problem = str(error)
            return await self._form(request, token, terms, call, drawn, status=error.http_code)
        verdict = {"verdict": str(decision.verdict)} if isinstance(decision, Review) else None
        done = settled_as(form.get("decision"), verdict)
        more = "" if receipt.settled else f" {receipt.votes} of {receipt.needed} people have agreed; others must agree, too."
        return _page(request, says=f"Your decision is recorded: {done}.{more}", good=True)

    async def _over(self, request: Request, terms: LinkTerms, error: InvalidLink, form: Form | None = None) -> Response:
        """What settled the call. For the decision that the link has made, sent again, it is what it was the first time."""
        try:
            history = await history_of(self._serving.client.conversation(terms.conversation_id))
        except HoldfastError:
            raise error from None
        found = history.settled.get(terms.suspension_id, Settled(terms.suspension_id))
        mine = found.event is not None and found.event.decision_id == terms.nonce
        again = mine and (form is None or _repeats(form, found))
        if again:
            status = 200 if form is not None else 410
            return _page(request, status=status, says=f"Your decision is recorded: {found.done}.", good=True)
        if mine:
            raise InvalidLink(LinkProblem.USED)
        return _page(request, status=410, says=f"This call does not wait any more: it was {found.done}.")

    async def _form(
        self, request: Request, token: str, terms: LinkTerms, call: PendingCall[Any], drawn: Drawn, *, status: int = 200
    ) -> Response:
        refused = None if call.approvers is None else call.approvers.problem(terms.principal, call.requester)
        if refused is not None:  # what the call is about is for those who decide it
            says = f"{call.tool} of {call.agent} waits for others: you may not decide this, since {refused}."
            return _page(request, status=403, says=says)
        values: dict[str, Any] = {"detail": drawn, "who": terms.principal, "expires_at": terms.expires_at}
        link = (await links.keys(self._gateway)).form_token(token)
        return await asyncio.to_thread(partial(_page, request, status=status, link=link, **values))


def _blank(call: PendingCall[Any], terms: LinkTerms) -> Drawn:
    """The empty form of a link's call: what the call takes and the link makes."""
    offers = offered(call) & {one.value for one in terms.decisions}
    answer = blank(call, True, edited=False).answer if ANSWER.name in offers else None
    return Drawn(call, Filled(answer=answer), offers)


def _repeats(form: Form, made: Settled) -> bool:
    """Whether a form makes the decision again. An answer is not compared: its fields were those of the call, which is gone."""
    text, was = form.get("reason"), made.words or made.why
    if made.by in (APPROVE.name, REDISPATCH.name, ANSWER.name):
        text, was = form.get("note"), made.why
    elif made.by == REVIEW.name and isinstance(made.said, dict):
        text, was = f"{form.get('verdict')} {text}", f"{made.said.get('verdict')} {made.words}"
    return form.get("decision") == made.by and text.split() == str(was).split()


def _page(
    request: Request,
    *,
    status: int = 200,
    headers: dict[str, str] | None = None,
    says: str = "",
    good: bool = False,
    **values: Any,
) -> Response:
    values = {"detail": None, "link": ""} | values
    now = round(time.time() * 1000)
    return page(
        "link.html",
        status=status,
        headers=HEADERS | (headers or {}),
        root=root_of(request.scope),
        **values,
        says=says,
        good=good,
        now=now,
    )
