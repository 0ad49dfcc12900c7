"""The estimate of a text's tokens: three for ten bytes, and one."""

from . import jsontext


def text_tokens(text: str) -> int:
    """About how many tokens a text has."""
    return jsontext.size_bytes(text) * 3 // 10 + 1


def most_bytes(tokens: int) -> int:
    """The size in bytes of the longest text that has about so many tokens, at least 1."""
    return (tokens * 10 - 1) // 3
