"""`holdfast reindex`: make the lists of conversations and pending calls anew from the conversations themselves."""

import sys
from collections.abc import AsyncIterator

from rich.console import Console
from rich.progress import Progress

from holdfast.persistence import Rebuilt
from holdfast.persistence.keys import BUCKETS

from .display import Said
from .errors import ExitCode
from .session import Session


async def run(on: Session) -> Said:
    """Rebuild every list from the conversations' logs, while everything keeps working.

    Needed after an upgrade that says so, or if another program has written to Redis. It needs Redis alone. Exit code 1 if a
    conversation could not be read: it is named, and left as it was.
    """
    store = await on.stack.store()
    buckets = [bucket async for bucket in _shown(store.reindex())]
    conversations = sum(bucket.conversations for bucket in buckets)
    removed = sum(bucket.removed for bucket in buckets)
    problems = [problem for bucket in buckets for problem in bucket.problems]
    data = {"conversations": conversations, "removed": removed, "problems": problems}
    lines = [f"{conversations} conversations indexed, {removed} stale entries removed.", *(f"  {one}" for one in problems)]
    return Said(data, lines, code=ExitCode.FAILED if problems else ExitCode.DONE)


async def _shown(rebuild: AsyncIterator[Rebuilt]) -> AsyncIterator[Rebuilt]:
    """The buckets of a rebuild, with a progress bar where stderr is a terminal."""
    console = Console(file=sys.stderr)
    with Progress(console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task("buckets", total=BUCKETS)
        async for bucket in rebuild:
            progress.advance(task)
            yield bucket
