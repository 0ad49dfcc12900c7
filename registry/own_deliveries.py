"""What conversations owe each other: commands that the courier sends through the registry, safe to repeat by their ids."""

from collections.abc import Mapping

from holdfast.actors.answers import Replied
from holdfast.actors.workers import DeliverAnswer, Delivered, Later, SetAside
from holdfast.conversation import Command, End
from holdfast.errors import ConfigurationError, ConversationEnded, ConversationNotFound, InvalidInput, NotPermitted, StaleCall
from holdfast.persistence import Leased
from holdfast.redaction import PLAIN

from .courier import Own
from .registry import Delivery, Refused, Registry

DELIVERY_S = 30.0
_OVER = (ConversationEnded, ConversationNotFound, StaleCall)
"""Refusals that show that there is nothing (more) to do: the same command came before, or what it is about is gone."""
_FINAL = (InvalidInput, NotPermitted)
"""Refusals that every repetition would meet."""


def own_deliveries(registry: Registry) -> Mapping[str, Own]:
    """How each kind of what conversations owe each other is delivered."""

    async def end(conversation_id: str, leased: Leased) -> DeliverAnswer:
        command = End(request_id=leased.envelope.message_id(leased.conversation_id))
        return await _sent(registry, conversation_id, command)

    return {"end": end}


async def _sent(registry: Registry, conversation_id: str, command: Command) -> DeliverAnswer:
    result = await registry.deliver(Delivery(conversation_id, command, timeout_s=DELIVERY_S))
    match result:
        case Replied():
            return Delivered()
        case _ if isinstance(result.error, _OVER):
            return Delivered()
        case Refused(error) if isinstance(error, _FINAL) and not isinstance(error, ConfigurationError):
            return SetAside(PLAIN.said(error, 300))
        case _:
            return Later(PLAIN.said(result.error, 300))
