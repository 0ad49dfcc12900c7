"""The cursor of the events of a tree: the places in the logs of its conversations that are followed."""

import re
from collections.abc import Mapping

from holdfast.errors import InvalidInput

MOST_FOLLOWED = 64
"""The most conversations of a tree that one stream follows at a time."""
CURSOR = re.compile(rf"[0-9]{{1,18}}(?:,d-[a-z2-7]{{20}}=[0-9]{{1,18}}){{0,{MOST_FOLLOWED - 1}}}")
"""The place in the root's log, and in those of the conversations below it that are followed."""


def place_of(after: object) -> dict[str, int]:
    """The places that a cursor names, that of the root without a name. Its first place alone may be an integer."""
    text = str(after) if isinstance(after, int) and not isinstance(after, bool) else after
    if not isinstance(text, str) or CURSOR.fullmatch(text) is None:
        raise InvalidInput("after", f"{after!r:.60} is no cursor", "pass the `cursor` of the last event, or 0")
    root, *below = text.split(",")
    return {"": int(root)} | {name: int(seq) for name, _, seq in (one.partition("=") for one in below)}


def cursor_of(places: Mapping[str, int]) -> str:
    """The cursor that names places, that of the root without a name."""
    return ",".join(f"{name}={seq}" if name else str(seq) for name, seq in sorted(places.items()))
