"""A provider's word that a request has more tokens than its model takes. litellm knows the words of some; here are others."""

import re

SEARCHED = 4000
"""How many characters of an error are searched."""
REFUSED = 400
STATUSES = frozenset({REFUSED, 413, 422})
"""The statuses by which providers refuse a request for its length."""
FIX = "the request is longer than the model's context window: Agent(context=Context(...)) bounds what is sent"
_WORDS = re.compile(
    r"(?<![a-z]_)context[ _-](?:length|window|size|limit)"
    r"|maximum (?:prompt|context|input) (?:length|size|tokens)"
    r"|(?:prompt|input|request|conversation|messages)(?: tokens| messages?)? (?:is |are )?too long"
    r"|too many (?:input |prompt )?tokens"
    r"|reduce the (?:length|number of tokens|size) of (?:the |your )?(?:messages|prompt|input(?! image)|request|conversation)"
    r"|(?:input|prompt) (?:length|tokens?|token count)[^.;\n]{0,80}exceed"
    r"|exceeds? (?:the )?(?:maximum |max )?(?:number of |allowed )?(?:input |prompt |message )?tokens"
    r"|exceed(?:s|ed)? (?:the )?model(?:'s)? token limit"
    r"|prompt exceeds max(?:imum)? length"
    r"|(?:input|prompt) (?:text )?length should not exceed"
    r"|range of input length should be"
    r"|`?inputs`? (?:tokens \+ |must have less than )"
    r"|current length is \d{1,12} while limit is"
    r"|prompt: length(?! must be at least)"
    r"|tokens_limit_reached|max size: \d{1,12} tokens",
    re.IGNORECASE,
)
_OTHERWISE = re.compile(
    r"tokens? per[ _-](?:min|hour|day)|\btp[md]\b|rate[ _-]?limit|tokens, please wait"  # how many in a time
    r"|max_(?:\w{1,20}_)?tokens[`'\"]? exceeds (?:the )?(?:max|model)|maximum value for .?max_"  # how many in an answer
    r"|string too long\. expected a string with maximum length \d{1,5}\b",  # a field, and not what is said
    re.IGNORECASE,
)


def says_overflow(status: object, words: str, *, known: bool = False) -> bool:
    """Whether an error of this status says in these words that the request is too long for the model.

    `known`: litellm says so, which takes some other errors for that.
    """
    said = words[:SEARCHED]
    return (known or (status in STATUSES and _WORDS.search(said) is not None)) and _OTHERWISE.search(said) is None
