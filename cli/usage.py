"""`holdfast usage`: what the models' answers used: tokens, cost and time, by model, tool or agent."""

import sys
from typing import Annotated, Any

import typer

from holdfast.client import Usage, UsageBy, UsageReport, UsageRow
from holdfast.client.filters import USED
from holdfast.errors import InvalidInput

from .display import clean, many, to_json, write_table
from .hints import more
from .options import PAGE, AsJson, chosen, options_of
from .session import Reached

NO_NAME = "-"
"""What stands in place of an unknown model, and for answers without calls."""


async def run(
    on: Reached,
    conversation: Annotated[str | None, typer.Argument(help="One conversation; without it, all in pages.")] = None,
    *,
    by: Annotated[UsageBy, typer.Option(help="What the rows are about.")] = UsageBy.MODEL,
    as_json: AsJson = False,
    **filters: Annotated[Any, options_of(USED), PAGE],
) -> None:
    """Sum up what the models' answers used: tokens, cost by litellm's prices, and time.

    Each log is read whole, so without CONVERSATION this is a page of conversations, oldest first; --json gives the `next` one.
    """
    given = chosen(filters)
    if conversation is not None and given:
        raise InvalidInput(f"--{next(iter(given))}", "it does not go with a conversation", "leave one of them out")
    found = await (on.client.usage(by, **given) if conversation is None else on.client.conversation(conversation).usage(by))
    if as_json:
        sys.stdout.write(to_json(found.model_dump(mode="json"), indent=2) + "\n")
        return
    _draw(found)
    if found.next is not None:
        sys.stdout.write(more("usage", {"by": by.value, **given}, found.next, on.where))


def _draw(found: UsageReport) -> None:
    columns = (found.by.value.upper(), "ANSWERS", "SENT", "CACHED", "RECEIVED", "THINKING", "USD", "SECONDS", "CALLS", "ERRORS")
    write_table(columns, [_cells(row) for row in found.rows])
    of = f"{many(found.conversations, 'conversation')} with {many(found.turns, 'turn')}"
    sys.stdout.write(f"{of}: {used_in_words(found.total)}\n")
    for name in found.unreadable:
        sys.stdout.write(f"Not counted, since it cannot be read: {clean(name)}\n")


def _cells(row: UsageRow) -> tuple[str, ...]:
    used = row.usage
    shown = (used.model_calls, used.input_tokens, used.cached_tokens, used.output_tokens, used.reasoning_tokens)
    counts = tuple("?" if one is None else str(one) for one in shown)
    cost = "?" if used.cost_usd is None else f"{used.cost_usd:.4f}"
    seconds = "?" if used.model_ms is None else f"{used.model_ms / 1000:.1f}"
    return (clean(row.name) or NO_NAME, *counts, cost, seconds, str(row.tool_calls), str(row.tool_errors))


def used_in_words(used: Usage) -> str:
    """What answers used, in one line; what is not known is left out."""
    parts = [many(used.model_calls, "answer")]
    if used.input_tokens is not None:
        parts.append(
            f"{many(used.input_tokens, 'token')} sent" + (f" ({used.cached_tokens} cached)" if used.cached_tokens else "")
        )
    if used.output_tokens is not None:
        thinking = f" ({used.reasoning_tokens} of thinking)" if used.reasoning_tokens else ""
        parts.append(f"{many(used.output_tokens, 'token')} received{thinking}")
    if used.cost_usd is not None:
        parts.append(f"{used.cost_usd:.4f} USD")
    if used.model_ms is not None:
        parts.append(f"{used.model_ms / 1000:.1f} s")
    return ", ".join(parts)
