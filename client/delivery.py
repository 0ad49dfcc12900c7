"""Delivering a command, on the registry, without Ray: repeated with the same ids until it is answered or its time is up."""

import asyncio

from holdfast.actors import Failed, Replied
from holdfast.conversation import Command, Reply
from holdfast.errors import (
    ClusterUnavailable,
    HoldfastError,
    LeaseHeld,
    OutcomeUnknown,
    Overloaded,
    Quarantined,
    StoreUnavailable,
)
from holdfast.registry.registry import Registry

RETRY_S = 0.1


async def deliver(
    registry: Registry,
    conversation_id: str,
    command: Command,
    *,
    what: str,
    retry_id: str,
    timeout_s: float,
    create: bool = False,
) -> Reply:
    """Have a command judged; its reply, once what it led to is durable.

    Raises:
        OutcomeUnknown: No answer within the deadline; `retry_id` makes a repetition safe.
        HoldfastError: The command was refused.
    """
    loop = asyncio.get_running_loop()
    give_up = loop.time() + timeout_s
    handed = False  # whether an actor has had the command: from then on its outcome may be unknown
    last: HoldfastError | None = None
    while True:
        try:
            left_s = max(give_up - loop.time(), 0.001)
            answer = await registry.ask(conversation_id, command, timeout_s=left_s, create=create)
        except (TimeoutError, LeaseHeld) as error:
            raise OutcomeUnknown(what if last is None else f"{what} ({last})", retry_id) from error
        except (ClusterUnavailable, Overloaded, Quarantined) as error:
            if handed:
                raise OutcomeUnknown(f"{what} ({error})", retry_id) from error
            raise
        except StoreUnavailable as error:
            last = error
        else:
            match answer:
                case Replied(reply):
                    return reply
                case Failed(StoreUnavailable() as unavailable):
                    handed, last = True, unavailable
                case Failed(refusal):
                    raise refusal
        if loop.time() + RETRY_S >= give_up:
            if handed or last is None:
                raise OutcomeUnknown(f"{what} ({last})", retry_id) from last
            raise last
        await asyncio.sleep(RETRY_S)
