"""A cipher for tests: it scrambles payloads and binds them to their context, without a secret and without a library."""

import hashlib

_TAG_BYTES = 16
_MASK = 0x5A


class UnknownKey(Exception):
    """A payload was encrypted with a key that this cipher does not have."""


class Tampered(Exception):
    """A payload was changed, or moved from the place that it was encrypted for."""


class ToyCipher:
    """Scrambles payloads, with a key's name before each; it hides nothing from a reader of this file.

        store = RedisStore(url, cipher=ToyCipher("new", "old"))

    `key` names the key that encrypts, `older` further keys that decrypt.
    """

    def __init__(self, key: str = "key-1", *older: str) -> None:
        self.key = key
        self.known = {name.encode() for name in (key, *older)}

    def encrypt(self, data: bytes, context: bytes) -> bytes:
        """The scrambled payload, bound to its context."""
        return self.key.encode() + b"." + _tag(data, context) + bytes(byte ^ _MASK for byte in data)

    def decrypt(self, data: bytes, context: bytes) -> bytes:
        """The payload; `UnknownKey` if this cipher lacks its key, `Tampered` if it was changed or the context differs."""
        key, _, rest = data.partition(b".")
        if key not in self.known:
            raise UnknownKey(key.decode(errors="replace"))
        plain = bytes(byte ^ _MASK for byte in rest[_TAG_BYTES:])
        if rest[:_TAG_BYTES] != _tag(plain, context):
            message = "it was changed, or moved"
            raise Tampered(message)
        return plain


cipher = ToyCipher()
"""A cipher that a test's processes find by its import path, `toy_cipher:cipher`."""


def _tag(data: bytes, context: bytes) -> bytes:
    return hashlib.blake2b(data, key=hashlib.sha256(context).digest(), digest_size=_TAG_BYTES).digest()
