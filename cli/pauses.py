"""The texts of pauses, for each command whose reader would wonder why no work goes on."""

from collections.abc import Sequence

from holdfast.client import AsyncClient, Pause
from holdfast.errors import CorruptStore

from .display import clean, shorten, span

REASON_LENGTH = 200


def whose(agent: str | None) -> str:
    """The text for an agent, or for the whole namespace."""
    return "the namespace" if agent is None else f"agent {clean(agent)}"


def described(pause: Pause, now: int) -> str:
    """The text of a pause, on one line and without a full stop; `now` is the store's time in milliseconds UTC."""
    reason = f": {shorten(clean(pause.reason), REASON_LENGTH)}" if pause.reason else ""
    return f"New work of {whose(pause.agent)} has been paused for {span(now - pause.since)} by {clean(pause.by)}{reason}"


async def standing(client: AsyncClient) -> list[Pause]:
    """The current pauses; empty if they cannot be read, so that a list does not fail: `holdfast doctor` reports it."""
    try:
        return await client.paused()
    except CorruptStore:
        return []


def notice(pauses: Sequence[Pause], now: int) -> str:
    """The line about the current pauses, with its line end; '' without pauses."""
    if not pauses:
        return ""
    more = f" (and {len(pauses) - 1} more; see `holdfast doctor`)" if len(pauses) > 1 else ""
    return f"{described(pauses[0], now)}{more}.\n"
