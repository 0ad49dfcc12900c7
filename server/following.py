"""The route of the list events: new pending calls, settled ones, and changes of conversations."""

from starlette.responses import Response

from holdfast.client import InvalidInput, verbs
from holdfast.client.list_events import LIST_CURSOR

from .bodies import ListEventsQuery
from .operation import Asked, of


async def list_events(asked: Asked) -> Response:
    """Follow the lists. A caller whose key names agents gets only their conversations' events."""
    after, agents = _resumed(asked), asked.caller.agents
    if asked.query.agent is not None:
        agents = frozenset({asked.query.agent}) & (agents if agents is not None else {asked.query.agent})
    events = asked.client.events(after=after, agent=agents, kind=asked.query.kind)
    asked.serving.streams.check_room(asked.caller)  # no await from here until the stream has its place
    return asked.serving.streams.of(events, after=after or "")


def _resumed(asked: Asked) -> str | None:
    last = asked.headers.get("last-event-id") or asked.query.after
    if last is not None and LIST_CURSOR.fullmatch(last) is None:
        raise InvalidInput("Last-Event-ID", f"{last!a:.40} is no cursor", "send the last `id` that was received")
    return last


OPERATIONS = (
    of(
        verbs.LIST_EVENTS,
        "What changes in the lists, as it happens: calls that begin to wait, are noted or settled, statuses of conversations.",
        list_events,
        reply=None,
        query=ListEventsQuery,
        streams=True,
        last=LIST_CURSOR.pattern,
        endless=True,
    ),
)
