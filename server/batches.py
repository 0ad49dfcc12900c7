"""The routes for several decisions: in one conversation all or none, across conversations each by itself."""

import asyncio
import logging
from collections.abc import Sequence

from holdfast.client import Decision, operation, verbs
from holdfast.client.batches import SIDE_BY_SIDE, key_of
from holdfast.client.replies import DecidedEachReply, DecidedManyReply, DecidedReply, Problem, SettledReply
from holdfast.conversation.judging.deciding import MOST
from holdfast.errors import BatchRefused, HoldfastError, InvalidDecision, StaleCall

from . import page_view
from .decision_bodies import MOST_EACH, DecisionItem, ResolveEachBody, ResolveManyBody
from .decisions import check_page, decide, page_of
from .error_responses import problem_of, unexpected
from .operation import Asked, of, of_decision

logger = logging.getLogger("holdfast.server")


async def resolve_many(asked: Asked) -> DecidedManyReply:
    """Decide several pending calls of a conversation, all or none; 409 says which cannot be decided, and why."""
    key, conversation_id = operation.key_of("decision_id", InvalidDecision, asked.key), asked.path["conversation_id"]
    decisions = _by_suspension(conversation_id, asked.body.decisions)
    await _check_page(asked, conversation_id, decisions)
    receipts = await asked.conversation.resolve_many(decisions, decision_id=key)
    items = [
        SettledReply(**receipt.model_dump(), suspension_id=suspension_id)
        for suspension_id, receipt in zip(decisions, receipts, strict=True)
    ]
    return DecidedManyReply(conversation_id=conversation_id, decision_id=key, items=items)


async def resolve_each(asked: Asked) -> DecidedEachReply:
    """Decide several pending calls of any conversations, each by itself: one result for each, in order."""
    key, items = operation.key_of("decision_id", InvalidDecision, asked.key), asked.body.decisions
    room = asyncio.Semaphore(SIDE_BY_SIDE)
    _check_distinct(items)
    asked.serving.callers.charge(asked.caller, len(items) - 1)

    async def one(item: DecisionItem) -> DecidedReply:
        async with room:
            return await _decided(asked, item, key_of(key, item.root.suspension_id))

    return DecidedEachReply(decision_id=key, items=list(await asyncio.gather(*map(one, items))))


async def _decided(asked: Asked, item: DecisionItem, key: str) -> DecidedReply:
    """The outcome of one of several decisions; the caller's permission is checked for each."""
    body = item.root
    suspension_id = body.suspension_id
    try:
        await asked.serving.reach.check_suspension(asked.caller, suspension_id, body.conversation_id)
        receipt = await decide(asked, suspension_id, body.conversation_id, body, key)
    except HoldfastError as error:
        problem = problem_of(page_view.error_of(asked.caller, error))
    except Exception:  # a bug of ours must not hide the other items' receipts
        logger.exception("a decision on %a failed", suspension_id)
        problem = unexpected()
    else:
        settled = SettledReply(**receipt.model_dump(), suspension_id=suspension_id)
        return DecidedReply(suspension_id=suspension_id, decision_id=key, status=200, receipt=settled)
    said = Problem.model_validate(problem)
    return DecidedReply(suspension_id=suspension_id, decision_id=key, status=said.status, problem=said)


def _by_suspension(conversation_id: str, items: Sequence[DecisionItem]) -> dict[str, Decision]:
    """Several decisions about one conversation, by suspension; one that does not fit is refused as `InvalidDecision`."""
    _check_distinct(items)
    for number, item in enumerate(items):
        if item.root.conversation_id not in (None, conversation_id):
            problem = f"the decisions of this request are all about {conversation_id!r}"
            raise InvalidDecision(f"decisions.{number}.conversation_id", problem, "leave it out")
        if item.root.tool_call_id is not None:
            problem = "each of these decisions names its call by the suspension alone"
            raise InvalidDecision(f"decisions.{number}.tool_call_id", problem, "leave it out")
    return {item.root.suspension_id: _decision(number, item) for number, item in enumerate(items)}


def _decision(number: int, item: DecisionItem) -> Decision:
    try:
        decision: Decision = item.root.decided()
    except InvalidDecision as error:
        raise InvalidDecision(f"decisions.{number}.{error.field}", error.problem, error.fix) from None
    return decision


def _check_distinct(items: Sequence[DecisionItem]) -> None:
    seen = set()
    for number, item in enumerate(items):
        if item.root.suspension_id in seen:
            problem = f"{item.root.suspension_id!a:.80} is decided twice in this request"
            raise InvalidDecision(f"decisions.{number}.suspension_id", problem, "decide each suspension once")
        seen.add(item.root.suspension_id)


async def _check_page(asked: Asked, conversation_id: str, decisions: dict[str, Decision]) -> None:
    """Refuse the whole batch if the page may not make every one of its decisions."""
    if (page := page_of(asked, conversation_id)) is None:
        return
    if len(decisions) > MOST_EACH:
        raise InvalidDecision("decisions", f"there are {len(decisions)}, and a page may send {MOST_EACH} at once", "send fewer")
    asked.serving.callers.charge(asked.caller, len(decisions) - 1)
    refused: dict[str, HoldfastError] = {}
    waiting = await asked.conversation.pending()
    shown = {call.suspension_id: call for call in waiting if not call.cut}  # cut ones are looked up one by one
    for suspension_id, decision in decisions.items():
        try:
            await check_page(asked, page, suspension_id, decision, shown.get(suspension_id))
        except (StaleCall, InvalidDecision) as error:
            refused[suspension_id] = error
    if refused:
        raise BatchRefused(conversation_id, refused)


OPERATIONS = (
    of(
        verbs.RESOLVE_MANY,
        resolve_many,
        reply=DecidedManyReply,
        body=ResolveManyBody,
        room=lambda limits: MOST * of_decision(limits),
    ),
    of(
        verbs.RESOLVE_EACH,
        resolve_each,
        reply=DecidedEachReply,
        body=ResolveEachBody,
        room=lambda limits: MOST_EACH * of_decision(limits),
        status=207,
    ),
)
