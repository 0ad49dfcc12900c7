"""The inbox: the list of pending calls, most urgent first, with its changes as they come, and one call with its form."""

import asyncio
import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from typing import Any

from pydantic import Field
from starlette.responses import Response, StreamingResponse

from holdfast.client import ListEvent, ListEventKind, PendingCall
from holdfast.client.access import AccessScope
from holdfast.client.filters import CALLS
from holdfast.client.inbox.choices import settled_as
from holdfast.client.inbox.filled import blank, read
from holdfast.client.inbox.history import Settled
from holdfast.client.inbox.kinds import KINDS
from holdfast.client.inbox.row import Row, parameters_of, urgency
from holdfast.client.inbox.text import one_line, visible
from holdfast.client.list_events import LIST_CURSOR
from holdfast.conversation import Approve, Deny, Review
from holdfast.conversation.text import jsontext
from holdfast.errors import AlreadyVoted, HoldfastError, InvalidDecision, NotPermitted, StaleCall
from holdfast.server.decisions import escalated
from holdfast.server.error_responses import problem_of
from holdfast.server.reach import listed
from holdfast.server.refusal import invalid
from holdfast.server.streams import frame

from .destinations import path_of
from .details import detail_of, settled_of, tool_of
from .filters import ListQuery
from .templates import HEADERS
from .visit import Page, Visit

MOST_ROWS = 1000
"""The most calls in the list: the most urgent ones."""
MOST_SEEN, MOST_PAGES = 10_000, 20
"""How many calls, and pages of calls, are read for a list, oldest first. If there are more, the list says so."""
AT_ONCE = 1000
LIST = "<!-- list -->"
"""The list's place in its page. No foreign text contains a comment, since all of it is escaped or cleaned."""
OPEN = Field(default=None, max_length=200, description="The conversation of the call that is open.")
InboxQuery = ListQuery.of("InboxQuery", CALLS, conversation_id=(str | None, OPEN), edit=(bool, False))
"""The filters of the list, and the open call."""
AFTER = Field(max_length=1024, pattern=f"^{LIST_CURSOR.pattern}$", description="The cursor of the list.")
FeedQuery = InboxQuery.of("FeedQuery", CALLS, after=(str, AFTER))
"""The filters, and the position from which changes are followed."""


@dataclass(frozen=True, slots=True)
class Listing:
    """The list: its rows, how many calls were read for it, and whether there may be more than it shows.

    `cursor` is the position from which changes are followed.
    """

    rows: Sequence[Row]
    seen: int
    more: bool
    cursor: str


async def listing(visit: Visit) -> Listing:
    """The list for a query."""
    query: ListQuery = visit.query
    async with aclosing(visit.client.events()) as events:
        cursor = (await anext(events)).cursor or ""  # before the list is read, so that no change is missed
    calls: list[PendingCall[Any]] = []
    after: str | None = None
    seen = 0
    for _ in range(MOST_PAGES):
        page = await listed(visit.caller, visit.client.pending, limit=AT_ONCE, after=after, **query.asked)
        seen, after = seen + len(page.items), page.next
        calls += (call for call in page.items if query.wants(call, visit.now))
        if after is None or seen >= MOST_SEEN:
            break
    calls.sort(key=urgency)
    more = after is not None or len(calls) > MOST_ROWS
    return Listing([Row(call) for call in calls[:MOST_ROWS]], seen, more, cursor)


async def inbox(visit: Visit) -> Response:
    """The list, with no call open."""
    if visit.fragment:
        return await visit.drawn("list.html", listing=await listing(visit))
    return await _beside(visit, None, {})


async def call(visit: Visit) -> Response:
    """One call; as a whole page, beside the list."""
    suspension_id = visit.path["suspension_id"]
    try:
        found = await visit.client.pending_call(suspension_id, conversation_id=visit.query.conversation_id)
    except StaleCall as stale:
        settled = await settled_of(visit, stale, visit.query.conversation_id or "", suspension_id)
        return await _opened(visit, "settled.html", {"settled": settled})
    detail = await detail_of(visit, found, edited=visit.query.edit)
    return await _opened(visit, "detail.html", {"detail": detail, "compared": None})


async def decide(visit: Visit) -> Response:
    """Decide a call. The decision is recorded before it is acknowledged, and the turn goes on by itself."""
    suspension_id, form = visit.path["suspension_id"], visit.form
    conversation_id = form.get("conversation_id")
    if not form.get("decision_id"):
        raise invalid("decision_id: the form has none")
    await visit.serving.reach.check(visit.caller, conversation_id)
    try:
        found = await visit.client.pending_call(suspension_id, conversation_id=conversation_id)
        parameters = parameters_of(await tool_of(visit, found))
        filled, decision = read(found, parameters, form)
        if decision is None:
            return await _again(visit, found, filled)
        try:
            receipt = await found.resolve(decision, decision_id=form.get("decision_id"))
        except (InvalidDecision, NotPermitted, AlreadyVoted) as error:
            filled.problem = str(error)
            return await _again(visit, found, filled)
        if not receipt.settled:
            return await _voted(visit, found)
    except StaleCall as stale:
        settled = await settled_of(visit, stale, conversation_id, suspension_id)
        return await _decided(visit, settled, status=200 if settled.mine else 409)
    said = Settled(
        suspension_id,
        found.conversation_id,
        by=form.get("decision"),
        at=visit.now,
        principal=visit.caller.principal,
        mine=True,
        tool=found.tool,
        body=jsontext.dumps({"verdict": str(decision.verdict)}) if isinstance(decision, Review) else "",
        why="" if isinstance(decision, Deny | Review) else decision.reason,
        scope=decision.scope if isinstance(decision, Approve) else None,
    )
    return await _decided(visit, said)


async def _voted(visit: Visit, found: PendingCall[Any]) -> Response:
    """The call after a vote that leaves it pending; edited arguments may have put it into another suspension."""
    waiting = await visit.client.conversation(found.conversation_id).pending()
    again = next((one for one in waiting if one.tool_call_id == found.tool_call_id), None)
    if again is None or again.cut:  # decided meanwhile, or too long for a list
        named = (again or found).suspension_id
        again = await visit.client.pending_call(named, conversation_id=found.conversation_id)
    path = path_of(again.suspension_id, again.conversation_id)
    if not visit.fragment:
        return visit.to(path)
    detail = await detail_of(visit, again, filled=blank(again, True, edited=False))
    values: dict[str, Any] = {"detail": detail, "compared": None, "voted": path, "says": Row(again).noted}
    return await visit.drawn("decide.html", **values)


async def note(visit: Visit) -> Response:
    """Take a call on, give it back, comment on it for its approvers, hide it for a while, or let others decide it."""
    suspension_id, form = visit.path["suspension_id"], visit.form
    conversation_id, key = form.get("conversation_id"), form.get("request_id")
    await visit.serving.reach.check(visit.caller, conversation_id)
    conversation = visit.client.conversation(conversation_id)
    match form.get("note"):
        case "assign":
            await conversation.assign(suspension_id, visit.caller.principal, request_id=key)
        case "give_back":
            await conversation.assign(suspension_id, None, request_id=key)
        case "comment":
            await conversation.comment(suspension_id, form.get("text"), request_id=key)
        case "snooze":
            try:
                for_s = float(form.get("for_s"))
            except ValueError:
                raise invalid("for_s: it is a number of seconds") from None
            await conversation.snooze(suspension_id, for_s, request_id=key)
        case "escalate":
            named = [name for name in re.split(r"[\s,]+", form.get("to")) if name]
            await escalated(visit, conversation_id, named, request_id=key)
        case _:
            raise invalid("note: it is assign, give_back, comment, snooze or escalate")
    return visit.to(path_of(suspension_id, conversation_id))


async def _again(visit: Visit, found: PendingCall[Any], filled: Any) -> Response:
    """The form again, with its problems, or with the changes of edited arguments."""
    detail = await detail_of(visit, found, filled=filled)
    compared = None if filled.arguments is None or filled.problem else filled.arguments.value()
    values: dict[str, Any] = {"detail": detail, "compared": compared}
    status = 422 if filled.problem else 200
    if visit.fragment:
        return await visit.drawn("decide.html", status=status, **values)
    return await _opened(visit, "detail.html", values, status=status)


async def _decided(visit: Visit, settled: Settled, *, status: int = 200) -> Response:
    if visit.fragment:
        return visit.page("decided.html", status=status, settled=settled)
    if settled.mine:
        return visit.to(path_of(settled.suspension_id, settled.conversation_id))
    return await _opened(visit, "settled.html", {"settled": settled}, status=status)


async def _opened(visit: Visit, template: str, values: Mapping[str, Any], *, status: int = 200) -> Response:
    """A call's part of the page; or the whole page, beside the list."""
    if visit.fragment:
        return await visit.drawn(template, status=status, **values)
    return await _beside(visit, template, values, status=status)


async def _beside(visit: Visit, opened: str | None, values: Mapping[str, Any], *, status: int = 200) -> Response:
    """The whole page. The part before the list is sent at once, while the list is read."""
    query = visit.query
    agents = await visit.agents()  # without an app, the list itself shows which agents there are
    names = sorted({agent.name for agent in agents} | ({query.agent} if query.agent else set()))
    tools = sorted({tool.name for agent in agents for tool in agent.tools} | ({query.tool} if query.tool else set()))
    options = {"agent": [(name, name) for name in names], "tool": [(name, name) for name in tools]}
    options["kind"] = [(kind.name, kind.label) for kind in KINDS.values()]
    draw = partial(visit.rendered, "inbox.html", controls=InboxQuery.controls(options), opened=opened, **values)
    whole = await asyncio.to_thread(draw)
    head, _, tail = whole.partition(LIST)

    async def parts() -> AsyncGenerator[str, None]:
        yield head
        try:  # the request has its answer; reading the list counts as one more
            with visit.serving.requests.one(), visit.serving.requests.share(*visit.caller.shares):
                found = await listing(visit)
                yield await asyncio.to_thread(partial(visit.rendered, "list.html", listing=found))
        except HoldfastError as error:
            yield visit.rendered("notice.html", problem=problem_of(error))
        yield tail

    return StreamingResponse(parts(), status_code=status, headers=HEADERS, media_type="text/html")


async def feed(visit: Visit) -> Response:
    """Follow the lists. A browser that reconnects names the last event it got."""
    given = visit.headers.get("last-event-id", "")
    after = given if LIST_CURSOR.fullmatch(given) else visit.query.after
    visit.serving.streams.check_room(visit.caller)
    events = visit.client.events(after=after, agent=visit.caller.agents)  # whatever the filters: the open call may be outside
    return visit.serving.streams.of(events, after=after, framed=lambda event: _framed(visit, event))


def _framed(visit: Visit, event: ListEvent[Any]) -> bytes:
    match event.kind:
        case ListEventKind.PENDING if event.call is not None and visit.query.wants(event.call, event.call.created_at):
            row = visit.rendered("arrived.html", one=Row(event.call))
            told = {"id": event.call.suspension_id, "row": row, "says": one_line(f"{event.call.tool}, {event.call.agent}", 100)}
            return frame("change", told, cursor=event.cursor)
        case ListEventKind.NOTED if event.call is not None:
            hidden_until = event.call.snoozed.get(visit.caller.principal.mark, 0)
            row = visit.rendered("arrived.html", one=Row(event.call))
            noted = {"id": event.call.suspension_id, "noted": row, "hidden_until": hidden_until}
            return frame("change", noted, cursor=event.cursor)
        case ListEventKind.SETTLED:
            return frame("change", _ended(visit, event), cursor=event.cursor)
        case ListEventKind.MISSED:
            return frame("missed", {}, cursor=event.cursor)
        case _:  # nothing that a row shows, but the cursor moves on
            return b": \n\n" if event.cursor is None else f"id: {event.cursor}\n\n".encode()


def _ended(visit: Visit, event: ListEvent[Any]) -> dict[str, Any]:
    said = settled_as(event.data["by"])
    given = event.data["principal"]
    if given is not None:
        mine = given["id"] == visit.caller.principal.id and given["proof"] == visit.caller.principal.proof
        said += " by you" if mine else f" by {visible(given['id'])}"
    return {"id": event.data["suspension_id"], "ended": said, "at": event.at}


PAGES = (
    Page("GET", "/inbox", inbox, query=InboxQuery),
    Page("GET", "/inbox-feed", feed, query=FeedQuery, streams=True),
    Page("GET", "/inbox/{suspension_id}", call, query=InboxQuery),
    Page("POST", "/inbox/{suspension_id}/note", note, scope=AccessScope.DECIDE),
    Page("POST", "/inbox/{suspension_id}", decide, scope=AccessScope.DECIDE, query=InboxQuery),
)
