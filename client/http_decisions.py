"""Decisions as a client over HTTP sends them: one, all of a conversation, or many, each by itself."""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from holdfast.conversation import Decision, Receipt
from holdfast.conversation.ids import check_conversation_id
from holdfast.conversation.terms.decisions import SAYS, DecisionRecord
from holdfast.conversation.text import jsontext
from holdfast.errors import HoldfastError, InvalidInput, OutcomeUnknown, ServerRefused, StaleCall, StaleReason

from . import batches
from . import http_replies as replies
from .arguments import encodes
from .batches import key_of
from .http_exchange import FAILED, Exchange
from .results import PendingCall
from .verbs import RESOLVE_EACH

TOGETHER, TOGETHER_BYTES = 100, 1 << 20
"""How many decisions, and about how many bytes of them, one request carries: fewer than a server takes."""


def said(ruling: DecisionRecord) -> dict[str, Any]:
    """A decision as the body of a request."""
    found: dict[str, Any] = {"decision": ruling.kind.value}
    if ruling.reason:
        found["reason"] = ruling.reason
    if ruling.scope is not None:
        found["scope"] = ruling.scope.model_dump(mode="json")
    if ruling.body is None:
        return found
    body = jsontext.loads(ruling.body)
    names = SAYS[ruling.kind]
    return found | (body if len(names) > 1 else {names[0]: body})


async def resolve_each(
    exchange: Exchange,
    resolve: Callable[..., Awaitable[Receipt]],
    pairs: Sequence[tuple[PendingCall[Any], Decision]],
    key: str,
) -> list[Receipt | HoldfastError]:
    """See `AsyncClient.resolve_each`. Many decisions go in several requests, one after the other."""
    by_id = {call.suspension_id: (call, decision) for call, decision in pairs}
    found: dict[str, Receipt | HoldfastError] = {}
    items: dict[str, dict[str, Any]] = {}
    for call, decision in pairs:
        try:
            call.check_shown(decision)
            items[call.suspension_id] = _item(call, decision)
        except HoldfastError as error:
            found[call.suspension_id] = error
    for chunk in _chunks(items):
        found |= await _resolve_together(exchange, resolve, [by_id[name] for name in chunk], list(chunk.values()), key)
    return [found[call.suspension_id] for call, _ in pairs]


async def _resolve_together(
    exchange: Exchange,
    resolve: Callable[..., Awaitable[Receipt]],
    pairs: Sequence[tuple[PendingCall[Any], Decision]],
    items: Sequence[Mapping[str, Any]],
    key: str,
) -> dict[str, Receipt | HoldfastError]:
    """The outcomes of decisions sent in one request, or one by one if the server does not take them together."""
    names = [call.suspension_id for call, _ in pairs]
    path, read = RESOLVE_EACH.path, partial(replies.decided, count=len(items))
    rounds = -(-len(items) // batches.SIDE_BY_SIDE)  # the server makes so many at a time, and each may take its whole time
    longer_s = exchange.timeout_s * (rounds - 1)
    try:
        outcomes = await exchange.post(path, RESOLVE_EACH.what, {"decisions": items}, read, key=key, longer_s=longer_s)
    except OutcomeUnknown as error:
        return {name: OutcomeUnknown(error.what, key_of(key, name)) for name in names}
    except (InvalidInput, ServerRefused):  # of the request as a whole, since one is too large or too deep: nothing was done
        outcomes = await batches.resolve_each(resolve, pairs, key)
    except HoldfastError as error:
        return dict.fromkeys(names, error)
    return {name: _known(outcome, key_of(key, name)) for name, outcome in zip(names, outcomes, strict=True)}


def _known(outcome: Receipt | HoldfastError, retry_id: str) -> Receipt | HoldfastError:
    """The outcome as a single decision would have it: if the server failed, the decision may be recorded."""
    if isinstance(outcome, ServerRefused) and outcome.http_status in FAILED:
        return OutcomeUnknown(f"the decision ({outcome})", retry_id)
    return outcome


def _item(call: PendingCall[Any], decision: Decision) -> dict[str, Any]:
    """One of several decisions as the body of a request; `StaleCall` if no call of Holdfast can have its ids."""
    if not (encodes(call.suspension_id) and encodes(call.tool_call_id)):
        raise StaleCall(call.conversation_id, ascii(call.tool_call_id), StaleReason.UNKNOWN)
    place = {"suspension_id": call.suspension_id, "tool_call_id": call.tool_call_id}
    return said(DecisionRecord.of(decision)) | place | {"conversation_id": check_conversation_id(call.conversation_id)}


def _chunks(items: Mapping[str, Mapping[str, Any]]) -> Iterator[dict[str, Mapping[str, Any]]]:
    """The items in their order, as many together as fit in one request; a large one goes alone."""
    chunk: dict[str, Mapping[str, Any]] = {}
    size = 0
    for name, item in items.items():
        length = jsontext.size_bytes(jsontext.dumps(item))
        if chunk and (len(chunk) == TOGETHER or size + length > TOGETHER_BYTES):
            yield chunk
            chunk, size = {}, 0
        chunk[name] = item
        size += length
    if chunk:
        yield chunk
