"""What `holdfast doctor` looks at in the conversations: which cannot be taken up, and which are in quarantine."""

from collections.abc import Sequence

from holdfast.actors.settings import StoreAddress
from holdfast.conversation import HoldfastError, Status
from holdfast.persistence import RedisStore

from .check import Check, ok, warn

NAMED = 20
"""How many conversations of each kind are named; the last check counts the others."""


async def conversation_checks(where: StoreAddress) -> list[Check]:
    """Which conversations go no further, and why."""
    store = RedisStore(where.redis_url, namespace=where.namespace, store_id=where.store_id, cipher=where.cipher)
    try:
        troubles = await store.troubles()
        page = await store.conversations(limit=NAMED + 1, status=Status.QUARANTINED)
        quarantined = [(row.conversation_id, await store.quarantine(row.conversation_id)) for row in page.items[:NAMED]]
    except HoldfastError as error:
        return [warn("conversations", f"they cannot be looked at: {error}", "correct what is wrong with Redis, and look again")]
    finally:
        await store.close()
    checks = [_trouble(trouble.conversation_id, trouble.reason) for trouble in troubles[:NAMED]]
    checks += [_quarantined(name, found.reason) for name, found in quarantined if found is not None]
    checks += _more(len(troubles) - NAMED, "cannot be taken up", "correct what these have in common first")
    if len(page.items) > NAMED:
        checks.append(warn("conversations", "more are in quarantine", "holdfast list --status quarantined"))
    return checks or [ok("conversations", "none is in trouble, none in quarantine")]


def _trouble(conversation_id: str, reason: str) -> Check:
    fix = "it is tried again by itself; correct what the reason names"
    return warn("conversations", f"{conversation_id} needs attention and cannot be taken up: {reason}", fix)


def _quarantined(conversation_id: str, reason: str) -> Check:
    fix = f"correct the cause, then run: holdfast retry {conversation_id}"
    return warn("conversations", f"{conversation_id} is in quarantine: {reason}", fix)


def _more(count: int, what: str, fix: str) -> Sequence[Check]:
    return [warn("conversations", f"{count} more {what}", fix)] if count > 0 else []
