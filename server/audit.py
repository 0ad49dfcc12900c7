"""The route of a conversation's audit: its checked chain of messages and decisions, as a list or as lines for an archive."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from starlette.responses import Response

from holdfast.client import verbs
from holdfast.client.replies import AuditReply
from holdfast.errors import HoldfastError

from .bodies import AuditQuery
from .error_responses import problem_of
from .operation import Asked, of
from .rendering import as_json

LINES = "application/jsonl"


async def audit(asked: Asked) -> AuditReply | Response:
    """A conversation's chain of messages and decisions, checked; with `Accept: application/jsonl` all of it, a line each."""
    conversation, query = asked.conversation, asked.query
    kept = () if query.receipt is None else (query.receipt,)
    if LINES in asked.headers.get("accept", ""):
        asked.serving.streams.check_room(asked.caller)
        found = conversation.audit_lines(after=query.after, receipts=kept)
        first = await anext(found)  # a refusal must come before the export begins
        return asked.serving.streams.lines(_written(first, found), media_type=LINES)
    report = await conversation.audit(receipts=kept)
    later = [entry for entry in report.entries if entry.seq > query.after]
    items = later[: query.limit]
    more = items[-1].seq if items and len(later) > len(items) else None
    return AuditReply.model_validate({**report.verdict(), "items": items, "next": more})


async def _written(first: dict[str, Any], following: AsyncGenerator[dict[str, Any], None]) -> AsyncGenerator[bytes, None]:
    """The lines as they are sent. An export that breaks off ends with a line of the kind `audit_failed`."""
    async with aclosing(following):
        try:
            yield as_json(first) + b"\n"
            async for line in following:
                yield as_json(line) + b"\n"
        except HoldfastError as error:
            yield as_json({"kind": "audit_failed", "problem": problem_of(error)}) + b"\n"


OPERATIONS = (of(verbs.AUDIT, audit, reply=AuditReply, query=AuditQuery),)
