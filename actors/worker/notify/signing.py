"""Signatures of webhooks, as standard-webhooks.com says: HMAC-SHA-256 over id, time and body."""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Sequence

PREFIX = "whsec_"
SHORTEST, LONGEST = 24, 64
"""How many bytes a secret has."""


def secrets_in(text: str) -> tuple[bytes, ...]:
    """The secrets in the text of an environment variable, which spaces separate: each signs, so that one can follow another.

    Raises:
        ValueError: The text has no secret, or one that is none. The message does not show it.
    """
    found = tuple(map(_secret, text.split()))
    if not found:
        raise ValueError("it is empty")
    return found


def _secret(text: str) -> bytes:
    if not text.startswith(PREFIX):
        raise ValueError(f"a secret begins with {PREFIX}")
    try:
        secret = base64.b64decode(text.removeprefix(PREFIX), validate=True)
    except (binascii.Error, ValueError):
        raise ValueError(f"what follows {PREFIX} is no base64") from None
    if not SHORTEST <= len(secret) <= LONGEST:
        raise ValueError(f"a secret has {SHORTEST} to {LONGEST} bytes, and this one has {len(secret)}")
    return secret


def signed(message_id: str, at_s: int, body: bytes, secrets: Sequence[bytes]) -> dict[str, str]:
    """The headers that sign a body: its receiver recognises a repetition by the id, and refuses an old time."""
    content = b".".join((message_id.encode(), str(at_s).encode(), body))
    made = (base64.b64encode(hmac.digest(secret, content, hashlib.sha256)).decode() for secret in secrets)
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(at_s),
        "webhook-signature": " ".join(f"v1,{signature}" for signature in made),
    }
