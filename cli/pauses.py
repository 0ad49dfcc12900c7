"""The texts and checks of pauses, for each command whose reader would wonder why no work goes on."""

from collections.abc import Sequence

from holdfast.client import AsyncClient, Pause
from holdfast.errors import CorruptStore, HoldfastError
from holdfast.persistence import RedisStore
from holdfast.persistence.keys import Keys

from .check import Check, fail, ok, warn
from .display import clean, shorten, span
from .hints import command
from .options import Where

REASON_LENGTH = 200


def whose(agent: str | None) -> str:
    """The text for an agent, or for the whole namespace."""
    return "the namespace" if agent is None else f"agent {clean(agent)}"


def described(pause: Pause, now: int) -> str:
    """The text of a pause, on one line and without a full stop; `now` is the store's time in milliseconds UTC."""
    reason = f": {shorten(clean(pause.reason), REASON_LENGTH)}" if pause.reason else ""
    return f"New work of {whose(pause.agent)} has been paused for {span(now - pause.since)} by {clean(pause.by)}{reason}"


async def standing(client: AsyncClient) -> list[Pause]:
    """The pauses that stand; none where they cannot be read, so that a list does not fail: `holdfast doctor` says so."""
    try:
        return await client.paused()
    except CorruptStore:
        return []


def notice(pauses: Sequence[Pause], now: int) -> str:
    """The line about the pauses that stand, with its line end; '' without pauses."""
    if not pauses:
        return ""
    more = f" (and {len(pauses) - 1} more; see `holdfast doctor`)" if len(pauses) > 1 else ""
    return f"{described(pauses[0], now)}{more}.\n"


async def pause_checks(url: str, namespace: str, where: Where) -> list[Check]:
    """The checks of `holdfast doctor` on pauses."""
    store = RedisStore(url, namespace=namespace)
    try:
        paused = await store.paused()
    except HoldfastError as error:
        problem = f"nothing new begins, since the pauses cannot be read: {error}"
        return [fail("paused", problem, f"correct or delete the key {Keys(namespace).meta('pauses')}")]
    finally:
        await store.close()
    return [_check(pause, paused.now, where) for pause in paused.pauses] or [ok("paused", "no new work is paused")]


def _check(pause: Pause, now: int, where: Where) -> Check:
    agent = ["--agent", pause.agent] if pause.agent is not None else []
    return warn("paused", described(pause, now), f"once it may go on, run: {command(['resume', *agent], where)}")
