"""The deliveries that a log owes, as a courier asks a worker for them."""

from holdfast.actors.workers import DeliverRequest
from holdfast.conversation.log.owed import Envelope, notice_kind, notice_target


async def requests_of(store, conversation_id, target):
    """A request for each event of a log that a target can be told of, in the log's order."""
    entries = await store.read(conversation_id, after=0)
    kinds = [(seq, kind, event.at) for seq, event in entries if (kind := notice_kind(event)) is not None]
    return [request(conversation_id, target, kind, seq, at=at) for seq, kind, at in kinds]


def request(conversation_id, target, kind, seq, *, at=0):
    """A request to tell a target of one entry."""
    return DeliverRequest(conversation_id, target, Envelope(str(kind), notice_target(target, "shop:app"), seq, 0, at))
