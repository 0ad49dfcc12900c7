"""The changes of an open inbox, as an event stream: new rows, notes and votes on rows, and settled rows."""

from typing import Any

from pydantic import Field
from starlette.responses import Response

from holdfast.client import ListEvent, ListEventKind
from holdfast.client.filters import CALLS
from holdfast.client.list_events import LIST_CURSOR
from holdfast.server.streams import frame

from .choices import settled_as
from .inbox import InboxQuery, Row
from .text import one_line, visible
from .visit import Page, Visit

AFTER = Field(max_length=1024, pattern=f"^{LIST_CURSOR.pattern}$", description="The cursor of the list.")
FeedQuery = InboxQuery.of("FeedQuery", CALLS, after=(str, AFTER))
"""The filters, and the position from which changes are followed."""


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
            told = {"id": event.call.suspension_id, "noted": visit.rendered("arrived.html", one=Row(event.call))}
            return frame("change", told, cursor=event.cursor)
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


PAGES = (Page("GET", "/inbox-feed", feed, query=FeedQuery, streams=True),)
