"""Several calls decided at once: first all of them listed, then each with its own result."""

import asyncio
import json
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from starlette.responses import Response

from holdfast.client import Decision, HoldfastError, PendingCall
from holdfast.client.access import AccessScope
from holdfast.client.inbox.choices import CHOICES, MOST_AT_ONCE, Choice
from holdfast.client.inbox.history import Settled
from holdfast.client.inbox.kinds import shared
from holdfast.conversation.text.jsontext import size_bytes
from holdfast.errors import StaleCall
from holdfast.server.refusal import invalid

from .details import settled_of
from .inbox import InboxQuery
from .visit import Page, Visit

SIDE_BY_SIDE = 8
MOST_BYTES = 2 * 1024 * 1024
"""The most bytes of JSON of calls that are decided together: a person must read all of them on one page."""
TOO_LARGE = "It is too large to be decided beside the others: decide it by itself."


@dataclass(frozen=True, slots=True)
class Marked:
    """A marked call, or why it cannot be decided."""

    conversation_id: str
    suspension_id: str
    call: PendingCall[Any] | None = None
    settled: Settled | None = None
    problem: str = ""
    decided: str = ""
    voted: str = ""


async def review(visit: Visit) -> Response:
    """The marked calls, whole, with the decisions that all of them take."""
    return await _page(visit, await _marked(visit), problem="")


async def decide(visit: Visit) -> Response:
    """Decide each of them by itself."""
    choice = CHOICES.get(visit.form.get("decision"))
    if choice is None or choice.made is None:
        raise invalid("decision: choose one that several calls take")
    reason, batch = visit.form.get("reason"), visit.form.get("batch")
    if not batch:
        raise invalid("batch: the form has none")
    marked = await _marked(visit)
    if choice.name == "fail" and not reason.strip():
        return await _page(visit, marked, problem="Say what went wrong: the agents read it.")
    decision, room = choice.made(reason), asyncio.Semaphore(SIDE_BY_SIDE)

    async def one(item: Marked) -> Marked:
        async with room:
            return await _decided(visit, item, choice, decision, f"{batch}-{choice.name}-{item.suspension_id}"[-200:])

    done = await asyncio.gather(*(one(item) for item in marked))
    return visit.page("several_done.html", done=done, choice=choice)


async def _page(visit: Visit, marked: Sequence[Marked], *, problem: str) -> Response:
    batch = visit.form.get("batch") or uuid.uuid4().hex
    choices = shared([item.call for item in marked if item.call is not None])
    values: dict[str, Any] = {"marked": marked, "choices_here": choices, "problem": problem, "batch": batch}
    return await visit.drawn("several.html", status=422 if problem else 200, **values)


async def _marked(visit: Visit) -> list[Marked]:
    named = [Marked(*name.partition("/")[::2]) for name in dict.fromkeys(visit.form.all("call"))]
    if not 1 <= len(named) <= MOST_AT_ONCE:
        raise invalid(f"call: {len(named)} are marked; mark 1 to {MOST_AT_ONCE}")
    found: list[Marked] = []
    left = MOST_BYTES
    for begin in range(0, len(named), SIDE_BY_SIDE):
        items = named[begin : begin + SIDE_BY_SIDE]
        if left < 0:  # the rest is not read at all
            found += (replace(item, problem=TOO_LARGE) for item in items)
            continue
        for item in await asyncio.gather(*(_looked_up(visit, item) for item in items)):
            left -= 0 if item.call is None else size_bytes(json.dumps(item.call.to_dict(), ensure_ascii=False))
            fits = left >= 0 or item.call is None
            found.append(item if fits else replace(item, call=None, problem=TOO_LARGE))
    return found


async def _looked_up(visit: Visit, item: Marked) -> Marked:
    try:
        await visit.serving.reach.check(visit.caller, item.conversation_id)
        call = await visit.client.pending_call(item.suspension_id, conversation_id=item.conversation_id)
    except StaleCall as stale:
        return replace(item, settled=await settled_of(visit, stale, item.conversation_id, item.suspension_id))
    except HoldfastError as error:
        return replace(item, problem=str(error))
    return replace(item, call=call)


async def _decided(visit: Visit, item: Marked, choice: Choice, decision: Decision, key: str) -> Marked:
    """The result of one decision; a failure stops none of the others."""
    if item.call is None and item.settled is None:
        return item
    place = item.conversation_id, item.suspension_id
    item = replace(item, settled=None)
    try:  # a repeated form gets the same receipts
        if item.call is not None:
            receipt = await item.call.resolve(decision, decision_id=key)
        else:
            receipt = await visit.client.resolve(place[1], decision, conversation_id=place[0], decision_id=key)
    except StaleCall as stale:
        return replace(item, settled=await settled_of(visit, stale, *place))
    except HoldfastError as error:
        return replace(item, problem=str(error))
    if not receipt.settled:  # others must agree, and it is still pending
        return replace(item, voted=f"{receipt.votes} of {receipt.needed} have agreed")
    return replace(item, decided=choice.done)


PAGES = (
    Page("POST", "/several", review, query=InboxQuery),
    Page("POST", "/several/decide", decide, scope=AccessScope.DECIDE, query=InboxQuery),
)
