"""How commands, settings and answers travel between Holdfast's Ray processes of one build: as bytes that are never stored.

Ray pickles values of unknown classes in Python, anew for each argument; it only copies bytes.
"""

import functools
import hashlib
import pickle
from typing import Any

from holdfast.errors import OtherBuild

from .build import this_release

_MARK_BYTES = 8


def pack(value: Any) -> bytes:
    """The value as bytes, behind the mark of this build; all its classes must be importable."""
    return _mark() + pickle.dumps(value, protocol=5)


def unpack(data: bytes) -> Any:
    """The value that `pack` was given; `OtherBuild`, before anything is read, if the bytes come from another build."""
    if data[:_MARK_BYTES] != _mark():
        raise OtherBuild(this_release())
    return pickle.loads(data[_MARK_BYTES:])  # noqa: S301 - Ray itself unpickles what its callers send


@functools.cache
def _mark() -> bytes:
    return hashlib.sha256(this_release().encode()).digest()[:_MARK_BYTES]
