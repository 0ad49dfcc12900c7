"""`holdfast inbox`: what waits, most urgent first, on one live screen, and decided there."""

import sys
from importlib import import_module
from typing import Annotated, Any

from holdfast.cli.options import Where, chosen, options_of
from holdfast.cli.pending import ROLE, asked
from holdfast.cli.session import Reached, within
from holdfast.client.filters import CALLS
from holdfast.errors import InvalidInput

FILTERS = [one for one in CALLS if one.at is None]
"""Those of the list of pending calls but age and deadline, by which the inbox is ordered."""


def run(where: Where, **filters: Annotated[Any, options_of(FILTERS), ROLE]) -> None:
    """Show what waits, most urgent first, as it comes; decide it there.

    Each call is shown whole, with its conversation's last messages. The keys that decide it stand at the foot of the screen;
    q leaves. The editor for arguments and for the notes of a review is VISUAL's or EDITOR's.
    """
    wanted = asked(chosen(filters))

    async def shown(on: Reached) -> None:
        if not all(one.isatty() for one in (sys.stdin, sys.stdout, sys.stderr)):  # textual draws on the last one
            raise InvalidInput("inbox", "it needs a terminal", "use `holdfast pending`, and `holdfast approve` and the like")
        app = import_module(".app", __package__)  # textual takes a third of a second to import, also for `--help`
        await app.run(on, wanted)

    within(where, shown)
