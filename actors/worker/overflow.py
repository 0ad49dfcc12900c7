"""A provider's word that a request has more tokens than its model takes. litellm knows the words of some; here are others."""

import re

SEARCHED = 4000
"""How many characters of an error are searched."""
REFUSED = 400
STATUSES = frozenset({REFUSED, 413, 422})
"""The statuses by which providers refuse a request for its length."""
FIX = "the request is longer than the model's context window: Agent(context=Context(...)) bounds what is sent"
_WORDS = re.compile(
    r"context[ _-](?:length|window|size|limit)"
    r"|maximum (?:prompt|context|input) (?:length|size|tokens)"
    r"|(?:prompt|input|request|conversation) is too long"
    r"|too many (?:input |prompt )?tokens"
    r"|reduce the (?:length|number of tokens|size) of"
    r"|(?:input|prompt) (?:length|tokens?|token count)[^.;\n]{0,80}exceed"
    r"|exceeds? (?:the )?(?:maximum )?(?:number of |allowed )?(?:input |prompt )?tokens",
    re.IGNORECASE,
)


def says_overflow(status: object, words: str) -> bool:
    """Whether an error of this status says in these words that the request is too long for the model."""
    return status in STATUSES and _WORDS.search(words[:SEARCHED]) is not None
