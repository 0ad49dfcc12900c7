"""Checks of JSON values that may be large, without blocking the event loop."""

import asyncio
from collections.abc import Callable, Mapping
from typing import TypeVar

from holdfast.conversation import Answer, Approve

MOST_AT_ONCE = 1_000
"""How many values, or hundreds of characters, are checked at once, within a few milliseconds."""
CHARS = 100

T = TypeVar("T")


async def judged(work: Callable[[], T], *values: object) -> T:
    """The result of work on these values: in a thread if they are large."""
    return await asyncio.to_thread(work) if is_large(values) else work()


def is_large(value: object) -> bool:
    """Whether a value is large; it is read only as far as needed to tell."""
    left, waiting = MOST_AT_ONCE, [value]
    while waiting and left > 0:
        match waiting.pop():
            case str() as text:
                left -= len(text) // CHARS
            case Mapping() as pairs:
                left -= 2 * len(pairs)
                waiting += [*pairs, *pairs.values()] if left > 0 else []
            case Approve(arguments=inner) | Answer(value=inner):
                waiting.append(inner)
            case list() | tuple() as items:
                left -= len(items)
                waiting += items if left > 0 else []
            case _:
                pass
    return left <= 0
