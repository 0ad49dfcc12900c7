"""Decisions as they are sent: one as a request's body, several of a conversation as one command, any others one by one."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from holdfast.conversation import Decided, Decision, Receipt, ResolveMany
from holdfast.conversation.ids import digest
from holdfast.conversation.judging.deciding import MOST
from holdfast.conversation.terms.decisions import SAYS, DecisionRecord
from holdfast.conversation.text import jsontext
from holdfast.errors import HoldfastError, InvalidDecision

from .operation import encodes
from .results import PendingCall

SIDE_BY_SIDE = 16


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


def rulings_of(decisions: object) -> dict[str, DecisionRecord]:
    """The decisions of a mapping, by suspension, checked; `InvalidDecision` names the mistake."""
    if not isinstance(decisions, Mapping) or not 1 <= len(decisions) <= MOST:
        fix = f"give 1 to {MOST}, by their suspensions: {{call.suspension_id: Approve(), ...}}"
        raise InvalidDecision("decisions", f"{decisions!r:.60} is no batch of decisions", fix)
    found = {}
    for suspension_id, decision in decisions.items():
        if not isinstance(suspension_id, str) or not encodes(suspension_id):
            problem = f"{suspension_id!a:.40} is no suspension's id"
            raise InvalidDecision("suspension_id", problem, "pass PendingCall.suspension_id")
        found[suspension_id] = DecisionRecord.of(decision)
    return found


def many_of(decisions: Mapping[str, DecisionRecord], decision_id: str) -> ResolveMany:
    """The command for several decisions, each under a key derived from the given one."""
    return ResolveMany(
        decisions=tuple(
            Decided(suspension_id=name, ruling=ruling, decision_id=key_of(decision_id, name))
            for name, ruling in decisions.items()
        )
    )


def key_of(decision_id: str, suspension_id: str) -> str:
    """The key of one decision among several that were sent under one key."""
    return f"b-{digest('batch', decision_id, suspension_id)}"


async def resolve_each(
    resolve: Callable[..., Awaitable[Receipt]], pairs: Sequence[tuple[PendingCall[Any], Decision]], key: str
) -> list[Receipt | HoldfastError]:
    """The outcomes of decisions that are made one by one by `resolve`, as for a `PendingCall`."""
    room = asyncio.Semaphore(SIDE_BY_SIDE)

    async def one(call: PendingCall[Awaitable[Receipt]], decision: Decision) -> Receipt | HoldfastError:
        async with room:
            try:
                return await PendingCall.of(call, resolve).resolve(decision, decision_id=key_of(key, call.suspension_id))
            except HoldfastError as error:
                return error

    return list(await asyncio.gather(*(one(call, decision) for call, decision in pairs)))


def pairs_of(decisions: object) -> list[tuple[PendingCall[Any], Decision]]:
    """Pairs of a pending call and its decision, checked; `InvalidDecision` also if two are for one suspension."""
    fix = f"give a list of up to {MOST} pairs: [(call, Approve()), ...]"
    if isinstance(decisions, str | bytes) or not isinstance(decisions, Sequence) or len(decisions) > MOST:
        raise InvalidDecision("decisions", f"{decisions!r:.60} is no list of decisions", fix)
    found: list[tuple[PendingCall[Any], Decision]] = []
    for number, pair in enumerate(decisions, 1):
        if not isinstance(pair, tuple | list) or len(pair) != 2 or not isinstance(pair[0], PendingCall):  # noqa: PLR2004 - a pair
            raise InvalidDecision("decisions", f"number {number} is no pair of a pending call and a decision", fix)
        DecisionRecord.of(pair[1])
        found.append((pair[0], pair[1]))
    if len({call.suspension_id for call, _ in found}) < len(found):  # else chance would choose between the two
        raise InvalidDecision("decisions", "two are for one suspension", "decide each suspension once")
    return found
