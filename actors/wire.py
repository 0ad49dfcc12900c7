"""How commands, effects and their answers travel between our own Ray processes: each call takes one `bytes` and returns one.

Ray pickles by value what it does not know, in Python and for each argument anew; bytes it only copies. Nothing of this is ever
stored.
"""

import pickle
from typing import Any


def pack(value: Any) -> bytes:
    """The value as bytes; it and everything in it is of an importable class."""
    return pickle.dumps(value, protocol=5)


def unpack(data: bytes) -> Any:
    """The value of `pack`."""
    return pickle.loads(data)  # noqa: S301 - it comes over Ray, which pickles by itself: who can call us can do worse
