"""What came of a request for a summary, read from the log."""

from enum import StrEnum

from pydantic import Field

from holdfast.conversation import Event, SummaryFailure
from holdfast.conversation.ids import is_compaction_id
from holdfast.conversation.records import events
from holdfast.conversation.records.idempotency import IdempotencyRecord, request_key
from holdfast.conversation.terms.context import check_compacts
from holdfast.errors import SummaryNotFound
from holdfast.persistence import Conversations, Store

from .context_view import published_spec
from .results import Result
from .turns import READ_AT_ONCE, READ_FIRST


class SummaryStatus(StrEnum):
    """The status of a summary that was asked for."""

    WAITING = "waiting"  # it waits for a model call, or that goes on
    COMPACTED = "compacted"  # it stands for the oldest messages
    FAILED = "failed"  # there is none: `reason` and `error` say why
    CANCELLED = "cancelled"  # somebody cancelled it
    SUPERSEDED = "superseded"  # the conversation was interrupted before
    DROPPED = "dropped"  # the conversation ended before


class Summary(Result):
    """What came of a request for a summary of a conversation's oldest messages."""

    request_id: str = Field(description="The request's idempotency key.")
    accepted_at: int = Field(description="When it was accepted, in integer milliseconds UTC.")
    status: SummaryStatus
    messages: int | None = Field(default=None, description="How many messages it stands for: the oldest ones.")
    tokens_before: int | None = Field(default=None, description="About how many tokens a request's messages had before.")
    tokens_after: int | None = Field(default=None, description="About how many they have with the summary.")
    reason: SummaryFailure | None = Field(default=None, description="Why there is none, if that failed.")
    error: str | None = Field(default=None, description="What went wrong, in words and without secrets.")


async def summary_of(store: Conversations, conversation_id: str, request_id: str) -> Summary:
    """What came of a request for a summary; the log is read from there to the next one that is made, or fails."""
    record = await _asked(store, conversation_id, request_id)
    if record is None:
        await store.load(conversation_id)  # which says whether there is a conversation at all
        raise SummaryNotFound(conversation_id, request_id)
    seq, limit = record.seq, READ_FIRST
    found = Summary(request_id=request_id, accepted_at=record.at, status=SummaryStatus.WAITING)
    while page := await store.read(conversation_id, after=seq, limit=limit):
        for seq, event in page:
            if changes := _came_of_it(seq, event):
                return found.model_copy(update=changes)
        limit = min(2 * limit, READ_AT_ONCE)
    return found


def _came_of_it(seq: int, event: Event) -> dict[str, object] | None:
    """What an event behind a request says of its summary; None if nothing."""
    match event:
        case events.Compacted():
            counts = {name: getattr(event, name) for name in ("messages", "tokens_before", "tokens_after")}
            return {"status": SummaryStatus.COMPACTED, **counts}
        case events.SummaryFailed():
            return {"status": SummaryStatus.FAILED, "reason": event.reason, "error": event.error}
        case events.InputSuperseded():
            return {"status": SummaryStatus.SUPERSEDED}
        case events.TurnCancelled() if is_compaction_id(event.turn_id, last=seq) and event.request_id is not None:
            return {"status": SummaryStatus.CANCELLED}  # without an id it is part of an interruption or an end, which follows
        case events.Ended():
            return {"status": SummaryStatus.DROPPED}
        case _:
            return None


async def check_declared(store: Store, conversation_id: str, request_id: str) -> None:
    """Refuse a request for a summary if the conversation's agent, as it is published, has no `Compact`.

    While a turn goes on its own spec counts, by which the request itself is judged; a repeated request is not judged anew.
    """
    state = await store.load(conversation_id)
    if state.turn is not None or state.ended or await _asked(store, conversation_id, request_id) is not None:
        return
    spec = await published_spec(store, state)
    if spec is not None:
        check_compacts(spec.name, spec.context)


async def _asked(store: Conversations, conversation_id: str, request_id: str) -> IdempotencyRecord | None:
    key = request_key(request_id)
    record = (await store.known(conversation_id, [key])).get(key)
    return record if record is not None and record.digest == "compact" else None
