"""JSON as the server writes it."""

import json
from typing import Any


def as_json(value: Any) -> bytes:
    """The compact JSON text of plain values on one line, in UTF-8; a lone surrogate becomes a question mark."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode("utf-8", "replace")
