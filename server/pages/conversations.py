"""The pages of conversations: the list, one whole conversation, and its commands."""

from typing import Any

from pydantic import Field
from starlette.responses import Response

from holdfast.client import Event, Usage
from holdfast.client.access import AccessScope
from holdfast.client.filters import CONVERSATIONS
from holdfast.client.inbox.around import around_of
from holdfast.client.inbox.history import turns_of
from holdfast.conversation.records.events import Ended
from holdfast.conversation.records.live import TextDelta
from holdfast.server import quotas
from holdfast.server.operation import of_message
from holdfast.server.reach import listed
from holdfast.server.refusal import invalid
from holdfast.server.streams import frame

from .destinations import path_of
from .filters import ListQuery
from .visit import Page, Query, Visit

MOST_MESSAGES, MOST_TURNS, MOST_EVENTS = 50, 20, 200
"""The most messages and turns that a page shows, and the latest events of which its history is made."""
AT_ONCE = 100


AFTER = Field(default=None, max_length=1200)
LIMIT = Field(default=AT_ONCE, ge=1, le=1000)
ConversationsQuery = ListQuery.of("ConversationsQuery", CONVERSATIONS, after=(str | None, AFTER), limit=(int, LIMIT))


class FeedQuery(Query):
    """The position from which the stream of a conversation begins."""

    after: int = Field(ge=0, lt=1 << 63)


async def conversations(visit: Visit) -> Response:
    """A page of the list."""
    query = visit.query
    page = await listed(visit.caller, visit.client.conversations, limit=query.limit, after=query.after, **query.asked)
    agents = sorted({row.agent for row in page.items} | ({query.agent} if query.agent else set()))
    return visit.page("conversations.html", page=page, controls=ConversationsQuery.controls({}), agents=agents)


class EarlierQuery(Query):
    """The cursor of the messages in front of which a page is read."""

    before: str = Field(max_length=40)


async def conversation(visit: Visit) -> Response:
    """One conversation."""
    return await _page(visit, "conversation.html")


async def now(visit: Visit) -> Response:
    """The parts of a conversation's page that change while it is open."""
    return await _page(visit, "conversation_now.html")


async def earlier(visit: Visit) -> Response:
    """A page of the messages in front of those that another page shows."""
    found = await visit.conversation.messages_page(limit=MOST_MESSAGES, before=visit.query.before)
    return await visit.drawn("earlier.html", conversation_id=visit.path["conversation_id"], found=found)


async def feed(visit: Visit) -> Response:
    """Follow a conversation: its changes, and the text that the model is writing."""
    given = visit.headers.get("last-event-id", "")
    after = int(given) if given.isascii() and given.isdigit() and len(given) < 19 else visit.query.after  # noqa: PLR2004 - 2^63
    return await visit.follow(after, framed=_framed)


async def send(visit: Visit) -> Response:
    """Send the user's next message."""
    text, key = visit.form.get("text"), _key(visit, "message_id")
    await quotas.use(visit.client, visit.caller, visit.path["conversation_id"], key, starts=False)
    await visit.conversation.send(text, message_id=key)
    if visit.fragment:
        return visit.page("send.html", conversation_id=visit.path["conversation_id"], sent=True)
    return _back(visit)


async def cancel(visit: Visit) -> Response:
    """Cancel the turn that the page showed."""
    await visit.conversation.cancel(visit.form.get("turn_id") or None, request_id=_key(visit, "request_id"))
    return _back(visit)


async def end(visit: Visit) -> Response:
    """End the conversation for good."""
    if visit.form.get("sure") != "yes":
        raise invalid("sure: confirm that the conversation ends for good")
    await visit.conversation.end(request_id=_key(visit, "request_id"))
    return _back(visit)


async def retry(visit: Visit) -> Response:
    """Lift the quarantine."""
    await visit.conversation.retry()
    return _back(visit)


async def revoke(visit: Visit) -> Response:
    """End a grant, and go back to the page that listed it: a call, or its conversation."""
    key = _key(visit, "request_id")
    await visit.conversation.revoke(visit.path["grant_id"], visit.form.get("reason"), request_id=key)
    if suspension_id := visit.form.get("suspension_id"):
        return visit.to(path_of(suspension_id, visit.path["conversation_id"]))
    return _back(visit)


async def _page(visit: Visit, template: str) -> Response:
    found = visit.conversation
    around = await around_of(found, messages=MOST_MESSAGES, events=MOST_EVENTS)
    state = around.state or await found.state()
    turns = turns_of(around.history, found.id)
    used = sum((turn.usage for turn in turns), Usage())
    latest = turns[: -MOST_TURNS - 1 : -1]
    values: dict[str, Any] = {"conversation_id": found.id, "around": around, "turns": latest, "used": used}
    return await visit.drawn(template, state=state, **values)


def _framed(event: Event) -> bytes:
    match event.body:
        case TextDelta(text=text):
            return frame("said", {"text": text})
        case Ended():
            return frame("changed", {}, cursor=event.seq) + frame("over", {})
        case _:
            return frame("changed", {}, cursor=event.seq)


def _key(visit: Visit, name: str) -> str:
    found = visit.form.get(name)
    if not found:
        raise invalid(f"{name}: the form has none")
    return found


def _back(visit: Visit) -> Response:
    return visit.to(f"/conversations/{visit.path['conversation_id']}")


PAGES = (
    Page("GET", "/conversations", conversations, query=ConversationsQuery),
    Page("GET", "/conversations/{conversation_id}", conversation),
    Page("GET", "/conversations/{conversation_id}/now", now),
    Page("GET", "/conversations/{conversation_id}/earlier", earlier, query=EarlierQuery),
    Page("GET", "/conversations/{conversation_id}/feed", feed, query=FeedQuery, streams=True),
    Page("POST", "/conversations/{conversation_id}/send", send, scope=AccessScope.START, room=of_message),
    Page("POST", "/conversations/{conversation_id}/cancel", cancel, scope=AccessScope.START),
    Page("POST", "/conversations/{conversation_id}/grants/{grant_id}/revoke", revoke, scope=AccessScope.DECIDE),
    Page("POST", "/conversations/{conversation_id}/end", end, scope=AccessScope.START),
    Page("POST", "/conversations/{conversation_id}/retry", retry, scope=AccessScope.START),
)
