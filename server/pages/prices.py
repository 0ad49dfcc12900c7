"""The cost of a conversation's tokens, by litellm's price list, which is read without importing litellm."""

import json
import logging
from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

LIST = "model_prices_and_context_window_backup.json"
"""The price list in litellm's package, as of its release."""

logger = logging.getLogger("holdfast.server")


def cost_usd(model: str, sent: int, received: int) -> float | None:
    """The cost of `sent` and `received` tokens in US dollars, without discounts for caches and batches; None if not listed.

    `model` is named as in litellm, with or without its provider.
    """
    prices = _prices()
    found = prices.get(model) or prices.get(model.partition("/")[2])
    try:
        return float(found["input_cost_per_token"]) * sent + float(found["output_cost_per_token"]) * received if found else None
    except (KeyError, TypeError, ValueError):  # priced by the second, or by the picture
        return None


@cache
def _prices() -> Mapping[str, Any]:
    spec = find_spec("litellm")
    try:
        found = json.loads((Path(str(spec and spec.origin)).parent / LIST).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:  # a later litellm may keep it elsewhere: then no cost is shown
        logger.info("no price list was found: %s", type(error).__name__)
        return {}
    return found if isinstance(found, dict) else {}
