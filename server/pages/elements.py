"""The forms of calls for the elements of `holdfast.js`: drawn by the inbox's templates, read by the inbox's parser.

An element fetches the form of its call, and sends the filled-in form to be read. The reply is a decision, which the element
then sends like any client, or the form with its problems. Both contain only what the caller may read of the call
(`page_view.py`).
"""

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from html.parser import HTMLParser
from typing import Any, TypeAlias

from pydantic import Field
from starlette.responses import Response

from holdfast.client import PendingCall
from holdfast.client.access import AccessScope
from holdfast.client.batches import said
from holdfast.client.inbox.choices import ANSWER, APPROVE
from holdfast.client.inbox.fields import Fields
from holdfast.client.inbox.filled import Filled, read
from holdfast.client.inbox.kinds import kind_of, offered, takes_scope
from holdfast.client.inbox.scopes import blank as blank_scope
from holdfast.conversation.records.calls import PendingView
from holdfast.conversation.terms.decisions import OF_CALLS, DecisionRecord
from holdfast.server import page_view
from holdfast.server.bodies import Body, PlaceQuery
from holdfast.server.operation import Asked, Operation, of_decision
from holdfast.server.refusal import invalid
from holdfast.server.rendering import as_json

from .form_body import form_in
from .templates import rendered

Node: TypeAlias = str | list[Any]
_VOID = ("input", "br")
_EXACT = ("textarea", "pre")
"""Elements in which blanks and line breaks count."""


class FormBody(Body):
    """A filled-in form."""

    fields: str = Field(description="Its fields, encoded as a browser does it.")


@dataclass(frozen=True, slots=True)
class Drawn:
    """The form of a call for an element: its fields, and the names of the decisions that it offers."""

    call: PendingCall[Any]
    filled: Filled
    offered: Collection[str]
    agreed: bool = False


async def form(asked: Asked) -> Response:
    """The empty form of a call."""
    return await _reply(asked, await _drawn(asked))


async def read_form(asked: Asked) -> Response:
    """The decision that a form makes, or the form with its problems. Nothing is decided."""
    drawn, sent = await _drawn(asked), form_in(asked.body.fields)
    asked.caller.check_kind(drawn.call.kind)
    if sent.get("decision") not in drawn.offered:
        raise invalid(f"decision: {kind_of(drawn.call).label} takes no such decision here")
    _, decision = read(drawn.call, True, sent, drawn.filled)
    return await _reply(asked, drawn, None if decision is None else said(DecisionRecord.of(decision)))


async def _drawn(asked: Asked) -> Drawn:
    """The form of the call, as far as the caller may read the call."""
    call = await asked.client.pending_call(asked.path["suspension_id"], conversation_id=asked.query.conversation_id)
    caller = asked.caller
    if caller.is_page:
        call = PendingCall.of(PendingView.model_validate(page_view.reply_of(caller, call)), call.resolve)
    offers, filled = frozenset[str](), Filled()
    if call.kind is not None and caller.decides(call.kind):
        offers = offered(call) & {one.name for one in kind_of(call).of_element}
    if APPROVE.name in offers and takes_scope(call) and (caller.kinds is None or caller.kinds.issuperset(OF_CALLS)):
        filled.scope = blank_scope(call)
    if ANSWER.name in offers:
        filled.answer = Fields.of_user(call.response_schema, label="Answer" if call.questions is None else "Answers")
    return Drawn(call, filled, offers)


async def _reply(asked: Asked, drawn: Drawn, decision: dict[str, Any] | None = None) -> Response:
    found: dict[str, Any] = {"decision": decision, "problem": drawn.filled.problem, "nodes": []}
    if decision is None:
        found["nodes"] = await asyncio.to_thread(
            lambda: nodes_of(rendered("element.html", detail=drawn, element=True, root=""))
        )
    content = as_json(found)
    asked.serving.callers.spend_bytes(asked.caller, len(content))
    return Response(content, media_type="application/json")


def nodes_of(html: str) -> Sequence[Node]:
    """The nodes of well-formed HTML, without the blanks between elements that only lay out its source.

    A node is `[tag, {attribute: value}, child, …]`; a child is a node or a text. A page of an application makes elements from
    them one by one, so no policy has to let it turn text into HTML.
    """
    parser = _Parser()
    parser.feed(html)
    parser.close()
    return parser.found


class _Parser(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.found: list[Node] = []
        self._open: list[list[Any]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        node = [tag, {name: value or "" for name, value in attrs}]
        self._add(node)
        if tag not in _VOID:
            self._open.append(node)

    def handle_endtag(self, tag: str) -> None:
        if tag not in _VOID:
            self._open.pop()

    def handle_data(self, data: str) -> None:
        within = self._open[-1][0] if self._open else ""
        if within == "textarea" and len(self._open[-1]) == 2:  # noqa: PLR2004 - HTML ignores its first line break
            data = data.removeprefix("\n")
        if within in _EXACT or data.strip() or (data and "\n" not in data):
            self._add(data)

    def _add(self, node: Node) -> None:
        (self._open[-1] if self._open else self.found).append(node)


_FORM: dict[str, Any] = {"path": "/v1/pending/{suspension_id}/form", "query": PlaceQuery}
OPERATIONS = (
    Operation(
        method="GET",
        run=form,
        name="showForm",
        summary="The form of a pending call, for the elements of `holdfast.js`.",
        **_FORM,
    ),
    Operation(
        method="POST",
        run=read_form,
        scope=AccessScope.DECIDE,
        name="readForm",
        summary="The decision that a form makes; nothing is decided.",
        body=FormBody,
        room=lambda limits: 2 * of_decision(limits),  # each field with its name, and encoded
        **_FORM,
    ),
)
"""The operations of the elements: not part of the API, and not in its description."""
