"""What conversations owe and have not delivered yet, as clients see it."""

from collections.abc import Sequence
from typing import Any

from pydantic import Field

from holdfast.conversation.log.owed import addressed, notified, shown_target
from holdfast.persistence import OutboxRow, Store
from holdfast.persistence import OutboxState as OutboxState  # noqa: PLC0414 - servers take it from here
from holdfast.persistence.outbox import after_cursor, of_outbox_id, outbox_id

from .results import Page, Result


class Undelivered(Result):
    """Something that a conversation owes a notification target or another conversation: first in its queue, or set aside."""

    id: str = Field(description="Its id, for `redeliver` and `drop`.")
    message_id: str = Field(description="The id by which the receiver recognises a repetition.")
    conversation_id: str
    target: str = Field(description="The name of the notification target; `own` where it is a conversation.")
    to: str = Field(description="The app of the notification target, or the conversation that is the target.")
    kind: str = Field(description="What it is about, such as `suspended`.")
    seq: int = Field(description="The place of its event in the log.")
    state: OutboxState = Field(description="Whether it is owed or was set aside.")
    owed_at: int = Field(description="When it was owed, in integer milliseconds UTC.")
    set_aside_at: int | None = Field(default=None, description="When it was set aside, in integer milliseconds UTC.")
    due_at: int | None = Field(default=None, description="When it is tried next, in integer milliseconds UTC.")
    tries: int = Field(default=0, description="How often it was tried in vain.")
    waiting: int = Field(default=0, description="How many stand in its queue, it included.")
    reason: str = Field(default="", description="Why the last try failed; empty without one.")


def undelivered(row: OutboxRow) -> Undelivered:
    """A row of the store's outbox as clients see it."""
    envelope, owed = row.envelope, row.state is OutboxState.OWED
    found, to = notified(envelope.target), addressed(envelope.target)
    return Undelivered(
        id=outbox_id(row.conversation_id, envelope),
        message_id=envelope.message_id(row.conversation_id),
        conversation_id=row.conversation_id,
        target=shown_target(envelope.target),
        to=found[1] if found is not None else to or envelope.target,
        kind=envelope.kind,
        seq=envelope.seq,
        state=row.state,
        owed_at=envelope.at,
        set_aside_at=None if owed else row.since,
        due_at=row.due_at if owed else None,
        tries=row.tries,
        waiting=row.waiting,
        reason=row.reason,
    )


async def outbox_page(store: Store, state: OutboxState, *, limit: int, after: str | None) -> Page[Undelivered]:
    """A page of what is owed, or was set aside."""
    page = await store.outbox(state, limit=limit, after=after)
    rows: Sequence[Any] = page.items
    return Page(items=[undelivered(row) for row in rows], next=page.next)


def outbox_cursor_of(after: str | None) -> str | None:
    """The cursor of a page of the outbox, checked."""
    after_cursor(after)
    return after


def outbox_id_of(name: str) -> str:
    """The id of something in the outbox, checked."""
    of_outbox_id(name)
    return name
