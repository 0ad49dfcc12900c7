"""A Redis URL as it may be shown."""

from holdfast.conversation.redaction import HIDDEN, PLAIN


def masked(url: str) -> str:
    """The URL without user and password."""
    return PLAIN.redacted(url)


def to_copy(url: str) -> str:
    """The URL as it stands in a command that is to be copied; capital words are for the person to replace."""
    return masked(url).replace(f"://{HIDDEN}@", "://USER:PASSWORD@").replace(f"={HIDDEN}", "=PASSWORD")
