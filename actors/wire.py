"""How commands, effects, settings and answers travel between our own Ray processes: as bytes, between processes of one build.

Ray pickles values of classes that it does not know in Python, and for each argument anew; bytes it only copies. These bytes are
never stored.
"""

import functools
import hashlib
import pickle
from typing import Any

from holdfast.errors import OtherBuild

from .build import this_release

_MARK_BYTES = 8


def pack(value: Any) -> bytes:
    """The value as bytes, behind the mark of this build; the value and everything in it must be of importable classes."""
    return _mark() + pickle.dumps(value, protocol=5)


def unpack(data: bytes) -> Any:
    """The value that `pack` was given. Bytes of another build are refused before anything of them is read.

    Raises:
        OtherBuild: The bytes come from another build.
    """
    if data[:_MARK_BYTES] != _mark():
        raise OtherBuild(this_release())
    return pickle.loads(data[_MARK_BYTES:])  # noqa: S301 - the bytes come over Ray, which pickles by itself: its callers can do worse


@functools.cache
def _mark() -> bytes:
    return hashlib.sha256(this_release().encode()).digest()[:_MARK_BYTES]
