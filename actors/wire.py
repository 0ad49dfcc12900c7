"""How commands, effects, settings and answers travel between our own Ray processes: as bytes, between processes of one build.

Ray pickles by value what it does not know, in Python and for each argument anew; bytes it only copies. Nothing of this is ever
stored.
"""

import functools
import hashlib
import pickle
from typing import Any

from holdfast.errors import OtherBuild

from .build import this_release

_MARK_BYTES = 8


def pack(value: Any) -> bytes:
    """The value as bytes, behind the mark of this build; it and everything in it is of an importable class."""
    return _mark() + pickle.dumps(value, protocol=5)


def unpack(data: bytes) -> Any:
    """The value of `pack`. Another build's is refused before anything of it is read.

    Raises:
        OtherBuild: It comes from another build.
    """
    if data[:_MARK_BYTES] != _mark():
        raise OtherBuild(this_release())
    return pickle.loads(data[_MARK_BYTES:])  # noqa: S301 - it comes over Ray, which pickles by itself: who can call us can do worse


@functools.cache
def _mark() -> bytes:
    return hashlib.sha256(this_release().encode()).digest()[:_MARK_BYTES]
