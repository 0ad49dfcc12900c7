"""How many tokens models take, by the table that litellm carries. The table is a file, and litellm itself is not imported."""

import importlib.util
import json
from functools import cache
from pathlib import Path
from typing import Any

_FILE = "model_prices_and_context_window_backup.json"


def window_tokens(model: str) -> int | None:
    """How many tokens a request to a model may have, of a model as litellm names it; None if the table does not know it."""
    table = _table()
    for name in (model, model.partition("/")[2]):
        entry = table.get(name)
        tokens = (entry.get("max_input_tokens") or entry.get("max_tokens")) if isinstance(entry, dict) else None
        if isinstance(tokens, int) and not isinstance(tokens, bool) and tokens > 0:
            return tokens
    return None


@cache
def _table() -> dict[str, Any]:
    found = importlib.util.find_spec("litellm")
    folder = next(iter(found.submodule_search_locations or ()), None) if found is not None else None
    try:
        table = json.loads(Path(folder, _FILE).read_bytes()) if folder is not None else {}
    except (OSError, ValueError):  # another release of litellm may keep it elsewhere: then the budget is to be given
        table = {}
    return table if isinstance(table, dict) else {}
