"""What models take, by the table that litellm carries. The table is a file, and litellm itself is not imported."""

import importlib.util
import json
from functools import cache
from pathlib import Path
from typing import Any

_FILE = "model_prices_and_context_window_backup.json"
_VERTEX = "vertex_ai"
"""The provider whose models the table sorts by their makers (`vertex_ai-language-models`)."""


def window_tokens(model: str) -> int | None:
    """How many tokens a request to a model may have, of a model as litellm names it; None if the table does not know it."""
    for entry in _entries(model):
        tokens = entry.get("max_input_tokens") or entry.get("max_tokens")
        if isinstance(tokens, int) and not isinstance(tokens, bool) and tokens > 0:
            return tokens
    return None


def provider(model: str) -> str:
    """The provider of a model, by its name or, of one without a provider in it, by the table; '' if unknown."""
    named, slash, _ = model.partition("/")
    found = named if slash else next((str(entry.get("litellm_provider", "")) for entry in _entries(model)), "")
    return _VERTEX if found.startswith(f"{_VERTEX}-") else found


def takes_no_images(model: str) -> bool:
    """Whether the table says that a model takes no images; it does not know every model."""
    return next((entry["supports_vision"] for entry in _entries(model) if "supports_vision" in entry), None) is False


def _entries(model: str) -> list[dict[str, Any]]:
    found = [_table().get(name) for name in (model, model.partition("/")[2])]
    return [entry for entry in found if isinstance(entry, dict)]


@cache
def _table() -> dict[str, Any]:
    found = importlib.util.find_spec("litellm")
    folder = next(iter(found.submodule_search_locations or ()), None) if found is not None else None
    try:
        table = json.loads(Path(folder, _FILE).read_bytes()) if folder is not None else {}
    except (OSError, ValueError):  # another release of litellm may keep it elsewhere: then the budget is to be given
        table = {}
    return table if isinstance(table, dict) else {}
